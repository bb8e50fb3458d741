"""Which schema the merged state has: what each side made of the base's, together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from omnigraph.commit.manifest_types import SchemaRecord
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind
from omnigraph.engine.merging.criss_cross_base import CrissCrossBase, MergeBase
from omnigraph.engine.view import View
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.schema.catalog_codec import compute_fingerprint, encode_catalog
from omnigraph.schema.catalog_printer import format_property_declaration, format_type_declaration
from omnigraph.schema.identity import Aliases, join_aliases, renumber_catalog
from omnigraph.schema.schema_merge import MergedSchema, merge_schemas
from omnigraph.schema.type_merge import SchemaConflict, SideNames

Side: TypeAlias = Literal["ours", "theirs"]


@dataclass(frozen=True, slots=True)
class SchemaConflicts:
    """Both sides changed the schema, and something of it not alike."""

    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaAgreement:
    """The schema of the merged state, and the three states with identities that mean the same in all."""

    catalog: Catalog
    record: SchemaRecord
    base: View
    ours: View
    theirs: View
    same: Aliases

    def renumber(self, view: View) -> View:
        """Another state with such identities."""
        return _renumber(view, self.same)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseSchema:
    """What the schemas of both sides have grown from."""

    catalog: Catalog
    source: str
    same: Aliases
    id: str | None
    """None for one that nobody accepted: several bases have it together."""

    @classmethod
    def from_view(cls, view: View) -> "BaseSchema":
        """The schema of a state."""
        record = view.snapshot.manifest.schema
        return cls(catalog=view.catalog, source=record.source, same=record.same, id=record.id)


def agree_on_schema(
    bases: tuple[View, BaseSchema], ours: View, theirs: View, names: Mapping[Side, str], new_id: Callable[[], str]
) -> SchemaAgreement | SchemaConflicts:
    """The schema of the merged state: that of one side if the other left it as it was, else of both together.

    `bases` are the base and its schema; of several, one of them and what they have together.
    """
    base, before = bases
    mine, others = (view.snapshot.manifest.schema for view in (ours, theirs))
    same = join_aliases(before.same, mine.same, others.same)
    views = [_renumber(view, same) for view in (base, ours, theirs)]
    if others.id in (before.id, mine.id):
        return SchemaAgreement(
            catalog=views[1].catalog, record=mine, base=views[0], ours=views[1], theirs=views[2], same=same
        )
    if before.id == mine.id:
        return SchemaAgreement(
            catalog=views[2].catalog, record=others, base=views[0], ours=views[1], theirs=views[2], same=same
        )
    first, mine_now, theirs_now = renumber_catalog(before.catalog, same), views[1].catalog, views[2].catalog
    sources = before.source, mine.source, others.source
    found = merge_schemas(first, mine_now, theirs_now, SideNames(names["ours"], names["theirs"]), sources)
    if not isinstance(found, MergedSchema):
        return SchemaConflicts(tuple(_build_conflict(one, (first, mine_now, theirs_now)) for one in found))
    same = join_aliases(same, found.aliases)
    views = [_renumber(view, same) for view in views]
    return SchemaAgreement(
        catalog=found.catalog,
        record=_build_record(found, same, (mine, others), new_id),
        base=views[0],
        ours=views[1],
        theirs=views[2],
        same=same,
    )


def agree_on_criss_cross_schema(
    ground: CrissCrossBase, agreed: Callable[[tuple[View, BaseSchema]], SchemaAgreement | SchemaConflicts]
) -> SchemaAgreement | SchemaConflicts:
    """The schema of the merged state where there are several bases; `agreed` gives that from one of them.

    What they have grown from is the schema that all have together. If there is none, all have to give the same.
    """
    chosen = _merge_base_schemas(ground)
    if chosen is not None:
        return agreed((ground.states[0], chosen))
    by_schema = {_get_schema_id(state): state for state in reversed(ground.states)}
    found = [agreed((state, BaseSchema.from_view(state))) for state in reversed(by_schema.values())]
    catalogs = [one.catalog for one in found if isinstance(one, SchemaAgreement)]
    for one in found:
        if isinstance(one, SchemaConflicts):
            return one
    if any(catalog != catalogs[0] for catalog in catalogs):
        message = (
            "the branches were merged crosswise under several schemas: which of them changed it since is not known"
        )
        return SchemaConflicts((Conflict(kind=ConflictKind.SCHEMA_DIVERGENCE, table="schema", message=message),))
    return found[0]


def _merge_base_schemas(ground: MergeBase) -> BaseSchema | None:
    """The schema that the states have together; None if that can't be told, or they don't agree."""
    if isinstance(ground, View):
        return BaseSchema.from_view(ground)
    first, second = _merge_base_schemas(ground.first), BaseSchema.from_view(ground.second)
    if first is None or first.id == second.id:
        return first
    below = None if ground.below is None else _merge_base_schemas(ground.below)
    if below is None:
        return None
    if second.id == below.id:
        return first
    if first.id is not None and first.id == below.id:
        return second
    same = join_aliases(below.same, first.same, second.same)
    states = below, first, second
    base, one, other = (renumber_catalog(state.catalog, same) for state in states)
    found = merge_schemas(base, one, other, SideNames("", ""), (below.source, first.source, second.source))
    if not isinstance(found, MergedSchema):
        return None
    return BaseSchema(catalog=found.catalog, source=found.text, same=join_aliases(same, found.aliases), id=None)


def _get_schema_id(view: View) -> str:
    return view.snapshot.manifest.schema.id


def _renumber(view: View, same: Aliases) -> View:
    return View(renumber_catalog(view.catalog, same), view.tables) if same else view


def _build_record(
    found: MergedSchema, same: Aliases, known: tuple[SchemaRecord, ...], new_id: Callable[[], str]
) -> SchemaRecord:
    """The record of a merged schema: that of a side which has all of it, or a new one."""
    catalog = encode_catalog(found.catalog).decode()
    for record in known:
        if record.catalog == catalog and record.same == same:
            return record
    return SchemaRecord(
        id=new_id(), source=found.text, catalog=catalog, fingerprint=compute_fingerprint(found.catalog), same=same
    )


def _build_conflict(divergence: SchemaConflict, catalogs: Sequence[Catalog]) -> Conflict:
    """A divergence, with how the base and both sides declare what it is about."""
    base, ours, theirs = find_declarations(catalogs, divergence.table, divergence.property)
    return Conflict(
        kind=ConflictKind.SCHEMA_DIVERGENCE,
        table=divergence.table,
        property=divergence.property,
        base=base,
        ours=ours,
        theirs=theirs,
        message=divergence.message,
    )


def build_dropped_type_conflict(type_: AnyType, dropper: str, changer: str, catalogs: Sequence[Catalog]) -> Conflict:
    """A type that one side dropped, while the other one wrote to it."""
    message = f"`{dropper}` dropped {type_.name}, and `{changer}` changed rows of it"
    return _build_conflict(SchemaConflict(table=type_.table_key, message=message), catalogs)


def build_dropped_property_conflict(
    type_: AnyType, name: str, dropper: str, changer: str, catalogs: Sequence[Catalog]
) -> Conflict:
    """A property that one side dropped, while the other one gave it values."""
    message = f"`{dropper}` dropped {type_.name}.{name}, and `{changer}` gave it values"
    return _build_conflict(SchemaConflict(table=type_.table_key, property=name, message=message), catalogs)


def find_declarations(catalogs: Sequence[Catalog], table: str, property_name: str | None) -> list[str | None]:
    """How each catalog declares a type or property, whatever it is called there; None where it has none."""
    name = table.partition(":")[2]
    if not name:
        found = [catalog.interfaces.get(table) for catalog in catalogs]
        return [None if one is None else format_type_declaration(one) for one in found]
    types = [catalog.find_type(name) for catalog in catalogs]
    identities = {one.identity for one in types if one is not None}
    types = [
        one or next((other for other in list_types(catalog) if other.identity in identities), None)
        for one, catalog in zip(types, catalogs, strict=True)
    ]
    if property_name is None:
        return [None if one is None else format_type_declaration(one) for one in types]
    known = [None if one is None else one.find_property(property_name) for one in types]
    same = {p.identity for p in known if p is not None}
    told: list[str | None] = []
    for type_, p in zip(types, known, strict=True):
        twin = p or next((q for q in (type_.properties if type_ else ()) if q.identity in same), None)
        told.append(None if type_ is None or twin is None else format_property_declaration(type_, twin))
    return told


def list_types(catalog: Catalog) -> list[AnyType]:
    """All types with a table."""
    return [*catalog.nodes.values(), *catalog.edges.values()]


def has_different_rules(type_: AnyType, merged: Catalog, other: Catalog) -> bool:
    """Whether rows of a type that fit the other schema have to be looked at, and perhaps reshaped, to fit this one."""
    known: dict[int, AnyType] = {one.identity: one for one in list_types(other)}
    if known.get(type_.identity) != type_:
        return True
    return any(
        edge.source == type_.name
        and edge.cardinality.low > 0
        and _format_cardinality(known.get(edge.identity)) != str(edge.cardinality)
        for edge in merged.edges.values()
    )


def _format_cardinality(edge: AnyType | None) -> str | None:
    return str(edge.cardinality) if isinstance(edge, EdgeType) else None
