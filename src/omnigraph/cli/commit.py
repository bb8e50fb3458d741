"""`omnigraph commit`: the group."""

from omnigraph.cli.lazy_groups import Lazy, LazyGroup

group = LazyGroup(
    "commit",
    help="Read the history of a graph.",
    lazy={
        "list": Lazy("omnigraph.cli.commit_list:command", "List the commits of a graph, newest first."),
        "show": Lazy("omnigraph.cli.commit_show:command", "Show one commit, and what it changed."),
    },
)
