"""Answers: one JSON document within its limits, or a stream that is made while it is read."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

import pyarrow.ipc as pa_ipc
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omnigraph.clock import Clock
from omnigraph.config.server import ServerLimits
from omnigraph.engine.result import Result
from omnigraph.engine.result_files import encode_json_lines
from omnigraph.server.http.request_bodies import ARROW, JSON, NDJSON, encode_json
from omnigraph.server.http_errors import AnswerTooLargeError, RequestTooLongError
from omnigraph.server.service import Service, get_exchange

T = TypeVar("T")

STREAM_BATCH_ROWS = 4_096
"""The rows of one piece of a stream."""


def respond_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """One JSON document."""
    return Response(encode_json(value), status, dict(headers or {}), media_type=JSON)


def negotiate_stream(request: Request) -> str | None:
    """The media type of the stream that a request wants; None: a JSON document."""
    accepted = [one.partition(";")[0].strip().lower() for one in request.headers.get("accept", "").split(",")]
    return next((one for one in accepted if one in (NDJSON, ARROW)), None)


def encode_result(result: Result, limits: ServerLimits) -> bytes:
    """A result as one JSON document; AnswerTooLargeError when it has too many rows or bytes."""
    if result.row_count > limits.rows:
        raise AnswerTooLargeError("rows", limits.rows)
    head = {
        "query_name": result.query_name,
        "target": result.target.to_json(),
        "commit_id": result.commit_id,
        "row_count": result.row_count,
        "columns": list(result.columns),
    }
    parts = [encode_json(head)[:-1] + b',"rows":[']
    size = len(parts[0])
    for batch in result.batches(STREAM_BATCH_ROWS):
        piece = encode_json_lines(result.schema, batch).rstrip(b"\n").replace(b"\n", b",")
        size += len(piece) + 1
        if size > limits.answer_bytes:
            raise AnswerTooLargeError("bytes", limits.answer_bytes)
        parts += [b"," if len(parts) > 1 else b"", piece]
    return b"".join([*parts, b"]}"])


def stream_result(result: Result, media_type: str) -> Iterator[bytes]:
    """A result as a stream, batch by batch; also of no rows there is one piece."""
    if media_type == NDJSON:
        yield b""
        for batch in result.batches(STREAM_BATCH_ROWS):
            yield encode_json_lines(result.schema, batch)
        return
    sink = _ChunkBuffer()
    with pa_ipc.new_stream(sink, result.schema) as writer:
        yield sink.take()
        for batch in result.batches(STREAM_BATCH_ROWS):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


def build_result_headers(result: Result) -> dict[str, str]:
    """What the head of a JSON document says of a result, for a stream, which has none."""
    target = result.target.to_json()
    return {
        "Omnigraph-Query": result.query_name,
        "Omnigraph-Commit": result.commit_id,
        "Omnigraph-Rows": str(result.row_count),
        **{f"Omnigraph-{name.title()}": text for name, text in target.items()},
    }


def limit_time(pieces: Iterator[T], clock: Clock, seconds: float) -> Iterator[T]:
    """The same, for as long as making them takes no longer than that; RequestTooLongError.

    What whoever takes them does in between does not count.
    """
    worked = 0.0
    while True:
        begun = clock.monotonic()
        piece = next(pieces, None)
        worked += clock.monotonic() - begun
        if worked > seconds:
            raise RequestTooLongError(seconds)
        if piece is None:
            return
        yield piece


def respond_limited_json(document: object, limits: ServerLimits) -> Response:
    """One JSON document; AnswerTooLargeError when it is longer than one may be."""
    text = encode_json(document)
    if len(text) > limits.answer_bytes:
        raise AnswerTooLargeError("bytes", limits.answer_bytes)
    return Response(text, media_type=JSON)


class StreamedResponse(Response):
    """An answer whose pieces are made one after the other, each when the one before is sent.

    The first piece is made before anything is sent, so what is wrong from the start has its own status. What goes wrong
    later cuts the connection: there is no end of the answer then, and nobody takes the half for the whole.
    """

    def __init__(
        self,
        first: bytes,
        rest: Iterator[bytes],
        media_type: str,
        headers: Mapping[str, str],
        run: "StreamExecutor",
        status: int = 200,
    ) -> None:
        super().__init__(None, status, dict(headers), media_type=media_type)
        if "Content-Length" not in headers:
            del self.headers["content-length"]
        self._first, self._rest, self._run = first, rest, run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - Starlette's interface
        """Send everything, as long as somebody listens."""
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            piece: bytes | None = self._first
            while piece is not None and not gone.done():
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await self._run(self._next)
            if piece is None:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    def _next(self) -> bytes | None:
        return next(self._rest, None)


class StreamExecutor:
    """Runs a step of a stream in a thread, as the actor whose stream it is."""

    def __init__(self, service: Service, request: Request) -> None:
        self._service, self._request = service, request

    async def __call__(self, step: Callable[[], bytes | None]) -> bytes | None:
        """What the step gives."""
        return await self._service.run(self._request, step)


async def start_stream(
    service: Service,
    request: Request,
    pieces: Iterator[bytes],
    media_type: str,
    headers: Mapping[str, str],
    status: int = 200,
) -> Response:
    """A stream of these pieces, for as long as one may work; what goes wrong with the first of them is raised."""
    run = StreamExecutor(service, request)
    timed = limit_time(pieces, service.runtime.clock, service.limits.stream_seconds)
    first = await run(lambda: next(timed, b""))
    get_exchange(request).commit = headers.get("Omnigraph-Commit")
    return StreamedResponse(first or b"", timed, media_type, headers, run, status)


class _ChunkBuffer:
    """What was written since somebody looked."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep it."""
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """Everything, which is forgotten."""
        found, self._parts = b"".join(self._parts), []
        return found

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """What was written stays until it is taken."""

    def readable(self) -> bool:
        """Never."""
        return False

    def writable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Never."""
        return False


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
