"""Tables in memory, and matches given by hand: what the parts behind a pattern are tested with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.clock import SystemClock
from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.output.result_pipeline import ResultFrame, build_result
from omnigraph.engine.physical_plan import get_type_name
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.value_store import ValueStore
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.params import check_params
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType, Catalog
from reference_reader import NOW, Match, PlainGraph, Record, _Reader


@dataclass(frozen=True)
class PlainTable:
    """The name of a table version."""

    path: str
    version: int = 1


class PlainRows:
    """Stands in for `TableReader`; counts what is read of it."""

    def __init__(self, type_: AnyType, records: Sequence[Record]) -> None:
        self.type, self.table, self.version = type_, PlainTable(type_.name), (type_.name, 1)
        self.size = self.count = len(records)
        schema = build_arrow_schema(type_)
        names = {name: f"@{name}" if name in ("id", "src", "dst") else name for name in schema.names}
        self.columns = {
            name: pa.array([_stored(record.get(names[name])) for record in records], schema.field(name).type)
            for name in schema.names
        }
        self.read: list[tuple[str, int]] = []

    def take_values(self, column: str, at: Any, budget: Budget | None = None) -> pa.Array:
        del budget
        if column == "@type":
            return pa.repeat(pa.scalar(self.type.name), len(at))
        self.read.append((column, len(at)))
        return self.columns[column].take(pa.array(at, pa.int64()))

    def view_run(self, column: str, start: int, count: int) -> None:
        del column, start, count

    def load_column(self, column: str, budget: Budget | None = None) -> pa.Array:
        del budget
        return self.columns[column]

    def is_resident(self, column: str) -> bool:
        return column in self.columns

    def load_numbers(self, column: str, budget: Budget | None = None) -> tuple[Any, Any]:
        del budget
        values = self.columns[column]
        numbers = np.asarray(values.fill_null(0) if values.null_count else values)
        return numbers, np.asarray(values.is_valid()) if values.null_count else None

    def load_codes(self, column: str, budget: Budget | None = None) -> tuple[Any, pa.Array]:
        del budget
        values = self.columns[column]
        if pa.types.is_floating(values.type):
            values = pc.add(values, pa.scalar(0.0, values.type))
        encoded = values.dictionary_encode()
        return np.asarray(encoded.indices.fill_null(-1), np.int32), encoded.dictionary


@dataclass
class PlainCache:
    """Stands in for `GraphCache`."""

    kept: dict[Any, Any] = field(default_factory=dict)

    def get_or_build(self, key: Any, make: Callable[[], Any], nbytes: Callable[[Any], int], budget: Any = None) -> Any:
        del budget
        if key not in self.kept:
            self.kept[key] = make()
            assert nbytes(self.kept[key]) >= 0
        return self.kept[key]


@dataclass
class PlainReading:
    """Stands in for `ExecutionContext`."""

    tables: Mapping[str, PlainRows]
    inputs: QueryInputs
    budget: Budget
    cache: PlainCache = field(default_factory=PlainCache)

    values: ValueStore = field(default_factory=ValueStore)
    catalog: Catalog | None = None

    def get_reader(self, type_name: str) -> PlainRows:
        return self.tables[type_name]

    def take_values(self, type_name: str, column: str, at: Positions) -> pa.Array:
        return ExecutionContext.take_values(cast("ExecutionContext", self), type_name, column, at)

    def view_run(self, *_: object) -> None:
        return None

    def list_notes(self) -> tuple[str, ...]:
        return ()

    def take_at(self, type_name: str, column: str, at: pa.Array) -> pa.Array:
        return ExecutionContext.take_at(cast("ExecutionContext", self), type_name, column, at)


@dataclass(frozen=True)
class World:
    """A catalog and its records; matches are given by position."""

    catalog: Catalog
    records: Mapping[str, Sequence[Record]]

    def reading(self, params: Mapping[str, Any] | None = None, budget: Budget | None = None) -> ExecutionContext:
        """All that a read works with."""
        types: list[AnyType] = [*self.catalog.nodes.values(), *self.catalog.edges.values()]
        tables = {type_.name: PlainRows(type_, self.records.get(type_.name, ())) for type_ in types}
        inputs = QueryInputs(params or {}, NOW)
        made = PlainReading(tables, inputs, budget or Budget(SystemClock()), catalog=self.catalog)
        return cast("ExecutionContext", made)

    def query(self, text: str) -> ReadQuery:
        """A correct read."""
        source = Source(text)
        (tree,) = parse_queries(source).require(source).queries
        query = bind_query(tree, self.catalog).require(source)
        assert isinstance(query, ReadQuery)
        return query

    def answer(
        self,
        query: ReadQuery,
        columns: Mapping[str, Sequence[int]],
        weight: Sequence[int] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> ResultFrame:
        """What the engine makes of these matches."""
        size = len(next(iter(columns.values()))) if columns else 1
        arrays = {name: np.array(positions, np.int64) for name, positions in columns.items()}
        bindings = Bindings(arrays, size, None if weight is None else np.array(weight, np.int64))
        return build_result(query, bindings, self.reading(check_params(query.params, params or {})))

    def rows(
        self,
        text: str,
        columns: Mapping[str, Sequence[int]],
        weight: Sequence[int] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        """The rows of a query's result over these matches."""
        answer = self.answer(self.query(text), columns, weight, params)
        return tuples(answer.fetch(0, answer.size))

    def expected(
        self,
        text: str,
        columns: Mapping[str, Sequence[int]],
        weight: Sequence[int] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        """The same by the plainest Python; a match stands there as often as its weight says."""
        query = self.query(text)
        types = query.pattern.types
        size = len(next(iter(columns.values())))
        matches: list[Match] = [
            {name: self.records[get_type_name(types[name])][positions[row]] for name, positions in columns.items()}
            for row in range(size)
            for _ in range(1 if weight is None else weight[row])
        ]
        reader = _GivenMatches(query, PlainGraph(), params or {})
        reader.given = matches
        return reader.answer().rows


class _GivenMatches(_Reader):
    """Reads matches that are there already."""

    given: Sequence[Match] = ()

    def matches(self, pattern: Any, outside: Match) -> Any:
        del pattern, outside
        return iter(self.given)


def tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of a batch."""
    return [tuple(row.values()) for row in batch.to_pylist()]


def _stored(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
