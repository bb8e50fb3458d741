"""`omnigraph branch`: create, list, merge and delete branches."""

import json
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from omnigraph.cli.confirm import confirm_on_remote
from omnigraph.cli.options import (
    at_option,
    graph_options,
    json_option,
    key_option,
    limit_options,
    open_selected_graph,
    refuse_two_states,
    resolve_graph_uri,
    snapshot_option,
)
from omnigraph.cli.render import format_count, format_table, print_json, print_text
from omnigraph.cli.resolutions import resolution_options, run_with_resolutions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.engine.merging.conflicts import Conflict
    from omnigraph.ops.merge_result import MergeResult, TableMerge

EXIT_CONFLICTS = 3
# Conflicts that are printed for people.
MAX_REPORTED_PROBLEMS = 20
# Characters of a value in the table of conflicts; --json prints values in full.
_MAX_VALUE_WIDTH = 40


@click.command("create")
@click.argument("name")
@click.argument("uri", required=False)
@graph_options
@click.option("--from", "source", default="main", show_default=True, metavar="BRANCH", help="The branch to start from.")
@snapshot_option
@at_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the branch.")
@json_option
def create(
    *,
    name: str,
    uri: str | None,
    store: str | None,
    source: str,
    commit_id: str | None,
    at: datetime | None,
    actor: str,
    as_json: bool,
) -> int:
    """Create a branch from any state of another branch.

    The branch starts at the newest state of main, unless another branch, a commit or a time is given. No data is
    copied, so this is fast for a graph of any size. A name has up to 128 letters, digits, `.`, `-` and `_`, in parts
    joined by `/`.
    """
    refuse_two_states(commit_id, at)
    graph = open_selected_graph(uri, store)
    branch = graph.branches.create(name, from_=source, snapshot=commit_id, at=at, actor=actor)
    if as_json:
        print_json({"uri": graph.uri, **branch.to_json()})
    else:
        print_text(f"branch {branch.name} from {branch.parent_branch}, commit {branch.parent_commit}\n")
    return 0


@click.command("delete")
@click.argument("name")
@click.argument("uri", required=False)
@graph_options
@click.option("--yes", "assume_yes", is_flag=True, help="Do not ask before deleting a branch on a remote store.")
@json_option
def delete(name: str, uri: str | None, store: str | None, assume_yes: bool, as_json: bool) -> int:
    """Delete a branch and its commits.

    Changes that were merged into other branches stay there. Branches created from this one have to be deleted first.
    """
    target = resolve_graph_uri(uri, store)
    # Others may share a remote graph, and a deleted branch cannot be restored.
    if not assume_yes:
        confirm_on_remote(
            target,
            action=f"deleting the branch `{name}` of {target}",
            question=f"Delete the branch `{name}` of {target}, with its commits?",
            otherwise="nothing was deleted",
        )
    graph = open_selected_graph(uri, store)
    branch = graph.branches.delete(name)
    if as_json:
        print_json({"uri": graph.uri, "deleted": branch.to_json()})
    else:
        print_text(f"deleted branch {branch.name}\n")
    return 0


