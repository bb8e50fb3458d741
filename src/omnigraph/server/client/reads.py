"""Queries, exports and blobs of a graph on a server."""

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from http.client import HTTPResponse
from typing import IO, Any, BinaryIO, cast
from urllib.parse import unquote

from omnigraph.engine.query_progress import QueryProgress
from omnigraph.engine.result import Result
from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import decode_struct
from omnigraph.lang.proposals import Completion
from omnigraph.lang.source import Source
from omnigraph.locations import resolve_local_path
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.export import Exported, ExportFormat, ExportProgress
from omnigraph.options import Engine, QueryEngine
from omnigraph.server.client.query_stream import QueryStream
from omnigraph.server.client.requests import GraphCalls, build_query_body, build_state, encode_params
from omnigraph.server.client.responses import RemoteDocument
from omnigraph.server.http.request_bodies import BYTES, NDJSON

# A read from a blob is one request: a large buffer makes many small reads one request.
_BUFFER_BYTES = 1024 * 1024


def open_blob(calls: GraphCalls, query: Mapping[str, object]) -> IO[bytes] | None:
    """Open the value of a Blob property as a stream; return None if it is null.

    The stream reads the commit that is current now, even if the branch moves on.
    """
    # The first byte is requested only for the headers: they have the size and the commit to read from.
    with _request_range(calls, query, range(1)) as response:
        if response.status == 204:
            return None
        size = _read_size(response)
        pinned = {**query, "snapshot": response.headers["Omnigraph-Commit"], "at": None}
        # Read to the end, so that the connection can be reused.
        for _ in calls.transport.iter_chunks(response):
            pass
    return cast("IO[bytes]", io.BufferedReader(_RemoteBlob(calls, pinned, size), _BUFFER_BYTES))


def _request_range(
    calls: GraphCalls, query: Mapping[str, object], byte_range: range
) -> AbstractContextManager[HTTPResponse]:
    return calls.transport.stream("GET", calls.build_path("blob"), query=query, accept=BYTES, byte_range=byte_range)


def _read_size(response: HTTPResponse) -> int:
    # Status 206 is a part of the value, and `Content-Range` has the whole size: "bytes 0-0/1234".
    if response.status == 206:
        return int(response.headers["Content-Range"].rpartition("/")[2])
    return int(response.headers["Content-Length"])


class _RemoteBlob(io.RawIOBase):
    """A seekable stream over a Blob value of one commit; each read is a range request."""

    def __init__(self, calls: GraphCalls, query: Mapping[str, object], size: int) -> None:
        super().__init__()
        self._calls = calls
        self._query = query
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it; one before the start becomes 0."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(begin + offset, 0)
        return self._position

    def tell(self) -> int:
        """Return the current position."""
        return self._position

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined] # of the stubs only
        """Read bytes into a buffer, and return how many; 0 at the end."""
        target = memoryview(buffer).cast("B")
        byte_range = range(self._position, min(self._position + len(target), self._size))
        if not byte_range:
            return 0
        with _request_range(self._calls, self._query, byte_range) as response:
            data = b"".join(self._calls.transport.iter_chunks(response))
        target[: len(data)] = data
        self._position += len(data)
        return len(data)


# Every line of an export begins with the type of its row, so that rows are counted without parsing JSON.
_TYPE_PATTERN = re.compile(rb'^\{"(?:type|edge)":"([^"]*)"', re.MULTILINE)


