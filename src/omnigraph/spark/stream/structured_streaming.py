"""Load a streaming DataFrame into a graph: each batch is one commit, exactly once, also across restarts.

Spark records the rows of a batch before it runs it, and its completion afterwards; if it fails in between, the batch
runs again. So a batch is loaded with an idempotency key of its query and number, and is not committed twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException, PySparkValueError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.bulk.rejected_records import REASONS, REJECTED, QuarantineError, settle_published
from omnigraph.errors import BadArgumentError, OmnigraphError
from omnigraph.ops.load import LoadError, load
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_engine import Reader
from omnigraph.ops.load_inputs import LoadInput, TypedSource
from omnigraph.ops.load_local import read_locally
from omnigraph.ops.session import Session
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.schema.values import format_value
from omnigraph.spark.data_source_writer import QUERY_ID_PROPERTY, build_batch_key
from omnigraph.spark.load.load_engine import build_reader
from omnigraph.spark.load.load_input import check_columns
from omnigraph.spark.load.load_spec import FrameSource
from omnigraph.spark.read.table_scan import find_type
from omnigraph.spark.session.connect import check_has_jvm
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.spark_errors import SparkUsageError
from omnigraph.spark.stream.checkpoint import claim

# Holds the key of a rejected batch, beside its bad records.
_KEY_FILE = ".batch"


@dataclass(frozen=True, slots=True)
class BatchQuarantine:
    """The quarantine directory of one batch, which is identified by its idempotency key."""

    directory: Path
    key: str

    def clear_previous_attempt(self) -> None:
        """Remove the records of an earlier attempt that was rejected as a whole: this attempt reads them all again.

        Other records stay, and the load reports them.
        """
        with self._translate_errors():
            key_file = self.directory / _KEY_FILE
            if key_file.is_file() and key_file.read_text(encoding="utf-8") == self.key:
                for name in (REJECTED, REASONS, _KEY_FILE):
                    (self.directory / name).unlink(missing_ok=True)

    def mark_refused(self) -> None:
        """Mark the bad records here as those of a batch that was rejected as a whole."""
        with self._translate_errors():
            (self.directory / _KEY_FILE).write_text(self.key, encoding="utf-8")

    def finish(self) -> None:
        """Finish the quarantine of a committed batch, whose driver may have died before renaming its files."""
        settle_published(self.directory)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise QuarantineError(str(self.directory), error.strerror or str(error)) from error


# For each property, `id`, `from` or `to`: a column, or SQL over the stream's columns. `@where` filters the rows.
Columns: TypeAlias = Mapping[str, str | Column]
# By type, how a row of the stream becomes one or several rows of that type.
Rows: TypeAlias = Mapping[str, Columns | Sequence[Columns]]
# The type whose columns the stream has; or the rows of each type; or a function from a batch to DataFrames by type.
RowMapping: TypeAlias = str | Rows | Callable[[DataFrame], Mapping[str, DataFrame]]

# The driver loads a batch of up to this number of rows alone, because starting tasks would take longer.
MAX_LOCAL_ROWS = 200_000
# Such batches may have few but long rows.
MAX_LOCAL_BYTES = 64 * 1024 * 1024
WHERE = "@where"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCall:
    """The arguments of a stream; the last five are those of a load."""

    mapping: RowMapping
    checkpoint: str
    every: str | None = None
    """The interval between batches, such as `10 seconds`; None: each begins when the previous one is done."""
    until_empty: bool = False
    name: str | None = None
    mode: LoadMode = LoadMode.MERGE
    actor: str = "anonymous"
    message: str | None = None
    on_error: Path | None = None
    max_errors: int | None = None


class GraphStream:
    """A running stream. `query` is Spark's own handle."""

    def __init__(self, query: StreamingQuery, batches: "_BatchLoader") -> None:
        self.query = query
        self._batches = batches

    @property
    def id(self) -> str:
        """The id of the stream, which stays the same after a restart from the same checkpoint."""
        return str(self.query.id)

    @property
    def is_active(self) -> bool:
        """Whether the stream is still running."""
        return self.query.isActive

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stream ends, or for a number of seconds; return whether it ended.

        Raises:
            LoadError: A batch has records that can't be loaded. It is tried again at the next start.
            OmnigraphError: The stream stopped for another reason.
        """
        with self._surface_errors():
            if seconds is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(seconds))  # type: ignore[arg-type] # it takes fractions

    def catch_up(self) -> None:
        """Wait until all rows are loaded that were available at the time of the call. Raises the same as `wait`."""
        with self._surface_errors():
            self.query.processAllAvailable()

    def stop(self) -> None:
        """Stop the stream, even in the middle of a batch: the next start runs that batch again."""
        self.query.stop()

    @contextmanager
    def _surface_errors(self) -> Iterator[None]:
        try:
            with surface_errors():
                yield
        except OmnigraphError as error:
            # Spark has only the text of an error of a batch; the loader has the error itself.
            if self._batches.error is None:
                raise
            raise self._batches.error from error


def start_stream(session: Session, frame: DataFrame, call: StreamCall) -> GraphStream:
    """Start a stream, which runs in Spark's threads until it is stopped or, with `until_empty`, all rows are loaded.

    Raises:
        SparkUsageError: The mapping from rows to nodes and edges is invalid.
        TypeMissingError: There is no such type.
        ColumnError: Rows of a type can't be built from the columns.
        CheckpointTakenError: The checkpoint belongs to a stream into another graph or branch.
        BadArgumentError: The mode is not allowed for a stream, or `every` is not an interval.
    """
    session.check_writable()
    check_has_jvm(
        frame.sparkSession,
        "a stream with a mapping",
        'Write the rows of each type with `writeStream.format("omnigraph")`, which the server runs',
    )
    if call.mode is LoadMode.OVERWRITE:
        raise BadArgumentError("mode", "overwrite", "each batch would replace the previous one; use merge or append")
    snapshot = session.head().snapshot
    if not callable(call.mapping):
        _check_call(session, frame, call, session.load_catalog(snapshot))
    batches = _BatchLoader(session, call)
    writer = frame.writeStream.foreachBatch(batches.run).option("checkpointLocation", call.checkpoint)
    if call.name is not None:
        writer = writer.queryName(call.name)
    if call.until_empty:
        writer = writer.trigger(availableNow=True)
    elif call.every is not None:
        try:
            writer = writer.trigger(processingTime=call.every)
        except (IllegalArgumentException, PySparkValueError):
            raise BadArgumentError(
                "every", format_value(call.every), "it must be an interval, such as `10 seconds`"
            ) from None
    # Only after all checks: a call that fails must not take the checkpoint.
    claim(frame.sparkSession, call.checkpoint, session.uri, snapshot.branch)
    with surface_errors():
        return GraphStream(writer.start(), batches)


def _check_call(session: Session, frame: DataFrame, call: StreamCall, catalog: Catalog) -> None:
    """Check a mapping and the columns that it produces now, rather than in the first batch."""
    mapping = call.mapping
    if isinstance(mapping, Mapping):
        check_mapping(mapping, catalog)
        _check_columns(frame, mapping)
    for name, rows in map_batch(frame, mapping, catalog, is_distinct=False).items():
        type_ = find_type(catalog, name)
        is_partial = call.mode is LoadMode.MERGE
        source = FrameSource(number=0, type=type_.name, is_edge=isinstance(type_, EdgeType), is_partial=is_partial)
        check_columns(session, source, type_, rows)


class _BatchLoader:
    """The loader of a stream's batches."""

    def __init__(self, session: Session, call: StreamCall) -> None:
        self._session = session
        self._call = call
        self.error: OmnigraphError | None = None
        """The error that stopped the stream, if it is one of omnigraph's."""
        self._is_first = True

    def run(self, batch: DataFrame, number: int) -> None:
        """Load one batch."""
        spark = batch.sparkSession
        query_id = spark.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
        assert query_id is not None  # noqa: S101 - Spark sets it for every batch of a stream
        # A load reads the batch several times; without the cache, each time would read the stream's source again.
        cached = batch.persist()
        try:
            self._load(spark, cached, query_id, number)
        except OmnigraphError as error:
            self.error = error
            raise
        finally:
            cached.unpersist()

    def _load(self, spark: SparkSession, batch: DataFrame, query_id: str, number: int) -> None:
        call = self._call
        faults = self._session.runtime.faults
        key = build_batch_key(query_id, number)
        faults.reach("stream.begun")
        quarantine = None if call.on_error is None else BatchQuarantine(call.on_error / f"batch-{number}", key)
        if self._is_loaded(key):
            if quarantine is not None:
                quarantine.finish()
            return
        catalog = self._session.load_catalog(self._session.head().snapshot)
        frames = map_batch(batch, call.mapping, catalog, is_distinct=call.mode is LoadMode.MERGE)
        is_small = has_small_rows(list(frames.values()))
        sources = []
        for name, frame in frames.items():
            type_ = find_type(catalog, name)
            data = frame.toArrow() if is_small else frame
            if not is_small or data.num_rows:
                sources.append(TypedSource(type=type_.name, is_edge=isinstance(type_, EdgeType), data=data))
        if sources:
            load_call = LoadCall(
                input=LoadInput(typed=tuple(sources)),
                mode=call.mode,
                actor=call.actor,
                message=call.message,
                idempotency_key=key,
                is_known_by_key=True,  # a repeated batch may have its rows in another order
                on_error=None if quarantine is None else quarantine.directory,
                max_errors=call.max_errors,
            )
            read = read_locally if is_small else build_reader(spark=spark)
            self._load_with_quarantine(quarantine, load_call, read)
        faults.reach("stream.loaded")

    def _load_with_quarantine(self, quarantine: BatchQuarantine | None, call: LoadCall, read: Reader) -> None:
        """Load a batch; the records of an earlier attempt must not prevent it, nor this one's a later attempt."""
        if quarantine is not None:
            quarantine.clear_previous_attempt()
        try:
            load(self._session, call, read)
        except LoadError as error:
            if quarantine is not None and error.quarantine is not None:
                quarantine.mark_refused()
            raise

    def _is_loaded(self, key: str) -> bool:
        """Return whether the first batch since the start was committed before the stream died, at any time."""
        # The whole history is searched, because a load finds an idempotency key for some days only. Later batches can't
        # have run before.
        if not self._is_first:
            return False
        self._is_first = False
        history = self._session.log.iter_history(self._session.head())
        return any(commit.idempotency_key == key for commit in history)


