"""Build typed values of the plan with the meaning that they have in Cypher."""

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.lang.source import Span
from omnigraph.query.expr import (
    And,
    ArrayOf,
    Case,
    Compare,
    Computed,
    Const,
    EdgeRef,
    Entity,
    Expr,
    ExprType,
    FieldRef,
    Identity,
    IsNull,
    Missing,
    NodeRef,
    Not,
    Op,
    Or,
    ParamRef,
    RecordExpr,
    RecordOf,
    ShapedType,
    United,
)
from omnigraph.query.expr_tree import walk
from omnigraph.query.scalar_functions import ScalarFunction, unify
from omnigraph.query.union_types import (
    ID_COLUMN,
    TYPE_COLUMN,
    build_meta_value,
    is_union,
    list_identity_fields,
    list_members,
    unite_types,
)
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, are_comparable, is_text

_CONVERSIONS = {Scalar.F64: ScalarFunction.TO_FLOAT, Scalar.I64: ScalarFunction.TO_INT}


def build_const(value: bool | float | str | None, origin: Span) -> Const:
    """Return a literal; null has a type by chance, see `is_null`."""
    # A Bool is an integer in Python, so it is asked for first.
    match value:
        case None:
            return Const(value=None, type=Scalar.BOOL, origin=origin)
        case bool():
            return Const(value=value, type=Scalar.BOOL, origin=origin)
        case int():
            return Const(value=value, type=Scalar.I64, origin=origin)
        case float():
            return Const(value=value, type=Scalar.F64, origin=origin)
        case _:
            return Const(value=value, type=Scalar.STRING, origin=origin)


def build_null(type_: ExprType, origin: Span) -> Expr:
    """Return the null of a type."""
    if isinstance(type_, ShapedType):
        return Missing(type=type_, origin=origin)
    return Const(value=None, type=type_, origin=origin)


def is_null(value: Expr) -> bool:
    """Return whether a value is the literal null, whose type is by chance."""
    return isinstance(value, Const | Missing) and getattr(value, "value", None) is None


def is_empty_list(value: Expr) -> bool:
    """Return whether a value is the literal `[]`, whose type is by chance."""
    return isinstance(value, Const) and value.value == () and isinstance(value.type, ListOf)


def is_untyped_list(value: Expr) -> bool:
    """Return whether a list is `[]` or holds literal nulls only, so that its type is by chance."""
    return (
        isinstance(value, Const)
        and isinstance(value.type, ListOf)
        and isinstance(value.value, tuple)
        and all(item is None for item in value.value)
    )


def fill(value: Computed) -> Computed:
    """Return a value that is never null, although its arguments may be."""
    return replace(value, nullable=False)


def be_strict(value: Expr) -> Expr:
    """Return a calculation that is an error where it has no value, also in a condition."""
    return replace(value, is_strict=True) if isinstance(value, Computed) else value


def is_strict(value: Expr) -> bool:
    """Return whether a part of a value is such a calculation."""
    return any(isinstance(part, Computed) and part.is_strict for part in walk(value))


def list_types(bound: Sequence[Expr]) -> str:
    """Return the types of values, for a message."""
    return ", ".join(dict.fromkeys(describe(value.type) for value in bound if not is_null(value)))


def get_value_type(value: Expr) -> ValueType:
    """Return the type of a value that is no node, relationship, map or list of such."""
    type_ = value.type
    assert not isinstance(type_, ShapedType)  # noqa: S101 - callers have checked it
    return type_


def compute(
    function: ScalarFunction, arguments: Sequence[Expr], type_: ExprType, origin: Span, text: str, *, can_fail: bool
) -> Computed:
    """Return the value of a function, which is null where an argument is, or where it can fail."""
    nullable = can_fail or any(argument.nullable for argument in arguments)
    return Computed(
        function=function, arguments=tuple(arguments), type=type_, nullable=nullable, text=text, origin=origin
    )


