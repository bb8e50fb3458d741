"""Three-way merge of schemas: the result has what either side added, dropped or changed since the base.

Types and properties are matched by identity. An equal addition of both sides becomes one. It is a conflict if both
sides changed something in different ways, or if one side dropped something that the other changed or newly refers to.
The result is the same with sides swapped.
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
    """Find types and properties that both sides added with equal names and definitions.

    Returns the aliases of the larger identities: the smaller one of each pair remains, whichever side it is of.
    """
    base_forms = build_forms(base)
    our_forms = build_forms(ours)
    their_forms = build_forms(theirs)
    aliases: dict[int, int] = {}
    our_additions = {form.name: identity for identity, form in our_forms.items() if identity not in base_forms}
    for identity, form in their_forms.items():
        twin = our_additions.get(form.name)
        # An identity that both sides have needs no alias.
        if identity in base_forms or identity in our_forms or twin is None or twin in their_forms:
            continue
        if _serialize_type(ours, form.name) == _serialize_type(theirs, form.name):
            aliases |= _build_alias(twin, identity)
            twin_properties = {p.name: number for number, p in our_forms[twin].properties.items()}
            for number, p in form.properties.items():
                aliases |= _build_alias(twin_properties[p.name], number)
    for identity, form in their_forms.items():
        if identity in our_forms:
            aliases |= _find_shared_properties(base_forms.get(identity), our_forms[identity], form)
    return aliases


def _find_shared_properties(base: TypeForm | None, ours: TypeForm, theirs: TypeForm) -> dict[int, int]:
    """Find properties that both sides added to a type with equal names and definitions, as aliases."""
    in_base = frozenset(() if base is None else base.properties)
    our_additions = {
        p.name: identity
        for identity, p in ours.properties.items()
        if identity not in in_base and identity not in theirs.properties
    }
    aliases: dict[int, int] = {}
    for identity, p in theirs.properties.items():
        twin = our_additions.get(p.name)
        if twin is None or identity in in_base or identity in ours.properties:
            continue
        if _serialize_property(ours.properties[twin], ours) == _serialize_property(p, theirs):
            aliases |= _build_alias(twin, identity)
    return aliases


def _build_alias(left: int, right: int) -> dict[int, int]:
    # The smaller identity remains whichever side it is of, so that the merge is symmetric.
    return {} if left == right else {max(left, right): min(left, right)}


def _serialize_property(p: PropertyForm, owner: TypeForm) -> str:
    """Return the definition of a property as text, with the source of its embedding by name."""
    # By name, because the source may be an addition of both sides too, with two identities.
    source = None if p.embedding is None else owner.properties[int(p.embedding[0])].name
    model = None if p.embedding is None else p.embedding[1]
    return repr((replace(p, embedding=None, renamed_from=None), source, model))


def _serialize_type(catalog: Catalog, name: str) -> str:
    """Return the definition of a type as text, without identities and earlier names."""
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
    # As text, because 1, 1.0 and true are equal in Python.
    return repr(ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSchema:
    """The merged schema with its text, and the aliases of equal additions of both sides."""

    catalog: Catalog
    text: str
    aliases: Aliases
    """The identity in the merged schema, by the one on a side."""


def merge_schemas(
    base: Catalog, ours: Catalog, theirs: Catalog, names: SideNames, texts: tuple[str, str, str] | None = None
) -> MergedSchema | tuple[SchemaConflict, ...]:
    """Merge two schemas that were changed since the base, or return all conflicts.

    `texts` are those of base, ours and theirs: with them, the merged text has their comments.
    """
    aliases = find_shared_additions(base, ours, theirs)
    merge = SchemaMerge(
        renumber_catalog(base, aliases), renumber_catalog(ours, aliases), renumber_catalog(theirs, aliases), names
    )
    catalog = merge.run()
    if merge.conflicts:
        return tuple(merge.conflicts)
    # Printed and bound again: the binder finds what the language forbids in the merged schema as a whole.
    text = print_catalog(catalog)
    try:
        bound = load_schema(Source(text, "merged.pg"))
    except SourceError as error:
        return tuple(
            SchemaConflict(table="schema", message=f"the merged schema is invalid: {diagnostic.message}")
            for diagnostic in error.diagnostics
        )
    # Binding may add properties: one side gave an interface a property, the other added a node type that implements it.
    whole = assign_identities(bound, catalog)
    steps = [step for step in plan_migration(catalog, whole).steps if not step.is_safe]
    if steps:
        return tuple(
            SchemaConflict(
                table=step.table or step.type,
                property=step.property_name,
                message=f"the merged schema would {step.message}",
            )
            for step in steps
        )
    if texts is not None:
        states = (
            SchemaSource(catalog=merge.base, text=texts[0]),
            SchemaSource(catalog=merge.ours, text=texts[1]),
            SchemaSource(catalog=merge.theirs, text=texts[2]),
        )
        text = merge_sources(whole, states, lambda rebound: assign_identities(rebound, catalog) == whole)
    return MergedSchema(catalog=whole, text=text, aliases=aliases)