def has_small_rows(frames: Sequence[DataFrame]) -> bool:
    """Return whether the rows of all frames together fit into the memory of one process.

    The frames are those of a mapping, which may turn one row of a batch into millions.
    """
    sizes = [frame.select(_estimate_size(frame).alias("size")) for frame in frames]
    if not sizes:
        return True
    # With the limit, a large batch is not measured to its end.
    first = reduce(DataFrame.union, sizes).limit(MAX_LOCAL_ROWS + 1)
    measured = first.agg(f.count("size"), f.sum("size")).first()
    rows, nbytes = (0, 0) if measured is None else measured
    return rows <= MAX_LOCAL_ROWS and (nbytes or 0) <= MAX_LOCAL_BYTES


def _estimate_size(frame: DataFrame) -> Column:
    """Return the approximate number of bytes of each row: eight for a value of fixed size."""
    size = f.lit(0).cast("long")
    for field in frame.schema.fields:
        column = f.col(f"`{field.name.replace('`', '``')}`")
        match field.dataType:
            case StringType() | BinaryType():
                size += f.coalesce(f.octet_length(column), f.lit(0))
            case ArrayType() | MapType() | StructType():
                # As text a value takes about as much as in Arrow, or more.
                size += f.coalesce(f.octet_length(f.to_json(f.struct(column))), f.lit(0))
            case _:
                size += f.lit(8)
    return size


