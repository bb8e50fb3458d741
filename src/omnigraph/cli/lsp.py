"""`omnigraph lsp`: the language server for editors."""

from collections.abc import Callable
from pathlib import Path

import click

import omnigraph
from omnigraph.cli.input_files import read_source
from omnigraph.cli.options import (
    branch_option,
    graph_option,
    is_server_typed,
    json_option,
    open_selected_graph,
    refuse,
    server_option,
)
from omnigraph.lang.source import Source


@click.command("lsp")
@click.argument("uri", metavar="[GRAPH]", required=False)
@click.option("--schema", metavar="FILE", help="A schema file (.pg) for all queries.")
@server_option
@graph_option
@branch_option
@json_option
def command(
    *,
    uri: str | None,
    schema: str | None,
    branch: str,
    as_json: bool,  # noqa: ARG001 - only errors are printed, and `main` prints them
) -> int:
    """Serve an editor: diagnostics, completion, rename for .pg and .gq.

    An editor's language client starts this command and speaks to it on stdin and stdout. Queries are checked against
    the nearest .pg file: that of their directory, or of one above it in the workspace. A schema file or a graph that is
    named here, or in the editor's settings (`schema`, `branch`), is used for all of them instead.
    """
    has_graph = uri is not None or is_server_typed()
    if schema is not None and has_graph:
        refuse("queries are checked against one schema: give either the graph or --schema")
    return omnigraph.serve_lsp(_build_reader(uri, schema, branch) if has_graph or schema is not None else None)


def _build_reader(uri: str | None, schema: str | None, branch: str) -> Path | Callable[[], Source]:
    """Return what reads the schema, which has to be there when the command starts."""
    if schema is not None:
        read_source(schema)
        return Path(schema).absolute()
    graph = open_selected_graph(uri, None, read_only=True)
    return lambda: Source(graph.accepted_schema(branch=branch).source, f"schema of {graph.uri}")
