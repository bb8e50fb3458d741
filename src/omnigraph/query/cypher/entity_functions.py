"""The functions of nodes, relationships and paths."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name
from omnigraph.query.cypher import values
from omnigraph.query.cypher.calls import Bind, refuse_argument
from omnigraph.query.cypher.composites import bind_property, build_map, read_item
from omnigraph.query.cypher.names import get_relationship_type
from omnigraph.query.cypher.properties import find_common_property, warn_omissions
from omnigraph.query.cypher.scope import build_identity_of, build_whole
from omnigraph.query.expr import (
    Case,
    Const,
    EdgeRef,
    Entity,
    Expr,
    Identity,
    MetaColumn,
    NodeRef,
    Op,
    RecordOf,
    WalkOf,
)
from omnigraph.query.expr_types import WALK_EDGES, WALK_LENGTH, WALK_NODES
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.query.union_types import is_union, list_members, resolve_types
from omnigraph.query.walk_plan import read_part
from omnigraph.schema.types import ListOf, Scalar

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder
    from omnigraph.schema.catalog import Value

_F = ScalarFunction


def bind_size(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `size` of a list or a text."""
    (value,) = arguments
    if values.is_text_value(value):
        return binder.compute(_F.LENGTH, (value,), Scalar.I64, call.span, can_fail=False)
    if not values.is_list(value):
        refuse_argument(binder, call, value, "a list or a String")
    return binder.compute(_F.SIZE, (value,), Scalar.I64, call.span, can_fail=False)


def _require_entity(binder: "ExpressionBinder", call: tree.Call, value: Expr) -> NodeRef | EdgeRef:
    if not isinstance(value.type, NodeRef | EdgeRef):
        refuse_argument(binder, call, value, "a node or relationship")
    return value.type


