"""A graph on a server for programs that run an event loop: the calls of `RemoteGraph` as coroutines."""

import io
from collections.abc import AsyncIterator
from typing import IO, Any, Self

import pyarrow as pa

from omnigraph.engine.result import Result
from omnigraph.ops.row_diff import RowChangeCounts
from omnigraph.server.client.algorithms import RemoteAlgorithms
from omnigraph.server.client.async_calls import AsyncMethod, AsyncOpener, CallRunner
from omnigraph.server.client.changes import Document, RemoteChange, RemoteDiff, RemoteFeed
from omnigraph.server.client.history import RemoteBranches, RemoteTags
from omnigraph.server.client.query_stream import QueryStream
from omnigraph.server.client.remote_graph import RemoteGraph, connect
from omnigraph.server.client.retries import MAX_RETRIES

_TIMEOUT_SECONDS = 60.0
_MAX_CALLS = 32
# A hop to a thread takes longer than decoding a row.
_BATCH_ROWS = 256


async def connect_async(
    url: str,
    token: str | None = None,
    *,
    graph: str | None = None,
    seconds: float = _TIMEOUT_SECONDS,
    allow_plain_http: bool = False,
    retries: int = MAX_RETRIES,
    max_calls: int = _MAX_CALLS,
) -> "AsyncRemoteGraph":
    """Connect to a graph on a server like `connect`, for use in an event loop.

    `max_calls` is the number of calls that run at the same time; further ones wait for their turn.

    Raises:
        BadArgumentError, ServerUnreachableError: As `connect`.
    """
    runner = CallRunner(max_calls)

    def open_graph() -> RemoteGraph:
        return connect(
            url,
            token,
            graph=graph,
            seconds=seconds,
            allow_plain_http=allow_plain_http,
            retries=retries,
            max_connections=max_calls,
        )

    try:
        return AsyncRemoteGraph(await runner.run(open_graph), runner)
    except BaseException:
        runner.close()
        raise


class AsyncBranches:
    """The branches of a graph on a server."""

    def __init__(self, target: RemoteBranches, runner: CallRunner) -> None:
        self._target, self._runner = target, runner

    list = AsyncMethod(RemoteBranches.list)
    create = AsyncMethod(RemoteBranches.create)
    delete = AsyncMethod(RemoteBranches.delete)


class AsyncTags:
    """The tags of a graph on a server."""

    def __init__(self, target: RemoteTags, runner: CallRunner) -> None:
        self._target, self._runner = target, runner

    list = AsyncMethod(RemoteTags.list)
    create = AsyncMethod(RemoteTags.create)
    delete = AsyncMethod(RemoteTags.delete)


class AsyncAlgorithms:
    """The algorithms of a graph on a server."""

    def __init__(self, target: RemoteAlgorithms, runner: CallRunner) -> None:
        self._target, self._runner = target, runner

    run = AsyncMethod(RemoteAlgorithms.run)


class AsyncQueryStream:
    """The rows of one state in batches, which are read from the server as they are consumed, and not kept.

    Iterate over it once, in an `async with` block; leaving the block early cancels the query on the server.
    """

    def __init__(self, stream: QueryStream, runner: CallRunner) -> None:
        self._stream, self._runner = stream, runner
        self.schema: pa.Schema = stream.schema
        self.row_count = stream.row_count
        self.commit_id = stream.commit_id
        self.notes = stream.notes

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield the batches. All rows were read only if the iteration ends without error."""
        return self._runner.iterate(iter(self._stream))

    async def read_all(self) -> Result:
        """Read all rows that are left into memory."""
        return await self._runner.run(self._stream.read_all)

    def close(self) -> None:
        """Close the response. The server stops computing rows that were not read."""
        self._stream.close()


class AsyncBlob:
    """The value of a Blob property of one commit."""

    def __init__(self, file: IO[bytes], runner: CallRunner) -> None:
        self._file, self._runner = file, runner

    async def read(self, size: int = -1) -> bytes:
        """Read at most this number of bytes, or all that are left."""
        return await self._runner.run(lambda: self._file.read(size))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it."""
        return self._file.seek(offset, whence)


class AsyncDiff:
    """The difference between two states; each iteration fetches its rows anew."""

    def __init__(self, diff: RemoteDiff, runner: CallRunner) -> None:
        self._diff, self._runner = diff, runner

    def __aiter__(self) -> AsyncIterator[Document]:
        """Yield the records of changed rows."""
        return self._runner.iterate(iter(self._diff), batch=_BATCH_ROWS)

    async def counts(self) -> dict[str, RowChangeCounts]:
        """Return the number of changed rows by type."""
        return await self._runner.run(self._diff.counts)

    async def to_json(self) -> Any:  # noqa: ANN401 - JSON
        """Return the JSON form, with all rows."""
        return await self._runner.run(self._diff.to_json)


class AsyncChange:
    """The changes of one commit."""

    def __init__(self, change: RemoteChange, runner: CallRunner) -> None:
        self._change, self._runner = change, runner

    @property
    def cursor(self) -> str:
        """The id of the commit, with which `changes` goes on after it."""
        return self._change.cursor

    @property
    def summary(self) -> Document:
        """The commit, without its rows."""
        return self._change.summary()

    async def counts(self) -> dict[str, RowChangeCounts]:
        """Return the number of changed rows by type."""
        return await self._runner.run(self._change.counts)

    def records(self) -> AsyncIterator[Document]:
        """Yield the records of changed rows."""
        return self._runner.iterate(self._change.records(), batch=_BATCH_ROWS)


