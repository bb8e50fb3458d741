"""`omnigraph token`: the group."""

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup

group = LazyGroup(
    "token",
    help="Make tokens for a server.",
    lazy={"new": LazyCommand("omnigraph.cli.token_new:command", "Make a token for an actor.")},
)
