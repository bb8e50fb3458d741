"""The requests in progress that their clients have named, so that another request can cancel them."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.clock import Clock, format_instant
from omnigraph.engine.query_budget import Budget
from omnigraph.server.http_errors import BadRequestError

# Names that need no escaping in a path.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class _Running:
    budget: Budget
    route: str
    started_at: str
    began: float


class RunningQueries:
    """The named requests in progress, by graph and actor: no actor sees or cancels those of another. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str, str], _Running] = {}

    @contextmanager
    def track(self, graph: str, actor: str, query_id: str | None, route: str, budget: Budget) -> Iterator[None]:
        """Let a request be cancelled by its name while the `with` block runs; without a name, do nothing.

        Raises:
            BadRequestError: It is no such name, or another running request of the actor has it.
        """
        if query_id is None:
            yield
            return
        if not _NAME.fullmatch(query_id):
            raise BadRequestError("query_id", "it has 1 to 64 letters, digits, `-` and `_`")
        # The actor is part of the key, so that guessing a name is of no use.
        key = (graph, actor, query_id)
        running = _Running(budget, route, format_instant(self._clock.now()), self._clock.monotonic())
        with self._lock:
            if key in self._running:
                raise BadRequestError("query_id", "another request of yours with this name is running")
            self._running[key] = running
        try:
            yield
        finally:
            # The name can be used again, also if the request failed or was cancelled.
            with self._lock:
                del self._running[key]

    def cancel(self, graph: str, actor: str, query_id: str) -> bool:
        """Cancel a request, which soon ends with QueryCancelledError; return whether there is such a one."""
        with self._lock:
            running = self._running.get((graph, actor, query_id))
        # Outside the lock: it wakes threads that wait within this budget.
        if running is not None:
            running.budget.cancel()
        return running is not None

    def list_running(self, graph: str, actor: str) -> list[dict[str, object]]:
        """Return the named requests of an actor that are in progress, oldest first, in their JSON form."""
        now = self._clock.monotonic()
        # A dict keeps the order in which its keys were added.
        with self._lock:
            own = [(key[2], running) for key, running in self._running.items() if key[:2] == (graph, actor)]
        return [
            {
                "query_id": query_id,
                "route": running.route,
                "started_at": running.started_at,
                "seconds": round(now - running.began, 3),
            }
            for query_id, running in own
        ]
