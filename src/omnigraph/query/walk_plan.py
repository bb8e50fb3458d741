"""Walks in the logical plan: which walks a path variable is bound to."""

from dataclasses import dataclass, field
from enum import Enum

from omnigraph.lang.source import Span
from omnigraph.query.expr import Expr, FieldRef, NodeRef, ValueRef, WalkOf, require
from omnigraph.query.expr_types import WALK_COST, WALK_EDGES, WALK_KEY, WALK_LENGTH, WALK_NODES, ExprType
from omnigraph.schema.types import Scalar

# What the functions of a walk read.
WALK_FUNCTIONS = {"length": WALK_LENGTH, "cost": WALK_COST, "nodes": WALK_NODES, "edges": WALK_EDGES}


class WalkKind(Enum):
    """Which walks a path variable is bound to; the value is the keyword."""

    PATH = "path"
    """Every walk without a repeated edge."""
    SHORTEST = "shortest"
    """For each pair of ends, the shortest walk; of several, the smallest by node ids, then edge ids."""
    ALL_SHORTEST = "all_shortest"
    """For each pair of ends, all shortest walks."""
    CHEAPEST = "cheapest"
    """For each pair of ends, the walk with the smallest sum of weights, then with the fewest edges, then ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkBinding:
    """A path variable of a hop; `weight` is read of each edge for the cheapest walk.

    `of` is the type of the nodes that the edges of the hop connect, where the walk is a part of a path whose nodes have
    other types too.
    """

    variable: str
    kind: WalkKind
    type: WalkOf
    of: NodeRef | None = None
    weight: Expr | None = None
    # The text of the weight, for messages.
    text: str = field(compare=False, repr=False, default="")
    origin: Span = field(compare=False, repr=False)

    @property
    def searched(self) -> NodeRef:
        """The type of the nodes among which walks are searched."""
        element = self.type.nodes.element if self.of is None else self.of
        if not isinstance(element, NodeRef):
            msg = f"the nodes of a walk are {element}"
            raise ValueError(msg)  # noqa: TRY004  every invalid node of the plan is a ValueError
        return element

    def __post_init__(self) -> None:
        has_weight = self.weight is not None
        require(has_weight == (self.kind is WalkKind.CHEAPEST), "only the cheapest walk has weights")
        require(has_weight == (self.type.cost is not None), "a walk has a cost if it has weights")
        if self.weight is not None:
            is_number = isinstance(self.weight.type, Scalar) and self.weight.type.is_numeric
            require(is_number, f"a weight is a number, not {self.weight.type}")


def read_walk(variable: str, type_: WalkOf, part: str, origin: Span, *, nullable: bool = False) -> FieldRef:
    """Return the expression of a part of a walk."""
    walk = ValueRef(variable=variable, type=type_, nullable=nullable, origin=origin)
    return read_part(walk, part)


def read_part(walk: Expr, part: str) -> FieldRef:
    """Return the expression of a part of a walk: its nodes, edges, length, cost, or the key that orders walks."""
    assert isinstance(walk.type, WalkOf)  # noqa: S101 - callers check it
    type_: ExprType | None = walk.type.find_field(part)
    assert type_ is not None  # noqa: S101 - callers check it
    return FieldRef(operand=walk, name=part, type=type_, nullable=walk.nullable, origin=walk.origin)


def get_cost_type(weight: Expr) -> Scalar:
    """Return the type of the sum of weights: I64 for integers, else F64."""
    is_integer = isinstance(weight.type, Scalar) and weight.type.is_integer
    return Scalar.I64 if is_integer else Scalar.F64


__all__ = ["WALK_FUNCTIONS", "WALK_KEY", "WalkBinding", "WalkKind", "get_cost_type", "read_part", "read_walk"]
