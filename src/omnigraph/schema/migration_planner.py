"""Plan the migration from an accepted schema to a new one."""

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
    # What the old schema does not have, for messages.
    missing: str
    suggestion: str | None = None
    # Whether it is a property of a new type: then no existing data can be lost by ignoring the annotation.
    is_type_new: bool = False

    def is_known(self, earlier: Iterable[Catalog]) -> bool:
        """Return whether an earlier schema has the same annotation on the same type or property."""
        return any(renamed == self.old_name for catalog in earlier for renamed in self._iter_earlier_renames(catalog))

    def _iter_earlier_renames(self, catalog: Catalog) -> Iterator[str | None]:
        type_ = (catalog.nodes if isinstance(self.type, NodeType) else catalog.edges).get(self.type.name)
        if self.property is None:
            if type_ is not None:
                yield type_.renamed_from
            return
        # The annotation may have come from an interface of the type.
        interfaces = self.type.implements if isinstance(self.type, NodeType) else ()
        declared = [type_, *(catalog.interfaces.get(name) for name in interfaces)]
        for members in declared:
            for p in () if members is None else members.properties:
                if p.name == self.property.name:
                    yield p.renamed_from

    def to_note(self) -> str:
        """Return a note for a plan that can still be applied."""
        return f"{self._format_problem()}, so it counts as new{self._format_suggestion()}"

    def to_step(self) -> Step:
        """Return an unsupported change, which prevents the plan from being applied."""
        return Step(
            kind=StepKind.UNSUPPORTED_CHANGE,
            type=self.type.name,
            table=self.type.table_key,
            property_name=None if self.property is None else self.property.name,
            code="OG-MF-109",
            facts={"from": self.old_name},
            message=(
                f"{self._format_problem()}{self._format_suggestion()}: correct the name, or remove the `@rename_from`"
            ),
        )

    def _format_problem(self) -> str:
        what = format_name(self.type, None if self.property is None else self.property.name)
        return f'{what} has `@rename_from("{self.old_name}")`, but {self.missing}'

    def _format_suggestion(self) -> str:
        return "" if self.suggestion is None else f"; {self.suggestion}"


def find_lost_renames(nodes: SchemaMatch[NodeType], edges: SchemaMatch[EdgeType]) -> Iterator[LostRename]:
    """Find each `@rename_from` of a new type or property whose old name the old schema does not have.

    If the old schema has the new name, the annotation is only a leftover of an earlier rename.
    """
    suggestions = Suggestions()
    for kind, types in (("node type", nodes), ("edge type", edges)):
        # Only a dropped type can have been meant: the others still have their names.
        dropped = [type_.name for type_ in types.dropped]
        for new in types.added:
            # If the type itself is a lost rename, its properties are not reported as well.
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
    """Plan the steps from `old` to `new`, none if they are equal. Names and renames count, identities do not.

    `earlier` are the schemas accepted before `old`. They are read only if a `@rename_from` names nothing in `old`: it
    is a leftover, with a note, if an earlier schema has it too, and an unsupported change otherwise.
    """
    nodes = match_nodes(old, new)
    edges = match_edges(old, new)
    ends = nodes.new_names
    lost = tuple(find_lost_renames(nodes, edges))
    # `earlier` may be a generator that reads the history: it is not touched unless it is needed.
    accepted = (old, *earlier) if lost else ()
    harmless = [rename for rename in lost if rename.is_type_new or rename.is_known(accepted)]
    # The order matters, see `MigrationPlan`: drops free names for renames, which free names for additions.
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
            *(rename.to_step() for rename in lost if rename not in harmless),
        ),
        notes=tuple(rename.to_note() for rename in harmless),
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
    """Plan a new edge type. It has no rows to check, but existing nodes may lack edges that its `@card` requires."""
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
    """Order renames by old name so that each new name is free when it is taken; cycles come last."""
    ordered: list[str] = []
    waiting = dict(renames)
    # A topological sort in rounds. What is left when nothing is ready are cycles, applied together.
    while waiting:
        ready = [old for old, new in waiting.items() if new not in waiting] or list(waiting)
        ordered.extend(ready)
        for old in ready:
            del waiting[old]
    return ordered


# --- changed types -----------------------------------------------------------------------------------


def _plan_type_changes(old: AnyType, new: AnyType) -> Iterator[Step]:
    """Yield the steps within a type that both schemas have, renamed or not."""
    properties = match_properties(old, new)
    yield from plan_dropped_constraints(old, new, properties)
    yield from (_plan_property_drop(new, dropped) for dropped in properties.dropped)
    yield from _plan_property_renames(new, properties)
    yield from (_plan_unclear_rename(new, unclear) for unclear in properties.unclear)
    for before, after in properties.pairs:
        yield from plan_property_changes(new, before, after, properties.new_names)
    yield from (plan_property_addition(new, added) for added in properties.added)
    yield from plan_added_constraints(old, new, properties)
    yield from _plan_metadata_update(old, new, properties)


def _plan_edge_changes(old: EdgeType, new: EdgeType, ends: Mapping[str, str]) -> Iterator[Step]:
    # The old ends by their new names: a renamed node type is still the same end.
    if (ends.get(old.source), ends.get(old.target)) != (new.source, new.target):
        yield Step(
            kind=StepKind.UNSUPPORTED_CHANGE,
            type=new.name,
            table=new.table_key,
            code="OG-MF-106",
            facts=build_from_to(_build_end_facts(old), _build_end_facts(new)),
            message=(
                f"{format_name(new)} runs from `{old.source}` to `{old.target}`, and can't be changed to run from"
                f" `{new.source}` to `{new.target}`: add an edge type for that, and drop this one"
            ),
        )
    yield from _plan_type_changes(old, new)


def _plan_property_drop(type_: AnyType, dropped: Property) -> Step:
    step = Step(
        kind=StepKind.DROP_PROPERTY,
        type=type_.name,
        table=type_.table_key,
        property_name=dropped.name,
        code="OG-DS-104",
        facts=build_property_details(dropped),
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
    """Plan an unsupported change for an ambiguous item: it may be new, or its rename may have to be applied again."""
    what = format_name(type_, None if p is None else p.name)
    old_name = type_.renamed_from if p is None else p.renamed_from
    return Step(
        kind=StepKind.UNSUPPORTED_CHANGE,
        type=type_.name,
        table=type_.table_key,
        property_name=None if p is None else p.name,
        code="OG-MF-108",
        facts={"from": old_name},
        message=(
            f'{what} has `@rename_from("{old_name}")` from before, while `{old_name}` still exists, so it is unclear'
            " whether it is new: leave it out, and add it with a later schema"
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
    # The order that results without this step: old properties under their new names, then the added ones.
    before = [names[p.name] for p in old.properties if p.name in names] + [p.name for p in properties.added]
    after = [p.name for p in new.properties]
    if before != after:
        changes.append(MetadataChange("order of properties", build_from_to([*before], [*after])))
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
        before = old.get(name)
        after = new.get(name)
        if before is None:
            verb = "add"
        elif after is None:
            verb = "drop"
        elif is_different(_sort_constraints(before), _sort_constraints(after)):
            verb = "change"
        else:
            continue
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
    """Return the interface with its constraints sorted, because their order has no meaning."""
    return replace(interface, unique=tuple(sorted(interface.unique)), indexed=tuple(sorted(interface.indexed)))
