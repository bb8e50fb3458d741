"""Three-way merge of types, property by property and constraint by constraint. Pure: catalogs in, a catalog out."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from omnigraph.schema.catalog import (
    AnnotationValue,
    AnyType,
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    InterfaceType,
    Metric,
    NodeType,
    Property,
    RangeRule,
    Value,
    VectorIndex,
    build_catalog,
)
from omnigraph.schema.types import EnumOf, ValueType

# A column: the identity of its property, or `src` or `dst`. Identities survive the renames of either side.
Ref: TypeAlias = int | str
_ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyForm:
    """A property in comparable form: columns are references instead of names."""

    name: str
    type: ValueType
    nullable: bool
    default: tuple[bool, Value]
    embedding: tuple[Ref, str | None] | None
    metric: Metric
    vector_index: VectorIndex | None
    language: str | None
    description: str | None
    annotations: tuple[AnnotationValue, ...]
    renamed_from: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeForm:
    """A type in comparable form: columns are references, and constraints without an order are sets."""

    name: str
    is_edge: bool
    properties: Mapping[int, PropertyForm]
    key: tuple[Ref, ...]
    unique: frozenset[frozenset[Ref]]
    indexed: frozenset[Ref]
    ranges: Mapping[Ref, tuple[Value, Value]]
    checks: frozenset[tuple[Ref, str]]
    description: str | None
    instruction: str | None
    annotations: tuple[AnnotationValue, ...]
    renamed_from: str | None
    implements: tuple[str, ...] = ()
    ends: tuple[int, int] | None = None
    """The identities of the node types at both ends of an edge."""
    cardinality: Cardinality | None = None

    @property
    def table_key(self) -> str:
        """The key of its table in the manifest."""
        return f"{'edge' if self.is_edge else 'node'}:{self.name}"


def build_forms(catalog: Catalog) -> dict[int, TypeForm]:
    """Return the node and edge types by identity, in declared order."""
    nodes = {node.name: node.identity for node in catalog.nodes.values()}
    types = catalog.types
    return {type_.identity: _build_type_form(type_, nodes) for type_ in types}


def _build_type_form(type_: AnyType, nodes: Mapping[str, int]) -> TypeForm:
    refs: dict[str, Ref] = {**{end: end for end in _ENDS}, **{p.name: p.identity for p in type_.properties}}
    return TypeForm(
        name=type_.name,
        is_edge=isinstance(type_, EdgeType),
        properties={p.identity: _build_property_form(p, refs) for p in type_.properties},
        key=tuple(refs[name] for name in type_.key),
        unique=frozenset(frozenset(refs[name] for name in columns) for columns in type_.unique),
        indexed=frozenset(refs[name] for name in type_.indexed),
        ranges={refs[rule.property]: (rule.low, rule.high) for rule in type_.ranges},
        checks=frozenset((refs[rule.property], rule.pattern) for rule in type_.checks),
        description=type_.description,
        instruction=type_.instruction,
        annotations=type_.annotations,
        renamed_from=type_.renamed_from,
        implements=type_.implements if isinstance(type_, NodeType) else (),
        ends=(nodes[type_.source], nodes[type_.target]) if isinstance(type_, EdgeType) else None,
        cardinality=type_.cardinality if isinstance(type_, EdgeType) else None,
    )


def _build_property_form(p: Property, refs: Mapping[str, Ref]) -> PropertyForm:
    embedding = None if p.embedding is None else (refs[p.embedding.source], p.embedding.model)
    return PropertyForm(
        name=p.name,
        type=p.type,
        nullable=p.nullable,
        default=(p.has_default, p.default),
        embedding=embedding,
        metric=p.metric,
        vector_index=p.vector_index,
        language=p.language,
        description=p.description,
        annotations=p.annotations,
        renamed_from=p.renamed_from,
    )


def build_type(identity: int, form: TypeForm, nodes: Mapping[int, str]) -> AnyType:
    """Build the type of a form, whose references must all resolve; `nodes` maps identities to node types' names."""
    names: dict[Ref, str] = {**{end: end for end in _ENDS}, **{number: p.name for number, p in form.properties.items()}}
    # What was a set is sorted, so that the result does not depend on the order of the sides.
    shared = {
        "name": form.name,
        "identity": identity,
        "properties": tuple(_build_property(number, p, names) for number, p in form.properties.items()),
        "key": tuple(names[ref] for ref in form.key),
        "unique": tuple(sorted(tuple(sorted(names[ref] for ref in group)) for group in form.unique)),
        "indexed": tuple(sorted(names[ref] for ref in form.indexed)),
        "ranges": tuple(RangeRule(property=names[ref], low=low, high=high) for ref, (low, high) in form.ranges.items()),
        "checks": tuple(
            CheckRule(property=name, pattern=text)
            for name, text in sorted((names[ref], text) for ref, text in form.checks)
        ),
        "description": form.description,
        "instruction": form.instruction,
        "annotations": form.annotations,
        "renamed_from": form.renamed_from,
    }
    if form.ends is None:
        return NodeType(**shared, implements=form.implements)  # type: ignore[arg-type]  # by name, as written above
    source, target = (nodes[end] for end in form.ends)
    limits = form.cardinality or Cardinality()
    return EdgeType(**shared, source=source, target=target, cardinality=limits)  # type: ignore[arg-type]  # as above


