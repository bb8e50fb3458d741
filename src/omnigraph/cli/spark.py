"""`omnigraph spark`: query a graph with Spark."""

from datetime import datetime

import click

import omnigraph
from omnigraph.cli.input_files import STDIN, read_source
from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup
from omnigraph.cli.options import (
    at_option,
    branch_option,
    json_option,
    master_option,
    refuse_two_states,
    resolve_store_uri,
    snapshot_option,
    store_option,
)
from omnigraph.cli.result_formats import FORMATS, resolve_format, write_result

group = LazyGroup(
    "spark",
    help="Ask a graph on Spark.",
    lazy={"sql": LazyCommand("omnigraph.cli.spark:sql", "Ask a graph by a SQL statement, on Spark.")},
)


@click.command("sql")
@click.argument("statement")
@click.argument("uri", required=False)
@store_option
@branch_option
@snapshot_option
@at_option
@master_option
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="What to print; a table unless --output says more."
)
@click.option("--output", metavar="FILE", help="Write the rows to a file; its name may say the format.")
@json_option
def sql(  # noqa: PLR0913 - one argument per option
    *,
    statement: str,
    uri: str | None,
    store: str | None,
    branch: str,
    commit_id: str | None,
    at: datetime | None,
    master: str | None,
    format_: str | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Ask a graph by a SQL statement, on Spark.

    Every node and edge type is a table: `id`, for an edge `src` and `dst`, and the properties. All tables are of one
    state: the newest, unless a commit or a time is named. `-` as the statement is stdin.
    """
    refuse_two_states(commit_id, at)
    chosen = resolve_format(format_, output, as_json=as_json)
    text = read_source(STDIN).text if statement == STDIN else statement
    graph = omnigraph.open_graph(resolve_store_uri(uri, store), read_only=True)
    result = graph.sql(text, branch=branch, snapshot=commit_id, at=at, master=master)
    write_result(result, chosen, output, as_json=as_json)
    return 0
