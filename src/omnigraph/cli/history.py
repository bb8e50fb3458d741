"""`omnigraph history`."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import branch_option, chosen_graph, json_option, store_option
from omnigraph.cli.render import json_text, print_json, print_text, table_text

if TYPE_CHECKING:
    from omnigraph.ops.entity_history import EntityHistory, EntityVersion

MOST_CHARACTERS = 40
"""How much of a value the table shows."""


@click.command("history")
@click.argument("type_name", metavar="TYPE")
@click.argument("row_id", metavar="ID")
@click.argument("uri", required=False)
@store_option
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
    graph = omnigraph.open_graph(chosen_graph(uri, store), read_only=True)
    found = graph.history(type_name, row_id, branch=branch, limit=limit)
    if as_json:
        print_json({"uri": graph.uri, "branch": branch, "type": type_name, "id": row_id, **found.to_json()})
    else:
        print_text(_text(found))
    return 0


def _text(found: "EntityHistory") -> str:
    rows = [
        (one.commit.id, one.commit.at, one.commit.actor, _operation(one), one.change, _told(one))
        for one in found.versions
    ]
    text = table_text(("commit", "at", "actor", "operation", "change", "what"), rows) if rows else "no version\n"
    if found.ends_before is not None:
        text += f"\nolder versions, from before commit {found.ends_before}, can't be read any more\n"
    return text


def _operation(version: "EntityVersion") -> str:
    """What the commit did; of a merge also what was merged, since that branch has the history of how it came about."""
    merged = version.commit.merged_from
    return version.commit.operation if merged is None else f"{version.commit.operation} of {merged.branch}"


def _told(version: "EntityVersion") -> str:
    """What changed, in a line: for an update each property before and after."""
    before, after = version.before or {}, version.after or {}
    if version.change != "updated":
        return ", ".join(version.changed)
    return ", ".join(
        f"{name}: {_value(before[name])} → {_value(after[name])}" if name in before and name in after else name
        for name in version.changed
    )


def _value(value: object) -> str:
    text = json_text(value, None)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
