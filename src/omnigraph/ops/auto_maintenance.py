"""Run automatic maintenance: compact the tail of a table, or optimise all tables that need it in rounds.

Writers compact tails by themselves (see `tail_keeper`). Rounds, which do all that `optimize` does within a share of the
time, are run by a server with `[maintenance] optimize = true`, and by `omnigraph optimize --auto`. Writers never fail
or wait because of either, and the commits of both are silent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.commit.manifest_types import MAINTAIN, MAINTENANCE
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.concurrency import create_event
from omnigraph.errors import BadArgumentError, OmnigraphError
from omnigraph.ops.argument_checks import check_number
from omnigraph.ops.branch import list_branches
from omnigraph.ops.cleanup import CleanupCall, cleanup
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.maintenance_worker import LocalOptimizeWorker, UpkeepStoppedError
from omnigraph.ops.open import heal
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.optimize import OptimizeCall, optimize, optimize_table
from omnigraph.ops.optimize_table import TableUpkeep, UpkeepCall
from omnigraph.ops.session import Session, without_limits
from omnigraph.policy import Action
from omnigraph.telemetry import log

DEFAULT_ACTOR = "omnigraph-reconciler"
_SECONDS_PER_CLEANUP = 86_400.0


def compact_tail(
    session: Session, table_key: str, is_stopped: Callable[[], bool], max_fragments: int
) -> TableUpkeep | None:
    """Compact the newest small fragments of a table if they are too many; return None if another process works on it.

    No policy applies: the graph itself acts, not the writer. At most `max_fragments` are compacted.

    Raises:
        UpkeepStoppedError: `is_stopped`, which is called between the steps, returned true. Nothing was changed.
    """
    unlimited = without_limits(session)
    # Two processes would write the same files, and one of them in vain.
    sidecars, _ = list_sidecars(session.store)
    running = (item.sidecar for item in sidecars if item.sidecar.manifest_path == session.log.path)
    if any(sidecar.operation in MAINTENANCE for sidecar in running):
        return None
    session.runtime.faults.reach("maintain.begun")

    def check() -> None:
        if is_stopped():
            raise UpkeepStoppedError

    call = UpkeepCall(actor=DEFAULT_ACTOR, operation=MAINTAIN, is_tail=True, max_fragments=max_fragments, check=check)
    # One attempt: if another process has just compacted the same rows, nothing is left to do.
    done = optimize_table(unlimited, table_key, call, LocalOptimizeWorker(session.runtime.options.upkeep), attempts=1)
    session.runtime.faults.reach("maintain.done")
    return done


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePolicy:
    """How often maintenance runs, the share of the time it may use, and the actor of its commits."""

    every_seconds: float = 60.0
    """The minimum pause between two rounds."""
    budget: float = 0.1
    """The share of the time it may work: with 0.1, it rests 54 seconds after 6 seconds of work."""
    actor: str = DEFAULT_ACTOR
    optimizes: bool = True
    """Whether rounds optimise tables."""
    cleanup_days: float = 0.0
    """Once a day, data that was replaced more than this number of days ago is removed; 0: never."""

    def check(self) -> None:
        """Check the values of the policy.

        Raises:
            BadArgumentError, ActorRefusedError: One is invalid.
        """
        check_number("every_seconds", self.every_seconds)
        check_number("budget", self.budget)
        if not self.every_seconds > 0:
            raise BadArgumentError("every", f"{self.every_seconds:g} s", "it must be longer than 0 s")
        if not 0 < self.budget <= 1:
            raise BadArgumentError("budget", f"{self.budget:g}", "it must be a share above 0 and at most 1")
        check_signature(self.actor, None, None)

    def compute_rest(self, worked: float) -> float:
        """Return the seconds to rest after a round that worked for this many seconds."""
        return max(self.every_seconds, worked * (1 - self.budget) / self.budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileRound:
    """The tables that one round optimised, each with its branch."""

    tables: tuple[tuple[str, TableUpkeep], ...] = ()
    is_cut_short: bool = False
    """Whether the round was stopped before its end."""


class Reconciler:
    """A background worker that keeps all branches of a graph optimised. One thread runs it, any thread may stop it."""

    def __init__(
        self, session: Session, policy: ReconcilePolicy, tell: Callable[[ReconcileRound], None] | None = None
    ) -> None:
        session.allow_on_graph(Action.MAINTAIN)
        policy.check()
        session.check_writable()
        self._session = session
        self._policy = policy
        self._on_round = tell
        self._stopped = create_event()
        # The first cleanup is a whole interval after the start, so a server that restarts often does not repeat it.
        self._next_cleanup = session.runtime.clock.monotonic() + _SECONDS_PER_CLEANUP
        # By branch and table, the version that needs no work; such tables are skipped until they are written again.
        self._clean_versions: dict[str, dict[str, int]] = {}

    def stop(self) -> None:
        """Stop after the table in progress."""
        self._stopped.set()

    def run(self) -> None:
        """Run rounds until `stop` is called. An error, such as an unavailable store, ends the round only."""
        clock = self._session.runtime.clock
        while not self._stopped.is_set():
            began = clock.monotonic()
            try:
                result = self.round()
            except OmnigraphError as error:
                log.warning("maintenance of %s failed and is retried in the next round: %s", self._session.uri, error)
            else:
                if self._on_round is not None:
                    self._on_round(result)
            self._stopped.wait(self._policy.compute_rest(clock.monotonic() - began))

    def round(self) -> ReconcileRound:
        """Recover dead operations, then optimise on every branch the tables that were written since the last round."""
        heal(self._session, self._session.head())
        self._clean_up_when_due()
        if not self._policy.optimizes:
            return ReconcileRound()
        tables: list[tuple[str, TableUpkeep]] = []
        for branch in self._list_branches():
            try:
                for report in self._reconcile(branch):
                    tables.append((branch, report))
                    if self._stopped.is_set():
                        return ReconcileRound(tables=tuple(tables), is_cut_short=True)
            # A branch may be deleted, or a type dropped, while the round runs.
            except (BranchGoneError, BranchMissingError, TypeMissingError) as error:
                log.info("branch %s changed during maintenance and is checked again: %s", branch, error)
                self._clean_versions.pop(branch, None)
        return ReconcileRound(tables=tuple(tables))

    def _clean_up_when_due(self) -> None:
        """Run the daily cleanup if there is one. One that fails is tried again after a day."""
        now = self._session.runtime.clock.monotonic()
        if not self._policy.cleanup_days or now < self._next_cleanup:
            return
        self._next_cleanup = now + _SECONDS_PER_CLEANUP
        older_than = timedelta(days=self._policy.cleanup_days)
        done = cleanup(self._session, CleanupCall(older_than=older_than, is_confirmed=True))
        log.info("cleanup of %s removed %d bytes", self._session.uri, done.bytes_removed)

    def _list_branches(self) -> list[str]:
        """Return the names of all branches, and forget those that were deleted."""
        names = [branch.name for branch in list_branches(self._session)]
        for name in self._clean_versions.keys() - set(names):
            del self._clean_versions[name]
        return names

    def _reconcile(self, branch: str) -> Iterator[TableUpkeep]:
        """Optimise a branch table by table. Tables that were not written since the last check cost nothing."""
        session = self._session.checkout(branch)
        pins = {key: pin.version for key, pin in session.head().snapshot.pins.items()}
        clean = self._clean_versions.setdefault(branch, {})
        changed = [key for key, version in pins.items() if clean.get(key) != version]
        if not changed:
            return
        upkeep = UpkeepCall(actor=self._policy.actor, operation=MAINTAIN)
        # The dry run finds out which tables need work, and how many fragments each would lose.
        preview = optimize(
            session, OptimizeCall(types=tuple(map(_get_type_name, changed)), upkeep=upkeep, is_dry_run=True)
        )
        due = {table.table_key: table for table in preview.due}
        # A table that failed is not clean: it is tried again in the next round.
        failed = {table.table_key for table in preview.tables if table.error is not None}
        clean.update({key: pins[key] for key in changed if key not in due and key not in failed})
        # Each fragment costs every scan some requests, so tables with many to merge come first.
        for key in sorted(due, key=lambda key: -due[key].fragments_removed):
            if self._stopped.is_set():
                return
            yield from optimize(session, OptimizeCall(types=(_get_type_name(key),), upkeep=upkeep)).tables


def _get_type_name(table_key: str) -> str:
    return table_key.partition(":")[2]
