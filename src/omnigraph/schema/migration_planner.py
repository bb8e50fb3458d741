"""From an accepted schema to a new one: the migration plan."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.lang.spelling import Suggestions
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.catalog_codec import normalize_interface
from omnigraph.schema.matching import SchemaMatch, match_edges, match_nodes, match_properties
from omnigraph.schema.migration_diff import (
    build_annotations_change,
    format_aspects,
    is_different,
    plan_added_constraints,
    plan_dropped_constraints,
    plan_property_addition,
    plan_property_changes,
)
from omnigraph.schema.migration_steps import (
    CONSTRAINT_VIOLATED,
    Details,
    MetadataChange,
    MigrationPlan,
    Step,
    StepKind,
    build_from_to,
    build_property_details,
    describe_drop,
    format_name,
)
from omnigraph.schema.values import Json


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


def plan_migration(old: Catalog, new: Catalog, earlier: Iterable[Catalog] = ()) -> MigrationPlan:
    """The steps that make `new` of `old`; none if they say the same. Identities play no part: names and renames do.

    `earlier` are schemas that were accepted before `old`, read only when a `@rename_from` names nothing of `old`: one
    that stood in an earlier schema is only kept, any other is an unsupported change.
    """
    nodes, edges = match_nodes(old, new), match_edges(old, new)
    ends = nodes.new_names
    lost = tuple(find_lost_renames(nodes, edges))
    known = (old, *earlier) if lost else ()
    harmless = [one for one in lost if one.is_type_new or one.is_known(known)]
    return MigrationPlan(
        (
            *(_plan_type_drop(edge) for edge in edges.dropped),
            *(_plan_type_drop(node) for node in nodes.dropped),
            *_plan_type_renames(nodes),
            *_plan_type_renames(edges),
            *(_plan_unclear_rename(node) for node in nodes.unclear),
            *(_plan_unclear_rename(edge) for edge in edges.unclear),
            *(step for before, after in nodes.pairs for step in _plan_type_changes(before, after)),
            *(step for before, after in edges.pairs for step in _plan_edge_changes(before, after, ends)),
            *(_plan_node_addition(node) for node in nodes.added),
            *(_plan_edge_addition(edge, ends.values()) for edge in edges.added),
            *_plan_interface_changes(old.interfaces, new.interfaces),
            *(one.to_step() for one in lost if one not in harmless),
        ),
        notes=tuple(one.to_note() for one in harmless),
    )


# --- whole types -------------------------------------------------------------------------------------


def _describe_kind(type_: AnyType) -> str:
    return "node type" if isinstance(type_, NodeType) else "edge type"


def _build_type_facts(type_: AnyType) -> Details:
    if isinstance(type_, EdgeType):
        return {"kind": "edge", **_build_end_facts(type_)}
    return {"kind": "node"}


def _build_end_facts(edge: EdgeType) -> Details:
    return {"source": edge.source, "target": edge.target}


def _plan_type_drop(type_: AnyType) -> Step:
    step = Step(
        kind=StepKind.DROP_TYPE,
        type=type_.name,
        table=type_.table_key,
        code="OG-DS-102" if isinstance(type_, NodeType) else "OG-DS-103",
        facts=_build_type_facts(type_),
        message="",
    )
    return describe_drop(step)


def _plan_node_addition(node: NodeType) -> Step:
    return Step(
        kind=StepKind.ADD_TYPE,
        type=node.name,
        table=node.table_key,
        facts=_build_type_facts(node),
        message=f"add node type {format_name(node)}",
    )


def _plan_edge_addition(edge: EdgeType, earlier_nodes: Collection[str]) -> Step:
    """A new edge type has no rows that could break a rule, but a node that is there may lack the edge it now needs."""
    validates = edge.cardinality.low > 0 and edge.source in earlier_nodes
    scan = f"; every `{edge.source}` needs {edge.cardinality.low} of them, which is checked first" if validates else ""
    return Step(
        kind=StepKind.ADD_TYPE,
        type=edge.name,
        table=edge.table_key,
        rule=edge.cardinality if validates else None,
        code=CONSTRAINT_VIOLATED if validates else None,
        validates=validates,
        facts=_build_type_facts(edge),
        message=f"add edge type {format_name(edge)} from `{edge.source}` to `{edge.target}`{scan}",
    )


def _plan_type_renames(matched: SchemaMatch[NodeType] | SchemaMatch[EdgeType]) -> Iterator[Step]:
    pairs: Iterable[tuple[AnyType, AnyType]] = matched.pairs
    renamed = {before.name: after for before, after in pairs if before.name != after.name}
    for name in _order_renames({old: after.name for old, after in renamed.items()}):
        type_ = renamed[name]
        yield Step(
            kind=StepKind.RENAME_TYPE,
            type=type_.name,
            table=type_.table_key,
            previous=name,
            facts=_build_type_facts(type_),
            message=f"rename {_describe_kind(type_)} `{name}` to `{type_.name}`",
        )


def _order_renames(renames: Mapping[str, str]) -> list[str]:
    """The old names in an order in which each new name is free; those of a circle come last."""
    ordered: list[str] = []
    waiting = dict(renames)
    while waiting:
        ready = [old for old, new in waiting.items() if new not in waiting] or list(waiting)
        ordered.extend(ready)
        for old in ready:
            del waiting[old]
    return ordered


# --- what lives on -----------------------------------------------------------------------------------


def _plan_type_changes(old: AnyType, new: AnyType) -> Iterator[Step]:
    """The steps within a type that both schemas have, whatever its name."""
    properties = match_properties(old, new)
    yield from plan_dropped_constraints(old, new, properties)
    yield from (_plan_property_drop(new, gone) for gone in properties.dropped)
    yield from _plan_property_renames(new, properties)
    yield from (_plan_unclear_rename(new, unclear) for unclear in properties.unclear)
    for before, after in properties.pairs:
        yield from plan_property_changes(new, before, after, properties.new_names)
    yield from (plan_property_addition(new, added) for added in properties.added)
    yield from plan_added_constraints(old, new, properties)
    yield from _plan_metadata_update(old, new, properties)


def _plan_edge_changes(old: EdgeType, new: EdgeType, ends: Mapping[str, str]) -> Iterator[Step]:
    before, after = (ends.get(old.source), ends.get(old.target)), (new.source, new.target)
    if before != after:
        yield Step(
            kind=StepKind.UNSUPPORTED_CHANGE,
            type=new.name,
            table=new.table_key,
            code="OG-MF-106",
            facts=build_from_to(_build_end_facts(old), _build_end_facts(new)),
            message=(
                f"{format_name(new)} runs from `{old.source}` to `{old.target}`, and can't be made to run from `{new.source}`"
                f" to `{new.target}`: add an edge type for that, and drop this one"
            ),
        )
    yield from _plan_type_changes(old, new)


def _plan_property_drop(type_: AnyType, gone: Property) -> Step:
    step = Step(
        kind=StepKind.DROP_PROPERTY,
        type=type_.name,
        table=type_.table_key,
        property_name=gone.name,
        code="OG-DS-104",
        facts=build_property_details(gone),
        message="",
    )
    return describe_drop(step)


def _plan_property_renames(type_: AnyType, properties: SchemaMatch[Property]) -> Iterator[Step]:
    renames = {before: after for before, after in properties.new_names.items() if before != after}
    for name in _order_renames(renames):
        yield Step(
            kind=StepKind.RENAME_PROPERTY,
            type=type_.name,
            table=type_.table_key,
            property_name=renames[name],
            previous=name,
            message=f"rename property {format_name(type_, name)} to `{renames[name]}`",
        )


def _plan_unclear_rename(type_: AnyType, p: Property | None = None) -> Step:
    """What had the name is another now; so it is new, or the rename is to be made again: both can be meant."""
    what, old_name = (
        (format_name(type_), type_.renamed_from) if p is None else (format_name(type_, p.name), p.renamed_from)
    )
    return Step(
        kind=StepKind.UNSUPPORTED_CHANGE,
        type=type_.name,
        table=type_.table_key,
        property_name=None if p is None else p.name,
        code="OG-MF-108",
        facts={"from": old_name},
        message=(
            f'{what} has `@rename_from("{old_name}")` from before, while `{old_name}` is still there, so whether'
            " it is new can't be told: leave it out, and add it with a later schema"
        ),
    )


def _plan_metadata_update(old: AnyType, new: AnyType, properties: SchemaMatch[Property]) -> Iterator[Step]:
    changes: list[MetadataChange] = []
    if old.description != new.description:
        changes.append(MetadataChange("description", build_from_to(old.description, new.description)))
    if old.instruction != new.instruction:
        changes.append(MetadataChange("instruction", build_from_to(old.instruction, new.instruction)))
    if is_different(old.annotations, new.annotations):
        changes.append(build_annotations_change(old.annotations, new.annotations))
    if isinstance(old, NodeType) and isinstance(new, NodeType) and old.implements != new.implements:
        changes.append(MetadataChange("implements", build_from_to([*old.implements], [*new.implements])))
    if old.name == new.name and old.renamed_from != new.renamed_from:
        changes.append(MetadataChange("rename_from", build_from_to(old.renamed_from, new.renamed_from)))
    names = properties.new_names
    followed = [names[p.name] for p in old.properties if p.name in names] + [p.name for p in properties.added]
    wanted = [p.name for p in new.properties]
    if followed != wanted:
        changes.append(MetadataChange("order of properties", build_from_to([*followed], [*wanted])))
    if changes:
        yield Step(
            kind=StepKind.UPDATE_METADATA,
            type=new.name,
            table=new.table_key,
            changes=tuple(changes),
            message=f"update {format_aspects(tuple(changes))} of {format_name(new)}",
        )


# --- interfaces --------------------------------------------------------------------------------------


def _plan_interface_changes(old: Mapping[str, InterfaceType], new: Mapping[str, InterfaceType]) -> Iterator[Step]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if (
            before is not None
            and after is not None
            and not is_different(_sort_constraints(before), _sort_constraints(after))
        ):
            continue
        verb = "add" if before is None else "drop" if after is None else "change"
        yield Step(
            kind=StepKind.UPDATE_METADATA,
            type=name,
            table=None,
            changes=(
                MetadataChange("interface", build_from_to(_interface_to_json(before), _interface_to_json(after))),
            ),
            message=f"{verb} interface `{name}`, which has no rows of its own",
        )


def _interface_to_json(interface: InterfaceType | None) -> Json:
    return None if interface is None else normalize_interface(interface)


def _sort_constraints(interface: InterfaceType) -> InterfaceType:
    """An interface without the order of what has none."""
    return replace(interface, unique=tuple(sorted(interface.unique)), indexed=tuple(sorted(interface.indexed)))
