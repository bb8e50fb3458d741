"""A stream of rows into a graph: each batch is one commit, and a restart neither loses nor doubles one.

Spark writes down which rows a batch has before it runs it, and that it is done afterwards. In between it may run twice.
So a batch is loaded with an idempotency key of its query and number: what is there already is not loaded again.
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

from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.bulk.rejected_records import REASONS, REJECTED, QuarantineError, settle_published
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.load import LoadError, load
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_engine import Reader
from omnigraph.ops.load_inputs import LoadInput, TypedSource
from omnigraph.ops.load_local import read_locally
from omnigraph.ops.session import Session
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.schema.values import format_value
from omnigraph.spark.data_source_writer import build_batch_key
from omnigraph.spark.load.load_engine import build_reader
from omnigraph.spark.load.load_input import check_columns
from omnigraph.spark.load.load_spec import FrameSource
from omnigraph.spark.read.table_scan import find_type
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.stream.checkpoint import claim

_KEY_FILE = ".batch"


@dataclass(frozen=True, slots=True)
class BatchQuarantine:
    """A directory for the batch that is known by a key."""

    directory: Path
    key: str

    def clear_previous_attempt(self) -> None:
        """What a try left here that was refused as a whole goes: this try has all of it again.

        Records of anything else stay, and the load says so.
        """
        with self._translate_errors():
            mark = self.directory / _KEY_FILE
            if mark.is_file() and mark.read_text(encoding="utf-8") == self.key:
                for name in (REJECTED, REASONS, _KEY_FILE):
                    (self.directory / name).unlink(missing_ok=True)

    def mark_refused(self) -> None:
        """The batch was refused as a whole, and its bad records are here to be looked at."""
        with self._translate_errors():
            (self.directory / _KEY_FILE).write_text(self.key, encoding="utf-8")

    def finish(self) -> None:
        """The batch was loaded, by a driver that may have died before its records had their names."""
        settle_published(self.directory)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise QuarantineError(str(self.directory), error.strerror or str(error)) from error


Columns: TypeAlias = Mapping[str, str | Column]
"""For each property, `id`, `from` or `to`: a column, or SQL over the stream's columns. `@where`: only such rows."""
Rows: TypeAlias = Mapping[str, Columns | Sequence[Columns]]
"""By type, how a row of the stream becomes one of its rows, or several."""
RowMapping: TypeAlias = str | Rows | Callable[[DataFrame], Mapping[str, DataFrame]]
"""The one type that the columns are of; or the rows of each type; or what makes DataFrames of types from a batch."""

MAX_LOCAL_ROWS = 200_000
"""A batch of at most so many rows is loaded by the driver alone: starting tasks would take longer."""
WHERE = "@where"
_QUERY_ID_PROPERTY = "sql.streaming.queryId"


class BadMappingError(OmnigraphError):
    """What says how rows of a stream become nodes and edges does not say that; `type` is empty if none is meant."""

    kind = Kind.USAGE
    code = "bad_mapping"

    def __init__(self, type: str, reason: str) -> None:
        super().__init__(type, reason)
        self.type, self.reason = type, reason

    def __str__(self) -> str:
        return f"the mapping of `{self.type}`: {self.reason}" if self.type else f"the mapping: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCall:
    """A stream as it was asked for; the last five as for a load."""

    mapping: RowMapping
    checkpoint: str
    every: str | None = None
    """How often a batch begins, such as `10 seconds`; None: when the one before is done."""
    until_empty: bool = False
    name: str | None = None
    mode: LoadMode = LoadMode.MERGE
    actor: str = "anonymous"
    message: str | None = None
    on_error: Path | None = None
    max_errors: int | None = None


