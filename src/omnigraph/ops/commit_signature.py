"""Validate what a caller signs a commit with: the actor, the message and the idempotency key."""

import unicodedata

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.argument_checks import check_text

# Reserved for the engine's own actors, such as `omnigraph:recovery`.
ENGINE_PREFIX = "omnigraph:"
# These texts are stored in the journal, which every reader of the graph reads.
MAX_BYTES = {"actor": 256, "message": 16_384, "idempotency key": 1_024}


class ActorRefusedError(OmnigraphError):
    """The name can't be an actor: it is empty, has control characters, or is reserved for the engine."""

    kind = Kind.USAGE
    code = "actor_refused"
    actor: str

    def __str__(self) -> str:
        return (
            f"`{self.actor}` can't sign a commit: an actor must not be empty, contain control characters or start with"
            f" `{ENGINE_PREFIX}`"
        )


class CommitTextTooLongError(OmnigraphError):
    """An actor, message or idempotency key exceeds its maximum length."""

    kind = Kind.INVALID
    code = "commit_text_too_long"
    what: str
    size: int
    limit: int
    message = "the {what} has {size} bytes, but a commit stores at most {limit}; shorten it"


def check_actor(actor: str) -> None:
    """Check that a name may be used as an actor.

    Raises:
        ActorRefusedError: It is empty, reserved, or has control characters.
        CommitTextTooLongError: It is too long.
    """
    check_text("actor", actor)
    if (
        not actor.strip()
        or actor.startswith(ENGINE_PREFIX)
        or any(unicodedata.category(letter) == "Cc" for letter in actor)
    ):
        raise ActorRefusedError(actor)
    _check_length("actor", actor)


def check_signature(actor: str, message: str | None, idempotency_key: str | None) -> None:
    """Check actor, message and idempotency key.

    Raises:
        ActorRefusedError, BadArgumentError, CommitTextTooLongError: One of them is invalid.
    """
    check_actor(actor)
    for argument, text in (("message", message), ("idempotency_key", idempotency_key)):
        if text is not None:
            check_text(argument, text)
    _check_length("message", message)
    _check_length("idempotency key", idempotency_key)


def _check_length(what: str, text: str | None) -> None:
    # Strict encoding fails for a lone surrogate, but only the length matters here.
    size = len((text or "").encode(errors="surrogatepass"))
    limit = MAX_BYTES[what]
    if size > limit:
        raise CommitTextTooLongError(what, size, limit)
