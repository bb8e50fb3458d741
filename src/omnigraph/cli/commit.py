"""`omnigraph commit`: the group."""

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup

group = LazyGroup(
    "commit",
    help="Read the history of a graph.",
    lazy={
        "list": LazyCommand("omnigraph.cli.commit_list:command", "List the commits of a graph, newest first."),
        "show": LazyCommand("omnigraph.cli.commit_show:command", "Show one commit, and what it changed."),
    },
)
