"""What stages, unions, windows and the newer aggregates mean, one row at a time; see `reference_reader`."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import floor, prod
from typing import Any, Protocol, TypeAlias

from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    Expr,
    OrderTerm,
    ValueRef,
    Window,
    WindowFunction,
)
from omnigraph.query.expr_tree import find_windows
from omnigraph.query.logical_plan import Count, ReadQuery, StageVariable, UnionSource
from omnigraph.schema.types import Scalar
from reference_unions import widened
from reference_walks import is_walk

Row: TypeAlias = Mapping[str, Any]
F = AggregateFunction


class Evaluator(Protocol):
    """What evaluates an expression in one match."""

    def value(self, expr: Expr, match: Row) -> Any: ...

    def condition(self, expr: Expr, match: Row) -> bool | None: ...

    def count(self, count: Count | None, otherwise: int) -> int: ...


class ResultRow(Protocol):
    """A row of a read: its match, and the value of any expression of its output."""

    @property
    def match(self) -> Row: ...

    def value(self, expr: Expr) -> Any: ...

    def record(self, expr: Expr) -> Any: ...


def start_rows(query: ReadQuery, rows_of: Callable[[ReadQuery], Sequence[ResultRow]]) -> list[dict[str, Any]]:
    """The rows that a read starts from: one without variables, or those of its source."""
    source = query.source
    if source is None:
        return [{}]
    if isinstance(source, UnionSource):
        rows = _united(query, source, rows_of)
    else:
        rows = [_columns(source, query.inputs, row) for row in rows_of(source)]
    needed = [each.variable for each in query.inputs if each.entity is not None and each.is_matched]
    return [row for row in rows if all(row[name] is not None for name in needed)]


def _columns(source: ReadQuery, inputs: Sequence[StageVariable], row: ResultRow) -> dict[str, Any]:
    """The columns of a row by name: of a whole node or edge its record, so that the next stage goes on from it."""
    found = {}
    for column, each in zip(source.output, inputs, strict=True):
        is_entity = each.entity is not None
        if is_walk(column.value) and isinstance(column.value, ValueRef):
            # A walk goes on as it is, not as a result shows it.
            value = row.match[column.value.variable]
        else:
            value = row.record(column.value) if is_entity else row.value(column.value)
        if is_entity and value is not None:
            value = widened(value, column.value.type, each.type)
        is_widened = not is_entity and each.type is Scalar.F64 and value is not None
        found[each.variable] = float(value) if is_widened else value
    return found


def _united(
    query: ReadQuery, source: UnionSource, rows_of: Callable[[ReadQuery], Sequence[ResultRow]]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for index, read in enumerate(source.reads):
        rows += [_columns(read, query.inputs, row) for row in rows_of(read)]
        if index > 0 and not source.keeps_equal[index - 1]:
            rows = list({tuple(map(_identity, row.values())): row for row in reversed(rows)}.values())
    return rows


def _identity(value: Any) -> Any:
    return (value.get("@type"), value["@id"]) if isinstance(value, Mapping) else value


# --- aggregates ------------------------------------------------------------------------------------


def fold(reader: Evaluator, aggregate: Aggregate, group: Sequence[Row]) -> Any:
    """The value of one of the newer aggregates over some matches; those that its filter drops are gone already."""
    assert aggregate.argument is not None
    if aggregate.fold is F.COLLECT:
        return _collected(reader, aggregate, group)
    values = [value for match in group if (value := reader.value(aggregate.argument, match)) is not None]
    if not values:
        return None
    if aggregate.fold is F.ANY:
        return any(values)
    if aggregate.fold is F.ALL:
        return all(values)
    if aggregate.fold is F.PRODUCT:
        return prod(values)
    if aggregate.fold in (F.MEDIAN, F.PERCENTILE):
        fraction = 0.5 if aggregate.fraction is None else reader.value(aggregate.fraction, {})
        return _percentile(sorted(map(float, values)), float(fraction))
    if len(values) < 2:
        return None
    if aggregate.fold is F.STDDEV:
        return statistics.stdev(map(Fraction, values))
    return float(statistics.variance(map(Fraction, values)))


def _percentile(values: list[float], fraction: float) -> float:
    place = fraction * (len(values) - 1)
    low = floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low) if place > low else values[low]


def _collected(reader: Evaluator, aggregate: Aggregate, group: Sequence[Row]) -> list[Any]:
    assert aggregate.argument is not None
    argument = aggregate.argument
    terms = aggregate.order
    if aggregate.distinct:
        terms = (OrderTerm(value=argument),)
    members = [match for match in group if reader.value(argument, match) is not None]
    found = [reader.value(argument, match) for match in sorted_by(reader, members, terms, aggregate.ties)]
    if aggregate.distinct:
        found = list(dict.fromkeys(found))
    limit = None if aggregate.limit is None else reader.value(aggregate.limit, {})
    return found[:limit]


def sorted_by(reader: Evaluator, matches: Sequence[Row], terms: Sequence[OrderTerm], ties: Sequence[Expr]) -> list[Row]:
    """The matches by some keys, then by the ties; null is the smallest."""
    found = list(matches)
    for term in (*reversed([OrderTerm(value=tie) for tie in ties]), *reversed(terms)):
        found.sort(key=lambda match: _sortable(reader.value(term.value, match)), reverse=term.descending)
    return found


def _sortable(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


# --- windows ---------------------------------------------------------------------------------------


def windows_of(
    query: ReadQuery,
    reader: Evaluator,
    found: Sequence[Row],
    fold_all: Callable[[Aggregate, Sequence[Row]], Any],
) -> list[dict[Expr, Any]]:
    """For each match the values of the query's window functions."""
    windows = {window for expr in query.results for window in find_windows(expr)}
    values: list[dict[Expr, Any]] = [{} for _ in found]
    for window in windows:
        partitions: dict[Any, list[int]] = {}
        for number, match in enumerate(found):
            key = tuple(_shown_identity(reader.value(expr, match)) for expr in window.per)
            partitions.setdefault(key, []).append(number)
        for numbers in partitions.values():
            for number, value in _window(window, reader, found, numbers, fold_all):
                values[number][window] = value
    return values


