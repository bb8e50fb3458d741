"""The types of expressions: those of values, and those of results that no property can store."""

from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.schema.types import Scalar, ValueType

# The variable of the current row in the conditions of an update, a delete or a hop; no user can write such a name.
ROW = "#row"


@dataclass(frozen=True, slots=True)
class NodeRef:
    """The type of a node variable."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class EdgeRef:
    """The type of an edge variable, with the node types at its stored ends."""

    name: str
    source: str
    target: str

    def __str__(self) -> str:
        return self.name


EntityType: TypeAlias = NodeRef | EdgeRef


@dataclass(frozen=True, slots=True)
class RecordOf:
    """The type of a record, which shapes a result: names and types of its fields, in order.

    Fields that are not `required` may be null, which does not make it another type.
    """

    fields: tuple[tuple[str, "ExprType"], ...]
    required: frozenset[str] = field(default=frozenset(), compare=False)

    def __str__(self) -> str:
        marks = {name: "" if name in self.required else "?" for name, _ in self.fields}
        return "{" + ", ".join(f"{name}: {type_}{marks[name]}" for name, type_ in self.fields) + "}"

    def find_field(self, name: str) -> "ExprType | None":
        """Return the type of a field; None if there is none of this name."""
        return dict(self.fields).get(name)


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """The type of a list that no property can store: of nodes, edges, records or lists."""

    element: "ExprType"

    def __str__(self) -> str:
        return f"[{self.element}]"


@dataclass(frozen=True, slots=True)
class WalkOf(RecordOf):
    """The type of a path variable: a record of the nodes and edges of a walk, and its cost if it has weights.

    The cost is read by `cost($w)`; it is no part of the record that a result shows.
    """

    cost: ValueType | None = None

    @property
    def nodes(self) -> "ArrayOf":
        """The type of the list of its nodes."""
        return self._get_list(WALK_NODES)

    @property
    def edges(self) -> "ArrayOf":
        """The type of the list of its edges."""
        return self._get_list(WALK_EDGES)

    def _get_list(self, name: str) -> "ArrayOf":
        type_ = dict(self.fields)[name]
        if not isinstance(type_, ArrayOf):
            msg = f"the {name} of a walk are {type_}"
            raise ValueError(msg)  # noqa: TRY004  every invalid node of the plan is a ValueError
        return type_

    def find_field(self, name: str) -> "ExprType | None":
        """Return the type of a field, also of one that is calculated; None if there is none of this name."""
        calculated = {WALK_COST: self.cost, WALK_LENGTH: Scalar.I64, WALK_KEY: Scalar.STRING}
        return calculated[name] if name in calculated else dict(self.fields).get(name)


WALK_NODES = "nodes"
WALK_EDGES = "edges"
WALK_COST = "cost"
# The number of edges.
WALK_LENGTH = "length"
# A text that orders walks by their node ids, then their edge ids, and is equal for equal walks.
WALK_KEY = "key"


def build_walk_type(node: NodeRef, edge: EdgeRef, cost: ValueType | None = None) -> WalkOf:
    """Return the type of walks over the edges of a type, or of a union of types."""
    fields = ((WALK_NODES, ArrayOf(node)), (WALK_EDGES, ArrayOf(edge)))
    return WalkOf(fields, frozenset({WALK_NODES, WALK_EDGES}), cost)


# A whole node or edge is an expression, but not a value: it can't be compared or aggregated except by its identity.
# Neither are records and lists of such: they shape results.
ShapedType: TypeAlias = NodeRef | EdgeRef | RecordOf | ArrayOf
ExprType: TypeAlias = ValueType | ShapedType
