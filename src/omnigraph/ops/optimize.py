"""Keep tables fast: merge small fragments, drop deleted rows from files, complete indexes. No row says anything else.

Each table is worked on and published by itself, beside writers: none of them fails or waits because of it, and what
they do to rows that are being rewritten is done to the new ones too. What can't be moved along is planned again.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_horizon import TooSlowError
from omnigraph.errors import OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.indexes import map_types
from omnigraph.ops.maintenance_worker import LocalOptimizeWorker, OptimizeWorker
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.optimize_table import OptimizeAttempt, TableUpkeep, UpkeepCall
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.compaction import OutdatedRewriteError
from omnigraph.storage.index_staging import OutdatedSegmentError
from omnigraph.telemetry import log

MAX_ATTEMPTS = 10
"""How often a table is planned again because others rewrote it meanwhile."""
_MAX_DOUBLINGS = 5
_POLL_SECONDS = 0.1
"""How often it is asked, while tables are worked on, whether that is still wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeProgress:
    """How far it is: the table that was done last, and how many of how many are."""

    table_key: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeCall:
    """What to optimise."""

    types: tuple[str, ...] | None = None
    """Only these; None: all."""
    upkeep: UpkeepCall
    is_dry_run: bool = False
    """Only tell what is worth doing."""
    progress: Callable[[OptimizeProgress], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeResult:
    """What was done, table by table, in declared order."""

    branch: str
    tables: tuple[TableUpkeep, ...]

    @property
    def has_failed(self) -> bool:
        """Whether a table could not be worked on; the others were."""
        return any(one.error is not None for one in self.tables)

    @property
    def due(self) -> tuple[TableUpkeep, ...]:
        """The tables for which a dry run found something worth doing."""
        return tuple(one for one in self.tables if one.is_due)

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {"branch": self.branch, "tables": [one.to_json() for one in self.tables]}


def optimize(session: Session, call: OptimizeCall, hands: OptimizeWorker | None = None) -> OptimizeResult:
    """Optimise every table where it pays; one that fails does not keep the others from it.

    `hands` do the heavy work; without any, this process does it.
    """
    session.allow(Action.MAINTAIN, signed=call.upkeep.actor)
    if not call.is_dry_run:
        session.check_writable()
    check_signature(call.upkeep.actor, call.upkeep.message, None)
    keys = _select_tables(session, call.types)
    options = session.runtime.options.upkeep
    workers = hands or LocalOptimizeWorker(options)
    found: dict[str, TableUpkeep] = {}
    session.check_cancelled()  # before anything is begun: a table that is small may be published before it is asked again
    with ThreadPoolExecutor(options.concurrency, thread_name_prefix="optimize") as pool:
        waiting = {pool.submit(_optimize_isolated, session, key, call, workers): key for key in keys}
        try:
            for future in _iter_completed(session, waiting):
                key = waiting[future]
                found[key] = future.result()
                if call.progress is not None:
                    call.progress(OptimizeProgress(table_key=key, done=len(found), total=len(keys)))
        except BaseException:
            workers.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return OptimizeResult(branch=session.log.branch, tables=tuple(found[key] for key in keys))


def _iter_completed(session: Session, futures: Collection[Future[TableUpkeep]]) -> Iterator[Future[TableUpkeep]]:
    """Each when it is done, as long as it is wanted."""
    left = set(futures)
    while left:
        session.check_cancelled()
        done, left = wait(left, _POLL_SECONDS, FIRST_COMPLETED)
        yield from done


def _select_tables(session: Session, types: Sequence[str] | None) -> list[str]:
    """The keys of the tables to work on, or TypeMissingError."""
    snapshot = session.head().snapshot
    names = {type_.name: key for key, type_ in map_types(session.load_catalog(snapshot)).items()}
    for name in types or ():
        if name not in names:
            raise TypeMissingError(name, find_closest(name, names))
    return [key for name, key in names.items() if (types is None or name in types) and key in snapshot.pins]


def _optimize_isolated(session: Session, table_key: str, call: OptimizeCall, hands: OptimizeWorker) -> TableUpkeep:
    try:
        if call.is_dry_run:
            return OptimizeAttempt(session, session.head(), table_key, call.upkeep, hands).preview()
        return _optimize_table(session, table_key, call.upkeep, hands)
    except OmnigraphError as error:
        log.warning("%s was not optimised: %s", table_key, error)
        return TableUpkeep(table_key=table_key, error=str(error))


def _optimize_table(session: Session, table_key: str, call: UpkeepCall, hands: OptimizeWorker) -> TableUpkeep:
    """Plan, work and publish; again from the start when the table was rewritten by somebody else meanwhile."""
    runtime = session.runtime
    for number in range(MAX_ATTEMPTS):
        head = session.head()
        if table_key not in head.snapshot.pins:
            return TableUpkeep(table_key=table_key, skipped="the table was dropped meanwhile")
        try:
            return OptimizeAttempt(session, head, table_key, call, hands).run()
        except (ConflictError, TooSlowError, OutdatedRewriteError, OutdatedSegmentError) as error:
            log.info("%s is planned again: %s", table_key, error)
            runtime.clock.sleep(runtime.ids.jitter(runtime.options.backoff_seconds * 2 ** min(number, _MAX_DOUBLINGS)))
    return TableUpkeep(
        table_key=table_key, skipped=f"others rewrote it {MAX_ATTEMPTS} times meanwhile: try again later"
    )
