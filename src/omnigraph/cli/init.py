"""`omnigraph init`: create a graph."""

import click

import omnigraph
from omnigraph.cli.input_files import read_source
from omnigraph.cli.options import json_option
from omnigraph.cli.render import format_count, print_json, print_text
from omnigraph.cli.schema_warnings import warn_misspelt_annotations
from omnigraph.lang.lexer import reveal


@click.command("init")
@click.argument("uri")
@click.option("--schema", required=True, metavar="FILE", help="The schema file (.pg).")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the first commit.")
@json_option
def command(uri: str, schema: str, actor: str, as_json: bool) -> int:
    """Create a new, empty graph.

    URI is a directory or s3://bucket/prefix, and must be empty or not exist yet. The graph is created completely or
    not at all. `-` reads the schema from stdin.
    """
    source = read_source(schema)
    graph = omnigraph.create_graph(uri, source, actor=actor)
    snapshot = graph.snapshot()
    if as_json:
        print_json({"uri": graph.uri, **snapshot.to_json()})
    else:
        warn_misspelt_annotations(source)
        kinds = [key.partition(":")[0] for key in snapshot.pins]
        types = f"{format_count(kinds.count('node'), 'node type')}, {format_count(kinds.count('edge'), 'edge type')}"
        print_text(f"created {reveal(graph.uri)}: {types}\ncommit {snapshot.commit.id}\n")
    return 0
