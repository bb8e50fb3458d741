"""Reading one type at one pin in many tasks: what is planned once, and what each task does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, StructField, StructType

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.predicate_eval import QueryInputs, find_columns
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
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.types import Scalar, ValueType, VectorOf
from omnigraph.spark.read.spark_types import to_spark_arrow_schema, to_spark_batch, to_spark_schema
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.storage.lance_table import Fragment, LanceTable, verify
from omnigraph.storage.table_cache import VerifyLevel

ROWS_PER_TASK = 2 * 1024 * 1024
BYTES_PER_TASK = 128 * 1024 * 1024
"""A task reads about so many rows or bytes, whichever is reached first."""
MIN_ROWS_PER_TASK = 64 * 1024
"""Fewer are not worth another task, however many cores are idle."""
SLACK = 0.25
"""A fragment that has so much of a share beyond whole ones is not cut once more for it."""
BATCH_ROWS = 64 * 1024
BATCH_FLOATS = 2 * 1024 * 1024
PART = "@part"
"""A column that no property can be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """Some columns of a type's rows at one pin; small, and the same in every process."""

    location: GraphLocation
    type: AnyType
    path: str
    version: str
    """Of the table, as text: versions exceed what the JVM calls a long."""
    columns: tuple[str, ...]
    where: Expr | None = None
    """A predicate of the query language: rows for which it is not true are not handed to Spark."""
    now: datetime
    """The instant that `now()` in it means: one for all tasks."""
    cuts: tuple[str, ...] | None = None
    """Ids, ascending. When given, a last column `PART` says how many of them a row's id is not below."""

    @property
    def schema(self) -> StructType:
        """The columns in Spark's terms."""
        own = to_spark_schema(self.type, self.columns)
        return own if self.cuts is None else StructType([*own, StructField(PART, IntegerType(), nullable=False)])

    def open_table(self) -> LanceTable:
        """The table, opened in this process."""
        return self.location.open_table(self.path, int(self.version))


def find_type(catalog: Catalog, name: str) -> AnyType:
    """The type of exactly that name, or the edge type of that name in any case; TypeMissingError otherwise."""
    found = catalog.find_type(name) or catalog.find_edge(name)
    if found is None:
        raise TypeMissingError(name, find_closest(name, (*catalog.nodes, *catalog.edges)))
    return found


def plan_scan(
    session: Session, snapshot: Snapshot, type_: AnyType, columns: Sequence[str] | None = None, where: str | None = None
) -> TableScan:
    """The scan of a type in a snapshot; `where` is a predicate, as a mutation has it.

    Raises:
        ColumnMissingError: There is no such column.
        SourceError: The predicate has mistakes.
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
    """Whether a text is a predicate over a type's rows."""
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
    """What one task reads: these fragments, or some places of the living rows of one."""

    fragments: tuple[int, ...]
    within: range | None = None


def plan_scan_tasks(scan: TableScan, fragments: Sequence[Fragment], *, min_tasks: int) -> list[ScanTask]:
    """What each task of a scan reads. With a predicate no fragment is cut: places count what it lets pass."""
    return plan_tasks(fragments, min_tasks=min_tasks, can_split=scan.where is None)


