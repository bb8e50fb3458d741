"""The result of a query: rows of the one snapshot that it read, fetched when they are needed."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.column_types import ColumnType, describe_columns
from omnigraph.engine.output.result_pipeline import ResultFrame
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result_files import ResultFormat, build_json_objects, open_output, resolve_format, write_batches
from omnigraph.errors import LibraryMissingError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# Limits of the HTML form: the rows of the table, and the characters of a cell.
MAX_ROWS = 20
MAX_CHARACTERS = 200
# The default number of rows per batch.
BATCH_ROWS = 8_192
# The largest batch when all rows are fetched, in rows and in bytes.
MAX_FETCH_ROWS = 131_072
_FETCH_BYTES = 4 * 1024 * 1024


class HtmlSource(Protocol):
    """The part of a result that `render_html` reads."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def row_count(self) -> int:
        """The number of rows."""

    def json_rows(self, size: int = ...) -> Iterator[Mapping[str, object]]:
        """Yield each row as an object of JSON values, fetched `size` at a time."""


def render_html(result: HtmlSource) -> str:
    """Return the first rows as an HTML table, with the number of rows; long values are cut, other rows not fetched."""
    head = "".join(f"<th>{escape(name)}</th>" for name in result.columns)
    first = list(islice(result.json_rows(MAX_ROWS), MAX_ROWS))
    body = "".join(_render_row(row, result.columns) for row in first)
    count = f"{result.row_count:,} {'row' if result.row_count == 1 else 'rows'}"
    caption = count if len(first) == result.row_count else f"the first {len(first)} of {count}"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{caption}</p>"


def _render_row(row: Mapping[str, object], columns: tuple[str, ...]) -> str:
    return f"<tr>{''.join(_render_cell(row[name]) for name in columns)}</tr>"


def _render_cell(value: object) -> str:
    text = "null" if value is None else str(value)
    clipped = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return f"<td>{escape(clipped)}</td>"


@dataclass(frozen=True, slots=True)
class Target:
    """The state that was queried: the newest of a branch, or that of one commit."""

    branch: str
    snapshot: str | None = None

    def to_json(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"branch": self.branch} if self.snapshot is None else {"snapshot": self.snapshot}


