"""Plan the migration steps within a type: constraints, properties and their metadata."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from omnigraph.schema.catalog import (
    AnnotationValue,
    AnyType,
    Cardinality,
    CheckRule,
    EdgeType,
    Embedding,
    Property,
    RangeRule,
    Value,
)
from omnigraph.schema.catalog_codec import annotation_to_json, embedding_to_json, search_to_json
from omnigraph.schema.matching import SchemaMatch
from omnigraph.schema.migration_steps import (
    CONSTRAINT_VIOLATED,
    Details,
    IndexRule,
    KeyRule,
    MetadataChange,
    Rule,
    Step,
    StepKind,
    UniqueRule,
    build_from_to,
    build_property_details,
    format_name,
    format_rule,
    rule_to_json,
)
from omnigraph.schema.types import EnumOf, ValueType
from omnigraph.schema.values import Json, format_type, format_value, to_json

# The ends of an edge are columns of constraints too, and are never renamed.
_ENDS = {"src": "src", "dst": "dst"}


def plan_dropped_constraints(old: AnyType, new: AnyType, properties: SchemaMatch[Property]) -> Iterator[Step]:
    """Yield the steps that drop constraints, in old names; a constraint on a single dropped property has no step."""
    names = {**properties.new_names, **_ENDS}
    if isinstance(new, EdgeType) and old.key and not new.key:
        yield _build_drop_step(new, KeyRule(old.key))
    # A unique constraint is a set of columns: their order does not matter.
    new_unique = {frozenset(columns) for columns in new.unique}
    for columns in old.unique:
        renamed = _rename_columns(columns, names)
        if renamed is None and len(columns) == 1:
            continue
        if renamed is None or frozenset(renamed) not in new_unique:
            yield _build_drop_step(new, UniqueRule(columns))
    for name in old.indexed:
        if name in names and names[name] not in new.indexed:
            yield _build_drop_step(new, IndexRule(name))
    ranged = {rule.property for rule in new.ranges}
    for rule in old.ranges:
        if rule.property in names and names[rule.property] not in ranged:
            yield _build_drop_step(new, rule)
    for check in old.checks:
        new_name = names.get(check.property)
        if new_name is not None and CheckRule(property=new_name, pattern=check.pattern) not in new.checks:
            yield _build_drop_step(new, check)


def plan_added_constraints(old: AnyType, new: AnyType, properties: SchemaMatch[Property]) -> Iterator[Step]:
    """Yield the steps that add or change constraints, in new names; they validate unless no row can break them."""
    names = {**properties.new_names, **_ENDS}
    added = {p.name: p for p in properties.added}
    yield from _plan_key_change(old, new, names)
    old_unique = {
        frozenset(renamed) for columns in old.unique if (renamed := _rename_columns(columns, names)) is not None
    }
    for columns in new.unique:
        if frozenset(columns) not in old_unique:
            # A row with a null in any column is exempt, and a new column without a default is null in every row.
            is_exempt = any(name in added and added[name].default is None for name in columns)
            yield _build_add_step(new, UniqueRule(columns), validates=not is_exempt)
    old_indexed = {names[name] for name in old.indexed if name in names}
    for name in new.indexed:
        if name not in old_indexed:
            # No row can break an index.
            yield _build_add_step(new, IndexRule(name), validates=False)
    yield from _plan_range_changes(old, new, properties)
    old_checks = {(names[check.property], check.pattern) for check in old.checks if check.property in names}
    for check in new.checks:
        if (check.property, check.pattern) not in old_checks:
            yield _build_add_step(new, check, validates=check.property not in added)
    if isinstance(old, EdgeType) and isinstance(new, EdgeType):
        yield from _plan_cardinality_change(old, new)


# --- kinds of constraints ------------------------------------------------------------------------------


def _plan_key_change(old: AnyType, new: AnyType, names: Mapping[str, str]) -> Iterator[Step]:
    """Yield an unsupported change if the key differs: ids are derived from it. Only an edge type may drop its key."""
    # Edges of a type that loses its key keep their ids.
    if _rename_columns(old.key, names) == new.key or (isinstance(new, EdgeType) and not new.key):
        return
    before, after = (f"`{format_rule(KeyRule(key))}`" if key else "no key" for key in (old.key, new.key))
    yield Step(
        kind=StepKind.UNSUPPORTED_CHANGE,
        type=new.name,
        table=new.table_key,
        code="OG-MF-106",
        facts=build_from_to(*(rule_to_json(KeyRule(key)) if key else None for key in (old.key, new.key))),
        message=f"{format_name(new)} has {before} and can't have {after}: its ids come from the key; add a type, "
        "copy the rows, drop this one",
    )


def _plan_range_changes(old: AnyType, new: AnyType, properties: SchemaMatch[Property]) -> Iterator[Step]:
    added = {p.name for p in properties.added}
    old_properties = {after.name: before for before, after in properties.pairs}
    old_ranges = {rule.property: rule for rule in old.ranges}
    for rule in new.ranges:
        before = old_properties.get(rule.property)
        earlier = None if before is None else old_ranges.get(before.name)
        if earlier is None:
            yield _build_add_step(new, rule, validates=rule.property not in added)
        elif (earlier.low, earlier.high) != (rule.low, rule.high):
            # Bounds of different types don't compare. The change of type is unsupported anyway.
            is_same_type = before is not None and before.type == new.by_name[rule.property].type
            yield _build_add_step(
                new, rule, validates=not (is_same_type and _is_wider(rule, earlier)), instead_of=earlier
            )


def _is_wider(rule: RangeRule, earlier: RangeRule) -> bool:
    """Return whether `rule` allows every value that `earlier` allows."""
    low = rule.low is None or (earlier.low is not None and _is_at_most(rule.low, earlier.low))
    high = rule.high is None or (earlier.high is not None and _is_at_most(earlier.high, rule.high))
    return low and high


def _is_at_most(left: Value, right: Value) -> bool:
    return bool(left <= right)  # type: ignore[operator]  # both are bounds of one property, so of one ordered type


def _plan_cardinality_change(old: EdgeType, new: EdgeType) -> Iterator[Step]:
    before = old.cardinality
    after = new.cardinality
    if before == after:
        return
    is_wider = after.low <= before.low and (
        after.high is None or (before.high is not None and before.high <= after.high)
    )
    # No edge can break wider limits; narrower ones are checked like a new constraint.
    if is_wider:
        yield Step(
            kind=StepKind.WIDEN_CARDINALITY,
            type=new.name,
            table=new.table_key,
            rule=after,
            replaces=before,
            message=f"widen the cardinality of {format_name(new)} from {before} to {after}",
        )
    else:
        yield _build_add_step(new, after, validates=True, instead_of=before)


# --- steps -----------------------------------------------------------------------------------------


def _rename_columns(columns: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the new names of columns; None if one of them was dropped."""
    return tuple(names[name] for name in columns) if all(name in names for name in columns) else None