class RemoteReads:
    """The reads of a graph on a server."""

    _calls: GraphCalls

    def query(  # noqa: PLR0913 - all but the text by name
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        max_staleness: float = 0.0,
        min_commit: str | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        engine: QueryEngine | str = QueryEngine.AUTO,
        master: str | None = None,
        progress: Callable[[QueryProgress], None] | None = None,
        query_id: str | None = None,
    ) -> Result:
        """Run a query on one state of the graph; see `Graph.query`. All rows are fetched; never on Spark.

        For more rows than fit into memory, use `query_stream`. `progress` is accepted but never called. With a
        `query_id` of the caller's, `running` lists the query until it ends, and `cancel` ends it.
        """
        del progress
        if master is not None:
            raise BadArgumentError("master", f"`{master}`", "a server runs queries without Spark; leave it out")
        with self.query_stream(
            source,
            name=name,
            params=params,
            branch=branch,
            snapshot=snapshot,
            at=at,
            max_staleness=max_staleness,
            min_commit=min_commit,
            seconds=seconds,
            memory_bytes=memory_bytes,
            engine=engine,
            query_id=query_id,
        ) as rows:
            return rows.read_all()

    def query_stream(  # noqa: PLR0913 - all but the text by name
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        max_staleness: float = 0.0,
        min_commit: str | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        engine: QueryEngine | str = QueryEngine.AUTO,
        query_id: str | None = None,
    ) -> QueryStream:
        """Run a query, and open its rows for reading in batches as they arrive, which are not kept in memory.

        with graph.query_stream("match { $p: Person } return { $p.name }") as rows:
            for batch in rows:
                ...

        With a `query_id` of the caller's, `running` lists the query until it ends, and `cancel` ends it.
        """
        body = {
            **build_query_body(source, name, params, branch, snapshot, at),
            "max_staleness": max_staleness,
            "min_commit": min_commit,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
            **_build_engine(engine),
            "query_id": query_id,
        }
        return self._calls.stream_rows("query", body=body, source=source)

    def sql(  # noqa: PLR0913 - all but the first two by name
        self,
        statement: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        engine: Engine | str = Engine.LOCAL,
        master: str | None = None,
        progress: Callable[[QueryProgress], None] | None = None,
        query_id: str | None = None,
    ) -> Result:
        """Run a SQL query on one state of the graph; see `Graph.sql`. All rows are fetched; never on Spark.

        `progress` is accepted but never called. `query_id` is that of `query`.
        """
        del progress
        if parse_choice("engine", Engine, engine) is Engine.SPARK or master is not None:
            raise BadArgumentError("engine", "`spark`", "a server runs SQL without Spark; leave it out")
        body = {
            "sql": statement,
            **encode_params(params),
            **build_state(branch, snapshot, at),
            "seconds": seconds,
            "memory_bytes": memory_bytes,
            "query_id": query_id,
        }
        return self._calls.fetch_rows("sql", body=body)

    def cypher(  # noqa: PLR0913 - all but the first two by name
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        strict: bool = False,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        max_staleness: float = 0.0,
        min_commit: str | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        engine: QueryEngine | str = QueryEngine.AUTO,
        master: str | None = None,
        progress: Callable[[QueryProgress], None] | None = None,
        query_id: str | None = None,
    ) -> Result:
        """Run a statement of Cypher on one state of the graph; see `Graph.cypher`. All rows are fetched.

        It never runs on Spark. `progress` is accepted but never called. `query_id` is that of `query`.
        """
        del progress
        if master is not None:
            raise BadArgumentError("master", f"`{master}`", "a server runs queries without Spark; leave it out")
        body = {
            "cypher": text,
            **encode_params(params),
            "strict": strict,
            **build_state(branch, snapshot, at),
            "max_staleness": max_staleness,
            "min_commit": min_commit,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
            **_build_engine(engine),
            "query_id": query_id,
        }
        return self._calls.fetch_rows("cypher", body=body, source=Source(text, "statement.cypher"))

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
        query_id: str | None = None,
    ) -> Result:
        """Run a stored read query; run a stored mutation with `invoke_mutation`. `query_id` is that of `query`."""
        body = {
            **encode_params(params),
            **build_state(branch, snapshot, at),
            "seconds": seconds,
            "memory_bytes": memory_bytes,
            "query_id": query_id,
        }
        return self._calls.fetch_rows("queries", name, body=body)

    def queries(self) -> list[RemoteDocument]:
        """List the stored queries that the token's owner may run."""
        return [RemoteDocument(entry) for entry in self._calls.get("queries")["queries"]]

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
        engine: QueryEngine | str = QueryEngine.AUTO,
        analyze: bool = False,
        cypher: bool = False,
    ) -> RemoteDocument:
        """Explain how `query` would run, or with `analyze` run it and report each step; see `Graph.explain`."""
        limits = {"seconds": seconds, "memory_bytes": memory_bytes, **_build_engine(engine)}
        body = {
            **build_query_body(source, name, params, branch, snapshot, at),
            **limits,
            "analyze": analyze,
            "cypher": cypher,
        }
        return RemoteDocument(self._calls.post("explain", body, source))

    def complete(
        self,
        text: str,
        position: int | None = None,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> Completion:
        """Return what may be written at a position of a query that is being typed; see `Graph.complete`."""
        state = build_state(branch, snapshot, at)
        return decode_struct(Completion, self._calls.post("complete", {"query": text, "position": position, **state}))

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
        """Open a Blob property as a stream that fetches on demand; return None if it is null. See `Graph.blob`."""
        state = build_state(branch, snapshot, at)
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
        """Write the graph's rows as graph JSONL; see `Graph.export`. A file gets its name once it is complete.

        A server exports no other format and does not use Spark. `progress` is accepted but never called.
        """
        del progress
        if parse_choice("format", ExportFormat, format) is not ExportFormat.JSONL:
            raise BadArgumentError("format", f"`{format}`", "a server exports graph JSONL only")
        if parse_choice("engine", Engine, engine) is Engine.SPARK or master is not None:
            raise BadArgumentError("engine", "`spark`", "a server runs exports without Spark; leave it out")
        body = {
            "types": types,
            **build_state(branch, snapshot, at),
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        with ExitStack() as stack:
            response = stack.enter_context(self._calls.stream("export", body, accept=NDJSON))
            # The header lists the types without rows too, which are counted as 0.
            exported_types = unquote(response.headers["Omnigraph-Types"])
            counts = dict.fromkeys(exported_types.split(",") if exported_types else (), 0)
            out, finish = _open_target(target, stack)
            rest_of_line = b""
            for chunk in self._calls.transport.iter_chunks(response):
                out.write(chunk)
                lines, newline, rest_of_line = (rest_of_line + chunk).rpartition(b"\n")
                for name in _TYPE_PATTERN.findall(lines) if newline else ():
                    counts[name.decode()] = counts.get(name.decode(), 0) + 1
            finish()
            commit_id = response.headers["Omnigraph-Commit"]
        return Exported(commit_id=commit_id, format=ExportFormat.JSONL, rows=counts)


def _open_target(target: str | os.PathLike[str] | BinaryIO, stack: ExitStack) -> tuple[BinaryIO, Any]:
    """Return the file to write to, and a function to call when all is written: it gives the file its final name."""
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


def _build_engine(engine: QueryEngine | str) -> dict[str, str]:
    """Return the part of a request that names an engine: none for `auto`, which servers of every release have."""
    selected = parse_choice("engine", QueryEngine, engine)
    if selected is QueryEngine.SPARK:
        raise BadArgumentError("engine", "`spark`", "a server runs queries without Spark; leave it out")
    return {} if selected is QueryEngine.AUTO else {"engine": selected.value}
