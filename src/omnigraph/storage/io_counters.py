"""Counting what Lance asks of the object store, by target."""

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lance.lance import register_lance_metrics_recorder, snapshot_lance_metrics

from omnigraph.storage.object_store import DISK_FULL_ERRNOS, StoreDeniedError, StoreFullError, StoreUnavailableError
from omnigraph.telemetry import Telemetry

_REQUESTS = "lance_object_store_requests_total"
_state = {"registered": False}
_lock = threading.Lock()
_open_blocks: list[tuple[Telemetry, str]] = []
"""The blocks that requests are attributed to, in the order in which they were begun."""
_attributed: dict[str, int] = {}
"""Lance's counts when they were last attributed, by operation."""

_DENIED_MARKS = ("lacked the necessary privileges", "401 Unauthorized", "403 Forbidden", "Permission denied")
_SYSTEM_ERRNOS = (
    errno.EIO, errno.EINTR, errno.EAGAIN, errno.ENOMEM, errno.EBUSY, errno.ENFILE, errno.EMFILE, errno.ENOBUFS,
    errno.ETIMEDOUT, errno.ESTALE, *DISK_FULL_ERRNOS,
)  # fmt: skip
"""What the system says when it could not look: nothing is known then about what is stored."""


def _build_error_marks(codes: Iterable[int]) -> tuple[str, ...]:
    """Return how codes of the system are told: as Rust shows an error, as a panic of it does, and as Python does."""
    shapes = ((f"(os error {code})", f"Os {{ code: {code},", os.strerror(code)) for code in codes)
    return tuple(mark for shape in shapes for mark in shape)


_FULL_MARKS = _build_error_marks(DISK_FULL_ERRNOS)
_UNREACHABLE_MARKS = (
    "Generic S3 error",
    "HTTP error",
    "timed out",
    *_DENIED_MARKS,
    *_build_error_marks(_SYSTEM_ERRNOS),
)
"""What the text of Lance's errors says when the store is to blame, and not what is stored in it."""
_IO_MARKS = ("LanceError(IO)", "Not found:")


def _read_totals() -> dict[str, int]:
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
def attribute_requests(telemetry: Telemetry, target: str) -> Iterator[None]:
    """Attribute to `target` what Lance requests inside the block; free unless somebody counts.

    Blocks may overlap, as those of scans do that are read by turns. Each request is attributed once: to the block that
    was begun last of those that are open. Lance's counters are those of the process, so counts are exact only while one
    operation runs at a time.
    """
    if not telemetry.is_listening:
        yield
        return
    block = (telemetry, target)
    with _lock:
        _attribute()
        _open_blocks.append(block)
    try:
        yield
    finally:
        with _lock:
            _attribute()
            place = next(place for place, one in enumerate(_open_blocks) if one is block)
            del _open_blocks[place]


def _attribute() -> None:
    """Record what was requested since this was last called, for the innermost of the open blocks, if there is one."""
    now = _read_totals()
    if _open_blocks:
        telemetry, target = _open_blocks[-1]
        for operation, count in now.items():
            telemetry.record(target, operation, count - _attributed.get(operation, 0))
    _attributed.update(now)


@contextmanager
def translate_store_errors(action: str) -> Iterator[None]:
    """Turn what Lance raises when the store fails it into our own error, which says what was being done.

    Lance reports a failed read of a scan as a ValueError; one that has nothing to do with the store is left alone.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if not isinstance(error, OSError) and not is_io(error):
            raise
        raise convert_store_error(action, error) from error


def convert_store_error(action: str, error: BaseException) -> StoreUnavailableError:
    """Our error for one of Lance's, when the store failed or refused."""
    told = str(error)
    failure = StoreUnavailableError
    if any(mark in told for mark in _FULL_MARKS):
        failure = StoreFullError
    elif any(mark in told for mark in _DENIED_MARKS):
        failure = StoreDeniedError
    return failure(action, extract_reason(error))


def is_unreachable(error: BaseException) -> bool:
    """Whether the store did not answer or refused: then nothing is known about what is stored."""
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRNOS:
        return True
    return any(mark in str(error) for mark in _UNREACHABLE_MARKS)


def is_io(error: Exception) -> bool:
    """Whether an error of Lance is about reading or writing files, and not about the call."""
    return any(mark in str(error) for mark in _IO_MARKS) or is_unreachable(error)


def extract_reason(error: BaseException) -> str:
    """The first line of an error of Lance, without the place in its source."""
    return str(error).split("\n", 1)[0].split(", /home", 1)[0].removeprefix("External error: ")


def count_process_requests() -> dict[str, int]:
    """How many requests Lance has made of object stores in this process since this was first asked, by operation."""
    return _read_totals()
