"""`omnigraph recoveries`."""

from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_table, print_json, print_text
from omnigraph.telemetry import format_bytes

if TYPE_CHECKING:
    from omnigraph.ops.recoveries import Recovery

_HEADERS = ("at", "kind", "operation", "by", "branch", "commit", "files", "freed")


@click.command("recoveries")
@click.argument("uri", required=False)
@graph_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@json_option
def command(uri: str | None, store: str | None, limit: int | None, as_json: bool) -> int:
    """List what recovery did about operations that died.

    Newest first. RolledForward is an operation that had landed: its commit is named. RolledBack is one of which nothing
    is visible: its files were removed, and the commit that is named is the empty one that keeps it from landing later.
    Branches that were deleted since are listed too.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    found = graph.recoveries(limit=limit)
    if as_json:
        print_json({"uri": graph.uri, "recoveries": [one.to_json() for one in found]})
    elif not found:
        print_text("nothing had to be recovered\n")
    else:
        print_text(_format_recoveries(found))
    return 0


def _format_recoveries(found: "list[Recovery]") -> str:
    rows = [
        (
            one.at,
            one.kind,
            one.operation,
            one.actor,
            one.branch or "",
            one.commit_id or "",
            str(sum(table.files for table in one.tables)),
            format_bytes(one.bytes_reclaimed),
        )
        for one in found
    ]
    return format_table(_HEADERS, rows, right=("files", "freed"))
