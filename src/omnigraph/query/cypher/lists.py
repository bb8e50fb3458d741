"""Lists of Cypher: they may hold nulls and lists, are joined, compared, cut, reversed and counted up."""

from typing import TYPE_CHECKING, Final

from omnigraph.lang.cypher import tree
from omnigraph.lang.source import Span
from omnigraph.query.cypher import values
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    ArrayOf,
    Case,
    Computed,
    Const,
    EdgeRef,
    Expr,
    NodeRef,
    Op,
    ParamRef,
    Prop,
    RecordExpr,
    RecordOf,
    ValueRef,
)
from omnigraph.query.group_plan import is_compared
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import ListOf, Scalar

if TYPE_CHECKING:
    from omnigraph.query.cypher.context import CypherContext
    from omnigraph.query.cypher.expressions import ExpressionBinder

_F = ScalarFunction
ENTITY_NULLS_HELP = "a list of nodes or relationships holds no null here: leave it out by `WHERE … IS NOT NULL` before"
# These return elements of the lists that they are given, so they hold a null only if one of those does.
_KEEPING: Final = frozenset({_F.SLICE, _F.REVERSE, _F.JOIN_LISTS, _F.COALESCE, _F.WIDEN})
_FULL: Final = frozenset({_F.SPLIT, _F.RANGE, _F.LIST})
# A longer `range` of numbers in the text is calculated where it is read.
_MAX_LITERAL_RANGE = 10_000


def may_hold_null(context: "CypherContext", value: Expr) -> bool:
    """Return whether an element of a list may be null."""
    match value:
        case Const(value=tuple(items)):
            return None in items
        case Prop() | ParamRef():
            return False
        case ValueRef(variable=variable):
            return variable not in context.full_lists
        case Computed(function=function, arguments=arguments):
            if function is _F.ITEMS:
                return any(argument.nullable for argument in arguments)
            if function in _KEEPING:
                lists = [argument for argument in arguments if values.is_list(argument)]
                return any(may_hold_null(context, each) for each in lists)
            return function not in _FULL
        case Case(branches=branches, otherwise=otherwise):
            chosen = [*(each for _, each in branches), otherwise]
            return any(may_hold_null(context, each) for each in chosen if not values.is_null(each))
        case Aggregate(fold=AggregateFunction.COLLECT):
            return False
        case _:
            type_ = value.type
            # Lists of nodes and relationships are built without nulls.
            return not (isinstance(type_, ArrayOf) and isinstance(type_.element, NodeRef | EdgeRef))


def build_list(binder: "ExpressionBinder", bound: list[Expr], span: Span) -> Expr:
    """Return a list of values of one type, some of which may be null."""
    if all(map(values.is_null, bound)):
        return Const(value=(None,) * len(bound), type=ListOf(Scalar.STRING), origin=span)
    agreed = values.agree(bound)
    if agreed is None:
        binder.refuse_form(
            span,
            f"a list of several types is not supported: {values.list_types(bound)}",
            "make them one, by `toString(…)`",
        )
    element = agreed[0].type
    if isinstance(element, NodeRef | EdgeRef) and any(value.nullable for value in agreed):
        message = "a list of nodes or relationships that may be null is not supported"
        binder.refuse_form(span, message, ENTITY_NULLS_HELP)
    if all(isinstance(value, Const) for value in agreed) and isinstance(element, Scalar):
        items = tuple(value.value for value in agreed if isinstance(value, Const))
        return Const(value=items, type=ListOf(element), origin=span)
    type_ = ListOf(element) if isinstance(element, Scalar) else ArrayOf(element)
    if not any(value.nullable for value in agreed):
        return binder.compute(_F.LIST, agreed, type_, span, can_fail=False)
    return values.fill(values.compute(_F.ITEMS, agreed, type_, span, binder.context.quote(span), can_fail=False))


def join(binder: "ExpressionBinder", left: Expr, right: Expr, span: Span) -> Expr:
    """Return a list and then another one, or a single element; null where a side is."""
    joined = _join(binder, left, right, span)
    missing = [values.is_null_test(side, span) for side in (left, right) if side.nullable and not values.is_list(side)]
    if not missing:
        return joined
    branch = (missing[0], values.build_null(joined.type, span))
    return Case(branches=(branch,), otherwise=joined, origin=span)


