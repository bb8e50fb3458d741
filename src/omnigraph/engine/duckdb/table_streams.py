"""Present a pinned table to DuckDB as Arrow streams that it may open any number of times, with only needed columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pa_dataset

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_progress import ProgressMeter
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.storage.lance_table import LanceTable, is_blob

# DuckDB reads one stream on one core, so larger tables are several; for fewer rows another stream does not pay off.
MIN_STREAM_ROWS = 250_000
# A batch of this size is some vectors of DuckDB, and one call into Python.
_BATCH_ROWS = 16_384
# Lance decodes a whole batch by its rows before it divides it by its bytes: so rows with texts or vectors are fewer.
_DECODED_BYTES = 2**24
_MIN_BATCH_ROWS = 64
# Files are compressed: texts have about so many times the bytes in memory.
_EXPANSION = 2
# What DuckDB gets at once. A function computes up to 2,048 values in a step, which nothing can stop, but no more than a
# batch has: of texts of a megabyte that would be 2 GB.
_BATCH_BYTES = 2**22
# What Lance may read and decode before DuckDB asks for it. Its default, 2 GB, made a scan of 6.6 million edges with a
# memory limit of 256 MiB take 840 MB.
_READ_AHEAD = 2
_IO_BYTES = 2**24


class ReadFailures:
    """Errors of our readers, which reach DuckDB as texts only."""

    def __init__(self) -> None:
        self._first: BaseException | None = None

    def add(self, error: BaseException) -> None:
        """Keep the first error: the others are its consequences."""
        self._first = self._first or error

    def raise_first(self) -> None:
        """Raise the first error, if there is one."""
        if self._first is not None:
            raise self._first


@dataclass(frozen=True, slots=True)
class ReadState:
    """What all streams of a query share."""

    budget: Budget
    failures: ReadFailures
    meter: ProgressMeter


class _BatchScanner:
    """What DuckDB reads a stream with. Not a scanner of pyarrow, whose threads read ahead, also after the request.

    A process that ended meanwhile hung or aborted, because such a thread still called Python.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        columns: Sequence[str],
        condition: Any,  # noqa: ANN401 - an expression of pyarrow
    ) -> None:
        self._batches = batches
        self._columns = list(columns)
        self._condition = condition
        self.projected_schema = pa.schema([schema.field(name) for name in columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader that evaluates the condition on each batch that is asked for."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._filter())

    def _filter(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            rows = pa.Table.from_batches([batch])
            if self._condition is not None:
                rows = rows.filter(self._condition)
            yield from rows.select(self._columns).to_batches()


class TableStream(pa_dataset.Dataset):  # type: ignore[misc] # pyarrow ships no types
    """Some fragments of a table. Every scan is a new reader: a self join reads a table twice.

    DuckDB recognises the class by its base, and calls `schema` and `scanner` only.
    """

    def __init__(self, table: LanceTable, fragments: Sequence[int], state: ReadState) -> None:
        # Not the constructor of the base, which has none to call: its methods are replaced.
        self._table = table
        self._fragments = fragments
        self._state = state
        self._schema = pa.schema([pa.field(f.name, f.type, f.nullable) for f in table.schema if not is_blob(f)])

    @property
    def schema(self) -> pa.Schema:
        """The columns without blobs, which would have to be read whole."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: ANN401 - an expression of pyarrow
        **_: object,
    ) -> "_BatchScanner":
        """Return a scanner of these columns of the rows that pass the filter, which Arrow evaluates exactly."""
        names = self._schema.names if columns is None else list(columns)
        # DuckDB leaves out columns that only the filter reads. Its text has their names: a column too many is harmless.
        condition = "" if filter is None else str(filter)
        read = pa.schema([field for field in self._schema if field.name in names or field.name in condition])
        return _BatchScanner(read, self._iter_batches(read), names, filter)

    def _iter_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._read_batches(schema):
                self._state.budget.check()
                yield batch
        except GeneratorExit:
            raise
        except BaseException as error:
            self._state.failures.add(error)
            raise

    def _read_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in iter_small_batches(self._table, schema.names, self._fragments):
            self._state.meter.add(batch.num_rows)
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)


def iter_small_batches(
    table: LanceTable, columns: Sequence[str], fragments: Sequence[int], *, with_address: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some fragments in batches of a few megabytes, and hold few of them, however long texts are."""
    return table.iter_batches(
        columns,
        batch_rows=_choose_batch_rows(table, columns),
        batch_bytes=_BATCH_BYTES,
        ahead=_READ_AHEAD,
        io_bytes=_IO_BYTES,
        fragments=fragments,
        with_address=with_address,
    )


def _choose_batch_rows(table: LanceTable, columns: Sequence[str]) -> int:
    """Return how many rows are decoded at once, by the size of the files: it is known of whole rows only."""
    types = (table.schema.field(column).type for column in columns if column not in (ID, SRC, DST))
    if all(pa.types.is_primitive(type_) for type_ in types):
        return _BATCH_ROWS
    fragments = table.list_fragments()
    nbytes = sum(fragment.nbytes for fragment in fragments)
    rows = max(sum(fragment.rows for fragment in fragments), 1)
    fitting = _DECODED_BYTES * rows // max(nbytes * _EXPANSION, 1)
    return min(max(fitting, _MIN_BATCH_ROWS), _BATCH_ROWS)


def split_table(table: LanceTable, count: int, state: ReadState, min_rows: int = MIN_STREAM_ROWS) -> list[TableStream]:
    """Return a table as up to `count` streams with similar numbers of rows, in the order of its rows."""
    state.meter.expect(table.count())
    return [TableStream(table, numbers, state) for numbers in group_fragments(table, count, min_rows)]


def group_fragments(table: LanceTable, count: int, min_rows: int) -> list[list[int]]:
    """Return the numbers of a table's fragments in up to `count` groups with similar numbers of rows, in order."""
    fragments = table.list_fragments()
    rows = sum(fragment.rows - fragment.deleted for fragment in fragments)
    size = max(min_rows, -(-rows // count))
    groups: list[list[int]] = [[]]
    filled = 0
    for fragment in fragments:
        if filled >= size:
            groups.append([])
            filled = 0
        groups[-1].append(fragment.number)
        filled += fragment.rows - fragment.deleted
    return groups
