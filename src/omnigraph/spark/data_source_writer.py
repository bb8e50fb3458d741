"""Write one type's rows through the data source `omnigraph`: each `df.write` and each streaming batch is one commit.

Spark calls a source's code in Python processes that can't start jobs. So tasks store their rows in chunks beside the
graph's control objects, and the commit is a load of these chunks, with all checks of a load. Its memory is bounded, but
it runs in one process; `graph.spark.load` and `graph.spark.stream` check on all executors instead.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from omnigraph.api import load_runtime
from omnigraph.commit.task_journal import SAVED_PREFIX
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.decoding.typed_files import TypedTable, read_typed
from omnigraph.ops.load import load
from omnigraph.ops.load_call import LoadCall, LoadResult
from omnigraph.ops.load_inputs import LoadInput, TypedSource, expand_inputs
from omnigraph.ops.load_local import read_locally
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import EdgeType
from omnigraph.spark.read.table_scan import find_type
from omnigraph.spark.session.error_translation import name_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import Build, check_build
from omnigraph.storage.layout import RECOVERY, build_job_key
from omnigraph.storage.object_store import ObjectStore

# A task holds up to one chunk in memory, and the commit reads one chunk at a time.
CHUNK_BYTES = 32 * 1024 * 1024
_CHUNK_SUFFIX = ".piece"
# The local property in which Spark passes the id of a streaming query to its tasks.
QUERY_ID_PROPERTY = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The graph, branch and type that rows are written to, and the options of the load."""

    location: GraphLocation
    type: str
    mode: LoadMode
    branch: str | None = None
    actor: str = "anonymous"
    message: str | None = None
    idempotency_key: str | None = None

    def open_session(self) -> Session:
        """Open the branch for writing, in this process."""
        return self._open(is_read_only=False)

    def _open(self, *, is_read_only: bool) -> Session:
        storage = dict(self.location.storage)
        session = open_session(self.location.uri, is_read_only=is_read_only, runtime=load_runtime(storage or None))
        return session if self.branch is None else session.checkout(self.branch)

    def check_columns(self, schema: pa.Schema) -> None:
        """Check, before a task runs, that the type exists and that its rows can be built from the columns.

        Raises:
            TypeMissingError: There is no such type.
            ColumnError: A column is unknown or missing, or its type does not match that of its property.
        """
        session = self._open(is_read_only=True)
        catalog = session.load_catalog(session.resolve_snapshot())
        type_ = find_type(catalog, self.type)
        source = TypedSource(type=type_.name, is_edge=isinstance(type_, EdgeType), data=schema.empty_table())
        is_partial = self.mode is LoadMode.MERGE
        inputs = expand_inputs(LoadInput(typed=(source,)), catalog, is_partial=is_partial, blobs=session.blob_sources)
        for load_input in inputs:
            if isinstance(load_input.source, TypedTable):
                # Reading the empty table runs the checks of its columns; there are no rows.
                for _ in read_typed(load_input.source, session.runtime.ids):
                    pass


@dataclass
class WrittenChunks(WriterCommitMessage):
    """The chunks that a task wrote, and the id of its streaming query, if any."""

    operation_id: str
    keys: list[str]
    query_id: str | None = None


