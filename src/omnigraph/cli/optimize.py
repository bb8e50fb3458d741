"""`omnigraph optimize`."""

import signal
import sys
from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import (
    Seconds,
    branch_option,
    engine_option,
    graph_options,
    is_served,
    json_option,
    master_option,
    open_selected_graph,
    quiet_option,
    refuse,
    resolve_graph_uri,
)
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import format_json, format_table, print_error, print_json, print_text
from omnigraph.clock import SystemClock, format_instant
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.ops.auto_optimize import ReconcileRound
    from omnigraph.ops.optimize import OptimizeProgress, OptimizeResult
    from omnigraph.ops.optimize_table import TableUpkeep


def run_reconciler(graph: "Graph", *, every: float, budget: float, actor: str | None, as_json: bool) -> int:
    """Optimise what pays until SIGTERM, which lets the table at hand be finished, or Ctrl-C, which does not."""

    def tell(done: "ReconcileRound") -> None:
        now = format_instant(SystemClock().now())
        for branch, one in done.tables:
            line = (
                format_json({"at": now, "branch": branch, **one.to_json()}, sys.stdout)
                if as_json
                else _format_line(now, branch, one)
            )
            print_text(f"{line}\n")
        sys.stdout.flush()

    reconciler = graph.reconciler(every_seconds=every, budget=budget, actor=actor, tell=tell)
    before = signal.signal(signal.SIGTERM, lambda *_: reconciler.stop())
    try:
        reconciler.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _format_line(now: str, branch: str, one: "TableUpkeep") -> str:
    if one.error is not None:
        return f"{now} {branch} {one.table_key}: failed: {one.error}"
    if one.commit_id is None:
        return f"{now} {branch} {one.table_key}: {one.skipped}"
    fragments = f"{one.fragments_removed} → {one.fragments_added} fragments" if one.fragments_removed else ""
    indexes = f"indexes {', '.join(one.indexes_built)}" if one.indexes_built else ""
    done = "; ".join(part for part in (fragments, indexes) if part)
    return f"{now} {branch} {one.table_key}: {done}, commit {one.commit_id}"


_HEADERS = ("table", "fragments", "indexes built", "pending", "outcome")


@click.command("optimize")
@click.argument("uri", required=False)
@graph_options
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated.")
@click.option(
    "--all-indexes", is_flag=True, help="Also build declared indexes that no query asks, for other tools that do."
)
@click.option("--dry-run", is_flag=True, help="Only show what is worth doing; write nothing.")
@click.option("--auto", "is_auto", is_flag=True, help="Go on for ever: look again and again, and do what pays.")
@click.option("--every", type=Seconds(), metavar="SECONDS", help="With --auto, the time between two looks; 60.")
@click.option(
    "--budget",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="PERCENT",
    help="With --auto, the most of the time that it may work; 10.",
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
    dry_run: bool,
    is_auto: bool,
    every: float | None,
    budget: float | None,
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
    tables are compacted and indexed by Spark's executors; otherwise this process does it. With --auto it runs until it
    is ended, on all branches, and prints a line (with --json a JSON object) for each table that it worked on.
    """
    if master is not None and engine == "local":
        refuse("--master is for Spark: leave out --engine local")
    target = resolve_graph_uri(uri, store)
    if is_served() and (is_auto or engine == "spark" or master is not None):
        refuse("a server optimises by itself: leave --auto, --engine spark and --master out, and see its settings")
    if is_auto:
        if types or all_indexes or dry_run or engine == "spark" or master is not None or message is not None:
            refuse("--auto looks after all of a graph by itself: it goes with --every, --budget, --as and --json only")
        return run_reconciler(
            open_selected_graph(uri, store),
            every=60.0 if every is None else every,
            budget=0.1 if budget is None else budget / 100,
            actor=None if actor == "anonymous" else actor,
            as_json=as_json,
        )
    if every is not None or budget is not None:
        refuse("--every and --budget go with --auto")
    with show_progress(f"omnigraph optimize → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "OptimizeProgress") -> None:
            line.show(f"{progress.table_key} is done;", rows=0, share=progress.done / progress.total)

        try:
            result = open_selected_graph(uri, store, read_only=dry_run).optimize(
                types=types or None,
                all_indexes=all_indexes,
                dry_run=dry_run,
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
        print_text(_format_result(result))
    return int(result.has_failed)


def _format_result(result: "OptimizeResult") -> str:
    rows = [
        (
            one.table_key,
            f"{one.fragments_removed} → {one.fragments_added}" if one.fragments_removed else "",
            ", ".join(one.indexes_built),
            ", ".join(one.indexes_pending),
            _format_outcome(one),
        )
        for one in result.tables
    ]
    return format_table(_HEADERS, rows)


def _format_outcome(one: "TableUpkeep") -> str:
    if one.error is not None:
        return f"failed: {one.error}"
    return f"commit {one.commit_id}" if one.commit_id is not None else f"{one.skipped}"
