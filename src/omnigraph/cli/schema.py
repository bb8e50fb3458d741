"""`omnigraph schema`: the group."""

from omnigraph.cli.lazy import Lazy, LazyGroup

group = LazyGroup(
    "schema",
    help="Work with schemas.",
    lazy={
        "apply": Lazy("omnigraph.cli.schema_apply:command", "Change a graph's schema."),
        "plan": Lazy("omnigraph.cli.schema_plan:command", "Show what it takes to get from one schema to another."),
        "show": Lazy("omnigraph.cli.schema_show:command", "Print a graph's schema."),
    },
)