def plan_tasks(fragments: Sequence[Fragment], *, min_tasks: int = 1, can_split: bool = True) -> list[ScanTask]:
    """What each task reads: as many tasks as the size asks for, or `min_tasks` where that pays.

    Neighbouring fragments go together, and a large one is cut where that can be done.
    """
    rows = sum(one.rows - one.deleted for one in fragments)
    share = max(min(ROWS_PER_TASK, -(-rows // max(min_tasks, 1))), MIN_ROWS_PER_TASK)
    found: list[ScanTask] = []
    held: list[int] = []
    held_rows = held_bytes = 0
    for one in fragments:
        living = one.rows - one.deleted
        if held and (held_rows + living > share or held_bytes + one.nbytes > BYTES_PER_TASK):
            found.append(ScanTask(tuple(held)))
            held, held_rows, held_bytes = [], 0, 0
        if can_split and (count := min(ceil(living / share - SLACK), living // MIN_ROWS_PER_TASK)) > 1:
            found += _split_fragment(one.number, living, count)
            continue
        held.append(one.number)
        held_rows, held_bytes = held_rows + living, held_bytes + one.nbytes
    return [*found, ScanTask(tuple(held))] if held else found


def _split_fragment(number: int, rows: int, count: int) -> list[ScanTask]:
    ends = [rows * part // count for part in range(count + 1)]
    return [ScanTask((number,), range(start, end)) for start, end in pairwise(ends)]


def read_task(scan: TableScan, piece: ScanTask) -> Iterator[pa.RecordBatch]:
    """The rows of a piece for which the predicate is true, in Spark's types. With a predicate, no piece is cut."""
    table = scan.open_table()
    if scan.cuts is not None:  # an export, which is to copy no damage: it reads all of these files
        verify(table, VerifyLevel.WHOLE, only=piece.fragments)
    inputs = QueryInputs({}, scan.now)
    where = None if scan.where is None else build_table_filter(scan.where, inputs)
    schema = to_spark_arrow_schema(scan.schema)
    for rows in _read_rows(scan, table, piece, where):
        kept = rows if scan.where is None else filter_rows(rows, scan.where, inputs)
        for batch in _attach_blobs(scan, table, kept):
            if batch.num_rows:
                whole = (
                    batch
                    if scan.cuts is None
                    else batch.append_column(PART, _assign_parts(batch.column(ID), scan.cuts))
                )
                yield to_spark_batch(whole, schema)


def _assign_parts(ids: pa.Array, cuts: Sequence[str]) -> pa.Array:
    found = np.zeros(len(ids), np.int32)
    for cut in cuts:
        found += pc.greater_equal(ids, cut).to_numpy(zero_copy_only=False)
    return pa.array(found)


def _read_rows(scan: TableScan, table: LanceTable, piece: ScanTask, where: str | None) -> Iterator[pa.Table]:
    asked = [] if scan.where is None else find_columns(scan.where)
    with_blobs = has_blobs(scan)
    own = build_arrow_schema(_narrow_type(scan)).names if with_blobs else []
    names = list(dict.fromkeys([*scan.columns, *asked, *own]))
    for batch in table.iter_batches(
        names,
        where,
        batch_rows=_choose_batch_rows(scan),
        fragments=piece.fragments,
        within=piece.within,
        with_address=with_blobs,
    ):
        yield pa.Table.from_batches([batch])


def _attach_blobs(scan: TableScan, table: LanceTable, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows with the bytes of their blobs, some megabytes at a time."""
    if not has_blobs(scan):
        yield from rows.combine_chunks().to_batches()
        return
    narrowed = _narrow_type(scan)
    pending = reference_blobs(narrowed, rows).select(build_arrow_schema(narrowed).names)
    yield from iter_stored_batches(narrowed, pending, table, BlobValues())


def _narrow_type(scan: TableScan) -> AnyType:
    """The type with only those properties that are read."""
    return replace(scan.type, properties=tuple(p for p in scan.type.properties if p.name in scan.columns))


def has_blobs(scan: TableScan) -> bool:
    """Whether a scan reads blobs, whose bytes are not among those of its fragments."""
    return any(_find_column_type(scan.type, name) is Scalar.BLOB for name in scan.columns)


def _choose_batch_rows(scan: TableScan) -> int:
    """So many rows that a batch stays in the megabytes."""
    types = [_find_column_type(scan.type, name) for name in scan.columns]
    floats = sum(one.size for one in types if isinstance(one, VectorOf))
    return min(BATCH_ROWS, max(1, BATCH_FLOATS // floats)) if floats else BATCH_ROWS


def _find_column_type(type_: AnyType, name: str) -> ValueType:
    p = type_.find_property(name)
    return Scalar.STRING if p is None else p.type
