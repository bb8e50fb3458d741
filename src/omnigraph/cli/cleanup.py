"""`omnigraph cleanup`: garbage collection from the command line."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from omnigraph.cli.confirm import confirm_on_remote
from omnigraph.cli.durations import DURATION, format_duration
from omnigraph.cli.options import (
    graph_options,
    json_option,
    open_selected_graph,
    quiet_option,
    refuse,
    resolve_graph_uri,
)
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import format_count, format_table, print_error, print_json, print_text
from omnigraph.lang.lexer import reveal
from omnigraph.telemetry import format_bytes

if TYPE_CHECKING:
    from omnigraph.ops.cleanup import CleanupProgress, CleanupResult

_NUMBER_COLUMNS = ("files", "bytes", "versions")
# A stray directory can hold thousands of files. The first ten show what it is; --json lists all of them.
_MAX_LISTED_FILES = 10


@click.command("cleanup")
@click.argument("uri", required=False)
@graph_options
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the newest N commits of every branch.")
@click.option(
    "--older-than",
    type=DURATION,
    metavar="TIME",
    help="Keep every commit that was current within the last TIME, such as 7d or 12h.",
)
@click.option(
    "--grace",
    type=DURATION,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Keep data that was current or written within the last TIME, for reads and writes in progress.",
)
@click.option(
    "--confirm", "is_confirmed", is_flag=True, help="Remove the data. Without it, only show what would be removed."
)
@click.option("--yes", "assume_yes", is_flag=True, help="Do not ask before removing files from a remote store.")
@quiet_option
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    keep: int | None,
    older_than: timedelta | None,
    grace: timedelta,
    is_confirmed: bool,
    assume_yes: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Remove data that no kept commit needs; preview by default.

    Give --keep, --older-than or both: a commit that either one keeps stays, on every branch. Tagged commits, branch
    points and the bases of future merges always stay. A collected commit is still listed but can no longer be read.
    Files that are not part of the graph are reported and left alone. Reads and writes may run at the same time.

    Exit code: 0 on success, 1 if a table could not be cleaned up; all others were.
    """
    if keep is None and older_than is None:
        refuse("specify what to keep: --keep N (commits per branch), --older-than TIME, or both")
    target = resolve_graph_uri(uri, store)
    # Others may share a remote graph, and removed files cannot be restored.
    if is_confirmed and not assume_yes:
        confirm_on_remote(
            target,
            action=f"removing files from {target}",
            question=f"Remove all data from {target} that no kept commit needs?",
            otherwise="nothing was removed",
        )
    with show_progress(f"omnigraph cleanup → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "CleanupProgress") -> None:
            share = progress.done / progress.total
            line.show(f"cleaned {progress.table_key}:", nbytes=progress.bytes_removed, share=share)

        # A preview writes nothing, so that it also works for users who may only read the store.
        graph = open_selected_graph(uri, store, read_only=not is_confirmed)
        try:
            result = graph.cleanup(keep=keep, older_than=older_than, grace=grace, confirm=is_confirmed, progress=show)
        except KeyboardInterrupt:
            line.clear()
            print_error("interrupted: all kept commits can still be read; run the command again to remove the rest")
            raise
    if as_json:
        print_json({"uri": graph.uri, **result.to_json()})
    else:
        print_text(_format_result(result, grace))
    return int(result.has_failed)


def _format_result(result: "CleanupResult", grace: timedelta) -> str:
    parts = [
        _format_total(result, grace),
        _format_branches(result),
        _format_tables(result),
        _format_unknown_files(result.unknown_files),
    ]
    if result.is_preview and result.bytes_removed:
        parts.append("nothing was removed; run again with --confirm to remove it\n")
    return "".join(parts)


def _format_total(result: "CleanupResult", grace: timedelta) -> str:
    if result.bytes_removed:
        verb = "would be removed" if result.is_preview else "removed"
        total = f"{format_bytes(result.bytes_removed)} {verb}"
    else:
        total = "nothing to remove"
    return f"{total}; data current or written within the last {format_duration(grace)} is kept\n"


def _format_branches(result: "CleanupResult") -> str:
    rows = [(branch.branch, str(branch.commits_kept), str(branch.commits_collected)) for branch in result.branches]
    return format_table(("branch", "kept", "collected"), rows, right=("kept", "collected"))


def _format_tables(result: "CleanupResult") -> str:
    """Format one line per table that lost files or failed; nothing if there is none."""
    rows = [
        (
            table.table_key,
            str(table.files_removed),
            format_bytes(table.bytes_removed),
            str(table.old_versions_removed),
            table.error or "",
        )
        for table in result.tables
    ]
    if not rows:
        return ""
    return format_table(("table", *_NUMBER_COLUMNS, "error"), rows, right=_NUMBER_COLUMNS)


def _format_unknown_files(names: tuple[str, ...]) -> str:
    """Format the first unknown files, and how many there are in all."""
    if not names:
        return ""
    listed = "".join(f"\n  {reveal(name)}" for name in names[:_MAX_LISTED_FILES])
    hidden = len(names) - _MAX_LISTED_FILES
    rest = f"\n  and {hidden} more" if hidden > 0 else ""
    return f"{format_count(len(names), 'unknown file')}, not part of the graph, left alone:{listed}{rest}\n"
