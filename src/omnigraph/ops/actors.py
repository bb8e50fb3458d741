"""Who a commit is by: any name, except those that omnigraph signs with itself."""

from omnigraph.errors import Kind, OmnigraphError

OWN = "omnigraph:"
"""What the engine's own actors start with, such as `omnigraph:recovery`."""


class ActorRefusedError(OmnigraphError):
    """A name that nobody may sign with: it is empty, or the engine's own."""

    kind = Kind.USAGE
    code = "actor_refused"

    def __init__(self, actor: str) -> None:
        super().__init__(actor)
        self.actor = actor

    def __str__(self) -> str:
        return f"`{self.actor}` can't sign a commit: a name is not empty and does not start with `{OWN}`"


def check_actor(actor: str) -> None:
    """ActorRefusedError unless the name is free to use."""
    if not actor.strip() or actor.startswith(OWN):
        raise ActorRefusedError(actor)
