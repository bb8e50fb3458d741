"""The values of variables that are bound to values: the bindings hold indices into these columns."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.query_budget import Budget
from omnigraph.query.expr import ArrayOf, EdgeRef, ExprType, NodeRef, RecordOf
from omnigraph.query.record_params import RecordRows
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.storage.arrow_buffers import build_array
from omnigraph.storage.columnar_sets import concat_chunks

# The position of a variable that has no row or value, as an optional block without a match leaves it.
NO_POSITION = -1


def to_stored_type(type_: ExprType) -> pa.DataType:
    """Return the Arrow type of values in the store: a whole node or edge is its position, in lists and records too."""
    match type_:
        case NodeRef() | EdgeRef():
            return pa.int64()
        case ArrayOf(element=element):
            return pa.list_(to_stored_type(element))
        case RecordOf(fields=fields):
            return pa.struct([(name, to_stored_type(field_type)) for name, field_type in fields])
        case _:
            return to_arrow_type(type_)


def read_records(rows: RecordRows | None, type_: ArrayOf) -> pa.Scalar:
    """Return the value of a parameter that is a list of records; null for None."""
    stored = to_stored_type(type_)
    if rows is None:
        return pa.scalar(None, stored)
    fields = list(stored.value_type)
    columns = [pa.array(column, field.type) for column, field in zip(rows.columns, fields, strict=True)]
    records = pa.StructArray.from_arrays(columns, fields=fields)
    # A list of one row, because Arrow builds no list scalar from an array.
    return pa.ListArray.from_arrays(pa.array([0, rows.size], pa.int32()), records)[0]


@dataclass(slots=True)
class _ValueColumn:
    """The values of one variable, as they were added, and the memory that was claimed for them."""

    chunks: list[pa.Array] = field(default_factory=list)
    size: int = 0
    nbytes: int = 0


@dataclass(slots=True)
class ValueStore:
    """The values of all value variables of one query run. They stay until the query ends."""

    _columns: dict[str, _ValueColumn] = field(default_factory=dict)

    def append(self, variable: str, values: pa.Array, budget: Budget) -> NDArray[np.int64]:
        """Add values of a variable and return their indices, in order."""
        nbytes = values.nbytes + 8 * len(values)
        budget.claim(nbytes, f"the values of ${variable}")
        column = self._columns.setdefault(variable, _ValueColumn())
        column.nbytes += nbytes
        first = column.size
        column.chunks.append(values)
        column.size += len(values)
        return np.arange(first, column.size, dtype=np.int64)

    def drop(self, variables: Iterable[str], budget: Budget) -> None:
        """Forget the values of variables that nothing reads any more."""
        for variable in variables:
            column = self._columns.pop(variable, None)
            budget.release(0 if column is None else column.nbytes)

    def take(self, variable: str, at: Positions, type_: pa.DataType) -> pa.Array:
        """Return the values of a variable at indices; null at `NO_POSITION`."""
        column = self._columns.get(variable)
        if column is None or not column.size:
            return pa.nulls(len(at), type_)
        if len(column.chunks) > 1:
            # Joined once and kept, so that many small reads do not join them again.
            column.chunks = [concat_chunks(pa.chunked_array(column.chunks))]
        return column.chunks[0].take(mask_missing(at))


def mask_missing(at: Positions) -> pa.Array:
    """Return positions as an Arrow array that is null where there is no position."""
    is_missing = at < 0
    if not is_missing.any():
        return build_array(at.astype(np.int64, copy=False))
    return pa.array(at, pa.int64(), mask=is_missing)
