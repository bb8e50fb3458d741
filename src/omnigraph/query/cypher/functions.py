"""The functions and aggregates of Cypher: each is done, or refused by name with what to write instead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from omnigraph.lang.cypher import tree
from omnigraph.query.cypher import values
from omnigraph.query.cypher.composites import build_map, list_types, read_item
from omnigraph.query.cypher.names import get_relationship_type, suggest
from omnigraph.query.cypher.properties import warn_omissions
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    ArrayOf,
    Case,
    Const,
    EdgeRef,
    Entity,
    Expr,
    Identity,
    NodeRef,
    Now,
    Op,
    RecordOf,
    ShapedType,
    WalkOf,
    is_foldable,
)
from omnigraph.query.expr_types import WALK_EDGES, WALK_LENGTH, WALK_NODES
from omnigraph.query.scalar_functions import ScalarFunction, widen
from omnigraph.query.union_types import list_members
from omnigraph.query.walk_plan import read_part
from omnigraph.schema.types import ListOf, Scalar, is_scalar
from omnigraph.schema.values import parse_date, parse_datetime

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder

_F = ScalarFunction
Bind: TypeAlias = Callable[["ExpressionBinder", tree.Call, list[Expr]], Expr]


@dataclass(frozen=True, slots=True)
class CypherFunction:
    """A function: its name as written, its numbers of arguments, and what binds it; without that, it is refused."""

    name: str
    low: int
    high: int
    bind: Bind | None
    usage: str
    instead: str = ""


# --- aggregates ------------------------------------------------------------------------------------

AGGREGATES: Final[Mapping[str, AggregateFunction]] = {
    "count": AggregateFunction.COUNT,
    "sum": AggregateFunction.SUM,
    "avg": AggregateFunction.AVG,
    "min": AggregateFunction.MIN,
    "max": AggregateFunction.MAX,
    "collect": AggregateFunction.COLLECT,
    "stdev": AggregateFunction.STDDEV,
    "percentilecont": AggregateFunction.PERCENTILE,
}
_REFUSED_AGGREGATES: Final = {
    "stdevp": "`stDev` is that of a sample",
    "percentiledisc": "`percentileCont` interpolates",
}


def is_aggregate(name: str) -> bool:
    """Return whether a function of this name is an aggregate."""
    return name.lower() in AGGREGATES or name.lower() in _REFUSED_AGGREGATES


def bind_aggregate(call: tree.Call, binder: "ExpressionBinder") -> Expr:
    """Bind an aggregate; nulls are passed over."""
    name = call.function.text.lower()
    if not binder.allows_aggregates:
        help_ = "aggregates stand in `RETURN` and `WITH`, not inside another one"
        binder.context.findings.refuse("C007", call.span, f"`{call.function.text}` is an aggregate", help_)
    if name in _REFUSED_AGGREGATES:
        binder.refuse_form(call.span, f"`{call.function.text}` is not supported", _REFUSED_AGGREGATES[name])
    fold = AGGREGATES[name]
    wanted = (
        2 if fold is AggregateFunction.PERCENTILE else int(bool(call.arguments) or fold is not AggregateFunction.COUNT)
    )
    if len(call.arguments) != wanted:
        binder.context.findings.refuse(
            "C006", call.span, f"`{call.function.text}` takes {wanted} arguments, not {len(call.arguments)}"
        )
    # No aggregate stands inside another one.
    binder.allows_aggregates = False
    try:
        arguments = [binder.bind(argument) for argument in call.arguments]
    finally:
        binder.allows_aggregates = True
    if not arguments:
        return Aggregate(fold=fold, origin=call.span)
    return _build_aggregate(call, fold, arguments, binder)


def _build_aggregate(
    call: tree.Call, fold: AggregateFunction, arguments: list[Expr], binder: "ExpressionBinder"
) -> Expr:
    argument = arguments[0]
    origin = call.span
    if values.is_null(argument):
        argument = values.build_null(Scalar.I64, origin)
    is_counting = fold is AggregateFunction.COUNT
    if isinstance(argument, Entity) and is_counting:
        argument = Identity(variable=argument.variable, nullable=argument.nullable, origin=origin)
    if not is_foldable(fold, argument.type, distinct=call.distinct):
        text = f"`{call.function.text}` of {values.describe(argument.type)} is not supported"
        binder.refuse_form(origin, text, "aggregate a property: `n.name`")
    if call.distinct and fold not in (AggregateFunction.COUNT, AggregateFunction.COLLECT):
        if fold not in (AggregateFunction.MIN, AggregateFunction.MAX):
            help_ = "make the values distinct before: `WITH DISTINCT x RETURN sum(x)`"
            binder.refuse_form(origin, f"`{call.function.text}(DISTINCT …)` is not supported", help_)
        call = replace(call, distinct=False)
    fraction = None
    if fold is AggregateFunction.PERCENTILE:
        fraction = values.convert(arguments[1], Scalar.F64)
        if not isinstance(fraction, Const) or not isinstance(fraction.value, float) or not 0 <= fraction.value <= 1:
            binder.refuse_type(call.arguments[1].span, "the percentile is a number from 0 to 1 in the text")
    aggregate = Aggregate(
        fold=fold,
        argument=argument,
        distinct=call.distinct,
        fraction=fraction if isinstance(fraction, Const) else None,
        origin=origin,
    )
    # The sum of nothing is 0, not null.
    if fold is AggregateFunction.SUM:
        zero = values.build_const(0 if aggregate.type is Scalar.I64 else 0.0, origin)
        return replace(
            values.compute(_F.COALESCE, (aggregate, zero), aggregate.type, origin, "", can_fail=False), nullable=False
        )
    return aggregate


# --- functions -------------------------------------------------------------------------------------


def bind_function(call: tree.Call, binder: "ExpressionBinder") -> Expr:
    """Bind the call of a function."""
    name = call.function.text
    function = FUNCTIONS.get(name.lower())
    report = binder.context.findings.refuse
    if function is None:
        known = [each.name for each in FUNCTIONS.values()]
        report("C006", call.function.span, f"there is no function `{name}`", suggest(name, [*known, *AGGREGATES]))
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


def _refuse_argument(binder: "ExpressionBinder", call: tree.Call, value: Expr, needed: str) -> NoReturn:
    name = call.function.text
    binder.refuse_type(call.span, f"`{name}` needs {needed}, but this is {values.describe(value.type)}")


def _text(function: ScalarFunction, result: Scalar = Scalar.STRING) -> Bind:
    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        for argument in arguments:
            if not values.is_text_value(argument):
                _refuse_argument(binder, call, argument, "a String")
        type_ = ListOf(Scalar.STRING) if function is _F.SPLIT else result
        return binder.compute(function, tuple(arguments), type_, call.span, can_fail=False)

    return bind


def _number(function: ScalarFunction, *, keeps_integers: bool = False) -> Bind:
    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        for argument in arguments:
            if not values.is_number(argument):
                _refuse_argument(binder, call, argument, "a number")
        type_ = widen((values.get_value_type(arguments[0]),)) if keeps_integers else Scalar.F64
        if not keeps_integers:
            arguments = [values.convert(argument, Scalar.F64) for argument in arguments[:1]] + arguments[1:]
        return binder.compute(function, tuple(arguments), type_, call.span, can_fail=True)

    return bind


def _bind_sign(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    if not values.is_number(arguments[0]):
        _refuse_argument(binder, call, arguments[0], "a number")
    return binder.compute(_F.SIGN, tuple(arguments), Scalar.I64, call.span, can_fail=False)


def _bind_round(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `round`: halves go up, unless the digits are given; then they go away from zero."""
    if len(arguments) == 2:
        return _number(_F.ROUND)(binder, call, arguments)
    if not values.is_number(arguments[0]):
        _refuse_argument(binder, call, arguments[0], "a number")
    half = values.build_const(0.5, call.span)
    number = values.convert(arguments[0], Scalar.F64)
    raised = binder.compute(_F.ADD, (number, half), Scalar.F64, call.span, can_fail=True)
    return binder.compute(_F.FLOOR, (raised,), Scalar.F64, call.span, can_fail=True)


