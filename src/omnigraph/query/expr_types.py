"""The types of expressions: those of values, and those of results that no property can store."""

from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.schema.types import ValueType


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


# A whole node or edge is an expression, but not a value: it can't be compared or aggregated except by its identity.
# Neither are records and lists of such: they shape results.
ShapedType: TypeAlias = NodeRef | EdgeRef | RecordOf | ArrayOf
ExprType: TypeAlias = ValueType | ShapedType
