"""From an accepted schema to a new one: the migration plan."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from omnigraph.schema.canonical import interface_meaning_json
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.data_loss import describe_drop
from omnigraph.schema.diff_constraints import constraints_added, constraints_dropped
from omnigraph.schema.lost_renames import find_lost_renames
from omnigraph.schema.matching import Matched, match_edges, match_nodes, match_properties
from omnigraph.schema.migration_diff import annotations_change, aspects, differ, property_added, property_changes
from omnigraph.schema.migration_steps import DOES_NOT_HOLD, MigrationPlan, Step, StepKind, about
from omnigraph.schema.step_details import Change, Details, from_to, property_details
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
            *(_type_dropped(edge) for edge in edges.dropped),
            *(_type_dropped(node) for node in nodes.dropped),
            *_renames(nodes),
            *_renames(edges),
            *(_unclear_rename(node) for node in nodes.unclear),
            *(_unclear_rename(edge) for edge in edges.unclear),
            *(step for before, after in nodes.pairs for step in _type_changes(before, after)),
            *(step for before, after in edges.pairs for step in _edge_changes(before, after, ends)),
            *(_node_added(node) for node in nodes.added),
            *(_edge_added(edge, ends.values()) for edge in edges.added),
            *_interface_changes(old.interfaces, new.interfaces),
            *(one.to_step() for one in lost if one not in harmless),
        ),
        notes=tuple(one.to_note() for one in harmless),
    )


# --- whole types -------------------------------------------------------------------------------------


def _kind_of(type_: AnyType) -> str:
    return "node type" if isinstance(type_, NodeType) else "edge type"


def _type_facts(type_: AnyType) -> Details:
    if isinstance(type_, EdgeType):
        return {"kind": "edge", **_ends(type_)}
    return {"kind": "node"}


def _ends(edge: EdgeType) -> Details:
    return {"source": edge.source, "target": edge.target}


def _type_dropped(type_: AnyType) -> Step:
    step = Step(
        kind=StepKind.DROP_TYPE,
        type=type_.name,
        table=type_.table_key,
        code="OG-DS-102" if isinstance(type_, NodeType) else "OG-DS-103",
        facts=_type_facts(type_),
        message="",
    )
    return describe_drop(step)


def _node_added(node: NodeType) -> Step:
    return Step(
        kind=StepKind.ADD_TYPE,
        type=node.name,
        table=node.table_key,
        facts=_type_facts(node),
        message=f"add node type {about(node)}",
    )


def _edge_added(edge: EdgeType, earlier_nodes: Collection[str]) -> Step:
    """A new edge type has no rows that could break a rule, but a node that is there may lack the edge it now needs."""
    validates = edge.cardinality.low > 0 and edge.source in earlier_nodes
    scan = f"; every `{edge.source}` needs {edge.cardinality.low} of them, which is checked first" if validates else ""
    return Step(
        kind=StepKind.ADD_TYPE,
        type=edge.name,
        table=edge.table_key,
        rule=edge.cardinality if validates else None,
        code=DOES_NOT_HOLD if validates else None,
        validates=validates,
        facts=_type_facts(edge),
        message=f"add edge type {about(edge)} from `{edge.source}` to `{edge.target}`{scan}",
    )


def _renames(matched: Matched[NodeType] | Matched[EdgeType]) -> Iterator[Step]:
    pairs: Iterable[tuple[AnyType, AnyType]] = matched.pairs
    renamed = {before.name: after for before, after in pairs if before.name != after.name}
    for name in _freeing_first({old: after.name for old, after in renamed.items()}):
        type_ = renamed[name]
        yield Step(
            kind=StepKind.RENAME_TYPE,
            type=type_.name,
            table=type_.table_key,
            previous=name,
            facts=_type_facts(type_),
            message=f"rename {_kind_of(type_)} `{name}` to `{type_.name}`",
        )


def _freeing_first(renames: Mapping[str, str]) -> list[str]:
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


def _type_changes(old: AnyType, new: AnyType) -> Iterator[Step]:
    """The steps within a type that both schemas have, whatever its name."""
    properties = match_properties(old, new)
    yield from constraints_dropped(old, new, properties)
    yield from (_property_dropped(new, gone) for gone in properties.dropped)
    yield from _property_renames(new, properties)
    yield from (_unclear_rename(new, unclear) for unclear in properties.unclear)
    for before, after in properties.pairs:
        yield from property_changes(new, before, after, properties.new_names)
    yield from (property_added(new, added) for added in properties.added)
    yield from constraints_added(old, new, properties)
    yield from _metadata(old, new, properties)


def _edge_changes(old: EdgeType, new: EdgeType, ends: Mapping[str, str]) -> Iterator[Step]:
    before, after = (ends.get(old.source), ends.get(old.target)), (new.source, new.target)
    if before != after:
        yield Step(
            kind=StepKind.UNSUPPORTED_CHANGE,
            type=new.name,
            table=new.table_key,
            code="OG-MF-106",
            facts=from_to(_ends(old), _ends(new)),
            message=(
                f"{about(new)} runs from `{old.source}` to `{old.target}`, and can't be made to run from `{new.source}`"
                f" to `{new.target}`: add an edge type for that, and drop this one"
            ),
        )
    yield from _type_changes(old, new)


def _property_dropped(type_: AnyType, gone: Property) -> Step:
    step = Step(
        kind=StepKind.DROP_PROPERTY,
        type=type_.name,
        table=type_.table_key,
        property_name=gone.name,
        code="OG-DS-104",
        facts=property_details(gone),
        message="",
    )
    return describe_drop(step)


def _property_renames(type_: AnyType, properties: Matched[Property]) -> Iterator[Step]:
    renames = {before: after for before, after in properties.new_names.items() if before != after}
    for name in _freeing_first(renames):
        yield Step(
            kind=StepKind.RENAME_PROPERTY,
            type=type_.name,
            table=type_.table_key,
            property_name=renames[name],
            previous=name,
            message=f"rename property {about(type_, name)} to `{renames[name]}`",
        )


def _unclear_rename(type_: AnyType, p: Property | None = None) -> Step:
    """What had the name is another now; so it is new, or the rename is to be made again: both can be meant."""
    what, old_name = (about(type_), type_.renamed_from) if p is None else (about(type_, p.name), p.renamed_from)
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


def _metadata(old: AnyType, new: AnyType, properties: Matched[Property]) -> Iterator[Step]:
    changes: list[Change] = []
    if old.description != new.description:
        changes.append(Change("description", from_to(old.description, new.description)))
    if old.instruction != new.instruction:
        changes.append(Change("instruction", from_to(old.instruction, new.instruction)))
    if differ(old.annotations, new.annotations):
        changes.append(annotations_change(old.annotations, new.annotations))
    if isinstance(old, NodeType) and isinstance(new, NodeType) and old.implements != new.implements:
        changes.append(Change("implements", from_to([*old.implements], [*new.implements])))
    if old.name == new.name and old.renamed_from != new.renamed_from:
        changes.append(Change("rename_from", from_to(old.renamed_from, new.renamed_from)))
    names = properties.new_names
    followed = [names[p.name] for p in old.properties if p.name in names] + [p.name for p in properties.added]
    wanted = [p.name for p in new.properties]
    if followed != wanted:
        changes.append(Change("order of properties", from_to([*followed], [*wanted])))
    if changes:
        yield Step(
            kind=StepKind.UPDATE_METADATA,
            type=new.name,
            table=new.table_key,
            changes=tuple(changes),
            message=f"update {aspects(tuple(changes))} of {about(new)}",
        )


# --- interfaces --------------------------------------------------------------------------------------


def _interface_changes(old: Mapping[str, InterfaceType], new: Mapping[str, InterfaceType]) -> Iterator[Step]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before is not None and after is not None and not differ(_said(before), _said(after)):
            continue
        verb = "add" if before is None else "drop" if after is None else "change"
        yield Step(
            kind=StepKind.UPDATE_METADATA,
            type=name,
            table=None,
            changes=(Change("interface", from_to(_interface_json(before), _interface_json(after))),),
            message=f"{verb} interface `{name}`, which has no rows of its own",
        )


def _interface_json(interface: InterfaceType | None) -> Json:
    return None if interface is None else interface_meaning_json(interface)


def _said(interface: InterfaceType) -> InterfaceType:
    """An interface without the order of what has none."""
    return replace(interface, unique=tuple(sorted(interface.unique)), indexed=tuple(sorted(interface.indexed)))
