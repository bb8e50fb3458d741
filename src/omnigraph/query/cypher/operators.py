"""The operators of Cypher: logic, comparisons, `IN`, tests of texts, arithmetic."""

from typing import TYPE_CHECKING, Final, NoReturn

from omnigraph.lang.cypher import tree
from omnigraph.query.cypher import values
from omnigraph.query.cypher.lists import find_item, join, may_hold_null
from omnigraph.query.expr import (
    And,
    ArrayOf,
    Case,
    Const,
    Contains,
    EdgeRef,
    Expr,
    In,
    NodeRef,
    Not,
    Op,
    Or,
    ShapedType,
    StartsWith,
)
from omnigraph.query.scalar_functions import ScalarFunction, widen
from omnigraph.query.union_types import is_part
from omnigraph.schema.types import ListOf, Scalar, are_comparable

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder

_F = ScalarFunction
_COMPARISONS: Final = {
    tree.CompareOp.EQ: Op.EQ,
    tree.CompareOp.NE: Op.NE,
    tree.CompareOp.LT: Op.LT,
    tree.CompareOp.LE: Op.LE,
    tree.CompareOp.GT: Op.GT,
    tree.CompareOp.GE: Op.GE,
}
# Sums, differences and products of these have 64 bits.
_SMALL: Final = (Scalar.I32, Scalar.U32)
_ARITHMETIC: Final = {
    tree.BinaryOp.SUBTRACT: _F.SUBTRACT,
    tree.BinaryOp.MULTIPLY: _F.MULTIPLY,
    tree.BinaryOp.DIVIDE: _F.QUOTIENT,
    tree.BinaryOp.MODULO: _F.REMAINDER,
}


def bind_unary(binder: "ExpressionBinder", expr: tree.Unary) -> Expr:
    """Bind `NOT`, `-` and `+`."""
    if expr.op is tree.UnaryOp.NOT:
        return Not(term=binder.bind_condition(expr.operand), origin=expr.span)
    operand = binder.bind(expr.operand)
    if values.is_null(operand):
        return operand
    if not values.is_number(operand):
        binder.refuse_type(
            expr.span,
            f"`{expr.op.value}` needs a number, but {binder.show(expr.operand)} is {values.describe(operand.type)}",
        )
    if expr.op is tree.UnaryOp.PLUS:
        return operand
    type_ = widen((values.get_value_type(operand),))
    return values.be_strict(binder.compute(_F.NEGATE, (operand,), type_, expr.span, can_fail=True))


def bind_binary(binder: "ExpressionBinder", expr: tree.Binary) -> Expr:
    """Bind an operator of two operands that is no comparison."""
    match expr.op:
        case tree.BinaryOp.AND | tree.BinaryOp.OR:
            terms = tuple(binder.bind_condition(term) for term in list_terms(expr, expr.op))
            return (And if expr.op is tree.BinaryOp.AND else Or)(terms=terms, origin=expr.span)
        case tree.BinaryOp.XOR:
            left, right = binder.bind_condition(expr.left), binder.bind_condition(expr.right)
            first = And(terms=(left, Not(term=right, origin=expr.span)), origin=expr.span)
            second = And(terms=(Not(term=left, origin=expr.span), right), origin=expr.span)
            return Or(terms=(first, second), origin=expr.span)
        case tree.BinaryOp.IN:
            return _bind_in(binder, expr)
        case tree.BinaryOp.STARTS_WITH | tree.BinaryOp.ENDS_WITH | tree.BinaryOp.CONTAINS | tree.BinaryOp.MATCHES:
            return _bind_text_test(binder, expr)
        case _:
            return _bind_arithmetic(binder, expr)


def bind_comparison(binder: "ExpressionBinder", expr: tree.Comparison) -> Expr:
    """Bind comparisons of neighbours, all of which must hold."""
    operands = [expr.first, *(operand for _, operand in expr.rest)]
    bound = [binder.bind(operand) for operand in operands]
    terms: list[Expr] = []
    for index, (op, _) in enumerate(expr.rest):
        term = values.compare(_COMPARISONS[op], bound[index], bound[index + 1], expr.span)
        if term is None:
            binder.refuse_form(expr.span, "lists and maps can't be compared", "compare their elements: `list[0] = 1`")
        terms.append(term)
    return values.build_and(terms, expr.span)


def _bind_in(binder: "ExpressionBinder", expr: tree.Binary) -> Expr:
    element, collection = binder.bind(expr.left), binder.bind(expr.right)
    if values.is_null(collection):
        return values.build_unknown(expr.span)
    if isinstance(expr.right, tree.ListLiteral) and not expr.right.items:
        return values.build_const(value=False, origin=expr.span)
    type_ = collection.type
    if not isinstance(type_, ListOf | ArrayOf):
        binder.refuse_type(
            expr.right.span, f"`IN` needs a list, but {binder.show(expr.right)} is {values.describe(type_)}"
        )
    if values.is_null(element):
        # Unknown, except that nothing is in an empty list.
        size = binder.compute(_F.SIZE, (collection,), Scalar.I64, expr.span, can_fail=False)
        is_empty = values.compare(Op.EQ, size, values.build_const(0, expr.span), expr.span)
        assert is_empty is not None  # noqa: S101 - numbers compare
        branch = (is_empty, values.build_const(value=False, origin=expr.span))
        return Case(branches=(branch,), otherwise=values.build_unknown(expr.span), origin=expr.span)
    is_plain = _is_element(element, type_) and not may_hold_null(binder.context, collection)
    if not is_plain or element.nullable:
        return find_item(binder, element, collection, expr.span)
    if isinstance(type_, ArrayOf):
        element = values.convert(element, type_.element)
    return In(element=element, collection=collection, origin=expr.span)


