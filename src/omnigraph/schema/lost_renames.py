"""`@rename_from` annotations whose old name the old schema does not have.

Mostly that is a slip: what was meant to go on would be dropped, and a new one added. It is none where the same
annotation stood in an earlier schema, because the rename was made then and the text was only kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from omnigraph.lang.spelling import Suggestions
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType, Property
from omnigraph.schema.matching import SchemaMatch, match_properties
from omnigraph.schema.migration_steps import Step, StepKind, format_name


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRename:
    """A new type, or a new property of one, whose `@rename_from` renames nothing."""

    type: AnyType
    property: Property | None = None
    old_name: str
    missing: str
    """What the old schema lacks."""
    suggestion: str | None = None
    is_type_new: bool = False
    """Whether it is a property of a type that is new: then nothing of that type could have been meant to go on."""

    def is_known(self, earlier: Iterable[Catalog]) -> bool:
        """Return whether one of the earlier schemas has the same annotation at the same place."""
        return any(renamed == self.old_name for catalog in earlier for renamed in self._iter_earlier_renames(catalog))

    def _iter_earlier_renames(self, catalog: Catalog) -> Iterator[str | None]:
        known = (catalog.nodes if isinstance(self.type, NodeType) else catalog.edges).get(self.type.name)
        if self.property is None:
            if known is not None:
                yield known.renamed_from
            return
        interfaces = self.type.implements if isinstance(self.type, NodeType) else ()
        declared = [known, *(catalog.interfaces.get(name) for name in interfaces)]
        for members in declared:
            for p in () if members is None else members.properties:
                if p.name == self.property.name:
                    yield p.renamed_from

    def to_note(self) -> str:
        """Return the sentence for a plan that can be applied all the same."""
        return f"{self._format_complaint()}, so it counts as new{self._format_suggestion()}"

    def to_step(self) -> Step:
        """Return the step that keeps a plan from being applied."""
        return Step(
            kind=StepKind.UNSUPPORTED_CHANGE,
            type=self.type.name,
            table=self.type.table_key,
            property_name=None if self.property is None else self.property.name,
            code="OG-MF-109",
            facts={"from": self.old_name},
            message=f"{self._format_complaint()}{self._format_suggestion()}: correct the name, or remove the `@rename_from`",
        )

    def _format_complaint(self) -> str:
        what = format_name(self.type, None if self.property is None else self.property.name)
        return f'{what} has `@rename_from("{self.old_name}")`, but {self.missing}'

    def _format_suggestion(self) -> str:
        return "" if self.suggestion is None else f"; {self.suggestion}"


def find_lost_renames(nodes: SchemaMatch[NodeType], edges: SchemaMatch[EdgeType]) -> Iterator[LostRename]:
    """Find each `@rename_from` whose old name the old schema does not have, nor the new one.

    Where the old schema has the new name, the annotation is only kept: what it names goes on.
    """
    suggestions = Suggestions()
    for kind, types in (("node type", nodes), ("edge type", edges)):
        dropped = [type_.name for type_ in types.dropped]
        for new in types.added:
            if new.renamed_from is None:
                yield from _find_in_new_type(new)
                continue
            yield LostRename(
                type=new,
                old_name=new.renamed_from,
                missing=f"the old schema has no {kind} `{new.renamed_from}`",
                suggestion=suggestions.suggest_closest(new.renamed_from, dropped),
            )
        pairs: Sequence[tuple[AnyType, AnyType]] = types.pairs
        for old, new in pairs:
            yield from _find_in_type(old, new, suggestions)


def _find_in_type(old: AnyType, new: AnyType, suggestions: Suggestions) -> Iterator[LostRename]:
    properties = match_properties(old, new)
    dropped = [p.name for p in properties.dropped]
    for p in properties.added:
        if p.renamed_from is not None:
            yield LostRename(
                type=new,
                property=p,
                old_name=p.renamed_from,
                missing=f"{format_name(old)} of the old schema has no property `{p.renamed_from}`",
                suggestion=suggestions.suggest_closest(p.renamed_from, dropped),
            )


def _find_in_new_type(new: AnyType) -> Iterator[LostRename]:
    for p in new.properties:
        if p.renamed_from is not None:
            missing = f"the old schema has no type {format_name(new)}"
            yield LostRename(type=new, property=p, old_name=p.renamed_from, missing=missing, is_type_new=True)