class BatchSink(DataSourceArrowWriter):
    """The writer of `df.write.format("omnigraph")`: one commit."""

    def __init__(self, target: WriteTarget, schema: pa.Schema, operation_id: str, driver: Build) -> None:
        self._target = target
        self._schema = schema
        self._operation_id = operation_id
        self._driver = driver

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of one task in chunks."""
        with name_errors():
            check_build(self._driver)
            return _write_chunks(self._target, self._operation_id, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Load the chunks of all tasks, in one commit."""
        with name_errors():
            _commit(self._target, self._schema, _select_messages(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - failed tasks sent none
        """Remove all chunks, after a task has failed permanently."""
        with name_errors():
            _clear(self._target, self._operation_id)


class StreamSink(DataSourceStreamArrowWriter):
    """The writer of `df.writeStream.format("omnigraph")`: each batch is one commit, exactly once."""

    def __init__(self, target: WriteTarget, schema: pa.Schema, operation_id: str, driver: Build) -> None:
        self._target = target
        self._schema = schema
        self._operation_id = operation_id
        self._driver = driver

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of one task of a batch in chunks."""
        with name_errors():
            check_build(self._driver)
            return _write_chunks(self._target, self._operation_id, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Load the chunks of a batch, unless the batch was committed before."""
        with name_errors():
            written = _select_messages(messages)
            # Only tasks see the query's id, so a batch without tasks falls back to the key of the options.
            query_id = next((chunks.query_id for chunks in written if chunks.query_id is not None), None)
            key = self._target.idempotency_key if query_id is None else build_batch_key(query_id, batchId)
            _commit(replace(self._target, idempotency_key=key), self._schema, written)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Remove all chunks of a batch, after a task has failed permanently."""
        with name_errors():
            _clear(self._target, self._operation_id)


def build_batch_key(query_id: str, batch_id: int) -> str:
    """Return the idempotency key of a batch, which survives a restart: the checkpoint stores the query's id."""
    return f"stream {query_id} batch {batch_id}"


# --- a task ------------------------------------------------------------------------------------------


def _write_chunks(target: WriteTarget, operation_id: str, batches: Iterator[pa.RecordBatch]) -> WrittenChunks:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - only tasks write
    objects = target.location.open_store().objects
    keys: list[str] = []
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(waiting.nbytes for waiting in pending) >= CHUNK_BYTES:
            keys.append(_put_chunk(objects, operation_id, context.taskAttemptId(), len(keys), pending))
            pending = []
    if any(waiting.num_rows for waiting in pending):
        keys.append(_put_chunk(objects, operation_id, context.taskAttemptId(), len(keys), pending))
    return WrittenChunks(operation_id, keys, context.getLocalProperty(QUERY_ID_PROPERTY))


def _put_chunk(
    objects: ObjectStore, operation_id: str, attempt: int, number: int, batches: Sequence[pa.RecordBatch]
) -> str:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    # The attempt is part of the name: a retried or speculative task must not overwrite chunks of another attempt.
    key = build_job_key(operation_id, f"{SAVED_PREFIX}{attempt}-{number}{_CHUNK_SUFFIX}")
    objects.put(key, sink.getvalue())
    return key


# --- the commit --------------------------------------------------------------------------------------


def _select_messages(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenChunks]:
    return [message for message in messages if isinstance(message, WrittenChunks)]


def _commit(target: WriteTarget, schema: pa.Schema, written: Sequence[WrittenChunks]) -> LoadResult | None:
    session = target.open_session()
    keys = [key for chunks in written for key in chunks.keys]
    # An overwrite without rows still empties the table; other modes have nothing to do.
    if not keys and target.mode is not LoadMode.OVERWRITE:
        return None
    try:
        type_ = find_type(session.load_catalog(session.head().snapshot), target.type)
        rows = _ChunkedRows(session.store.objects, keys, schema)
        source = TypedSource(type=type_.name, is_edge=isinstance(type_, EdgeType), data=rows)
        call = LoadCall(
            input=LoadInput(typed=(source,)),
            mode=target.mode,
            actor=target.actor,
            message=target.message,
            idempotency_key=target.idempotency_key,
            is_known_by_key=True,  # the chunks of tasks come in any order
        )
        return load(session, call, read_locally)
    finally:
        for operation_id in {chunks.operation_id for chunks in written}:
            _delete_chunks(session.store.objects, operation_id)


@dataclass(frozen=True, slots=True)
class _ChunkedRows:
    """The rows of chunks as an Arrow stream that reads one chunk at a time and can be opened repeatedly."""

    objects: ObjectStore
    keys: Sequence[str]
    schema: pa.Schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream, as Arrow's PyCapsule interface defines it."""
        return pa.RecordBatchReader.from_batches(self.schema, self._iter_batches()).__arrow_c_stream__(requested_schema)

    def _iter_batches(self) -> Iterator[pa.RecordBatch]:
        for key in self.keys:
            with pa.ipc.open_stream(self.objects.get(key).data) as reader:
                for batch in reader:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def _clear(target: WriteTarget, operation_id: str) -> None:
    """Remove the chunks of every task of an operation, including failed ones."""
    _delete_chunks(target.location.open_store().objects, operation_id)


def _delete_chunks(objects: ObjectStore, operation_id: str) -> None:
    """Delete the chunks of a finished write or batch, including those of failed and repeated tasks.

    Chunks that a task stores even later are removed by recovery once they are old.
    """
    prefix = build_job_key(operation_id, "")
    for info in objects.list_under(RECOVERY):
        if info.key.startswith(prefix):
            objects.delete(info.key)
