"""Requests to the server's application without a socket: a test acts between the parts of a response."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.server.http.app import build_app
from serving import Served


@dataclass
class Reply:
    """The response to a request."""

    status: int = 0
    parts: list[bytes | None] = field(default_factory=list)
    """The parts of its body, and None for its end."""


async def request(
    served: Served,
    method: str,
    url: str,
    body: bytes = b"",
    *,
    headers: Mapping[str, str],
    act: Callable[[], None] = lambda: None,
) -> Reply:
    """Return the response to a request; `act` is called after the first part of its body."""
    reply = Reply()
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    path, _, query = url.partition("?")
    given = {"host": "localhost", **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
    }

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
        else:
            reply.parts.append(message["body"] if message.get("more_body") else None)
            if len(reply.parts) == 1:
                act()

    await build_app(served.service)(scope, receive, send)  # type: ignore[arg-type]  # dictionaries are messages
    return reply
