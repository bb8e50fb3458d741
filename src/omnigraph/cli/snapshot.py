"""`omnigraph snapshot`."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import Instant, branch_option, graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_facts, format_table, print_json, print_text
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.commit.manifest_types import Snapshot
    from omnigraph.graph import Graph
    from omnigraph.ops.operations import Operations


_MAX_LISTED_TABLES = 5
"""How many tables a note names."""
_STATES = {
    "running": "under way, or died just now",
    "dead": "dead: the next writer settles it",
    "abandoned": "being settled by recovery",
}


@click.command("snapshot")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--snapshot", "commit_id", metavar="ID", help="The state of a commit, tag or manifest version.")
@click.option("--at", type=Instant(), metavar="TIME", help="The state at this time, such as 2026-01-31T12:00:00Z.")
@json_option
def command(
    *, uri: str | None, store: str | None, branch: str, commit_id: str | None, at: datetime | None, as_json: bool
) -> int:
    """Show which tables a graph has, at which versions.

    The newest state, unless a commit or a time is named. Other tools that read Lance find a table's rows at its
    location, below the graph, in exactly the version shown. Operations that are under way, or died, are mentioned.
    """
    if commit_id is not None and at is not None:
        message = "give either --snapshot or --at, not both"
        raise click.UsageError(message, click.get_current_context())
    graph = open_selected_graph(uri, store, read_only=True)
    snapshot = graph.snapshot(branch=branch, snapshot=commit_id, at=at)
    operations = _read_operations(graph)
    due = _find_due_tables(graph, branch) if commit_id is None and at is None else ()
    if as_json:
        print_json(
            {
                "uri": graph.uri,
                **snapshot.to_json(),
                "operations": operations and operations.to_json(),
                "due": due,
            }
        )
    else:
        print_text(_format_snapshot(graph.uri, snapshot) + _format_notes(operations, due))
    return 0


def _format_snapshot(uri: str, snapshot: "Snapshot") -> str:
    commit = snapshot.commit
    facts = format_facts(
        {
            "graph": uri,
            "branch": snapshot.branch,
            "commit": commit.id,
            "at": commit.at,
            "by": f"{commit.actor} ({commit.operation})",
            "manifest": f"version {snapshot.manifest_version}, internal-schema {INTERNAL_SCHEMA_VERSION}",
        }
    )
    rows = [(pin.table_key, pin.path, pin.branch, str(pin.version), str(pin.rows)) for pin in snapshot.pins.values()]
    return f"{facts}\n{format_table(('table', 'location', 'branch', 'version', 'rows'), rows, right=('rows',))}"


def _read_operations(graph: "Graph") -> "Operations | None":
    """What is under way; None when the store does not tell: that must not keep anybody from reading."""
    try:
        return graph.operations()
    except omnigraph.StoreUnavailableError:
        return None


def _find_due_tables(graph: "Graph", branch: str) -> tuple[str, ...]:
    """The tables that `optimize` would improve; none of those that can't be looked at, or that are others' to keep."""
    try:
        return tuple(one.table_key for one in graph.optimize(branch=branch, dry_run=True).due)
    except omnigraph.DeniedError:
        return ()


def _format_notes(operations: "Operations | None", due: tuple[str, ...]) -> str:
    if operations is None:
        return "\nnote: the store does not list the operations that are under way\n"
    lines = [
        f"note: {one.operation} {one.id} by {one.actor}, since {one.started_at}, is {_STATES[operations.state(one)]}"
        for one in operations.pending
    ]
    lines += [
        f"note: the sidecar {one.key} can't be read, and blocks nothing: {one.reason}" for one in operations.broken
    ]
    if due:
        shown = ", ".join(due[:_MAX_LISTED_TABLES]) + (
            f" and {len(due) - _MAX_LISTED_TABLES} more" if len(due) > _MAX_LISTED_TABLES else ""
        )
        lines.append(f"note: `omnigraph optimize` pays for {shown}")
    return "".join(["\n", *(f"{reveal(line)}\n" for line in lines)]) if lines else ""
