"""A tiny evaluator of predicates over Python dictionaries: the meaning that every rule must keep."""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from typing import Any

import numpy as np

from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    Contains,
    Expr,
    Identity,
    In,
    IsNull,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
    StartsWith,
    TextMatch,
)
from omnigraph.query.logical_plan import Hop, HopDirection, Pattern
from omnigraph.schema.types import ListOf, Scalar
from query.pattern_blocks import exists_blocks

Row = Mapping[tuple[str, str], Any]
"""The value of each (variable, property); `@id`, `@src` and `@dst` are the names of ids."""

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_OPS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def evaluate(expr: Expr, row: Row, params: Mapping[str, Any] | None = None) -> Any:
    """The value of an expression; a predicate is True, False or None (unknown)."""
    match expr:
        case Const():
            return expr.value
        case ParamRef():
            return (params or {})[expr.name]
        case Now():
            return NOW
        case Prop():
            return row[expr.variable, expr.name]
        case Identity():
            return row[expr.variable, "@" + expr.part.value]
        case IsNull():
            return (evaluate(expr.operand, row, params) is None) is not expr.negated
        case Not():
            inner = evaluate(expr.term, row, params)
            return None if inner is None else not inner
        case And():
            return _all([evaluate(term, row, params) for term in expr.terms])
        case Or():
            inner = _all([_negated(evaluate(term, row, params)) for term in expr.terms])
            return _negated(inner)
        case Compare():
            return _strict(_OPS[expr.op], expr.left, expr.right, row, params)
        case In():
            return _strict(lambda item, items: item in items, expr.element, expr.collection, row, params)
        case Contains():
            return _strict(lambda text, part: part in text, expr.text, expr.part, row, params)
        case StartsWith():
            return _strict(lambda text, prefix: text.startswith(prefix), expr.text, expr.prefix, row, params)
        case TextMatch():  # any fixed function will do: rules may not look inside
            return _strict(lambda text, query: query.lower() in text.lower(), expr.prop, expr.query, row, params)
        case _:
            raise AssertionError(expr)


def _strict(
    function: Callable[[Any, Any], bool], left: Expr, right: Expr, row: Row, params: Mapping[str, Any] | None
) -> bool | None:
    a, b = evaluate(left, row, params), evaluate(right, row, params)
    if a is None or b is None:
        return None
    return function(_beside(a, left, right), _beside(b, right, left))


def _beside(value: Any, expr: Expr, other: Expr) -> Any:
    """A value as it is compared with another: beside an F32, fractions of F64 are read as F32."""
    if (_item_type(expr), _item_type(other)) != (Scalar.F64, Scalar.F32):
        return value
    return tuple(map(_single, value)) if isinstance(value, tuple | list) else _single(value)


def _single(number: float) -> float:
    return number if number == int(number) else float(np.float32(number))


def _item_type(expr: Expr) -> object:
    return expr.type.element if isinstance(expr.type, ListOf) else expr.type


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: Iterable[bool | None]) -> bool | None:
    values = list(values)
    if False in values:
        return False
    return None if None in values else True


# --- patterns ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graph:
    """Nodes by type, then id; edges by type as (id, src, dst, properties). Single hops only."""

    nodes: Mapping[str, Mapping[str, Mapping[str, Any]]]
    edges: Mapping[str, tuple[tuple[str, str, str, Mapping[str, Any]], ...]] = field(default_factory=dict)


def matches(
    pattern: Pattern, graph: Graph, params: Mapping[str, Any] | None = None, outside: Row | None = None
) -> list[Row]:
    """Every match of a pattern, by trying all combinations; an edge variable multiplies, a plain hop does not."""
    choices = [
        [_node_row(node.variable, id_, values) for id_, values in graph.nodes.get(node.type.name, {}).items()]
        for node in pattern.nodes
    ]
    choices += [
        [_edge_row(hop.edge_variable, edge) for edge in graph.edges.get(hop.edge.name, ())]
        for hop in pattern.hops
        if hop.edge_variable is not None
    ]
    found: list[Row] = []
    for parts in product(*choices):
        row: dict[tuple[str, str], Any] = dict(outside or {})
        for part in parts:
            row.update(part)
        if _holds(pattern, graph, params, row):
            found.append(row)
    return found


def _node_row(variable: str, id_: str, values: Mapping[str, Any]) -> Row:
    return {(variable, "@id"): id_, **{(variable, name): value for name, value in values.items()}}


def _edge_row(variable: str, edge: tuple[str, str, str, Mapping[str, Any]]) -> Row:
    id_, src, dst, values = edge
    ids = {(variable, "@id"): id_, (variable, "@src"): src, (variable, "@dst"): dst}
    return {**ids, **{(variable, name): value for name, value in values.items()}}


def _holds(pattern: Pattern, graph: Graph, params: Mapping[str, Any] | None, row: Row) -> bool:
    filters = [
        *(f for node in pattern.nodes for f in node.filters),
        *(f for hop in pattern.hops for f in hop.filters),
        *pattern.filters,
    ]
    return (
        all(_hop_holds(hop, graph, row) for hop in pattern.hops)
        and all(evaluate(f, row, params) is True for f in filters)
        and all(bool(matches(test.pattern, graph, params, row)) is not test.negated for test in exists_blocks(pattern))
    )


def _hop_holds(hop: Hop, graph: Graph, row: Row) -> bool:
    ends = (row[hop.source, "@id"], row[hop.target, "@id"])
    wanted = {HopDirection.OUT: {ends}, HopDirection.IN: {ends[::-1]}, HopDirection.BOTH: {ends, ends[::-1]}}[
        hop.direction
    ]
    if hop.edge_variable is not None:
        return (row[hop.edge_variable, "@src"], row[hop.edge_variable, "@dst"]) in wanted
    return any((src, dst) in wanted for _, src, dst, _ in graph.edges.get(hop.edge.name, ()))
