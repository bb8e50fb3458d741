"""What `coalesce`, `case` and `nullif` over whole nodes and edges mean: the record that one of them chooses."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from omnigraph.query.expr import Case, Computed, EdgeRef, Entity, Expr, FieldRef, Missing, NodeRef, United
from omnigraph.query.scalar_functions import ScalarFunction
from reference_unions import widened

Match: TypeAlias = Mapping[str, Any]


class Reader(Protocol):
    """What evaluates expressions."""

    def value(self, expr: Expr, match: Match) -> Any: ...

    def condition(self, expr: Expr, match: Match) -> bool | None: ...


def is_chosen(expr: Expr) -> bool:
    """Whether an expression is a node or edge that is chosen among several."""
    if not isinstance(expr.type, NodeRef | EdgeRef):
        return False
    is_call = isinstance(expr, Computed) and expr.function in (ScalarFunction.COALESCE, ScalarFunction.NULLIF)
    return is_call or isinstance(expr, United | Missing | Case)


def choose(reader: Reader, expr: Expr, match: Match) -> Any:
    """The record that an expression stands for, None for none."""
    match expr:
        case Entity():
            return match[expr.variable]
        case United():
            record = choose(reader, expr.operand, match)
            return None if record is None else widened(record, expr.operand.type, expr.type)
        case Case():
            for condition, value in expr.branches:
                if reader.condition(condition, match) is True:
                    return choose(reader, value, match)
            return choose(reader, expr.otherwise, match)
        case Computed(function=ScalarFunction.NULLIF, arguments=(first, second)):
            record, other = choose(reader, first, match), choose(reader, second, match)
            is_same = record is not None and other is not None and _key(record) == _key(other)
            return None if is_same else record
        case Computed():
            chosen = (choose(reader, argument, match) for argument in expr.arguments)
            return next((record for record in chosen if record is not None), None)
        case _:
            return None


def reads_chosen(expr: Expr) -> bool:
    """Whether an expression is a chosen node or edge, or a property of one."""
    return is_chosen(expr.operand if isinstance(expr, FieldRef) else expr)


def evaluate_chosen(reader: Reader, expr: Expr, match: Match) -> Any:
    """What identifies a chosen node or edge, as in a group key; or a property or id of it."""
    if not isinstance(expr, FieldRef):
        record = choose(reader, expr, match)
        return None if record is None else {"@type": record.get("@type"), "id": record["@id"]}
    record = choose(reader, expr.operand, match)
    if record is None:
        return None
    if expr.name == "@type":
        return record.get("@type", str(expr.operand.type))
    return record["@" + expr.name] if expr.name in ("id", "src", "dst") else record.get(expr.name)


def _key(record: Mapping[str, Any]) -> tuple[Any, Any]:
    return record.get("@type"), record["@id"]