def _bind_size(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    (value,) = arguments
    if values.is_text_value(value):
        return binder.compute(_F.LENGTH, (value,), Scalar.I64, call.span, can_fail=False)
    if not values.is_list(value):
        _refuse_argument(binder, call, value, "a list or a String")
    return binder.compute(_F.SIZE, (value,), Scalar.I64, call.span, can_fail=False)


def _bind_is_empty(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    test = values.compare(Op.EQ, _bind_size(binder, call, arguments), values.build_const(0, call.span), call.span)
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
            _refuse_argument(binder, call, arguments[0], "a list")
        return binder.compute(function, tuple(arguments), type_.element, call.span, can_fail=True)

    return bind


def _bind_tail(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    if not values.is_list(arguments[0]):
        _refuse_argument(binder, call, arguments[0], "a list")
    one = values.build_const(1, call.span)
    return binder.compute(_F.SLICE, (arguments[0], one), arguments[0].type, call.span, can_fail=False)


def _bind_coalesce(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    arguments = [argument for argument in arguments if not values.is_null(argument)]
    if not arguments:
        return values.build_unknown(call.span)
    agreed = values.agree(arguments)
    if agreed is None:
        binder.refuse_type(call.span, f"the arguments of `coalesce` have no common type: {list_types(arguments)}")
    if len(agreed) == 1:
        return agreed[0]
    computed = values.compute(_F.COALESCE, agreed, agreed[0].type, call.span, "", can_fail=False)
    return replace(computed, nullable=all(argument.nullable for argument in agreed))


def _conversion(function: ScalarFunction, type_: Scalar) -> Bind:
    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        (value,) = arguments
        if isinstance(value.type, ShapedType) or not is_scalar(value.type):
            _refuse_argument(binder, call, value, "a single value")
        if value.type is type_:
            return value
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
        _refuse_argument(binder, call, value, "a String or a Bool")
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


def _bind_range(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    numbers = [each.value for each in arguments if isinstance(each, Const) and isinstance(each.value, int)]
    if len(numbers) < len(arguments) or (len(numbers) == 3 and numbers[2] == 0):
        binder.refuse_form(
            call.span, "`range` with these bounds is not supported", "its bounds are whole numbers in the text"
        )
    step = numbers[2] if len(numbers) == 3 else 1
    items = range(numbers[0], numbers[1] + (1 if step > 0 else -1), step)
    if len(items) > 65_536:
        binder.context.findings.refuse("C001", call.span, "a list has at most 65536 items", "use smaller bounds")
    return Const(value=tuple(items), type=ListOf(Scalar.I64), origin=call.span)


# --- nodes, relationships, paths ---------------------------------------------------------------------


def _require_entity(binder: "ExpressionBinder", call: tree.Call, value: Expr) -> NodeRef | EdgeRef:
    if not isinstance(value.type, NodeRef | EdgeRef):
        _refuse_argument(binder, call, value, "a node or relationship")
    return value.type


def _bind_id(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    _require_entity(binder, call, arguments[0])
    type_name, identity = values.list_type_and_id(arguments[0])
    slash = values.build_const("/", call.span)
    head = binder.compute(_F.CONCATENATE, (type_name, slash), Scalar.STRING, call.span, can_fail=False)
    return binder.compute(_F.CONCATENATE, (head, identity), Scalar.STRING, call.span, can_fail=False)


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


def _bind_type(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    (value,) = arguments
    type_ = _require_entity(binder, call, value)
    if not isinstance(type_, EdgeRef):
        _refuse_argument(binder, call, value, "a relationship")
    edges = binder.context.catalog.edges
    texts = {
        name: values.build_const(get_relationship_type(edges[name]), call.span) for name in list_members(type_.name)
    }
    return _choose_by_type(value, texts, call)


def _bind_labels(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    (value,) = arguments
    type_ = _require_entity(binder, call, value)
    if not isinstance(type_, NodeRef):
        _refuse_argument(binder, call, value, "a node")
    nodes = binder.context.catalog.nodes
    lists: dict[str, Expr] = {}
    for name in list_members(type_.name):
        labels = (name, *sorted(nodes[name].implements))
        lists[name] = Const(value=labels, type=ListOf(Scalar.STRING), origin=call.span)
    return _choose_by_type(value, lists, call)


def _bind_keys(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    (value,) = arguments
    type_ = value.type
    if isinstance(type_, NodeRef | EdgeRef):
        declared = [binder.context.catalog.find_type(name) for name in list_members(type_.name)]
        if any(prop.nullable for each in declared if each is not None for prop in each.properties):
            help_ = "the names of all properties are those of the schema: `CALL db.propertyKeys()`"
            binder.refuse_form(call.span, "`keys` of a node whose properties may be null is not supported", help_)
        lists: dict[str, Expr] = {
            each.name: Const(
                value=tuple(prop.name for prop in each.properties), type=ListOf(Scalar.STRING), origin=call.span
            )
            for each in declared
            if each is not None
        }
        return _choose_by_type(value, lists, call)
    if isinstance(type_, RecordOf):
        names = tuple(name for name, _ in type_.fields)
        return Const(value=names, type=ListOf(Scalar.STRING), origin=call.span)
    _refuse_argument(binder, call, value, "a node, a relationship or a map")


def _bind_properties(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    (value,) = arguments
    warn_omissions(binder.context, value.type, call.span)
    if isinstance(value, Entity):
        fields = {prop.name: prop for prop in value.fields if not prop.name.startswith("@")}
        nullable = value.nullable
        record = build_map(
            binder, {name: replace(p, nullable=p.nullable or nullable) for name, p in fields.items()}, call.span
        )
        if not nullable:
            return record
        missing = values.is_null_test(value, call.span)
        return Case(
            branches=((missing, values.build_null(record.type, call.span)),), otherwise=record, origin=call.span
        )
    if isinstance(value.type, NodeRef | EdgeRef):
        binder.refuse_form(call.span, "`properties` of this value is not supported", "name the properties")
    return value


def _walk(part: str) -> Bind:
    def bind(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
        (value,) = arguments
        if isinstance(value.type, WalkOf):
            return read_part(value, part)
        if part == WALK_LENGTH and (values.is_text_value(value) or values.is_list(value)):
            return _bind_size(binder, call, arguments)
        if not isinstance(value.type, RecordOf) or value.type.find_field(WALK_NODES) is None:
            _refuse_argument(binder, call, value, "a path")
        if part != WALK_LENGTH:
            return read_item(value, part)
        relationships = read_item(value, WALK_EDGES)
        return binder.compute(_F.SIZE, (relationships,), Scalar.I64, call.span, can_fail=False)

    return bind


# --- times -----------------------------------------------------------------------------------------


def _bind_date(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    if not arguments:
        return values.compute(_F.TODAY, (), Scalar.DATE, call.span, "", can_fail=False)
    return _bind_moment(binder, call, arguments[0], Scalar.DATE)


def _bind_datetime(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    if not arguments:
        return Now(origin=call.span)
    return _bind_moment(binder, call, arguments[0], Scalar.DATETIME)


def _bind_moment(binder: "ExpressionBinder", call: tree.Call, value: Expr, type_: Scalar) -> Expr:
    if value.type is type_:
        return value
    if isinstance(value, Const) and isinstance(value.value, str):
        parsed = parse_date(value.value) if type_ is Scalar.DATE else parse_datetime(value.value)
        if not isinstance(parsed, date | datetime):
            binder.refuse_type(
                call.span,
                f"{binder.show(call.arguments[0])} is no {type_}",
                "write it as `2026-01-31` or `2026-01-31T09:30:00Z`",
            )
        return Const(value=parsed, type=type_, origin=call.span)
    if values.is_text_value(value) or value.type in (Scalar.DATE, Scalar.DATETIME):
        function = _F.TO_DATE if type_ is Scalar.DATE else _F.TO_DATETIME
        return binder.compute(function, (value,), type_, call.span, can_fail=True)
    help_ = "give its text: `date('2026-01-31')`"
    found = values.describe(value.type)
    return binder.refuse_form(call.span, f"`{call.function.text}` of {found} is not supported", help_)


def _bind_exists(binder: "ExpressionBinder", call: tree.Call, _arguments: list[Expr]) -> Expr:
    (argument,) = call.arguments
    if isinstance(argument, tree.PatternPredicate):
        return binder.bind(argument)
    return values.is_null_test(binder.bind(argument), call.span, negated=True)


_RAW = frozenset({"exists"})


def _build_table() -> dict[str, CypherFunction]:
    done: list[tuple[str, int, int, Bind, str]] = [
        ("coalesce", 1, 100, _bind_coalesce, "coalesce(n.age, 0)"),
        ("exists", 1, 1, _bind_exists, "exists(n.age)"),
        ("id", 1, 1, _bind_id, "id(n)"),
        ("elementId", 1, 1, _bind_id, "elementId(n)"),
        ("labels", 1, 1, _bind_labels, "labels(n)"),
        ("type", 1, 1, _bind_type, "type(r)"),
        ("keys", 1, 1, _bind_keys, "keys(n)"),
        ("properties", 1, 1, _bind_properties, "properties(n)"),
        ("nodes", 1, 1, _walk(WALK_NODES), "nodes(p)"),
        ("relationships", 1, 1, _walk(WALK_EDGES), "relationships(p)"),
        ("length", 1, 1, _walk(WALK_LENGTH), "length(p)"),
        ("size", 1, 1, _bind_size, "size(list)"),
        ("isEmpty", 1, 1, _bind_is_empty, "isEmpty(list)"),
        ("nullIf", 2, 2, _bind_null_if, "nullIf(n.age, 0)"),
        ("char_length", 1, 1, _text(_F.LENGTH, Scalar.I64), "char_length(n.name)"),
        ("head", 1, 1, _element(_F.FIRST), "head(list)"),
        ("last", 1, 1, _element(_F.LAST), "last(list)"),
        ("tail", 1, 1, _bind_tail, "tail(list)"),
        ("range", 2, 3, _bind_range, "range(1, 10, 2)"),
        ("toString", 1, 1, _conversion(_F.TO_STRING, Scalar.STRING), "toString(n.age)"),
        ("toInteger", 1, 1, _conversion(_F.TO_INT, Scalar.I64), "toInteger('42')"),
        ("toFloat", 1, 1, _conversion(_F.TO_FLOAT, Scalar.F64), "toFloat('4.2')"),
        ("toBoolean", 1, 1, _bind_to_boolean, "toBoolean('true')"),
        ("toLower", 1, 1, _text(_F.LOWER), "toLower(n.name)"),
        ("lower", 1, 1, _text(_F.LOWER), "lower(n.name)"),
        ("toUpper", 1, 1, _text(_F.UPPER), "toUpper(n.name)"),
        ("upper", 1, 1, _text(_F.UPPER), "upper(n.name)"),
        ("trim", 1, 1, _text(_F.TRIM), "trim(n.name)"),
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
        ("date", 0, 1, _bind_date, "date('2026-01-31')"),
        ("datetime", 0, 1, _bind_datetime, "datetime('2026-01-31T09:30:00Z')"),
    ]
    refused = {
        **dict.fromkeys(
            ("toIntegerList", "toFloatList", "toStringList", "toBooleanList"),
            "convert each element: `[x IN list | toString(x)]`",
        ),
        "startNode": "name the node in the pattern: `(a)-[r]->(b)`",
        "endNode": "name the node in the pattern: `(a)-[r]->(b)`",
        "lTrim": "`trim` removes the spaces at both ends",
        "rTrim": "`trim` removes the spaces at both ends",
        "reverse": "order the rows by `ORDER BY … DESC`",
        "rand": "results are the same each time here",
        "randomUUID": "results are the same each time here",
        "timestamp": "`datetime()` is the instant of the query",
        "localtime": "times without a zone have no type here; use `datetime`",
        "localdatetime": "times without a zone have no type here; use `datetime`",
        "time": "times without a date have no type here; use `datetime`",
        "duration": "durations have no type here; compare dates, or ask in `.gq`: `days_between(from, to)`",
        "duration.between": "ask in `.gq`: `days_between(from, to)` or `seconds_between(from, to)`",
        "duration.inDays": "ask in `.gq`: `days_between(from, to)`",
        "date.truncate": 'ask in `.gq`: `trunc($p.born, "month")`',
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
