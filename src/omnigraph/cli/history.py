"""`omnigraph history`."""

from typing import Any, TypeAlias

import click

from omnigraph.cli.options import branch_option, graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_json, format_table, print_json, print_text

Document: TypeAlias = dict[str, Any]

MAX_VALUE_CHARACTERS = 40
"""How much of a value the table shows."""


@click.command("history")
@click.argument("type_name", metavar="TYPE")
@click.argument("row_id", metavar="ID")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many versions.")
@json_option
def command(
    *, type_name: str, row_id: str, uri: str | None, store: str | None, branch: str, limit: int | None, as_json: bool
) -> int:
    """Show every version of one node or edge, newest first.

    Each with its commit, who made it and when, and the properties that it changed. Deletions and re-creations are
    versions too; names of types and properties are those of the time. With --json, the whole of each version before
    and after.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    found = graph.history(type_name, row_id, branch=branch, limit=limit).to_json()
    if as_json:
        print_json({"uri": graph.uri, "branch": branch, "type": type_name, "id": row_id, **found})
    else:
        print_text(_format_history(found))
    return 0


def _format_history(found: Document) -> str:
    rows = [
        (one["commit"], one["at"], one["actor"], _format_operation(one), one["change"], _format_change(one))
        for one in found["versions"]
    ]
    text = format_table(("commit", "at", "actor", "operation", "change", "what"), rows) if rows else "no version\n"
    if found["ends_before"] is not None:
        text += f"\nolder versions, from before commit {found['ends_before']}, can't be read any more\n"
    return text


def _format_operation(version: Document) -> str:
    """What the commit did; of a merge also what was merged, since that branch has the history of how it came about."""
    operation, merged = version["operation"], version["merged_branch"]
    return str(operation) if merged is None else f"{operation} of {merged}"


def _format_change(version: Document) -> str:
    """What changed, in a line: for an update each property before and after."""
    before, after = version["before"] or {}, version["after"] or {}
    if version["change"] != "updated":
        return ", ".join(version["changed"])
    return ", ".join(
        f"{name}: {_format_value(before[name])} → {_format_value(after[name])}"
        if name in before and name in after
        else name
        for name in version["changed"]
    )


def _format_value(value: object) -> str:
    text = format_json(value, None)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 1]}…"
