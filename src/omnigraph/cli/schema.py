"""`omnigraph schema`: the group."""

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup

group = LazyGroup(
    "schema",
    help="Work with schemas.",
    lazy={
        "apply": LazyCommand(
            "omnigraph.cli.schema_apply:command",
            "Change a graph's schema, with all that follows for its tables, in one commit.",
        ),
        "plan": LazyCommand(
            "omnigraph.cli.schema_plan:command",
            "Show what it takes to get from one schema to another: a graph's, or one in a file.",
        ),
        "show": LazyCommand(
            "omnigraph.cli.schema_show:command", "Print the schema that a graph has, as it was written."
        ),
    },
)