# --- mapping rows to types ---------------------------------------------------------------------------


def check_mapping(mapping: Rows, catalog: Catalog) -> None:
    """Check that a mapping names existing types, and the same columns in all parts of a type.

    Raises:
        SparkUsageError: It names no types, no columns, or different ones for a type.
        TypeMissingError: There is no such type.
    """
    if not mapping:
        raise SparkUsageError.bad_mapping("", "it names no types")
    for name, rows in mapping.items():
        find_type(catalog, name)
        parts = _to_list(rows)
        if not parts or not all(parts):
            raise SparkUsageError.bad_mapping(name, "it names no columns")
        first = parts[0].keys() - {WHERE}
        for part in parts[1:]:
            if different := first ^ (part.keys() - {WHERE}):
                reason = f"all of its parts must have the same columns, but not all have `{min(different)}`"
                raise SparkUsageError.bad_mapping(name, reason)


def _check_columns(frame: DataFrame, mapping: Rows) -> None:
    """Check that all expressions of a mapping are valid over a DataFrame.

    Raises:
        SparkUsageError: An expression is not.
    """
    for name, rows in mapping.items():
        for columns in _to_list(rows):
            try:
                _select_columns(frame, columns)
            except AnalysisException as error:
                raise SparkUsageError.bad_mapping(name, str(error).partition("\n")[0]) from None


