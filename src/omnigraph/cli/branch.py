"""`omnigraph branch`: the group."""

from omnigraph.cli.lazy_groups import Lazy, LazyGroup

group = LazyGroup(
    "branch",
    help="Make, list, merge and delete branches.",
    lazy={
        "create": Lazy("omnigraph.cli.branch_create:command", "Make a branch from any state of another."),
        "delete": Lazy("omnigraph.cli.branch_delete:command", "Delete a branch, with its commits."),
        "list": Lazy("omnigraph.cli.branch_list:command", "List the branches of a graph."),
        "merge": Lazy(
            "omnigraph.cli.branch_merge:command",
            "Bring to a branch what the branch SOURCE has done since the two parted.",
        ),
    },
)