class GraphStream:
    """A stream at work. `query` is Spark's own handle."""

    def __init__(self, query: StreamingQuery, batches: "_BatchLoader") -> None:
        self.query, self._batches = query, batches

    @property
    def id(self) -> str:
        """The same after every restart from the same checkpoint."""
        return str(self.query.id)

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return self.query.isActive

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it ends, or for so long; whether it ended.

        Raises:
            LoadError: A batch has records that can't be loaded. It is tried again at the next start.
            OmnigraphError: Whatever else has stopped it.
        """
        with self._surface_errors():
            if seconds is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(seconds))  # type: ignore[arg-type] # it takes fractions

    def catch_up(self) -> None:
        """Wait until everything is loaded that was there when this was called. Raises what `wait` raises."""
        with self._surface_errors():
            self.query.processAllAvailable()

    def stop(self) -> None:
        """End it, in the midst of a batch too: the next start runs that batch again."""
        self.query.stop()

    @contextmanager
    def _surface_errors(self) -> Iterator[None]:
        try:
            with surface_errors():
                yield
        except OmnigraphError as error:
            if self._batches.error is None:
                raise
            raise self._batches.error from error


def start_stream(session: Session, frame: DataFrame, call: StreamCall) -> GraphStream:
    """Start a stream; it runs in threads of Spark until it is stopped, or all is read if it was asked for that.

    Raises:
        BadMappingError: The mapping does not say how rows become nodes and edges.
        TypeMissingError: There is no such type.
        ColumnError: The columns are not such as rows of a type can be made of.
        CheckpointTakenError: The checkpoint is that of a stream into another graph or branch.
        BadArgumentError: The mode is not one of a stream, or `every` is no time.
    """
    session.check_writable()
    if call.mode is LoadMode.OVERWRITE:
        raise BadArgumentError("mode", "overwrite", "each batch would replace the one before; it is merge or append")
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
            raise BadArgumentError("every", format_value(call.every), "it is a time, such as `10 seconds`") from None
    claim(frame.sparkSession, call.checkpoint, session.uri, snapshot.branch)
    with surface_errors():
        return GraphStream(writer.start(), batches)


def _check_call(session: Session, frame: DataFrame, call: StreamCall, catalog: Catalog) -> None:
    """What is wrong with a mapping, or with the columns that it makes, is said now and not by the first batch."""
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
    """What is done with every batch."""

    def __init__(self, session: Session, call: StreamCall) -> None:
        self._session, self._call = session, call
        self.error: OmnigraphError | None = None
        """What stopped the stream, if that was one of ours."""
        self._is_first = True

    def run(self, batch: DataFrame, number: int) -> None:
        """Load one batch."""
        spark = batch.sparkSession
        query_id = spark.sparkContext.getLocalProperty(_QUERY_ID_PROPERTY)
        assert query_id is not None  # noqa: S101 - Spark sets it for every batch of a stream
        kept = batch.persist()
        try:
            self._load(spark, kept, query_id, number)
        except OmnigraphError as error:
            self.error = error
            raise
        finally:
            kept.unpersist()

    def _load(self, spark: SparkSession, batch: DataFrame, query_id: str, number: int) -> None:
        call, faults = self._call, self._session.runtime.faults
        key = build_batch_key(query_id, number)
        faults.reach("stream.begun")
        kept = None if call.on_error is None else BatchQuarantine(call.on_error / f"batch-{number}", key)
        if self._is_loaded(key):
            if kept is not None:
                kept.finish()
            return
        is_small = batch.limit(MAX_LOCAL_ROWS + 1).count() <= MAX_LOCAL_ROWS
        catalog = self._session.load_catalog(self._session.head().snapshot)
        frames = map_batch(batch, call.mapping, catalog, is_distinct=call.mode is LoadMode.MERGE)
        sources = []
        for name, frame in frames.items():
            type_ = find_type(catalog, name)
            data = frame.toArrow() if is_small else frame
            if not is_small or data.num_rows:
                sources.append(TypedSource(type=type_.name, is_edge=isinstance(type_, EdgeType), data=data))
        if sources:
            made = LoadCall(
                input=LoadInput(typed=tuple(sources)),
                mode=call.mode,
                actor=call.actor,
                message=call.message,
                idempotency_key=key,
                is_known_by_key=True,  # the batch of a checkpoint: its rows may come in another order
                on_error=None if kept is None else kept.directory,
                max_errors=call.max_errors,
            )
            self._load_with_quarantine(kept, made, read_locally if is_small else build_reader(spark=spark))
        faults.reach("stream.loaded")

    def _load_with_quarantine(self, kept: BatchQuarantine | None, call: LoadCall, read: Reader) -> None:
        """Load, and see to it that refused records are not in the way of another try."""
        if kept is not None:
            kept.clear_previous_attempt()
        try:
            load(self._session, call, read)
        except LoadError as error:
            if kept is not None and error.quarantine is not None:
                kept.mark_refused()
            raise

    def _is_loaded(self, key: str) -> bool:
        """Whether the first batch since the start was loaded before the stream died, however long ago that is.

        A load knows its key for some days only. No later batch can have been tried before.
        """
        if not self._is_first:
            return False
        self._is_first = False
        history = self._session.log.iter_history(self._session.head())
        return any(one.idempotency_key == key for one in history)


# --- rows of types -----------------------------------------------------------------------------------


def check_mapping(mapping: Rows, catalog: Catalog) -> None:
    """BadMappingError or TypeMissingError for a mapping that can't be meant."""
    if not mapping:
        raise BadMappingError("", "it names no types")
    for name, rows in mapping.items():
        find_type(catalog, name)
        several = _to_list(rows)
        if not several or not all(several):
            raise BadMappingError(name, "it names no columns")
        first = several[0].keys() - {WHERE}
        for other in several[1:]:
            if odd := first ^ (other.keys() - {WHERE}):
                reason = f"each of its parts must give the same columns, but not all give `{min(odd)}`"
                raise BadMappingError(name, reason)


