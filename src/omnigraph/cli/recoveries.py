"""`omnigraph recoveries`: list past recoveries."""

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
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List at most N recoveries.")
@json_option
def command(uri: str | None, store: str | None, limit: int | None, as_json: bool) -> int:
    """List the recoveries of crashed operations.

    Newest first. RolledForward is an operation that had been committed: its commit is shown. RolledBack is one without
    any visible effect: its files were removed, and the commit shown is the empty one that prevents a late commit of
    the operation. Branches that have been deleted since are included.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    recoveries = graph.recoveries(limit=limit)
    if as_json:
        print_json({"uri": graph.uri, "recoveries": [recovery.to_json() for recovery in recoveries]})
    elif not recoveries:
        print_text("there were no recoveries\n")
    else:
        print_text(_format_recoveries(recoveries))
    return 0


def _format_recoveries(recoveries: "list[Recovery]") -> str:
    rows = [
        (
            recovery.at,
            recovery.kind,
            recovery.operation,
            recovery.actor,
            recovery.branch or "",
            recovery.commit_id or "",
            str(sum(table.files for table in recovery.tables)),
            format_bytes(recovery.bytes_reclaimed),
        )
        for recovery in recoveries
    ]
    return format_table(_HEADERS, rows, right=("files", "freed"))
