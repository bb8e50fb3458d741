"""Count requests and log by kind and target, never a parameter value or a secret."""

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

_UNITS = ("B", "kB", "MB", "GB", "TB")

# The engine's logger; it has no handler of its own.
log = logging.getLogger("omnigraph")


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A kind of request: `get|head|list|put|delete` on `manifest|table|control`."""

    target: str
    operation: str


@dataclass
class RequestCounts:
    """The object-store requests counted so far."""

    counts: Counter[RequestKey] = field(default_factory=Counter)

    def count(self, *, target: str | None = None, operation: str | None = None) -> int:
        """Return the number of requests that match."""
        return sum(
            number
            for key, number in self.counts.items()
            if (target is None or key.target == target) and (operation is None or key.operation == operation)
        )

    def format_table(self) -> str:
        """Format the counts as sorted lines of text."""
        rows = sorted((key.target, key.operation, n) for key, n in self.counts.items() if n)
        return "\n".join(f"{target:9} {operation:7} {n:5}" for target, operation, n in rows)


class Spans(Protocol):
    """Records how long parts of an operation take, for a system that collects traces."""

    def span(self, name: str) -> AbstractContextManager[object]:
        """Record the block as a part of whatever this thread does."""
        ...


class Telemetry:
    """Counts requests for its listeners; without listeners it costs next to nothing.

    Everything that is recorded here is recorded by `parent` too.
    """

    def __init__(self, *, parent: "Telemetry | None" = None, spans: Spans | None = None) -> None:
        self._lock = threading.Lock()
        self._listeners: list[RequestCounts] = []
        self._parent = parent
        self._spans = spans

    def record(self, target: str, operation: str, count: int = 1) -> None:
        """Add `count` requests."""
        if self._parent is not None:
            self._parent.record(target, operation, count)
        if not self._listeners or not count:
            return
        with self._lock:
            for listener in self._listeners:
                listener.counts[RequestKey(target, operation)] += count

    def span(self, name: str) -> AbstractContextManager[object]:
        """Record the block in the trace of the request that this thread works for, if traces are collected."""
        # A context object for each commit, and nothing more, where no traces are collected.
        if self._spans is not None:
            return self._spans.span(name)
        return nullcontext() if self._parent is None else self._parent.span(name)

    @property
    def is_listening(self) -> bool:
        """Whether requests are being counted now."""
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
                # Not `remove`, which compares by value: an outer block with equal counts would be removed instead.
                self._listeners = [listener for listener in self._listeners if listener is not requests]


# The parent of every handle that is opened with this process's settings: it counts all their requests.
PROCESS_TELEMETRY = Telemetry()


class Recoveries:
    """The number of dead operations that this process has recovered, by graph and outcome. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def record(self, uri: str, outcome: str, count: int) -> None:
        """Add `count` operations of a graph with this outcome."""
        if count:
            with self._lock:
                self._counts[uri, outcome] += count

    def get_counts(self, uri: str) -> dict[str, int]:
        """Return the counts of a graph, by outcome."""
        with self._lock:
            return {outcome: count for (graph, outcome), count in self._counts.items() if graph == uri}


# The recoveries of all handles of this process.
RECOVERIES = Recoveries()


def format_bytes(count: int) -> str:
    """Format a number of bytes, such as `999 B`, `1.2 kB` or `3.4 GB`."""
    number, unit = float(count), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"