def _join(binder: "ExpressionBinder", left: Expr, right: Expr, span: Span) -> Expr:
    sides = [side if values.is_list(side) else build_list(binder, [side], span) for side in (left, right)]
    # A list in a list is joined as a list, and appended where the other holds lists.
    agreed = values.agree(sides)
    if agreed is None and values.is_list(left) and values.is_list(right):
        agreed = _agree_appended(binder, left, right, span)
    if agreed is None:
        types = f"{values.describe(left.type)} and {values.describe(right.type)}"
        binder.refuse_form(
            span, f"a list of several types is not supported: {types}", "make them one, by `toString(…)`"
        )
    if values.is_empty_list(agreed[0]) or values.is_empty_list(agreed[1]):
        return agreed[1] if values.is_empty_list(agreed[0]) else agreed[0]
    constants = [side.value for side in agreed if isinstance(side, Const) and isinstance(side.value, tuple)]
    if len(constants) == len(agreed):
        type_ = agreed[0].type
        assert isinstance(type_, ListOf)  # noqa: S101 - constants have no other lists
        return Const(value=(*constants[0], *constants[1]), type=type_, origin=span)
    return binder.compute(_F.JOIN_LISTS, agreed, agreed[0].type, span, can_fail=False)


def _agree_appended(binder: "ExpressionBinder", left: Expr, right: Expr, span: Span) -> tuple[Expr, ...] | None:
    for at, (outer, inner) in enumerate(((left, right), (right, left))):
        type_ = outer.type
        if isinstance(type_, ArrayOf) and type_.element == inner.type:
            wrapped = build_list(binder, [inner], span)
            return (outer, wrapped) if at == 0 else (wrapped, outer)
    return None


# --- membership --------------------------------------------------------------------------------------


def has_entities(value: Expr) -> bool:
    """Return whether a value is a node or relationship, or a list of such to any depth."""
    type_ = value.type
    while isinstance(type_, ArrayOf):
        type_ = type_.element
    return isinstance(type_, NodeRef | EdgeRef)


def find_item(binder: "ExpressionBinder", element: Expr, collection: Expr, span: Span) -> Expr:
    """Return whether a value is in a list, in three-valued logic."""
    if has_entities(element) or has_entities(collection):
        if has_entities(element) != has_entities(collection):
            return values.decide_unless_null((element, collection), truth=False, origin=span)
        type_ = collection.type
        if not isinstance(type_, ArrayOf) or type_.element != element.type:
            help_ = "compare the elements: `any(x IN list WHERE …)`"
            binder.refuse_form(span, "this `IN` is not supported", help_)
    return binder.compute(_F.HAS_ITEM, (element, collection), Scalar.BOOL, span, can_fail=True)


# --- parts -------------------------------------------------------------------------------------------


def cut(binder: "ExpressionBinder", operand: Expr, low: Expr | None, high: Expr | None, span: Span) -> Expr:
    """Return the elements from one position up to another; negative ones count from the end."""
    for bound in (low, high):
        if bound is not None and not values.is_integer(bound):
            binder.refuse_type(span, f"the bounds of a part are whole numbers, not {values.describe(bound.type)}")
    size = binder.compute(_F.SIZE, (operand,), Scalar.I64, span, can_fail=False)
    zero = values.build_const(0, span)
    start = zero if low is None else _find_place(binder, low, size, span)
    if high is None:
        return binder.compute(_F.SLICE, (operand, start), operand.type, span, can_fail=False)
    end = _find_place(binder, high, size, span)
    if isinstance(start, Const) and isinstance(end, Const):
        assert isinstance(start.value, int) and isinstance(end.value, int)  # noqa: S101, PT018 - whole numbers
        length: Expr = values.build_const(max(end.value - start.value, 0), span)
    else:
        length = binder.compute(_F.SUBTRACT, (end, start), Scalar.I64, span, can_fail=False)
    return binder.compute(_F.SLICE, (operand, start, length), operand.type, span, can_fail=False)


