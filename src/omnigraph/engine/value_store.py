"""The values of variables that are bound to values: the bindings hold indices into these columns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.query_budget import Budget
from omnigraph.query.expr import ArrayOf, EdgeRef, ExprType, NodeRef, RecordOf, WalkOf
from omnigraph.query.expr_types import WALK_COST
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
        case WalkOf(fields=fields, cost=cost):
            costs = [] if cost is None else [(WALK_COST, to_arrow_type(cost))]
            return pa.struct([*((name, to_stored_type(field_type)) for name, field_type in fields), *costs])
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


class OverflowRows(Protocol):
    """A record of the rows in which a calculation overflowed."""

    def add(self, mask: NDArray[np.bool_] | None, text: str) -> None:
        """Add rows, and what overflowed in them."""


@dataclass(slots=True)
class _ValueColumn:
    """The values of one variable, as they were added, and the memory that was claimed for them."""

    chunks: list[pa.Array] = field(default_factory=list)
    size: int = 0
    nbytes: int = 0


@dataclass(slots=True)
class ValueStore:
    """The values of all value variables of one query run. They stay until the query ends.

    Blocks beside each other may bind variables of one name to values of different types.
    """

    _columns: dict[tuple[str, pa.DataType], _ValueColumn] = field(default_factory=dict)
    # The indices of values that are null because an integer overflowed, and what calculated them.
    _overflows: dict[str, list[tuple[NDArray[np.int64], str]]] = field(default_factory=dict)

    def append(self, variable: str, values: pa.Array, budget: Budget) -> NDArray[np.int64]:
        """Add values of a variable and return their indices, in order."""
        nbytes = values.nbytes + 8 * len(values)
        budget.claim(nbytes, f"the values of ${variable}")
        column = self._columns.setdefault((variable, values.type), _ValueColumn())
        column.nbytes += nbytes
        first = column.size
        column.chunks.append(values)
        column.size += len(values)
        return np.arange(first, column.size, dtype=np.int64)

    def mark_overflow(self, variable: str, indices: NDArray[np.int64], text: str) -> None:
        """Record that these values are null because the calculation `text` overflowed."""
        self._overflows.setdefault(variable, []).append((indices, text))

    def has_overflow(self, variable: str) -> bool:
        """Return whether any value of a variable overflowed."""
        return variable in self._overflows

    def log_overflow(self, variable: str, at: Positions, log: "OverflowRows") -> None:
        """Add the rows to `log` whose value, at these indices, overflowed."""
        for indices, text in self._overflows.get(variable, ()):
            log.add(np.isin(at, indices), text)

    def drop(self, variables: Iterable[str], budget: Budget) -> None:
        """Forget the values of variables that nothing reads any more."""
        ended = set(variables)
        for key in [key for key in self._columns if key[0] in ended]:
            budget.release(self._columns.pop(key).nbytes)

    def take(self, variable: str, at: Positions, type_: pa.DataType) -> pa.Array:
        """Return the values of a variable at indices; null at `NO_POSITION`."""
        column = self._columns.get((variable, type_)) or self._find_only(variable)
        if column is None or not column.size:
            return pa.nulls(len(at), type_)
        if len(column.chunks) > 1:
            # Joined once and kept, so that many small reads do not join them again.
            column.chunks = [concat_chunks(pa.chunked_array(column.chunks))]
        values = column.chunks[0].take(mask_missing(at))
        return values if values.type == type_ else values.cast(type_)

    def _find_only(self, variable: str) -> _ValueColumn | None:
        """Return the values of a variable whose type differs in its representation only."""
        columns = [column for (name, _), column in self._columns.items() if name == variable]
        return columns[0] if len(columns) == 1 else None


def evaluate_bound(at: Positions, evaluate: Callable[[Positions], pa.Array]) -> pa.Array:
    """Return what `evaluate` returns for positions, which it gets without missing ones; null for these."""
    if not len(at) or int(at.min()) >= 0:
        return evaluate(at)
    is_bound = at >= 0
    # Row numbers among those that were evaluated; null for the others.
    rows = np.where(is_bound, np.cumsum(is_bound) - 1, NO_POSITION)
    return evaluate(at[is_bound]).take(mask_missing(rows))


def mask_missing(at: Positions) -> pa.Array:
    """Return positions as an Arrow array that is null where there is no position."""
    is_missing = at < 0
    if not is_missing.any():
        return build_array(at.astype(np.int64, copy=False))
    return pa.array(at, pa.int64(), mask=is_missing)