def _shown_identity(value: Any) -> Any:
    return value["id"] if isinstance(value, Mapping) else value


def _window(
    window: Window,
    reader: Evaluator,
    found: Sequence[Row],
    numbers: Sequence[int],
    fold_all: Callable[[Aggregate, Sequence[Row]], Any],
) -> list[tuple[int, Any]]:
    numbered = [{**found[number], "#number": number} for number in numbers]
    ordered = sorted_by(reader, numbered, window.order, window.ties)
    keys = [tuple(reader.value(term.value, match) for term in window.order) for match in ordered]
    answers = []
    for place, match in enumerate(ordered):
        if window.aggregate is not None:
            value = fold_all(window.aggregate, ordered[: place + 1] if window.order else ordered)
        elif window.function is WindowFunction.ROW_NUMBER:
            value = place + 1
        elif window.function is WindowFunction.RANK:
            value = keys.index(keys[place]) + 1
        else:
            other = place + (1 if window.function is WindowFunction.LEAD else -1)
            assert window.argument is not None
            value = reader.value(window.argument, ordered[other]) if 0 <= other < len(ordered) else None
        answers.append((match["#number"], value))
    return answers


# --- pages of groups -------------------------------------------------------------------------------


def best_of_each(query: ReadQuery, rows: Sequence[Any], first: int, count: int) -> list[Any]:
    """The page of each group of some sorted rows, in the same order."""
    seen: dict[Any, int] = {}
    kept = []
    for row in rows:
        key = tuple(_shown_identity(row.value(expr)) for expr in query.per)
        place = seen[key] = seen.get(key, -1) + 1
        if first <= place < first + count:
            kept.append(row)
    return kept
