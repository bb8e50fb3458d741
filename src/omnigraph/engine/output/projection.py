"""Evaluate expressions over the rows of a result: output columns are read last, and only for these rows."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.column_types import add_shape
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.union_edges import unite_positions
from omnigraph.engine.output.materialise import (
    build_entity_fields,
    build_output_field,
    list_entity_properties,
    materialise,
)
from omnigraph.engine.physical_plan import get_type_name
from omnigraph.engine.predicate_eval import Column, VariableValue, evaluate_over
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.engine.search.ranking import score_rows
from omnigraph.engine.search.search_values import evaluate_search_value
from omnigraph.engine.search.text_match import evaluate_text_match
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.value_store import evaluate_bound, mask_missing, to_stored_type
from omnigraph.query.expr import (
    Aggregate,
    Bm25,
    Compare,
    Const,
    Entity,
    Expr,
    Identity,
    MetaColumn,
    Mmr,
    Nearest,
    Now,
    Op,
    ParamRef,
    Prop,
    Rank,
    Rerank,
    Rrf,
    SearchValue,
    ShapedType,
    TextMatch,
    ValueRef,
    Window,
)
from omnigraph.query.expr_tree import find_variable, find_variables
from omnigraph.query.logical_plan import OutputColumn, ReadQuery
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import BASE64_PREFIX
from omnigraph.storage.arrow_buffers import build_array, repeat_value
from omnigraph.storage.columnar_sets import concat_chunks

# Row numbers within a frame, in any order; they may repeat.
Rows: TypeAlias = NDArray[np.int64]
Constant: TypeAlias = Const | ParamRef | Now


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of a result before projection: matches, or one match per group with its aggregates."""

    bindings: Bindings
    types: Mapping[str, str]
    """The type of each variable."""
    context: ExecutionContext
    aggregates: Mapping[Aggregate | Window, pa.Array] = field(default_factory=dict)
    """The values of aggregates, or of window functions, which have one in every row."""
    scores: Mapping[Rank, "ScoreColumn"] = field(default_factory=dict)
    """Scores that were already computed, by rank."""
    is_merged: bool = False
    """Whether a row may represent several equal rows."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.bindings.size

    def take(self, rows: Rows) -> "Frame":
        """Return a frame of these rows."""
        at = build_array(rows) if self.aggregates else None
        aggregates = {aggregate: values.take(at) for aggregate, values in self.aggregates.items()}
        bindings = self.bindings.take(rows)
        return Frame(bindings, self.types, self.context, aggregates, self.scores, self.is_merged)

    def slice(self, start: int, stop: int) -> "Frame":
        """Return the rows from `start` to before `stop`."""
        columns = {name: positions[start:stop] for name, positions in self.bindings.columns.items()}
        size = max(0, min(stop, self.size) - start)
        aggregates = {aggregate: values.slice(start, size) for aggregate, values in self.aggregates.items()}
        return replace(self, bindings=Bindings(columns, size), aggregates=aggregates)

    def get_table(self, variable: str) -> TableReader:
        """Return the reader of a variable's table."""
        return self.context.get_reader(self.types[variable])

    def get_positions(self, variable: str, rows: Rows | None = None) -> Rows:
        """Return the positions of a variable in its table."""
        positions = self.bindings.columns[variable]
        return (positions if rows is None else positions[rows]).astype(np.int64, copy=False)

    def evaluate_constant(self, expr: Constant) -> pa.Scalar:
        """Return the value of an expression that is the same in every row."""
        value = self.context.inputs.resolve(expr)
        if expr.type is Scalar.BLOB and isinstance(value, str) and value.startswith(BASE64_PREFIX):
            # Blobs in parameters and literals are text with a prefix; the result has their bytes.
            value = base64.b64decode(value[len(BASE64_PREFIX) :])
        return pa.scalar(value, to_arrow_type(expr.type))

    def evaluate(self, expr: Expr, rows: Rows | None = None) -> pa.Array:
        """Evaluate an expression in these rows, or in all; whole nodes and edges become objects, also in lists."""
        if isinstance(expr.type, ShapedType) and not isinstance(expr, Entity):
            return materialise(self.evaluate_stored(expr, rows), expr.type, self.context, nullable=expr.nullable)
        match expr:
            case Const() | ParamRef() | Now():
                return repeat_value(self.evaluate_constant(expr), self.size if rows is None else len(rows))
            case Prop():
                values = self._read_column(expr.variable, expr.name, to_arrow_type(expr.type), rows)
                # 0.0 and -0.0 are merged as equal: without this, it would depend on the plan which of them is shown.
                return normalize_zeros(values) if self.is_merged else values
            case Identity():
                return self._read_column(expr.variable, expr.part.value, pa.utf8(), rows)
            case Entity():
                parts = [self._read_column(expr.variable, meta.value, pa.utf8(), rows) for meta in expr.ids]
                parts += [
                    self._read_column(expr.variable, p.name, to_arrow_type(p.type), rows)
                    for p in list_entity_properties(expr)
                ]
                is_missing = build_array(self.get_positions(expr.variable, rows) < 0) if expr.nullable else None
                fields = list(build_entity_fields(expr.type, list_entity_properties(expr), nullable=expr.nullable))
                return pa.StructArray.from_arrays(parts, fields=fields, mask=is_missing)
            case Nearest() | Bm25() | Rrf() | Mmr() | Rerank():
                variable = find_variable(expr)
                at = self.get_positions(variable, rows)
                scores = self.scores.get(expr)
                if scores is not None:
                    return scores.take(at)
                return evaluate_bound(at, lambda bound: score_rows(self.context, expr, self.types[variable], bound))
            case _:
                return self.evaluate_stored(expr, rows)

    def evaluate_stored(self, expr: Expr, rows: Rows | None = None) -> pa.Array:
        """Evaluate an expression like `evaluate`, but keep whole nodes and edges as positions of their rows."""
        log = OverflowLog()
        values = self.evaluate_logged(expr, rows, log)
        log.check()
        return values

    def evaluate_logged(self, expr: Expr, rows: Rows | None, log: OverflowLog) -> pa.Array:
        """Evaluate an expression like `evaluate_stored`; rows in which an integer overflows are added to `log`."""
        match expr:
            case Aggregate() | Window():
                values = self.aggregates[expr]
                return values if rows is None else values.take(build_array(rows))
            case _:
                values = concat_chunks(evaluate_over(expr, FrameValues(self, rows), self.context.inputs, log))
                type_ = to_stored_type(expr.type)
                return values if values.type == type_ else values.cast(type_)

    def read_value(self, expr: ValueRef, rows: Rows | None) -> pa.Array:
        """Return the values of a variable that is bound to values; null where a calculation overflowed."""
        at = self.get_positions(expr.variable, rows)
        return self.context.values.take(expr.variable, at, to_stored_type(expr.type))

    def _read_column(self, variable: str, name: str, type_: pa.DataType, rows: Rows | None) -> pa.Array:
        values = self.context.take_values(self.types[variable], name, self.get_positions(variable, rows))
        return values if values.type == type_ else values.cast(type_)


