"""Write one type's rows through the data source `omnigraph`: each `df.write` and each streaming batch is one commit.

Spark calls a source's code in Python processes that can't start jobs. So tasks store their rows in chunks beside the
graph's control objects, and the commit is a load of these chunks, with all checks of a load. In an append or overwrite,
tasks also decode, check and stage their rows, so the commit reads keys only, unless some rows may be wrong. Its memory
is bounded, but it runs in one process, as do merges and the batches of streams; `graph.spark.load` and
`graph.spark.stream` check on all executors instead.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from omnigraph.api import load_runtime
from omnigraph.commit.task_journal import SAVED_PREFIX, TaskJournal, clear
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.decoding.typed_files import TypedTable, read_typed
from omnigraph.ops.load import load
from omnigraph.ops.load_call import LoadCall, LoadResult
from omnigraph.ops.load_inputs import LoadInput, TypedSource, expand_inputs, format_input
from omnigraph.ops.load_local import read_locally
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import EdgeType
from omnigraph.spark.load.load_spec import LoadSpec, build_spec
from omnigraph.spark.load.load_task import SplitResult, decode_result, encode_result, stage_batches
from omnigraph.spark.load.saved_records import SavedRows, build_saved_reader
from omnigraph.spark.load.stored_chunks import StoredChunks
from omnigraph.spark.read.table_scan import find_type
from omnigraph.spark.session.error_translation import name_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import Build, check_build
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import build_job_key
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

    def build_spec(self, operation_id: str) -> LoadSpec:
        """Return what tasks need to stage rows by the newest state."""
        session = self._open(is_read_only=True)
        return build_spec(session, session.head(), operation_id)

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
    partition: int = 0
    staged: bytes | None = None
    """The encoded result of the task for its rows, if it has staged them."""


class BatchSink(DataSourceArrowWriter):
    """The writer of `df.write.format("omnigraph")`: one commit."""

    def __init__(self, target: WriteTarget, schema: pa.Schema, operation_id: str, driver: Build) -> None:
        self._target = target
        self._schema = schema
        self._operation_id = operation_id
        self._driver = driver
        # What tasks need to stage rows; in a merge they would lack the committed ones.
        self._spec = None if target.mode is LoadMode.MERGE else target.build_spec(operation_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of one task in chunks, and stage them."""
        with name_errors():
            check_build(self._driver)
            return _write_chunks(self._target, self._operation_id, iterator, self._spec)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Load the rows of all tasks, in one commit."""
        with name_errors():
            _commit(self._target, self._schema, _select_messages(messages), self._spec)

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


def _write_chunks(
    target: WriteTarget, operation_id: str, batches: Iterator[pa.RecordBatch], spec: LoadSpec | None = None
) -> WrittenChunks:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - only tasks write
    objects = target.location.open_store().objects
    written = WrittenChunks(
        operation_id, [], context.getLocalProperty(QUERY_ID_PROPERTY), partition=context.partitionId()
    )
    stored = _store_chunks(objects, operation_id, context.taskAttemptId(), batches, written.keys)
    if spec is None:
        for _ in stored:
            pass
    else:
        written.staged = encode_result(_stage(target, spec, written.partition, stored))
    return written


def _store_chunks(
    objects: ObjectStore, operation_id: str, attempt: int, batches: Iterator[pa.RecordBatch], keys: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches, which are stored in chunks on the way; add the keys of these to `keys`."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(waiting.nbytes for waiting in pending) >= CHUNK_BYTES:
            keys.append(_put_chunk(objects, operation_id, attempt, len(keys), pending))
            pending = []
        yield batch
    if any(waiting.num_rows for waiting in pending):
        keys.append(_put_chunk(objects, operation_id, attempt, len(keys), pending))


def _stage(target: WriteTarget, spec: LoadSpec, partition: int, batches: Iterator[pa.RecordBatch]) -> SplitResult:
    worker = spec.create_worker()
    # The write has no sidecar yet, whose phase its tasks would belong to.
    journal = TaskJournal(worker.store, spec.operation_id, None, partition)
    journal.begin()
    type_ = find_type(worker.catalog, target.type)
    table = TypedTable(type=type_, columns={}, blobs=spec.blobs, data=pa.table({}), label=format_input(type_))
    return stage_batches(worker, journal, partition, table, batches)


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


def _commit(
    target: WriteTarget, schema: pa.Schema, written: Sequence[WrittenChunks], spec: LoadSpec | None = None
) -> LoadResult | None:
    session = target.open_session()
    keys, staged = _order_tasks(written)
    # An overwrite without rows still empties the table; other modes have nothing to do.
    if not any(keys) and target.mode is not LoadMode.OVERWRITE:
        _clear_all(session.store, written)
        return None
    try:
        type_ = find_type(session.load_catalog(session.head().snapshot), target.type)
        rows = StoredChunks(objects=session.store.objects, tasks=keys, schema=schema)
        source = TypedSource(type=type_.name, is_edge=isinstance(type_, EdgeType), data=rows)
        call = LoadCall(
            input=LoadInput(typed=(source,)),
            mode=target.mode,
            actor=target.actor,
            message=target.message,
            idempotency_key=target.idempotency_key,
            is_known_by_key=True,  # the chunks of tasks come in any order
        )
        reader = read_locally if spec is None else build_saved_reader(SavedRows(spec=spec, results=staged))
        return load(session, call, reader)
    finally:
        _clear_all(session.store, written)


def _order_tasks(written: Sequence[WrittenChunks]) -> tuple[tuple[tuple[str, ...], ...], list[SplitResult]]:
    """Return the keys and the result of each task by the number of its partition, also of those without rows."""
    by_partition = {chunks.partition: chunks for chunks in written}
    count = max(by_partition, default=-1) + 1
    keys = tuple(tuple(by_partition[number].keys) if number in by_partition else () for number in range(count))
    results = [SplitResult(split=number) for number in range(count)]
    for number, chunks in by_partition.items():
        if chunks.staged is not None:
            results[number] = decode_result(chunks.staged)
    return keys, results


def _clear(target: WriteTarget, operation_id: str) -> None:
    """Remove the chunks and staged files of every task of an operation, including failed ones."""
    clear(target.location.open_store(), operation_id)


def _clear_all(store: GraphStorage, written: Sequence[WrittenChunks]) -> None:
    """Remove what the tasks of a finished write or batch have left, including failed and repeated ones.

    Once the commit has taken over the files of tasks, no note names these. What a task stores even later is removed by
    recovery once it is old.
    """
    for operation_id in {chunks.operation_id for chunks in written}:
        clear(store, operation_id)
