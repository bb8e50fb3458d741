"""The nodes and relationships of one `MATCH` on their way into the plan."""

from dataclasses import dataclass, field

from omnigraph.lang.cypher import tree
from omnigraph.query.cypher.scope import EntityVariable
from omnigraph.query.expr import (
    Expr,
    NodeRef,
)
from omnigraph.query.logical_plan import (
    HopMember,
)
from omnigraph.query.union_types import unite_nodes


@dataclass
class PatternNode:
    """A node of a pattern: its types so far, and the variable if it is bound already."""

    key: str
    pattern: tree.NodePattern
    types: frozenset[str]
    labelled: frozenset[str]
    """The types that its labels allow, whatever its hops do."""
    bound: EntityVariable | None = None
    name: str = ""

    @property
    def type(self) -> NodeRef:
        """The type of its variable in the plan."""
        if self.bound is not None:
            assert isinstance(self.bound.type, NodeRef)  # noqa: S101 - checked when it was drafted
            return self.bound.type
        return unite_nodes(self.types)


@dataclass
class PatternHop:
    """A relationship of a pattern, between two nodes, and the ways in which it can be followed."""

    pattern: tree.RelationshipPattern
    kind: tree.PathKind
    left: PatternNode
    right: PatternNode
    edges: frozenset[str]
    members: list[HopMember] = field(default_factory=list)
    value: Expr | None = None
    """The relationship, or the walk."""
    path: "tuple[list[PatternNode], list[PatternHop]] | None" = None
    """The nodes and hops of the named path of several hops that it is a part of."""

    @property
    def is_walk(self) -> bool:
        """Whether it is a walk of several relationships."""
        return self.pattern.length is not None or self.kind is not tree.PathKind.ALL
