"""`omnigraph export`."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from omnigraph.cli.options import (
    Instant,
    branch_option,
    engine_option,
    graph_options,
    json_option,
    limit_options,
    master_option,
    open_selected_graph,
    quiet_option,
)
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import ReaderGoneError, format_count, format_facts, print_error, print_json, print_text
from omnigraph.errors import OutputError
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.export import Exported, ExportProgress


@click.command("export")
@click.argument("uri", required=False)
@graph_options
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be given several times.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
    help="One JSON object a line, or a Parquet file for each type.",
)
@click.option("--output", metavar="PATH", help="A file for jsonl, a directory for parquet; also on s3://bucket/…")
@branch_option
@click.option("--snapshot", "commit_id", metavar="ID", help="The state of a commit, tag or manifest version.")
@click.option("--at", type=Instant(), metavar="TIME", help="The state at this time, such as 2026-01-31T12:00:00Z.")
@engine_option
@master_option
@limit_options
@quiet_option
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    types: tuple[str, ...],
    format_: str,
    output: str | None,
    branch: str,
    commit_id: str | None,
    at: datetime | None,
    engine: str,
    master: str | None,
    seconds: float | None,
    memory_bytes: int | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Write a graph's rows as JSONL or Parquet.

    The newest state, unless a commit or a time is named. Graph JSONL goes to stdout, or to the file --output: node
    types, then edge types, in the order the schema declares them, and the rows of each by id. Parquet goes to the
    directory --output, as nodes/TYPE.parquet and edges/TYPE.parquet. With --output, what was written is printed.

    With --engine spark, or --master, executors write it: to a directory --output, which all of them see, of files that,
    one behind the other by name, are the same rows in the same order.
    """
    _check_options(format_, output, commit_id, at, as_json=as_json)
    _check_engine(engine, master, output)
    graph = open_selected_graph(uri, store, read_only=True)
    chosen = types or None
    if output is None:
        try:
            graph.export(
                _get_stdout(),
                types=chosen,
                branch=branch,
                snapshot=commit_id,
                at=at,
                seconds=seconds,
                memory_bytes=memory_bytes,
            )
        except BrokenPipeError as error:
            raise ReaderGoneError from error
        except OSError as error:
            raise OutputError(error.strerror or str(error)) from error
        return 0
    with show_progress(f"omnigraph export → {reveal(output)}", is_quiet=quiet) as line:

        def show(progress: "ExportProgress") -> None:
            share = progress.rows / progress.total_rows if progress.total_rows else None
            line.show(f"writing {progress.type}", rows=progress.rows, share=share)

        try:
            exported = graph.export(
                output,
                format=format_,
                types=chosen,
                branch=branch,
                snapshot=commit_id,
                at=at,
                engine=engine,
                master=master,
                progress=show,
                seconds=seconds,
                memory_bytes=memory_bytes,
            )
        except KeyboardInterrupt:
            line.clear()
            told = "types that were done are written, others are not" if format_ == "parquet" else "nothing is written"
            print_error(f"interrupted: {told}")
            raise
    if as_json:
        print_json({"output": output, **exported.to_json()})
    else:
        print_text(_format_result(output, exported))
    return 0


def _check_options(
    format_: str, output: str | None, commit_id: str | None, at: datetime | None, *, as_json: bool
) -> None:
    message = None
    if commit_id is not None and at is not None:
        message = "give either --snapshot or --at, not both"
    elif format_ == "parquet" and output is None:
        message = "Parquet is a file for each type: name a directory with --output"
    elif as_json and output is None:
        message = "stdout takes the rows: use --json with --output"
    if message is not None:
        raise click.UsageError(message, click.get_current_context())


def _check_engine(engine: str, master: str | None, output: str | None) -> None:
    message = None
    if master is not None and engine == "local":
        message = "--master is for Spark: leave out --engine local"
    elif (master is not None or engine == "spark") and output is None:
        message = "Spark writes several files: name a directory with --output"
    if message is not None:
        raise click.UsageError(message, click.get_current_context())


def _get_stdout() -> BinaryIO:
    sys.stdout.flush()
    return cast("BinaryIO", sys.stdout.buffer)


def _format_result(output: str, exported: "Exported") -> str:
    counts = {name: format_count(rows, "row") for name, rows in exported.rows.items()}
    return format_facts({"output": output, "commit": exported.commit_id, **counts})
