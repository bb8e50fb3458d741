"""Three-way merge of the schemas of the base and both sides."""

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
    """The result of a schema merge that failed: both sides changed the schema, in contradictory ways."""

    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaAgreement:
    """The schema of the merged state, and the three states renumbered so that identities mean the same in all."""

    catalog: Catalog
    record: SchemaRecord
    base: View
    ours: View
    theirs: View
    same: Aliases

    def renumber(self, view: View) -> View:
        """Return a further state with the same identities."""
        return _renumber(view, self.same)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseSchema:
    """The common ancestor of both sides' schemas."""

    catalog: Catalog
    source: str
    same: Aliases
    id: str | None
    """None for a schema that was merged from those of several bases and never applied."""

    @classmethod
    def from_view(cls, view: View) -> "BaseSchema":
        """Return the schema of a state."""
        record = view.snapshot.manifest.schema
        return cls(catalog=view.catalog, source=record.source, same=record.same, id=record.id)


def agree_on_schema(
    bases: tuple[View, BaseSchema], ours: View, theirs: View, names: Mapping[Side, str], new_id: Callable[[], str]
) -> SchemaAgreement | SchemaConflicts:
    """Return the schema of the merged state: that of one side if the other did not change it, else both merged.

    `bases` are the base and its schema; of several bases, one of them and their merged schema.
    """
    base, base_schema = bases
    our_schema = ours.snapshot.manifest.schema
    their_schema = theirs.snapshot.manifest.schema
    same = join_aliases(base_schema.same, our_schema.same, their_schema.same)
    base, ours, theirs = (_renumber(view, same) for view in (base, ours, theirs))
    if their_schema.id in (base_schema.id, our_schema.id):
        return SchemaAgreement(catalog=ours.catalog, record=our_schema, base=base, ours=ours, theirs=theirs, same=same)
    if base_schema.id == our_schema.id:
        return SchemaAgreement(
            catalog=theirs.catalog, record=their_schema, base=base, ours=ours, theirs=theirs, same=same
        )
    catalogs = renumber_catalog(base_schema.catalog, same), ours.catalog, theirs.catalog
    sources = base_schema.source, our_schema.source, their_schema.source
    merged = merge_schemas(*catalogs, SideNames(names["ours"], names["theirs"]), sources)
    if not isinstance(merged, MergedSchema):
        return SchemaConflicts(tuple(_build_conflict(conflict, catalogs) for conflict in merged))
    # The merge identifies types that both sides added, so the views get renumbered once more.
    same = join_aliases(same, merged.aliases)
    return SchemaAgreement(
        catalog=merged.catalog,
        record=_build_record(merged, same, (our_schema, their_schema), new_id),
        base=_renumber(base, same),
        ours=_renumber(ours, same),
        theirs=_renumber(theirs, same),
        same=same,
    )


def agree_on_criss_cross_schema(
    base: CrissCrossBase, agree: Callable[[tuple[View, BaseSchema]], SchemaAgreement | SchemaConflicts]
) -> SchemaAgreement | SchemaConflicts:
    """Return the schema of the merged state where there are several bases; `agree` merges from one of them.

    The bases' schemas are merged first. If that fails, merging from each of them has to give the same schema.
    """
    base_schema = _merge_base_schemas(base)
    if base_schema is not None:
        return agree((base.states[0], base_schema))
    # Reversed twice: of the states with a schema the first one stays, and the order of the schemas too.
    by_schema = {_get_schema_id(state): state for state in reversed(base.states)}
    results = [agree((state, BaseSchema.from_view(state))) for state in reversed(by_schema.values())]
    for result in results:
        if isinstance(result, SchemaConflicts):
            return result
    catalogs = [result.catalog for result in results if isinstance(result, SchemaAgreement)]
    if any(catalog != catalogs[0] for catalog in catalogs):
        message = (
            "the branches were merged crosswise under several schemas,"
            " and it is not known which of them changed the schema since"
        )
        return SchemaConflicts((Conflict(kind=ConflictKind.SCHEMA_DIVERGENCE, table="schema", message=message),))
    return results[0]


