"""Comparisons: two sides, each an expression or a literal that takes its type from the other side."""

import re
from dataclasses import dataclass

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.print_predicate import expr_text as print_expr
from omnigraph.lang.source import Span
from omnigraph.query.bind_literal import beside, natural, natural_type
from omnigraph.query.expr import (
    Compare,
    Const,
    Contains,
    EdgeRef,
    Entity,
    Expr,
    ExprType,
    Identity,
    In,
    NodeRef,
    Op,
    Predicate,
    Prop,
    StartsWith,
)
from omnigraph.query.numeric_narrowing import exact, narrow
from omnigraph.schema.findings import Findings
from omnigraph.schema.misfit import Misfit
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf, comparable, is_numeric, is_text
from omnigraph.schema.values import expected

_LONGEST = 60
_OPS = {
    ast.CompareOp.EQ: Op.EQ,
    ast.CompareOp.NE: Op.NE,
    ast.CompareOp.LT: Op.LT,
    ast.CompareOp.LE: Op.LE,
    ast.CompareOp.GT: Op.GT,
    ast.CompareOp.GE: Op.GE,
}
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Side:
    """One side: how it was written, and what it is."""

    node: ast.Expr
    value: Expr | lit.Literal

    @property
    def text(self) -> str:
        """As written, for messages."""
        text = print_expr(self.node)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"

    @property
    def type(self) -> ExprType | None:
        """Its own type; None for null and for a list that has none."""
        return natural_type(self.value) if isinstance(self.value, LITERALS) else self.value.type

    def __str__(self) -> str:
        if isinstance(self.value, lit.IntLiteral | lit.FloatLiteral):
            return f"`{self.text}` (a number)"
        if self.type is not None:
            return f"`{self.text}` ({self.type})"
        return "`null`" if isinstance(self.value, lit.NullLiteral) else f"`{self.text}` (a list)"


LITERALS = (
    lit.StringLiteral,
    lit.IntLiteral,
    lit.FloatLiteral,
    lit.BoolLiteral,
    lit.NullLiteral,
    lit.DateLiteral,
    lit.DateTimeLiteral,
    lit.ListLiteral,
)


@dataclass(frozen=True, slots=True)
class Blame:
    """Where and how a pair that does not compare is reported."""

    code: str
    span: Span
    findings: Findings

    def mismatch(self, message: str, help_: str | None = None) -> None:
        """The two sides have types that don't go together."""
        self.findings.error(self.code, self.span, message, help_)

    def misfit(self, type_: ExprType | None, literal: lit.Literal, misfit: Misfit) -> None:
        """A literal is of the right kind, but no value of the type."""
        if isinstance(type_, EnumOf) and isinstance(literal, lit.StringLiteral):
            message = f'"{literal.value}" is none of the values of {type_}'
            help_ = self.findings.near(literal.value, type_.values) or f"write {expected(type_)}"
        else:
            message, help_ = misfit.reason, _FORMS.get(type(literal), "")
        self.findings.error("T3", literal.span, message, help_ or None)


_FORMS: dict[type, str] = {
    lit.DateLiteral: 'write `date("YYYY-MM-DD")`',
    lit.DateTimeLiteral: 'write `datetime("YYYY-MM-DDThh:mm:ssZ")`, with a zone',
}


def compare(node: ast.Compare, left: Side, right: Side, findings: Findings) -> Predicate | None:
    """The predicate of a comparison, or None when it has no meaning, which is then reported (T7, T3)."""
    blame = Blame("T7", node.span, findings)
    match node.op:
        case ast.CompareOp.IN:
            return membership(left, right, node.span, blame)
        case ast.CompareOp.CONTAINS:
            return _contains(left, right, node.span, blame)
        case ast.CompareOp.STARTS_WITH:
            return _starts_with(left, right, node.span, blame)
        case _:
            return ordinary(_OPS[node.op], left, right, node.span, blame)


def brace_filter(prop: Prop, node: ast.Assignment, value: Side, findings: Findings) -> Predicate | None:
    """`{p: v}`: equality on a scalar, membership on a list; what does not fit is T3, at the value."""
    blame = Blame("T3", node.value.span, findings)
    own = Side(ast.BareName(name=node.name, span=node.name.span), prop)
    if isinstance(prop.type, ListOf):
        return membership(value, own, node.span, blame)
    return ordinary(Op.EQ, own, value, node.span, blame)


# --- = != < <= > >= ------------------------------------------------------------------------------


