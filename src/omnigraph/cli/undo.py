"""`omnigraph revert`, `cherry-pick` and `reset`: undo commits, or apply them elsewhere."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click

from omnigraph.cli.branch import EXIT_CONFLICTS, format_result, format_table_results
from omnigraph.cli.options import (
    graph_options,
    json_option,
    key_option,
    limit_options,
    make_branch_option,
    open_selected_graph,
)
from omnigraph.cli.render import print_json, print_text
from omnigraph.cli.resolutions import resolution_options, run_with_resolutions

if TYPE_CHECKING:
    from omnigraph.ops.merge_result import MergeResult

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _UndoOptions(TypedDict):
    """The options that are passed on to the graph."""

    branch: str
    strategy: str | None
    message: str | None
    idempotency_key: str | None
    actor: str
    seconds: float | None
    memory_bytes: int | None


_branch_option = make_branch_option("BRANCH", "The branch that gets the new commit.")
_message_option = click.option("--message", metavar="TEXT", help="A message stored with the commit.")
_actor_option = click.option(
    "--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commit."
)


def _undo_options(command: _Command) -> _Command:
    """Add the arguments and options of a revert and a cherry-pick."""
    options = (
        click.argument("commit"),
        click.argument("uri", required=False),
        graph_options,
        _branch_option,
        click.option(
            "--strategy",
            type=click.Choice(["ours", "theirs"]),
            help="Which side wins where the branch changed the same row: the branch (ours) or this command (theirs).",
        ),
        resolution_options,
        click.option("--dry-run", is_flag=True, help="Show the result without a commit."),
        _message_option,
        key_option,
        _actor_option,
        limit_options,
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("revert")
@_undo_options
def revert(
    *,
    commit: str,
    uri: str | None,
    store: str | None,
    as_json: bool,
    dry_run: bool,
    conflicts_to: str | None,
    resolve: str | None,
    interactive: bool,
    **options: Unpack[_UndoOptions],
) -> int:
    """Undo the changes of COMMIT, in a new commit; later changes stay.

    COMMIT is an id, a tag or a branch, whose newest commit it is. Rows that were changed again since are conflicts, as
    in a merge: they are listed, and nothing is changed. A merge is undone as compared with its first parent. Reverting
    a revert applies the changes again.

    Exit code: 0 on success or if nothing is left to undo, 3 on conflicts or if other writers interfered.
    """
    graph = open_selected_graph(uri, store, read_only=dry_run)
    result = run_with_resolutions(
        partial(graph.revert, commit, **options),
        dry_run=dry_run,
        conflicts_to=conflicts_to,
        resolve=resolve,
        interactive=interactive,
    )
    what = f"commit {result.base_commit} {'would be' if dry_run else 'is'} reverted on {result.into}"
    nothing = f"nothing of commit {result.base_commit} is left to revert on {result.into}"
    return _print_result(graph.uri, result, what, nothing, as_json=as_json)


@click.command("cherry-pick")
@_undo_options
def cherry_pick(
    *,
    commit: str,
    uri: str | None,
    store: str | None,
    as_json: bool,
    dry_run: bool,
    conflicts_to: str | None,
    resolve: str | None,
    interactive: bool,
    **options: Unpack[_UndoOptions],
) -> int:
    """Apply the changes of COMMIT to another branch, in a new commit.

    COMMIT is an id, a tag or a branch, whose newest commit it is. Rows that the branch has changed too are conflicts,
    as in a merge: they are listed, and nothing is changed.

    Exit code: 0 on success or if there is nothing to apply, 3 on conflicts or if other writers interfered.
    """
    graph = open_selected_graph(uri, store, read_only=dry_run)
    result = run_with_resolutions(
        partial(graph.cherry_pick, commit, **options),
        dry_run=dry_run,
        conflicts_to=conflicts_to,
        resolve=resolve,
        interactive=interactive,
    )
    what = f"commit {result.source_commit} {'would be' if dry_run else 'is'} applied to {result.into}"
    nothing = f"{result.into} has all changes of commit {result.source_commit}"
    return _print_result(graph.uri, result, what, nothing, as_json=as_json)


def _print_result(uri: str, result: "MergeResult", what: str, nothing: str, *, as_json: bool) -> int:
    if as_json:
        print_json({"uri": uri, **result.to_json()})
    elif result.outcome.value == "already_up_to_date":
        print_text(f"{nothing}\n")
    else:
        print_text(format_result(result, what))
    return EXIT_CONFLICTS if result.conflict_total else 0


@click.command("reset")
@click.argument("branch")
@click.argument("uri", required=False)
@graph_options
@click.option("--to", required=True, metavar="STATE", help="The state: a commit id, a tag, a branch, or `branch@time`.")
@click.option("--dry-run", is_flag=True, help="Show the result without a commit.")
@_message_option
@_actor_option
@json_option
def reset(
    *,
    branch: str,
    uri: str | None,
    store: str | None,
    to: str,
    dry_run: bool,
    message: str | None,
    actor: str,
    as_json: bool,
) -> int:
    """Return BRANCH to another state, in a new commit.

    The branch gets the rows and the schema of that state. No row is read or copied, and nothing is lost: the commits in
    between stay in the history, and `omnigraph reset` can return to them as well.

    Exit code: 0 on success or if the branch has that state already, 3 if another writer interfered.
    """
    graph = open_selected_graph(uri, store, read_only=dry_run)
    result = graph.reset(branch, to=to, actor=actor, message=message, dry_run=dry_run)
    if as_json:
        print_json({"uri": graph.uri, **result.to_json()})
        return 0
    if not result.tables and not result.is_schema_changed:
        print_text(f"{branch} has the state of commit {result.to_commit} already\n")
        return 0
    commit = "" if result.commit_id is None else f", commit {result.commit_id}"
    verb = "would be" if dry_run else "is"
    schema = " with its schema" if result.is_schema_changed else ""
    print_text(
        f"{branch} {verb} reset to commit {result.to_commit}{schema}{commit}\n{format_table_results(result.tables)}"
    )
    return 0
