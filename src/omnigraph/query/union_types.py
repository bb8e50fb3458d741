"""Unions of node types and of edge types: the types of variables that can have several types.

A union is used wherever a single type is. Its name joins the names of its members (`Company|Person`), which no type in
a schema can be called; its rows are those of all members, and what identifies a row is its type and its id.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omnigraph.lang.source import Span
from omnigraph.query.expr import EdgeRef, Entity, Expr, FieldRef, Identity, NodeRef, Prop, require
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType, Property
from omnigraph.schema.types import EnumOf, Scalar, ValueType

SEPARATOR = "|"
# The columns of a union that are values of their own, as `$x.@type` and `$x.@id` read them. No property has such names.
TYPE_COLUMN = "@type"
ID_COLUMN = "id"


@dataclass(frozen=True, slots=True)
class NodeUnion(NodeRef):
    """The type of a node variable with two or more types, in the order of their names."""

    members: tuple[str, ...]

    def __post_init__(self) -> None:
        require(len(self.members) > 1 and tuple(sorted(set(self.members))) == self.members, "members are sorted")
        require(self.name == SEPARATOR.join(self.members), "the name of a union joins those of its members")


@dataclass(frozen=True, slots=True)
class EdgeUnion(EdgeRef):
    """The type of an edge variable with two or more types, in the order of their names."""

    members: tuple[EdgeRef, ...]

    def __post_init__(self) -> None:
        names = tuple(member.name for member in self.members)
        require(len(names) > 1 and tuple(sorted(set(names))) == names, "members are sorted")
        require(self.name == SEPARATOR.join(names), "the name of a union joins those of its members")


def unite_nodes(names: Iterable[str]) -> NodeRef:
    """Return the union of node types; a single one stays as it is."""
    # Sorted, so that one set of types has one name, however the query lists them.
    members = tuple(sorted(set(names)))
    return NodeRef(members[0]) if len(members) == 1 else NodeUnion(SEPARATOR.join(members), members)


def unite_edges(edges: Iterable[EdgeRef]) -> EdgeRef:
    """Return the union of edge types; a single one stays as it is."""
    members = tuple(sorted(set(edges), key=lambda edge: edge.name))
    if len(members) == 1:
        return members[0]
    name = SEPARATOR.join(member.name for member in members)
    source = unite_nodes(member.source for member in members).name
    target = unite_nodes(member.target for member in members).name
    return EdgeUnion(name, source, target, members)


def unite_types(types: Sequence[object]) -> NodeRef | EdgeRef | None:
    """Return the union of the types of nodes, or of edges, unions included; None if there are others among them."""
    nodes = [type_ for type_ in types if isinstance(type_, NodeRef)]
    if len(nodes) == len(types):
        return unite_nodes(member for node in nodes for member in list_members(node.name))
    edges = [type_ for type_ in types if isinstance(type_, EdgeRef)]
    if len(edges) < len(types):
        return None
    return unite_edges(
        member for edge in edges for member in (edge.members if isinstance(edge, EdgeUnion) else (edge,))
    )


def is_part(type_: object, whole: object) -> bool:
    """Return whether all rows of a type are rows of another one: it is the same, or a part of that union."""
    return type_ == whole or unite_types((type_, whole)) == whole


def list_members(name: str) -> tuple[str, ...]:
    """Return the names of the types that the name of a type or union stands for."""
    return tuple(name.split(SEPARATOR))


def is_union(name: str) -> bool:
    """Return whether a name is that of a union."""
    return SEPARATOR in name


def resolve_types(catalog: Catalog, name: str) -> tuple[AnyType, ...]:
    """Return the catalog's entries of a type or of all members of a union.

    Raises:
        KeyError: The catalog has no such type.
    """
    types = []
    for member in list_members(name):
        declared = catalog.find_type(member)
        if declared is None:
            raise KeyError(member)
        types.append(declared)
    return tuple(types)


def find_table_type(catalog: Catalog, name: str) -> AnyType:
    """Return the catalog's entry of a type, or one for a union: with the properties that every member has.

    Raises:
        KeyError: The catalog has no such type.
    """
    types = resolve_types(catalog, name)
    if len(types) == 1:
        return types[0]
    properties = tuple(_find_shared_properties(types))
    first = types[0]
    # A union never mixes nodes and edges.
    if isinstance(first, NodeType):
        return NodeType(name=name, properties=properties)
    edges = [type_ for type_ in types if isinstance(type_, EdgeType)]
    source = unite_nodes(edge.source for edge in edges).name
    target = unite_nodes(edge.target for edge in edges).name
    return EdgeType(name=name, properties=properties, source=source, target=target)


def _find_shared_properties(types: Sequence[AnyType]) -> Iterable[Property]:
    """Yield the properties that every type has, with one type, in the order of the first type."""
    for declared in types[0].properties:
        others = [type_.find_property(declared.name) for type_ in types[1:]]
        if all(other is not None and other.type == declared.type for other in others):
            nullable = declared.nullable or any(other is not None and other.nullable for other in others)
            # A metric that differs is found by `nearest`, and a language by each search of its own member.
            yield Property(name=declared.name, type=declared.type, nullable=nullable, metric=declared.metric)


def list_object_fields(catalog: Catalog, name: str) -> tuple[Property, ...]:
    """Return the fields of a union's rows as whole objects: what any member has, null for rows of the others.

    Numbers of different types get a common one, and enums become texts. A name whose types have nothing in common is
    left out.
    """
    types = resolve_types(catalog, name)
    fields = []
    for field in dict.fromkeys(declared.name for type_ in types for declared in type_.properties):
        declared = [type_.find_property(field) for type_ in types]
        present = [prop for prop in declared if prop is not None]
        common = unite_value_types([prop.type for prop in present])
        if common is not None:
            nullable = len(present) < len(types) or any(prop.nullable for prop in present)
            fields.append(Property(name=field, type=common, nullable=nullable))
    return tuple(fields)


def unite_value_types(types: Sequence[ValueType]) -> ValueType | None:
    """Return the type that holds values of all these types: the only one, I64, F64 or String; None if there is none."""
    if all(type_ == types[0] for type_ in types):
        return types[0]
    if all(isinstance(type_, EnumOf) or type_ is Scalar.STRING for type_ in types):
        return Scalar.STRING
    scalars = [type_ for type_ in types if isinstance(type_, Scalar)]
    if len(scalars) < len(types) or not all(scalar.is_numeric for scalar in scalars):
        return None
    # I64 can't hold every U64.
    if all(scalar.is_integer and scalar is not Scalar.U64 for scalar in scalars):
        return Scalar.I64
    return Scalar.F64


def build_meta_value(variable: str, name: str, origin: Span, *, nullable: bool = False) -> Prop:
    """Build `$x.@id` or `$x.@type` of a union: a value, unlike an `Identity`, which tells rows apart."""
    return Prop(variable=variable, name=name, type=Scalar.STRING, nullable=nullable, origin=origin)


def list_identity_fields(node: Expr) -> tuple[FieldRef, FieldRef]:
    """Return the type and the id of a node or edge that is no variable."""
    type_value, id_value = (
        FieldRef(operand=node, name=name, type=Scalar.STRING, nullable=node.nullable, origin=node.origin)
        for name in (TYPE_COLUMN, ID_COLUMN)
    )
    return type_value, id_value


def list_identities(entity: Entity) -> tuple[Expr, ...]:
    """Return the expressions that are decided by a whole node or edge: its identity, and of a union its id and type."""
    # Rows of different members may have the same id, so of a union the id alone decides nothing.
    identity = Identity(variable=entity.variable, nullable=entity.nullable, origin=entity.origin)
    if not is_union(entity.type.name):
        return (identity,)
    id_value, type_value = (
        build_meta_value(entity.variable, name, entity.origin, nullable=entity.nullable)
        for name in (ID_COLUMN, TYPE_COLUMN)
    )
    return (identity, id_value, type_value)
