"""Read the rows of several types as one table: the concatenation of their tables, in the order of their names.

A position of the union is the base of a member, the number of positions before it, plus the position in the member's
table. So everything that works with positions of a table works with those of a union.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.predicate_eval import evaluate
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.tables.column_store import concat_chunks
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.query.expr import Const, Expr, Identity, Prop
from omnigraph.query.expr_tree import build_conjunction, find_variables, map_children, split_conjuncts, walk
from omnigraph.query.rules.constant_folding import is_truth
from omnigraph.query.rules.simplify import simplify
from omnigraph.query.union_types import ID_COLUMN, TYPE_COLUMN, unite_value_types
from omnigraph.schema.arrow import DST, ID, SRC, to_arrow_type
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import Scalar
from omnigraph.storage.arrow_buffers import build_array


class UnionReader(TableReader):
    """Read the rows of several types in one snapshot; its interface is that of a `TableReader`."""

    def __init__(self, type_: AnyType, members: Sequence[TableReader]) -> None:
        # The parent's constructor is for a table with columns of its own, which a union does not have.
        self.type = type_
        self.members = tuple(members)
        self.version = ("union", *(member.version for member in members))
        self.size = sum(member.size for member in members)
        self.count = sum(member.count for member in members)
        # Where each member begins, and where the last one ends.
        self.bases = np.cumsum([0, *(member.size for member in members)], dtype=np.int64)
        self._positions: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        return f"UnionReader({self.type.name})"

    # --- members ------------------------------------------------------------------------------------

    def find_member(self, type_name: str) -> int | None:
        """Return the number of a member, None if the type is none of them."""
        names = [member.type.name for member in self.members]
        return names.index(type_name) if type_name in names else None

    def split(self, at: Positions) -> Iterator[tuple[TableReader, NDArray[np.int64], Positions]]:
        """Yield the members that some positions belong to: the reader, the indices into `at`, the own positions."""
        numbers = np.searchsorted(self.bases, at, side="right") - 1
        for number, member in enumerate(self.members):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                yield member, rows, at[rows] - self.bases[number]

    def join_positions(self, find: Callable[[TableReader], Positions]) -> NDArray[np.int64]:
        """Return the positions that a function finds in each member, as positions of the union."""
        parts = [
            find(member).astype(np.int64, copy=False) + base
            for member, base in zip(self.members, self.bases, strict=False)
        ]
        return np.concatenate(parts)

    # --- columns ------------------------------------------------------------------------------------

    def get_positions(self) -> NDArray[np.int64]:
        """Return the positions of all live rows, ascending. The array is shared and read-only."""
        if self._positions is None:
            positions = self.join_positions(lambda member: member.get_positions())
            positions.flags.writeable = False
            self._positions = positions
        return self._positions

    def is_resident(self, column: str) -> bool:
        """Return whether the whole column is in memory now."""
        if column == TYPE_COLUMN:
            return True
        return all(member.is_resident(column) for member in self.members if _has_column(member.type, column))

    def preload(self, column: str, budget: Budget | None = None) -> None:
        """Load a column as a whole, as it is needed soon."""
        for member in self.members:
            if _has_column(member.type, column):
                member.preload(column, budget)

    def view_run(self, column: str, start: int, count: int) -> pa.Array | None:  # noqa: ARG002 - see the parent
        """Return None: the rows of several tables are never one column in memory."""
        return None

    def take_values(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """Return the values at these positions of live rows, in any order; null where a member has no such column."""
        type_ = self._find_arrow_type(column)
        parts: list[pa.Array] = []
        order = np.empty(len(at), np.int64)
        done = 0
        for member, rows, own in self.split(at):
            parts.append(_read_as(member, column, own, type_, budget))
            order[rows] = np.arange(done, done + len(rows))
            done += len(rows)
        values = concat_chunks(parts, type_)
        # Rows of a single member are already in order.
        return values if len(parts) < 2 else values.take(build_array(order))

    def load_column(self, column: str, budget: Budget | None = None) -> pa.Array:
        """Return the column by position, null for deleted rows."""
        type_ = self._find_arrow_type(column)
        parts = []
        for member in self.members:
            if column == TYPE_COLUMN:
                parts.append(pa.repeat(pa.scalar(member.type.name), member.size))
            elif _has_column(member.type, column):
                parts.append(_cast(member.load_column(column, budget), type_))
            else:
                parts.append(pa.nulls(member.size, type_))
        return concat_chunks(parts, type_)

    def load_numbers(
        self, column: str, budget: Budget | None = None
    ) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """Return a column as `TableReader.load_numbers` does; rows of members without it have no value."""
        dtype = self._find_arrow_type(column).to_pandas_dtype()
        loaded: list[tuple[NDArray[np.generic], NDArray[np.bool_] | None]] = []
        for member in self.members:
            if _has_column(member.type, column):
                values, mask = member.load_numbers(column, budget)
                loaded.append((values.astype(dtype, copy=False), mask))
            else:
                loaded.append((np.zeros(member.size, dtype), np.zeros(member.size, np.bool_)))
        numbers = np.concatenate([values for values, _ in loaded])
        if all(mask is None for _, mask in loaded):
            return numbers, None
        masks = [np.ones(len(values), np.bool_) if mask is None else mask for values, mask in loaded]
        return numbers, np.concatenate(masks)

    def load_codes(self, column: str, budget: Budget | None = None) -> tuple[NDArray[np.int32], pa.Array]:
        """Return a dictionary-encoded scalar column: codes by position, -1 for null, and the value of each code."""
        encoded = self.load_column(column, budget).dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return codes, encoded.dictionary

    def _find_arrow_type(self, column: str) -> pa.DataType:
        if column in (TYPE_COLUMN, ID, SRC, DST):
            return pa.utf8()
        declared = [member.type.find_property(column) for member in self.members]
        common = unite_value_types([prop.type for prop in declared if prop is not None])
        if common is None:
            raise KeyError(column)
        return to_arrow_type(common)

    # --- finding rows ---------------------------------------------------------------------------------

    def find_where(
        self, predicate: Expr, inputs: QueryInputs, within: Positions | None = None, budget: Budget | None = None
    ) -> NDArray[np.int64]:
        """Return the live rows, ascending, for which a predicate over this table alone is true.

        With `within`, which is ascending, return only rows of it.
        """
        parts = []
        for number, member in enumerate(self.members):
            base, end = self.bases[number], self.bases[number + 1]
            own: Positions | None = None
            if within is not None:
                own = within[np.searchsorted(within, base) : np.searchsorted(within, end)] - base
            parts.append(_find_in_member(member, predicate, inputs, own, budget) + base)
        return np.concatenate(parts)

    def find(self, ids: pa.Array | Sequence[str], budget: Budget | None = None) -> NDArray[np.int64]:
        """Refuse to find rows by id: an id does not say of which type it is, and the plans of unions never ask so.

        Raises:
            TypeError: Always.
        """
        del ids, budget
        msg = f"an id does not say of which of {[member.type.name for member in self.members]} it is: ask one of them"
        raise TypeError(msg)

    # --- estimates and access paths ---------------------------------------------------------------------

    def estimate(self, predicate: Expr, inputs: QueryInputs, budget: Budget | None = None) -> float:
        """Estimate the number of rows that satisfy a predicate."""
        total = 0.0
        for member in self.members:
            own = adapt_predicate(predicate, member.type)
            if not find_variables(own):
                total += 0 if is_truth(own, False) else member.count
            else:
                total += member.estimate(own, inputs, budget)
        return total

    def describe_access(self, predicate: Expr, inputs: QueryInputs) -> str:
        """Describe how rows that satisfy a predicate are found, for `explain`: each different way once."""
        return self._describe(predicate, lambda member, own: member.describe_access(own, inputs))

    def describe_current_access(self, predicate: Expr, inputs: QueryInputs) -> str:
        """Describe how `find_where` would find the rows now."""
        return self._describe(predicate, lambda member, own: member.describe_current_access(own, inputs))

    def _describe(self, predicate: Expr, describe: Callable[[TableReader, Expr], str]) -> str:
        ways = []
        for member in self.members:
            own = adapt_predicate(predicate, member.type)
            if find_variables(own):
                ways.append(describe(member, own))
            elif not is_truth(own, False):
                ways.append("every row")
        return " or ".join(dict.fromkeys(ways)) or "no row"


def adapt_predicate(predicate: Expr, member: AnyType) -> Expr:
    """Return a predicate of a union as one of a member: its type is known there, and its id is an identity.

    A property that the member does not have is null.
    """

    def change(expr: Expr) -> Expr:
        match expr:
            case Prop(name=name, variable=variable) if name == TYPE_COLUMN:
                return Const(value=member.name, type=Scalar.STRING, origin=expr.origin)
            case Prop(name=name, variable=variable) if name == ID_COLUMN:
                return Identity(variable=variable, origin=expr.origin)
            case Prop(name=name) if not _has_column(member, name):
                return Const(value=None, type=expr.type, origin=expr.origin)
            case _:
                return map_children(expr, change)

    names = {part.name for part in walk(predicate) if isinstance(part, Prop)}
    if not names & {TYPE_COLUMN, ID_COLUMN} and all(_has_column(member, name) for name in names):
        return predicate
    return simplify(change(predicate))


def _find_in_member(
    member: TableReader, predicate: Expr, inputs: QueryInputs, within: Positions | None, budget: Budget | None
) -> NDArray[np.int64]:
    if within is not None and not len(within):
        return np.zeros(0, np.int64)
    own = adapt_predicate(predicate, member.type)
    terms = [term for term in split_conjuncts(own) if find_variables(term)]
    for term in split_conjuncts(own):
        # A condition on the type alone is the same for all rows of a member.
        if not find_variables(term) and evaluate(term, _SINGLE_ROW, inputs)[0].as_py() is not True:
            return np.zeros(0, np.int64)
    if terms:
        return member.find_where(build_conjunction(terms), inputs, within, budget)
    rows = member.get_positions() if within is None else within
    return rows.astype(np.int64, copy=False)


# The rows of a condition that reads none: it is evaluated once.
_SINGLE_ROW = pa.table({"": [None]})


def _has_column(type_: AnyType, column: str) -> bool:
    return column in (ID, SRC, DST) or type_.find_property(column) is not None


def _read_as(member: TableReader, column: str, at: Positions, type_: pa.DataType, budget: Budget | None) -> pa.Array:
    if column == TYPE_COLUMN:
        return pa.repeat(pa.scalar(member.type.name), len(at))
    if not _has_column(member.type, column):
        return pa.nulls(len(at), type_)
    return _cast(member.take_values(column, at, budget), type_)


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    # Not checked: only whole numbers beyond 2^53 lose digits, where members mix integers and floats.
    return values if values.type == type_ else values.cast(type_, safe=False)
