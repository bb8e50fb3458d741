"""`omnigraph indexes`."""

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
@json_option
def command(uri: str | None, store: str | None, branch: str, as_json: bool) -> int:
    """Show the indexes of a graph, and what they cover.

    Writes never build indexes: rows that an index does not cover are found all the same, more slowly. `omnigraph
    optimize` builds what is missing and completes what is lagging. An index is small where the table has so few rows
    that it would not help, and unused where no query asks it; `omnigraph optimize --all-indexes` builds those too.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    found = graph.indexes(branch=branch)
    if as_json:
        print_json({"uri": graph.uri, "branch": branch, "indexes": [one.to_json() for one in found]})
    else:
        print_text(_format_indexes(found))
    return 0


def _format_indexes(found: "list[IndexReport]") -> str:
    rows = [
        (
            one.type_name,
            one.column,
            one.kind,
            "" if one.name is None else f"{one.coverage:.1%}",
            f"{one.rows:,}",
            format_bytes(one.nbytes) if one.name is not None else "",
            one.state.value,
        )
        for one in found
    ]
    table = format_table(_HEADERS, rows, right=("coverage", "rows", "size"))
    waiting = sum(one.state.value in _STALE_STATES for one in found)
    if not waiting:
        return table
    return f"{table}\n{format_count(waiting, 'index').replace('indexs', 'indexes')} to complete: run `omnigraph optimize`\n"