def ordinary(op: Op, left: Side, right: Side, origin: Span, blame: Blame) -> Predicate | None:
    """`left op right` between two scalars, or two nodes of one type."""
    if isinstance(left.value, LITERALS):
        if isinstance(right.value, LITERALS):
            return _constants(op, left.value, right.value, (left, right), origin, blame)
        return _with_literal(op.mirrored, right.value, left.value, (right, left), origin, blame)
    if isinstance(right.value, LITERALS):
        return _with_literal(op, left.value, right.value, (left, right), origin, blame)
    if isinstance(left.value, Entity) or isinstance(right.value, Entity):
        return _entities(op, left, right, origin, blame)
    if not _comparable(left.value.type, right.value.type):
        return _refuse(left, right, blame)
    return Compare(op=op, left=left.value, right=right.value, origin=origin)


def _comparable(left: ExprType, right: ExprType) -> bool:
    if isinstance(left, NodeRef | EdgeRef) or isinstance(right, NodeRef | EdgeRef):
        return False
    return comparable(left, right)


def _with_literal(
    op: Op, expr: Expr, literal: lit.Literal, sides: tuple[Side, Side], origin: Span, blame: Blame
) -> Predicate | None:
    type_ = expr.type
    if isinstance(type_, NodeRef | EdgeRef) or not comparable(type_, type_):
        return _refuse(*sides, blame)
    if isinstance(literal, lit.IntLiteral | lit.FloatLiteral) and isinstance(type_, Scalar) and is_numeric(type_):
        found = narrow(op, literal.value, type_)
        value = Const(value=found.value, type=type_, origin=literal.span)
        return Compare(op=found.op, left=expr, right=value, origin=origin)
    constant = beside(type_, literal)
    if constant is None:
        return _refuse(*sides, blame)
    if isinstance(constant, Misfit):
        blame.misfit(type_, literal, constant)
        return None
    return Compare(op=op, left=expr, right=constant, origin=origin)


def _constants(
    op: Op, left: lit.Literal, right: lit.Literal, sides: tuple[Side, Side], origin: Span, blame: Blame
) -> Predicate | None:
    first, second = _constant(left, right, blame), _constant(right, left, blame)
    if first is None or second is None:
        return None
    if not comparable(first.type, second.type):
        return _refuse(*sides, blame)
    return Compare(op=op, left=first, right=second, origin=origin)


def _constant(literal: lit.Literal, other: lit.Literal, blame: Blame) -> Const | None:
    """A literal in a type of its own; a null takes that of the other literal."""
    other_type = natural_type(other)
    if isinstance(literal, lit.NullLiteral) and other_type is not None:
        return Const(value=None, type=other_type, origin=literal.span)
    constant = natural(literal)
    if isinstance(constant, Misfit):
        blame.misfit(natural_type(literal), literal, constant)
        return None
    return constant


def _entities(op: Op, left: Side, right: Side, origin: Span, blame: Blame) -> Predicate | None:
    first, second = left.value, right.value
    if not isinstance(first, Entity) or not isinstance(second, Entity):
        return _refuse(left, right, blame)
    if not isinstance(first.type, NodeRef) or first.type != second.type or op not in (Op.EQ, Op.NE):
        return _refuse(left, right, blame)
    return Compare(
        op=op,
        left=Identity(variable=first.variable, origin=first.origin),
        right=Identity(variable=second.variable, origin=second.origin),
        origin=origin,
    )


# --- in, contains, starts_with -------------------------------------------------------------------


def membership(element: Side, collection: Side, origin: Span, blame: Blame) -> Predicate | None:
    """`element in collection`: a list literal, a list parameter or a list property."""
    if isinstance(collection.value, lit.ListLiteral):
        return _in_items(element, collection, collection.value, origin, blame)
    if isinstance(collection.value, LITERALS) or not isinstance(collection.value.type, ListOf):
        blame.mismatch(f"{collection} is no list", 'write a list, `["a", "b"]`, or compare with `=`')
        return None
    inner = collection.value.type.element
    value = _element(element, inner, blame)
    if isinstance(value, _Mismatch):
        blame.mismatch(f"{element} can't be an element of {collection}", _help(element, inner))
        return None
    return None if value is None else In(element=value, collection=collection.value, origin=origin)


class _Mismatch:
    """An element that does not compare with those of the list."""


_MISMATCH = _Mismatch()


def _element(side: Side, inner: Scalar, blame: Blame) -> Expr | _Mismatch | None:
    if not isinstance(side.value, LITERALS):
        return side.value if _comparable(side.value.type, inner) else _MISMATCH
    constant = beside(inner, side.value)
    if isinstance(constant, Misfit):
        blame.misfit(inner, side.value, constant)
        return None
    return _MISMATCH if constant is None else constant


