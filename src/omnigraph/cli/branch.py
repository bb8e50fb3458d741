"""`omnigraph branch`: create, list, merge and delete branches."""

import json
from datetime import datetime
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.confirm import confirm_on_remote
from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup
from omnigraph.cli.options import (
    at_option,
    graph_options,
    json_option,
    limit_options,
    open_selected_graph,
    refuse,
    resolve_graph_uri,
    snapshot_option,
)
from omnigraph.cli.render import format_count, format_table, print_json, print_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.engine.merging.conflicts import Conflict
    from omnigraph.ops.merge_result import MergeResult

EXIT_CONFLICTS = 3
_MAX_VALUE_WIDTH = 40

group = LazyGroup(
    "branch",
    help="Make, list, merge and delete branches.",
    lazy={
        "create": LazyCommand("omnigraph.cli.branch:create", "Make a branch from any state of another."),
        "delete": LazyCommand("omnigraph.cli.branch:delete", "Delete a branch, with its commits."),
        "list": LazyCommand("omnigraph.cli.branch:list_", "List the branches of a graph."),
        "merge": LazyCommand(
            "omnigraph.cli.branch:merge",
            "Bring to a branch what the branch SOURCE has done since the two parted.",
        ),
    },
)


@click.command("create")
@click.argument("name")
@click.argument("uri", required=False)
@graph_options
@click.option("--from", "source", default="main", show_default=True, metavar="BRANCH", help="The branch to start from.")
@snapshot_option
@at_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the branch is by.")
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
    """Make a branch from any state of another.

    The newest state of main, unless another branch, a commit or a time is named. It takes a moment, however large the
    graph is: nothing is copied. A name has up to 128 letters, digits, `.`, `-` and `_`, in parts joined by `/`.
    """
    if commit_id is not None and at is not None:
        refuse("give either --snapshot or --at, not both")
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
@click.option("--yes", "is_sure", is_flag=True, help="Don't ask before a branch on a remote store is deleted.")
@json_option
def delete(name: str, uri: str | None, store: str | None, is_sure: bool, as_json: bool) -> int:
    """Delete a branch, with its commits.

    What was merged into other branches stays there. A branch that others were taken from is deleted after those.
    """
    target = resolve_graph_uri(uri, store)
    if not is_sure:
        confirm_on_remote(
            target,
            action=f"deleting the branch `{name}` of {target}",
            question=f"Delete the branch `{name}` of {target}, with its commits?",
            otherwise="nothing is deleted",
        )
    graph = open_selected_graph(uri, store)
    branch = graph.branches.delete(name)
    if as_json:
        print_json({"uri": graph.uri, "deleted": branch.to_json()})
    else:
        print_text(f"branch {branch.name} is deleted\n")
    return 0


