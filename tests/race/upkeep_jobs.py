"""What the processes do that race with maintenance. Every function runs in its own process."""

from dataclasses import replace

from omnigraph.ops.open import open_session
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.runtime import Runtime
from race.jobs import RACING, rounds_until
from upkeep_calls import EAGER
from worlds import rows


def opened(uri: str) -> Session:
    """The graph, with settings for races, where maintenance always pays."""
    return open_session(uri, is_read_only=False, runtime=Runtime(options=replace(RACING, upkeep=EAGER)))


def keep_up(uri: str, until: str) -> dict[str, int]:
    """Optimise again and again, until there is a file of this name; what came of it."""
    session = opened(uri)
    call = OptimizeCall(upkeep=UpkeepCall(actor="upkeep"))
    found = {"commits": 0, "rewritten": 0, "failed": 0, "given up": 0}
    for _ in rounds_until(until):
        for one in optimize(session, call).tables:
            found["commits"] += one.commit_id is not None
            found["rewritten"] += one.fragments_removed
            found["failed"] += one.error is not None
            found["given up"] += one.skipped not in (None, "nothing to do")
    return found


def churn(uri: str, table: str, name: str, times: int) -> list[int]:
    """Append, change and delete rows of one's own; how many writes failed, and the sum that is left."""
    session = opened(uri)
    failed = 0
    left: dict[str, int] = {}
    for number in range(times):
        added = {f"{name}-{number}": number, f"{name}-{number}-x": 1}
        changed = {f"{name}-{number - 1}": number * 1_000} if number else {}
        gone = [f"{name}-{number}-x"]
        for write in (
            TableWrite(table_key=table, append=rows(added)),
            TableWrite(table_key=table, upsert=rows(changed)),
            TableWrite(table_key=table, delete=gone),
        ):
            try:
                write_tables(session, [write], operation="churn", actor=name)
            except Exception:  # noqa: BLE001 - whatever it is, the test wants none
                failed += 1
        left |= {**added, **changed}
        for row in gone:
            del left[row]
    return [failed, sum(left.values()), len(left)]
