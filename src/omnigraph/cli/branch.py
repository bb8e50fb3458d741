"""`omnigraph branch`: the group."""

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup

group = LazyGroup(
    "branch",
    help="Make, list, merge and delete branches.",
    lazy={
        "create": LazyCommand("omnigraph.cli.branch_create:command", "Make a branch from any state of another."),
        "delete": LazyCommand("omnigraph.cli.branch_delete:command", "Delete a branch, with its commits."),
        "list": LazyCommand("omnigraph.cli.branch_list:command", "List the branches of a graph."),
        "merge": LazyCommand(
            "omnigraph.cli.branch_merge:command",
            "Bring to a branch what the branch SOURCE has done since the two parted.",
        ),
    },
)
