"""Reads of a graph behind a server."""

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from http.client import HTTPResponse
from typing import IO, Any, BinaryIO, cast
from urllib.parse import unquote

from omnigraph.engine.result import Result
from omnigraph.lang.source import Source
from omnigraph.locations import resolve_local_path
from omnigraph.ops.argument_checks import BadArgumentError, parse_choice
from omnigraph.ops.export import Exported, ExportFormat, ExportProgress
from omnigraph.options import Engine
from omnigraph.server.client.requests import GraphCalls, build_query_body, encode_params, format_optional_instant
from omnigraph.server.client.responses import RemoteDocument
from omnigraph.server.http.request_bodies import BYTES, NDJSON

_BUFFER_BYTES = 1024 * 1024


def open_blob(calls: GraphCalls, asked: Mapping[str, object]) -> IO[bytes] | None:
    """The value as a stream, of one state, whatever is written meanwhile; None for a null."""
    with _request_range(calls, asked, range(1)) as response:
        if response.status == 204:
            return None
        size = _read_size(response)
        pinned = {**asked, "snapshot": response.headers["Omnigraph-Commit"], "at": None}
        for _ in calls.transport.iter_chunks(response):
            pass  # one byte, so that the connection can be used again
    return cast("IO[bytes]", io.BufferedReader(_RemoteBlob(calls, pinned, size), _BUFFER_BYTES))


def _request_range(calls: GraphCalls, asked: Mapping[str, object], part: range) -> AbstractContextManager[HTTPResponse]:
    return calls.transport.stream("GET", calls.build_path("blob"), query=asked, accept=BYTES, byte_range=part)


def _read_size(response: HTTPResponse) -> int:
    if response.status == 206:
        return int(response.headers["Content-Range"].rpartition("/")[2])
    return int(response.headers["Content-Length"])


class _RemoteBlob(io.RawIOBase):
    """A value of one state; each read is a request for that part."""

    def __init__(self, calls: GraphCalls, asked: Mapping[str, object], size: int) -> None:
        super().__init__()
        self._calls, self._query, self._size, self._position = calls, asked, size, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(begin + offset, 0)
        return self._position

    def tell(self) -> int:
        """As of any file."""
        return self._position

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined] # of the stubs only
        """As of any file."""
        room = memoryview(buffer).cast("B")
        part = range(self._position, min(self._position + len(room), self._size))
        if not part:
            return 0
        with _request_range(self._calls, self._query, part) as response:
            data = b"".join(self._calls.transport.iter_chunks(response))
        room[: len(data)] = data
        self._position += len(data)
        return len(data)


_TYPE_PATTERN = re.compile(rb'^\{"(?:type|edge)":"([^"]*)"', re.MULTILINE)


class RemoteReads:
    """What is read of a graph behind a server, each call one request or a few pages."""

    _calls: GraphCalls

    def query(
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> Result:
        """Run a query on one state of the graph; see `Graph.query`. All rows are fetched."""
        body = {
            **build_query_body(source, name, params, branch, snapshot, at),
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return self._calls.fetch_rows("query", body=body, source=source)

    def invoke(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> Result:
        """Run a stored query that reads; one that writes is run by `invoke_mutation`."""
        limits = {"seconds": seconds, "memory_bytes": memory_bytes}
        body = {
            **encode_params(params),
            "branch": branch,
            "snapshot": snapshot,
            "at": format_optional_instant(at),
            **limits,
        }
        return self._calls.fetch_rows("queries", name, body=body)

    def queries(self) -> list[RemoteDocument]:
        """The stored queries that the token's owner may run."""
        return [RemoteDocument(one) for one in self._calls.get("queries")["queries"]]

    def explain(  # noqa: PLR0913 - all but the text by name
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        analyze: bool = False,
    ) -> RemoteDocument:
        """How `query` would run, or with `analyze` did; see `Graph.explain`."""
        limits = {"seconds": seconds, "memory_bytes": memory_bytes}
        body = {**build_query_body(source, name, params, branch, snapshot, at), **limits, "analyze": analyze}
        return RemoteDocument(self._calls.post("explain", body, source))

    def blob(
        self,
        type_name: str,
        id: str,
        property: str,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> IO[bytes] | None:
        """The bytes of a Blob property, as a stream that reads as it is asked; None for a null. See `Graph.blob`."""
        state = {"branch": branch, "snapshot": snapshot, "at": format_optional_instant(at)}
        return open_blob(self._calls, {"type": type_name, "id": id, "property": property, **state})

    def export(  # noqa: PLR0913 - all but the target by name
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        types: Sequence[str] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        format: ExportFormat | str = ExportFormat.JSONL,
        engine: Engine | str = Engine.AUTO,
        master: str | None = None,
        progress: Callable[[ExportProgress], None] | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> Exported:
        """Write the graph's rows as graph JSONL; see `Graph.export`. A file is there when all of it is.

        A server gives no other format, and does it by itself; nobody tells `progress` how far it is.
        """
        del progress
        if parse_choice("format", ExportFormat, format) is not ExportFormat.JSONL:
            raise BadArgumentError("format", f"`{format}`", "a server gives graph JSONL; load that where it is needed")
        if parse_choice("engine", Engine, engine) is Engine.SPARK or master is not None:
            raise BadArgumentError("engine", "`spark`", "a server does it by itself: leave it out")
        body = {
            "types": types,
            "branch": branch,
            "snapshot": snapshot,
            "at": format_optional_instant(at),
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        with ExitStack() as stack:
            response = stack.enter_context(self._calls.stream("export", body, accept=NDJSON))
            types_there = unquote(response.headers["Omnigraph-Types"])
            counts = dict.fromkeys(types_there.split(",") if types_there else (), 0)
            out, finish = _open_target(target, stack)
            rest = b""
            for piece in self._calls.transport.iter_chunks(response):
                out.write(piece)
                whole, sign, rest = (rest + piece).rpartition(b"\n")
                for name in _TYPE_PATTERN.findall(whole) if sign else ():
                    counts[name.decode()] = counts.get(name.decode(), 0) + 1
            finish()
            commit_id = response.headers["Omnigraph-Commit"]
        return Exported(commit_id=commit_id, format=ExportFormat.JSONL, rows=counts)


def _open_target(target: str | os.PathLike[str] | BinaryIO, stack: ExitStack) -> tuple[BinaryIO, Any]:
    """What to write to, and what to do when all is written: a file gets its name then."""
    if not isinstance(target, str | os.PathLike):
        return target, lambda: None
    path = resolve_local_path(target)
    unfinished = path.with_name(f".{path.name}.unfinished")
    out = stack.enter_context(unfinished.open("wb"))
    stack.callback(unfinished.unlink, missing_ok=True)

    def finish() -> None:
        out.close()
        unfinished.replace(path)

    return out, finish