def _build_property(identity: int, form: PropertyForm, names: Mapping[Ref, str]) -> Property:
    embedding = None
    if form.embedding is not None:
        ref, model = form.embedding
        embedding = Embedding(source=names[ref], model=model)
    has_default, default = form.default
    return Property(
        name=form.name,
        identity=identity,
        type=form.type,
        nullable=form.nullable,
        has_default=has_default,
        default=default,
        embedding=embedding,
        metric=form.metric,
        vector_index=form.vector_index,
        language=form.language,
        description=form.description,
        renamed_from=form.renamed_from,
        annotations=form.annotations,
    )


T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaConflict:
    """A part of the schema that the two sides changed in conflicting ways."""

    table: str
    """The key of the type's table; for an interface, its name."""
    property: str | None = None
    message: str


@dataclass(frozen=True, slots=True)
class SideNames:
    """The names of the two sides, for messages."""

    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class _SchemaPath:
    """The type or property that is being merged, for messages."""

    table: str
    property: str | None = None

    def __str__(self) -> str:
        name = self.table.partition(":")[2] or self.table
        return f"`{name}`" if self.property is None else f"`{name}.{self.property}`"


class SchemaMerge:
    """One merge of two catalogs with their base; conflicts are collected on the way."""

    def __init__(self, base: Catalog, ours: Catalog, theirs: Catalog, names: SideNames) -> None:
        self.base = base
        self.ours = ours
        self.theirs = theirs
        self.names = names
        self.conflicts: list[SchemaConflict] = []

    def run(self) -> Catalog:
        """Return the merged catalog. If there are conflicts, it has no meaning."""
        base_forms = build_forms(self.base)
        our_forms = build_forms(self.ours)
        their_forms = build_forms(self.theirs)
        merged: dict[int, TypeForm] = {}
        for identity in _order_identities(base_forms, our_forms, their_forms):
            form = self._merge_type(base_forms.get(identity), our_forms.get(identity), their_forms.get(identity))
            if form is not None:
                merged[identity] = form
        # After a conflict, names may clash only because one of two had to be chosen.
        if not self.conflicts:
            self._check_names(merged)
        for form in merged.values():
            self._check_references(form, merged)
        if self.conflicts:
            return self.ours
        nodes = {identity: form.name for identity, form in merged.items() if not form.is_edge}
        names = {form.name for form in merged.values()}
        types = [build_type(identity, _drop_taken_claims(form, names), nodes) for identity, form in merged.items()]
        return build_catalog(
            tuple(type_ for type_ in types if isinstance(type_, NodeType)),
            tuple(type_ for type_ in types if isinstance(type_, EdgeType)),
            tuple(self._merge_interfaces()),
            max(self.base.next_identity, self.ours.next_identity, self.theirs.next_identity),
        )

    # --- one type -----------------------------------------------------------------------------------

    def _merge_type(self, base: TypeForm | None, ours: TypeForm | None, theirs: TypeForm | None) -> TypeForm | None:
        if ours is None or theirs is None:
            return self._merge_single_side(base, ours, theirs)
        path = _SchemaPath(_choose_name(base, ours, theirs, lambda form: form.table_key))
        base_properties = base.properties if base is not None else {}
        properties: dict[int, PropertyForm] = {}
        for identity in _order_identities(base_properties, ours.properties, theirs.properties):
            merged = self._merge_property(
                path, base_properties.get(identity), ours.properties.get(identity), theirs.properties.get(identity)
            )
            if merged is not None:
                properties[identity] = merged

        def pick(aspect: str, get: Callable[[TypeForm], T]) -> T:
            return self._pick(path, aspect, None if base is None else get(base), get(ours), get(theirs), base is None)

        return TypeForm(
            name=pick("name", lambda form: form.name),
            is_edge=ours.is_edge,
            properties=_order_properties(properties, base_properties, ours.properties, theirs.properties),
            key=pick("key", lambda form: form.key),
            unique=_merge_sets(None if base is None else base.unique, ours.unique, theirs.unique),
            indexed=_merge_sets(None if base is None else base.indexed, ours.indexed, theirs.indexed),
            ranges=self._merge_ranges(path, properties, base, ours, theirs),
            checks=_merge_sets(None if base is None else base.checks, ours.checks, theirs.checks),
            description=pick("description", lambda form: form.description),
            instruction=pick("instruction", lambda form: form.instruction),
            annotations=pick("annotations", lambda form: form.annotations),
            renamed_from=_merge_renamed_from(
                None if base is None else base.renamed_from, ours.renamed_from, theirs.renamed_from
            ),
            implements=pick("interfaces", lambda form: form.implements),
            ends=pick("ends", lambda form: form.ends),
            cardinality=pick("cardinality", lambda form: form.cardinality),
        )

    def _merge_single_side(
        self, base: TypeForm | None, ours: TypeForm | None, theirs: TypeForm | None
    ) -> TypeForm | None:
        """Merge a type that one side does not have: the other side added it, or this one dropped it."""
        remaining = ours if ours is not None else theirs
        if remaining is None or base is None:
            return remaining
        dropper, changer = self._order_sides(is_ours_gone=ours is None)
        # Dropping a type that the other side did not change is no conflict.
        if not _is_alike(base, remaining):
            message = f"`{dropper}` dropped `{base.name}`, and `{changer}` changed its definition"
            self.conflicts.append(SchemaConflict(table=remaining.table_key, message=message))
        return None

    def _merge_property(
        self, type_path: _SchemaPath, base: PropertyForm | None, ours: PropertyForm | None, theirs: PropertyForm | None
    ) -> PropertyForm | None:
        remaining = ours if ours is not None else theirs
        if remaining is None:
            return None
        path = _SchemaPath(
            type_path.table, _choose_name(base, ours or remaining, theirs or remaining, lambda form: form.name)
        )
        if ours is None or theirs is None:
            if base is None:
                return remaining
            dropper, changer = self._order_sides(is_ours_gone=ours is None)
            # A different `@rename_from` alone is no change.
            if not _is_alike(replace(base, renamed_from=None), replace(remaining, renamed_from=None)):
                message = f"`{dropper}` dropped {_SchemaPath(type_path.table, base.name)}, and `{changer}` changed it"
                self.conflicts.append(SchemaConflict(table=type_path.table, property=remaining.name, message=message))
            return None

        def pick(aspect: str, get: Callable[[PropertyForm], T]) -> T:
            return self._pick(path, aspect, None if base is None else get(base), get(ours), get(theirs), base is None)

        return PropertyForm(
            name=pick("name", lambda form: form.name),
            type=self._merge_value_type(path, base, ours, theirs),
            nullable=pick("nullability", lambda form: form.nullable),
            default=pick("default", lambda form: form.default),
            embedding=pick("embedding", lambda form: form.embedding),
            metric=pick("metric", lambda form: form.metric),
            vector_index=pick("vector index", lambda form: form.vector_index),
            language=pick("language", lambda form: form.language),
            description=pick("description", lambda form: form.description),
            annotations=pick("annotations", lambda form: form.annotations),
            renamed_from=_merge_renamed_from(
                None if base is None else base.renamed_from, ours.renamed_from, theirs.renamed_from
            ),
        )

    def _merge_value_type(
        self, path: _SchemaPath, base: PropertyForm | None, ours: PropertyForm, theirs: PropertyForm
    ) -> ValueType:
        """Return the merged type of a property; an enum that both sides extended has the values of both."""
        base_type = None if base is None else base.type
        our_type = ours.type
        their_type = theirs.type
        if isinstance(base_type, EnumOf) and isinstance(our_type, EnumOf) and isinstance(their_type, EnumOf):
            if base_type in (our_type, their_type):
                return their_type if our_type == base_type else our_type
            # A side that has all added values decides their order. If both or none have all, the order is alphabetical.
            added = {*our_type.values, *their_type.values} - {*base_type.values}
            has_all_ours = not added - {*our_type.values}
            has_all_theirs = not added - {*their_type.values}
            if our_type != their_type and has_all_ours == has_all_theirs:
                return EnumOf((*base_type.values, *sorted(added)))
            return our_type if has_all_ours else their_type
        return self._pick(path, "type", base_type, our_type, their_type, base is None)

    def _merge_ranges(
        self,
        type_path: _SchemaPath,
        properties: Mapping[int, PropertyForm],
        base: TypeForm | None,
        ours: TypeForm,
        theirs: TypeForm,
    ) -> dict[Ref, tuple[Value, Value]]:
        """Return the merged bounds of each property that has some."""
        base_ranges = {} if base is None else base.ranges
        ranges: dict[Ref, tuple[Value, Value]] = {}
        for ref in dict.fromkeys((*base_ranges, *ours.ranges, *theirs.ranges)):
            name = properties[ref].name if isinstance(ref, int) and ref in properties else None
            path = _SchemaPath(type_path.table, name)
            values = (base_ranges.get(ref), ours.ranges.get(ref), theirs.ranges.get(ref))
            bounds = self._pick(path, "range", *values, is_new=False)
            if bounds is not None:
                ranges[ref] = bounds
        return ranges

    # --- choosing -----------------------------------------------------------------------------------

    def _pick(self, path: _SchemaPath, aspect: str, base: object, ours: T, theirs: T, is_new: bool) -> T:
        """Return the value of the side that changed it; add a conflict if both did, in different ways."""
        if _is_alike(ours, theirs) or (not is_new and _is_alike(base, theirs)):
            return ours
        if not is_new and _is_alike(base, ours):
            return theirs
        message = f"{self._format_side_names()} both changed the {aspect} of {path}, in different ways"
        self.conflicts.append(SchemaConflict(table=path.table, property=path.property, message=message))
        # Any value would do, but the messages of later conflicts must not depend on the order of the sides.
        return min(ours, theirs, key=repr)

    def _format_side_names(self) -> str:
        """Format the names of both sides, sorted: messages are the same with sides swapped."""
        return " and ".join(f"`{name}`" for name in sorted((self.names.ours, self.names.theirs)))

    def _order_sides(self, *, is_ours_gone: bool) -> tuple[str, str]:
        """Return the name of the side that dropped something, then that of the side that has it."""
        sides = (self.names.ours, self.names.theirs)
        return sides if is_ours_gone else (sides[1], sides[0])

    # --- the whole schema ---------------------------------------------------------------------------

    def _check_names(self, merged: Mapping[int, TypeForm]) -> None:
        """Check that the names of types are unique, and those of properties within each type."""
        for form in _find_repeated(merged.values(), lambda form: form.name):
            message = f"{self._format_side_names()} each have a `{form.name}`, with different definitions"
            self.conflicts.append(SchemaConflict(table=form.table_key, message=message))
        for form in merged.values():
            for p in _find_repeated(form.properties.values(), lambda p: p.name):
                path = _SchemaPath(form.table_key, p.name)
                message = f"{self._format_side_names()} each have a {path}, with different definitions"
                self.conflicts.append(SchemaConflict(table=form.table_key, property=p.name, message=message))

    def _check_references(self, form: TypeForm, merged: Mapping[int, TypeForm]) -> None:
        """Check that a type refers to no property or node type that was dropped."""
        dropped = [ref for ref in _iter_refs(form) if isinstance(ref, int) and ref not in form.properties]
        for ref in dict.fromkeys(dropped):
            name = self._find_name(ref)
            path = _SchemaPath(form.table_key, name)
            message = f"one side dropped {path}, but the other made new use of it"
            self.conflicts.append(SchemaConflict(table=form.table_key, property=name, message=message))
        for end in form.ends or ():
            if end not in merged:
                message = f"`{form.name}` ends at `{self._find_name(end)}`, which the other side dropped"
                self.conflicts.append(SchemaConflict(table=form.table_key, message=message))

    def _find_name(self, identity: int) -> str:
        """Return the name of a type or property: that in the base, else the smaller one of the sides."""
        names: list[str] = []
        for catalog in (self.base, self.ours, self.theirs):
            for number, form in build_forms(catalog).items():
                if number == identity:
                    names.append(form.name)
                elif identity in form.properties:
                    names.append(form.properties[identity].name)
            if names and catalog is self.base:
                break
        return min(names)

    def _merge_interfaces(self) -> Iterable[InterfaceType]:
        # Interfaces have no identity and no table: they are matched by name, and merged as a whole.
        base = self.base.interfaces
        ours = self.ours.interfaces
        theirs = self.theirs.interfaces
        for name in dict.fromkeys((*base, *ours, *theirs)):
            interface = self._pick(
                _SchemaPath(name), "declaration", base.get(name), ours.get(name), theirs.get(name), is_new=False
            )
            if interface is not None:
                yield interface


