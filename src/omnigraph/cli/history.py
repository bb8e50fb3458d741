"""`omnigraph history`."""

from typing import Any, TypeAlias

import click

from omnigraph.cli.options import branch_option, json_option, opened_graph, place_options
from omnigraph.cli.render import json_text, print_json, print_text, table_text

Document: TypeAlias = dict[str, Any]

MOST_CHARACTERS = 40
"""How much of a value the table shows."""


@click.command("history")
@click.argument("type_name", metavar="TYPE")
@click.argument("row_id", metavar="ID")
@click.argument("uri", required=False)
@place_options
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
    graph = opened_graph(uri, store, read_only=True)
    found = graph.history(type_name, row_id, branch=branch, limit=limit).to_json()
    if as_json:
        print_json({"uri": graph.uri, "branch": branch, "type": type_name, "id": row_id, **found})
    else:
        print_text(_text(found))
    return 0


def _text(found: Document) -> str:
    rows = [
        (one["commit"], one["at"], one["actor"], _operation(one), one["change"], _told(one))
        for one in found["versions"]
    ]
    text = table_text(("commit", "at", "actor", "operation", "change", "what"), rows) if rows else "no version\n"
    if found["ends_before"] is not None:
        text += f"\nolder versions, from before commit {found['ends_before']}, can't be read any more\n"
    return text


def _operation(version: Document) -> str:
    """What the commit did; of a merge also what was merged, since that branch has the history of how it came about."""
    operation, merged = version["operation"], version["merged_branch"]
    return str(operation) if merged is None else f"{operation} of {merged}"


def _told(version: Document) -> str:
    """What changed, in a line: for an update each property before and after."""
    before, after = version["before"] or {}, version["after"] or {}
    if version["change"] != "updated":
        return ", ".join(version["changed"])
    return ", ".join(
        f"{name}: {_value(before[name])} → {_value(after[name])}" if name in before and name in after else name
        for name in version["changed"]
    )


def _value(value: object) -> str:
    text = json_text(value, None)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
