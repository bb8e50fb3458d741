"""A `@rename_from` that renames nothing is probably a slip: what was meant to go on is dropped, and a new one added."""

from collections.abc import Iterable, Iterator

from omnigraph.lang.suggest import Suggestions
from omnigraph.schema.catalog import AnyType, EdgeType, NodeType, Property
from omnigraph.schema.matching import Matched, match_properties
from omnigraph.schema.steps import about


def rename_notes(nodes: Matched[NodeType], edges: Matched[EdgeType]) -> Iterator[str]:
    """A sentence for each `@rename_from` whose old name the old schema does not have, nor the new one.

    Where the new name is there, the rename was made before, and the annotation is only kept.
    """
    suggestions = Suggestions()
    for thing, types in (("node type", nodes), ("edge type", edges)):
        gone = [type_.name for type_ in types.dropped]
        for new in types.added:
            if new.renamed_from is not None:
                lacks = f"the old schema has no {thing} `{new.renamed_from}`"
                yield _note(about(new), new.renamed_from, lacks, suggestions.did_you_mean(new.renamed_from, gone))
            else:
                yield from _in_new_type(new)
        pairs: Iterable[tuple[AnyType, AnyType]] = types.pairs
        for old, new in pairs:
            yield from _in_type(old, new, match_properties(old, new), suggestions)


def _in_type(old: AnyType, new: AnyType, properties: Matched[Property], suggestions: Suggestions) -> Iterator[str]:
    gone = [p.name for p in properties.dropped]
    for added in properties.added:
        if added.renamed_from is not None:
            lacks = f"{about(old)} of the old schema has no property `{added.renamed_from}`"
            near = suggestions.did_you_mean(added.renamed_from, gone)
            yield _note(about(new, added.name), added.renamed_from, lacks, near)


def _in_new_type(new: AnyType) -> Iterator[str]:
    for p in new.properties:
        if p.renamed_from is not None:
            yield _note(about(new, p.name), p.renamed_from, f"the old schema has no type {about(new)}", None)


def _note(what: str, old_name: str, lacks: str, near: str | None) -> str:
    note = f'{what} has `@rename_from("{old_name}")`, but {lacks}, so it counts as new'
    return note if near is None else f"{note}; {near}"
