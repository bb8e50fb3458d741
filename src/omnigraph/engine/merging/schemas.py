"""Which schema the merged state has: what each side made of the base's, together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from omnigraph.commit.records import SchemaRecord
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind
from omnigraph.engine.merging.crossing import Crossed, Ground
from omnigraph.engine.view import View
from omnigraph.schema.aliases import Aliases, joined_aliases, renumbered
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.schema.codec import encode_catalog, fingerprint
from omnigraph.schema.merging import MergedSchema, merge_schemas
from omnigraph.schema.merging_types import Divergence, Names

Side: TypeAlias = Literal["ours", "theirs"]


@dataclass(frozen=True, slots=True)
class Divergent:
    """Both sides changed the schema, and something of it not alike."""

    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The schema of the merged state, and the three states with identities that mean the same in all."""

    catalog: Catalog
    record: SchemaRecord
    base: View
    ours: View
    theirs: View
    same: Aliases

    def renumbered(self, view: View) -> View:
        """Another state with such identities."""
        return _renumbered(view, self.same)


def agreed_schema(
    base: View, ours: View, theirs: View, names: Mapping[Side, str], new_id: Callable[[], str]
) -> Agreed | Divergent:
    """The schema of the merged state: that of one side if the other left it as it was, else of both together."""
    records = [view.snapshot.manifest.schema for view in (base, ours, theirs)]
    before, mine, others = records
    same = joined_aliases(*(record.same for record in records))
    views = [_renumbered(view, same) for view in (base, ours, theirs)]
    if others.id in (before.id, mine.id):
        return Agreed(catalog=views[1].catalog, record=mine, base=views[0], ours=views[1], theirs=views[2], same=same)
    if before.id == mine.id:
        return Agreed(catalog=views[2].catalog, record=others, base=views[0], ours=views[1], theirs=views[2], same=same)
    first, one, other = (view.catalog for view in views)
    found = merge_schemas(first, one, other, Names(names["ours"], names["theirs"]))
    if not isinstance(found, MergedSchema):
        return Divergent(tuple(map(_told, found)))
    same = joined_aliases(same, found.same)
    views = [_renumbered(view, same) for view in views]
    return Agreed(
        catalog=found.catalog,
        record=_record(found, same, (mine, others), new_id),
        base=views[0],
        ours=views[1],
        theirs=views[2],
        same=same,
    )


def several_schemas(ground: Crossed, agreed: Callable[[View], Agreed | Divergent]) -> Agreed | Divergent:
    """The schema of the merged state where there are several bases; `agreed` gives that from one of them.

    That is the base with the schema that all have together. If there is none, all have to give the same.
    """
    chosen = _with_schema_of_all(ground)
    if chosen is not None:
        return agreed(chosen)
    by_schema = {_schema_id(state): state for state in reversed(ground.states)}
    found = [agreed(state) for state in reversed(by_schema.values())]
    catalogs = [one.catalog for one in found if isinstance(one, Agreed)]
    for one in found:
        if isinstance(one, Divergent):
            return one
    if any(catalog != catalogs[0] for catalog in catalogs):
        message = (
            "the branches were merged crosswise under several schemas: which of them changed it since is not known"
        )
        return Divergent((Conflict(kind=ConflictKind.SCHEMA_DIVERGENCE, table="schema", message=message),))
    return found[0]


def _with_schema_of_all(ground: Ground) -> View | None:
    """That of the states whose schema the others have, or had before it was changed; None if there is none."""
    if isinstance(ground, View):
        return ground
    first, second = _with_schema_of_all(ground.first), ground.second
    if first is None or _schema_id(first) == _schema_id(second):
        return first
    below = None if ground.below is None else _with_schema_of_all(ground.below)
    if below is None:
        return None
    if _schema_id(second) == _schema_id(below):
        return first
    return second if _schema_id(first) == _schema_id(below) else None


def _schema_id(view: View) -> str:
    return view.snapshot.manifest.schema.id


def _renumbered(view: View, same: Aliases) -> View:
    return View(renumbered(view.catalog, same), view.tables) if same else view


def _record(
    found: MergedSchema, same: Aliases, known: tuple[SchemaRecord, ...], new_id: Callable[[], str]
) -> SchemaRecord:
    """The record of a merged schema: that of a side which has all of it, or a new one."""
    catalog = encode_catalog(found.catalog).decode()
    for record in known:
        if record.catalog == catalog and record.same == same:
            return record
    return SchemaRecord(
        id=new_id(), source=found.text, catalog=catalog, fingerprint=fingerprint(found.catalog), same=same
    )


def _told(divergence: Divergence) -> Conflict:
    return Conflict(
        kind=ConflictKind.SCHEMA_DIVERGENCE,
        table=divergence.table,
        property=divergence.property,
        message=divergence.message,
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
