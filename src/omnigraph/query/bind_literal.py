"""Bind literals to typed constants: in their own type, or in the type they are compared with."""

from typing import assert_never

from omnigraph.lang import literals as lit
from omnigraph.query.expr import Const
from omnigraph.query.numeric_narrowing import find_exact
from omnigraph.schema.types import ListOf, Scalar, ValueType, are_comparable, is_numeric
from omnigraph.schema.values import InvalidValue, from_literal

# Literals may be long; a message quotes the first characters.
_MAX_TEXT_LENGTH = 60


def clip_text(text: str) -> str:
    """Return a text for a message, clipped if it is long."""
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 1]}…"


def infer_literal_type(literal: lit.Literal) -> ValueType | None:
    """Return the type of a literal; None for null, and for a list that is empty or mixes types."""
    match literal:
        case lit.StringLiteral():
            return Scalar.STRING
        case lit.IntLiteral():
            # Beyond U64 too: `from_literal` then reports that the number is out of range.
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
    """Return the constant of a literal in its own type; null is a String, the empty list a list of Strings."""
    if isinstance(literal, lit.NullLiteral):
        return Const(value=None, type=Scalar.STRING, origin=literal.span)
    type_ = infer_literal_type(literal)
    if type_ is None:
        if isinstance(literal, lit.ListLiteral) and not literal.items:
            return Const(value=(), type=ListOf(Scalar.STRING), origin=literal.span)
        return InvalidValue("the items of a list must have one type, and none may be null or a list")
    value = from_literal(type_, literal)
    return value if isinstance(value, InvalidValue) else Const(value=value, type=type_, origin=literal.span)


def coerce_literal(type_: ValueType, literal: lit.Literal) -> Const | InvalidValue | None:
    """Return the constant of a literal that is compared with a value of `type_`; None if they can't be compared.

    A number keeps its own type if `type_` has no equal value. The result is an `InvalidValue` for a text that is none
    of an enum's values, an impossible date, or a number beyond 64 bits.
    """
    if isinstance(literal, lit.NullLiteral):
        return Const(value=None, type=type_, origin=literal.span)
    literal_type = infer_literal_type(literal)
    if literal_type is None or not are_comparable(literal_type, type_):
        return None
    if isinstance(literal, lit.IntLiteral | lit.FloatLiteral) and isinstance(type_, Scalar):
        exact = find_exact(literal.value, type_)
        if exact is not None:
            return Const(value=exact, type=type_, origin=literal.span)
        return bind_literal(literal)
    value = from_literal(type_, literal)
    return value if isinstance(value, InvalidValue) else Const(value=value, type=type_, origin=literal.span)


def _infer_list_type(literal: lit.ListLiteral) -> ValueType | None:
    types = {infer_literal_type(item) for item in literal.items}
    if len(types) == 1:
        (only,) = types
        return ListOf(only) if isinstance(only, Scalar) else None
    item_types = {type_ for type_ in types if type_ is not None}
    if len(item_types) < len(types) or not item_types or not all(is_numeric(type_) for type_ in item_types):
        return None
    # Numbers may mix: all are floats if one is; else the types are I64 and U64.
    return ListOf(Scalar.F64) if Scalar.F64 in item_types else ListOf(Scalar.U64)
