"""What the blocks of a pattern mean, in the plainest Python: each is solved again for each row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from omnigraph.lang.query_ast import BlockKind
from omnigraph.query.expr import Aggregate, Bm25, Expr, Nearest
from omnigraph.query.logical_plan import Count, EachBlock, EitherBlock, Exists, OptionalMatch, Pattern, ValueBlock
from reference_scalars import CalculationError
from reference_unions import widened
from reference_values import elements

Match: TypeAlias = Mapping[str, Any]
Condition: TypeAlias = tuple[set[str], Callable[[Match], bool]]


class Reader(Protocol):
    """What the blocks need of the reader of a query."""

    graph: Any
    params: Mapping[str, Any]

    def matches(self, pattern: Pattern, outside: Match) -> Iterator[Match]: ...

    def value(self, expr: Expr, match: Match) -> Any: ...

    def add_walks(self, pattern: Pattern, rows: list[dict[str, Any]]) -> list[dict[str, Any]]: ...

    def fold(self, aggregate: Aggregate, group: list[Match]) -> Any: ...

    def count(self, count: Count | None, otherwise: int) -> int: ...

    def union_records(self, rank: Nearest | Bm25) -> Sequence[Mapping[str, Any]]: ...


def add_blocks(reader: Reader, pattern: Pattern, match: Match, conditions: list[Condition]) -> Iterator[Match]:
    """The rows that a match of the nodes and hops becomes by the blocks: alternatives first, optional blocks last."""
    rows = _unnest(reader, pattern, _settle(reader, pattern, [dict(match)], conditions), conditions)
    for block in pattern.blocks:
        if isinstance(block, EitherBlock):
            rows = [{**row, **found} for row in rows for found in _choose(reader, block, row)]
            rows = _unnest(reader, pattern, _settle(reader, pattern, rows, conditions), conditions)
    for block in pattern.blocks:
        if isinstance(block, OptionalMatch):
            rows = [{**row, **found} for row in rows for found in _try(reader, block, row)]
            rows = _unnest(reader, pattern, _settle(reader, pattern, rows, conditions), conditions)
    yield from rows


def _unnest(
    reader: Reader, pattern: Pattern, rows: list[dict[str, Any]], conditions: list[Condition]
) -> list[dict[str, Any]]:
    """The rows with the elements of all lists and the walks that are known by now, one row for each."""
    lists = [block for block in pattern.blocks if isinstance(block, EachBlock)]
    while rows:
        ready = next((block for block in lists if block.variable not in rows[0] and _knows(rows[0], block)), None)
        if ready is None:
            walked = reader.add_walks(pattern, rows)
            if walked is rows:
                break
            rows = _settle(reader, pattern, walked, conditions)
        else:
            rows = [{**row, **found} for row in rows for found in elements(reader, ready, row)]
            rows = _settle(reader, pattern, rows, conditions)
    return rows


def _settle(
    reader: Reader, pattern: Pattern, rows: list[dict[str, Any]], conditions: list[Condition]
) -> list[dict[str, Any]]:
    """The rows that pass what can be decided by now, with the values that can be computed by now."""
    kept = []
    for row in rows:
        values = [block for block in pattern.blocks if isinstance(block, ValueBlock) and block.variable not in row]
        while ready := next((block for block in values if _knows(row, block)), None):
            values.remove(ready)
            try:
                row[ready.variable] = block_value(reader, ready, row)
            except CalculationError as error:
                row[ready.variable] = error  # whether that matters depends on who reads it
        tests = [block for block in pattern.blocks if isinstance(block, Exists) and _knows(row, block)]
        if all(holds(row) for names, holds in conditions if names <= row.keys()) and all(
            any(True for _ in reader.matches(block.pattern, row)) is not block.negated for block in tests
        ):
            kept.append(row)
    return kept


def _knows(row: Match, block: Exists | ValueBlock | EachBlock) -> bool:
    return all(shared.variable in row for shared in block.shared)


def _choose(reader: Reader, block: EitherBlock, row: Match) -> list[dict[str, Any]]:
    """The different bindings of the variables that all alternatives have."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for pattern in block.alternatives:
        for match in reader.matches(pattern, row):
            types = pattern.types
            shown = {
                each.variable: widened(match[each.variable], types[each.variable], each.type)
                for each in block.variables
            }
            found[tuple(map(_told_apart, shown.values()))] = shown
    return list(found.values())


def _told_apart(value: Any) -> Any:
    """Nodes and edges differ in type or id, elements of lists in their values."""
    if isinstance(value, CalculationError):
        return CalculationError
    return (value.get("@type"), value["@id"]) if isinstance(value, Mapping) else value


def _try(reader: Reader, block: OptionalMatch, row: Match) -> list[dict[str, Any]]:
    """The bindings of an optional block, or one of nothing."""
    names = block.pattern.row_types
    found = [{name: match[name] for name in names} for match in reader.matches(block.pattern, row)]
    return found or [dict.fromkeys(names)]


def block_value(reader: Reader, block: ValueBlock, row: Match) -> Any:
    """The value of a block in one row."""
    found = list(reader.matches(block.pattern, row))
    if block.kind is BlockKind.EXISTS:
        return bool(found)
    if block.distinct and block.value is not None:
        found = list({_key(reader.value(block.value, match)): match for match in found}.values())
    keys = [(tie, False) for tie in reversed(block.ties)]
    keys += [(key.value, key.descending) for key in reversed(block.order)]
    for expr, descending in keys:
        found.sort(key=lambda match, expr=expr: _sortable(reader.value(expr, match)), reverse=descending)  # type: ignore[misc]  # mypy can't infer a lambda with a default
    found = found[: reader.count(block.limit, len(found))]
    if block.kind is BlockKind.COLLECT and block.value is not None:
        values = [reader.value(block.value, match) for match in found]
        return [value for value in values if value is not None or block.keeps_nulls]
    return reader.fold(block.aggregate, found)


def _key(value: Any) -> Any:
    return value["id"] if isinstance(value, Mapping) else value


def _sortable(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)
