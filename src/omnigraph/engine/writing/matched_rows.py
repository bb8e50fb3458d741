"""The rows of a match that drives statements: ids of variables, and values to store, as columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import normalize_zeros
from omnigraph.engine.constraints.violations import format_ids, quote_value
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.writing.blobs import REFERENCE
from omnigraph.engine.writing.write_buffer import PendingTable
from omnigraph.errors import QueryError
from omnigraph.query.expr import Const, Expr, Now, ParamRef, ValueRef
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.mutation_plan import Assign, EndValue
from omnigraph.schema.types import Scalar
from omnigraph.storage.columnar_sets import Positions, are_equal, concat_chunks, find_positions, repeat_scalar

# An error names this many rows that would get two values.
_MAX_NAMED_ROWS = 3


@dataclass(slots=True)
class MatchedRows:
    """The answer of a match, and the ids of the rows that inserts have named, by variable.

    Before the first match it is one row without columns. A named row of a statement before the match is the same for
    all rows.
    """

    rows: pa.Table
    read: ReadQuery | None = None
    named: dict[str, pa.Array] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.rows.num_rows)

    def get_ids(self, variable: str) -> pa.Array:
        """Return the id of a variable in each row."""
        ids = self.named.get(variable)
        if ids is None:
            return concat_chunks(self.rows.column(variable))
        return ids if len(ids) == self.size else repeat_scalar(ids[0], self.size)

    def get_values(self, variable: str) -> pa.Array:
        """Return a column of the match."""
        return concat_chunks(self.rows.column(variable))

    def compute_column(self, assign: Assign, table: PendingTable, inputs: QueryInputs) -> pa.Array:
        """Return the value of an assignment in every row, in the form that pending rows have.

        Raises:
            QueryError: A value does not fit the type, or is null although the property is required.
        """
        prop = table.type.by_name[assign.property]
        type_ = table.schema.field(prop.name).type
        value = assign.value
        if not isinstance(value, ValueRef):
            assert isinstance(value, Const | ParamRef | Now)  # noqa: S101 - a plan has no other values after a match
            plain = inputs.resolve(value)
            if plain is not None and prop.type is Scalar.BLOB:
                return repeat_scalar(pa.scalar(table.blob_values.add(str(plain)), REFERENCE), self.size)
            return repeat_scalar(pa.scalar(plain, type_), self.size)
        values = self.get_values(value.variable)
        if values.null_count and not prop.nullable:
            raise QueryError.value_missing(self._format(value), prop.name)
        if prop.type is Scalar.BLOB:
            return _add_blobs(values, table)
        try:
            return values if values.type == type_ else values.cast(type_)
        except pa.ArrowInvalid as error:
            raise QueryError.value_out_of_range(self._format(value), prop.name, str(prop.type)) from error

    def compute_end(self, end: EndValue, name: str, inputs: QueryInputs) -> pa.Array:
        """Return the id at an end of an edge in every row.

        Raises:
            QueryError: There is none in a row.
        """
        if isinstance(end, Const | ParamRef | Now):
            return repeat_scalar(pa.scalar(inputs.resolve(end), pa.string()), self.size)
        ids = self.get_values(end.variable) if isinstance(end, ValueRef) else self.get_ids(end.variable)
        if ids.null_count:
            raise QueryError.value_missing(self._format(end), name)
        return ids

    def _format(self, value: Expr) -> str:
        """Format a value as it was written: a column of the match as the expression that computes it."""
        columns = {} if self.read is None else {column.name: column.value for column in self.read.output}
        return format_expr(columns.get(value.variable, value) if isinstance(value, ValueRef) else value)


def merge_writes(
    type_name: str, ids: pa.Array, columns: Mapping[str, pa.Array], compared: Sequence[str]
) -> tuple[pa.Array, Positions]:
    """Return the distinct ids that a statement writes, and the first row of each.

    Raises:
        QueryError: Two rows would write different values for one property of one id.
    """
    distinct = ids.unique()
    if len(distinct) == len(ids):
        return distinct, np.arange(len(ids), dtype=np.int64)
    groups = find_positions(ids, distinct)
    # Assigned backwards, so that the first row of each id stays.
    first = np.empty(len(distinct), np.int64)
    first[groups[::-1]] = np.arange(len(ids) - 1, -1, -1)
    for name in compared:
        values = concat_chunks(normalize_zeros(pa.table({name: _to_comparable(columns[name])})).column(0))
        differs = ~are_equal(values, values.take(pa.array(first[groups])))
        if differs.any():
            _raise_two_values(type_name, name, ids, values, first[groups], np.flatnonzero(differs))
    return distinct, first


def _raise_two_values(
    type_name: str, name: str, ids: pa.Array, values: pa.Array, first: Positions, differing: Positions
) -> None:
    row = int(differing[0])
    clashing = ids.take(pa.array(differing)).unique()
    others = clashing.slice(1, _MAX_NAMED_ROWS).to_pylist()
    pair = (quote_value(values[int(first[row])].as_py()), quote_value(values[row].as_py()))
    rest = len(clashing) - 1 - len(others)
    more = f"; so would {format_ids(others)}" if others else ""
    raise QueryError.two_values(
        f"{type_name}.{name}", quote_value(ids[row].as_py()), *pair, more + (f" and {rest:,} more" if rest else "")
    )


def _to_comparable(column: pa.Array) -> pa.Array:
    # A reference to a blob is compared by the number of its value, which is the same for equal texts.
    return pc.struct_field(column, "given") if column.type == REFERENCE else column


def _add_blobs(texts: pa.Array, table: PendingTable) -> pa.Array:
    """Return references to blobs given as texts; each distinct text is read once."""
    distinct = texts.unique().drop_null()
    references = pa.array([table.blob_values.add(text) for text in distinct.to_pylist()], REFERENCE)
    positions = find_positions(texts, distinct)
    return references.take(pa.array(positions, pa.int64(), mask=positions < 0))
