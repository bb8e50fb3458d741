"""The forms of a result: rows, frames of other libraries, JSON, files, an HTML table and a picture."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from omnigraph.engine.column_types import ColumnType, describe_columns
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


@dataclass(frozen=True, slots=True)
class Target:
    """The state that was queried: the newest of a branch, or that of one commit."""

    branch: str
    snapshot: str | None = None

    def to_json(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"branch": self.branch} if self.snapshot is None else {"snapshot": self.snapshot}


class ResultForms(ABC):
    """What can be made of rows, however they are held; see `Result`."""

    commit_id: str
    query_name: str
    notes: tuple[str, ...]
    total_rows: int | None
    target: Target

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns, as Arrow's fields."""

    @property
    @abstractmethod
    def row_count(self) -> int:
        """The number of rows."""

    @abstractmethod
    def batches(self, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `size`."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.schema.names)

    @property
    def types(self) -> tuple[ColumnType, ...]:
        """What each column has: values, whole nodes or edges, paths or lists, and of which type."""
        return describe_columns(self.schema)

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

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table."""
        return render_html(self)


def render_html(result: "ResultForms") -> str:
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
