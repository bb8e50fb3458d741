"""Structured logging: one JSON object per line, without tokens, parameter values or query texts."""

import json
import logging
import traceback
from types import TracebackType

from omnigraph.clock import Clock, format_instant

log = logging.getLogger("omnigraph.server")

# The attribute of a log record with the fields that its line has in addition to the message.
FIELDS = "fields"

_OWN_LOGGER = "omnigraph"
# Libraries whose warnings are logged. Their arguments may quote a request, so only the message template is written.
_LIBRARY_LOGGERS = ("asyncio", "mcp", "uvicorn")


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one line of JSON, with exceptions as type and location."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        line: dict[str, object] = {
            "time": format_instant(self._clock.now()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage() if record.name.startswith(_OWN_LOGGER) else str(record.msg).partition("\n")[0],
        }
        line |= getattr(record, FIELDS, {})
        if record.exc_info and record.exc_info[0] is not None:
            line |= build_failure_fields(record.exc_info[0], record.exc_info[2])
        return json.dumps(line, ensure_ascii=True, default=str)


def build_failure_fields(type_: type[BaseException], trace: TracebackType | None) -> dict[str, object]:
    """Return the log fields of an exception, without its message, which may quote a request."""
    frames = traceback.extract_tb(trace)
    lines = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {"exception": type_.__name__, "trace": lines}


def start_logging(clock: Clock, level: int = logging.INFO) -> None:
    """Write the log of the server and the engine to stderr, as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(clock))
    levels = {_OWN_LOGGER: level, **dict.fromkeys(_LIBRARY_LOGGERS, logging.WARNING)}
    for name, min_level in levels.items():
        logger = logging.getLogger(name)
        # Replaced, not added: other handlers would write lines that are not JSON.
        logger.handlers = [handler]
        logger.setLevel(min_level)
        logger.propagate = False
