"""`omnigraph backup`: back graphs up, list the backups, and restore them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import json_option, quiet_option
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import format_count, format_table, print_error, print_json, print_text
from omnigraph.lang.lexer import reveal
from omnigraph.telemetry import format_bytes

if TYPE_CHECKING:
    from omnigraph.ops.backup import BackupResult
    from omnigraph.ops.backup_restore import RestoreResult
    from omnigraph.ops.clone_tables import CloneProgress

_HEADERS = ("branch", "commit", "rows")


@click.command("create")
@click.argument("source")
@click.argument("target")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Afterwards, remove all but the N newest backups.")
@quiet_option
@json_option
def create(*, source: str, target: str, keep: int | None, quiet: bool, as_json: bool) -> int:
    """Add a backup of a graph to a repository of backups.

    SOURCE and TARGET are directories or s3://bucket/prefix; the first backup creates the repository TARGET. A backup
    has all branches and their history. It copies what is new since the one before it, while others may write to the
    graph. It exists completely or not at all: after an interruption, run the same command again.
    """
    with _show_copy(f"omnigraph backup {reveal(source)} → {reveal(target)}", is_quiet=quiet) as progress:
        result = omnigraph.back_up_graph(source, target, keep=keep, progress=progress)
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_backup(result))
    return 0


@click.command("list")
@click.argument("repository")
@json_option
def list_(*, repository: str, as_json: bool) -> int:
    """List the backups in a repository, newest first.

    The files of a backup include those that it shares with others.
    """
    backups = omnigraph.list_backups(repository)
    if as_json:
        print_json({"repository": repository, "backups": [backup.to_json() for backup in backups]})
        return 0
    rows = [(each.id, each.at, *map(str, _measure(each)), format_bytes(each.nbytes)) for each in backups]
    right = ("branches", "rows", "files", "size")
    print_text(format_table(("backup", "at", *right), rows, right=right) if rows else "no backups\n")
    return 0


@click.command("restore")
@click.argument("repository")
@click.argument("target")
@click.option("--backup", "backup_id", metavar="ID", help="Restore this backup instead of the newest.")
@quiet_option
@json_option
def restore(*, repository: str, target: str, backup_id: str | None, quiet: bool, as_json: bool) -> int:
    """Restore a backup to an empty location.

    All files are compared with their checksums. TARGET becomes a graph at the very end; after an interruption, the same
    command resumes. Commits keep their ids.
    """
    with _show_copy(f"omnigraph restore {reveal(repository)} → {reveal(target)}", is_quiet=quiet) as progress:
        result = omnigraph.restore_graph(repository, target, backup=backup_id, progress=progress)
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_restored(result))
    return 0


@contextmanager
def _show_copy(title: str, *, is_quiet: bool) -> Iterator[Callable[["CloneProgress"], None]]:
    """Show the progress of the copy in the block."""
    with show_progress(title, is_quiet=is_quiet) as line:

        def show(progress: "CloneProgress") -> None:
            share = progress.nbytes / progress.total_bytes if progress.total_bytes else 1.0
            phase = f"{progress.files:,} of {format_count(progress.total_files, 'file')}"
            line.show(phase, nbytes=progress.nbytes, share=share)

        try:
            yield show
        except KeyboardInterrupt:
            line.clear()
            print_error("interrupted: run the command again to resume")
            raise


def _format_backup(result: "BackupResult") -> str:
    copied = f"{format_count(result.files, 'file')}, {format_bytes(result.nbytes)}"
    begin = f"backup {result.backup.id} in {reveal(result.target)}: {copied}"
    if not result.is_new:
        begin = f"nothing has changed since backup {result.backup.id} in {reveal(result.target)}"
    removed = f"removed {format_count(len(result.removed), 'older backup')}\n" if result.removed else ""
    return f"{begin}\n{removed}{_format_branches(result.backup)}"


def _format_restored(result: "RestoreResult") -> str:
    copied = f"{format_count(result.files, 'file')}, {format_bytes(result.nbytes)}"
    begin = f"restored backup {result.backup.id} of {result.backup.at} to {reveal(result.target)}: {copied}"
    return f"{begin}\n{_format_branches(result.backup)}"


def _measure(backup: omnigraph.Backup) -> tuple[int, int, int]:
    return len(backup.branches), sum(backup.rows.values()), backup.files


def _format_branches(backup: omnigraph.Backup) -> str:
    rows = [(name, commit, f"{backup.rows[name]:,}") for name, commit in backup.branches.items()]
    return format_table(_HEADERS, rows, right=("rows",))
