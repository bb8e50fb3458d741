"""Counting what Lance asks of the object store, by target."""

from collections.abc import Iterator
from contextlib import contextmanager

from lance.lance import register_lance_metrics_recorder, snapshot_lance_metrics

from omnigraph.storage.objects import StoreUnavailableError
from omnigraph.telemetry import Telemetry

_REQUESTS = "lance_object_store_requests_total"
_state = {"registered": False}


def _totals() -> dict[str, int]:
    if not _state["registered"]:
        register_lance_metrics_recorder()
        _state["registered"] = True
    totals: dict[str, int] = {}
    for point in snapshot_lance_metrics():
        if point.name == _REQUESTS:
            operation = point.attributes["operation"]
            totals[operation] = totals.get(operation, 0) + int(point.value or 0)
    return totals


@contextmanager
def counted(telemetry: Telemetry, target: str) -> Iterator[None]:
    """Attribute to `target` what Lance requests inside the block; free unless somebody counts.

    Lance's counters are those of the process, so counts are exact only while one operation runs at a time.
    """
    if not telemetry.is_listening:
        yield
        return
    before = _totals()
    try:
        yield
    finally:
        for operation, count in _totals().items():
            telemetry.record(target, operation, count - before.get(operation, 0))


@contextmanager
def store_errors(action: str) -> Iterator[None]:
    """Turn what Lance raises when the store fails it into our own error, which says what was being done."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(action, reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """The first line of an error of Lance, without the place in its source."""
    return str(error).split("\n", 1)[0].split(", /home", 1)[0]