@click.command("list")
@click.argument("uri", required=False)
@graph_options
@json_option
def list_(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the branches of a graph.

    Shows the branch and commit that each was created from. main, which every graph has, comes first.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    branches = graph.branches.list()
    if as_json:
        print_json({"uri": graph.uri, "branches": [branch.to_json() for branch in branches]})
    else:
        rows = [
            (
                branch.name,
                branch.parent_branch or "",
                branch.parent_commit or "",
                branch.created_at or "",
                branch.created_by or "",
            )
            for branch in branches
        ]
        print_text(format_table(("branch", "from", "commit", "at", "by"), rows))
    return 0


@click.command("merge")
@click.argument("source")
@click.argument("uri", required=False)
@graph_options
@click.option("--into", default="main", show_default=True, metavar="BRANCH", help="The branch that gets the changes.")
@click.option(
    "--strategy",
    type=click.Choice(["ours", "theirs"]),
    help="Which side wins where both changed the same row: the target (ours) or the source (theirs).",
)
@resolution_options
@click.option("--dry-run", is_flag=True, help="Show the result without merging.")
@click.option("--message", metavar="TEXT", help="A message stored with the commit.")
@key_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commit.")
@limit_options
@json_option
def merge(  # noqa: PLR0913 - one argument per option
    *,
    source: str,
    uri: str | None,
    store: str | None,
    into: str,
    strategy: str | None,
    conflicts_to: str | None,
    resolve: str | None,
    interactive: bool,
    dry_run: bool,
    message: str | None,
    idempotency_key: str | None,
    actor: str,
    seconds: float | None,
    memory_bytes: int | None,
    as_json: bool,
) -> int:
    """Merge the changes of branch SOURCE into another branch.

    Rows are matched by id and merged property by property, in one commit with two parents. If the branches conflict,
    or would violate the schema together, the conflicts are listed and nothing is merged. --strategy resolves only rows
    that both branches changed; --conflicts-to, --resolve and --interactive decide row by row. A branch can be merged
    any number of times; no change is merged twice.

    Exit code: 0 on success or if there is nothing to merge, 3 on conflicts or if other writers interfered.
    """
    graph = open_selected_graph(uri, store, read_only=dry_run)
    run = partial(
        graph.merge,
        source,
        into=into,
        strategy=strategy,
        actor=actor,
        message=message,
        idempotency_key=idempotency_key,
        seconds=seconds,
        memory_bytes=memory_bytes,
    )
    result = run_with_resolutions(
        run, dry_run=dry_run, conflicts_to=conflicts_to, resolve=resolve, interactive=interactive
    )
    if as_json:
        print_json({"uri": graph.uri, **result.to_json()})
    else:
        print_text(_format_merge(result))
    return EXIT_CONFLICTS if result.conflict_total else 0


def _format_merge(result: "MergeResult") -> str:
    if result.outcome.value == "already_up_to_date":
        return f"{result.into} is up to date: it has all changes of {result.source}\n"
    verb = "would be" if result.is_dry_run else "is"
    forward = " (fast forward)" if result.outcome.value == "fast_forward" else ""
    return format_result(result, f"{result.source} {verb} merged into {result.into}{forward}")


def format_result(result: "MergeResult", what: str) -> str:
    """Format the result of a merge, a revert or a cherry-pick: its conflicts, or `what` was done and to which rows."""
    if result.conflict_total:
        return _format_conflicts(result)
    commit = "" if result.commit_id is None else f", commit {result.commit_id}"
    body = format_table_results(result.tables) or "no row differs\n"
    return f"{what}{commit}\n{body}{_format_restored(result)}"


def format_table_results(tables: "Sequence[TableMerge]") -> str:
    """Format what happens to each table; empty if there is none."""
    rows = [
        (
            table.table,
            table.how,
            *map(_format_number, (table.rows_before, table.rows_after, table.inserted, table.updated, table.deleted)),
        )
        for table in tables
    ]
    numbers = ("rows before", "after", "inserted", "updated", "deleted")
    return format_table(("table", "how", *numbers), rows, right=numbers) if rows else ""


def _format_restored(result: "MergeResult") -> str:
    """Format the number of edges per table that were kept together with nodes that one side had deleted."""
    counts = [f"{format_count(count, 'edge')} of {table}" for table, count in result.restored_edges.items()]
    return f"kept together with their nodes, which one side had deleted: {', '.join(counts)}\n" if counts else ""


def _format_number(count: int | None) -> str:
    return "" if count is None else str(count)


def _format_conflicts(result: "MergeResult") -> str:
    """Format the conflicts as tables, and how to resolve them."""
    listed = result.conflicts[:MAX_REPORTED_PROBLEMS]
    shown = len(listed)
    row_conflicts = [conflict for conflict in listed if conflict.kind.is_of_rows]
    other_conflicts = [conflict for conflict in listed if not conflict.kind.is_of_rows]
    parts = [f"{format_count(result.conflict_total, 'conflict')}: nothing is merged\n"]
    # A violated constraint that names a row is listed twice: with its row, and with its message.
    with_ids = [conflict for conflict in listed if conflict.id is not None]
    if with_ids:
        parts.append(_format_row_conflicts(result, with_ids))
    if other_conflicts:
        messages = [(conflict.kind.value, conflict.message) for conflict in other_conflicts]
        parts.append(format_table(("conflict", "message"), messages))
    # The result may hold only the first conflicts, but counts all of them.
    hidden = result.conflict_total - shown
    if hidden:
        parts.append(f"and {hidden} more\n")
    ways = [f"change {result.source} or {result.into} so that they agree, and merge again"]
    if row_conflicts:
        ways.append(
            f"for rows that both changed, --strategy ours keeps those of {result.into}, theirs of {result.source}"
        )
        ways.append("--conflicts-to FILE writes all conflicts; set each `take` there, and merge with --resolve FILE")
    parts.append("".join(f"help: {way}\n" for way in ways))
    return "\n".join(parts)


def _format_row_conflicts(result: "MergeResult", conflicts: "Sequence[Conflict]") -> str:
    rows = [
        (
            conflict.kind.value,
            conflict.table,
            conflict.id or "",
            conflict.property or "",
            _format_value(
                conflict.base,
                has_row=conflict.kind.is_of_rows and conflict.kind.value != "DivergentInsert",
            ),
            _format_value(conflict.ours, has_row=conflict.kind.is_of_rows and conflict.property is not None),
            _format_value(conflict.theirs, has_row=conflict.kind.is_of_rows and conflict.property is not None),
        )
        for conflict in conflicts
    ]
    return format_table(("conflict", "table", "id", "property", "before", result.into, result.source), rows)


def _format_value(value: object, *, has_row: bool) -> str:
    """Format a value; a dash for None, unless the row exists and its value is null."""
    if value is None and not has_row:
        return "-"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_WIDTH else text[: _MAX_VALUE_WIDTH - 1] + "…"
