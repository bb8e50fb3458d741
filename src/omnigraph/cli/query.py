"""`omnigraph query`: run a query."""

from datetime import datetime
from functools import partial

import click

from omnigraph.cli.options import (
    cypher_option,
    json_option,
    master_option,
    open_selected_graph,
    parse_params,
    read_cypher,
    read_options,
    read_query,
    refuse,
    refuse_two_states,
    spark_query_engine_option,
    split_cypher_uri,
    split_name_and_uri,
)
from omnigraph.cli.progress import show_query_progress
from omnigraph.cli.result_formats import resolve_format, result_options, write_result


@click.command("query")
@read_options
@cypher_option
@click.option("--strict", is_flag=True, help="With --cypher: unknown labels and properties are errors.")
@spark_query_engine_option
@master_option
@result_options
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
    engine: str,
    master: str | None,
    cypher: str | None,
    strict: bool,
    format_: str | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Run a query on a graph.

    NAME selects one query of the file; it can be omitted if there is only one. A single word is the URI, unless the
    graph is given by --store or OMNIGRAPH_STORE: then it is the NAME. `-` reads the queries from stdin.

    --cypher runs a statement of Cypher instead, such as 'MATCH (p:Person) RETURN p.name LIMIT 25'.

    A query reads one state: the newest, unless a commit or a time is given. table shows the first 1,000 rows, kv
    every value in full; the other formats contain all rows for programs. arrow is the Arrow stream format on stdout,
    and the Arrow file format in a file.
    """
    if cypher is None:
        if strict:
            refuse("--strict is for --cypher")
        name, uri = split_name_and_uri(words, store)
        source, statement = read_query(path, text), ""
    else:
        name, uri, source = None, split_cypher_uri(words), None
        statement = read_cypher(cypher, path, text)
    refuse_two_states(commit_id, at)
    output_format = resolve_format(format_, output, as_json=as_json)
    # The options are checked first, so that mistakes are reported before the graph is opened.
    if master is not None and engine != "spark":
        refuse("--master is for Spark: give --engine spark, too")
    graph = open_selected_graph(uri, store, read_only=True)
    with show_query_progress() as progress:
        run = partial(graph.cypher, statement, strict=strict)
        if source is not None:
            run = partial(graph.query, source, name=name)
        result = run(
            params=parse_params(params, pairs),
            branch=branch,
            snapshot=commit_id,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
            engine=engine,
            master=master,
            progress=progress,
        )
    write_result(result, output_format, output, as_json=as_json)
    return 0
