"""Log lines for machines: one JSON object each. They never have a token, a parameter's value or a query's text."""

import json
import logging
import traceback
from types import TracebackType

from omnigraph.clock import Clock, format_instant

log = logging.getLogger("omnigraph.server")

FIELDS = "fields"
"""The attribute of a record that holds what belongs to the line beside its message."""


_OWN_LOGGER = "omnigraph"
_LIBRARY_LOGGERS = ("asyncio", "mcp", "uvicorn")
"""Whose warnings are worth a line. Their messages may quote what somebody sent: of them, only the template is shown."""


class JsonFormatter(logging.Formatter):
    """Each record as one line of JSON. Of an exception it shows its type and where it was, not what it said."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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
    """An exception without its message, which may quote what a caller sent."""
    frames = traceback.extract_tb(trace)
    return {"exception": type_.__name__, "trace": [f"{one.filename}:{one.lineno} {one.name}" for one in frames]}


def start_logging(clock: Clock, level: int = logging.INFO) -> None:
    """Write what the server and the engine have to say to stderr, as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(clock))
    for name, lowest in ((_OWN_LOGGER, level), *((name, logging.WARNING) for name in _LIBRARY_LOGGERS)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(lowest)
        logger.propagate = False
