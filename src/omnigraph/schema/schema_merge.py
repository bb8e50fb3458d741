"""Two schemas that grew apart from a third, brought together: what each side added, or changed alone, comes.

Types and properties are known by their identities. The same addition made on both sides is one. What both changed, and
not alike, is a divergence, as is something that one side dropped and the other changed or used anew. Which side is
which makes no difference for the result.
"""

from dataclasses import dataclass, replace

from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.source import Source
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.catalog_printer import print_catalog
from omnigraph.schema.identity import Aliases, assign_identities, renumber_catalog
from omnigraph.schema.merged_source import SchemaSource, merge_sources
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.type_merge import PropertyForm, SchemaConflict, SchemaMerge, SideNames, TypeForm, build_forms


def find_shared_additions(base: Catalog, ours: Catalog, theirs: Catalog) -> Aliases:
    """Types and properties that both sides added under one name and alike: by the larger identity, the smaller one."""
    before, mine, others = build_forms(base), build_forms(ours), build_forms(theirs)
    same: dict[int, int] = {}
    new = {form.name: identity for identity, form in mine.items() if identity not in before}
    for identity, form in others.items():
        twin = new.get(form.name)
        if identity in before or identity in mine or twin is None or twin in others:
            continue
        if _serialize_type(ours, form.name) == _serialize_type(theirs, form.name):
            same |= _build_alias(twin, identity)
            known = {p.name: one for one, p in mine[twin].properties.items()}
            for one, p in form.properties.items():
                same |= _build_alias(known[p.name], one)
    for identity, form in others.items():
        if identity in mine:
            base_form = before.get(identity)
            same |= _find_shared_properties(base_form, mine[identity], form)
    return same


def _find_shared_properties(base: TypeForm | None, mine: TypeForm, other: TypeForm) -> dict[int, int]:
    """The properties that both sides added to a type, under one name and alike."""
    known = frozenset(() if base is None else base.properties)
    new = {p.name: one for one, p in mine.properties.items() if one not in known and one not in other.properties}
    found: dict[int, int] = {}
    for one, p in other.properties.items():
        twin = new.get(p.name)
        if twin is None or one in known or one in mine.properties:
            continue
        if _serialize_property(mine.properties[twin], mine) == _serialize_property(p, other):
            found |= _build_alias(twin, one)
    return found


def _build_alias(one: int, other: int) -> dict[int, int]:
    return {} if one == other else {max(one, other): min(one, other)}


def _serialize_property(p: PropertyForm, owner: TypeForm) -> str:
    """What a property says, with the source of its embedding by name."""
    source = None if p.embedding is None else owner.properties[int(p.embedding[0])].name
    model = None if p.embedding is None else p.embedding[1]
    return repr((replace(p, embedding=None, renamed_from=None), source, model))


def _serialize_type(catalog: Catalog, name: str) -> str:
    """What a type says, without identities and what it was once called."""
    type_: AnyType | None = catalog.find_type(name)
    assert type_ is not None  # noqa: S101 - the name is from this catalog
    properties = sorted((replace(p, identity=0, renamed_from=None) for p in type_.properties), key=lambda p: p.name)
    ordered = replace(
        type_,
        identity=0,
        renamed_from=None,
        properties=tuple(properties),
        unique=tuple(sorted(tuple(sorted(columns)) for columns in type_.unique)),
        indexed=tuple(sorted(type_.indexed)),
        ranges=tuple(sorted(type_.ranges, key=repr)),
        checks=tuple(sorted(type_.checks, key=repr)),
    )
    return repr(ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSchema:
    """The schema of both sides together, its text, and additions of both that turned out to be one."""

    catalog: Catalog
    text: str
    aliases: Aliases
    """By the identity that something had on a side, the one that it has now."""


def merge_schemas(
    base: Catalog, ours: Catalog, theirs: Catalog, names: SideNames, texts: tuple[str, str, str] | None = None
) -> MergedSchema | tuple[SchemaConflict, ...]:
    """The schema that has what both sides did since the base, or everything that they don't agree about.

    With the three texts, the merged one has their comments.
    """
    same = find_shared_additions(base, ours, theirs)
    merge = SchemaMerge(
        renumber_catalog(base, same), renumber_catalog(ours, same), renumber_catalog(theirs, same), names
    )
    catalog = merge.run()
    if merge.conflicts:
        return tuple(merge.conflicts)
    text = print_catalog(catalog)
    try:
        bound = load_schema(Source(text, "merged.pg"))
    except SourceError as error:
        return tuple(
            SchemaConflict(table="schema", message=f"the two schemas together are none: {one.message}")
            for one in error.diagnostics
        )
    # An interface may have got a property on one side, and a node type that implements it on the other.
    whole = assign_identities(bound, catalog)
    steps = [step for step in plan_migration(catalog, whole).steps if not step.is_safe]
    if steps:
        return tuple(
            SchemaConflict(
                table=step.table or step.type,
                property=step.property_name,
                message=f"the two schemas together would {step.message}",
            )
            for step in steps
        )
    if texts is not None:
        states = (
            SchemaSource(catalog=merge.base, text=texts[0]),
            SchemaSource(catalog=merge.ours, text=texts[1]),
            SchemaSource(catalog=merge.theirs, text=texts[2]),
        )
        text = merge_sources(whole, states, lambda found: assign_identities(found, catalog) == whole)
    return MergedSchema(catalog=whole, text=text, aliases=same)
