"""Answer the requests that other workers pass on, through a Unix socket in a directory of the server's own."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from starlette.types import Message, Receive, Scope

from omnigraph.server.http.relay_frames import (
    Channel,
    FrameKind,
    RelayedAnswer,
    RelayedEnd,
    RelayedRequest,
    encode_frame,
)
from omnigraph.server.service import Exchange

_CHUNK_LIMIT = 2**20


class RelayedApp(Protocol):
    """What answers a request that another worker has checked and counts."""

    async def answer_relayed(self, scope: Scope, receive: Receive, send: "RelayedSend", exchange: Exchange) -> None:
        """Send a response; any error becomes one."""
        ...


class RelayServer:
    """The socket of a worker for the others."""

    def __init__(self, app: RelayedApp, path: Path) -> None:
        self._app = app
        self._path = path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to accept connections."""
        self._server = await asyncio.start_unix_server(self._accept, str(self._path), limit=_CHUNK_LIMIT)

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        self._path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server starts one for each connection
        self._tasks.add(task)
        channel = Channel(reader, writer)
        try:
            while await self._answer(channel):
                pass
        # The other worker is gone, or has no use for this response any more.
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            channel.close()

    async def _answer(self, channel: Channel) -> bool:
        """Answer one request; return whether another may follow on the connection."""
        head = (await channel.receive()).decode(RelayedRequest)
        body = (await channel.receive()).data
        exchange = Exchange(id=head.request_id, method=head.method, began=0.0, client=head.client, is_relayed=True)
        exchange.next_commit = head.next_commit
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": head.method,
            "scheme": "http",
            "path": head.path,
            "raw_path": head.path.encode(),
            "query_string": head.query.encode("latin-1"),
            "root_path": "",
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers],
            "client": (head.client, 0) if head.client else None,
            "server": None,
            "state": {"exchange": exchange},
        }
        send = RelayedSend(channel)
        await self._app.answer_relayed(scope, _RelayedReceive(channel, body), send, exchange)
        return await send.finish(exchange)


class RelayedSend:
    """An ASGI `send` that writes frames: those of a short response in one piece."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._parts: list[bytes] = []
        self.has_begun = False
        self._is_complete = False

    async def __call__(self, message: Message) -> None:
        """Add a message, and write it unless it is a short response, which is written with its end."""
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            self._parts.append(encode_frame(FrameKind.ANSWER, RelayedAnswer(status=message["status"], headers=headers)))
            return
        if body := message.get("body", b""):
            self._parts.append(encode_frame(FrameKind.CHUNK, body))
        self._is_complete = not message.get("more_body", False)
        if not self._is_complete:
            await self._flush()

    async def finish(self, exchange: Exchange) -> bool:
        """Write the end of a response, and return True; one that broke has none."""
        if not self._is_complete:
            return False
        end = RelayedEnd(query=exchange.query, commit=exchange.commit, code=exchange.code)
        self._parts.append(encode_frame(FrameKind.END, end))
        await self._flush()
        return True

    async def _flush(self) -> None:
        data, self._parts = b"".join(self._parts), []
        self._channel.writer.write(data)
        await self._channel.writer.drain()


class _RelayedReceive:
    """An ASGI `receive`: the body, and then the end of the connection, as the other worker's client leaves."""

    def __init__(self, channel: Channel, body: bytes) -> None:
        self._channel = channel
        self._body: bytes | None = body

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        # The other end sends nothing before it has the response.
        with suppress(OSError):
            await self._channel.reader.read(1)
        return {"type": "http.disconnect"}