def _in_items(element: Side, collection: Side, items: lit.ListLiteral, origin: Span, blame: Blame) -> Predicate | None:
    type_ = element.type
    if isinstance(element.value, lit.NullLiteral):
        found = natural_type(items)
        type_ = found.element if isinstance(found, ListOf) else Scalar.STRING
    if type_ is None or isinstance(type_, NodeRef | EdgeRef) or not comparable(type_, type_):
        return _refuse(element, collection, blame)
    values: list[Const] = []
    fits = True
    for item in items.items:
        constant = None if isinstance(item, lit.NullLiteral) else _item(type_, item)
        if constant is None:
            blame.mismatch(f"{element} does not compare with the items of {collection}", _item_help(item, type_))
            return None
        if isinstance(constant, Misfit):
            blame.misfit(type_, item, constant)
            fits = False
        elif constant.value is not None:
            values.append(constant)
    value: Expr | None
    if isinstance(element.value, lit.NullLiteral):
        value = Const(value=None, type=type_, origin=element.value.span)
    elif isinstance(element.value, LITERALS):
        value = _constant(element.value, element.value, blame)
    else:
        value = element.value
    if value is None or not fits:
        return None
    inner = type_ if isinstance(type_, Scalar) else Scalar.STRING  # an enum's values are texts
    listed = Const(value=tuple(v.value for v in values), type=ListOf(inner), origin=items.span)
    return In(element=value, collection=listed, origin=origin)


def _item(type_: ValueType, item: lit.Literal) -> Const | Misfit | None:
    """An item in the element's own type; a number that no such value equals is a null, which the caller drops."""
    if isinstance(item, lit.IntLiteral | lit.FloatLiteral) and isinstance(type_, Scalar) and is_numeric(type_):
        return Const(value=exact(item.value, type_), type=type_, origin=item.span)
    return beside(type_, item)


def _item_help(item: lit.Literal, type_: ValueType) -> str | None:
    if isinstance(item, lit.NullLiteral):
        return "a list holds no null: test with `is null`"
    return _literal_help(item, type_)


def _contains(left: Side, right: Side, origin: Span, blame: Blame) -> Predicate | None:
    if isinstance(left.type, ListOf) or isinstance(left.value, lit.ListLiteral):
        return membership(right, left, origin, blame)
    pair = _texts(left, right, "contains", blame)
    return None if pair is None else Contains(text=pair[0], part=pair[1], origin=origin)


def _starts_with(left: Side, right: Side, origin: Span, blame: Blame) -> Predicate | None:
    pair = _texts(left, right, "starts_with", blame)
    return None if pair is None else StartsWith(text=pair[0], prefix=pair[1], origin=origin)


def _texts(left: Side, right: Side, word: str, blame: Blame) -> tuple[Expr, Expr] | None:
    for side in (left, right):
        is_null = isinstance(side.value, lit.NullLiteral)
        if not is_null and (side.type is None or isinstance(side.type, NodeRef | EdgeRef) or not is_text(side.type)):
            needs = "a String or a list on its left" if word == "contains" and side is left else "a String on each side"
            blame.mismatch(f"`{word}` needs {needs}: {left} does not go with {right}")
            return None
    first, second = (
        _constant(side.value, side.value, blame) if isinstance(side.value, LITERALS) else side.value
        for side in (left, right)
    )
    return None if first is None or second is None else (first, second)


# --- what a message says -------------------------------------------------------------------------


def _refuse(left: Side, right: Side, blame: Blame) -> Predicate | None:
    blame.mismatch(f"{left} can't be compared with {right}", _help(left, right.type) or _help(right, left.type))
    return None


def _help(side: Side, other: ExprType | None) -> str | None:
    if isinstance(side.value, LITERALS):
        return _literal_help(side.value, other)
    match side.type:
        case NodeRef() | EdgeRef():
            return f"compare its id: `{side.text}.@id`"
        case ListOf():
            return "ask for one element: `list contains value` or `value in list`"
        case VectorOf():
            return "vectors have a distance: order by `nearest(vector, query)`"
        case Scalar.BLOB:
            return "a Blob has no order and no equality: test it with `is null`"
        case Scalar.DATE if other is Scalar.DATETIME:
            return "a Date is a day and a DateTime an instant: they don't mix"
        case _:
            return None


def _literal_help(literal: lit.Literal, other: ExprType | None) -> str | None:
    match literal, other:
        case lit.StringLiteral(), Scalar.DATE:
            return f'write `date("{_short(literal.value)}")`'
        case lit.StringLiteral(), Scalar.DATETIME:
            return f'write `datetime("{_short(literal.value)}")`'
        case lit.StringLiteral(), Scalar() if other.is_numeric and _NUMBER.fullmatch(literal.value):
            return f"write `{literal.value}`, without quotes"
        case ((lit.IntLiteral() | lit.FloatLiteral() | lit.StringLiteral()), Scalar.BOOL):
            return "write `true` or `false`"
        case ((lit.IntLiteral() | lit.FloatLiteral()), (Scalar.STRING | EnumOf())):
            return f'write `"{literal.value}"`, with quotes'
        case (lit.DateLiteral(), Scalar.DATETIME) | (lit.DateTimeLiteral(), Scalar.DATE):
            return "a Date is a day and a DateTime an instant: they don't mix"
        case _:
            return None


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