def convert(value: Expr, type_: ExprType) -> Expr:
    """Return a value in a wider type, see `find_common_type`; a literal is converted at once."""
    if value.type == type_:
        return value
    if is_null(value):
        return build_null(type_, value.origin)
    if isinstance(type_, NodeRef | EdgeRef):
        return United(operand=value, type=type_, origin=value.origin)
    if isinstance(value, Const) and is_untyped_list(value):
        return _convert_untyped(value, type_)
    if isinstance(value, Const) and isinstance(value.value, tuple) and isinstance(type_, ListOf):
        items = [
            convert(Const(value=item, type=_get_item_type(value), origin=value.origin), type_.element)
            for item in value.value
        ]
        if all(isinstance(item, Const) for item in items):
            return Const(
                value=tuple(item.value for item in items if isinstance(item, Const)), type=type_, origin=value.origin
            )
    if isinstance(type_, ArrayOf):
        return compute(ScalarFunction.WIDEN, (value,), type_, value.origin, "", can_fail=False)
    if isinstance(value, Const) and isinstance(type_, Scalar):
        converted = float(value.value) if type_ is Scalar.F64 and isinstance(value.value, int) else value.value
        return Const(value=converted, type=type_, origin=value.origin)
    if isinstance(type_, ListOf):
        return compute(ScalarFunction.WIDEN, (value,), type_, value.origin, "", can_fail=False)
    function = _CONVERSIONS.get(type_, ScalarFunction.TO_STRING) if isinstance(type_, Scalar) else None
    if function is None:
        return value
    return compute(function, (value,), type_, value.origin, "", can_fail=False)


def _convert_untyped(value: Const, type_: ExprType) -> Expr:
    """Return `[]`, or a list of nulls, as a list of a type."""
    if isinstance(type_, ListOf):
        return Const(value=value.value, type=type_, origin=value.origin)
    if not isinstance(type_, ArrayOf):
        return value
    size = len(value.value) if isinstance(value.value, tuple) else 0
    nulls = tuple(build_null(type_.element, value.origin) for _ in range(size))
    if not nulls:
        # Cut off: a list of one null has the type, and no part of it has an element.
        nulls = (build_null(type_.element, value.origin),)
    items = fill(compute(ScalarFunction.ITEMS, nulls, type_, value.origin, "", can_fail=False))
    if size:
        return items
    zero = build_const(0, value.origin)
    return fill(compute(ScalarFunction.SLICE, (items, zero, zero), type_, value.origin, "", can_fail=False))


def _get_item_type(value: Const) -> Scalar:
    assert isinstance(value.type, ListOf)  # noqa: S101 - callers have checked it
    return value.type.element


def find_common_type(types: Sequence[ExprType]) -> ExprType | None:
    """Return the type that values of all these types have; None if there is none."""
    if all(type_ == types[0] for type_ in types):
        return Scalar.STRING if isinstance(types[0], EnumOf) else types[0]
    united = unite_types(types)
    if united is not None:
        return united
    if all(isinstance(type_, ArrayOf) for type_ in types):
        element = find_common_type([type_.element for type_ in types if isinstance(type_, ArrayOf)])
        return None if element is None or isinstance(element, NodeRef | EdgeRef) else ArrayOf(element)
    values = tuple(type_ for type_ in types if not isinstance(type_, ShapedType))
    return unify(values) if len(values) == len(types) else None