def _is_element(element: Expr, type_: ListOf | ArrayOf) -> bool:
    if isinstance(type_, ArrayOf):
        return isinstance(element.type, NodeRef | EdgeRef) and is_part(element.type, type_.element)
    if isinstance(element.type, ShapedType):
        return False
    return are_comparable(element.type, type_.element)


def _bind_text_test(binder: "ExpressionBinder", expr: tree.Binary) -> Expr:
    left, right = binder.bind(expr.left), binder.bind(expr.right)
    if values.is_null(left) or values.is_null(right):
        return values.build_unknown(expr.span)
    # Neither side is converted: `1 CONTAINS 'a'` is unknown.
    if not (values.is_text_value(left) and values.is_text_value(right)):
        # A value that is no text neither contains nor starts with one: unknown.
        return values.build_unknown(expr.span)
    match expr.op:
        case tree.BinaryOp.CONTAINS:
            return Contains(text=left, part=right, origin=expr.span)
        case tree.BinaryOp.STARTS_WITH:
            return StartsWith(text=left, prefix=right, origin=expr.span)
        case tree.BinaryOp.ENDS_WITH:
            return binder.compute(_F.ENDS_WITH, (left, right), Scalar.BOOL, expr.span, can_fail=False)
        case _:
            return _bind_matches(binder, expr, left, right)


def _bind_matches(binder: "ExpressionBinder", expr: tree.Binary, text: Expr, pattern: Expr) -> Expr:
    if not isinstance(expr.right, tree.Literal) or not isinstance(expr.right.value, str):
        binder.refuse_form(expr.right.span, "a regular expression is a literal here", "write the text of the pattern")
    whole = values.build_const(f"^(?:{expr.right.value})$", pattern.origin)
    return binder.compute(_F.MATCHES, (text, whole), Scalar.BOOL, expr.span, can_fail=False)


def _bind_arithmetic(binder: "ExpressionBinder", expr: tree.Binary) -> Expr:
    left, right = binder.bind(expr.left), binder.bind(expr.right)
    if values.is_null(left) or values.is_null(right):
        return values.build_unknown(expr.span)
    is_sum = expr.op in (tree.BinaryOp.ADD, tree.BinaryOp.CONCAT)
    if is_sum and (values.is_list(left) or values.is_list(right)):
        return join(binder, left, right, expr.span)
    if is_sum and (values.is_text_value(left) or values.is_text_value(right)):
        return _concatenate(binder, expr, left, right)
    if not (values.is_number(left) and values.is_number(right)):
        _refuse_operands(binder, expr, left, right)
    types = (values.get_value_type(left), values.get_value_type(right))
    if expr.op is tree.BinaryOp.POWER:
        return binder.compute(_F.POW, (left, right), Scalar.F64, expr.span, can_fail=True)
    function = _ARITHMETIC.get(expr.op, _F.ADD)
    # An overflow is an error; only a float can leave its range and become null.
    can_fail = widen(types) is not Scalar.I64
    computed = binder.compute(function, (left, right), widen(types), expr.span, can_fail=can_fail)
    return values.be_strict(computed) if _may_fail(function, left, right) else computed


def _may_fail(function: ScalarFunction, left: Expr, right: Expr) -> bool:
    """Return whether a calculation may overflow, or divide by zero."""
    if function in (_F.QUOTIENT, _F.REMAINDER):
        # The smallest integer divided by -1 has no value either.
        return not (isinstance(right, Const) and right.value not in (0, -1))
    return not (left.type in _SMALL and right.type in _SMALL)


def _concatenate(binder: "ExpressionBinder", expr: tree.Binary, left: Expr, right: Expr) -> Expr:
    sides = []
    for side in (left, right):
        is_single = not isinstance(side.type, ShapedType | ListOf)
        if not is_single:
            _refuse_operands(binder, expr, left, right)
        text = (
            side
            if values.is_text_value(side)
            else binder.compute(_F.TO_STRING, (side,), Scalar.STRING, expr.span, can_fail=False)
        )
        sides.append(text)
    return binder.compute(_F.CONCATENATE, tuple(sides), Scalar.STRING, expr.span, can_fail=False)


def _refuse_operands(binder: "ExpressionBinder", expr: tree.Binary, left: Expr, right: Expr) -> NoReturn:
    sides = f"{values.describe(left.type)} and {values.describe(right.type)}"
    binder.refuse_type(expr.span, f"`{expr.op.value}` can't be applied to {sides}")


def list_terms(expr: tree.Expr, op: tree.BinaryOp) -> list[tree.Expr]:
    """Return the terms that are joined by one operator, from left to right."""
    terms: list[tree.Expr] = []
    while isinstance(expr, tree.Binary) and expr.op is op:
        terms.append(expr.right)
        expr = expr.left
    return [expr, *reversed(terms)]
