"""Scan one type's table at one version in many tasks: the plan, and the work of a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, StructField, StructType

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.predicate_eval import find_columns
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.engine.writing.blobs import BlobValues, iter_stored_batches, reference_blobs
from omnigraph.engine.writing.row_filter import filter_rows
from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.query_parser import parse_filter
from omnigraph.lang.source import Source
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.session import Session
from omnigraph.query.bind import bind_filter
from omnigraph.query.expr import Expr
from omnigraph.query.params import ParamValue
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.types import Scalar, ValueType, VectorOf
from omnigraph.spark.read.spark_types import to_spark_arrow_schema, to_spark_batch, to_spark_schema
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import LanceTable, verify
from omnigraph.storage.table_cache import VerifyLevel

# A task reads about this number of rows or bytes, whichever is reached first.
ROWS_PER_TASK = 2 * 1024 * 1024
BYTES_PER_TASK = 128 * 1024 * 1024
# Fewer rows don't justify another task, even if cores are idle.
MIN_ROWS_PER_TASK = 64 * 1024
# A fragment that exceeds a multiple of a task's rows by at most this fraction is not split once more for the remainder.
SLACK = 0.25
# Vectors shrink a batch below `BATCH_ROWS`, to at most this number of floats, so that it stays in the megabytes.
BATCH_ROWS = 64 * 1024
BATCH_FLOATS = 2 * 1024 * 1024
# No property can have this name.
PART = "@part"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """A scan of some columns of a type's table at one version; small, and valid in every process."""

    location: GraphLocation
    type: AnyType
    path: str
    version: str
    """The version of the table, as text: versions exceed a signed 64-bit integer of the JVM."""
    columns: tuple[str, ...]
    where: Expr | None = None
    """A predicate of the query language; rows for which it is not true are not passed to Spark."""
    now: datetime
    """The value of `now()` in the predicate, the same in all tasks."""
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    """The values of the parameters in the predicate."""
    cuts: tuple[str, ...] | None = None
    """Ids, ascending. If set, a last column `PART` has the number of cuts that are at most the row's id."""

    @property
    def schema(self) -> StructType:
        """The columns as a Spark schema."""
        schema = to_spark_schema(self.type, self.columns)
        return schema if self.cuts is None else StructType([*schema, StructField(PART, IntegerType(), nullable=False)])

    def open_table(self) -> LanceTable:
        """Open the table in this process."""
        return self.location.open_table(self.path, int(self.version))


def find_type(catalog: Catalog, name: str) -> AnyType:
    """Return the type of exactly this name, or the edge type of this name in any case.

    Raises:
        TypeMissingError: There is no such type.
    """
    type_ = catalog.find_type(name) or catalog.find_edge(name)
    if type_ is None:
        raise TypeMissingError(name, find_closest(name, (*catalog.nodes, *catalog.edges)))
    return type_


def plan_scan(
    session: Session, snapshot: Snapshot, type_: AnyType, columns: Sequence[str] | None = None, where: str | None = None
) -> TableScan:
    """Plan the scan of a type in a snapshot; `where` is a predicate of the query language.

    Raises:
        MissingError: There is no such column.
        SourceError: The predicate is invalid.
    """
    pin = snapshot.pin(type_.table_key)
    return TableScan(
        location=GraphLocation.from_session(session),
        type=type_,
        path=pin.path,
        version=str(pin.version),
        columns=tuple(to_spark_schema(type_, columns).names),
        where=None if where is None else _bind_predicate(where, type_),
        now=session.runtime.clock.now(),
    )


def is_filter(text: str, type_: AnyType) -> bool:
    """Return whether a text is a valid predicate over a type's rows."""
    try:
        _bind_predicate(text, type_)
    except SourceError:
        return False
    return True


def _bind_predicate(text: str, type_: AnyType) -> Expr:
    source = Source(text, "filter")
    predicate = parse_filter(source).require(source)
    assert predicate is not None  # noqa: S101 - without errors there is one
    bound = bind_filter(predicate, type_).require(source)
    assert bound is not None  # noqa: S101 - as above
    return bound


# --- tasks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScanTask:
    """The input of one task: whole fragments, or a range of the live rows of one fragment."""

    fragments: tuple[int, ...]
    within: range | None = None


def plan_scan_tasks(scan: TableScan, fragments: Sequence[Fragment], *, min_tasks: int) -> list[ScanTask]:
    """Plan the tasks of a scan; with a predicate, no fragment is split."""
    # A range counts rows that pass the predicate, and their number is not known before the fragment is read.
    return plan_tasks(fragments, min_tasks=min_tasks, can_split=scan.where is None)


