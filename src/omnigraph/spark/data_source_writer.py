"""Writes through the data source `omnigraph`: `df.write` and `df.writeStream` of one type's rows, each one commit.

Spark calls a source's code in Python processes that can't start jobs. So tasks leave their rows in pieces beside the
graph's control objects, and the commit is a load of these pieces, with every check of a load; bounded in memory, but by
one process. `graph.spark.load` and `graph.spark.stream` check on all executors instead.
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
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import Build, check_build
from omnigraph.storage.layout import RECOVERY, build_job_key
from omnigraph.storage.object_store import ObjectStore

CHUNK_BYTES = 32 * 1024 * 1024
_CHUNK_SUFFIX = ".piece"
_QUERY_ID_PROPERTY = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """Where rows are written, and how."""

    location: GraphLocation
    type: str
    mode: LoadMode
    branch: str | None = None
    actor: str = "anonymous"
    message: str | None = None
    idempotency_key: str | None = None

    def open_session(self) -> Session:
        """The graph, opened in this process."""
        storage = dict(self.location.storage)
        session = open_session(self.location.uri, is_read_only=False, runtime=load_runtime(storage or None))
        return session if self.branch is None else session.checkout(self.branch)

    def check_columns(self, schema: pa.Schema) -> None:
        """Before a task runs: the type is there, and the columns are such as rows of it can be made of.

        Raises:
            TypeMissingError: There is no such type.
            ColumnError: A column is unknown or missing, or of a type that no value of its property has.
        """
        storage = dict(self.location.storage)
        session = open_session(self.location.uri, is_read_only=True, runtime=load_runtime(storage or None))
        session = session if self.branch is None else session.checkout(self.branch)
        catalog = session.load_catalog(session.resolve_snapshot())
        type_ = find_type(catalog, self.type)
        source = TypedSource(type=type_.name, is_edge=isinstance(type_, EdgeType), data=schema.empty_table())
        is_partial = self.mode is LoadMode.MERGE
        given = LoadInput(typed=(source,))
        for one in expand_inputs(given, catalog, is_partial=is_partial, blobs=session.blob_sources):
            if isinstance(one.source, TypedTable):
                for _ in read_typed(one.source, session.runtime.ids):
                    pass


@dataclass
class WrittenChunks(WriterCommitMessage):
    """What a task wrote, and the streaming query that it is a task of."""

    operation_id: str
    keys: list[str]
    query_id: str | None = None


class BatchSink(DataSourceArrowWriter):
    """`df.write.format("omnigraph")`."""

    def __init__(self, target: WriteTarget, schema: pa.Schema, operation_id: str, driver: Build) -> None:
        self._target, self._schema, self._operation_id, self._driver = target, schema, operation_id, driver

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task: its rows become pieces."""
        with carry_errors():
            check_build(self._driver)
            return _write_chunks(self._target, self._operation_id, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: load what they wrote, in one commit."""
        with carry_errors():
            _commit(self._target, self._schema, _select_messages(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - failed tasks sent none
        """A task failed for good: nothing stays."""
        with carry_errors():
            _clear(self._target, self._operation_id)


class StreamSink(DataSourceStreamArrowWriter):
    """`df.writeStream.format("omnigraph")`: each batch one commit, exactly once."""

    def __init__(self, target: WriteTarget, schema: pa.Schema, operation_id: str, driver: Build) -> None:
        self._target, self._schema, self._operation_id, self._driver = target, schema, operation_id, driver

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task of a batch: its rows become pieces."""
        with carry_errors():
            check_build(self._driver)
            return _write_chunks(self._target, self._operation_id, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """All tasks of a batch are done: load what they wrote, unless that was done before."""
        with carry_errors():
            told = _select_messages(messages)
            query = next((one.query_id for one in told if one.query_id is not None), None)
            key = self._target.idempotency_key if query is None else build_batch_key(query, batchId)
            _commit(replace(self._target, idempotency_key=key), self._schema, told)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """A task failed for good: nothing of the batch stays."""
        with carry_errors():
            _clear(self._target, self._operation_id)


def build_batch_key(query_id: str, batch_id: int) -> str:
    """The idempotency key of a batch: the same after a restart, which has the query's id from its checkpoint."""
    return f"stream {query_id} batch {batch_id}"


# --- a task ------------------------------------------------------------------------------------------


def _write_chunks(target: WriteTarget, operation_id: str, batches: Iterator[pa.RecordBatch]) -> WrittenChunks:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - only tasks write
    objects = target.location.open_store().objects
    keys: list[str] = []
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.nbytes for one in held) >= CHUNK_BYTES:
            keys.append(_put_chunk(objects, operation_id, context.taskAttemptId(), len(keys), held))
            held = []
    if any(one.num_rows for one in held):
        keys.append(_put_chunk(objects, operation_id, context.taskAttemptId(), len(keys), held))
    return WrittenChunks(operation_id, keys, context.getLocalProperty(_QUERY_ID_PROPERTY))


def _put_chunk(
    objects: ObjectStore, operation_id: str, attempt: int, number: int, batches: Sequence[pa.RecordBatch]
) -> str:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    key = build_job_key(operation_id, f"{SAVED_PREFIX}{attempt}-{number}{_CHUNK_SUFFIX}")
    objects.put(key, sink.getvalue())
    return key


# --- the commit --------------------------------------------------------------------------------------


def _select_messages(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenChunks]:
    return [one for one in messages if isinstance(one, WrittenChunks)]


def _commit(target: WriteTarget, schema: pa.Schema, told: Sequence[WrittenChunks]) -> LoadResult | None:
    session = target.open_session()
    keys = [key for one in told for key in one.keys]
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
            is_known_by_key=True,  # the pieces of tasks come in any order
        )
        return load(session, call, read_locally)
    finally:
        for operation_id in {one.operation_id for one in told}:
            _delete_chunks(session.store.objects, operation_id)


@dataclass(frozen=True, slots=True)
class _ChunkedRows:
    """The rows of pieces as Arrow data, a piece at a time, as often as somebody asks."""

    objects: ObjectStore
    keys: Sequence[str]
    schema: pa.Schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream, as Arrow's PyCapsule interface has it."""
        return pa.RecordBatchReader.from_batches(self.schema, self._iter_batches()).__arrow_c_stream__(requested_schema)

    def _iter_batches(self) -> Iterator[pa.RecordBatch]:
        for key in self.keys:
            with pa.ipc.open_stream(self.objects.get(key).data) as reader:
                for batch in reader:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def _clear(target: WriteTarget, operation_id: str) -> None:
    """Remove the pieces of every task of an operation, also of those that failed."""
    _delete_chunks(target.location.open_store().objects, operation_id)


def _delete_chunks(objects: ObjectStore, operation_id: str) -> None:
    """A write, or a batch of a stream, is over: its pieces go, also those of tasks that failed or came twice.

    What a task puts there later, because it outlives the end, is swept by recovery when it is old.
    """
    mine = build_job_key(operation_id, "")
    for one in objects.list_under(RECOVERY):
        if one.key.startswith(mine):
            objects.delete(one.key)
