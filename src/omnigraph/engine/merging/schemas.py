"""Which schema the merged state has: that of the side that changed it, if only one did."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from omnigraph.engine.merging.conflicts import Conflict, ConflictKind
from omnigraph.engine.view import View
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.schema.codec import encode_catalog
from omnigraph.schema.diff import plan_migration

Side: TypeAlias = Literal["ours", "theirs"]


@dataclass(frozen=True, slots=True)
class Divergent:
    """Both sides changed the schema, and not alike."""

    conflicts: tuple[Conflict, ...]


def schema_side(base: View, ours: View, theirs: View) -> Side | Divergent:
    """Whose schema the merged state has."""
    ids = [view.snapshot.manifest.schema.id for view in (base, ours, theirs)]
    if ids[2] in (ids[0], ids[1]):
        return "ours"
    if ids[0] == ids[1]:
        return "theirs"
    if encode_catalog(ours.catalog) == encode_catalog(theirs.catalog) and _paths(ours) == _paths(theirs):
        return "ours"
    return Divergent(tuple(_told(ours.catalog, theirs.catalog)) or (_made_twice(ours),))


def _paths(view: View) -> dict[str, str]:
    return {key: pin.path for key, pin in view.snapshot.pins.items()}


def _told(ours: Catalog, theirs: Catalog) -> list[Conflict]:
    return [
        Conflict(
            kind=ConflictKind.SCHEMA_DIVERGENCE,
            table=step.table or step.type,
            property=step.property_name,
            message=f"both sides changed the schema. To get from ours to theirs: {step.message}",
        )
        for step in plan_migration(ours, theirs).steps
    ]


def _made_twice(ours: View) -> Conflict:
    return Conflict(
        kind=ConflictKind.SCHEMA_DIVERGENCE,
        table=next(iter(ours.snapshot.pins), ""),
        message="both sides changed the schema in the same way, each for itself; change it on one and merge that first",
    )


def dropped_but_changed(type_: AnyType, dropper: str, changer: str) -> Conflict:
    """A type that one side dropped, while the other one wrote to it."""
    return Conflict(
        kind=ConflictKind.SCHEMA_DIVERGENCE,
        table=type_.table_key,
        message=f"`{dropper}` dropped {type_.name}, and `{changer}` changed rows of it",
    )


def lost_property(type_: AnyType, name: str, dropper: str, changer: str) -> Conflict:
    """A property that one side dropped, while the other one gave it values."""
    return Conflict(
        kind=ConflictKind.SCHEMA_DIVERGENCE,
        table=type_.table_key,
        property=name,
        message=f"`{dropper}` dropped {type_.name}.{name}, and `{changer}` gave it values",
    )


def types_of(catalog: Catalog) -> list[AnyType]:
    """All types with a table."""
    return [*catalog.nodes.values(), *catalog.edges.values()]


def rules_differ(type_: AnyType, merged: Catalog, other: Catalog) -> bool:
    """Whether rows of a type that fit the other schema have to be looked at, and perhaps reshaped, to fit this one."""
    known: dict[int, AnyType] = {one.identity: one for one in types_of(other)}
    if known.get(type_.identity) != type_:
        return True
    return any(
        edge.source == type_.name
        and edge.cardinality.low > 0
        and _cardinality(known.get(edge.identity)) != str(edge.cardinality)
        for edge in merged.edges.values()
    )


def _cardinality(edge: AnyType | None) -> str | None:
    return str(edge.cardinality) if isinstance(edge, EdgeType) else None