@dataclass(frozen=True, slots=True)
class FrameValues:
    """The values that a calculation reads in the rows of a frame."""

    frame: Frame
    rows: Rows | None

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.frame.size if self.rows is None else len(self.rows)

    def read_column(self, expr: VariableValue) -> Column:
        """Return the values of a property, id or value variable."""
        if isinstance(expr, ValueRef):
            return self.frame.read_value(expr, self.rows)
        if isinstance(expr, Prop) and not self.frame.is_merged:
            run = self._view_run(expr)
            if run is not None:
                return run
        return self.frame.evaluate(expr, self.rows)

    def _view_run(self, expr: Prop) -> pa.Array | None:
        """Return the values of rows that follow each other in their table, as those of a whole table do."""
        at = self.frame.get_positions(expr.variable, self.rows)
        if len(at) < 2 or at[0] < 0 or not bool((at[1:] - at[:-1] == 1).all()):
            return None
        # Copying two columns of 1,000,000 numbers took a quarter of the time of an expression over them.
        type_name = self.frame.types[expr.variable]
        values = self.frame.context.view_run(type_name, expr.name, int(at[0]), len(at))
        return values if values is not None and values.type == to_arrow_type(expr.type) else None

    def log_overflow(self, variable: str, log: OverflowLog) -> None:
        """Add the rows to `log` in which the value of a variable is null because a calculation overflowed."""
        values = self.frame.context.values
        if values.has_overflow(variable):
            values.log_overflow(variable, self.frame.get_positions(variable, self.rows), log)

    def read_positions(self, variable: str) -> Column:
        """Return the positions of a variable's rows; null where it has none."""
        return mask_missing(self.frame.get_positions(variable, self.rows))

    def read_property(self, type_name: str, column: str, at: Column) -> Column:
        """Return the values of a column at positions of a type's table; null where there is no position."""
        return self.frame.context.take_at(type_name, column, at)

    def unite_positions(self, type_name: str, union_name: str, at: Column) -> Column:
        """Return positions of a type's table as positions of a union of types; null where there is none."""
        return unite_positions(at, type_name, union_name, self.frame.context)

    def read_search_value(self, expr: SearchValue) -> Column:
        """Return a distance or a passage."""
        frame, rows = self.frame, np.arange(self.frame.size) if self.rows is None else self.rows
        columns = {name: frame.get_positions(name, rows) for name in find_variables(expr)}

        def evaluate(part: Expr, at: Positions) -> pa.Array:
            return frame.evaluate_stored(part, rows[at])

        return evaluate_search_value(expr, columns, frame.types, len(rows), frame.context, evaluate)

    def compare(self, expr: Compare) -> Column | None:
        """Compare two variables of the same type by their positions, or return None for any other comparison."""
        match expr:
            case Compare(
                op=Op.EQ | Op.NE, left=Identity(part=MetaColumn.ID) as left, right=Identity(part=MetaColumn.ID) as right
            ) if self.frame.types[left.variable] == self.frame.types[right.variable]:
                # Nodes of a union may have equal ids, and are different if their types are.
                first, second = (self.frame.get_positions(side.variable, self.rows) for side in (left, right))
                is_same = first == second if expr.op is Op.EQ else first != second
                if not (left.nullable or right.nullable):
                    return build_array(is_same)
                # A missing row has no id, so the comparison is unknown.
                return pa.array(is_same, pa.bool_(), mask=(first < 0) | (second < 0))
            case _:
                return None

    def match_text(self, expr: TextMatch) -> Column:
        """Return the result of a text search."""
        variable = expr.prop.variable
        at = self.frame.get_positions(variable, self.rows)
        return evaluate_text_match(self.frame.context, expr, self.frame.types[variable], at)

    def read_result(self, expr: Aggregate | Window | Rank) -> Column:
        """Return an aggregate, a window function's value, or a score."""
        if isinstance(expr, Aggregate | Window):
            return self.frame.evaluate_stored(expr, self.rows)
        return self.frame.evaluate(expr, self.rows)


