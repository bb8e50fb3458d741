"""`omnigraph snapshot`: show the tables of one state."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import (
    at_option,
    branch_option,
    graph_options,
    json_option,
    open_selected_graph,
    refuse_two_states,
    snapshot_option,
)
from omnigraph.cli.render import format_facts, format_table, print_json, print_text
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.commit.manifest_types import Snapshot
    from omnigraph.graph import Graph
    from omnigraph.ops.operations import Operations

# Tables listed in a note; --json lists all of them.
_MAX_LISTED_TABLES = 5
_STATES = {
    "running": "running, or has just crashed",
    "dead": "crashed: the next writer recovers it",
    "abandoned": "being recovered",
}


@click.command("snapshot")
@click.argument("uri", required=False)
@graph_options
@branch_option
@snapshot_option
@at_option
@json_option
def command(
    *, uri: str | None, store: str | None, branch: str, commit_id: str | None, at: datetime | None, as_json: bool
) -> int:
    """Show the tables of a graph and their versions.

    Shows the newest state, unless a commit or a time is given. Other tools that read Lance find the rows of a table at
    its location, below the graph, in exactly the version shown. Running and crashed operations are noted.
    """
    refuse_two_states(commit_id, at)
    graph = open_selected_graph(uri, store, read_only=True)
    snapshot = graph.snapshot(branch=branch, snapshot=commit_id, at=at)
    operations = _read_operations(graph)
    # Only the newest state can be optimized.
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
    """Read the pending operations; None if the store is unavailable for that, which must not prevent reads."""
    try:
        return graph.operations()
    except omnigraph.StoreUnavailableError:
        return None


def _find_due_tables(graph: "Graph", branch: str) -> tuple[str, ...]:
    """Return the tables that `optimize` would improve; none if the actor may not optimize."""
    try:
        return tuple(table.table_key for table in graph.optimize(branch=branch, dry_run=True).due)
    except omnigraph.DeniedError:
        return ()


def _format_notes(operations: "Operations | None", due: tuple[str, ...]) -> str:
    if operations is None:
        return "\nnote: the store does not list running operations\n"
    lines = [
        f"note: {operation.operation} {operation.id} by {operation.actor}, since {operation.started_at}, "
        f"is {_STATES[operations.state(operation)]}"
        for operation in operations.pending
    ]
    lines += [
        f"note: the sidecar {sidecar.key} can't be read, and blocks nothing: {sidecar.reason}"
        for sidecar in operations.broken
    ]
    if due:
        listed = ", ".join(due[:_MAX_LISTED_TABLES])
        hidden = len(due) - _MAX_LISTED_TABLES
        rest = f" and {hidden} more" if hidden > 0 else ""
        lines.append(f"note: `omnigraph optimize` pays off for {listed}{rest}")
    return "".join(["\n", *(f"{reveal(line)}\n" for line in lines)]) if lines else ""
