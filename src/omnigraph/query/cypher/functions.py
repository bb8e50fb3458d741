"""The functions and aggregates of Cypher: each is done, or refused by name with what to write instead."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from omnigraph.lang.cypher import tree
from omnigraph.query.cypher import values
from omnigraph.query.cypher.aggregates import list_aggregates
from omnigraph.query.cypher.calls import Bind, refuse_argument
from omnigraph.query.cypher.entity_functions import (
    bind_id,
    bind_keys,
    bind_labels,
    bind_properties,
    bind_size,
    bind_type,
    build_end,
    build_walk_part,
)
from omnigraph.query.cypher.lists import bind_range, bind_reverse
from omnigraph.query.cypher.moments import bind_date, bind_date_truncate, bind_datetime
from omnigraph.query.cypher.names import suggest
from omnigraph.query.expr import (
    ArrayOf,
    Case,
    Computed,
    Expr,
    FieldRef,
    Op,
    RecordOf,
    ShapedType,
    WalkOf,
)
from omnigraph.query.expr_types import WALK_EDGES, WALK_LENGTH, WALK_NODES
from omnigraph.query.scalar_functions import ScalarFunction, widen
from omnigraph.schema.types import ListOf, Scalar, is_scalar

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder

_F = ScalarFunction


@dataclass(frozen=True, slots=True)
class CypherFunction:
    """A function: its name as written, its numbers of arguments, and what binds it; without that, it is refused."""

    name: str
    low: int
    high: int
    bind: Bind | None
    usage: str
    instead: str = ""


# --- functions -------------------------------------------------------------------------------------


def bind_function(call: tree.Call, binder: "ExpressionBinder") -> Expr:
    """Bind the call of a function."""
    name = call.function.text
    function = FUNCTIONS.get(name.lower())
    report = binder.context.findings.refuse
    if function is None:
        known = [each.name for each in FUNCTIONS.values()]
        report(
            "C006", call.function.span, f"there is no function `{name}`", suggest(name, [*known, *list_aggregates()])
        )
    if function.bind is None:
        report("C002", call.span, f"`{function.name}` is not supported", function.instead)
    if call.distinct:
        report("C006", call.span, f"`{function.name}` is no aggregate, so `DISTINCT` has no meaning")
    if not function.low <= len(call.arguments) <= function.high:
        report(
            "C006",
            call.span,
            f"`{function.name}` does not take {len(call.arguments)} arguments",
            f"write `{function.usage}`",
        )
    if name.lower() in _RAW:
        return function.bind(binder, call, [])
    arguments = [binder.bind(argument) for argument in call.arguments]
    if arguments and name.lower() != "coalesce" and any(map(values.is_null, arguments)):
        return values.build_unknown(call.span)
    return function.bind(binder, call, arguments)


def _text(function: ScalarFunction, result: Scalar = Scalar.STRING) -> Bind:
    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        for argument in arguments:
            if not values.is_text_value(argument):
                refuse_argument(binder, call, argument, "a String")
        type_ = ListOf(Scalar.STRING) if function is _F.SPLIT else result
        return binder.compute(function, tuple(arguments), type_, call.span, can_fail=False)

    return bind


def _number(function: ScalarFunction, *, keeps_integers: bool = False) -> Bind:
    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        for argument in arguments:
            if not values.is_number(argument):
                refuse_argument(binder, call, argument, "a number")
        type_ = widen((values.get_value_type(arguments[0]),)) if keeps_integers else Scalar.F64
        if not keeps_integers:
            arguments = [values.convert(argument, Scalar.F64) for argument in arguments[:1]] + arguments[1:]
        return binder.compute(function, tuple(arguments), type_, call.span, can_fail=True)

    return bind


def _bind_sign(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    if not values.is_number(arguments[0]):
        refuse_argument(binder, call, arguments[0], "a number")
    return binder.compute(_F.SIGN, tuple(arguments), Scalar.I64, call.span, can_fail=False)


def _bind_round(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `round`: halves go up, unless the digits are given; then they go away from zero."""
    if len(arguments) == 2:
        return _number(_F.ROUND)(binder, call, arguments)
    if not values.is_number(arguments[0]):
        refuse_argument(binder, call, arguments[0], "a number")
    half = values.build_const(0.5, call.span)
    number = values.convert(arguments[0], Scalar.F64)
    raised = binder.compute(_F.ADD, (number, half), Scalar.F64, call.span, can_fail=True)
    return binder.compute(_F.FLOOR, (raised,), Scalar.F64, call.span, can_fail=True)


