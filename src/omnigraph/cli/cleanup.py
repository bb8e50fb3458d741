"""`omnigraph cleanup`."""

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

_COUNTS = ("files", "bytes", "versions")
_MAX_LISTED_FILES = 10


@click.command("cleanup")
@click.argument("uri", required=False)
@graph_options
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the newest N commits of every branch.")
@click.option(
    "--older-than",
    type=DURATION,
    metavar="TIME",
    help="Keep every state that was current within TIME, such as 7d or 12h.",
)
@click.option(
    "--grace",
    type=DURATION,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Leave alone what was current or written within TIME, for those who are still at it.",
)
@click.option("--confirm", "is_confirmed", is_flag=True, help="Do it. Without it, only what would go is shown.")
@click.option("--yes", "is_sure", is_flag=True, help="Don't ask before files on a remote store are removed.")
@quiet_option
@json_option
def command(  # noqa: PLR0913 - its options
    *,
    uri: str | None,
    store: str | None,
    keep: int | None,
    older_than: timedelta | None,
    grace: timedelta,
    is_confirmed: bool,
    is_sure: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Remove what no kept commit needs; shows it first.

    Give --keep, --older-than or both: what either keeps stays, on every branch. Tagged commits stay, those that
    branches were taken from, and those that later merges will compare with. A collected commit is still listed, and
    can't be read. Files that are nothing of a graph's are told of and left alone. Others may read and write meanwhile.

    Exit code: 0 when it is done, 1 when some table could not be cleaned up; the others were.
    """
    if keep is None and older_than is None:
        refuse("say what to keep: --keep N (commits of each branch), --older-than TIME, or both")
    target = resolve_graph_uri(uri, store)
    if is_confirmed and not is_sure:
        confirm_on_remote(
            target,
            action=f"removing files of {target}",
            question=f"Remove what no kept commit of {target} needs?",
            otherwise="nothing is removed",
        )
    with show_progress(f"omnigraph cleanup → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "CleanupProgress") -> None:
            share = progress.done / progress.total
            line.show(f"{progress.table_key} is done;", nbytes=progress.bytes_removed, share=share)

        graph = open_selected_graph(uri, store, read_only=not is_confirmed)
        try:
            result = graph.cleanup(keep=keep, older_than=older_than, grace=grace, confirm=is_confirmed, progress=show)
        except KeyboardInterrupt:
            line.clear()
            print_error("interrupted: what is kept can be read as before; run it again for the rest")
            raise
    if as_json:
        print_json({"uri": graph.uri, **result.to_json()})
    else:
        print_text(_format_result(result, grace))
    return int(result.has_failed)


def _format_result(result: "CleanupResult", grace: timedelta) -> str:
    verb = "would be " if result.is_preview else ""
    total = f"{format_bytes(result.bytes_removed)} {verb}removed" if result.bytes_removed else "nothing to remove"
    branches = [(one.branch, str(one.commits_kept), str(one.commits_collected)) for one in result.branches]
    parts = [
        f"{total}; what was current or written within {format_duration(grace)} stays\n",
        format_table(("branch", "kept", "collected"), branches, right=("kept", "collected")),
    ]
    tables = [
        (
            one.table_key,
            str(one.files_removed),
            format_bytes(one.bytes_removed),
            str(one.old_versions_removed),
            one.error or "",
        )
        for one in result.tables
    ]
    if tables:
        parts.append(format_table(("table", *_COUNTS, "error"), tables, right=_COUNTS))
    parts.append(_format_unknown_files(result.unknown_files))
    if result.is_preview and result.bytes_removed:
        parts.append("nothing was removed: --confirm does it\n")
    return "".join(parts)


def _format_unknown_files(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    more = len(names) - _MAX_LISTED_FILES
    rest = f"\n  and {more} more" if more > 0 else ""
    shown = "".join(f"\n  {reveal(name)}" for name in names[:_MAX_LISTED_FILES])
    return f"{format_count(len(names), 'unknown file')}, nothing of a graph's, left alone:{shown}{rest}\n"
