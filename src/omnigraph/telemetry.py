"""Counts and log lines: what the engine did, by kind and target. Never a parameter value or a secret."""

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_UNITS = ("B", "kB", "MB", "GB", "TB")

log = logging.getLogger("omnigraph")
"""The engine's logger; it has no handler of its own."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """One cell of the cost table: `get|head|list|put|delete` on `manifest|table|control`."""

    target: str
    operation: str


@dataclass
class RequestCounts:
    """Object-store requests counted so far."""

    counts: Counter[RequestKey] = field(default_factory=Counter)

    def count(self, *, target: str | None = None, operation: str | None = None) -> int:
        """How many requests match."""
        return sum(
            n
            for key, n in self.counts.items()
            if (target is None or key.target == target) and (operation is None or key.operation == operation)
        )

    def format_table(self) -> str:
        """The counts as lines of text, sorted."""
        rows = sorted((key.target, key.operation, n) for key, n in self.counts.items() if n)
        return "\n".join(f"{target:9} {operation:7} {n:5}" for target, operation, n in rows)


class Telemetry:
    """Collects request counts for whoever is listening; costs nothing when nobody is.

    One `above` another is told of everything that is recorded below it.
    """

    def __init__(self, *, parent: "Telemetry | None" = None) -> None:
        self._lock = threading.Lock()
        self._listeners: list[RequestCounts] = []
        self._parent = parent

    def record(self, target: str, operation: str, count: int = 1) -> None:
        """Add `count` requests."""
        if self._parent is not None:
            self._parent.record(target, operation, count)
        if not self._listeners or not count:
            return
        with self._lock:
            for listener in self._listeners:
                listener.counts[RequestKey(target, operation)] += count

    @property
    def is_listening(self) -> bool:
        """Whether somebody counts right now."""
        return bool(self._listeners) or (self._parent is not None and self._parent.is_listening)

    @contextmanager
    def count_requests(self) -> Iterator[RequestCounts]:
        """Count the requests made inside the block."""
        requests = RequestCounts()
        with self._lock:
            self._listeners.append(requests)
        try:
            yield requests
        finally:
            with self._lock:
                # Not `remove`: an outer block that has counted the same is equal to this one.
                self._listeners = [one for one in self._listeners if one is not requests]


PROCESS_TELEMETRY = Telemetry()
"""Above that of every handle that is opened with the settings of this process: all of its requests."""


class Recoveries:
    """How many operations that died were settled in this process, by graph and outcome. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def record(self, uri: str, outcome: str, count: int) -> None:
        """So many more of a graph ended like that."""
        if count:
            with self._lock:
                self._counts[uri, outcome] += count

    def get_counts(self, uri: str) -> dict[str, int]:
        """Those of a graph, by outcome."""
        with self._lock:
            return {outcome: count for (graph, outcome), count in self._counts.items() if graph == uri}


RECOVERIES = Recoveries()
"""Those of this process, whoever of its handles settled them."""


def format_bytes(count: int) -> str:
    """`999 B`, `1.2 kB`, `3.4 GB`."""
    number, unit = float(count), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"
