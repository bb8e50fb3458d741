"""`omnigraph optimize`."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import (
    branch_option,
    chosen_graph,
    engine_option,
    json_option,
    master_option,
    quiet_option,
    refuse,
    store_option,
)
from omnigraph.cli.progress import progress_line
from omnigraph.cli.render import print_error, print_json, print_text, table_text
from omnigraph.lang.invisible import reveal

if TYPE_CHECKING:
    from omnigraph.ops.optimize import OptimizeProgress, OptimizeResult
    from omnigraph.ops.table_upkeep import TableUpkeep

_HEADERS = ("table", "fragments", "indexes built", "pending", "outcome")


@click.command("optimize")
@click.argument("uri", required=False)
@store_option
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated.")
@click.option(
    "--all-indexes", is_flag=True, help="Also build declared indexes that no query asks, for other tools that do."
)
@engine_option
@master_option
@branch_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the commits are by.")
@click.option("--message", metavar="TEXT", help="A message to keep with the commits.")
@quiet_option
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    types: tuple[str, ...],
    all_indexes: bool,
    engine: str,
    master: str | None,
    branch: str,
    actor: str,
    message: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Merge small files, complete indexes; no row changes.

    Small fragments are merged, those with many deleted rows are written anew, and indexes are built or completed where
    that pays. Each table gets a commit of its own; a table with nothing to do costs nothing. Others may read and write
    meanwhile. OMNIGRAPH_MAINTENANCE_CONCURRENCY is how many tables are worked on at once. With --engine spark large
    tables are compacted and indexed by Spark's executors; otherwise this process does it.
    """
    if master is not None and engine == "local":
        refuse("--master is for Spark: leave out --engine local")
    target = chosen_graph(uri, store)
    with progress_line(f"omnigraph optimize → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "OptimizeProgress") -> None:
            line.show(f"{progress.table_key} is done;", rows=0, share=progress.done / progress.total)

        try:
            result = omnigraph.open_graph(target).optimize(
                types=types or None,
                all_indexes=all_indexes,
                engine=engine,
                master=master,
                branch=branch,
                actor=actor,
                message=message,
                progress=show,
            )
        except KeyboardInterrupt:
            line.clear()
            print_error("interrupted: tables that were done stay so; run it again for the others")
            raise
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_text(result))
    return int(result.has_failed)


def _text(result: "OptimizeResult") -> str:
    rows = [
        (
            one.table_key,
            f"{one.fragments_removed} → {one.fragments_added}" if one.fragments_removed else "",
            ", ".join(one.indexes_built),
            ", ".join(one.indexes_pending),
            _outcome(one),
        )
        for one in result.tables
    ]
    return table_text(_HEADERS, rows)


def _outcome(one: "TableUpkeep") -> str:
    if one.error is not None:
        return f"failed: {one.error}"
    return f"commit {one.commit_id}" if one.commit_id is not None else f"{one.skipped}"