def _find_place(binder: "ExpressionBinder", bound: Expr, size: Expr, span: Span) -> Expr:
    """Return a bound as a position of at least 0."""
    if isinstance(bound, Const) and isinstance(bound.value, int) and bound.value >= 0:
        return bound
    zero = values.build_const(0, span)
    number = values.convert(bound, Scalar.I64)
    moved = binder.compute(_F.ADD, (size, number), Scalar.I64, span, can_fail=False)
    # `greatest` passes nulls over, but a part whose bound is null is null.
    from_end = binder.compute(_F.GREATEST, (moved, zero), Scalar.I64, span, can_fail=False)
    is_negative = values.compare(Op.LT, number, zero, span)
    assert is_negative is not None  # noqa: S101 - numbers compare
    return Case(branches=((is_negative, from_end),), otherwise=number, origin=span)


def bind_reverse(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `reverse` of a list or a text."""
    (value,) = arguments
    if not values.is_list(value) and not values.is_text_value(value):
        binder.refuse_type(
            call.span, f"`{call.function.text}` needs a list or a String, but this is {values.describe(value.type)}"
        )
    if values.is_empty_list(value):
        return value
    type_ = value.type if values.is_list(value) else Scalar.STRING
    return binder.compute(_F.REVERSE, (value,), type_, call.span, can_fail=False)


def bind_range(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `range`: whole numbers from one to another, both included."""
    for argument in arguments:
        if not values.is_integer(argument):
            binder.refuse_type(
                call.span, f"`{call.function.text}` needs whole numbers, but this is {values.describe(argument.type)}"
            )
    if len(arguments) == 3 and isinstance(arguments[2], Const) and arguments[2].value == 0:
        binder.refuse_type(call.arguments[2].span, "the step of a `range` is not 0", "count up by 1, or down by -1")
    numbers = [each.value for each in arguments if isinstance(each, Const) and isinstance(each.value, int)]
    if len(numbers) == len(arguments):
        step = numbers[2] if len(numbers) == 3 else 1
        items = range(numbers[0], numbers[1] + (1 if step > 0 else -1), step)
        if len(items) <= _MAX_LITERAL_RANGE:
            return Const(value=tuple(items), type=ListOf(Scalar.I64), origin=call.span)
    whole = [values.convert(argument, Scalar.I64) for argument in arguments]
    if len(whole) == 2:
        whole.append(values.build_const(1, call.span))
    return binder.compute(_F.RANGE, tuple(whole), ListOf(Scalar.I64), call.span, can_fail=False)


# --- keys --------------------------------------------------------------------------------------------


def build_list_key(value: Expr) -> Expr:
    """Return the text that orders and groups a list."""
    if isinstance(value, Computed) and value.function is _F.LIST_OF_KEY:
        return value.arguments[0]
    return values.compute(_F.LIST_KEY, (value,), Scalar.STRING, value.origin, "", can_fail=False)


def read_list_key(key: Expr, value: Expr) -> Expr:
    """Return the list that a key was written from."""
    return values.compute(_F.LIST_OF_KEY, (key,), value.type, value.origin, "", can_fail=False)


def split_keys(value: Expr) -> tuple[tuple[Expr, ...], Expr] | None:
    """Return the values that tell rows apart by a column, and the column rebuilt from these; None if there are none.

    Lists and maps are no keys of the plan, but their texts and entries are.
    """
    if is_compared(value):
        return (value,), value
    if values.is_list(value):
        key = build_list_key(value)
        return (key,), read_list_key(key, value)
    items = values.list_items(value)
    if items is None or not isinstance(value.type, RecordOf):
        return None
    parts = {name: split_keys(item) for name, item in items.items()}
    keys: list[Expr] = []
    rebuilt: list[tuple[str, Expr]] = []
    for name, part in parts.items():
        if part is None:
            return None
        keys += part[0]
        rebuilt.append((name, part[1]))
    record = RecordExpr(items=tuple(rebuilt), origin=value.origin)
    if not value.nullable:
        return tuple(dict.fromkeys(keys)), record
    is_missing = values.is_null_test(value, value.origin)
    branch = (is_missing, values.build_null(record.type, value.origin))
    whole = Case(branches=(branch,), otherwise=record, origin=value.origin)
    return tuple(dict.fromkeys((is_missing, *keys))), whole
