"""`omnigraph schema`: the group."""

from omnigraph.cli.lazy import Lazy, LazyGroup

group = LazyGroup(
    "schema",
    help="Work with schemas.",
    lazy={"plan": Lazy("omnigraph.cli.schema_plan:command", "Show what it takes to get from one schema to another.")},
)
