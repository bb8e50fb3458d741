"""`omnigraph optimize`: compact tables and complete indexes, once or continuously."""

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
    from omnigraph.ops.auto_maintenance import ReconcileRound
    from omnigraph.ops.optimize import OptimizeProgress, OptimizeResult
    from omnigraph.ops.optimize_table import TableUpkeep


def run_reconciler(graph: "Graph", *, every: float, budget: float, actor: str | None, as_json: bool) -> int:
    """Optimize tables until SIGTERM, which waits for the current table, or Ctrl-C, which does not."""

    def report_round(done: "ReconcileRound") -> None:
        now = format_instant(SystemClock().now())
        for branch, table in done.tables:
            if as_json:
                line = format_json({"at": now, "branch": branch, **table.to_json()}, sys.stdout)
            else:
                line = _format_line(now, branch, table)
            print_text(f"{line}\n")
        # The command runs for long: a reader of its output sees each round when it ends.
        sys.stdout.flush()

    reconciler = graph.reconciler(every_seconds=every, budget=budget, actor=actor, tell=report_round)
    previous = signal.signal(signal.SIGTERM, lambda *_: reconciler.stop())
    try:
        reconciler.run()
    finally:
        signal.signal(signal.SIGTERM, previous)
    return 0


def _format_line(now: str, branch: str, table: "TableUpkeep") -> str:
    if table.error is not None:
        return f"{now} {branch} {table.table_key}: failed: {table.error}"
    if table.commit_id is None:
        return f"{now} {branch} {table.table_key}: {table.skipped}"
    fragments = f"{table.fragments_removed} → {table.fragments_added} fragments" if table.fragments_removed else ""
    indexes = f"indexes {', '.join(table.indexes_built)}" if table.indexes_built else ""
    changes = "; ".join(part for part in (fragments, indexes) if part)
    return f"{now} {branch} {table.table_key}: {changes}, commit {table.commit_id}"


_HEADERS = ("table", "fragments", "indexes built", "pending", "outcome")


@click.command("optimize")
@click.argument("uri", required=False)
@graph_options
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated.")
@click.option("--all-indexes", is_flag=True, help="Also build declared indexes that no query uses, for other tools.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@click.option(
    "--auto",
    "is_auto",
    is_flag=True,
    help="Run continuously: check all tables regularly, and optimize where it pays off.",
)
@click.option(
    "--every", type=Seconds(), metavar="SECONDS", help="With --auto, the time between two checks; 60 by default."
)
@click.option(
    "--budget",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="PERCENT",
    help="With --auto, the limit of the share of time spent working; 10 by default.",
)
@engine_option
@master_option
@branch_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commits.")
@click.option("--message", metavar="TEXT", help="A message stored with the commits.")
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
    """Compact small files and complete indexes; rows stay unchanged.

    Merges small fragments, rewrites those with many deleted rows, and builds or completes indexes where it pays off.
    Each table gets its own commit; a table with nothing to do costs nothing. Reads and writes may run at the same time.
    OMNIGRAPH_MAINTENANCE_CONCURRENCY sets the number of tables optimized concurrently. With --engine spark, Spark
    executors compact and index large tables; otherwise this process does. With --auto the command runs until it is
    stopped, on all branches, and prints a line (with --json a JSON object) for each table that it worked on.
    """
    if master is not None and engine == "local":
        refuse("--master is for Spark: leave out --engine local")
    target = resolve_graph_uri(uri, store)
    if is_served() and (is_auto or engine == "spark" or master is not None):
        refuse("a server optimizes on its own: leave out --auto, --engine spark and --master, and see its settings")
    if is_auto:
        if types or all_indexes or dry_run or engine == "spark" or master is not None or message is not None:
            refuse("--auto optimizes the whole graph: it can be combined only with --every, --budget, --as and --json")
        return run_reconciler(
            open_selected_graph(uri, store),
            every=60.0 if every is None else every,
            budget=0.1 if budget is None else budget / 100,
            # Without --as, the commits of the reconciler have its own default actor.
            actor=None if actor == "anonymous" else actor,
            as_json=as_json,
        )
    if every is not None or budget is not None:
        refuse("--every and --budget need --auto")
    with show_progress(f"omnigraph optimize → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "OptimizeProgress") -> None:
            line.show(f"optimized {progress.table_key}:", rows=0, share=progress.done / progress.total)

        try:
            # A dry run writes nothing, so that it also works for users who may only read the store.
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
            print_error("interrupted: finished tables stay optimized; run the command again for the others")
            raise
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return int(result.has_failed)


def _format_result(result: "OptimizeResult") -> str:
    rows = [
        (
            table.table_key,
            f"{table.fragments_removed} → {table.fragments_added}" if table.fragments_removed else "",
            ", ".join(table.indexes_built),
            ", ".join(table.indexes_pending),
            _format_outcome(table),
        )
        for table in result.tables
    ]
    return format_table(_HEADERS, rows)


def _format_outcome(table: "TableUpkeep") -> str:
    if table.error is not None:
        return f"failed: {table.error}"
    return f"commit {table.commit_id}" if table.commit_id is not None else f"{table.skipped}"