def map_batch(batch: DataFrame, mapping: RowMapping, catalog: Catalog, *, is_distinct: bool) -> Mapping[str, DataFrame]:
    """Return the rows of each type in a batch.

    With `is_distinct`, equal rows with a key or an id become one, because many events may name the same node. Rows
    whose ids are generated are not deduplicated.
    """
    if isinstance(mapping, str):
        return {mapping: batch}
    if callable(mapping):
        return _apply_function(batch, mapping)
    check_mapping(mapping, catalog)
    frames: dict[str, DataFrame] = {}
    for name, rows in mapping.items():
        frame = reduce(DataFrame.unionByName, [_select_columns(batch, columns) for columns in _to_list(rows)])
        has_ids = bool(find_type(catalog, name).key) or ID in frame.columns
        frames[name] = frame.distinct() if is_distinct and has_ids else frame
    return frames


def _apply_function(
    batch: DataFrame, mapping: Callable[[DataFrame], Mapping[str, DataFrame]]
) -> Mapping[str, DataFrame]:
    """Apply a function of the caller to a batch, and check that it returns DataFrames by type."""
    try:
        frames: object = mapping(batch)
    except (OmnigraphError, PySparkException, Py4JError):  # Spark stopped it, or it called Spark wrongly
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise SparkUsageError.bad_mapping("", f"the function failed: {message}") from error
    if not isinstance(frames, Mapping) or not all(isinstance(frame, DataFrame) for frame in frames.values()):
        raise SparkUsageError.bad_mapping(
            "", f"the function must return DataFrames by type, but returned a {type(frames).__name__}"
        )
    return frames


def _to_list(rows: Columns | Sequence[Columns]) -> Sequence[Columns]:
    return [rows] if isinstance(rows, Mapping) else rows


def _select_columns(batch: DataFrame, columns: Columns) -> DataFrame:
    where = columns.get(WHERE)
    rows = batch if where is None else batch.where(where)
    return rows.select(*(_to_column(column).alias(name) for name, column in columns.items() if name != WHERE))


def _to_column(column: str | Column) -> Column:
    return f.expr(column) if isinstance(column, str) else column
