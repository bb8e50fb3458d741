"""`omnigraph spark`: the group."""

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup

group = LazyGroup(
    "spark",
    help="Ask a graph on Spark.",
    lazy={"sql": LazyCommand("omnigraph.cli.spark_sql:command", "Ask a graph by a SQL statement, on Spark.")},
)