def plan_tasks(fragments: Sequence[Fragment], *, min_tasks: int = 1, can_split: bool = True) -> list[ScanTask]:
    """Plan tasks by the size of the fragments, at least `min_tasks` of them if there are enough rows.

    Small neighbouring fragments share a task, and large ones are split if `can_split`.
    """
    rows = sum(fragment.rows - fragment.deleted for fragment in fragments)
    task_rows = max(min(ROWS_PER_TASK, -(-rows // max(min_tasks, 1))), MIN_ROWS_PER_TASK)
    tasks: list[ScanTask] = []
    pending: list[int] = []
    pending_rows = 0
    pending_bytes = 0
    for fragment in fragments:
        live_rows = fragment.rows - fragment.deleted
        if pending and (pending_rows + live_rows > task_rows or pending_bytes + fragment.nbytes > BYTES_PER_TASK):
            tasks.append(ScanTask(tuple(pending)))
            pending = []
            pending_rows = 0
            pending_bytes = 0
        if can_split and (count := min(ceil(live_rows / task_rows - SLACK), live_rows // MIN_ROWS_PER_TASK)) > 1:
            tasks += _split_fragment(fragment.number, live_rows, count)
            continue
        pending.append(fragment.number)
        pending_rows += live_rows
        pending_bytes += fragment.nbytes
    return [*tasks, ScanTask(tuple(pending))] if pending else tasks


def _split_fragment(number: int, rows: int, count: int) -> list[ScanTask]:
    ends = [rows * part // count for part in range(count + 1)]
    return [ScanTask((number,), range(start, end)) for start, end in pairwise(ends)]


def read_task(scan: TableScan, task: ScanTask) -> Iterator[pa.RecordBatch]:
    """Read the rows of a task for which the predicate is true, in Spark's types."""
    table = scan.open_table()
    # Only an export has cuts. It must not copy damaged data, and reads these files completely anyway.
    if scan.cuts is not None:
        verify(table, VerifyLevel.WHOLE, only=task.fragments)
    inputs = QueryInputs(scan.params, scan.now)
    where = None if scan.where is None else build_table_filter(scan.where, inputs)
    schema = to_spark_arrow_schema(scan.schema)
    for rows in _read_rows(scan, table, task, where):
        # The filter of the table may pass rows for which the predicate is not true, so it is evaluated again.
        matching = rows if scan.where is None else filter_rows(rows, scan.where, inputs)
        for batch in _attach_blobs(scan, table, matching):
            if not batch.num_rows:
                continue
            if scan.cuts is not None:
                batch = batch.append_column(PART, _assign_parts(batch.column(ID), scan.cuts))  # noqa: PLW2901
            yield to_spark_batch(batch, schema)


def _assign_parts(ids: pa.Array, cuts: Sequence[str]) -> pa.Array:
    parts = np.zeros(len(ids), np.int32)
    for cut in cuts:
        parts += pc.greater_equal(ids, cut).to_numpy(zero_copy_only=False)
    return pa.array(parts)


def _read_rows(scan: TableScan, table: LanceTable, task: ScanTask, where: str | None) -> Iterator[pa.Table]:
    filter_columns = [] if scan.where is None else find_columns(scan.where)
    with_blobs = has_blobs(scan)
    # Batches with blobs have the schema of the narrowed type, which includes the ids.
    blob_columns = build_arrow_schema(_narrow_type(scan)).names if with_blobs else []
    names = list(dict.fromkeys([*scan.columns, *filter_columns, *blob_columns]))
    for batch in table.iter_batches(
        names,
        where,
        batch_rows=_choose_batch_rows(scan),
        fragments=task.fragments,
        within=task.within,
        with_address=with_blobs,
    ):
        yield pa.Table.from_batches([batch])


def _attach_blobs(scan: TableScan, table: LanceTable, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the bytes of their blobs, in batches of some megabytes."""
    if not has_blobs(scan):
        yield from rows.combine_chunks().to_batches()
        return
    narrowed = _narrow_type(scan)
    pending = reference_blobs(narrowed, rows).select(build_arrow_schema(narrowed).names)
    yield from iter_stored_batches(narrowed, pending, table, BlobValues())


def _narrow_type(scan: TableScan) -> AnyType:
    """Return the type with only the properties that the scan reads."""
    return replace(scan.type, properties=tuple(p for p in scan.type.properties if p.name in scan.columns))


def has_blobs(scan: TableScan) -> bool:
    """Return whether a scan reads blobs, whose bytes the sizes of fragments don't include."""
    return any(_find_column_type(scan.type, name) is Scalar.BLOB for name in scan.columns)


def _choose_batch_rows(scan: TableScan) -> int:
    """Return the number of rows with which a batch stays in the megabytes."""
    types = [_find_column_type(scan.type, name) for name in scan.columns]
    floats = sum(type_.size for type_ in types if isinstance(type_, VectorOf))
    return min(BATCH_ROWS, max(1, BATCH_FLOATS // floats)) if floats else BATCH_ROWS


def _find_column_type(type_: AnyType, name: str) -> ValueType:
    p = type_.find_property(name)
    return Scalar.STRING if p is None else p.type
