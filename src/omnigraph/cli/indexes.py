"""`omnigraph indexes`."""

from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import branch_option, json_option, opened_graph, place_options
from omnigraph.cli.render import count_of, print_json, print_text, table_text
from omnigraph.telemetry import bytes_text

if TYPE_CHECKING:
    from omnigraph.ops.indexes import IndexReport

_HEADERS = ("type", "property", "kind", "coverage", "rows", "size", "state")
_WORTH_DOING = ("lagging", "missing")


@click.command("indexes")
@click.argument("uri", required=False)
@place_options
@branch_option
@json_option
def command(uri: str | None, store: str | None, branch: str, as_json: bool) -> int:
    """Show the indexes of a graph, and what they cover.

    Writes never build indexes: rows that an index does not cover are found all the same, more slowly. `omnigraph
    optimize` builds what is missing and completes what is lagging. An index is small where the table has so few rows
    that it would not help, and unused where no query asks it; `omnigraph optimize --all-indexes` builds those too.
    """
    graph = opened_graph(uri, store, read_only=True)
    found = graph.indexes(branch=branch)
    if as_json:
        print_json({"uri": graph.uri, "branch": branch, "indexes": [one.to_json() for one in found]})
    else:
        print_text(_text(found))
    return 0


def _text(found: "list[IndexReport]") -> str:
    rows = [
        (
            one.type_name,
            one.column,
            one.kind,
            "" if one.name is None else f"{one.coverage:.1%}",
            f"{one.rows:,}",
            bytes_text(one.nbytes) if one.name is not None else "",
            one.state.value,
        )
        for one in found
    ]
    table = table_text(_HEADERS, rows, right=("coverage", "rows", "size"))
    waiting = sum(one.state.value in _WORTH_DOING for one in found)
    if not waiting:
        return table
    return f"{table}\n{count_of(waiting, 'index').replace('indexs', 'indexes')} to complete: run `omnigraph optimize`\n"
