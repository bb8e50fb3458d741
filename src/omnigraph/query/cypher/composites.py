"""Lists, maps, their parts, properties and choices."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span
from omnigraph.query.cypher import lists, values
from omnigraph.query.cypher.moments import read_component
from omnigraph.query.cypher.properties import find_property, read_property, warn_omissions
from omnigraph.query.cypher.scope import EntityVariable
from omnigraph.query.expr import (
    ArrayOf,
    Case,
    Const,
    EdgeRef,
    Entity,
    Expr,
    FieldRef,
    NodeRef,
    Op,
    RecordExpr,
    RecordOf,
)
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import ListOf, Scalar

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder

_F = ScalarFunction


def bind_property(binder: "ExpressionBinder", expr: tree.Property) -> Expr:
    """Bind a property of a node or relationship, a field of a map, or a part of a moment."""
    if isinstance(expr.operand, tree.Variable):
        variable = binder.scope.find(expr.operand.name)
        if isinstance(variable, EntityVariable):
            return read_property(binder.context, variable, expr.key)
    operand = binder.bind(expr.operand)
    if values.is_null(operand):
        return values.build_unknown(expr.span)
    return read_field(binder, operand, expr)


def bind_case(binder: "ExpressionBinder", expr: tree.Case) -> Expr:
    """Bind a `CASE`, whose values get one type."""
    operand = None if expr.operand is None else binder.bind(expr.operand)
    conditions: list[Expr] = []
    for condition, _ in expr.branches:
        if operand is None:
            conditions.append(binder.bind_condition(condition))
            continue
        test = values.compare(Op.EQ, operand, binder.bind(condition), condition.span)
        if test is None:
            binder.refuse_form(condition.span, "lists and maps can't be compared", "compare their elements")
        conditions.append(test)
    nodes = [value for _, value in expr.branches]
    bound = [binder.bind(value) for value in nodes]
    bound.append(values.build_unknown(expr.span) if expr.otherwise is None else binder.bind(expr.otherwise))
    if all(map(values.is_null, bound)):
        return values.build_unknown(expr.span)
    # Lists whose type is by chance stay literals where they are all the same.
    if all(value == bound[0] and values.is_untyped_list(value) for value in bound):
        return bound[0]
    agreed = values.agree(bound)
    if agreed is None:
        binder.refuse_type(expr.span, f"the values of a `CASE` have no common type: {values.list_types(bound)}")
    branches = tuple(zip(conditions, agreed, strict=False))
    return Case(branches=branches, otherwise=agreed[-1], origin=expr.span)


def bind_list(binder: "ExpressionBinder", expr: tree.ListLiteral) -> Expr:
    """Bind a list of values."""
    return lists.build_list(binder, [binder.bind(item) for item in expr.items], expr.span)


def build_map(items: dict[str, Expr], span: Span) -> Expr:
    """Return a map."""
    return RecordExpr(items=tuple(items.items()), origin=span)


def bind_projection(binder: "ExpressionBinder", expr: tree.MapProjection) -> Expr:
    """Bind a map projection."""
    items: dict[str, Expr] = {}
    for item in expr.items:
        match item:
            case tree.ProjectedKey(key=key):
                read = tree.Property(operand=expr.variable, key=key, span=key.span)
                items[key.text] = binder.bind(read)
            case tree.ProjectedVariable(variable=variable):
                items[variable.name] = binder.bind(variable)
            case tree.ProjectedEntry(key=key, value=value):
                items[key.text] = binder.bind(value)
            case tree.ProjectedAll():
                whole = binder.bind(expr.variable)
                items.update(list_fields(binder, whole, expr))
    record = build_map(items, expr.span)
    whole = binder.bind(expr.variable)
    if not whole.nullable:
        return record
    branch = (values.is_null_test(whole, expr.span), values.build_null(record.type, expr.span))
    return Case(branches=(branch,), otherwise=record, origin=expr.span)


def bind_subscript(binder: "ExpressionBinder", expr: tree.Subscript) -> Expr:
    """Bind an element of a list, or a property by its name."""
    operand = binder.bind(expr.operand)
    name = _find_key(binder, expr.index)
    if name is not None:
        key = Name(name, expr.index.span)
        return bind_property(binder, tree.Property(operand=expr.operand, key=key, span=expr.span))
    index = binder.bind(expr.index)
    # An empty list has no type of its own, and no element.
    if values.is_null(operand) or values.is_null(index) or values.is_untyped_list(operand):
        return values.build_unknown(expr.span)
    if not isinstance(operand.type, ListOf | ArrayOf):
        return _read_by_name(binder, operand, index, expr)
    if not values.is_integer(index):
        binder.refuse_type(expr.index.span, f"an index is a whole number, but this is {values.describe(index.type)}")
    if isinstance(index, Const) and isinstance(index.value, int) and index.value < 0:
        size = binder.compute(_F.SIZE, (operand,), Scalar.I64, expr.span, can_fail=False)
        index = binder.compute(_F.ADD, (size, index), Scalar.I64, expr.span, can_fail=False)
    elif not isinstance(index, Const):
        index = _count_from_end(binder, operand, index, expr.span)
    return binder.compute(_F.ELEMENT, (operand, index), operand.type.element, expr.span, can_fail=True)


def _find_key(binder: "ExpressionBinder", index: tree.Expr) -> str | None:
    """Return the name that an index is: a text, or a parameter whose value is one."""
    if isinstance(index, tree.Literal):
        return index.value if isinstance(index.value, str) else None
    given = binder.context.given.get(index.name) if isinstance(index, tree.Parameter) else None
    return None if given is None else given.key


def _read_by_name(binder: "ExpressionBinder", operand: Expr, index: Expr, expr: tree.Subscript) -> Expr:
    """Return an entry of a map by a key that is a value: the entries need one type for that."""
    items = values.list_items(operand)
    if not isinstance(operand.type, NodeRef | EdgeRef) and items is None:
        binder.refuse_type(expr.span, f"`[…]` needs a list or a map, but this is {values.describe(operand.type)}")
    if not values.is_text_value(index):
        binder.refuse_type(expr.index.span, f"a key is a String, but this is {values.describe(index.type)}")
    agreed = None if items is None else values.agree(list(items.values()))
    if items is None or agreed is None:
        help_ = "the name of a property stands in the text, or is a parameter: `n['name']`, `n[$key]`"
        binder.refuse_form(expr.span, "a property whose name is a value is not supported", help_)
    branches = []
    for name, value in zip(items, agreed, strict=True):
        test = values.compare(Op.EQ, index, values.build_const(name, expr.span), expr.span)
        assert test is not None  # noqa: S101 - texts compare
        branches.append((test, value))
    return Case(branches=tuple(branches), otherwise=values.build_null(agreed[0].type, expr.span), origin=expr.span)


def _count_from_end(binder: "ExpressionBinder", operand: Expr, index: Expr, span: Span) -> Expr:
    """Return an index that counts from the end of its list if it is negative."""
    size = binder.compute(_F.SIZE, (operand,), Scalar.I64, span, can_fail=False)
    moved = binder.compute(_F.ADD, (size, index), Scalar.I64, span, can_fail=False)
    is_negative = values.compare(Op.LT, index, values.build_const(0, span), span)
    assert is_negative is not None  # noqa: S101 - numbers compare
    return Case(branches=((is_negative, moved),), otherwise=values.convert(index, Scalar.I64), origin=span)


def bind_slice(binder: "ExpressionBinder", expr: tree.Slice) -> Expr:
    """Bind a part of a list."""
    operand = binder.bind(expr.operand)
    bounds = [None if each is None else binder.bind(each) for each in (expr.low, expr.high)]
    if values.is_null(operand) or any(each is not None and values.is_null(each) for each in bounds):
        return values.build_unknown(expr.span)
    if not values.is_list(operand):
        binder.refuse_type(expr.operand.span, f"`[…]` needs a list, but this is {values.describe(operand.type)}")
    if values.is_empty_list(operand):
        return operand
    return lists.cut(binder, operand, bounds[0], bounds[1], expr.span)


def read_item(value: Expr, name: str) -> Expr:
    """Return an entry of a map that has it."""
    if isinstance(value, RecordExpr):
        return dict(value.items)[name]
    assert isinstance(value.type, RecordOf)  # noqa: S101 - callers have checked it
    type_ = value.type.find_field(name)
    assert type_ is not None  # noqa: S101 - as above
    nullable = value.nullable or name not in value.type.required
    return FieldRef(operand=value, name=name, type=type_, nullable=nullable, origin=value.origin)


def read_field(binder: "ExpressionBinder", operand: Expr, expr: tree.Property) -> Expr:
    """Return a field of a map, or a property of a node or relationship that is no variable."""
    type_, name = operand.type, expr.key.text
    if isinstance(operand, RecordExpr):
        found = dict(operand.items).get(name)
        return values.build_unknown(expr.span) if found is None else found
    if isinstance(type_, RecordOf):
        field_type = type_.find_field(name)
        if field_type is None:
            return values.build_unknown(expr.span)
        nullable = operand.nullable or name not in type_.required
        return FieldRef(operand=operand, name=name, type=field_type, nullable=nullable, origin=expr.span)
    if isinstance(type_, NodeRef | EdgeRef):
        prop = find_property(binder.context, type_, expr.key)
        if prop is None:
            return values.build_unknown(expr.span)
        return FieldRef(operand=operand, name=prop.name, type=prop.type, nullable=True, origin=expr.span)
    return read_moment(binder, operand, expr)


_PARTS: Final = {
    "year": _F.YEAR,
    "month": _F.MONTH,
    "week": _F.WEEK,
    "day": _F.DAY,
    "dayofweek": _F.WEEKDAY,
    "weekday": _F.WEEKDAY,
    "hour": _F.HOUR,
    "minute": _F.MINUTE,
    "second": _F.SECOND,
}


def read_moment(binder: "ExpressionBinder", operand: Expr, expr: tree.Property) -> Expr:
    """Return a part of a Date or DateTime."""
    part = _PARTS.get(expr.key.text.lower())
    is_moment = operand.type in (Scalar.DATE, Scalar.DATETIME)
    if part is None and is_moment:
        component = read_component(binder, operand, expr.key.text, expr.span)
        if component is not None:
            return component
    if part is None or not is_moment or (part in (_F.HOUR, _F.MINUTE, _F.SECOND) and operand.type is Scalar.DATE):
        message = f"{binder.show(expr.operand)} is {values.describe(operand.type)}, which has no `{expr.key.text}`"
        binder.refuse_type(expr.span, message)
    return binder.compute(part, (operand,), Scalar.I64, expr.span, can_fail=False)


def list_fields(binder: "ExpressionBinder", whole: Expr, expr: tree.MapProjection) -> dict[str, Expr]:
    """Return all properties of a node or relationship, or all entries of a map."""
    match whole:
        case RecordExpr(items=items):
            return dict(items)
        case Entity(fields=fields):
            warn_omissions(binder.context, whole.type, expr.span)
            return {
                each.name: replace(each, nullable=each.nullable or whole.nullable)
                for each in fields
                if not each.name.startswith("@")
            }
        case _:
            return binder.refuse_form(
                expr.span, "`.*` of this value is not supported", "name its keys: `{.name, .age}`"
            )
