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
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.search.ranking import score_values
from omnigraph.engine.tables.table_reader import TableRows
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
from omnigraph.schema.arrow import TYPE_KEY, arrow_type
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import BASE64_PREFIX
from omnigraph.storage.arrow_buffers import array_of, scalar

Rows: TypeAlias = NDArray[np.int64]
"""Which rows of a frame, by number, in any order; repeats are fine."""
Constant: TypeAlias = Const | ParamRef | Now


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows to come: matches, or a match for each group together with the group's aggregates."""

    bindings: Bindings
    types: Mapping[str, str]
    """The type of each variable."""
    reading: Reading
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
        at = array_of(rows) if self.aggregates else None
        aggregates = {one: values.take(at) for one, values in self.aggregates.items()}
        bindings = self.bindings.take(rows)
        return Frame(bindings, self.types, self.reading, aggregates, self.scores, self.is_merged)

    def slice(self, start: int, stop: int) -> "Frame":
        """The rows from `start` to before `stop`."""
        columns = {name: positions[start:stop] for name, positions in self.bindings.columns.items()}
        size = max(0, min(stop, self.size) - start)
        aggregates = {one: values.slice(start, size) for one, values in self.aggregates.items()}
        return replace(self, bindings=Bindings(columns, size), aggregates=aggregates)

    def table(self, variable: str) -> TableRows:
        """The rows of a variable's type."""
        return self.reading.rows(self.types[variable])

    def positions(self, variable: str, rows: Rows | None = None) -> Rows:
        """Where a variable is, in its table."""
        found = self.bindings.columns[variable]
        return (found if rows is None else found[rows]).astype(np.int64, copy=False)

    def constant(self, expr: Constant) -> pa.Scalar:
        """The value of what is the same in every row."""
        value = self.reading.inputs.value(expr)
        if expr.type is Scalar.BLOB and isinstance(value, str) and value.startswith(BASE64_PREFIX):
            value = base64.b64decode(value[len(BASE64_PREFIX) :])
        return scalar(value, arrow_type(expr.type))

    def values(self, expr: Expr, rows: Rows | None = None) -> pa.Array:
        """An expression in these rows, or in all."""
        match expr:
            case Const() | ParamRef() | Now():
                return pa.repeat(self.constant(expr), self.size if rows is None else len(rows))
            case Prop():
                found = self._column(expr.variable, expr.name, arrow_type(expr.type), rows)
                return unsigned_zeros(found) if self.is_merged else found
            case Identity():
                return self._column(expr.variable, expr.part.value, pa.utf8(), rows)
            case Entity():
                parts = [self._column(expr.variable, meta.value, pa.utf8(), rows) for meta in expr.ids]
                parts += [self._column(p.variable, p.name, arrow_type(p.type), rows) for p in expr.fields]
                return pa.StructArray.from_arrays(parts, fields=list(_entity_fields(expr)))
            case Aggregate():
                found = self.aggregates[expr]
                return found if rows is None else found.take(array_of(rows))
            case Nearest() | Bm25() | Rrf():
                variable = ranked_variable(expr)
                at = self.positions(variable, rows)
                known = self.scores.get(expr)
                if known is not None:
                    return known.at(at)
                return score_values(self.reading, expr, self.types[variable], at)
            case _:
                raise AssertionError(f"a {type(expr).__name__} is no value of a row")

    def _column(self, variable: str, name: str, type_: pa.DataType, rows: Rows | None) -> pa.Array:
        found = self.table(variable).values(name, self.positions(variable, rows), self.reading.budget)
        return found if found.type == type_ else found.cast(type_)


def unsigned_zeros(values: pa.Array) -> pa.Array:
    """Floats with 0.0 for -0.0, which equals it: where either could come out, it is always the same one."""
    return pc.add(values, scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


class ScoreColumn:
    """The scores of some positions of a table."""

    def __init__(self, positions: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        order = np.argsort(positions, kind="stable")
        self.positions, self.values = positions[order], values[order]

    def places(self, at: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Where each position is among those with a score, and whether it is there at all."""
        if not len(self.positions):
            return np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_)
        places = np.minimum(np.searchsorted(self.positions, at), len(self.positions) - 1)
        return places, self.positions[places] == at

    def at(self, at: Rows) -> pa.Array:
        """The scores at these positions, null where there is none."""
        places, is_there = self.places(at)
        values = self.values[places] if len(self.values) else np.zeros(len(at))
        return pa.array(values, pa.float64(), mask=~is_there)


def frame_of(query: ReadQuery, bindings: Bindings, reading: Reading) -> Frame:
    """The matches of a query as a frame."""
    return Frame(bindings, {name: type_.name for name, type_ in query.pattern.types.items()}, reading)


def ranked_variable(rank: Rank) -> str:
    """The variable whose rows a rank orders."""
    return rank.first.prop.variable if isinstance(rank, Rrf) else rank.prop.variable


# --- what comes out ------------------------------------------------------------------------------------


def output_schema(query: ReadQuery) -> pa.Schema:
    """The columns of a query's result, as Arrow's fields."""
    return pa.schema([_field(column.name, column.value) for column in query.output])


def project(frame: Frame, query: ReadQuery, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a query's result, for every row of a frame."""
    return pa.RecordBatch.from_arrays([frame.values(column.value) for column in query.output], schema=schema)


def _field(name: str, expr: Expr) -> pa.Field:
    if isinstance(expr, Entity):
        return pa.field(name, pa.struct(_entity_fields(expr)), nullable=False)
    type_ = expr.type
    assert isinstance(type_, Scalar | EnumOf | ListOf | VectorOf)  # noqa: S101 - only an Entity has another type
    return _value_field(name, type_, expr.nullable)


def _value_field(name: str, type_: ValueType, nullable: bool) -> pa.Field:
    is_marked = type_ is Scalar.BLOB or isinstance(type_, EnumOf)
    metadata = {TYPE_KEY: str(type_).encode()} if is_marked else None
    return pa.field(name, arrow_type(type_), nullable=nullable, metadata=metadata)


def _entity_fields(entity: Entity) -> tuple[pa.Field, ...]:
    ids = tuple(pa.field(meta.value, pa.utf8(), nullable=False) for meta in entity.ids)
    return (*ids, *(_value_field(p.name, p.type, p.nullable) for p in entity.fields))
