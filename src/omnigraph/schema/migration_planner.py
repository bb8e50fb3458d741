"""From an accepted schema to a new one: the migration plan."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from omnigraph.schema.canonical import normalize_interface
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.data_loss import describe_drop
from omnigraph.schema.diff_constraints import plan_added_constraints, plan_dropped_constraints
from omnigraph.schema.lost_renames import find_lost_renames
from omnigraph.schema.matching import SchemaMatch, match_edges, match_nodes, match_properties
from omnigraph.schema.migration_diff import (
    build_annotations_change,
    format_aspects,
    is_different,
    plan_property_addition,
    plan_property_changes,
)
from omnigraph.schema.migration_steps import CONSTRAINT_VIOLATED, MigrationPlan, Step, StepKind, format_name
from omnigraph.schema.step_details import Details, MetadataChange, build_from_to, build_property_details
from omnigraph.schema.values import Json


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
