"""`omnigraph cleanup`."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from omnigraph.cli.confirm import confirm_on_remote
from omnigraph.cli.durations import DURATION, duration_text
from omnigraph.cli.options import chosen_place, json_option, opened_graph, place_options, quiet_option, refuse
from omnigraph.cli.progress import progress_line
from omnigraph.cli.render import count_of, print_error, print_json, print_text, table_text
from omnigraph.lang.invisible import reveal
from omnigraph.telemetry import bytes_text

if TYPE_CHECKING:
    from omnigraph.ops.cleanup import CleanupProgress, CleanupResult

_COUNTS = ("files", "bytes", "versions")
_MOST_STRANGERS = 10


@click.command("cleanup")
@click.argument("uri", required=False)
@place_options
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
    target = chosen_place(uri, store)
    if is_confirmed and not is_sure:
        confirm_on_remote(
            target,
            action=f"removing files of {target}",
            question=f"Remove what no kept commit of {target} needs?",
            otherwise="nothing is removed",
        )
    with progress_line(f"omnigraph cleanup → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "CleanupProgress") -> None:
            share = progress.done / progress.total
            line.show(f"{progress.table_key} is done;", nbytes=progress.bytes_removed, share=share)

        graph = opened_graph(uri, store, read_only=not is_confirmed)
        try:
            result = graph.cleanup(keep=keep, older_than=older_than, grace=grace, confirm=is_confirmed, progress=show)
        except KeyboardInterrupt:
            line.clear()
            print_error("interrupted: what is kept can be read as before; run it again for the rest")
            raise
    if as_json:
        print_json({"uri": graph.uri, **result.to_json()})
    else:
        print_text(_text(result, grace))
    return int(result.has_failed)


def _text(result: "CleanupResult", grace: timedelta) -> str:
    verb = "would be " if result.is_preview else ""
    total = f"{bytes_text(result.bytes_removed)} {verb}removed" if result.bytes_removed else "nothing to remove"
    branches = [(one.branch, str(one.commits_kept), str(one.commits_collected)) for one in result.branches]
    parts = [
        f"{total}; what was current or written within {duration_text(grace)} stays\n",
        table_text(("branch", "kept", "collected"), branches, right=("kept", "collected")),
    ]
    tables = [
        (
            one.table_key,
            str(one.files_removed),
            bytes_text(one.bytes_removed),
            str(one.old_versions_removed),
            one.error or "",
        )
        for one in result.tables
    ]
    if tables:
        parts.append(table_text(("table", *_COUNTS, "error"), tables, right=_COUNTS))
    parts.append(_strangers(result.unknown_files))
    if result.is_preview and result.bytes_removed:
        parts.append("nothing was removed: --confirm does it\n")
    return "".join(parts)


def _strangers(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    more = len(names) - _MOST_STRANGERS
    rest = f"\n  and {more} more" if more > 0 else ""
    shown = "".join(f"\n  {reveal(name)}" for name in names[:_MOST_STRANGERS])
    return f"{count_of(len(names), 'unknown file')}, nothing of a graph's, left alone:{shown}{rest}\n"
