"""Two schemas that grew apart from a third, brought together: what each side added, or changed alone, comes.

Types and properties are known by their identities. The same addition made on both sides is one. What both changed, and
not alike, is a divergence, as is something that one side dropped and the other changed or used anew. Which side is
which makes no difference for the result.
"""

from dataclasses import dataclass

from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.source import Source
from omnigraph.schema.accept import load_schema
from omnigraph.schema.aliases import Aliases, renumber_catalog
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_printer import print_catalog
from omnigraph.schema.identity import assign_identities
from omnigraph.schema.made_twice import find_shared_additions
from omnigraph.schema.merged_source import SchemaSource, merge_sources
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.type_merge import SchemaConflict, SchemaMerge, SideNames


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
