"""The three-way merge of types, property by property and rule by rule. Pure: nothing but catalogs is looked at."""

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
    NodeType,
    Property,
    RangeRule,
    Value,
    build_catalog,
)
from omnigraph.schema.types import EnumOf, ValueType

Ref: TypeAlias = int | str
"""A column: the identity of its property, or `src` or `dst`."""
_ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyForm:
    """A property; the source of its embedding is a column."""

    name: str
    type: ValueType
    nullable: bool
    default: tuple[bool, Value]
    embedding: tuple[Ref, str | None] | None
    description: str | None
    annotations: tuple[AnnotationValue, ...]
    renamed_from: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeForm:
    """A type; what has no order is a set."""

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
    """The identities of an edge's node types."""
    cardinality: Cardinality | None = None

    @property
    def table_key(self) -> str:
        """The name of its table in the manifest."""
        return f"{'edge' if self.is_edge else 'node'}:{self.name}"


def build_forms(catalog: Catalog) -> dict[int, TypeForm]:
    """The node and edge types by identity, in declared order."""
    nodes = {node.name: node.identity for node in catalog.nodes.values()}
    types: tuple[AnyType, ...] = (*catalog.nodes.values(), *catalog.edges.values())
    return {type_.identity: _build_type_form(type_, nodes) for type_ in types}


def _build_type_form(type_: AnyType, nodes: Mapping[str, int]) -> TypeForm:
    refs: dict[str, Ref] = {**{end: end for end in _ENDS}, **{p.name: p.identity for p in type_.properties}}
    is_edge = isinstance(type_, EdgeType)
    return TypeForm(
        name=type_.name,
        is_edge=is_edge,
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
        implements=() if is_edge else _get_interfaces(type_),
        ends=(nodes[type_.source], nodes[type_.target]) if isinstance(type_, EdgeType) else None,
        cardinality=type_.cardinality if isinstance(type_, EdgeType) else None,
    )


def _get_interfaces(type_: AnyType) -> tuple[str, ...]:
    return type_.implements if isinstance(type_, NodeType) else ()


def _build_property_form(p: Property, refs: Mapping[str, Ref]) -> PropertyForm:
    embedding = None if p.embedding is None else (refs[p.embedding.source], p.embedding.model)
    return PropertyForm(
        name=p.name,
        type=p.type,
        nullable=p.nullable,
        default=(p.has_default, p.default),
        embedding=embedding,
        description=p.description,
        annotations=p.annotations,
        renamed_from=p.renamed_from,
    )


def build_type(identity: int, form: TypeForm, nodes: Mapping[int, str]) -> AnyType:
    """The type of a form, whose columns all exist; `nodes` are the names of node types."""
    names: dict[Ref, str] = {**{end: end for end in _ENDS}, **{one: p.name for one, p in form.properties.items()}}
    shared = {
        "name": form.name,
        "identity": identity,
        "properties": tuple(_build_property(one, p, names) for one, p in form.properties.items()),
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
        description=form.description,
        renamed_from=form.renamed_from,
        annotations=form.annotations,
    )


T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaConflict:
    """Something of the schema about which the two sides don't agree."""

    table: str
    """The key of its type's table; of an interface, its name."""
    property: str | None = None
    message: str


@dataclass(frozen=True, slots=True)
class SideNames:
    """What the two sides are called."""

    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class _SchemaPath:
    """What is being merged, for messages."""

    table: str
    property: str | None = None

    def __str__(self) -> str:
        name = self.table.partition(":")[2] or self.table
        return f"`{name}`" if self.property is None else f"`{name}.{self.property}`"