@click.command("list")
@click.argument("uri", required=False)
@graph_options
@json_option
def list_(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the branches of a graph.

    Each with the branch and commit that it was taken from; main, which every graph has, comes first.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    branches = graph.branches.list()
    if as_json:
        print_json({"uri": graph.uri, "branches": [branch.to_json() for branch in branches]})
    else:
        rows = [
            (one.name, one.parent_branch or "", one.parent_commit or "", one.created_at or "", one.created_by or "")
            for one in branches
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
    help="Whose word counts where both changed the same row: the target's, or the source's.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would come of it.")
@click.option("--message", metavar="TEXT", help="A message to keep with the commit.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the commit is by.")
@limit_options
@json_option
def merge(  # noqa: PLR0913 - its options
    *,
    source: str,
    uri: str | None,
    store: str | None,
    into: str,
    strategy: str | None,
    dry_run: bool,
    message: str | None,
    actor: str,
    seconds: float | None,
    memory_bytes: int | None,
    as_json: bool,
) -> int:
    """Bring to a branch what the branch SOURCE has done since the two parted.

    Rows are told apart by their ids and merged property by property, in one commit with two parents. What the two
    branches don't agree about, or would break together, is listed, and then nothing is merged. --strategy settles rows
    that both changed, and nothing else. A branch can be merged again and again; what was merged is not merged twice.

    Exit code: 0 when it is done or there is nothing to do, 3 when there are conflicts, or others wrote meanwhile.
    """
    graph = open_selected_graph(uri, store, read_only=dry_run)
    try:
        done = graph.merge(
            source,
            into=into,
            strategy=strategy,
            actor=actor,
            message=message,
            dry_run=dry_run,
            seconds=seconds,
            memory_bytes=memory_bytes,
        )
    except omnigraph.MergeConflictsError as error:  # conflicts are this command's answer, on stdout
        done = error.result
    if as_json:
        print_json({"uri": graph.uri, **done.to_json()})
    else:
        print_text(_format_result(done))
    return EXIT_CONFLICTS if done.conflict_total else 0


def _format_result(done: "MergeResult") -> str:
    if done.conflict_total:
        return _format_conflicts(done)
    if done.outcome.value == "already_up_to_date":
        return f"{done.into} has everything that {done.source} has\n"
    verb = "would be" if done.is_dry_run else "is"
    forward = " (fast forward)" if done.outcome.value == "fast_forward" else ""
    commit = "" if done.commit_id is None else f", commit {done.commit_id}"
    head = f"{done.source} {verb} merged into {done.into}{forward}{commit}\n"
    rows = [
        (
            one.table,
            one.how,
            *map(_format_number, (one.rows_before, one.rows_after, one.inserted, one.updated, one.deleted)),
        )
        for one in done.tables
    ]
    numbers = ("rows before", "after", "inserted", "updated", "deleted")
    told = format_table(("table", "how", *numbers), rows, right=numbers) if rows else "no row differs\n"
    return head + told + _format_restored(done)


def _format_restored(done: "MergeResult") -> str:
    """Name the edges that stay with nodes that one side deleted, by table."""
    counts = [f"{format_count(count, 'edge')} of {table}" for table, count in done.restored_edges.items()]
    return f"kept together with their nodes, which one side had deleted: {', '.join(counts)}\n" if counts else ""


def _format_number(count: int | None) -> str:
    return "" if count is None else str(count)


def _format_conflicts(done: "MergeResult") -> str:
    """Format the conflicts as tables, and how to resolve them."""
    of_rows = [one for one in done.conflicts if one.kind.is_of_rows]
    others = [one for one in done.conflicts if not one.kind.is_of_rows]
    parts = [f"{format_count(done.conflict_total, 'conflict')}: nothing is merged\n"]
    with_rows = [one for one in done.conflicts if one.id is not None]
    if with_rows:
        parts.append(_format_row_conflicts(done, with_rows))
    if others:
        parts.append(format_table(("conflict", "message"), [(one.kind.value, one.message) for one in others]))
    left = done.conflict_total - len(done.conflicts)
    if left:
        parts.append(f"and {left} more\n")
    ways = [f"change {done.source} or {done.into} so that they agree, and merge again"]
    if of_rows:
        ways.append(f"for rows that both changed, --strategy ours keeps those of {done.into}, theirs of {done.source}")
    parts.append("".join(f"help: {way}\n" for way in ways))
    return "\n".join(parts)


def _format_row_conflicts(done: "MergeResult", conflicts: "Sequence[Conflict]") -> str:
    rows = [
        (
            one.kind.value,
            one.table,
            one.id or "",
            one.property or "",
            _format_value(one.base, is_there=one.kind.is_of_rows and one.kind.value != "DivergentInsert"),
            _format_value(one.ours, is_there=one.kind.is_of_rows and one.property is not None),
            _format_value(one.theirs, is_there=one.kind.is_of_rows and one.property is not None),
        )
        for one in conflicts
    ]
    return format_table(("conflict", "table", "id", "property", "before", done.into, done.source), rows)


def _format_value(value: object, *, is_there: bool) -> str:
    """Format a value; a dash for None, unless the row exists and its value is null."""
    if value is None and not is_there:
        return "-"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_WIDTH else text[: _MAX_VALUE_WIDTH - 1] + "…"