def _build_add_step(type_: AnyType, rule: Rule, *, validates: bool, instead_of: Rule | None = None) -> Step:
    change = f" instead of `{format_rule(instead_of)}`" if instead_of is not None else ""
    scan = "; committed rows are checked first" if validates else ""
    return Step(
        kind=StepKind.ADD_CONSTRAINT,
        type=type_.name,
        table=type_.table_key,
        property_name=_find_only_property(rule),
        rule=rule,
        replaces=instead_of,
        code=CONSTRAINT_VIOLATED if validates else None,
        validates=validates,
        message=f"add `{format_rule(rule)}` to {format_name(type_)}{change}{scan}",
    )


def _build_drop_step(type_: AnyType, rule: Rule) -> Step:
    return Step(
        kind=StepKind.DROP_CONSTRAINT,
        type=type_.name,
        table=type_.table_key,
        property_name=_find_only_property(rule),
        rule=rule,
        message=f"drop `{format_rule(rule)}` of {format_name(type_)}",
    )


def _find_only_property(rule: Rule) -> str | None:
    match rule:
        case KeyRule(columns=columns) | UniqueRule(columns=columns):
            return columns[0] if len(columns) == 1 and columns[0] not in _ENDS else None
        case IndexRule(property=name) | RangeRule(property=name) | CheckRule(property=name):
            return name
        case Cardinality():
            return None


