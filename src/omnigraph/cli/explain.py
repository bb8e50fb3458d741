"""`omnigraph explain`."""

from datetime import datetime

import click

from omnigraph.cli.input_files import STDIN, read_source
from omnigraph.cli.options import (
    json_option,
    open_selected_graph,
    parse_params,
    read_options,
    read_query,
    refuse,
    refuse_two_states,
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
@click.option("--analyze", is_flag=True, help="Run the query, and show what each step really did.")
@click.option("--schema", metavar="FILE", help="A schema file (.pg) instead of a graph: only the logical plan.")
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
    analyze: bool,
    schema: str | None,
    as_json: bool,
) -> int:
    """Show how a query is run.

    The steps of its plan on a graph: how rows are found, and how many are expected; with --analyze also how many there
    were, and how long it took. Without a graph, for a schema file, it is the logical plan of a query or mutation.

    NAME picks one query of the file and may be left out when there is only one. A single word is the URI, unless the
    graph is named otherwise: then it is the NAME. `-` as a file is stdin.
    """
    if schema is not None:
        given = (params, pairs or None, commit_id, at, seconds, memory_bytes, analyze or None)
        if any(one is not None for one in given):
            refuse("a schema has no rows: leave --schema out, and name the graph")
        if len(words) > 1:
            refuse("give either a graph or --schema")
        if path == STDIN and schema == STDIN:
            refuse("stdin can be the schema or the queries, not both")
        name = words[0] if words else None
        plan = _build_logical_plan(name, read_query(path, text), read_source(schema))
        document: dict[str, object] = {"query_name": plan[0], "plan": plan[1]}
        shown = plan[1]
    else:
        refuse_two_states(commit_id, at)
        name, uri = split_name_and_uri(words, store)
        source = read_query(path, text)
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
            analyze=analyze,
        )
        document, shown = explained.to_json(), explained.text
    if as_json:
        print_json(document)
    else:
        print_text(shown.rstrip("\n") + "\n")
    return 0


def _build_logical_plan(name: str | None, source: Source, schema: Source) -> tuple[str, str]:
    """The name of the chosen query, and its plan."""
    catalog = load_schema(schema)
    chosen = choose_query(source, name)
    bound = bind_query(chosen, catalog).require(source)
    assert bound is not None  # noqa: S101 - without a mistake there is a query
    return bound.name, explain(rewrite(bound))
