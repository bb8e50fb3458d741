"""Responses: one JSON document within limits, or a stream that is computed while it is sent."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

import pyarrow.ipc as pa_ipc
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omnigraph.clock import Clock
from omnigraph.config.server import ServerLimits
from omnigraph.engine.result import Result
from omnigraph.engine.result_files import encode_json_lines
from omnigraph.server.http.request_bodies import ARROW, JSON, NDJSON, encode_json
from omnigraph.server.http_errors import RequestLimitError
from omnigraph.server.service import Service, get_exchange

T = TypeVar("T")

# The number of rows in one chunk of a stream.
STREAM_BATCH_ROWS = 4_096


def respond_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Respond with one JSON document of a bounded size; longer ones are for `respond_large_json`."""
    return Response(encode_json(value), status, dict(headers or {}), media_type=JSON)


def negotiate_stream(request: Request) -> str | None:
    """Return the media type of the stream that a request accepts, or None for a JSON document."""
    # Without quality values: the first supported stream wins.
    accepted = [item.partition(";")[0].strip().lower() for item in request.headers.get("accept", "").split(",")]
    return next((media_type for media_type in accepted if media_type in (NDJSON, ARROW)), None)


def encode_result(result: Result, limits: ServerLimits) -> bytes:
    """Encode a result as one JSON document.

    Raises:
        RequestLimitError: It has too many rows or bytes.
    """
    if result.row_count > limits.rows:
        raise RequestLimitError.answer_too_large("rows", limits.rows)
    head: dict[str, object] = {
        "query_name": result.query_name,
        "target": result.target.to_json(),
        "commit_id": result.commit_id,
        "row_count": result.row_count,
        "columns": list(result.columns),
        "types": [column.to_json() for column in result.types],
    }
    # Only windows have it: of other results, `row_count` is the number of all rows.
    if result.total_rows is not None:
        head["total_rows"] = result.total_rows
    if result.notes:
        head["notes"] = list(result.notes)
    # Rows are encoded batch by batch and spliced in, so that a document over the limit is never built as a whole.
    parts = [encode_json(head)[:-1] + b',"rows":[']
    size = len(parts[0])
    for batch in result.batches(STREAM_BATCH_ROWS):
        # JSON escapes line breaks inside texts, so each line break separates two rows.
        chunk = encode_json_lines(result.schema, batch).rstrip(b"\n").replace(b"\n", b",")
        size += len(chunk) + 1
        if size > limits.answer_bytes:
            raise RequestLimitError.answer_too_large("bytes", limits.answer_bytes)
        parts += [b"," if len(parts) > 1 else b"", chunk]
    return b"".join([*parts, b"]}"])


def stream_result(result: Result, media_type: str) -> Iterator[bytes]:
    """Yield a result as a stream, batch by batch; a result without rows has one chunk."""
    if media_type == NDJSON:
        # A result without rows has this chunk only; `start_stream` computes the first chunk before it responds.
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
    """Return the headers of a streamed result: the fields that a JSON document has before its rows."""
    target = result.target.to_json()
    # A header holds a single line of ASCII, and so does a JSON list.
    notes = {"Omnigraph-Notes": json.dumps(result.notes)} if result.notes else {}
    total = {} if result.total_rows is None else {"Omnigraph-Total-Rows": str(result.total_rows)}
    return {
        **notes,
        **total,
        "Omnigraph-Query": result.query_name,
        "Omnigraph-Commit": result.commit_id,
        "Omnigraph-Rows": str(result.row_count),
        **{f"Omnigraph-{name.title()}": text for name, text in target.items()},
    }


def limit_time(chunks: Iterator[T], clock: Clock, seconds: float) -> Iterator[T]:
    """Yield the chunks while computing them takes at most `seconds` in total.

    The time between two chunks, in which the consumer works, does not count.

    Raises:
        RequestLimitError: It takes longer.
    """
    elapsed = 0.0
    while True:
        started = clock.monotonic()
        chunk = next(chunks, None)
        elapsed += clock.monotonic() - started
        if elapsed > seconds:
            raise RequestLimitError.request_too_long(seconds)
        if chunk is None:
            return
        yield chunk


async def respond_large_json(build: Callable[[], object], limits: ServerLimits) -> Response:
    """Respond with one JSON document, which is built and encoded in a thread.

    A page of 1,000 commits takes 30 ms, in which the event loop would serve no other request.

    Raises:
        RequestLimitError: It is longer than the limit.
    """
    text = await run_in_threadpool(lambda: encode_json(build()))
    if len(text) > limits.answer_bytes:
        raise RequestLimitError.answer_too_large("bytes", limits.answer_bytes)
    return Response(text, media_type=JSON)


class StreamedResponse(Response):
    """A response whose chunks are computed one after the other, each after the previous one is sent.

    The first chunk is computed before anything is sent, so an early error has its own status. A later error closes the
    connection without the end of the response, so that a client can't take half of it as whole.
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
        # Starlette sets the length of an empty body.
        if "Content-Length" not in headers:
            del self.headers["content-length"]
        self._first = first
        self._rest = rest
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - Starlette's interface
        """Send all chunks, until the client disconnects."""
        disconnect = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            chunk: bytes | None = self._first
            while chunk is not None and not disconnect.done():
                if chunk:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await self._run(self._next)
            # The end is sent only after the last chunk, not after a disconnect.
            if chunk is None:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            disconnect.cancel()
            with suppress(asyncio.CancelledError):
                await disconnect

    def _next(self) -> bytes | None:
        return next(self._rest, None)


class StreamExecutor:
    """Run the steps of a stream in threads, on the share of the actor that requested it."""

    def __init__(self, service: Service, request: Request) -> None:
        self._service, self._request = service, request

    async def __call__(self, step: Callable[[], bytes | None]) -> bytes | None:
        """Return the result of a step.

        Raises:
            UnauthenticatedError, DeniedError: The stream is no longer allowed, and ends without an end.
        """
        self._service.check_access(self._request)
        return await self._service.run(self._request, step)


async def start_stream(
    service: Service,
    request: Request,
    chunks: Iterator[bytes],
    media_type: str,
    headers: Mapping[str, str],
    status: int = 200,
) -> Response:
    """Compute the first chunk and return a streamed response, within the server's time limit for streams.

    An error in the first chunk is raised, so that it gets a status.
    """
    run = StreamExecutor(service, request)
    timed = limit_time(chunks, service.runtime.clock, service.limits.stream_seconds)
    first = await run(lambda: next(timed, b""))
    get_exchange(request).commit = headers.get("Omnigraph-Commit")
    return StreamedResponse(first or b"", timed, media_type, headers, run, status)


class _ChunkBuffer:
    """A write-only file for Arrow's IPC writer that hands out the bytes written since the last `take`."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """Return and remove all bytes."""
        data, self._parts = b"".join(self._parts), []
        return data

    def flush(self) -> None:
        """Do nothing: there is no buffer below this one."""

    def close(self) -> None:
        """Do nothing: written bytes stay until they are taken."""

    def readable(self) -> bool:
        """Return that the file can't be read."""
        return False

    def writable(self) -> bool:
        """Return that the file can be written."""
        return True

    def seekable(self) -> bool:
        """Return that the file has no positions."""
        return False


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
