"""`omnigraph init`: create a graph, empty or of files."""

from typing import TYPE_CHECKING, BinaryIO, cast

import click

import omnigraph
from omnigraph.cli.file_options import build_file_options, file_options, parse_typed_paths, print_findings
from omnigraph.cli.input_files import read_source
from omnigraph.cli.options import choose_actor, json_option, refuse
from omnigraph.cli.render import format_count, print_json, print_text
from omnigraph.cli.schema_warnings import warn_misspelt_annotations
from omnigraph.lang.lexer import reveal
from omnigraph.lang.source import Source

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.ops.import_files import FileOptions, InferredSchema


@click.command("init")
@click.argument("uri")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--schema", metavar="FILE", help="The schema file (.pg).")
@click.option("--from", "sources", multiple=True, metavar="FILE...", help="Infer the schema from files, and load them.")
@click.option("--node", "nodes", multiple=True, metavar="TYPE=FILE", help="With --from: a file of this node type.")
@click.option("--edge", "edges", multiple=True, metavar="TYPE=FILE", help="With --from: a file of this edge type.")
@click.option("--key", "keys", multiple=True, metavar="TYPE=COLUMN", help="With --from: a column of the key of a type.")
@click.option("--enums", is_flag=True, help="With --from: make columns with few texts enums.")
@file_options
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commits.")
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str,
    files: tuple[str, ...],
    schema: str | None,
    sources: tuple[str, ...],
    nodes: tuple[str, ...],
    edges: tuple[str, ...],
    keys: tuple[str, ...],
    enums: bool,
    actor: str,
    as_json: bool,
    **values: object,
) -> int:
    """Create a new graph: empty, with a schema, or from files.

    URI is a directory or s3://bucket/prefix, and must be empty or not exist yet. The graph is created completely or
    not at all. `-` reads the schema from stdin. With --from, the schema is inferred from the files, as `omnigraph
    schema infer` does, and the files are loaded in a second commit.
    """
    if bool(sources or nodes or edges) == (schema is not None):
        refuse("give either --schema FILE, or --from and files")
    if files and not sources:
        refuse("files follow --from")
    if keys and schema is not None:
        refuse("--key is for files: a schema says its keys itself")
    actor = choose_actor(actor)
    loaded = ""
    if schema is not None:
        source = read_source(schema)
        graph = omnigraph.create_graph(uri, source, actor=actor)
    else:
        options = build_file_options(values)
        inferred = omnigraph.infer_schema(
            (*sources, *files),
            nodes=parse_typed_paths("--node", nodes),
            edges=parse_typed_paths("--edge", edges),
            keys=parse_typed_paths("--key", keys, "COLUMN"),
            enums=enums,
            options=options,
        )
        print_findings(inferred)
        source = Source(inferred.source, "inferred.pg")
        graph = omnigraph.create_graph(uri, source, actor=actor)
        loaded = _load_files(graph, inferred, options, actor)
    snapshot = graph.snapshot()
    if as_json:
        print_json({"uri": graph.uri, **snapshot.to_json()})
    else:
        warn_misspelt_annotations(source)
        kinds = [key.partition(":")[0] for key in snapshot.pins]
        types = f"{format_count(kinds.count('node'), 'node type')}, {format_count(kinds.count('edge'), 'edge type')}"
        print_text(f"created {reveal(graph.uri)}: {types}\n{loaded}commit {snapshot.commit.id}\n")
    return 0


def _load_files(graph: "Graph", inferred: "InferredSchema", options: "FileOptions", actor: str) -> str:
    """Load the files of an inferred schema; return a line about it."""
    paths = dict.fromkeys((*(mapping.file for mapping in inferred.mappings), *inferred.headers))
    streams = omnigraph.read_files(paths, inferred.source, mapping=inferred.mapping, options=options)
    result = graph.load(cast("list[BinaryIO]", streams), mode="append", actor=actor, message="the files of the schema")
    counts = (*result.nodes.items(), *result.edges.items())
    return f"loaded {', '.join(f'{name} {numbers.read:,}' for name, numbers in counts)}\n" if counts else ""
