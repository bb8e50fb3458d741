"""Pass a request on to another worker, and its response to the client."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omnigraph.server.fleet import Fleet
from omnigraph.server.http.relay_frames import (
    Channel,
    FrameKind,
    RelayedAnswer,
    RelayedEnd,
    RelayedRequest,
    RelayFrame,
    encode_frame,
)
from omnigraph.server.service import Exchange, get_exchange
from omnigraph.server.shared_state import WorkerSlot

# Connections to a worker that are kept for the next requests.
_MAX_IDLE = 64
_CHUNK_LIMIT = 2**20


class WorkerLostError(Exception):
    """A worker ended, or its connection did, before it answered."""

    def __init__(self, slot: WorkerSlot, generation: int, *, is_sent: bool) -> None:
        super().__init__(f"worker {slot.index} is gone")
        self.slot = slot
        self.generation = generation
        self.is_sent = is_sent
        """Whether the worker may have received the request."""


class BrokenResponseError(Exception):
    """A worker ended in the middle of its response: the client's connection is closed without the end of it."""


class ClientGoneError(Exception):
    """The client left before its response."""


class Relay:
    """The connections of a worker to the others. Used by one event loop."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._idle: dict[Path, list[Channel]] = {}

    async def send(
        self, request: Request, target: WorkerSlot, *, next_commit: str | None = None, is_watched: bool = True
    ) -> "RelayedResponse":
        """Have another worker answer a request whose body, if it has one, was received.

        If it is watched, the request is cancelled when its client leaves.

        Raises:
            WorkerLostError: The worker ended first.
            ClientGoneError: The client did.
        """
        generation = target.generation
        path = self._fleet.find_socket(target)
        channel = self._take_idle(path)
        try:
            if channel is None:
                channel = Channel(*await asyncio.open_unix_connection(str(path), limit=_CHUNK_LIMIT))
        except OSError:
            raise WorkerLostError(target, generation, is_sent=False) from None
        try:
            await _send_request(channel, request, next_commit)
            frame = await (_receive_watched(channel, request) if is_watched else channel.receive())
        except (OSError, EOFError):
            channel.close()
            raise WorkerLostError(target, generation, is_sent=True) from None
        except BaseException:
            channel.close()
            raise
        return RelayedResponse(self, path, channel, frame.decode(RelayedAnswer), get_exchange(request))

    def keep(self, path: Path, channel: Channel) -> None:
        """Keep a connection whose response is complete."""
        idle = self._idle.setdefault(path, [])
        if len(idle) < _MAX_IDLE:
            idle.append(channel)
        else:
            channel.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        for channels in self._idle.values():
            for channel in channels:
                channel.close()
        self._idle.clear()

    def _take_idle(self, path: Path) -> Channel | None:
        # Sockets of processes that ended leave with the first request after that.
        for other in [known for known in self._idle if known != path and not known.exists()]:
            for channel in self._idle.pop(other):
                channel.close()
        idle = self._idle.get(path, [])
        while idle:
            channel = idle.pop()
            if not channel.reader.at_eof() and not channel.writer.is_closing():
                return channel
            channel.close()
        return None


class RelayedResponse(Response):
    """The response of another worker, sent on as it arrives."""

    def __init__(self, relay: Relay, path: Path, channel: Channel, answer: RelayedAnswer, exchange: Exchange) -> None:
        self.status_code = answer.status
        self.background = None
        self.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        self._relay, self._path = relay, path
        self._channel, self._exchange = channel, exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - Starlette's interface
        """Send all parts, until the client disconnects."""
        try:
            await self._send_all(receive, send)
        except (OSError, EOFError):
            self._channel.close()
            raise BrokenResponseError from None
        except BaseException:
            self._channel.close()
            raise

    async def read_text(self) -> str:
        """Return the whole body of a response that is not sent on."""
        parts = []
        try:
            while (frame := await self._channel.receive()).kind is FrameKind.CHUNK:
                parts.append(frame.data)
        except BaseException:
            self._channel.close()
            raise
        self._relay.keep(self._path, self._channel)
        return b"".join(parts).decode()

    async def _send_all(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        leaving: asyncio.Future[None] | None = None
        frame = await self._channel.receive()
        try:
            while frame.kind is FrameKind.CHUNK:
                chunk = frame.data
                following = asyncio.ensure_future(self._channel.receive())
                # What follows a short response came with it, and ends it in the same message.
                await asyncio.sleep(0)
                is_last = following.done() and following.result().kind is FrameKind.END
                await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})
                if is_last:
                    self._finish(following.result().decode(RelayedEnd))
                    return
                leaving = leaving or asyncio.ensure_future(_wait_for_disconnect(receive))
                both: tuple[asyncio.Future[Any], ...] = (following, leaving)
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    following.cancel()
                    self._channel.close()
                    return
                frame = following.result()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            self._finish(frame.decode(RelayedEnd))
        finally:
            if leaving is not None:
                leaving.cancel()

    def _finish(self, end: RelayedEnd) -> None:
        exchange = self._exchange
        exchange.query = end.query or exchange.query
        exchange.commit = end.commit or exchange.commit
        exchange.code = end.code
        self._relay.keep(self._path, self._channel)


async def _send_request(channel: Channel, request: Request, next_commit: str | None) -> None:
    exchange = get_exchange(request)
    head = RelayedRequest(
        method=request.method,
        path=request.scope["path"],
        query=request.scope["query_string"].decode("latin-1"),
        headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.scope["headers"]],
        client=exchange.client,
        request_id=exchange.id,
        next_commit=next_commit,
    )
    body: bytes = request.scope["state"].get("body", b"")
    channel.writer.write(encode_frame(FrameKind.REQUEST, head) + encode_frame(FrameKind.BODY, body))
    await channel.writer.drain()


async def _receive_watched(channel: Channel, request: Request) -> RelayFrame:
    """Wait for the first frame of a response, or for the client to leave."""
    receiving = asyncio.ensure_future(channel.receive())
    leaving = asyncio.ensure_future(_wait_for_disconnect(request.receive))
    both: tuple[asyncio.Future[Any], ...] = (receiving, leaving)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            raise ClientGoneError
        return receiving.result()
    finally:
        for future in both:
            future.cancel()
            with suppress(asyncio.CancelledError, OSError, EOFError):
                await future


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