def _choose_name(base: T | None, ours: T, theirs: T, name: Callable[[T], str]) -> str:
    """Return the name in the base; without a base the smaller one of the sides, which may differ."""
    return min(name(ours), name(theirs)) if base is None else name(base)


def _is_alike(left: object, right: object) -> bool:
    """Return whether two values are equal and written alike."""
    # In Python 1, 1.0 and true are equal, as are 0.0 and -0.0: as defaults they differ.
    return left == right and _serialize(left) == _serialize(right)


def _serialize(value: object) -> str:
    """Return those parts of a value as text for which `==` is not strict enough."""
    match value:
        case TypeForm(properties=properties, ranges=ranges, annotations=notes):
            parts = [(identity, _serialize(p)) for identity, p in sorted(properties.items())]
            return repr((parts, sorted(ranges.items(), key=repr), notes))
        # Sets hold references and patterns, for which `==` is enough; their order in `repr` is arbitrary.
        case frozenset():
            return ""
        case _:
            return repr(value)


def _merge_sets(base: frozenset[H] | None, ours: frozenset[H], theirs: frozenset[H]) -> frozenset[H]:
    """Merge two sets: the items that both have, and those that either side added."""
    before = base or frozenset()
    return (ours & theirs) | (ours - before) | (theirs - before)


