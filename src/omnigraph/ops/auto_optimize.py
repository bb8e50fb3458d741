"""Maintenance that looks after itself: rounds of looking and optimising that use no more than a share of the time.

Off unless somebody starts it: a server with `[maintenance] auto = true`, or `omnigraph optimize --auto`. It does what
`optimize` does, so writers never fail or wait because of it.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.errors import OmnigraphError
from omnigraph.ops.argument_checks import BadArgumentError, check_number
from omnigraph.ops.branch import list_branches
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.open import heal
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import TableUpkeep, UpkeepCall
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.telemetry import log

DEFAULT_ACTOR = "omnigraph-reconciler"
"""Who its commits are by, unless somebody else is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePolicy:
    """How much of the time maintenance may take."""

    every_seconds: float = 60.0
    """How long it waits at least between two rounds."""
    budget: float = 0.1
    """The share of the time that it may work: after work of six seconds it rests for 54."""
    actor: str = DEFAULT_ACTOR

    def check(self) -> None:
        """BadArgumentError or ActorRefusedError for what makes no sense."""
        check_number("every_seconds", self.every_seconds)
        check_number("budget", self.budget)
        if not self.every_seconds > 0:
            raise BadArgumentError("every", f"{self.every_seconds:g} s", "it must be longer than nothing")
        if not 0 < self.budget <= 1:
            raise BadArgumentError("budget", f"{self.budget:g}", "it is a share, above 0 and at most 1")
        check_signature(self.actor, None, None)

    def compute_rest(self, worked: float) -> float:
        """How long to rest after so many seconds of work."""
        return max(self.every_seconds, worked * (1 - self.budget) / self.budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileRound:
    """What one round did: the tables that were worked on, by branch."""

    tables: tuple[tuple[str, TableUpkeep], ...] = ()
    is_cut_short: bool = False
    """Whether it was stopped before it had seen everything."""


class Reconciler:
    """Keeps the branches of one graph optimised until it is stopped. One thread runs it; any thread may stop it."""

    def __init__(
        self, session: Session, policy: ReconcilePolicy, tell: Callable[[ReconcileRound], None] | None = None
    ) -> None:
        session.allow_on_graph(Action.MAINTAIN)
        policy.check()
        session.check_writable()
        self._session, self._policy, self._tell = session, policy, tell
        self._stopped = threading.Event()
        self._seen: dict[str, dict[str, int]] = {}
        """By branch, the versions of tables that need nothing."""

    def stop(self) -> None:
        """Let it end behind the table that it works on."""
        self._stopped.set()

    def run(self) -> None:
        """Round after round until `stop`. A store that does not answer ends a round, not the reconciler."""
        clock = self._session.runtime.clock
        while not self._stopped.is_set():
            began = clock.monotonic()
            try:
                done = self.round()
            except OmnigraphError as error:
                log.warning("maintenance of %s is tried again later: %s", self._session.uri, error)
            else:
                if self._tell is not None:
                    self._tell(done)
            self._stopped.wait(self._policy.compute_rest(clock.monotonic() - began))

    def round(self) -> ReconcileRound:
        """Settle what died, then optimise what pays on every branch, of tables written since it looked."""
        heal(self._session, self._session.head())
        worked: list[tuple[str, TableUpkeep]] = []
        for branch in self._list_branches():
            try:
                for report in self._reconcile(branch):
                    worked.append((branch, report))
                    if self._stopped.is_set():
                        return ReconcileRound(tables=tuple(worked), is_cut_short=True)
            except (BranchGoneError, BranchMissingError, TypeMissingError) as error:
                log.info("the branch %s is looked at again: %s", branch, error)
                self._seen.pop(branch, None)
        return ReconcileRound(tables=tuple(worked))

    def _list_branches(self) -> list[str]:
        names = [one.name for one in list_branches(self._session)]
        for gone in self._seen.keys() - set(names):
            del self._seen[gone]
        return names

    def _reconcile(self, branch: str) -> Iterator[TableUpkeep]:
        """Optimise a branch, a table at a time. Tables that nobody wrote since they were looked at cost nothing."""
        session = self._session.checkout(branch)
        pins = {key: pin.version for key, pin in session.head().snapshot.pins.items()}
        seen = self._seen.setdefault(branch, {})
        changed = [key for key, version in pins.items() if seen.get(key) != version]
        if not changed:
            return
        upkeep = UpkeepCall(actor=self._policy.actor)
        looked = optimize(
            session, OptimizeCall(types=tuple(map(_get_type_name, changed)), upkeep=upkeep, is_dry_run=True)
        )
        due = {one.table_key: one for one in looked.due}
        failed = {one.table_key for one in looked.tables if one.error is not None}
        seen.update({key: pins[key] for key in changed if key not in due and key not in failed})
        for key in sorted(due, key=lambda key: -due[key].fragments_removed):
            if self._stopped.is_set():
                return
            yield from optimize(session, OptimizeCall(types=(_get_type_name(key),), upkeep=upkeep)).tables


def _get_type_name(table_key: str) -> str:
    return table_key.partition(":")[2]
