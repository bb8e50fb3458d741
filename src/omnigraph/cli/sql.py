"""`omnigraph sql`: run a SQL query."""

from datetime import datetime

import click

from omnigraph.cli.input_files import STDIN, read_source
from omnigraph.cli.options import (
    at_option,
    branch_option,
    graph_options,
    json_option,
    limit_options,
    open_selected_graph,
    param_option,
    params_option,
    parse_params,
    refuse,
    refuse_two_states,
    snapshot_option,
)
from omnigraph.cli.progress import show_query_progress
from omnigraph.cli.result_formats import resolve_format, result_options, write_result


@click.command("sql")
@click.argument("words", nargs=-1, metavar="[URI] STATEMENT")
@graph_options
@params_option
@param_option
@branch_option
@snapshot_option
@at_option
@limit_options
@result_options
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    words: tuple[str, ...],
    store: str | None,
    params: str | None,
    pairs: tuple[str, ...],
    branch: str,
    commit_id: str | None,
    at: datetime | None,
    seconds: float | None,
    memory_bytes: int | None,
    format_: str | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Run a SQL query on a graph.

    Every node and edge type is a table with the columns `id`, `src` and `dst` (edges only) and the properties. All
    tables show one state: the newest, unless a commit or a time is given. `$name` in the statement is the value of a
    parameter. `-` reads the statement from stdin. The formats are those of `omnigraph query`.
    """
    if not 1 <= len(words) <= 2:
        refuse("expected URI and STATEMENT, such as: omnigraph sql people.omni 'select * from Person'")
    uri, statement = words if len(words) == 2 else (None, words[0])
    refuse_two_states(commit_id, at)
    output_format = resolve_format(format_, output, as_json=as_json)
    text = read_source(STDIN).text if statement == STDIN else statement
    graph = open_selected_graph(uri, store, read_only=True)
    with show_query_progress() as progress:
        result = graph.sql(
            text,
            parse_params(params, pairs),
            branch=branch,
            snapshot=commit_id,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
            progress=progress,
        )
    write_result(result, output_format, output, as_json=as_json)
    return 0
