"""Count the object-store requests of Lance by target, and translate its store errors."""

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lance.lance import register_lance_metrics_recorder, snapshot_lance_metrics

from omnigraph.concurrency import announce_call
from omnigraph.storage.object_store import DISK_FULL_ERRNOS, StoreDeniedError, StoreFullError, StoreUnavailableError
from omnigraph.telemetry import Telemetry

_REQUESTS = "lance_object_store_requests_total"
_state = {"registered": False}
_lock = threading.Lock()
# The open blocks that requests are attributed to, in the order in which they began.
_open_blocks: list[tuple[Telemetry, str]] = []
# The counters of Lance by operation, when they were last attributed.
_attributed: dict[str, int] = {}

_DENIED_MARKS = ("lacked the necessary privileges", "401 Unauthorized", "403 Forbidden", "Permission denied")
# Errors after which nothing is known about the stored data: the system could not look.
_SYSTEM_ERRNOS = (
    errno.EIO, errno.EINTR, errno.EAGAIN, errno.ENOMEM, errno.EBUSY, errno.ENFILE, errno.EMFILE, errno.ENOBUFS,
    errno.ETIMEDOUT, errno.ESTALE, *DISK_FULL_ERRNOS,
)  # fmt: skip


def _build_error_marks(codes: Iterable[int]) -> tuple[str, ...]:
    """Return the texts of system error codes, as a Rust error, a Rust panic and Python show them."""
    shapes = ((f"(os error {code})", f"Os {{ code: {code},", os.strerror(code)) for code in codes)
    return tuple(mark for shape in shapes for mark in shape)


_FULL_MARKS = _build_error_marks(DISK_FULL_ERRNOS)
# Parts of Lance error messages that blame the store, not the stored data.
_UNREACHABLE_MARKS = (
    "Generic S3 error",
    "HTTP error",
    "timed out",
    *_DENIED_MARKS,
    *_build_error_marks(_SYSTEM_ERRNOS),
)
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
    """Count the requests of Lance inside the block for `target`; free unless telemetry has a listener.

    Blocks may overlap, as those of interleaved scans do. Each request is attributed once: to the open block that began
    last. Lance counts requests per process, so counts are exact only while one operation runs at a time.
    """
    if not telemetry.is_listening:
        with announce_call(target):
            yield
        return
    block = (telemetry, target)
    with _lock:
        _attribute()
        _open_blocks.append(block)
    try:
        with announce_call(target):
            yield
    finally:
        with _lock:
            _attribute()
            # By identity: overlapping blocks of one target are equal.
            position = next(position for position, other in enumerate(_open_blocks) if other is block)
            del _open_blocks[position]


def _attribute() -> None:
    """Record the requests since the last call for the innermost open block, if there is one."""
    now = _read_totals()
    if _open_blocks:
        telemetry, target = _open_blocks[-1]
        for operation, count in now.items():
            telemetry.record(target, operation, count - _attributed.get(operation, 0))
    _attributed.update(now)


@contextmanager
def translate_store_errors(action: str) -> Iterator[None]:
    """Translate what Lance raises when the store fails into our own error, which names the action.

    Lance reports a failed read of a scan as a ValueError; one that does not concern the store is left alone.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if not isinstance(error, OSError) and not is_io(error):
            raise
        raise convert_store_error(action, error) from error


def convert_store_error(action: str, error: BaseException) -> StoreUnavailableError:
    """Convert an error of Lance, raised because the store failed or refused, to our own."""
    text = str(error)
    failure = StoreUnavailableError
    if any(mark in text for mark in _FULL_MARKS):
        failure = StoreFullError
    elif any(mark in text for mark in _DENIED_MARKS):
        failure = StoreDeniedError
    return failure(action, extract_reason(error))


def is_unreachable(error: BaseException) -> bool:
    """Return whether the store did not answer or refused: then nothing is known about the stored data."""
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRNOS:
        return True
    return any(mark in str(error) for mark in _UNREACHABLE_MARKS)


def is_io(error: Exception) -> bool:
    """Return whether an error of Lance is about reading or writing files, not about the call."""
    return any(mark in str(error) for mark in _IO_MARKS) or is_unreachable(error)


def extract_reason(error: BaseException) -> str:
    """Return the first line of an error of Lance, without the position in its source."""
    return str(error).split("\n", 1)[0].split(", /home", 1)[0].removeprefix("External error: ")


def count_process_requests() -> dict[str, int]:
    """Return the number of object-store requests of Lance in this process since the first call, by operation."""
    return _read_totals()
