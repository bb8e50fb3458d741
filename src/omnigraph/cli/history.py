"""`omnigraph history`: show the versions of one row."""

from typing import Any, TypeAlias

import click

from omnigraph.cli.options import branch_option, graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_json, format_table, print_json, print_text

Document: TypeAlias = dict[str, Any]

# Characters of a value in the table; --json prints values in full.
MAX_VALUE_CHARACTERS = 40


@click.command("history")
@click.argument("type_name", metavar="TYPE")
@click.argument("row_id", metavar="ID")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most N versions.")
@json_option
def command(
    *, type_name: str, row_id: str, uri: str | None, store: str | None, branch: str, limit: int | None, as_json: bool
) -> int:
    """Show every version of one node or edge, newest first.

    Shows the commit, time and actor of each version, and the properties that changed. Deletions and re-creations are
    versions too. Types and properties have the names they had at the time. --json contains the full row before and
    after each version.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    history = graph.history(type_name, row_id, branch=branch, limit=limit).to_json()
    if as_json:
        print_json({"uri": graph.uri, "branch": branch, "type": type_name, "id": row_id, **history})
    else:
        print_text(_format_history(history))
    return 0


def _format_history(history: Document) -> str:
    rows = [
        (
            version["commit"],
            version["at"],
            version["actor"],
            _format_operation(version),
            version["change"],
            _format_change(version),
        )
        for version in history["versions"]
    ]
    text = format_table(("commit", "at", "actor", "operation", "change", "what"), rows) if rows else "no version\n"
    if history["ends_before"] is not None:
        text += f"\nolder versions, from before commit {history['ends_before']}, can no longer be read\n"
    return text


def _format_operation(version: Document) -> str:
    """Format the operation of a commit; for a merge also the merged branch, whose history has the original commits."""
    operation, merged = version["operation"], version["merged_branch"]
    return str(operation) if merged is None else f"{operation} of {merged}"


def _format_change(version: Document) -> str:
    """Format the changed properties in one line; for an update with their values before and after."""
    before, after = version["before"] or {}, version["after"] or {}
    if version["change"] != "updated":
        return ", ".join(version["changed"])
    # Blobs are named in `changed`, but not contained in the rows.
    return ", ".join(
        f"{name}: {_format_value(before[name])} → {_format_value(after[name])}"
        if name in before and name in after
        else name
        for name in version["changed"]
    )


def _format_value(value: object) -> str:
    text = format_json(value, None)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 1]}…"