class Result:
    """The rows of a query. Thread-safe.

    All forms have the same rows in the same order. `batches` holds one batch in memory at a time; the other forms hold
    all rows, once. Pickling fetches all rows, and the copy holds them.
    """

    def __init__(self, frame: ResultFrame, *, commit_id: str, target: Target) -> None:
        self._frame: ResultFrame | None = frame
        self._schema = frame.schema
        self._size = frame.size
        self._lock = threading.Lock()
        self._table: pa.Table | None = None
        self.commit_id = commit_id
        """The commit whose state was read."""
        self.target = target
        self.query_name = frame.query.name
        self.notes = frame.notes
        """What to know about the rows: a traversal that its upper bound cut off. Usually empty."""
        self.total_rows: int | None = None
        """The number of all rows, if these are a window of them."""

    @classmethod
    def of_table(
        cls,
        table: pa.Table,
        *,
        commit_id: str,
        target: Target,
        query_name: str,
        notes: tuple[str, ...] = (),
        total_rows: int | None = None,
    ) -> "Result":
        """Return a result that holds all of its rows, of a statement that was run elsewhere."""
        result = cls.__new__(cls)
        result.__setstate__({"_frame": None, "_table": table, "_schema": table.schema, "_size": table.num_rows})
        result.commit_id = commit_id
        result.target = target
        result.query_name = query_name
        result.notes = notes
        result.total_rows = total_rows
        return result

    def with_budget(self, budget: Budget) -> "Result":
        """Return the same rows, to be fetched within another budget."""
        other = Result.__new__(Result)
        frame = None if self._frame is None else self._frame.with_budget(budget)
        other.__setstate__({name: value for name, value in vars(self).items() if name != "_lock"} | {"_frame": frame})
        return other

    def __getstate__(self) -> dict[str, object]:
        # Neither the lock nor the frame, which refers to open tables, can be pickled.
        state = {name: value for name, value in vars(self).items() if name != "_lock"}
        return {**state, "_frame": None, "_table": self.to_arrow()}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"Result({self.query_name!r}, {self.row_count} rows, columns {', '.join(self.columns)})"

    _repr_html_ = render_html

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow's fields."""
        return self._schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self._schema.names)

    @property
    def types(self) -> tuple[ColumnType, ...]:
        """What each column has: values, whole nodes or edges, paths or lists, and of which type."""
        return describe_columns(self._schema)

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._size

    def batches(self, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `size`; each is fetched when it is needed, and not kept in memory."""
        if size < 1:
            msg = f"a batch has at least one row, not {size}"
            raise ValueError(msg)
        if self._table is not None or self._frame is None:
            yield from self.to_arrow().to_batches(max_chunksize=size)
            return
        for start in range(0, self.row_count, size):
            yield self._frame.fetch(start, start + size)

    def part(self, start: int, stop: int) -> pa.RecordBatch:
        """Return the rows from `start` to before `stop`, or fewer at the end; only these are fetched."""
        if self._table is not None or self._frame is None:
            batches = self.to_arrow().slice(start, max(0, stop - start)).combine_chunks().to_batches()
            return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=self.schema)
        return self._frame.fetch(min(start, self.row_count), max(start, min(stop, self.row_count)))

    def take(self, rows: NDArray[np.int64]) -> pa.RecordBatch:
        """Return the rows with these numbers, in this order; only these are fetched."""
        if self._table is not None or self._frame is None:
            table = self.to_arrow().take(pa.array(rows)).combine_chunks()
            batches = table.to_batches()
            return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=self.schema)
        return self._frame.take(rows)

    def read_columns(self, names: Sequence[str]) -> pa.Table:
        """Return some columns of all rows; the others are not fetched."""
        if self._table is not None or self._frame is None:
            return self.to_arrow().select(names)
        return self._frame.read_columns(names)

    @property
    def nbytes(self) -> int:
        """What the result holds in memory: all of its rows, or where they are."""
        if self._table is not None or self._frame is None:
            return int(self.to_arrow().nbytes)
        return self._frame.nbytes

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table. A node or edge is a struct; DateTime is in microseconds, UTC."""
        with self._lock:
            if self._table is None:
                assert self._frame is not None  # noqa: S101 - a copy has its table
                self._table = _fetch_all(self, self._frame.frame.context.budget)
            return self._table

    def to_pandas(self) -> "pd.DataFrame":
        """Return all rows as a pandas data frame, with nullable types for integers and Bool.

        Raises:
            LibraryMissingError: pandas is not installed.
        """
        try:
            import pandas  # noqa: PLC0415, ICN001 - it is optional, and large
        except ImportError as error:
            raise LibraryMissingError("pandas") from error
        # pandas' default types turn a column of integers with a null into floats.
        nullable = {
            pa.bool_(): pandas.BooleanDtype(),
            pa.int32(): pandas.Int32Dtype(),
            pa.int64(): pandas.Int64Dtype(),
            pa.uint32(): pandas.UInt32Dtype(),
            pa.uint64(): pandas.UInt64Dtype(),
        }
        return self.to_arrow().to_pandas(types_mapper=nullable.get)

    def to_polars(self) -> "pl.DataFrame":
        """Return all rows as a polars data frame.

        Raises:
            LibraryMissingError: polars is not installed.
        """
        try:
            import polars  # noqa: PLC0415, ICN001 - it is optional, and large
        except ImportError as error:
            raise LibraryMissingError("polars") from error
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)  # noqa: S101 - only an array would become a series
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows as dicts: a DateTime is an aware datetime, a node or edge a dict, null None."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_json(self) -> dict[str, object]:
        """Return the whole result as a JSON document; see `json_rows` for the values. `notes` only if there are any."""
        document: dict[str, object] = {
            "query_name": self.query_name,
            "target": self.target.to_json(),
            "commit_id": self.commit_id,
            "row_count": self.row_count,
            "columns": list(self.columns),
            "types": [column.to_json() for column in self.types],
        }
        if self.total_rows is not None:
            document["total_rows"] = self.total_rows
        if self.notes:
            document["notes"] = list(self.notes)
        document["rows"] = list(self.json_rows())
        return document

    def json_rows(self, size: int = BATCH_ROWS) -> Iterator[Mapping[str, object]]:
        """Yield each row as an object of JSON values, fetched `size` at a time.

        Nulls are included. An integer beyond ±(2^53 - 1) is a string, a DateTime a text that ends with `Z`.
        """
        for batch in self.batches(size):
            yield from build_json_objects(self.schema, batch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each row as in `rows`, fetched a batch at a time."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.row_count

    def __bool__(self) -> bool:
        """Return true: a result without rows is a result."""
        return True

    def write(self, out: BinaryIO | str | os.PathLike[str], format: ResultFormat | str) -> None:
        """Write all rows to a path, or to a binary file or stream, which is left open; rows are fetched in batches.

        Raises:
            ResultFormatError: The format is unknown.
        """
        resolved = resolve_format(format)
        with open_output(out) as file:
            write_batches(self.schema, self.batches(), resolved, file)


def _fetch_all(result: Result, budget: Budget) -> pa.Table:
    """Return all rows of a result, within its budget."""
    batches = []
    claimed = 0
    start = 0
    size = BATCH_ROWS
    try:
        while start < result.row_count:
            batch = result.part(start, start + size)
            nbytes = batch.nbytes
            budget.claim(nbytes, f"the result of {result.row_count:,} rows")
            claimed += nbytes
            batches.append(batch)
            start += size
            # A batch costs about 0.4 ms beside its rows: narrow rows come in larger ones, of a bounded size.
            size = max(BATCH_ROWS, min(MAX_FETCH_ROWS, _FETCH_BYTES * batch.num_rows // max(nbytes, 1)))
    finally:
        # Only the fetch counts against the budget; the complete table is the caller's.
        budget.release(claimed)
    table = pa.Table.from_batches(batches, schema=result.schema)
    return table if len(batches) < 2 else table.combine_chunks()
