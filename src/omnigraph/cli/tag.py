"""`omnigraph tag`: the group."""

from omnigraph.cli.lazy_groups import Lazy, LazyGroup

group = LazyGroup(
    "tag",
    help="Name states, which cleanup then keeps.",
    lazy={
        "create": Lazy("omnigraph.cli.tag_create:command", "Name a state: a branch's newest, a commit, a time."),
        "delete": Lazy("omnigraph.cli.tag_delete:command", "Delete a tag; its commit may be cleaned up then."),
        "list": Lazy("omnigraph.cli.tag_list:command", "List the tags of a graph."),
    },
)
