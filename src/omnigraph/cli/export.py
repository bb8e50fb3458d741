"""`omnigraph export`: write rows to files or stdout."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import (
    at_option,
    branch_option,
    engine_option,
    graph_options,
    json_option,
    limit_options,
    master_option,
    open_selected_graph,
    quiet_option,
    refuse,
    refuse_two_states,
    snapshot_option,
)
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import (
    format_count,
    format_facts,
    get_binary_stdout,
    print_error,
    print_json,
    print_text,
    translate_output_errors,
)
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.export import Exported, ExportProgress


@click.command("export")
@click.argument("uri", required=False)
@graph_options
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "parquet", "graphml", "node-link"]),
    default="jsonl",
    show_default=True,
    help="One JSON object per line, one Parquet file per type, or a document for other programs.",
)
@click.option("--output", metavar="PATH", help="A file, or a directory for parquet; also on s3://bucket/…")
@branch_option
@snapshot_option
@at_option
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
    """Export a graph's rows as JSONL, Parquet, GraphML or node-link JSON.

    Exports the newest state, unless a commit or a time is given. Graph JSONL goes to stdout, or to the file --output:
    node types, then edge types, in the order of the schema, and the rows of each type by id. Parquet goes to the
    directory --output, as nodes/TYPE.parquet and edges/TYPE.parquet. GraphML and node-link JSON, which other programs
    read, need the nodes at the ends of all edges. With --output, a summary is printed.

    With --engine spark or --master, Spark executors write files to the directory --output, which all of them must be
    able to reach. Read in the order of their names, the files contain the same rows in the same order.
    """
    refuse_two_states(commit_id, at)
    _check_output_options(format_, output, as_json=as_json)
    _check_engine_options(engine, master, output)
    graph = open_selected_graph(uri, store, read_only=True)
    if output is None:
        with translate_output_errors():
            graph.export(
                get_binary_stdout(),
                format=format_,
                types=types or None,
                branch=branch,
                snapshot=commit_id,
                at=at,
                seconds=seconds,
                memory_bytes=memory_bytes,
            )
        return 0
    with show_progress(f"omnigraph export → {reveal(output)}", is_quiet=quiet) as line:

        def show(progress: "ExportProgress") -> None:
            share = progress.rows / progress.total_rows if progress.total_rows else None
            line.show(f"writing {progress.type}", rows=progress.rows, share=share)

        try:
            exported = graph.export(
                output,
                format=format_,
                types=types or None,
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
            # Each Parquet file appears once it is complete; a JSONL file only at the very end.
            outcome = "only finished types were written" if format_ == "parquet" else "nothing was written"
            print_error(f"interrupted: {outcome}")
            raise
    if as_json:
        print_json({"output": output, **exported.to_json()})
    else:
        print_text(_format_result(output, exported))
    return 0


def _check_output_options(format_: str, output: str | None, *, as_json: bool) -> None:
    if format_ == "parquet" and output is None:
        refuse("Parquet is written as one file per type: name a directory with --output")
    if as_json and output is None:
        refuse("the rows go to stdout, so --json needs --output")


def _check_engine_options(engine: str, master: str | None, output: str | None) -> None:
    if master is not None and engine == "local":
        refuse("--master is for Spark: leave out --engine local")
    if (master is not None or engine == "spark") and output is None:
        refuse("Spark writes several files: name a directory with --output")


def _format_result(output: str, exported: "Exported") -> str:
    counts = {name: format_count(rows, "row") for name, rows in exported.rows.items()}
    return format_facts({"output": output, "commit": exported.commit_id, **counts})