def _check_columns(frame: DataFrame, mapping: Rows) -> None:
    """BadMappingError when an expression names what a DataFrame does not have: now, and not by the first batch."""
    for name, rows in mapping.items():
        for columns in _to_list(rows):
            try:
                _select_columns(frame, columns)
            except AnalysisException as error:
                raise BadMappingError(name, str(error).partition("\n")[0]) from None


def map_batch(batch: DataFrame, mapping: RowMapping, catalog: Catalog, *, is_distinct: bool) -> Mapping[str, DataFrame]:
    """The rows of each type.

    With `is_distinct`, equal rows are one where they say which row they are: many events name the same node. Rows
    that get an id each stay as many as they are.
    """
    if isinstance(mapping, str):
        return {mapping: batch}
    if callable(mapping):
        return _apply_function(batch, mapping)
    check_mapping(mapping, catalog)
    found: dict[str, DataFrame] = {}
    for name, rows in mapping.items():
        frame = reduce(DataFrame.unionByName, [_select_columns(batch, columns) for columns in _to_list(rows)])
        has_ids = bool(find_type(catalog, name).key) or ID in frame.columns
        found[name] = frame.distinct() if is_distinct and has_ids else frame
    return found


def _apply_function(
    batch: DataFrame, mapping: Callable[[DataFrame], Mapping[str, DataFrame]]
) -> Mapping[str, DataFrame]:
    """What a function of the caller makes of a batch."""
    try:
        found: object = mapping(batch)
    except (OmnigraphError, PySparkException, Py4JError):  # Spark has stopped it, or it used Spark wrongly
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise BadMappingError("", f"the function failed: {told}") from error
    if not isinstance(found, Mapping) or not all(isinstance(one, DataFrame) for one in found.values()):
        raise BadMappingError("", f"the function has to give DataFrames by type, and gave a {type(found).__name__}")
    return found


def _to_list(rows: Columns | Sequence[Columns]) -> Sequence[Columns]:
    return [rows] if isinstance(rows, Mapping) else rows


def _select_columns(batch: DataFrame, columns: Columns) -> DataFrame:
    where = columns.get(WHERE)
    rows = batch if where is None else batch.where(where)
    return rows.select(*(_to_column(given).alias(name) for name, given in columns.items() if name != WHERE))


def _to_column(given: str | Column) -> Column:
    return f.expr(given) if isinstance(given, str) else given