def plan_property_addition(type_: AnyType, added: Property) -> Step:
    """Plan a new property. A required one without a default is unsupported: existing rows have no value for it."""
    where = format_name(type_, added.name)
    if added.is_required:
        return _build_unsupported_step(
            type_,
            added.name,
            "OG-MF-103",
            f"{where} is required, but committed rows have no value for it: give it a `@default`, or make it nullable",
            build_property_details(added),
        )
    # A default of null fills nothing.
    fill = f", filled with {format_value(to_json(added.type, added.default))}" if added.default is not None else ""
    return Step(
        kind=StepKind.ADD_PROPERTY,
        type=type_.name,
        table=type_.table_key,
        property_name=added.name,
        facts=build_property_details(added),
        message=f"add property {where}: {_format_property_type(added)}{fill}",
    )


def plan_property_changes(type_: AnyType, old: Property, new: Property, new_names: Mapping[str, str]) -> Iterator[Step]:
    """Yield the steps for a property that both schemas have, to be applied after its rename."""
    where = format_name(type_, new.name)
    if old.type != new.type:
        yield from _plan_type_change(type_, old, new)
    if new.nullable and not old.nullable:
        yield Step(
            kind=StepKind.RELAX_NULLABILITY,
            type=type_.name,
            table=type_.table_key,
            property_name=new.name,
            facts=build_from_to(str(new.type), f"{new.type}?"),
            message=f"make {where} nullable",
        )
    if old.nullable and not new.nullable:
        reason = f"{where} is nullable and can't become required: rows without a value would break it"
        yield _build_unsupported_step(
            type_, new.name, "OG-MF-104", reason, build_from_to(f"{new.type}?", str(new.type))
        )
    changes = _collect_metadata_changes(old, new, new_names)
    if changes:
        yield Step(
            kind=StepKind.UPDATE_METADATA,
            type=type_.name,
            table=type_.table_key,
            property_name=new.name,
            changes=changes,
            message=f"update {format_aspects(changes)} of {where}",
        )


def _plan_type_change(type_: AnyType, old: Property, new: Property) -> Iterator[Step]:
    where = format_name(type_, new.name)
    change = build_from_to(str(old.type), str(new.type))
    if not (isinstance(old.type, EnumOf) and isinstance(new.type, EnumOf)):
        types = f"{format_type(old.type)} and can't become {format_type(new.type)}"
        reason = f"{where} is {types}: add a property, copy the values, drop this one"
        yield _build_unsupported_step(type_, new.name, "OG-MF-106", reason, change)
        return
    # Values may be added; a removed one may be stored in rows.
    removed = [value for value in old.type.values if value not in new.type.values]
    added = [value for value in new.type.values if value not in old.type.values]
    if removed:
        lost = f"{where} can't lose the enum {_format_values(removed)}: rows may hold it"
        reason = f"{lost}; add a property, copy the values, drop this one"
        yield _build_unsupported_step(type_, new.name, "OG-MF-106", reason, {**change, "removed": [*removed]})
    elif added:
        yield Step(
            kind=StepKind.EXTEND_ENUM,
            type=type_.name,
            table=type_.table_key,
            property_name=new.name,
            facts={"added": [*added]},
            message=f"extend the enum {where} by the {_format_values(added)}",
        )


