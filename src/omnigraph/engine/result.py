"""What a query answers: its rows, fetched when they are asked for, of the one snapshot that it read."""

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import pyarrow as pa

from omnigraph.engine.output.result_pipeline import ResultFrame
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result_files import ResultFormat, build_json_objects, open_output, resolve_format, write_batches
from omnigraph.errors import Kind, OmnigraphError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

MAX_ROWS = 20
MAX_CHARACTERS = 200


class HtmlSource(Protocol):
    """What is needed of a result."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def row_count(self) -> int:
        """How many rows there are."""

    def json_rows(self, size: int = ...) -> Iterator[Mapping[str, object]]:
        """Each row as an object of JSON values, fetched `size` at a time."""


def render_html(result: HtmlSource) -> str:
    """The first rows as HTML, and how many there are; only these are fetched, and long values are cut."""
    head = "".join(f"<th>{escape(name)}</th>" for name in result.columns)
    first = list(islice(result.json_rows(MAX_ROWS), MAX_ROWS))
    body = "".join(f"<tr>{''.join(_render_cell(row[name]) for name in result.columns)}</tr>" for row in first)
    count = f"{result.row_count:,} {'row' if result.row_count == 1 else 'rows'}"
    told = count if len(first) == result.row_count else f"the first {len(first)} of {count}"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{told}</p>"


def _render_cell(value: object) -> str:
    text = "null" if value is None else str(value)
    clipped = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return f"<td>{escape(clipped)}</td>"


BATCH_ROWS = 8_192


class LibraryMissingError(OmnigraphError):
    """A result is asked for in the form of a library that is not installed."""

    kind = Kind.USAGE
    code = "library_missing"

    def __init__(self, library: str) -> None:
        super().__init__(library)
        self.library = library

    def __str__(self) -> str:
        return f"this needs {self.library}, which is not installed: `pip install {self.library}`"


@dataclass(frozen=True, slots=True)
class Target:
    """What was asked: a branch's newest state, or one commit's."""

    branch: str
    snapshot: str | None = None

    def to_json(self) -> dict[str, str]:
        """What every door shows."""
        return {"branch": self.branch} if self.snapshot is None else {"snapshot": self.snapshot}


class Result:
    """The rows of a query. Safe from several threads.

    All forms show the same rows in the same order. `batches` never holds more than a batch of them; the other forms
    hold all of them, once. Pickling it fetches all of them, and the copy holds them.
    """

    def __init__(self, answer: ResultFrame, *, commit_id: str, target: Target) -> None:
        self._answer: ResultFrame | None = answer
        self._schema, self._size = answer.schema, answer.size
        self._lock = threading.Lock()
        self._table: pa.Table | None = None
        self.commit_id = commit_id
        """The commit whose state was read."""
        self.target = target
        self.query_name = answer.query.name

    @classmethod
    def of_table(cls, table: pa.Table, *, commit_id: str, target: Target, query_name: str) -> "Result":
        """A result that holds all of its rows, of a statement that was run elsewhere."""
        found = cls.__new__(cls)
        found.__setstate__({"_answer": None, "_table": table, "_schema": table.schema, "_size": table.num_rows})
        found.commit_id, found.target, found.query_name = commit_id, target, query_name
        return found

    def __getstate__(self) -> dict[str, object]:
        kept = {name: value for name, value in vars(self).items() if name != "_lock"}
        return {**kept, "_answer": None, "_table": self.to_arrow()}

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
    def row_count(self) -> int:
        """How many rows there are."""
        return self._size

    def batches(self, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows, at most `size` at once: each batch is fetched when it is its turn, and not kept."""
        if size < 1:
            msg = f"a batch has at least one row, not {size}"
            raise ValueError(msg)
        if self._table is not None or self._answer is None:
            yield from self.to_arrow().to_batches(max_chunksize=size)
            return
        for start in range(0, self.row_count, size):
            yield self._answer.fetch(start, start + size)

    def part(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows from `start` to before `stop`, as far as there are any: only they are fetched."""
        if self._table is not None or self._answer is None:
            found = self.to_arrow().slice(start, max(0, stop - start)).combine_chunks().to_batches()
            return found[0] if found else pa.RecordBatch.from_pylist([], schema=self.schema)
        return self._answer.fetch(min(start, self.row_count), max(start, min(stop, self.row_count)))

    def to_arrow(self) -> pa.Table:
        """All rows, as Arrow's table. A node or edge is a struct; DateTime is in microseconds, UTC."""
        with self._lock:
            if self._table is None:
                assert self._answer is not None  # noqa: S101 - a copy has its table
                self._table = _fetch_all(self, self._answer.frame.context.budget)
            return self._table

    def to_pandas(self) -> "pd.DataFrame":
        """All rows, as a data frame. Integers and Bool have pandas' nullable types, so null never makes them floats.

        Raises:
            LibraryMissingError: pandas is not installed.
        """
        try:
            import pandas  # noqa: PLC0415, ICN001 - it is optional, and large
        except ImportError as error:
            raise LibraryMissingError("pandas") from error
        nullable = {
            pa.bool_(): pandas.BooleanDtype(),
            pa.int32(): pandas.Int32Dtype(),
            pa.int64(): pandas.Int64Dtype(),
            pa.uint32(): pandas.UInt32Dtype(),
            pa.uint64(): pandas.UInt64Dtype(),
        }
        return self.to_arrow().to_pandas(types_mapper=nullable.get)

    def to_polars(self) -> "pl.DataFrame":
        """All rows, as a data frame.

        Raises:
            LibraryMissingError: polars is not installed.
        """
        try:
            import polars  # noqa: PLC0415, ICN001 - it is optional, and large
        except ImportError as error:
            raise LibraryMissingError("polars") from error
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)  # noqa: S101 - of a table
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """All rows, as dicts of Python's values: a DateTime is an aware datetime, a node or edge a dict, null None."""
        found: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return found

    def to_json(self) -> dict[str, object]:
        """The whole result as a JSON document: see `json_rows` for the values."""
        return {
            "query_name": self.query_name,
            "target": self.target.to_json(),
            "commit_id": self.commit_id,
            "row_count": self.row_count,
            "columns": list(self.columns),
            "rows": list(self.json_rows()),
        }

    def json_rows(self, size: int = BATCH_ROWS) -> Iterator[Mapping[str, object]]:
        """Each row as an object of JSON values, fetched `size` at a time.

        Nulls are there. An integer beyond ±(2^53 - 1) is a string, a DateTime a text that ends with `Z`.
        """
        for batch in self.batches(size):
            yield from build_json_objects(self.schema, batch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row as `rows` has it, fetched a batch at a time."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def __len__(self) -> int:
        """How many rows there are."""
        return self.row_count

    def __bool__(self) -> bool:
        """Always true: a result without rows is a result."""
        return True

    def write(self, out: BinaryIO | str | os.PathLike[str], format: ResultFormat | str) -> None:
        """Write all rows to a path, or to a file or stream for bytes, which is left open; never all held at once.

        Raises:
            ResultFormatError: There is no such format.
        """
        chosen = resolve_format(format)
        with open_output(out) as file:
            write_batches(self.schema, self.batches(), chosen, file)


def _fetch_all(result: Result, budget: Budget) -> pa.Table:
    """All rows of a result, within its budget."""
    found, claimed = [], 0
    try:
        for batch in result.batches():
            nbytes = batch.nbytes
            budget.claim(nbytes, f"the result of {result.row_count:,} rows")
            claimed += nbytes
            found.append(batch)
    finally:
        budget.release(claimed)
    whole = pa.Table.from_batches(found, schema=result.schema)
    return whole if len(found) < 2 else whole.combine_chunks()
