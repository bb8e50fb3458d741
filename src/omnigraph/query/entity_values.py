"""Typed expressions of whole nodes and edges that are chosen among several, by `coalesce`, `case` or a union."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.lang.source import Span
from omnigraph.query.expr_types import EdgeRef, EntityType, NodeRef, ShapedType
from omnigraph.query.plan_checks import require

if TYPE_CHECKING:
    from omnigraph.query.expr import Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class United:
    """A whole node or edge as a row of a union of types, of which its own type is a part."""

    operand: "Expr"
    type: EntityType
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(isinstance(self.operand.type, NodeRef | EdgeRef), f"{self.operand.type} is no node or edge")

    @property
    def nullable(self) -> bool:
        """Whether it can be null: the operand can be."""
        return self.operand.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The null of a type that no property can store: no node, no edge, no list of them."""

    type: ShapedType
    origin: Span = field(compare=False, repr=False)

    @property
    def nullable(self) -> bool:
        """Whether it can be null: it is."""
        return True
