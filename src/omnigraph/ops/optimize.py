"""Optimize tables: compact small fragments, remove deleted rows from files, extend indexes. No row changes its values.

Each table is optimized and published independently, concurrently with writers: none of them fails or waits because of
it, and what they delete from rows that are being rewritten is deleted from the new files too. A rewrite that can't be
rebased onto the new version is planned again.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from omnigraph.backoff import wait_for_retry
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_horizon import TooSlowError
from omnigraph.concurrency import create_pool
from omnigraph.errors import OmnigraphError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.indexes import map_types
from omnigraph.ops.keep_derived import extend_text_indexes, keep_after_optimize
from omnigraph.ops.maintenance_worker import LocalOptimizeWorker, OptimizeWorker
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.optimize_table import OptimizeAttempt, TableUpkeep, UpkeepCall
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.cas_table_errors import OutdatedError
from omnigraph.telemetry import log

# Number of times a table is planned because other writers keep rewriting it.
MAX_ATTEMPTS = 10
# Interval between checks for cancellation while tables are optimized.
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeProgress:
    """The progress of an optimize run: the table finished last, and the numbers of finished and of all tables."""

    table_key: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeCall:
    """The arguments of an optimize run."""

    types: tuple[str, ...] | None = None
    """The types to optimize; None for all."""
    upkeep: UpkeepCall
    is_dry_run: bool = False
    """Whether to only report what would be done."""
    progress: Callable[[OptimizeProgress], None] | None = None


class OptimizeResult(JsonStruct, frozen=True, kw_only=True):
    """The changes of an optimization by table, in declared order."""

    branch: str
    tables: tuple[TableUpkeep, ...]

    @property
    def has_failed(self) -> bool:
        """Whether a table could not be optimized; the others were."""
        return any(table.error is not None for table in self.tables)

    @property
    def due(self) -> tuple[TableUpkeep, ...]:
        """The tables for which a dry run found work."""
        return tuple(table for table in self.tables if table.is_due)


def optimize(session: Session, call: OptimizeCall, worker: OptimizeWorker | None = None) -> OptimizeResult:
    """Optimize every table where it pays off; a table that fails does not stop the others.

    `worker` does the rewriting, by default in this process.
    """
    session.allow(Action.MAINTAIN, signed=call.upkeep.actor)
    if not call.is_dry_run:
        session.check_writable()
    check_signature(call.upkeep.actor, call.upkeep.message, None)
    keys = _select_tables(session, call.types)
    options = session.runtime.options.upkeep
    active_worker = worker or LocalOptimizeWorker(options)
    results: dict[str, TableUpkeep] = {}
    # Before any work starts: a small table may be published before the next check.
    session.check_cancelled()
    with create_pool(options.concurrency, "optimize") as pool:
        waiting = {pool.submit(_optimize_isolated, session, key, call, active_worker): key for key in keys}
        try:
            for future in _iter_completed(session, waiting):
                key = waiting[future]
                results[key] = future.result()
                if call.progress is not None:
                    call.progress(OptimizeProgress(table_key=key, done=len(results), total=len(keys)))
        except BaseException:
            # Also on an interrupt: running workers must end before the error leaves the pool.
            active_worker.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    keep_after_optimize(session, results.values())
    if not call.is_dry_run:
        extend_text_indexes(session, results.values())
    return OptimizeResult(branch=session.log.branch, tables=tuple(results[key] for key in keys))


def _iter_completed(session: Session, futures: Collection[Future[TableUpkeep]]) -> Iterator[Future[TableUpkeep]]:
    """Yield each future when it is done, checking for cancellation while waiting."""
    pending = set(futures)
    while pending:
        session.check_cancelled()
        done, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
        yield from done


def _select_tables(session: Session, types: Sequence[str] | None) -> list[str]:
    """Return the keys of the tables to optimize.

    Raises:
        TypeMissingError: The schema has no type of that name.
    """
    snapshot = session.head().snapshot
    names = {type_.name: key for key, type_ in map_types(session.load_catalog(snapshot)).items()}
    for name in types or ():
        if name not in names:
            raise TypeMissingError(name, find_closest(name, names))
    return [key for name, key in names.items() if (types is None or name in types) and key in snapshot.pins]


def _optimize_isolated(session: Session, table_key: str, call: OptimizeCall, worker: OptimizeWorker) -> TableUpkeep:
    try:
        if call.is_dry_run:
            return OptimizeAttempt(session, session.head(), table_key, call.upkeep, worker).preview()
        return optimize_table(session, table_key, call.upkeep, worker)
    except OmnigraphError as error:
        log.warning("%s was not optimized: %s", table_key, error)
        return TableUpkeep(table_key=table_key, error=str(error))


def optimize_table(
    session: Session, table_key: str, call: UpkeepCall, worker: OptimizeWorker, attempts: int = MAX_ATTEMPTS
) -> TableUpkeep:
    """Plan, rewrite and publish a table; start over if another writer has rewritten it in the meantime."""
    for attempt in range(attempts):
        head = session.head()
        if table_key not in head.snapshot.pins:
            return TableUpkeep(table_key=table_key, skipped="the table was dropped in the meantime")
        try:
            return OptimizeAttempt(session, head, table_key, call, worker).run()
        except (ConflictError, TooSlowError, OutdatedError) as error:
            log.info("planning %s again: %s", table_key, error)
            wait_for_retry(session.runtime, attempt)
    return TableUpkeep(
        table_key=table_key, skipped=f"other writers rewrote it {attempts} times in the meantime; try again later"
    )