def _bind_is_empty(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    test = values.compare(Op.EQ, bind_size(binder, call, arguments), values.build_const(0, call.span), call.span)
    assert test is not None  # noqa: S101 - numbers compare
    return test


def _bind_null_if(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    test = values.compare(Op.EQ, arguments[0], arguments[1], call.span)
    if test is None:
        binder.refuse_form(call.span, "`nullIf` of these values is not supported", "compare their elements")
    branch = (test, values.build_null(arguments[0].type, call.span))
    return Case(branches=(branch,), otherwise=arguments[0], origin=call.span)


def _element(function: ScalarFunction) -> Bind:
    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        type_ = arguments[0].type
        if not isinstance(type_, ListOf | ArrayOf):
            refuse_argument(binder, call, arguments[0], "a list")
        if values.is_untyped_list(arguments[0]):
            return values.build_unknown(call.span)
        found = binder.compute(function, tuple(arguments), type_.element, call.span, can_fail=True)
        is_there = _is_never_empty(arguments[0]) and not arguments[0].nullable
        return values.fill(found) if is_there else found

    return bind


def _is_never_empty(value: Expr) -> bool:
    """Return whether a list has an element: the nodes of a path."""
    if isinstance(value, Computed) and value.function in (_F.LIST, _F.JOIN_LISTS):
        return bool(value.arguments) and (value.function is _F.LIST or any(map(_is_never_empty, value.arguments)))
    if not isinstance(value, FieldRef) or value.name != WALK_NODES:
        return False
    type_ = value.operand.type
    is_path = isinstance(type_, RecordOf) and [name for name, _ in type_.fields] == [WALK_NODES, WALK_EDGES]
    return isinstance(type_, WalkOf) or (is_path and isinstance(value.type, ArrayOf))


def _bind_tail(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    if not values.is_list(arguments[0]):
        refuse_argument(binder, call, arguments[0], "a list")
    if values.is_empty_list(arguments[0]):
        return arguments[0]
    one = values.build_const(1, call.span)
    return binder.compute(_F.SLICE, (arguments[0], one), arguments[0].type, call.span, can_fail=False)


def _bind_coalesce(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    arguments = [argument for argument in arguments if not values.is_null(argument)]
    if not arguments:
        return values.build_unknown(call.span)
    agreed = values.agree(arguments)
    if agreed is None:
        types = values.list_types(arguments)
        binder.refuse_type(call.span, f"the arguments of `coalesce` have no common type: {types}")
    if len(agreed) == 1:
        return agreed[0]
    computed = values.compute(_F.COALESCE, agreed, agreed[0].type, call.span, "", can_fail=False)
    return replace(computed, nullable=all(argument.nullable for argument in agreed))


def _conversion(function: ScalarFunction, type_: Scalar) -> Bind:
    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        (value,) = arguments
        if isinstance(value.type, ShapedType) or not is_scalar(value.type):
            refuse_argument(binder, call, value, "a single value")
        if value.type is type_:
            return value
        if value.type is Scalar.BOOL and type_ is Scalar.F64:
            refuse_argument(binder, call, value, "a number or a String")
        can_fail = values.is_text_value(value) and type_ is not Scalar.STRING
        converted = binder.compute(function, (value,), type_, call.span, can_fail=can_fail)
        if type_ is not Scalar.I64 or not values.is_text_value(value):
            return converted
        # A text with a fraction is cut off.
        number = binder.compute(_F.TO_FLOAT, (value,), Scalar.F64, call.span, can_fail=True)
        cut = binder.compute(_F.TO_INT, (number,), Scalar.I64, call.span, can_fail=True)
        return values.compute(_F.COALESCE, (converted, cut), Scalar.I64, call.span, "", can_fail=True)

    return bind


def _bind_to_boolean(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    (value,) = arguments
    if value.type is Scalar.BOOL:
        return value
    if not values.is_text_value(value):
        refuse_argument(binder, call, value, "a String or a Bool")
    trimmed = binder.compute(_F.TRIM, (value,), Scalar.STRING, call.span, can_fail=False)
    small = binder.compute(_F.LOWER, (trimmed,), Scalar.STRING, call.span, can_fail=False)
    branches = []
    for word, truth in (("true", True), ("false", False)):
        test = values.compare(Op.EQ, small, values.build_const(word, call.span), call.span)
        assert test is not None  # noqa: S101 - texts compare
        branches.append((test, values.build_const(truth, call.span)))
    return Case(branches=tuple(branches), otherwise=values.build_unknown(call.span), origin=call.span)


def _bind_left(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    if not values.is_text_value(arguments[0]) or not values.is_integer(arguments[1]):
        binder.refuse_type(call.span, "`left` needs a String and a whole number")
    parts = (arguments[0], values.build_const(0, call.span), arguments[1])
    return binder.compute(_F.SUBSTRING, parts, Scalar.STRING, call.span, can_fail=False)


def _bind_right(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    text, size = arguments
    if not values.is_text_value(text) or not values.is_integer(size):
        binder.refuse_type(call.span, "`right` needs a String and a whole number")
    length = binder.compute(_F.LENGTH, (text,), Scalar.I64, call.span, can_fail=False)
    start = binder.compute(_F.SUBTRACT, (length, size), Scalar.I64, call.span, can_fail=True)
    zero = values.build_const(0, call.span)
    start = binder.compute(_F.GREATEST, (start, zero), Scalar.I64, call.span, can_fail=False)
    return binder.compute(_F.SUBSTRING, (text, start), Scalar.STRING, call.span, can_fail=False)


def _bind_substring(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    if not values.is_text_value(arguments[0]) or not all(map(values.is_integer, arguments[1:])):
        binder.refuse_type(call.span, "`substring` needs a String and whole numbers")
    return binder.compute(_F.SUBSTRING, tuple(arguments), Scalar.STRING, call.span, can_fail=False)


def _bind_exists(binder: "ExpressionBinder", call: tree.Call, _arguments: list[Expr]) -> Expr:
    (argument,) = call.arguments
    if isinstance(argument, tree.PatternPredicate):
        return binder.bind_condition(argument)
    if not isinstance(argument, tree.Property | tree.Subscript):
        help_ = "write `… IS NOT NULL`, or `EXISTS { (n)-->() }`"
        binder.refuse_type(call.span, "`exists(…)` asks for a property or a pattern", help_)
    return values.is_null_test(binder.bind(argument), call.span, negated=True)


_RAW = frozenset({"exists"})


def _build_table() -> dict[str, CypherFunction]:
    done: list[tuple[str, int, int, Bind, str]] = [
        ("coalesce", 1, 100, _bind_coalesce, "coalesce(n.age, 0)"),
        ("exists", 1, 1, _bind_exists, "exists(n.age)"),
        ("id", 1, 1, bind_id, "id(n)"),
        ("elementId", 1, 1, bind_id, "elementId(n)"),
        ("startNode", 1, 1, build_end(is_start=True), "startNode(r)"),
        ("endNode", 1, 1, build_end(is_start=False), "endNode(r)"),
        ("labels", 1, 1, bind_labels, "labels(n)"),
        ("type", 1, 1, bind_type, "type(r)"),
        ("keys", 1, 1, bind_keys, "keys(n)"),
        ("properties", 1, 1, bind_properties, "properties(n)"),
        ("nodes", 1, 1, build_walk_part(WALK_NODES), "nodes(p)"),
        ("relationships", 1, 1, build_walk_part(WALK_EDGES), "relationships(p)"),
        ("length", 1, 1, build_walk_part(WALK_LENGTH), "length(p)"),
        ("size", 1, 1, bind_size, "size(list)"),
        ("isEmpty", 1, 1, _bind_is_empty, "isEmpty(list)"),
        ("nullIf", 2, 2, _bind_null_if, "nullIf(n.age, 0)"),
        ("char_length", 1, 1, _text(_F.LENGTH, Scalar.I64), "char_length(n.name)"),
        ("head", 1, 1, _element(_F.FIRST), "head(list)"),
        ("last", 1, 1, _element(_F.LAST), "last(list)"),
        ("reverse", 1, 1, bind_reverse, "reverse(list)"),
        ("tail", 1, 1, _bind_tail, "tail(list)"),
        ("range", 2, 3, bind_range, "range(1, 10, 2)"),
        ("toString", 1, 1, _conversion(_F.TO_STRING, Scalar.STRING), "toString(n.age)"),
        ("toInteger", 1, 1, _conversion(_F.TO_INT, Scalar.I64), "toInteger('42')"),
        ("toFloat", 1, 1, _conversion(_F.TO_FLOAT, Scalar.F64), "toFloat('4.2')"),
        ("toBoolean", 1, 1, _bind_to_boolean, "toBoolean('true')"),
        ("toLower", 1, 1, _text(_F.LOWER), "toLower(n.name)"),
        ("lower", 1, 1, _text(_F.LOWER), "lower(n.name)"),
        ("toUpper", 1, 1, _text(_F.UPPER), "toUpper(n.name)"),
        ("upper", 1, 1, _text(_F.UPPER), "upper(n.name)"),
        ("trim", 1, 1, _text(_F.TRIM), "trim(n.name)"),
        ("lTrim", 1, 1, _text(_F.TRIM_LEFT), "lTrim(n.name)"),
        ("rTrim", 1, 1, _text(_F.TRIM_RIGHT), "rTrim(n.name)"),
        ("replace", 3, 3, _text(_F.REPLACE), "replace(n.name, 'a', 'b')"),
        ("split", 2, 2, _text(_F.SPLIT), "split(n.name, ' ')"),
        ("left", 2, 2, _bind_left, "left(n.name, 3)"),
        ("right", 2, 2, _bind_right, "right(n.name, 3)"),
        ("substring", 2, 3, _bind_substring, "substring(n.name, 1, 2)"),
        ("abs", 1, 1, _number(_F.ABS, keeps_integers=True), "abs(n.age)"),
        ("sign", 1, 1, _bind_sign, "sign(n.age)"),
        ("ceil", 1, 1, _number(_F.CEIL), "ceil(n.score)"),
        ("floor", 1, 1, _number(_F.FLOOR), "floor(n.score)"),
        ("round", 1, 2, _bind_round, "round(n.score, 2)"),
        ("sqrt", 1, 1, _number(_F.SQRT), "sqrt(n.score)"),
        ("exp", 1, 1, _number(_F.EXP), "exp(n.score)"),
        ("log", 1, 1, _number(_F.LN), "log(n.score)"),
        ("log10", 1, 1, _number(_F.LOG10), "log10(n.score)"),
        ("date", 0, 1, bind_date, "date('2026-01-31')"),
        ("date.truncate", 2, 3, bind_date_truncate, "date.truncate('month', n.born)"),
        ("datetime", 0, 1, bind_datetime, "datetime('2026-01-31T09:30:00Z')"),
    ]
    refused = {
        **dict.fromkeys(
            ("toIntegerList", "toFloatList", "toStringList", "toBooleanList"),
            "convert each element: `[x IN list | toString(x)]`",
        ),
        "rand": "results are the same each time here",
        "randomUUID": "results are the same each time here",
        "timestamp": "`datetime()` is the instant of the query",
        "localtime": "times without a zone have no type here; use `datetime`",
        "localdatetime": "times without a zone have no type here; use `datetime`",
        "time": "times without a date have no type here; use `datetime`",
        "duration": "durations have no type here; compare dates, or ask in `.gq`: `days_between(from, to)`",
        "duration.between": "ask in `.gq`: `days_between(from, to)` or `seconds_between(from, to)`",
        "duration.inDays": "ask in `.gq`: `days_between(from, to)`",
        "datetime.truncate": 'ask in `.gq`: `trunc($p.seen, "month")`',
        "point": "places have no type here; keep latitude and longitude as two properties",
        "point.distance": "places have no type here; keep latitude and longitude as two properties",
        "distance": "places have no type here; keep latitude and longitude as two properties",
        **dict.fromkeys(
            ("acos", "asin", "atan", "atan2", "cos", "cot", "degrees", "haversin", "radians", "sin", "tan", "pi", "e"),
            "trigonometry is not part of the language; calculate it from the result",
        ),
    }
    table = {name.lower(): CypherFunction(name, low, high, bind, usage) for name, low, high, bind, usage in done}
    table |= {name.lower(): CypherFunction(name, 0, 9, None, name, instead) for name, instead in refused.items()}
    return table


FUNCTIONS: Final = _build_table()
