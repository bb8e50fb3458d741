"""Traces and metrics by OpenTelemetry: request, its query or mutation, its commit; no parameter, row or text.

The exporter reads its endpoint, headers and names from the variables of OpenTelemetry (`OTEL_…`).
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar, cast

from omnigraph.errors import LibraryMissingError, OmnigraphError
from omnigraph.extensions import Extension, load_extension
from omnigraph.server.metrics import Metrics

T = TypeVar("T")

# How long a stopping server waits for the collector to take the last spans.
_SECONDS_TO_STOP = 3.0


class TracedExchange(Protocol):
    """What is known of a request; the middleware fills it in until the request ends."""

    method: str
    route: str
    status: int
    code: str | None
    graph: str | None
    branch: str | None
    query: str | None
    commit: str | None
    id: str

    @property
    def action_name(self) -> str | None:
        """The action of the policy, if the request has one."""
        ...


class Traces(Protocol):
    """Records requests and their parts. Thread-safe."""

    def trace_request(self, exchange: TracedExchange, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """Record the block as a request, which may be part of its client's trace."""
        ...

    def trace_work(self, exchange: TracedExchange, work: Callable[[], T]) -> Callable[[], T]:
        """Return work for another thread that is recorded as a part of the current request."""
        ...

    def span(self, name: str) -> AbstractContextManager[object]:
        """Record the block as a part of what this thread works on."""
        ...

    def export(self, metrics: Metrics) -> None:
        """Begin to send metrics periodically."""
        ...

    def close(self) -> None:
        """Send what is left, for at most a few seconds."""
        ...


def load_traces() -> Traces:
    """Return the traces that the environment configures.

    Raises:
        LibraryMissingError: OpenTelemetry is not installed.
    """
    try:
        # Neither this extra nor its packages are imported unless the settings ask for them.
        start = cast("Callable[[], Traces]", load_extension(Extension.TELEMETRY))
    except ImportError as error:
        raise LibraryMissingError("omnigraph[otel]") from error
    return start()


def run_briefly(*works: Callable[[], object]) -> None:
    """Run each work in a thread, and abandon those that take too long."""
    threads = [threading.Thread(target=work, name="flush telemetry", daemon=True) for work in works]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _SECONDS_TO_STOP
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def find_error_code(error: BaseException) -> str:
    """Return what a trace may say of an error: its code, never its message, which may quote a value."""
    return error.code if isinstance(error, OmnigraphError) else "internal"


__all__ = ["TracedExchange", "Traces", "find_error_code", "load_traces", "run_briefly"]
