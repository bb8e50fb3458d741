"""`omnigraph query`."""

from datetime import datetime

import click

from omnigraph.cli.options import (
    json_option,
    open_selected_graph,
    parse_params,
    read_options,
    read_query,
    refuse_two_states,
    split_name_and_uri,
)
from omnigraph.cli.result_formats import FORMATS, resolve_format, write_result


@click.command("query")
@read_options
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="What to print; a table unless --output says more."
)
@click.option("--output", metavar="FILE", help="Write the rows to a file; its name may say the format.")
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    words: tuple[str, ...],
    store: str | None,
    path: str | None,
    text: str | None,
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
    """Ask a graph by a query.

    NAME picks one query of the file and may be left out when there is only one. A single word is the URI, unless the
    graph is named by --store or its variable: then it is the NAME. `-` as the file is stdin.

    A query reads one state: the newest, unless a commit or a time is named. A table shows the first 1,000 rows, and
    kv every value in full; the other formats have all rows for programs. arrow is Arrow's stream format on stdout, and
    its file format in a file.
    """
    name, uri = split_name_and_uri(words, store)
    source = read_query(path, text)
    refuse_two_states(commit_id, at)
    chosen = resolve_format(format_, output, as_json=as_json)
    graph = open_selected_graph(uri, store, read_only=True)
    result = graph.query(
        source,
        name=name,
        params=parse_params(params, pairs),
        branch=branch,
        snapshot=commit_id,
        at=at,
        seconds=seconds,
        memory_bytes=memory_bytes,
    )
    write_result(result, chosen, output, as_json=as_json)
    return 0
