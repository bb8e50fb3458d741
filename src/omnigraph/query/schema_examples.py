"""Write example queries over the types of a schema: each passes the checks, and runs on any graph that has the schema.

They contain names of the schema and nothing of the stored rows, so no value of a graph gets into them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from omnigraph.lang.lexer import RESERVED_WORDS
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType, Property
from omnigraph.schema.regex import compile_pattern
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

# A schema may have hundreds of types; a model needs each form of the language once.
_VALUES: Mapping[Scalar, object] = {
    Scalar.STRING: "example",
    Scalar.BOOL: True,
    Scalar.DATE: "2026-01-31",
    Scalar.DATETIME: "2026-01-31T12:00:00Z",
    **dict.fromkeys((Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64), 1),
    **dict.fromkeys((Scalar.F32, Scalar.F64), 0.5),
}
_CANDIDATES = ("example", "a@example.org", "https://example.org/a", "example-1", "EXAMPLE", "A1", "12345")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaExample:
    """A query that shows one form of the language, with values for its parameters."""

    title: str
    text: str
    params: Mapping[str, object] = field(default_factory=dict)
    is_mutation: bool = False


@dataclass(frozen=True, slots=True)
class _Slot:
    """A property that a mutation sets: its name, its type in a parameter, and a value that fits."""

    name: str
    type: str
    value: object


def build_examples(catalog: Catalog) -> tuple[SchemaExample, ...]:
    """Return an example for each form of the language that the schema has types for; none for an empty schema."""
    builders: tuple[Callable[[Catalog], SchemaExample | None], ...] = (
        _show_rows,
        _show_key,
        _show_condition,
        _show_hop,
        _show_edge_variable,
        _show_count,
        _show_absence,
        _show_optional,
        _show_distance,
        _show_words,
        _show_vector,
        _show_insert,
        _show_edge_insert,
        _show_update,
        _show_delete,
    )
    built = (build(catalog) for build in builders)
    return tuple(example for example in built if example is not None)


# --- reads -----------------------------------------------------------------------------------------------


def _show_rows(catalog: Catalog) -> SchemaExample | None:
    for node in catalog.nodes.values():
        shown = _list_columns(node)
        columns = ", ".join(f"$x.{name}" for name in shown) if shown else "$x.@id as id"
        order = f" order {{ $x.{shown[0]} }}" if shown else " order { id }"
        text = f"query rows() {{ match {{ $x: {node.name} }} return {{ {columns} }}{order} limit 10 }}"
        return SchemaExample(title="rows of a type, in order", text=text)
    return None


def _show_key(catalog: Catalog) -> SchemaExample | None:
    for node in catalog.nodes.values():
        slots = [_build_slot(node, name) for name in node.key]
        if slots and all(slots):
            params, pattern, values = _join_slots([slot for slot in slots if slot])
            text = f"query one({params}) {{ match {{ $x: {node.name} {{ {pattern} }} }} return {{ $x }} }}"
            return SchemaExample(title="one row by its key; `$x` alone is the whole row", text=text, params=values)
    return None


def _show_condition(catalog: Catalog) -> SchemaExample | None:
    for node, p in _iter_properties(catalog):
        if isinstance(p.type, Scalar) and (p.type.is_numeric or p.type in (Scalar.DATE, Scalar.DATETIME)):
            text = (
                f"query above($low: {p.type}) {{ match {{ $x: {node.name} $x.{p.name} >= $low }}"
                f" return {{ $x.@id as id, $x.{p.name} }} order {{ $x.{p.name} desc }} limit 10 }}"
            )
            return SchemaExample(
                title="a condition is a clause of the match", text=text, params={"low": _VALUES[p.type]}
            )
    return None


def _show_hop(catalog: Catalog) -> SchemaExample | None:
    return _show_edge(
        catalog,
        "a hop along an edge: `$b` gets its type from the edge",
        "query linked() {{ match {{ $a: {source} $a {hop} $b }}"
        " return {{ $a.@id as from_id, $b.@id as to_id }} order {{ from_id, to_id }} limit 10 }}",
    )


def _show_edge(catalog: Catalog, title: str, template: str) -> SchemaExample | None:
    """Show the first edge type of the schema by a text that names its source and its hop."""
    edge = next(iter(catalog.edges.values()), None)
    if edge is None:
        return None
    return SchemaExample(title=title, text=template.format(source=edge.source, hop=_name_hop(edge)))


def _show_edge_variable(catalog: Catalog) -> SchemaExample | None:
    for edge in catalog.edges.values():
        shown = _list_columns(edge)
        if shown:
            text = (
                f"query links() {{ match {{ $a: {edge.source} $a $e:{_name_hop(edge)} $b }}"
                f" return {{ $a.@id as from_id, $b.@id as to_id, $e.{shown[0]} as value }}"
                " order { value desc } limit 10 }"
            )
            return SchemaExample(title="properties of an edge need an edge variable, `$e:`", text=text)
    return None


def _show_count(catalog: Catalog) -> SchemaExample | None:
    return _show_edge(
        catalog,
        "groups: what is no aggregate is the key",
        "query counts() {{ match {{ $a: {source} $a {hop} $b }}"
        " return {{ $a.@id as id, count($b) as n }} order {{ n desc, id }} limit 10 }}",
    )


def _show_absence(catalog: Catalog) -> SchemaExample | None:
    return _show_edge(
        catalog,
        "rows without a match of a block",
        "query without() {{ match {{ $a: {source} not {{ $a {hop} $b }} }}"
        " return {{ $a.@id as id }} order {{ id }} limit 10 }}",
    )


def _show_optional(catalog: Catalog) -> SchemaExample | None:
    return _show_edge(
        catalog,
        "keeps the rows that the block has no match for, with nulls",
        "query all() {{ match {{ $a: {source} optional {{ $a {hop} $b }} }}"
        " return {{ $a.@id as from_id, $b.@id as to_id }} order {{ from_id, to_id }} limit 10 }}",
    )


def _show_distance(catalog: Catalog) -> SchemaExample | None:
    for edge in catalog.edges.values():
        if edge.source == edge.target:
            text = (
                f"query reach($id: String) {{ match {{ $a: {edge.source} $a.@id = $id $a {_name_hop(edge)}{{1,3}} $b }}"
                " return { $b.@id as id } order { id } limit 10 }"
            )
            return SchemaExample(title="one to three hops", text=text, params={"id": "example"})
    return None


def _show_words(catalog: Catalog) -> SchemaExample | None:
    for node, p in sorted(_iter_properties(catalog), key=lambda pair: pair[1].name not in pair[0].indexed):
        if p.type is Scalar.STRING:
            text = (
                f"query words($words: String) {{ match {{ $x: {node.name} search($x.{p.name}, $words) }}"
                f" return {{ $x.@id as id, $x.{p.name} }} order {{ bm25($x.{p.name}, $words) }} limit 5 }}"
            )
            return SchemaExample(title="words in a text, by relevance", text=text, params={"words": "a"})
    return None


def _show_vector(catalog: Catalog) -> SchemaExample | None:
    for node, p in _iter_properties(catalog):
        if isinstance(p.type, VectorOf):
            text = (
                f"query near($v: {p.type}) {{ match {{ $x: {node.name} }}"
                f" return {{ $x.@id as id }} order {{ nearest($x.{p.name}, $v) }} limit 5 }}"
            )
            # The cosine of a vector of zeros is not defined.
            vector = [1.0, *[0.0] * (p.type.size - 1)]
            return SchemaExample(title="the nearest vectors", text=text, params={"v": vector})
    return None


# --- writes ----------------------------------------------------------------------------------------------


def _show_insert(catalog: Catalog) -> SchemaExample | None:
    for node in sorted(catalog.nodes.values(), key=lambda node: not node.key):
        slots = _fill(catalog, node)
        if slots:
            params, assigned, values = _join_slots(slots)
            text = f"query add({params}) {{ insert {node.name} {{ {assigned} }} }}"
            title = "insert; a row with the same key is written over" if node.key else "insert"
            return SchemaExample(title=title, text=text, params=values, is_mutation=True)
    return None


def _show_edge_insert(catalog: Catalog) -> SchemaExample | None:
    for edge in catalog.edges.values():
        ends = [catalog.nodes[name] for name in (edge.source, edge.target)]
        fillings = [_fill(catalog, end, edge) for end in ends]
        own = _fill(catalog, edge)
        if own is None or any(filling is None for filling in fillings):
            continue
        words, params, values = [], [], dict[str, object]()
        for end, filling, name in zip(ends, fillings, "ab", strict=True):
            slots = [_Slot(f"{name}_{slot.name}", slot.type, slot.value) for slot in filling or ()]
            pairs = zip(filling or (), slots, strict=True)
            assigned = ", ".join(f"{slot.name}: ${given.name}" for slot, given in pairs)
            words.append(f"insert {end.name} {{ {assigned} }} as ${name}")
            params += [f"${slot.name}: {slot.type}" for slot in slots]
            values |= {slot.name: slot.value for slot in slots}
        assigned = "".join(f", {slot.name}: ${slot.name}" for slot in own)
        params += [f"${slot.name}: {slot.type}" for slot in own]
        values |= {slot.name: slot.value for slot in own}
        words.append(f"insert {edge.name} {{ from: $a, to: $b{assigned} }}")
        return SchemaExample(
            title="an edge; `from` and `to` are nodes of this query, or ids",
            text=f"query link({', '.join(params)}) {{ {' '.join(words)} }}",
            params=values,
            is_mutation=True,
        )
    return None


def _show_update(catalog: Catalog) -> SchemaExample | None:
    for node, p in _iter_properties(catalog):
        is_free = p.name not in node.key and not any(p.name in names for names in node.unique)
        slot = _build_slot(node, p.name) if is_free and p.embedding is None else None
        if slot is not None:
            block = f"match {{ $x: {node.name} $x.@id = $id }}"
            params = f"$id: String, $value: {slot.type}"
            text = f"query change({params}) {{ {block} update $x set {{ {p.name}: $value }} }}"  # noqa: S608 - no SQL
            values = {"id": "example", "value": slot.value}
            return SchemaExample(title="update what a match finds", text=text, params=values, is_mutation=True)
    return None


def _show_delete(catalog: Catalog) -> SchemaExample | None:
    for node in catalog.nodes.values():
        text = f"query remove($id: String) {{ match {{ $x: {node.name} $x.@id = $id }} delete $x }}"
        return SchemaExample(
            title="delete a node with its edges", text=text, params={"id": "example"}, is_mutation=True
        )
    return None


# --- names and values ------------------------------------------------------------------------------------


def _iter_properties(catalog: Catalog) -> Iterator[tuple[NodeType, Property]]:
    for node in catalog.nodes.values():
        for p in node.properties:
            yield node, p


def _list_columns(type_: AnyType) -> list[str]:
    """Return up to three properties that a row of a result can be ordered by."""
    shown = [p.name for p in type_.properties if isinstance(p.type, EnumOf) or p.type in _VALUES]
    return shown[:3]


def _name_hop(edge: EdgeType) -> str:
    """Return the edge as a hop writes it: with a small first letter, in quotes if that is a word of the language."""
    name = edge.name[:1].lower() + edge.name[1:]
    return f'"{name}"' if name.lower() in RESERVED_WORDS else name


def _join_slots(slots: list[_Slot]) -> tuple[str, str, dict[str, object]]:
    """Return parameters, assignments and values."""
    params = ", ".join(f"${slot.name}: {slot.type}" for slot in slots)
    assigned = ", ".join(f"{slot.name}: ${slot.name}" for slot in slots)
    return params, assigned, {slot.name: slot.value for slot in slots}


def _fill(catalog: Catalog, type_: AnyType, present: EdgeType | None = None) -> list[_Slot] | None:
    """Return what an insert must set; None if the type has a rule that no example can promise to keep.

    `present` is an edge that the same query inserts.
    """
    if isinstance(type_, NodeType):
        for edge in catalog.edges.values():
            if edge.source == type_.name and edge.cardinality.low > (edge is present):
                return None
    slots = []
    for p in type_.properties:
        if p.is_required or p.name in type_.key:
            slot = _build_slot(type_, p.name)
            if slot is None:
                return None
            slots.append(slot)
    if slots or isinstance(type_, EdgeType):
        return slots
    # An insert of a node sets something.
    optional = (_build_slot(type_, p.name) for p in type_.properties)
    return [slot for slot in optional if slot is not None][:1] or None


def _build_slot(type_: AnyType, name: str) -> _Slot | None:
    """Return a value that the property accepts, with the type of its parameter; None if none is known."""
    p = type_.find_property(name)
    value = None if p is None else _choose_value(type_, p)
    if p is None or value is None:
        return None
    return _Slot(name, _name_parameter_type(p.type), value)


def _choose_value(type_: AnyType, p: Property) -> object | None:
    ranges = [rule for rule in type_.ranges if rule.property == p.name]
    if ranges:
        if not (isinstance(p.type, Scalar) and p.type.is_numeric):
            return None
        low = next((rule.low for rule in ranges if rule.low is not None), None)
        high = next((rule.high for rule in ranges if rule.high is not None), None)
        chosen = low if low is not None else high
        # Two rules may leave nothing in common.
        return chosen if len(ranges) == 1 else None
    patterns = [compile_pattern(rule.pattern) for rule in type_.checks if rule.property == p.name]
    if patterns:
        fitting = (text for text in _CANDIDATES if all(pattern.search(text) for pattern in patterns))
        return next(fitting, None)
    match p.type:
        case EnumOf(values=values):
            return values[0]
        case ListOf(element=element):
            return [_VALUES[element]]
        case VectorOf(size=size):
            return [1.0, *[0.0] * (size - 1)]
        case Scalar():
            return _VALUES.get(p.type)
    return None


def _name_parameter_type(type_: ValueType) -> str:
    return "String" if isinstance(type_, EnumOf) else str(type_)
