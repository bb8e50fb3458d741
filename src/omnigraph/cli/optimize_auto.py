"""`omnigraph optimize --auto`: round after round until somebody ends it."""

import signal
import sys
from typing import TYPE_CHECKING

from omnigraph.cli.render import format_json, print_text
from omnigraph.clock import SystemClock, format_instant

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.ops.auto_optimize import ReconcileRound
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
