"""The variables that are visible at one place of a Cypher statement, and what reads them in the logical plan."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from omnigraph.lang.source import Span
from omnigraph.query.expr import EdgeRef, Entity, Expr, ExprType, Identity, NodeRef, Prop, ValueRef
from omnigraph.query.logical_plan import GENERATED_PREFIX
from omnigraph.query.union_types import TYPE_COLUMN, build_meta_value, is_union, list_object_fields, resolve_types
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.types import Scalar, VectorOf


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityVariable:
    """A variable of nodes or relationships, and its name in the plan."""

    name: str
    type: NodeRef | EdgeRef
    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedVariable:
    """A variable that stands for an expression: a column before it, a path, the relationships of a path."""

    value: Expr
    path: "PathValue | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathValue:
    """The nodes and relationships of a path with a fixed number of hops."""

    nodes: tuple[Expr, ...]
    relationships: tuple[Expr, ...]


CypherVariable: TypeAlias = EntityVariable | ComputedVariable


class FreshNames:
    """Names for the variables of a plan: each is given once, so that inner blocks never bind an outer name again."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._given: set[str] = set()

    def choose(self, name: str | None = None) -> str:
        """Return the name itself where it is free, or one that no user can write."""
        # DuckDB compares names without case.
        if name is not None and name.lower() not in self._given and not name.startswith(GENERATED_PREFIX):
            self._given.add(name.lower())
            return name
        return f"{GENERATED_PREFIX}{name or 'c'}{next(self._numbers)}"


@dataclass(frozen=True, slots=True)
class CypherScope:
    """The variables of one place, by their name in the statement."""

    catalog: Catalog
    variables: Mapping[str, CypherVariable] = field(default_factory=dict)

    def add(self, name: str, variable: CypherVariable) -> "CypherScope":
        """Return the scope with one more variable."""
        return replace(self, variables={**self.variables, name: variable})

    def find(self, name: str) -> CypherVariable | None:
        """Return the variable of this name, or None."""
        return self.variables.get(name)

    def iter_entities(self) -> Iterator[EntityVariable]:
        """Yield the variables of nodes and relationships."""
        for variable in self.variables.values():
            if isinstance(variable, EntityVariable):
                yield variable

    def read(self, variable: CypherVariable, origin: Span) -> Expr:
        """Return the value of a variable: a whole node or relationship, or what it stands for."""
        match variable:
            case EntityVariable():
                return build_whole(self.catalog, variable, origin)
            case ComputedVariable(value=value):
                return value


def build_whole(catalog: Catalog, variable: EntityVariable, origin: Span) -> Entity:
    """Return the expression of a whole node or relationship with all properties that are neither Blob nor Vector."""
    properties = resolve_types(catalog, variable.type.name)[0].properties
    # A union has what any of its types has, but for names that have two types.
    fields: list[Prop] = []
    if is_union(variable.type.name):
        properties = list_object_fields(catalog, variable.type.name)
        fields.append(build_meta_value(variable.name, TYPE_COLUMN, origin))
    for each in properties:
        if not isinstance(each.type, VectorOf) and each.type != Scalar.BLOB:
            prop = Prop(variable=variable.name, name=each.name, type=each.type, nullable=each.nullable, origin=origin)
            fields.append(prop)
    return Entity(
        variable=variable.name, type=variable.type, fields=tuple(fields), nullable=variable.nullable, origin=origin
    )


def build_identity_of(variable: EntityVariable, origin: Span) -> Identity:
    """Return what tells the rows of a variable apart."""
    return Identity(variable=variable.name, nullable=variable.nullable, origin=origin)


def build_column_variable(name: str, type_: ExprType, *, nullable: bool, origin: Span) -> CypherVariable:
    """Return the variable that a column of an earlier stage becomes."""
    if isinstance(type_, NodeRef | EdgeRef):
        return EntityVariable(name=name, type=type_, nullable=nullable)
    return ComputedVariable(value=ValueRef(variable=name, type=type_, nullable=nullable, origin=origin))