def _merge_base_schemas(merge_base: MergeBase) -> BaseSchema | None:
    """Return the merged schema of all bases; None if they conflict or their own base is unknown."""
    if isinstance(merge_base, View):
        return BaseSchema.from_view(merge_base)
    first = _merge_base_schemas(merge_base.first)
    second = BaseSchema.from_view(merge_base.second)
    if first is None or first.id == second.id:
        return first
    below = None if merge_base.below is None else _merge_base_schemas(merge_base.below)
    if below is None:
        return None
    if second.id == below.id:
        return first
    # A merged schema has no id: two of them are not equal only because both have None.
    if first.id is not None and first.id == below.id:
        return second
    same = join_aliases(below.same, first.same, second.same)
    base, left, right = (renumber_catalog(schema.catalog, same) for schema in (below, first, second))
    # Conflicts are not reported from here, so the sides need no names.
    merged = merge_schemas(base, left, right, SideNames("", ""), (below.source, first.source, second.source))
    if not isinstance(merged, MergedSchema):
        return None
    return BaseSchema(catalog=merged.catalog, source=merged.text, same=join_aliases(same, merged.aliases), id=None)


def _get_schema_id(view: View) -> str:
    return view.snapshot.manifest.schema.id


def _renumber(view: View, same: Aliases) -> View:
    return View(renumber_catalog(view.catalog, same), view.tables) if same else view


def _build_record(
    merged: MergedSchema, same: Aliases, side_records: tuple[SchemaRecord, ...], new_id: Callable[[], str]
) -> SchemaRecord:
    """Return the record of a merged schema: that of a side with the same schema, or a new one."""
    catalog = encode_catalog(merged.catalog).decode()
    for record in side_records:
        if record.catalog == catalog and record.same == same:
            return record
    return SchemaRecord(
        id=new_id(), source=merged.text, catalog=catalog, fingerprint=compute_fingerprint(merged.catalog), same=same
    )


def _build_conflict(divergence: SchemaConflict, catalogs: Sequence[Catalog]) -> Conflict:
    """Return a divergence as a conflict, with the declarations of the base and both sides."""
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
    """Return the conflict for a type that one side dropped while the other wrote to it."""
    message = f"`{dropper}` dropped {type_.name}, and `{changer}` changed rows of it"
    return _build_conflict(SchemaConflict(table=type_.table_key, message=message), catalogs)


def build_dropped_property_conflict(
    type_: AnyType, name: str, dropper: str, changer: str, catalogs: Sequence[Catalog]
) -> Conflict:
    """Return the conflict for a property that one side dropped while the other gave it values."""
    message = f"`{dropper}` dropped {type_.name}.{name}, and `{changer}` gave it values"
    return _build_conflict(SchemaConflict(table=type_.table_key, property=name, message=message), catalogs)


def find_declarations(catalogs: Sequence[Catalog], table: str, property_name: str | None) -> list[str | None]:
    """Return the declaration of a type or property in each catalog, under any name; None where it has none."""
    name = table.partition(":")[2]
    # Without a colon it is no table key but the name of an interface.
    if not name:
        interfaces = [catalog.interfaces.get(table) for catalog in catalogs]
        return [None if interface is None else format_type_declaration(interface) for interface in interfaces]
    types = [catalog.find_type(name) for catalog in catalogs]
    identities = {type_.identity for type_ in types if type_ is not None}
    # A catalog without the name may have the same type under another one, with the same identity.
    types = [
        type_ or next((other for other in catalog.types if other.identity in identities), None)
        for type_, catalog in zip(types, catalogs, strict=True)
    ]
    if property_name is None:
        return [None if type_ is None else format_type_declaration(type_) for type_ in types]
    properties = [None if type_ is None else type_.find_property(property_name) for type_ in types]
    same = {p.identity for p in properties if p is not None}
    declarations: list[str | None] = []
    for type_, p in zip(types, properties, strict=True):
        twin = p or next((q for q in (type_.properties if type_ else ()) if q.identity in same), None)
        declarations.append(None if type_ is None or twin is None else format_property_declaration(type_, twin))
    return declarations


def has_different_rules(type_: AnyType, merged: Catalog, other: Catalog) -> bool:
    """Return whether rows that are valid under the other schema must be checked, and perhaps reshaped, for `merged`."""
    other_types: dict[int, AnyType] = {other_type.identity: other_type for other_type in other.types}
    if other_types.get(type_.identity) != type_:
        return True
    # A minimum number of edges is declared by the edge type, but binds the rows of its source type.
    return any(
        edge.source == type_.name
        and edge.cardinality.low > 0
        and _format_cardinality(other_types.get(edge.identity)) != str(edge.cardinality)
        for edge in merged.edges.values()
    )


def _format_cardinality(edge: AnyType | None) -> str | None:
    return str(edge.cardinality) if isinstance(edge, EdgeType) else None