def normalize_zeros(values: pa.Array) -> pa.Array:
    """Replace -0.0 by 0.0, which it equals, so that a result never depends on which of them was read."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


class ScoreColumn:
    """The scores of some positions of a table, by ascending position."""

    def __init__(self, positions: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        order = np.argsort(positions, kind="stable")
        self.positions = positions[order]
        self.values = values[order]

    def find(self, at: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the index of each position among those with a score, and whether it has one."""
        if not len(self.positions):
            return np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_)
        # A position after the last one is searched past the end: any valid index will do there.
        indices = np.minimum(np.searchsorted(self.positions, at), len(self.positions) - 1)
        return indices, self.positions[indices] == at

    def take(self, at: Rows) -> pa.Array:
        """Return the scores at these positions, null where there is none."""
        indices, has_score = self.find(at)
        values = self.values[indices] if len(self.values) else np.zeros(len(at))
        return pa.array(values, pa.float64(), mask=~has_score)


def build_frame(query: ReadQuery, bindings: Bindings, context: ExecutionContext) -> Frame:
    """Build the frame of a query's matches."""
    return Frame(bindings, {name: get_type_name(type_) for name, type_ in query.types.items()}, context)


# --- output columns ------------------------------------------------------------------------------------


def build_output_schema(query: ReadQuery, catalog: Catalog) -> pa.Schema:
    """Return the Arrow schema of a query's result."""
    return build_columns_schema(query.output, catalog)


def build_columns_schema(columns: Iterable[OutputColumn], catalog: Catalog) -> pa.Schema:
    """Return the Arrow schema of output columns."""
    return pa.schema([_build_field(column.name, column.value, catalog) for column in columns])


def project(frame: Frame, query: ReadQuery, schema: pa.Schema) -> pa.RecordBatch:
    """Return the output columns of a query for every row of a frame."""
    return pa.RecordBatch.from_arrays([frame.evaluate(column.value) for column in query.output], schema=schema)


def _build_field(name: str, expr: Expr, catalog: Catalog) -> pa.Field:
    if isinstance(expr, Entity):
        fields = build_entity_fields(expr.type, list_entity_properties(expr), nullable=expr.nullable)
        return add_shape(pa.field(name, pa.struct(list(fields)), nullable=expr.nullable), expr.type)
    return add_shape(build_output_field(name, expr.type, catalog, nullable=expr.nullable), expr.type)
