"""`omnigraph clone`: copy a graph."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import json_option, quiet_option
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import format_count, format_table, print_error, print_json, print_text
from omnigraph.lang.lexer import reveal
from omnigraph.telemetry import format_bytes

if TYPE_CHECKING:
    from omnigraph.ops.clone import CloneResult
    from omnigraph.ops.clone_tables import CloneProgress

_HEADERS = ("branch", "commit", "rows")


@click.command("clone")
@click.argument("source")
@click.argument("target")
@click.option(
    "--branch",
    "branches",
    multiple=True,
    metavar="NAME",
    help="Besides main, only this branch and those it was created from; may be repeated.",
)
@quiet_option
@json_option
def command(*, source: str, target: str, branches: tuple[str, ...], quiet: bool, as_json: bool) -> int:
    """Copy a graph with its branches and history to another location.

    SOURCE and TARGET are directories or s3://bucket/prefix. The source is only read, and others may keep writing to
    it. Commits keep their ids, and every state that can be read in the source can be read in the clone. The target
    must be empty. It becomes a graph at the very end; after an interruption, the same command resumes.
    """
    with show_progress(f"omnigraph clone {reveal(source)} → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "CloneProgress") -> None:
            share = progress.nbytes / progress.total_bytes if progress.total_bytes else 1.0
            phase = f"{progress.files:,} of {format_count(progress.total_files, 'file')}"
            line.show(phase, nbytes=progress.nbytes, share=share)

        try:
            result = omnigraph.clone_graph(source, target, branches=branches or None, progress=show)
        except KeyboardInterrupt:
            line.clear()
            print_error("interrupted: run the command again to resume")
            raise
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return 0


def _format_result(result: "CloneResult") -> str:
    rows = [(name, commit, f"{result.rows[name]:,}") for name, commit in result.branches.items()]
    copied = f"{format_count(result.files, 'file')}, {format_bytes(result.nbytes)}"
    # Versions that cleanup had collected in the source cannot be read in the clone either.
    collected = f"{format_count(result.collected, 'old version')} had been collected\n" if result.collected else ""
    return f"cloned to {reveal(result.target)}: {copied}\n{collected}{format_table(_HEADERS, rows, right=('rows',))}"
