"""`omnigraph spark`: query a graph with Spark."""

from datetime import datetime

import click

import omnigraph
from omnigraph.cli.input_files import STDIN, read_source
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
from omnigraph.cli.result_formats import resolve_format, result_options, write_result


@click.command("sql")
@click.argument("statement")
@click.argument("uri", required=False)
@store_option
@branch_option
@snapshot_option
@at_option
@master_option
@result_options
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
    """Run a SQL statement on a graph with Spark.

    Every node and edge type is a table with the columns `id`, `src` and `dst` (edges only) and the properties. All
    tables show one state: the newest, unless a commit or a time is given. `-` reads the statement from stdin.
    """
    refuse_two_states(commit_id, at)
    output_format = resolve_format(format_, output, as_json=as_json)
    text = read_source(STDIN).text if statement == STDIN else statement
    graph = omnigraph.open_graph(resolve_store_uri(uri, store), read_only=True)
    result = graph.sql(text, branch=branch, snapshot=commit_id, at=at, engine="spark", master=master)
    write_result(result, output_format, output, as_json=as_json)
    return 0
