"""What becomes of a property between two schemas."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from omnigraph.schema.canonical import annotation_to_json, embedding_to_json
from omnigraph.schema.catalog import AnnotationValue, AnyType, Embedding, Property
from omnigraph.schema.migration_steps import Step, StepKind, format_name
from omnigraph.schema.misfit import format_type, format_value
from omnigraph.schema.step_details import Details, MetadataChange, build_from_to, build_property_details
from omnigraph.schema.types import EnumOf, ValueType
from omnigraph.schema.values import Json, to_json


def plan_property_addition(type_: AnyType, added: Property) -> Step:
    """A new property of a type that may have rows: they need a value for it, or may do without."""
    where = format_name(type_, added.name)
    if added.is_required:
        return _build_unsupported_step(
            type_,
            added.name,
            "OG-MF-103",
            f"{where} is required, but committed rows have no value for it: give it a `@default`, or make it nullable",
            build_property_details(added),
        )
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
    """The steps for a property that lives on, after its rename if it has one."""
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
    gone = [value for value in old.type.values if value not in new.type.values]
    fresh = [value for value in new.type.values if value not in old.type.values]
    if gone:
        reason = f"{where} can't lose the enum {_format_values(gone)}: rows may hold it"
        yield _build_unsupported_step(type_, new.name, "OG-MF-106", reason, {**change, "removed": [*gone]})
    elif fresh:
        yield Step(
            kind=StepKind.EXTEND_ENUM,
            type=type_.name,
            table=type_.table_key,
            property_name=new.name,
            facts={"added": [*fresh]},
            message=f"extend the enum {where} by the {_format_values(fresh)}",
        )


def _format_values(values: list[str]) -> str:
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
        given = {word: p for word, p in (("from", old), ("to", new)) if p.has_default}
        changes.append(MetadataChange("default", {word: to_json(p.type, p.default) for word, p in given.items()}))
    followed = _rename_embedding_source(old.embedding, new_names)
    if followed != new.embedding:
        changes.append(
            MetadataChange("embed", build_from_to(embedding_to_json(followed), embedding_to_json(new.embedding)))
        )
    if old.description != new.description:
        changes.append(MetadataChange("description", build_from_to(old.description, new.description)))
    if is_different(old.annotations, new.annotations):
        changes.append(build_annotations_change(old.annotations, new.annotations))
    if old.name == new.name and old.renamed_from != new.renamed_from:
        changes.append(MetadataChange("rename_from", build_from_to(old.renamed_from, new.renamed_from)))
    return tuple(changes)


def build_annotations_change(old: tuple[AnnotationValue, ...], new: tuple[AnnotationValue, ...]) -> MetadataChange:
    """The annotations that no rule knows, before and after."""
    before: list[Json] = [annotation_to_json(one) for one in old]
    after: list[Json] = [annotation_to_json(one) for one in new]
    return MetadataChange("annotations", build_from_to(before, after))


def format_aspects(changes: tuple[MetadataChange, ...]) -> str:
    """What changes, as a message lists it."""
    return ", ".join(change.aspect for change in changes)


def is_different(left: object, right: object) -> bool:
    """Whether two values are written differently: 1, 1.0 and true are equal in Python, and so are 0.0 and -0.0."""
    return repr(left) != repr(right)


def _is_reordered(old: ValueType, new: ValueType) -> bool:
    """Whether the two are enums of the same values in another order."""
    if not (isinstance(old, EnumOf) and isinstance(new, EnumOf)):
        return False
    return old != new and set(old.values) == set(new.values)


def _get_enum_values(type_: ValueType) -> Json:
    return [*type_.values] if isinstance(type_, EnumOf) else None


def _rename_embedding_source(embedding: Embedding | None, new_names: Mapping[str, str]) -> Embedding | None:
    """The embedding with its source under the name that it has now."""
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