class SchemaMerge:
    """One merge; what the sides don't agree about is collected on the way."""

    def __init__(self, base: Catalog, ours: Catalog, theirs: Catalog, names: SideNames) -> None:
        self.base, self.ours, self.theirs, self.names = base, ours, theirs, names
        self.conflicts: list[SchemaConflict] = []

    def run(self) -> Catalog:
        """The merged catalog; with divergences it is of no use."""
        before, mine, others = build_forms(self.base), build_forms(self.ours), build_forms(self.theirs)
        merged: dict[int, TypeForm] = {}
        for identity in _order_identities(before, mine, others):
            form = self._merge_type(before.get(identity), mine.get(identity), others.get(identity))
            if form is not None:
                merged[identity] = form
        if not self.conflicts:  # else names may clash only because one had to be taken
            self._check_names(merged)
        interfaces = self._merge_interfaces()
        merged = {one: self._check_references(form, merged) for one, form in merged.items()}
        if self.conflicts:
            return self.ours
        nodes = {one: form.name for one, form in merged.items() if not form.is_edge}
        names = {form.name for form in merged.values()}
        types = [build_type(one, _drop_taken_claims(form, names), nodes) for one, form in merged.items()]
        return build_catalog(
            tuple(type_ for type_ in types if isinstance(type_, NodeType)),
            tuple(type_ for type_ in types if isinstance(type_, EdgeType)),
            tuple(interfaces),
            max(self.base.next_identity, self.ours.next_identity, self.theirs.next_identity),
        )

    # --- one type -----------------------------------------------------------------------------------

    def _merge_type(self, base: TypeForm | None, ours: TypeForm | None, theirs: TypeForm | None) -> TypeForm | None:
        if ours is None or theirs is None:
            return self._merge_single_side(base, ours, theirs)
        place = _SchemaPath(_choose_name(base, ours, theirs, lambda form: form.table_key))
        known = base.properties if base is not None else {}
        properties: dict[int, PropertyForm] = {}
        for one in _order_identities(known, ours.properties, theirs.properties):
            made = self._merge_property(place, known.get(one), ours.properties.get(one), theirs.properties.get(one))
            if made is not None:
                properties[one] = made

        def pick(what: str, get: Callable[[TypeForm], T]) -> T:
            return self._pick(place, what, None if base is None else get(base), get(ours), get(theirs), base is None)

        return TypeForm(
            name=pick("name", lambda form: form.name),
            is_edge=ours.is_edge,
            properties=_order_properties(properties, known, ours.properties, theirs.properties),
            key=pick("key", lambda form: form.key),
            unique=_merge_sets(None if base is None else base.unique, ours.unique, theirs.unique),
            indexed=_merge_sets(None if base is None else base.indexed, ours.indexed, theirs.indexed),
            ranges=self._merge_ranges(place, properties, base, ours, theirs),
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
        """A type that one side has not: the other added it, or this one dropped it."""
        left = ours if ours is not None else theirs
        if left is None or base is None:
            return left
        dropper, changer = self._order_sides(is_ours_gone=ours is None)
        if not _is_alike(base, left):
            message = f"`{dropper}` dropped `{base.name}`, and `{changer}` changed its definition"
            self.conflicts.append(SchemaConflict(table=left.table_key, message=message))
        return None

    def _merge_property(
        self, place: _SchemaPath, base: PropertyForm | None, ours: PropertyForm | None, theirs: PropertyForm | None
    ) -> PropertyForm | None:
        left = ours if ours is not None else theirs
        if left is None:
            return None
        here = _SchemaPath(place.table, _choose_name(base, ours or left, theirs or left, lambda form: form.name))
        if ours is None or theirs is None:
            if base is None:
                return left
            dropper, changer = self._order_sides(is_ours_gone=ours is None)
            if not _is_alike(replace(base, renamed_from=None), replace(left, renamed_from=None)):
                message = f"`{dropper}` dropped {_SchemaPath(place.table, base.name)}, and `{changer}` changed it"
                self.conflicts.append(SchemaConflict(table=place.table, property=left.name, message=message))
            return None

        def pick(what: str, get: Callable[[PropertyForm], T]) -> T:
            return self._pick(here, what, None if base is None else get(base), get(ours), get(theirs), base is None)

        return PropertyForm(
            name=pick("name", lambda form: form.name),
            type=self._merge_value_type(here, base, ours, theirs),
            nullable=pick("nullability", lambda form: form.nullable),
            default=pick("default", lambda form: form.default),
            embedding=pick("embedding", lambda form: form.embedding),
            description=pick("description", lambda form: form.description),
            annotations=pick("annotations", lambda form: form.annotations),
            renamed_from=_merge_renamed_from(
                None if base is None else base.renamed_from, ours.renamed_from, theirs.renamed_from
            ),
        )

    def _merge_value_type(
        self, place: _SchemaPath, base: PropertyForm | None, ours: PropertyForm, theirs: PropertyForm
    ) -> ValueType:
        """An enum that both sides extended has the values of both."""
        types = [None if one is None else one.type for one in (base, ours, theirs)]
        first, mine, others = types
        if isinstance(first, EnumOf) and isinstance(mine, EnumOf) and isinstance(others, EnumOf):
            added = {*mine.values, *others.values} - {*first.values}
            if first in (mine, others):
                return others if mine == first else mine
            is_whole = [not added - {*one.values} for one in (mine, others)]
            if mine != others and is_whole[0] == is_whole[1]:
                return EnumOf((*first.values, *sorted(added)))
            return mine if is_whole[0] else others
        return self._pick(place, "type", first, ours.type, theirs.type, base is None)

    def _merge_ranges(
        self,
        place: _SchemaPath,
        properties: Mapping[int, PropertyForm],
        base: TypeForm | None,
        ours: TypeForm,
        theirs: TypeForm,
    ) -> dict[Ref, tuple[Value, Value]]:
        """The bounds of each property that has some."""
        before = {} if base is None else base.ranges
        found = {}
        for ref in dict.fromkeys((*before, *ours.ranges, *theirs.ranges)):
            name = properties[ref].name if isinstance(ref, int) and ref in properties else None
            here = _SchemaPath(place.table, name)
            values = (before.get(ref), ours.ranges.get(ref), theirs.ranges.get(ref))
            chosen = self._pick(here, "range", *values, is_new=False)
            if chosen is not None:
                found[ref] = chosen
        return found

    # --- choosing -----------------------------------------------------------------------------------

    def _pick(self, place: _SchemaPath, what: str, base: object, ours: T, theirs: T, is_new: bool) -> T:
        """The value of the side that changed it; both may have, alike."""
        if _is_alike(ours, theirs) or (not is_new and _is_alike(base, theirs)):
            return ours
        if not is_new and _is_alike(base, ours):
            return theirs
        message = f"both {self._format_side_names()} changed the {what} of {place}, not alike"
        self.conflicts.append(SchemaConflict(table=place.table, property=place.property, message=message))
        return min(ours, theirs, key=repr)

    def _format_side_names(self) -> str:
        """The two sides, in an order that does not depend on which is which."""
        return " and ".join(f"`{name}`" for name in sorted((self.names.ours, self.names.theirs)))

    def _order_sides(self, *, is_ours_gone: bool) -> tuple[str, str]:
        """Who dropped something, and who has it."""
        sides = (self.names.ours, self.names.theirs)
        return sides if is_ours_gone else (sides[1], sides[0])

    # --- the whole ----------------------------------------------------------------------------------

    def _check_names(self, merged: Mapping[int, TypeForm]) -> None:
        """No two types, and no two properties of one, have one name."""
        for form in _find_repeated(merged.values(), lambda form: form.name):
            message = f"{self._format_side_names()} each have a `{form.name}`, and they are not alike"
            self.conflicts.append(SchemaConflict(table=form.table_key, message=message))
        for form in merged.values():
            for p in _find_repeated(form.properties.values(), lambda p: p.name):
                where = _SchemaPath(form.table_key, p.name)
                message = f"{self._format_side_names()} each have a {where}, and they are not alike"
                self.conflicts.append(SchemaConflict(table=form.table_key, property=p.name, message=message))

    def _check_references(self, form: TypeForm, merged: Mapping[int, TypeForm]) -> TypeForm:
        """Nothing refers to what is gone."""
        gone = [ref for ref in _iter_refs(form) if isinstance(ref, int) and ref not in form.properties]
        for ref in dict.fromkeys(gone):
            message = f"one side dropped {_SchemaPath(form.table_key, self._find_name(ref))}, and the other made new use of it"
            self.conflicts.append(SchemaConflict(table=form.table_key, property=self._find_name(ref), message=message))
        for end in form.ends or ():
            if end not in merged:
                message = f"`{form.name}` ends at `{self._find_name(end)}`, which the other side dropped"
                self.conflicts.append(SchemaConflict(table=form.table_key, message=message))
        return form

    def _find_name(self, identity: int) -> str:
        names: list[str] = []
        for catalog in (self.base, self.ours, self.theirs):
            for one, form in build_forms(catalog).items():
                if one == identity:
                    names.append(form.name)
                elif identity in form.properties:
                    names.append(form.properties[identity].name)
            if names and catalog is self.base:
                break
        return min(names)

    def _merge_interfaces(self) -> Iterable[InterfaceType]:
        before, mine, others = (one.interfaces for one in (self.base, self.ours, self.theirs))
        for name in dict.fromkeys((*before, *mine, *others)):
            chosen = self._pick(
                _SchemaPath(name), "declaration", before.get(name), mine.get(name), others.get(name), is_new=False
            )
            if chosen is not None:
                yield chosen


def _choose_name(base: T | None, ours: T, theirs: T, name: Callable[[T], str]) -> str:
    """What something is called that the sides may call otherwise: as it was, or the same whichever side is which."""
    return min(name(ours), name(theirs)) if base is None else name(base)


def _is_alike(one: object, other: object) -> bool:
    """Whether two values say the same: 1, 1.0 and true are equal in Python, and so are 0.0 and -0.0."""
    return one == other and _serialize(one) == _serialize(other)


def _serialize(value: object) -> str:
    """How the parts of a value are written for which being equal is not enough."""
    match value:
        case TypeForm(properties=properties, ranges=ranges, annotations=notes):
            parts = [(one, _serialize(p)) for one, p in sorted(properties.items())]
            return repr((parts, sorted(ranges.items(), key=repr), notes))
        case frozenset():
            return ""
        case _:
            return repr(value)


def _merge_sets(base: frozenset[H] | None, ours: frozenset[H], theirs: frozenset[H]) -> frozenset[H]:
    """What both have, and what either added."""
    before = base or frozenset()
    return (ours & theirs) | (ours - before) | (theirs - before)


def _merge_renamed_from(base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """An earlier name, which only says what was done."""
    if ours == base:
        return theirs
    is_first = ours is not None and (theirs is None or ours < theirs)
    return ours if theirs in (base, ours) or is_first else theirs


def _order_identities(base: Mapping[int, T], ours: Mapping[int, T], theirs: Mapping[int, T]) -> list[int]:
    """What the base has in its order, then what came, in the order in which it was numbered."""
    return [*base, *sorted({*ours, *theirs} - {*base})]


def _order_properties(
    merged: Mapping[int, PropertyForm],
    base: Mapping[int, PropertyForm],
    ours: Mapping[int, PropertyForm],
    theirs: Mapping[int, PropertyForm],
) -> dict[int, PropertyForm]:
    """The properties in the order of a side that has all; else of the one that changed it, with what came behind."""
    whole = [[one for one in side if one in merged] for side in (ours, theirs)]
    whole = [order for order in whole if len(order) == len(merged)]
    if whole and all(order == whole[0] for order in whole):
        return {one: merged[one] for one in whole[0]}
    kept = [one for one in merged if one in base]
    orders = [[one for one in side if one in merged and one in base] for side in (ours, theirs)]
    changed = [order for order in orders if order != kept]
    first = changed[0] if changed and all(order == changed[0] for order in changed) else kept
    return {one: merged[one] for one in (*first, *(one for one in merged if one not in base))}


def _find_repeated(items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    seen: set[str] = set()
    found = []
    for item in items:
        if name(item) in seen:
            found.append(item)
        seen.add(name(item))
    return found


def _iter_refs(form: TypeForm) -> Iterable[Ref]:
    yield from form.key
    yield from (ref for group in form.unique for ref in group)
    yield from form.indexed
    yield from form.ranges
    yield from (ref for ref, _ in form.checks)
    yield from (p.embedding[0] for p in form.properties.values() if p.embedding is not None)


def _drop_taken_claims(form: TypeForm, names: set[str]) -> TypeForm:
    """Without earlier names that somebody else has now."""
    own = {p.name for p in form.properties.values()}
    claims: set[str] = set()
    properties = {}
    for one, p in form.properties.items():
        is_free = p.renamed_from not in own and p.renamed_from not in claims
        properties[one] = p if is_free else replace(p, renamed_from=None)
        claims.add(p.renamed_from or "")
    renamed_from = None if form.renamed_from in names else form.renamed_from
    return replace(form, properties=properties, renamed_from=renamed_from)