def _open_blob(file: IO[bytes] | None, runner: CallRunner) -> AsyncBlob | None:
    return None if file is None else AsyncBlob(file, runner)


async def _iterate_feed(feed: RemoteFeed, runner: CallRunner) -> AsyncIterator[AsyncChange]:
    async for change in runner.iterate(feed):
        yield AsyncChange(change, runner)


class AsyncRemoteGraph:
    """A graph on a server: the methods of `RemoteGraph` as coroutines, with the same parameters, results and errors.

    A task that is cancelled while it waits ends its request, and the server cancels what it reads for it; a write may
    have been committed. Create it with `omnigraph.connect_async`; `close` it, or use it in `async with`.
    """

    def __init__(self, graph: RemoteGraph, runner: CallRunner) -> None:
        self._target = graph
        self._runner = runner

    def __repr__(self) -> str:
        return f"AsyncRemoteGraph({self.uri!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._target.uri

    @property
    def branches(self) -> "AsyncBranches":
        """The branches of the graph."""
        return AsyncBranches(self._target.branches, self._runner)

    @property
    def tags(self) -> "AsyncTags":
        """The tags of the graph."""
        return AsyncTags(self._target.tags, self._runner)

    @property
    def algorithms(self) -> "AsyncAlgorithms":
        """The graph algorithms, which the server runs."""
        return AsyncAlgorithms(self._target.algorithms, self._runner)

    def abort(self) -> None:
        """End all requests in flight: their calls fail with `ServerUnreachableError`."""
        self._target.abort()

    def close(self) -> None:
        """Close all idle connections to the server; calls that wait for their turn are cancelled."""
        self._target.close()
        self._runner.close()

    accepted_schema = AsyncMethod(RemoteGraph.accepted_schema)
    apply_schema = AsyncMethod(RemoteGraph.apply_schema)
    cancel = AsyncMethod(RemoteGraph.cancel)
    catalog = AsyncMethod(RemoteGraph.catalog)
    check = AsyncMethod(RemoteGraph.check)
    cherry_pick = AsyncMethod(RemoteGraph.cherry_pick)
    cleanup = AsyncMethod(RemoteGraph.cleanup)
    commit = AsyncMethod(RemoteGraph.commit)
    commit_page = AsyncMethod(RemoteGraph.commit_page)
    commits = AsyncMethod(RemoteGraph.commits)
    complete = AsyncMethod(RemoteGraph.complete)
    cypher = AsyncMethod(RemoteGraph.cypher)
    embed = AsyncMethod(RemoteGraph.embed)
    explain = AsyncMethod(RemoteGraph.explain)
    export = AsyncMethod(RemoteGraph.export)
    history = AsyncMethod(RemoteGraph.history)
    indexes = AsyncMethod(RemoteGraph.indexes)
    invoke = AsyncMethod(RemoteGraph.invoke)
    invoke_mutation = AsyncMethod(RemoteGraph.invoke_mutation)
    lint = AsyncMethod(RemoteGraph.lint)
    load = AsyncMethod(RemoteGraph.load)  # type: ignore[arg-type]  # mypy takes `self` for one of `**more`
    me = AsyncMethod(RemoteGraph.me)
    merge = AsyncMethod(RemoteGraph.merge)
    mutate = AsyncMethod(RemoteGraph.mutate)
    neighbours = AsyncMethod(RemoteGraph.neighbours)
    operations = AsyncMethod(RemoteGraph.operations)
    optimize = AsyncMethod(RemoteGraph.optimize)
    permissions = AsyncMethod(RemoteGraph.permissions)
    plan_schema = AsyncMethod(RemoteGraph.plan_schema)
    queries = AsyncMethod(RemoteGraph.queries)
    query = AsyncMethod(RemoteGraph.query)
    query_window = AsyncMethod(RemoteGraph.query_window)
    recoveries = AsyncMethod(RemoteGraph.recoveries)
    repair = AsyncMethod(RemoteGraph.repair)
    reset = AsyncMethod(RemoteGraph.reset)
    revert = AsyncMethod(RemoteGraph.revert)
    running = AsyncMethod(RemoteGraph.running)
    search = AsyncMethod(RemoteGraph.search)
    snapshot = AsyncMethod(RemoteGraph.snapshot)
    sql = AsyncMethod(RemoteGraph.sql)
    verify = AsyncMethod(RemoteGraph.verify)

    blob = AsyncOpener(RemoteGraph.blob, _open_blob)
    commit_changes = AsyncOpener(RemoteGraph.commit_changes, AsyncChange)
    diff = AsyncOpener(RemoteGraph.diff, AsyncDiff)
    query_stream = AsyncOpener(RemoteGraph.query_stream, AsyncQueryStream)
    changes = AsyncOpener(RemoteGraph.changes, _iterate_feed)

    async def schema(self) -> str:
        """Return the text of the schema of main."""
        return await self._runner.run(lambda: self._target.schema)
