"""Looks for what no log may have: the tokens of the tests, and the values that they sent."""

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx2
import pytest

from serving import ROLES, TOKENS

SHORTEST = 5
"""Shorter values may be in a log by chance."""
KNOWN = {"people", "Person", *ROLES}
"""What every log has: the names of the graph and of who asks."""
SERVERS = ("omnigraph", "uvicorn", "fastapi", "starlette", "mcp.server", "mcp.shared", "asyncio")
"""Whose lines end up in a server's log; the rest is said by the clients of the tests."""


_LONGEST_BODY = 1024 * 1024


def leaks(text: str, values: Iterable[str] = ()) -> list[str]:
    """Which tokens and which of these values a text has."""
    found = [f"the token of {role}" for role, token in TOKENS.items() if token in text]
    sought = {value for value in values if len(value) >= SHORTEST} - KNOWN
    return found + sorted(value for value in sought if value in text)


def leaks_of_files(files: Iterable[Path], values: Iterable[str] = ()) -> list[str]:
    """The same, of files as far as they are there."""
    sought = list(values)
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.exists()]
    return [one for text in texts for one in leaks(text, sought)]


def values_in(body: object) -> Iterator[str]:
    """Every text that a request has as the value of a parameter, or of a property of a row."""
    match body:
        case {"method": "tools/call", "params": {"arguments": {"params": dict(params)}}}:
            yield from _texts(params)
        case {"method": str()}:
            return
        case {"params": dict(values)} | {"type": str(), "data": dict(values)}:
            yield from _texts(values)


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)


def _values_of(body: object) -> Iterator[str]:
    """The same of a body as it is sent: one document, or a line for each row."""
    if not isinstance(body, bytes | str) or len(body) > _LONGEST_BODY:
        return
    try:
        documents = [json.loads(body)]
    except ValueError:
        documents = []
        for line in body.splitlines():
            try:
                documents.append(json.loads(line))
            except (ValueError, RecursionError):
                continue
    except RecursionError:
        return
    for document in documents:
        yield from values_in(document)


@contextmanager
def everything_sent() -> Iterator[list[str]]:
    """Every such value that a client of this process sends meanwhile, whichever client it is."""
    values: list[str] = []
    by_socket, by_httpx, by_async_httpx = HTTPConnection.request, httpx2.Client.send, httpx2.AsyncClient.send

    def request(self: HTTPConnection, method: str, url: str, body: Any = None, *rest: Any, **given: Any) -> None:
        values.extend(_values_of(body))
        by_socket(self, method, url, body, *rest, **given)

    def send(self: httpx2.Client, request: httpx2.Request, **given: Any) -> httpx2.Response:
        values.extend(_content(request))
        return by_httpx(self, request, **given)

    async def send_async(self: httpx2.AsyncClient, request: httpx2.Request, **given: Any) -> httpx2.Response:
        values.extend(_content(request))
        return await by_async_httpx(self, request, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPConnection, "request", request)
        patch.setattr(httpx2.Client, "send", send)
        patch.setattr(httpx2.AsyncClient, "send", send_async)
        yield values


def _content(request: httpx2.Request) -> Iterator[str]:
    """What is sent as a stream is not looked at: it can be read once."""
    try:
        return _values_of(request.content)
    except httpx2.RequestNotRead:
        return iter(())


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