def bind_id(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `id` and `elementId`: a text, `Type/id`."""
    _require_entity(binder, call, arguments[0])
    return values.build_element_id(arguments[0], call.span)


def _choose_by_type(value: Expr, texts: Mapping[str, Expr], call: tree.Call) -> Expr:
    """Return the value that belongs to the type of a node or relationship."""
    # The type of a row is known by its name, which is a value of a union.
    type_name, _ = values.list_type_and_id(value)
    distinct = list(texts.items())
    if len(distinct) == 1 and not value.nullable:
        return distinct[0][1]
    branches = []
    for name, text in distinct:
        test = values.compare(Op.EQ, type_name, values.build_const(name, call.span), call.span)
        assert test is not None  # noqa: S101 - texts compare
        branches.append((test, text))
    return Case(branches=tuple(branches), otherwise=values.build_null(distinct[0][1].type, call.span), origin=call.span)


def bind_type(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `type` of a relationship."""
    (value,) = arguments
    type_ = _require_entity(binder, call, value)
    if not isinstance(type_, EdgeRef):
        refuse_argument(binder, call, value, "a relationship")
    edges = binder.context.catalog.edges
    texts = {
        name: values.build_const(get_relationship_type(edges[name]), call.span) for name in list_members(type_.name)
    }
    return _choose_by_type(value, texts, call)


def bind_labels(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `labels` of a node: its type and interfaces."""
    (value,) = arguments
    type_ = _require_entity(binder, call, value)
    if not isinstance(type_, NodeRef):
        refuse_argument(binder, call, value, "a node")
    nodes = binder.context.catalog.nodes
    lists: dict[str, Expr] = {}
    for name in list_members(type_.name):
        labels = (name, *sorted(nodes[name].implements))
        lists[name] = Const(value=labels, type=ListOf(Scalar.STRING), origin=call.span)
    return _choose_by_type(value, lists, call)


def bind_keys(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `keys` of a node, a relationship or a map."""
    (value,) = arguments
    type_ = value.type
    if isinstance(type_, NodeRef | EdgeRef):
        return _list_present(binder, call, value, type_)
    if isinstance(type_, RecordOf):
        names = tuple(name for name, _ in type_.fields)
        return Const(value=names, type=ListOf(Scalar.STRING), origin=call.span)
    refuse_argument(binder, call, value, "a node, a relationship or a map")
    return None


def _list_present(binder: "ExpressionBinder", call: tree.Call, value: Expr, type_: NodeRef | EdgeRef) -> Expr:
    """Return the names of the properties that a node or relationship has: those that are not null."""
    span = call.span
    lists: dict[str, Expr] = {}
    for declared in resolve_types(binder.context.catalog, type_.name):
        # A union leaves out what has two types, but the type of a row has it.
        parts: list[Expr] = []
        always: list[Value] = []
        for prop in declared.properties:
            if not prop.nullable:
                always.append(prop.name)
                continue
            if find_common_property(binder.context, type_, prop.name) is None:
                help_ = "name a label, so that it has one: `(n:Label)`"
                binder.refuse_form(span, f"`keys` where `{prop.name}` has two types is not supported", help_)
            key = tree.Property(operand=call.arguments[0], key=Name(prop.name, span), span=span)
            is_missing = values.is_null_test(bind_property(binder, key), span)
            none = Const(value=(), type=ListOf(Scalar.STRING), origin=span)
            name = Const(value=(prop.name,), type=ListOf(Scalar.STRING), origin=span)
            parts.append(Case(branches=((is_missing, none),), otherwise=name, origin=span))
        whole: Expr = Const(value=tuple(always), type=ListOf(Scalar.STRING), origin=span)
        for part in parts:
            whole = binder.compute(_F.JOIN_LISTS, (whole, part), ListOf(Scalar.STRING), span, can_fail=False)
        lists[declared.name] = whole
    return _choose_by_type(value, lists, call)


def bind_properties(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `properties`, as a map."""
    (value,) = arguments
    if not isinstance(value.type, NodeRef | EdgeRef | RecordOf):
        refuse_argument(binder, call, value, "a node, a relationship or a map")
    warn_omissions(binder.context, value.type, call.span)
    if isinstance(value, Entity):
        fields = {prop.name: prop for prop in value.fields if not prop.name.startswith("@")}
        nullable = value.nullable
        record = build_map({name: replace(p, nullable=p.nullable or nullable) for name, p in fields.items()}, call.span)
        if not nullable:
            return record
        missing = values.is_null_test(value, call.span)
        return Case(
            branches=((missing, values.build_null(record.type, call.span)),), otherwise=record, origin=call.span
        )
    if isinstance(value.type, NodeRef | EdgeRef):
        binder.refuse_form(call.span, "`properties` of this value is not supported", "name the properties")
    return value


def build_end(*, is_start: bool) -> Bind:
    """Return what binds `startNode` or `endNode`."""

    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        (value,) = arguments
        type_ = _require_entity(binder, call, value)
        if not isinstance(type_, EdgeRef):
            refuse_argument(binder, call, value, "a relationship")
        if not isinstance(value, Entity):
            help_ = "name the relationship in a pattern: `(a)-[r]->(b)`"
            binder.refuse_form(call.span, f"`{call.function.text}` of this relationship is not supported", help_)
        ends = binder.context.ends.get(value.variable)
        known = {each.name for each in binder.scope.iter_entities()} | binder.context.live
        if ends is None or not {end.name for end in ends.nodes} <= known:
            help_ = "name the node in the pattern, and keep it: `(a)-[r]->(b)`"
            binder.refuse_form(call.span, f"`{call.function.text}` of this relationship is not supported", help_)
        # The ends of a relationship that may be null may be null too.
        nodes = [replace(each, nullable=each.nullable or value.nullable) for each in ends.nodes]
        first, second = (build_whole(binder.context.catalog, each, call.span) for each in nodes)
        if not is_start:
            first, second = second, first
        if ends.is_directed:
            return first
        # Followed either way: the id and type of its stored start tell which end it is.
        agreed = values.agree((first, second))
        assert agreed is not None  # noqa: S101 - nodes have a common type
        part = MetaColumn.SRC
        stored = Identity(variable=value.variable, part=part, nullable=value.nullable, origin=call.span)
        start, end = nodes
        is_first = values.compare(Op.EQ, stored, build_identity_of(start, call.span), call.span)
        assert is_first is not None and isinstance(start.type, NodeRef)  # noqa: S101, PT018 - ids compare
        if start.type != end.type or is_union(start.type.name) or type_.source != start.type.name:
            help_ = "give the relationship a direction"
            binder.refuse_form(call.span, f"`{call.function.text}` between several types is not supported", help_)
        return Case(branches=((is_first, agreed[0]),), otherwise=agreed[1], origin=call.span)

    return bind


def build_walk_part(part: str) -> Bind:
    """Return what binds `nodes`, `relationships` or `length`."""

    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        (value,) = arguments
        if isinstance(value.type, WalkOf):
            return read_part(value, part)
        if part == WALK_LENGTH and (values.is_text_value(value) or values.is_list(value)):
            return bind_size(binder, call, arguments)
        if not isinstance(value.type, RecordOf) or value.type.find_field(WALK_NODES) is None:
            refuse_argument(binder, call, value, "a path")
        if part != WALK_LENGTH:
            return read_item(value, part)
        relationships = read_item(value, WALK_EDGES)
        return binder.compute(_F.SIZE, (relationships,), Scalar.I64, call.span, can_fail=False)

    return bind
