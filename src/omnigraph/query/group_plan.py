"""The columns of a read, and its groups."""

from dataclasses import dataclass

from omnigraph.query.expr import Aggregate, EdgeRef, Expr, NodeRef, ShapedType, WalkOf, Window, require
from omnigraph.query.expr_tree import walk
from omnigraph.schema.types import is_scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputColumn:
    """An output column: its name and the expression that computes it."""

    name: str
    value: Expr


def is_compared(value: Expr) -> bool:
    """Return whether a column tells rows apart as a group key or with `distinct`: aggregates, lists and records don't.

    Whole nodes, edges and walks are compared by their identity.
    """
    if any(isinstance(part, Aggregate) for part in walk(value)):
        return False
    if isinstance(value.type, ShapedType):
        return isinstance(value.type, NodeRef | EdgeRef | WalkOf)
    return is_scalar(value.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A grouping: one row per distinct combination of `keys`, where null equals null; without keys, exactly one row.

    `aggregates` are all aggregates of output and order, without duplicates. Output, order and ties consist of keys and
    aggregates, which are found by equality.
    """

    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        require(bool(self.aggregates), "a grouping without an aggregate is `distinct`")
        arguments = (argument for aggregate in self.aggregates for argument in aggregate.children)
        is_nested = any(isinstance(part, Aggregate | Window) for argument in arguments for part in walk(argument))
        require(not is_nested, "an aggregate inside an aggregate")
        require(len(set(self.keys)) == len(self.keys), "a group key is repeated")
        require(len(set(self.aggregates)) == len(self.aggregates), "an aggregate is repeated")
