"""Literals as typed constants: by themselves, or in the type of what they stand next to."""

from typing import assert_never

from omnigraph.lang import literals as lit
from omnigraph.query.expr import Const
from omnigraph.query.numeric_narrowing import find_exact
from omnigraph.schema.types import ListOf, Scalar, ValueType, are_comparable, is_numeric
from omnigraph.schema.values import InvalidValue, from_literal


def infer_literal_type(literal: lit.Literal) -> ValueType | None:
    """The type that a literal has by itself; None for null and for a list of nothing or of different things."""
    match literal:
        case lit.StringLiteral():
            return Scalar.STRING
        case lit.IntLiteral():
            return Scalar.I64 if literal.value < 2**63 else Scalar.U64
        case lit.FloatLiteral():
            return Scalar.F64
        case lit.BoolLiteral():
            return Scalar.BOOL
        case lit.DateLiteral():
            return Scalar.DATE
        case lit.DateTimeLiteral():
            return Scalar.DATETIME
        case lit.NullLiteral():
            return None
        case lit.ListLiteral():
            return _infer_list_type(literal)
        case _:
            assert_never(literal)


def bind_literal(literal: lit.Literal) -> Const | InvalidValue:
    """The constant of a literal that stands by itself; null and the empty list are taken for text."""
    if isinstance(literal, lit.NullLiteral):
        return Const(value=None, type=Scalar.STRING, origin=literal.span)
    type_ = infer_literal_type(literal)
    if type_ is None:
        if isinstance(literal, lit.ListLiteral) and not literal.items:
            return Const(value=(), type=ListOf(Scalar.STRING), origin=literal.span)
        return InvalidValue("the items of a list have one type, and none is null or a list")
    value = from_literal(type_, literal)
    return value if isinstance(value, InvalidValue) else Const(value=value, type=type_, origin=literal.span)


def coerce_literal(type_: ValueType, literal: lit.Literal) -> Const | InvalidValue | None:
    """The constant of a literal that is compared with a value of that type; None when they don't compare.

    A number keeps a type of its own when the other type has no equal value. A misfit is a text that is none of an
    enum's values, a day that no calendar has, or a number beyond 64 bits.
    """
    if isinstance(literal, lit.NullLiteral):
        return Const(value=None, type=type_, origin=literal.span)
    own = infer_literal_type(literal)
    if own is None or not are_comparable(own, type_):
        return None
    if isinstance(literal, lit.IntLiteral | lit.FloatLiteral) and isinstance(type_, Scalar):
        equal = find_exact(literal.value, type_)
        if equal is not None:
            return Const(value=equal, type=type_, origin=literal.span)
        return bind_literal(literal)
    value = from_literal(type_, literal)
    return value if isinstance(value, InvalidValue) else Const(value=value, type=type_, origin=literal.span)


def _infer_list_type(literal: lit.ListLiteral) -> ValueType | None:
    types = {infer_literal_type(item) for item in literal.items}
    if len(types) == 1:
        (only,) = types
        return ListOf(only) if isinstance(only, Scalar) else None
    known = {type_ for type_ in types if type_ is not None}
    if len(known) < len(types) or not known or not all(is_numeric(type_) for type_ in known):
        return None
    return ListOf(Scalar.F64) if Scalar.F64 in known else ListOf(Scalar.U64)