def _merge_renamed_from(base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """Merge an earlier name: a conflict is not reported, because renames of both sides were applied already."""
    if ours == base:
        return theirs
    # If both changed it, the smaller name remains, whichever side it is of.
    is_first = ours is not None and (theirs is None or ours < theirs)
    return ours if theirs in (base, ours) or is_first else theirs


def _order_identities(base: Mapping[int, T], ours: Mapping[int, T], theirs: Mapping[int, T]) -> list[int]:
    """Return the identities of the base in its order, then the new ones in ascending order."""
    return [*base, *sorted({*ours, *theirs} - {*base})]


def _order_properties(
    merged: Mapping[int, PropertyForm],
    base: Mapping[int, PropertyForm],
    ours: Mapping[int, PropertyForm],
    theirs: Mapping[int, PropertyForm],
) -> dict[int, PropertyForm]:
    """Sort the merged properties like a side that has all of them; else like the side that reordered those of the base.

    If the sides disagree, the base decides. New properties come last.
    """
    our_order = [identity for identity in ours if identity in merged]
    their_order = [identity for identity in theirs if identity in merged]
    complete = [order for order in (our_order, their_order) if len(order) == len(merged)]
    if complete and all(order == complete[0] for order in complete):
        return {identity: merged[identity] for identity in complete[0]}
    base_order = [identity for identity in merged if identity in base]
    orders = [[identity for identity in order if identity in base] for order in (our_order, their_order)]
    changed = [order for order in orders if order != base_order]
    first = changed[0] if changed and all(order == changed[0] for order in changed) else base_order
    added = [identity for identity in merged if identity not in base]
    return {identity: merged[identity] for identity in (*first, *added)}


def _find_repeated(items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    seen: set[str] = set()
    repeated: list[T] = []
    for item in items:
        if name(item) in seen:
            repeated.append(item)
        seen.add(name(item))
    return repeated


def _iter_refs(form: TypeForm) -> Iterable[Ref]:
    yield from form.key
    yield from (ref for group in form.unique for ref in group)
    yield from form.indexed
    yield from form.ranges
    yield from (ref for ref, _ in form.checks)
    yield from (p.embedding[0] for p in form.properties.values() if p.embedding is not None)


def _drop_taken_claims(form: TypeForm, names: set[str]) -> TypeForm:
    """Return the form without earlier names that are in use again: the binder would reject such a `@rename_from`."""
    property_names = {p.name for p in form.properties.values()}
    claims: set[str] = set()
    properties = {}
    for identity, p in form.properties.items():
        is_free = p.renamed_from not in property_names and p.renamed_from not in claims
        # Of two claims to one name the first remains.
        properties[identity] = p if is_free else replace(p, renamed_from=None)
        claims.add(p.renamed_from or "")
    renamed_from = None if form.renamed_from in names else form.renamed_from
    return replace(form, properties=properties, renamed_from=renamed_from)
