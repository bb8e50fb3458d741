"""`omnigraph explain`."""

import click

from omnigraph.cli.options import json_option
from omnigraph.cli.render import print_json, print_text
from omnigraph.cli.sources import STDIN, read_source
from omnigraph.errors import QueryMissingError
from omnigraph.lang.query_ast import Query, QueryFile
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.lang.suggest import closest
from omnigraph.query.bind import bind_query
from omnigraph.query.explain import explain
from omnigraph.query.rules import rewrite
from omnigraph.schema.bind import bind_schema


@click.command("explain")
@click.argument("name", required=False)
@click.option("--query", "path", metavar="FILE", help="The query file (.gq).")
@click.option("-e", "text", metavar="TEXT", help="The query itself, instead of a file.")
@click.option("--schema", required=True, metavar="FILE", help="The schema file (.pg).")
@json_option
def command(name: str | None, path: str | None, text: str | None, schema: str, as_json: bool) -> int:
    """Show the logical plan of a query.

    NAME picks one query of the file and may be left out when there is only one. `-` is stdin.
    """
    context = click.get_current_context()
    if (path is None) == (text is None):
        message = "name the query with either --query FILE or -e TEXT"
        raise click.UsageError(message, context)
    if path == STDIN and schema == STDIN:
        message = "stdin can be the schema or the queries, not both"
        raise click.UsageError(message, context)
    schema_source = read_source(schema)
    source = Source(text, "<-e>") if text is not None else read_source(path or STDIN)

    catalog = bind_schema(parse_schema(schema_source).require(schema_source)).require(schema_source)
    chosen = _choose(parse_queries(source).require(source), name, source, context)
    bound = bind_query(chosen, catalog).require(source)
    if bound is None:
        message = f"query `{chosen.name.text}` has no errors and no plan"
        raise AssertionError(message)
    plan = explain(rewrite(bound))
    if as_json:
        print_json({"query_name": chosen.name.text, "plan": plan})
    else:
        print_text(plan.rstrip("\n") + "\n")
    return 0


def _choose(file: QueryFile, name: str | None, source: Source, context: click.Context) -> Query:
    names = [query.name.text for query in file.queries]
    if name is None and len(names) > 1:
        message = f"`{source.name}` has {len(names)} queries; name one: {', '.join(names)}"
        raise click.UsageError(message, context)
    for query in file.queries:
        if name in (None, query.name.text):
            return query
    raise QueryMissingError(name or "", source.name, closest(name or "", names))
