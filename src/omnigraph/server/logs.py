"""Structured logging: one JSON object per line, without tokens, parameter values or query texts."""

import atexit
import json
import logging
import select
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from types import TracebackType
from typing import TextIO

import msgspec

from omnigraph.clock import Clock, format_instant

log = logging.getLogger("omnigraph.server")
_encoder = msgspec.json.Encoder()

# The attribute of a log record with the fields that its line has in addition to the message.
FIELDS = "fields"

# The event of the line that every request has.
REQUEST = "request"
# Long enough for many lines of a busy server, and short for a person who follows the log.
_BUFFER_SECONDS = 0.1
_MAX_BUFFERED_LINES = 256

_OWN_LOGGER = "omnigraph"
# Libraries whose warnings are logged. Their arguments may quote a request, so only the message template is written.
_LIBRARY_LOGGERS = ("asyncio", "mcp", "uvicorn", "opentelemetry")

_REQUEST_FIELDS = vars(logging.LogRecord(log.name, logging.INFO, __file__, 0, REQUEST, None, None))


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one line of JSON, with exceptions as type and location."""

    def __init__(self, clock: Clock, worker: int | None = None) -> None:
        super().__init__()
        self._clock = clock
        self._worker: dict[str, object] = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        line: dict[str, object] = {
            "time": format_instant(self._clock.now()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage() if record.name.startswith(_OWN_LOGGER) else str(record.msg).partition("\n")[0],
            **self._worker,
        }
        line |= getattr(record, FIELDS, {})
        if record.exc_info and record.exc_info[0] is not None:
            line |= build_failure_fields(record.exc_info[0], record.exc_info[2])
        return _encode(line)


def _encode(line: dict[str, object]) -> str:
    """Return a line as ASCII: control characters and other scripts must not confuse a terminal or a collector."""
    try:
        text = _encoder.encode(line).decode()
    except (TypeError, UnicodeError):  # a lone surrogate, or a value that JSON has no form for
        return json.dumps(line, ensure_ascii=True, default=str)
    return text if text.isascii() else json.dumps(line, ensure_ascii=True, default=str)


class BufferedHandler(logging.Handler):
    """A handler that writes lines together, at most a moment later; warnings and errors are written at once.

    A write for each line took 0.05 ms of a request, most of it waiting for other threads. A process that is killed
    loses the lines of that moment.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: list[str] = []
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Add a record to the buffer, and see that it is written soon."""
        # The logging module holds this handler's lock here.
        self._lines.append(self.format(record))
        if record.levelno >= logging.WARNING or record.msg != REQUEST or len(self._lines) >= _MAX_BUFFERED_LINES:
            self.flush()
        elif self._timer is None:
            self._timer = threading.Timer(_BUFFER_SECONDS, self.flush)
            self._timer.daemon = True
            self._timer.start()

    def flush(self) -> None:
        """Write all lines."""
        with self.lock or nullcontext():
            lines, self._lines = self._lines, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            for text in _pack(lines):
                self._stream.write(text)
                self._stream.flush()


def _pack(lines: list[str]) -> Iterator[str]:
    """Yield lines joined to pieces that a pipe takes whole, so that those of several workers are not mixed."""
    piece: list[str] = []
    size = 0
    for line in lines:
        if piece and size + len(line) >= select.PIPE_BUF:
            yield "\n".join([*piece, ""])
            piece, size = [], 0
        piece.append(line)
        size += len(line) + 1
    if piece:
        yield "\n".join([*piece, ""])


def log_request(fields: dict[str, object]) -> None:
    """Log a request; unlike `log.info`, it does not look for the line of code that called it."""
    if log.isEnabledFor(logging.INFO):
        # A record looks up its process, thread and task, of which the line shows nothing: 10 µs.
        record = logging.LogRecord.__new__(logging.LogRecord)
        record.__dict__.update(_REQUEST_FIELDS)
        setattr(record, FIELDS, fields)
        log.handle(record)


def build_failure_fields(type_: type[BaseException], trace: TracebackType | None) -> dict[str, object]:
    """Return the log fields of an exception, without its message, which may quote a request."""
    frames = traceback.extract_tb(trace)
    lines = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {"exception": type_.__name__, "trace": lines}


def start_logging(clock: Clock, level: int = logging.INFO, *, worker: int | None = None) -> None:
    """Write the log of the server and the engine to stderr, as lines of JSON, with the number of a worker."""
    handler = BufferedHandler(sys.stderr)
    atexit.register(handler.flush)
    handler.setFormatter(JsonFormatter(clock, worker))
    levels = {_OWN_LOGGER: level, **dict.fromkeys(_LIBRARY_LOGGERS, logging.WARNING)}
    for name, min_level in levels.items():
        logger = logging.getLogger(name)
        # Replaced, not added: other handlers would write lines that are not JSON.
        logger.handlers = [handler]
        logger.setLevel(min_level)
        logger.propagate = False
