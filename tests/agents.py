"""Agents for tests: the protocol's own client, over HTTP in this process, or over pipes to a child process."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from secrets_sought import leaks_of_files
from serving import TOKENS, Served

T = TypeVar("T")

MODES = ("auto", "legacy")
"""The newest protocol, and those that begin with a handshake."""
SECONDS = 60.0
"""How long an agent waits for an answer, on a machine that has other things to do."""


def talk(
    served: Served,
    role: str,
    story: Callable[[Client], Awaitable[T]],
    *,
    path: str = "/mcp/people",
    mode: str = "auto",
) -> T:
    """What somebody learns who asks over HTTP."""

    async def told() -> T:
        async with agent(served, role, path=path, mode=mode) as client:
            return await story(client)

    return anyio.run(told)


@asynccontextmanager
async def agent(served: Served, role: str, *, path: str = "/mcp/people", mode: str = "auto") -> AsyncIterator[Client]:
    """An agent with the token of a role."""
    headers = {"Authorization": f"Bearer {TOKENS[role]}"}
    wire = httpx2.ASGITransport(served.client.app)
    async with httpx2.AsyncClient(transport=wire, headers=headers, timeout=SECONDS) as http:
        transport = streamable_http_client(f"http://localhost:8080{path}", http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=SECONDS) as client:
            yield client


@asynccontextmanager
async def child(log: Path, *words: str, mode: str = "auto", heard: list[Any] | None = None) -> AsyncIterator[Client]:
    """An agent that has started `omnigraph mcp` with these words, whose stderr is in a file."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "omnigraph", "mcp", *words], env={"LANCE_LOG": "error"}
    )

    async def hear(message: Any) -> None:
        if heard is not None:
            heard.append(message)

    with log.open("a", encoding="utf-8") as out:
        transport = stdio_client(command, errlog=out)
        async with Client(transport, mode=mode, message_handler=hear, read_timeout_seconds=SECONDS) as client:
            yield client
    assert leaks_of_files([log]) == []


def text_of(result: Any) -> str:
    """The text of a tool's answer."""
    (content,) = result.content
    found: str = content.text
    return found
