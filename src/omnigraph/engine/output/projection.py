"""Values of expressions at the matches that are left: the last thing that is read, and only for them."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.ranking import score_rows
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.query.expr import (
    Aggregate,
    Bm25,
    Const,
    Entity,
    Expr,
    Identity,
    Nearest,
    Now,
    ParamRef,
    Prop,
    Rank,
    Rrf,
)
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.arrow import TYPE_KEY, to_arrow_type
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import BASE64_PREFIX
from omnigraph.storage.arrow_buffers import build_array, build_scalar

Rows: TypeAlias = NDArray[np.int64]
"""Which rows of a frame, by number, in any order; repeats are fine."""
Constant: TypeAlias = Const | ParamRef | Now


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows to come: matches, or a match for each group together with the group's aggregates."""

    bindings: Bindings
    types: Mapping[str, str]
    """The type of each variable."""
    context: ExecutionContext
    aggregates: Mapping[Aggregate, pa.Array] = field(default_factory=dict)
    scores: Mapping[Rank, "ScoreColumn"] = field(default_factory=dict)
    """Ranks whose scores are known already."""
    is_merged: bool = False
    """Whether a row stands for several that are equal."""

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self.bindings.size

    def take(self, rows: Rows) -> "Frame":
        """Only these rows."""
        at = build_array(rows) if self.aggregates else None
        aggregates = {one: values.take(at) for one, values in self.aggregates.items()}
        bindings = self.bindings.take(rows)
        return Frame(bindings, self.types, self.context, aggregates, self.scores, self.is_merged)

    def slice(self, start: int, stop: int) -> "Frame":
        """The rows from `start` to before `stop`."""
        columns = {name: positions[start:stop] for name, positions in self.bindings.columns.items()}
        size = max(0, min(stop, self.size) - start)
        aggregates = {one: values.slice(start, size) for one, values in self.aggregates.items()}
        return replace(self, bindings=Bindings(columns, size), aggregates=aggregates)

    def get_table(self, variable: str) -> TableReader:
        """The rows of a variable's type."""
        return self.context.get_reader(self.types[variable])

    def get_positions(self, variable: str, rows: Rows | None = None) -> Rows:
        """Where a variable is, in its table."""
        found = self.bindings.columns[variable]
        return (found if rows is None else found[rows]).astype(np.int64, copy=False)

    def evaluate_constant(self, expr: Constant) -> pa.Scalar:
        """The value of what is the same in every row."""
        value = self.context.inputs.resolve(expr)
        if expr.type is Scalar.BLOB and isinstance(value, str) and value.startswith(BASE64_PREFIX):
            value = base64.b64decode(value[len(BASE64_PREFIX) :])
        return build_scalar(value, to_arrow_type(expr.type))

    def evaluate(self, expr: Expr, rows: Rows | None = None) -> pa.Array:
        """An expression in these rows, or in all."""
        match expr:
            case Const() | ParamRef() | Now():
                return pa.repeat(self.evaluate_constant(expr), self.size if rows is None else len(rows))
            case Prop():
                found = self._read_column(expr.variable, expr.name, to_arrow_type(expr.type), rows)
                return normalize_zeros(found) if self.is_merged else found
            case Identity():
                return self._read_column(expr.variable, expr.part.value, pa.utf8(), rows)
            case Entity():
                parts = [self._read_column(expr.variable, meta.value, pa.utf8(), rows) for meta in expr.ids]
                parts += [self._read_column(p.variable, p.name, to_arrow_type(p.type), rows) for p in expr.fields]
                return pa.StructArray.from_arrays(parts, fields=list(_build_entity_fields(expr)))
            case Aggregate():
                found = self.aggregates[expr]
                return found if rows is None else found.take(build_array(rows))
            case Nearest() | Bm25() | Rrf():
                variable = find_ranked_variable(expr)
                at = self.get_positions(variable, rows)
                known = self.scores.get(expr)
                if known is not None:
                    return known.take(at)
                return score_rows(self.context, expr, self.types[variable], at)
            case _:
                raise AssertionError(f"a {type(expr).__name__} is no value of a row")

    def _read_column(self, variable: str, name: str, type_: pa.DataType, rows: Rows | None) -> pa.Array:
        found = self.get_table(variable).take_values(name, self.get_positions(variable, rows), self.context.budget)
        return found if found.type == type_ else found.cast(type_)


def normalize_zeros(values: pa.Array) -> pa.Array:
    """Floats with 0.0 for -0.0, which equals it: where either could come out, it is always the same one."""
    return pc.add(values, build_scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


class ScoreColumn:
    """The scores of some positions of a table."""

    def __init__(self, positions: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        order = np.argsort(positions, kind="stable")
        self.positions, self.values = positions[order], values[order]

    def find(self, at: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Where each position is among those with a score, and whether it is there at all."""
        if not len(self.positions):
            return np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_)
        places = np.minimum(np.searchsorted(self.positions, at), len(self.positions) - 1)
        return places, self.positions[places] == at

    def take(self, at: Rows) -> pa.Array:
        """The scores at these positions, null where there is none."""
        places, is_there = self.find(at)
        values = self.values[places] if len(self.values) else np.zeros(len(at))
        return pa.array(values, pa.float64(), mask=~is_there)


def build_frame(query: ReadQuery, bindings: Bindings, reading: ExecutionContext) -> Frame:
    """The matches of a query as a frame."""
    return Frame(bindings, {name: type_.name for name, type_ in query.pattern.types.items()}, reading)


def find_ranked_variable(rank: Rank) -> str:
    """The variable whose rows a rank orders."""
    return rank.first.prop.variable if isinstance(rank, Rrf) else rank.prop.variable


# --- what comes out ------------------------------------------------------------------------------------


def build_output_schema(query: ReadQuery) -> pa.Schema:
    """The columns of a query's result, as Arrow's fields."""
    return pa.schema([_build_field(column.name, column.value) for column in query.output])


def project(frame: Frame, query: ReadQuery, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a query's result, for every row of a frame."""
    return pa.RecordBatch.from_arrays([frame.evaluate(column.value) for column in query.output], schema=schema)


def _build_field(name: str, expr: Expr) -> pa.Field:
    if isinstance(expr, Entity):
        return pa.field(name, pa.struct(_build_entity_fields(expr)), nullable=False)
    type_ = expr.type
    assert isinstance(type_, Scalar | EnumOf | ListOf | VectorOf)  # noqa: S101 - only an Entity has another type
    return _build_value_field(name, type_, expr.nullable)


def _build_value_field(name: str, type_: ValueType, nullable: bool) -> pa.Field:
    is_marked = type_ is Scalar.BLOB or isinstance(type_, EnumOf)
    metadata = {TYPE_KEY: str(type_).encode()} if is_marked else None
    return pa.field(name, to_arrow_type(type_), nullable=nullable, metadata=metadata)


def _build_entity_fields(entity: Entity) -> tuple[pa.Field, ...]:
    ids = tuple(pa.field(meta.value, pa.utf8(), nullable=False) for meta in entity.ids)
    return (*ids, *(_build_value_field(p.name, p.type, p.nullable) for p in entity.fields))
