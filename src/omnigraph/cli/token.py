"""`omnigraph token`: the group."""

from omnigraph.cli.lazy_groups import Lazy, LazyGroup

group = LazyGroup(
    "token",
    help="Make tokens for a server.",
    lazy={"new": Lazy("omnigraph.cli.token_new:command", "Make a token for an actor.")},
)
