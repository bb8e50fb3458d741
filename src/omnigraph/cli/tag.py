"""`omnigraph tag`: the group."""

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup

group = LazyGroup(
    "tag",
    help="Name states, which cleanup then keeps.",
    lazy={
        "create": LazyCommand("omnigraph.cli.tag_create:command", "Name a state: a branch's newest, a commit, a time."),
        "delete": LazyCommand("omnigraph.cli.tag_delete:command", "Delete a tag; its commit may be cleaned up then."),
        "list": LazyCommand("omnigraph.cli.tag_list:command", "List the tags of a graph."),
    },
)
