"""What a caller writes onto a commit: who it is by, a message, a key. Every reader of a graph reads these too."""

import unicodedata

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.argument_checks import check_text

ENGINE_PREFIX = "omnigraph:"
"""What the engine's own actors start with, such as `omnigraph:recovery`."""
MAX_BYTES = {"actor": 256, "message": 16_384, "idempotency key": 1_024}


class ActorRefusedError(OmnigraphError):
    """A name that nobody may sign with: it is empty, has control characters, or is the engine's own."""

    kind = Kind.USAGE
    code = "actor_refused"

    def __init__(self, actor: str) -> None:
        super().__init__(actor)
        self.actor = actor

    def __str__(self) -> str:
        return (
            f"`{self.actor}` can't sign a commit: a name is not empty, has no control characters and does not start"
            f" with `{ENGINE_PREFIX}`"
        )


class CommitTextTooLongError(OmnigraphError):
    """An actor, message or idempotency key is longer than a commit keeps."""

    kind = Kind.INVALID
    code = "commit_text_too_long"

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(what, size, limit)
        self.what, self.size, self.limit = what, size, limit

    def __str__(self) -> str:
        return f"the {self.what} has {self.size} bytes, but a commit keeps at most {self.limit}; give a shorter one"


def check_actor(actor: str) -> None:
    """ActorRefusedError unless the name is free to use; CommitTextTooLongError when it is too long."""
    check_text("actor", actor)
    if (
        not actor.strip()
        or actor.startswith(ENGINE_PREFIX)
        or any(unicodedata.category(letter) == "Cc" for letter in actor)
    ):
        raise ActorRefusedError(actor)
    _check_length("actor", actor)


def check_signature(actor: str, message: str | None, idempotency_key: str | None) -> None:
    """What `check_actor` asks, and that message and key are not too long either."""
    check_actor(actor)
    for argument, text in (("message", message), ("idempotency_key", idempotency_key)):
        if text is not None:
            check_text(argument, text)
    _check_length("message", message)
    _check_length("idempotency key", idempotency_key)


def _check_length(what: str, text: str | None) -> None:
    size, limit = len((text or "").encode(errors="surrogatepass")), MAX_BYTES[what]
    if size > limit:
        raise CommitTextTooLongError(what, size, limit)
