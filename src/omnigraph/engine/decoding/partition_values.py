"""Values that the names of directories hold, as Hive and Spark write them: `year=2026/part-0.parquet`.

A value is text, as a cell of a CSV is. It belongs to all rows of the files below its directory, unless these have a
column of that name themselves.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decoding.csv_columns import decode_cell, decode_cells
from omnigraph.engine.decoding.json_columns import DecodedColumn
from omnigraph.engine.decoding.typed_source import RowSource
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import Scalar

_DIRECTORY = re.compile(r"(?P<name>[^=]+)=(?P<value>.*)", re.DOTALL)
# The name of the directory for rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def parse_partition(directory: str) -> tuple[str, str | None] | None:
    """Return the column and the value that the name of a directory holds, or None if it holds none."""
    match = _DIRECTORY.fullmatch(directory)
    if match is None:
        return None
    return unquote(match["name"]), None if match["value"] == _NULL else unquote(match["value"])


def list_columns(source: RowSource, columns: Sequence[str]) -> list[str]:
    """Return the columns of a file, then those that only the names of its directories hold."""
    return [*columns, *(name for name in source.partition if name not in columns)]


def decode_partition(p: Property, value: str | None, rows: int) -> DecodedColumn:
    """Return a column with the same value in all rows."""
    if value is None:
        return DecodedColumn(array=pa.nulls(rows, to_arrow_type(p.type)))
    cell = decode_cells(p, pa.array([value.encode()], pa.binary()))
    misfits = dict.fromkeys(range(rows), cell.misfits[0]) if cell.misfits else {}
    return DecodedColumn(array=cell.array.take(pa.array(np.zeros(rows, np.int64))), misfits=misfits)


def decode_partition_value(p: Property | None, value: str | None) -> object:
    """Return the JSON value of a directory's value if it has one, else its text. Without a property it is an id."""
    return None if value is None else decode_cell(p, value.encode())


def fill_partition(
    source: RowSource, targets: Mapping[str, str], columns: Mapping[str, DecodedColumn], rows: int
) -> dict[str, DecodedColumn]:
    """Return the columns of records, which take the directories' values where they leave a property out."""
    filled = dict(columns)
    for name, value in source.partition.items():
        target = targets[name]
        left_out = columns[target].left_out
        if left_out is None:
            continue
        p = source.type.find_property(target) or Property(name=target, type=Scalar.STRING, nullable=True)
        constant = decode_partition(p, value, rows)
        is_absent = left_out.to_numpy(zero_copy_only=False)
        misfits = {row: misfit for row, misfit in constant.misfits.items() if is_absent[row]}
        filled[target] = DecodedColumn(
            array=pc.if_else(left_out, constant.array, columns[target].array),
            misfits={**columns[target].misfits, **misfits},
        )
    return filled