def agree(values: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """Return values in their common type, nulls included; None if they have none."""
    # The literals null and `[]` have no type of their own, so the others decide.
    typed = [value.type for value in values if not is_null(value)]
    filled = [value.type for value in values if not is_null(value) and not is_untyped_list(value)]
    if filled and all(isinstance(type_, ListOf | ArrayOf) for type_ in filled):
        typed = filled
    type_ = find_common_type(typed) if typed else Scalar.STRING
    return None if type_ is None else tuple(convert(value, type_) for value in values)


# --- truth ---------------------------------------------------------------------------------------


def build_unknown(origin: Span) -> Const:
    """Return the unknown truth value."""
    return Const(value=None, type=Scalar.BOOL, origin=origin)


def build_and(terms: Sequence[Expr], origin: Span) -> Expr:
    """Return the conjunction of one or more predicates."""
    return terms[0] if len(terms) == 1 else And(terms=tuple(terms), origin=origin)


def is_null_test(value: Expr, origin: Span, *, negated: bool = False) -> Expr:
    """Return whether a value is null; decided at once where its type tells."""
    if is_null(value):
        return build_const(not negated, origin)
    if not value.nullable:
        return build_const(negated, origin)
    if isinstance(value, Entity):
        return IsNull(
            operand=Identity(variable=value.variable, nullable=True, origin=origin), negated=negated, origin=origin
        )
    return IsNull(operand=value, negated=negated, origin=origin)


def decide_unless_null(values: Sequence[Expr], truth: bool | None, origin: Span) -> Expr:
    """Return a truth value that is unknown where one of these values is null."""
    if truth is None or any(map(is_null, values)):
        return build_unknown(origin)
    tests = [is_null_test(value, origin) for value in values if value.nullable]
    # Without a side that can be null, the answer is the same for all rows.
    if not tests:
        return build_const(truth, origin)
    any_null = tests[0] if len(tests) == 1 else Or(terms=tuple(tests), origin=origin)
    return Case(branches=((any_null, build_unknown(origin)),), otherwise=build_const(truth, origin), origin=origin)


def compare(op: Op, left: Expr, right: Expr, origin: Span) -> Expr | None:
    """Return a comparison as Cypher means it; None for values whose comparison the plan can't express.

    Values of types that do not compare are unequal, and their order is unknown.
    """
    if is_null(left) or is_null(right):
        return build_unknown(origin)
    is_equality = op in (Op.EQ, Op.NE)
    if isinstance(left.type, NodeRef | EdgeRef) and isinstance(right.type, NodeRef | EdgeRef):
        if not is_equality:
            return build_unknown(origin)
        return _compare_entities(op, left, right, origin)
    left, right = _read_moment(left, right.type), _read_moment(right, left.type)
    left_type, right_type = left.type, right.type
    if is_list(left) and is_list(right):
        return _compare_lists(op, left, right, origin)
    if isinstance(left_type, RecordOf) and isinstance(right_type, RecordOf):
        return _compare_records(op, left, right, origin) if is_equality else build_unknown(origin)
    if isinstance(left_type, ShapedType | ListOf) or isinstance(right_type, ShapedType | ListOf):
        return decide_unless_null((left, right), op is Op.NE if is_equality else None, origin)
    # `1 = 'a'` is false in Cypher, and `1 < 'a'` is unknown: neither is an error.
    if are_comparable(left_type, right_type):
        return Compare(op=op, left=left, right=right, origin=origin)
    return decide_unless_null((left, right), op is Op.NE if is_equality else None, origin)


def get_inner_type(type_: ExprType) -> ExprType:
    """Return the type of the elements of lists to any depth; that of a value is its own."""
    while isinstance(type_, ListOf | ArrayOf):
        type_ = type_.element
    return type_


def _compare_lists(op: Op, left: Expr, right: Expr, origin: Span) -> Expr | None:
    """Compare lists by their elements; None for lists of nodes or relationships that have no common type."""
    inner = [get_inner_type(side.type) for side in (left, right)]
    # A node in a list is a position in its table, which tells nothing beside other values.
    has_entities = any(isinstance(type_, NodeRef | EdgeRef) for type_ in inner)
    if has_entities and left.type != right.type:
        return None
    if op in (Op.EQ, Op.NE):
        is_equal = compute(ScalarFunction.EQUAL_LISTS, (left, right), Scalar.BOOL, origin, "", can_fail=True)
        return is_equal if op is Op.EQ else Not(term=is_equal, origin=origin)
    if has_entities:
        return build_unknown(origin)
    order = compute(ScalarFunction.COMPARE_LISTS, (left, right), Scalar.I64, origin, "", can_fail=True)
    return Compare(op=op, left=order, right=build_const(0, origin), origin=origin)


def list_items(value: Expr) -> dict[str, Expr] | None:
    """Return the entries of a map; None for a path, which is more than its entries."""
    if isinstance(value, RecordExpr):
        return dict(value.items)
    type_ = value.type
    if not isinstance(type_, RecordOf):
        return None
    return {
        name: FieldRef(
            operand=value,
            name=name,
            type=field_type,
            nullable=value.nullable or name not in type_.required,
            origin=value.origin,
        )
        for name, field_type in type_.fields
    }


def _compare_records(op: Op, left: Expr, right: Expr, origin: Span) -> Expr | None:
    """Compare maps, which are equal if they have the same keys with equal values, and paths."""
    items, others = list_items(left), list_items(right)
    if items is None or others is None:
        return None
    if items.keys() != others.keys():
        return decide_unless_null((left, right), op is Op.NE, origin)
    if not items:
        return decide_unless_null((left, right), op is Op.EQ, origin)
    terms = [compare(Op.EQ, value, others[key], origin) for key, value in items.items()]
    if any(term is None for term in terms):
        return None
    is_equal = build_and([term for term in terms if term is not None], origin)
    return is_equal if op is Op.EQ else Not(term=is_equal, origin=origin)


def _read_moment(value: Expr, other: ExprType) -> Expr:
    """Return a parameter that is a text as the Date or DateTime that it is compared with: JSON has no such values."""
    functions = {Scalar.DATE: ScalarFunction.TO_DATE, Scalar.DATETIME: ScalarFunction.TO_DATETIME}
    function = functions.get(other) if isinstance(other, Scalar) else None
    if function is None or not isinstance(value, ParamRef) or value.type is not Scalar.STRING:
        return value
    return compute(function, (value,), other, value.origin, "", can_fail=True)


def _compare_entities(op: Op, left: Expr, right: Expr, origin: Span) -> Expr:
    """Compare nodes or relationships by their identity; those of types without a common one differ."""
    if not set(list_members(str(left.type))) & set(list_members(str(right.type))):
        return decide_unless_null((left, right), op is Op.NE, origin)
    if left.type == right.type and isinstance(left, Entity) and isinstance(right, Entity):
        first, second = (
            Identity(variable=each.variable, nullable=each.nullable, origin=origin) for each in (left, right)
        )
        return Compare(op=op, left=first, right=second, origin=origin)
    sides = [list_type_and_id(each) for each in (left, right)]
    # Ids are unique within a type, so both have to be equal, and one that differs is enough.
    terms = tuple(Compare(op=op, left=a, right=b, origin=origin) for a, b in zip(*sides, strict=True))
    return And(terms=terms, origin=origin) if op is Op.EQ else Or(terms=terms, origin=origin)


def list_type_and_id(value: Expr) -> tuple[Expr, Expr]:
    """Return the type and the id of a node or relationship."""
    if not isinstance(value, Entity):
        type_value, id_value = list_identity_fields(value)
        return type_value, id_value
    origin, nullable = value.origin, value.nullable
    if is_union(value.type.name):
        return (
            build_meta_value(value.variable, TYPE_COLUMN, origin, nullable=nullable),
            build_meta_value(value.variable, ID_COLUMN, origin, nullable=nullable),
        )
    name: Expr = Const(value=value.type.name, type=Scalar.STRING, origin=origin)
    identity = Identity(variable=value.variable, nullable=nullable, origin=origin)
    if nullable:
        null = Const(value=None, type=Scalar.STRING, origin=origin)
        name = Case(branches=((IsNull(operand=identity, origin=origin), null),), otherwise=name, origin=origin)
    return name, identity


def build_element_id(value: Expr, origin: Span) -> Expr:
    """Return a text that tells nodes, or relationships, of all types apart: `Type/id`."""
    type_name, identity = list_type_and_id(value)
    head = (type_name, build_const("/", origin))
    function = ScalarFunction.CONCATENATE
    parts = (compute(function, head, Scalar.STRING, origin, "", can_fail=False), identity)
    return compute(function, parts, Scalar.STRING, origin, "", can_fail=False)


def is_number(value: Expr) -> bool:
    """Return whether a value is a number."""
    return isinstance(value.type, Scalar) and value.type.is_numeric


def is_integer(value: Expr) -> bool:
    """Return whether a value is a whole number."""
    return isinstance(value.type, Scalar) and value.type.is_integer


def is_text_value(value: Expr) -> bool:
    """Return whether a value is a text."""
    return not isinstance(value.type, ShapedType) and is_text(value.type)


def is_list(value: Expr) -> bool:
    """Return whether a value is a list."""
    return isinstance(value.type, ListOf | ArrayOf)


def describe(type_: ExprType) -> str:
    """Return a type as messages about Cypher name it."""
    match type_:
        case NodeRef():
            return "a node"
        case EdgeRef():
            return "a relationship"
        case ListOf() | ArrayOf():
            return "a list"
        case RecordOf():
            return "a map"
        case EnumOf():
            return "a String"
        case _:
            return f"{'an' if str(type_)[0] in 'AEIOU' else 'a'} {type_}"
