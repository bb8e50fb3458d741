"""`omnigraph indexes`: show index coverage."""

from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import branch_option, graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_count, format_table, print_json, print_text
from omnigraph.telemetry import format_bytes

if TYPE_CHECKING:
    from omnigraph.ops.indexes import IndexReport

_HEADERS = ("type", "property", "kind", "coverage", "rows", "size", "state")
_STALE_STATES = ("lagging", "missing")


@click.command("indexes")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--recall", is_flag=True, help="Measure how much of the nearest rows each vector index finds.")
@json_option
def command(uri: str | None, store: str | None, branch: str, recall: bool, as_json: bool) -> int:
    """Show the indexes of a graph and their coverage.

    Writes never build indexes: rows that an index does not cover are still found, but more slowly. `omnigraph
    optimize` builds missing indexes and completes lagging ones. An index is small if its table has too few rows for it
    to help, and unused if no query can use it; `omnigraph optimize --all-indexes` builds those too. With `--recall`,
    each vector index that `nearest` uses is searched for a sample of rows: without a filter, and with filters that 10%,
    1% and 0.1% of the rows pass.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    reports = graph.indexes(branch=branch, recall=recall)
    if as_json:
        print_json({"uri": graph.uri, "branch": branch, "indexes": [report.to_json() for report in reports]})
    else:
        print_text(_format_indexes(reports))
    return 0


def _format_indexes(reports: "list[IndexReport]") -> str:
    # An index that is declared but not built has no name.
    rows = [
        (
            report.type_name,
            report.column,
            report.kind,
            "" if report.name is None else f"{report.coverage:.1%}",
            f"{report.rows:,}",
            format_bytes(report.nbytes) if report.name is not None else "",
            report.state.value,
        )
        for report in reports
    ]
    table = format_table(_HEADERS, rows, right=("coverage", "rows", "size"))
    table += "".join(_format_recall(report) for report in reports if report.recall is not None)
    stale = sum(report.state.value in _STALE_STATES for report in reports)
    if not stale:
        return table
    return f"{table}\n{format_count(stale, 'index', 'indexes')} to complete: run `omnigraph optimize`\n"


def _format_recall(report: "IndexReport") -> str:
    shares = ", ".join(f"{found:.3f} at {float(share):.1%}" for share, found in (report.recall or {}).items())
    return f"recall of {report.type_name}.{report.column}: {shares} of the rows\n"