def _format_values(values: list[str]) -> str:
    # The first five are enough for a message; `details` has all of them.
    shown = ", ".join(f"`{value}`" for value in values[:5])
    more = f" and {len(values) - 5} more" if len(values) > 5 else ""
    return f"{'value' if len(values) == 1 else 'values'} {shown}{more}"


def _collect_metadata_changes(old: Property, new: Property, new_names: Mapping[str, str]) -> tuple[MetadataChange, ...]:
    changes: list[MetadataChange] = []
    if _is_reordered(old.type, new.type):
        changes.append(
            MetadataChange(
                "order of enum values", build_from_to(_get_enum_values(old.type), _get_enum_values(new.type))
            )
        )
    if is_different((old.has_default, old.default), (new.has_default, new.default)):
        # Not `build_from_to`: it leaves out null, and `@default(null)` differs from no default.
        defaults = {word: to_json(p.type, p.default) for word, p in (("from", old), ("to", new)) if p.has_default}
        changes.append(MetadataChange("default", defaults))
    # A source that was only renamed is no change of the embedding.
    embedding = _rename_embedding_source(old.embedding, new_names)
    if embedding != new.embedding:
        changes.append(
            MetadataChange("embed", build_from_to(embedding_to_json(embedding), embedding_to_json(new.embedding)))
        )
    before, after = search_to_json(old), search_to_json(new)
    for key, aspect in (("metric", "metric"), ("vector_index", "index"), ("language", "language")):
        if before.get(key) != after.get(key):
            changes.append(MetadataChange(aspect, build_from_to(before.get(key), after.get(key))))
    if old.description != new.description:
        changes.append(MetadataChange("description", build_from_to(old.description, new.description)))
    if is_different(old.annotations, new.annotations):
        changes.append(build_annotations_change(old.annotations, new.annotations))
    # If the name changed, the annotation is part of the rename step.
    if old.name == new.name and old.renamed_from != new.renamed_from:
        changes.append(MetadataChange("rename_from", build_from_to(old.renamed_from, new.renamed_from)))
    return tuple(changes)


def build_annotations_change(old: tuple[AnnotationValue, ...], new: tuple[AnnotationValue, ...]) -> MetadataChange:
    """Build the change of the unknown annotations."""
    before: list[Json] = [annotation_to_json(annotation) for annotation in old]
    after: list[Json] = [annotation_to_json(annotation) for annotation in new]
    return MetadataChange("annotations", build_from_to(before, after))


def format_aspects(changes: tuple[MetadataChange, ...]) -> str:
    """Format the changed aspects as a message lists them."""
    return ", ".join(change.aspect for change in changes)


def is_different(left: object, right: object) -> bool:
    """Return whether two values are written differently: 1, 1.0 and true are equal in Python, as are 0.0 and -0.0."""
    return repr(left) != repr(right)


def _is_reordered(old: ValueType, new: ValueType) -> bool:
    """Return whether both types are enums of the same values in a different order."""
    if not (isinstance(old, EnumOf) and isinstance(new, EnumOf)):
        return False
    return old != new and set(old.values) == set(new.values)


def _get_enum_values(type_: ValueType) -> Json:
    return [*type_.values] if isinstance(type_, EnumOf) else None


def _rename_embedding_source(embedding: Embedding | None, new_names: Mapping[str, str]) -> Embedding | None:
    """Return the embedding with the new name of its source."""
    if embedding is None:
        return None
    return replace(embedding, source=new_names.get(embedding.source, embedding.source))


def _format_property_type(p: Property) -> str:
    return f"{format_type(p.type)}{'?' if p.nullable else ''}"


def _build_unsupported_step(type_: AnyType, name: str, code: str, message: str, facts: Details) -> Step:
    return Step(
        kind=StepKind.UNSUPPORTED_CHANGE,
        type=type_.name,
        table=type_.table_key,
        property_name=name,
        code=code,
        facts=facts,
        message=message,
    )
