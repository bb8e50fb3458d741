"""What the actors of a run were told, and what may be told by a run afterwards."""

from dataclasses import dataclass, field

from race.checker import Txn, anomalies
from schedules.scheduler import Scheduler


@dataclass
class Attempt:
    """A transaction in progress; one that never ends has an unknown outcome."""

    name: str
    start: float
    appends: dict[str, str]
    reads: dict[str, list[str]] = field(default_factory=dict)
    end: float = float("inf")
    outcome: str = "unknown"
    reason: str = ""
    is_repeated: bool = False
    """Whether it was told that an earlier request has done it."""


@dataclass
class History:
    """The transactions of a run."""

    scheduler: Scheduler
    attempts: list[Attempt] = field(default_factory=list)
    promised: list[tuple[str, str, str]] = field(default_factory=list)
    """Elements that other acknowledged operations promise: (branch, list, element)."""
    keyed: list[Attempt] = field(default_factory=list)
    """Requests with one and the same idempotency key."""
    created: list[str] = field(default_factory=list)
    """The names that branches got; a name may be used again."""
    gone: dict[str, float] = field(default_factory=dict)
    """Branches that may be deleted, and since when that is certain."""

    def begin(self, name: str, appends: dict[str, str]) -> Attempt:
        """Note the begin of a transaction."""
        attempt = Attempt(name, len(self.scheduler.trace), appends)
        self.attempts.append(attempt)
        return attempt

    def end(self, attempt: Attempt, outcome: str, reason: str = "") -> None:
        """Note what its actor was told."""
        attempt.end = len(self.scheduler.trace)
        attempt.outcome = outcome
        if outcome != "ok":
            # It may have been run on states of its group that were never published.
            attempt.reads = {}
        attempt.reason = reason

    def find_anomalies(self, final: dict[str, list[str]]) -> list[str]:
        """Return what contradicts that acknowledged transactions happened one after another, in real time."""
        for attempt in self.attempts:
            if attempt.outcome == "unknown":
                attempt.reads = {}
        history = [
            Txn(attempt.name, attempt.start, attempt.end, attempt.outcome, attempt.reads, attempt.appends)
            for attempt in self.attempts
        ]
        # Elements of unknown outcome that are not there never happened, as far as anybody knows.
        happened = {element for elements in final.values() for element in elements}
        kept = [
            txn
            for txn in history
            if txn.outcome != "unknown" or not txn.appends or set(txn.appends.values()) & happened
        ]
        return [*anomalies(kept, final), *self._find_halves(final), *self._find_repeated(final)]

    def _find_repeated(self, final: dict[str, list[str]]) -> list[str]:
        elements = {element for attempt in self.keyed for element in attempt.appends.values()}
        present = sorted(elements & {element for items in final.values() for element in items})
        is_promised = any(attempt.outcome == "ok" or attempt.is_repeated for attempt in self.keyed)
        if len(present) > 1 or (is_promised and not present):
            return [f"requests of one key have the effects {present}"]
        return []

    def _find_halves(self, final: dict[str, list[str]]) -> list[str]:
        halves = []
        for attempt in self.attempts:
            present = {key for key, element in attempt.appends.items() if element in final.get(key, ())}
            if present and present != attempt.appends.keys():
                halves.append(f"half of {attempt.name} is there: {sorted(present)}")
            for other in self.attempts:
                if other.outcome == "unknown":
                    continue
                both = attempt.appends.keys() & other.reads.keys()
                seen = {key for key in both if attempt.appends[key] in other.reads[key]}
                if seen and seen != both:
                    halves.append(f"{other.name} read half of {attempt.name}: {sorted(seen)}")
        return halves
