"""`omnigraph lint`: check schema and query files."""

import sys
from collections.abc import Sequence
from pathlib import PurePath

import click
from click.core import ParameterSource

from omnigraph.cli.error_hints import is_graph
from omnigraph.cli.input_files import STDIN, find_language_files, read_source
from omnigraph.cli.options import (
    branch_option,
    color_option,
    graph_option,
    is_server_typed,
    json_option,
    open_selected_graph,
    refuse,
    server_option,
)
from omnigraph.cli.render import format_count, print_json, print_text, use_color
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json, render_text
from omnigraph.lang.source import Source
from omnigraph.query.static_checks import FileReport, check_queries, check_schema

_NO_SCHEMA = "no --schema was given: types, properties and edges of the queries were not checked"
_INVALID_SCHEMA = "the schema has errors: types, properties and edges of the queries were not checked"


@click.command("lint")
@click.option("--query", "queries", multiple=True, metavar="FILE", help="A query file (.gq); may be repeated.")
@click.option("--schema", "schemas", multiple=True, metavar="FILE", help="A schema file (.pg) for the queries.")
@click.argument("words", nargs=-1, metavar="[FILE]... [GRAPH]")
@server_option
@graph_option
@branch_option
@color_option
@json_option
def command(
    *,
    queries: tuple[str, ...],
    schemas: tuple[str, ...],
    words: tuple[str, ...],
    branch: str,
    color: str,
    as_json: bool,
) -> int:
    """Check schema and query files.

    Reports all errors of all files, and warnings for files without errors. Queries are checked against the schema;
    without one, only checks that need no schema are run. More files may follow the options (`--query queries/*.gq`):
    .pg is a schema, .gq contains queries, and a directory means all such files below it. `-` is stdin. A graph, in a
    store or on a server, gives its own schema to the queries; without queries, that schema itself is checked.

    Findings go to stdout. Exit code: 0 without errors (warnings are fine), 1 with errors, 4 if a file is missing.
    """
    uri, files = _split_graph(words)
    has_graph = uri is not None or is_server_typed()
    if not has_graph:
        _refuse_graph_options()
    schemas, queries = _collect_files(schemas, queries, files, has_graph=has_graph)
    schema_sources = [read_source(path) for path in schemas]
    query_sources = [read_source(path) for path in queries]
    if has_graph:
        graph = open_selected_graph(uri, None, read_only=True)
        schema_sources.append(Source(graph.accepted_schema(branch=branch).source, f"schema of {graph.uri}"))

    checked = [check_schema(source) for source in schema_sources]
    # `_collect_files` has rejected queries together with several schemas.
    catalog = checked[0][1] if len(checked) == 1 else None
    # The schema of a graph is in use: with queries, only they are what the user asks about.
    schema_reports = [] if has_graph and query_sources else [report for report, _ in checked]
    reports = schema_reports + [check_queries(source, catalog) for source in query_sources]

    note = None
    if query_sources and catalog is None:
        note = _INVALID_SCHEMA if checked else _NO_SCHEMA
    if as_json:
        print_json(_encode_reports(reports, note))
    else:
        print_text(_format_reports(reports, note, color=use_color(color, sys.stdout)))
    return 1 if any(report.errors for report in reports) else 0


def _refuse_graph_options() -> None:
    context = click.get_current_context()
    for name in ("graph", "branch"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            refuse(f"--{name} is for the schema of a graph: give the graph or --server URL, too")


def _split_graph(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Split the words of the call into the graph, if one of them is a graph, and the files."""
    graphs = [word for word in words if "://" in word or is_graph(word)]
    if len(graphs) > 1:
        refuse(f"queries are checked against one graph, and {', '.join(graphs)} are {len(graphs)}")
    return (graphs[0] if graphs else None), [word for word in words if word not in graphs]


def _collect_files(
    schemas: Sequence[str], queries: Sequence[str], files: Sequence[str], *, has_graph: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the schema files and the query files, each once.

    Raises:
        click.UsageError: there is no file, or it is ambiguous which schema the queries are checked against.
    """
    by_suffix: dict[str, list[str]] = {".pg": list(schemas), ".gq": list(queries)}
    for word in files:
        for path in find_language_files(word, by_suffix):
            language_files = by_suffix.get(PurePath(path).suffix)
            if language_files is None:
                refuse(f"`{path}` ends neither in .pg nor in .gq; name it with --schema or --query")
            language_files.append(path)
    # A file that is named twice is checked once; a dict keeps the order.
    all_schemas = tuple(dict.fromkeys(by_suffix[".pg"]))
    all_queries = tuple(dict.fromkeys(by_suffix[".gq"]))

    if has_graph and all_schemas:
        refuse(f"queries are checked against one schema: give either the graph or {', '.join(all_schemas)}")
    if not all_schemas and not all_queries and not has_graph:
        refuse("name at least one file: --query FILE, --schema FILE")
    if all_queries and len(all_schemas) > 1:
        listed = ", ".join(all_schemas)
        refuse(f"queries are checked against one schema, and {listed} are {len(all_schemas)}; give --schema once")
    if STDIN in all_schemas and STDIN in all_queries:
        refuse("stdin can be the schema or the queries, not both")
    return all_schemas, all_queries


def _encode_reports(reports: Sequence[FileReport], note: str | None) -> dict[str, object]:
    return {
        "files": [
            {
                "file": report.source.name,
                "language": report.language.name.lower(),
                "errors": report.errors,
                "warnings": report.warnings,
            }
            for report in reports
        ],
        "diagnostics": [
            diagnostic_to_json(report.source, diagnostic) for report in reports for diagnostic in report.diagnostics
        ],
        "errors": sum(report.errors for report in reports),
        "warnings": sum(report.warnings for report in reports),
        "note": note,
    }


def _format_reports(reports: Sequence[FileReport], note: str | None, *, color: bool) -> str:
    findings = [
        render_text(report.source, report.diagnostics, color=color).rstrip("\n")
        for report in reports
        if report.diagnostics
    ]
    errors = sum(report.errors for report in reports)
    warnings = sum(report.warnings for report in reports)
    files = format_count(len(reports), "file")
    notes = [f"note: {note}"] if note else []
    if errors:
        summary = f"{format_count(errors, 'error')}, {format_count(warnings, 'warning')} in {files}"
    elif warnings:
        summary = f"ok: {format_count(warnings, 'warning')} in {files}"
    else:
        summary = f"ok: {files}"
    return "\n".join(["\n\n".join(findings) + "\n" if findings else "", *notes, summary]).lstrip("\n") + "\n"
