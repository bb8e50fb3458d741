"""`omnigraph explain`: show query plans."""

from datetime import datetime

import click

from omnigraph.cli.input_files import STDIN, read_source
from omnigraph.cli.options import (
    cypher_option,
    json_option,
    open_selected_graph,
    parse_params,
    query_engine_option,
    read_cypher,
    read_options,
    read_query,
    refuse,
    refuse_two_states,
    split_cypher_uri,
    split_name_and_uri,
)
from omnigraph.cli.render import print_json, print_text
from omnigraph.lang.source import Source
from omnigraph.ops.select_query import choose_query
from omnigraph.query.bind import bind_query
from omnigraph.query.explain import explain
from omnigraph.query.rules import rewrite
from omnigraph.schema.bind import load_schema


@click.command("explain")
@read_options
@query_engine_option
@cypher_option
@click.option("--analyze", is_flag=True, help="Run the query, and show the actual rows and time of each step.")
@click.option("--schema", metavar="FILE", help="A schema file (.pg) instead of a graph; shows only the logical plan.")
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
    analyze: bool,
    cypher: str | None,
    schema: str | None,
    as_json: bool,
) -> int:
    """Show the plan of a query.

    Shows the steps of the plan on a graph: how rows are found, and the estimated number of rows; with --analyze also
    the actual number and the time. With a schema file instead of a graph, shows the logical plan of a query or
    mutation.

    NAME selects one query of the file; it can be omitted if there is only one. A single word is the URI, unless the
    graph is given otherwise: then it is the NAME. `-` reads a file from stdin.
    """
    if schema is not None:
        graph_only = (cypher, params, pairs or None, commit_id, at, seconds, memory_bytes, analyze or None)
        if any(option is not None for option in graph_only):
            refuse(
                "--cypher, parameters, --snapshot, --at, limits and --analyze need a graph: name it instead of --schema"
            )
        if len(words) > 1:
            refuse("give either a graph or --schema")
        if path == STDIN and schema == STDIN:
            refuse("stdin can be the schema or the queries, not both")
        name = words[0] if words else None
        query_name, plan_text = _build_logical_plan(name, read_query(path, text), read_source(schema))
        document: dict[str, object] = {"query_name": query_name, "plan": plan_text}
    else:
        refuse_two_states(commit_id, at)
        if cypher is None:
            name, uri = split_name_and_uri(words, store)
            source = read_query(path, text)
        else:
            name, uri = None, split_cypher_uri(words)
            source = Source(read_cypher(cypher, path, text), "statement.cypher")
        graph = open_selected_graph(uri, store, read_only=True)
        explained = graph.explain(
            source,
            name=name,
            params=parse_params(params, pairs),
            branch=branch,
            snapshot=commit_id,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
            engine=engine,
            analyze=analyze,
            cypher=cypher is not None,
        )
        document = explained.to_json()
        plan_text = explained.text
    if as_json:
        print_json(document)
    else:
        print_text(plan_text.rstrip("\n") + "\n")
    return 0


def _build_logical_plan(name: str | None, source: Source, schema: Source) -> tuple[str, str]:
    """Return the name of the selected query, and its logical plan."""
    catalog = load_schema(schema)
    query = choose_query(source, name)
    bound = bind_query(query, catalog).require(source)
    assert bound is not None  # noqa: S101 - `require` raises if the query has errors
    return bound.name, explain(rewrite(bound))
