"""Looks for what no log may have: the tokens of the tests, and the values that they sent."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from serving import TOKENS

SHORTEST = 5
"""Shorter values may be in a log by chance."""
SERVERS = ("omnigraph", "uvicorn", "fastapi", "starlette", "mcp.server", "mcp.shared", "asyncio")
"""Whose lines end up in a server's log; the rest is said by the clients of the tests."""


def leaks(text: str, values: Iterable[str] = ()) -> list[str]:
    """Which tokens and which of these values a text has."""
    found = [f"the token of {role}" for role, token in TOKENS.items() if token in text]
    return found + [value for value in values if len(value) >= SHORTEST and value in text]


def leaks_of_files(files: Iterable[Path], values: Iterable[str] = ()) -> list[str]:
    """The same, of files as far as they are there."""
    sought = list(values)
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.exists()]
    return [one for text in texts for one in leaks(text, sought)]


def values_in(body: object) -> Iterator[str]:
    """Every text that a request has as the value of a parameter."""
    match body:
        case {"params": dict(params)}:
            yield from (str(value) for value in params.values())


@contextmanager
def everything_said() -> Iterator[list[str]]:
    """What servers in this process log at any level, formatted as plainly as possible."""
    lines: list[str] = []
    handler = _Kept(lines)
    loggers = [logging.getLogger(name) for name in SERVERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


class _Kept(logging.Handler):
    """Keeps each record with all that belongs to it."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self._lines.append(f"{record.name} {record.getMessage()} {getattr(record, 'fields', '')}")
