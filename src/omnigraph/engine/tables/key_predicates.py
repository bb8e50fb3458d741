"""Rows that a predicate names: by id, or by the whole key, from which ids are made."""

from itertools import product
from math import prod

from omnigraph.engine.predicate_eval import QueryInputs, get_column_name
from omnigraph.query.expr import Compare, Const, Expr, Identity, In, Op, ParamRef, Prop
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Value
from omnigraph.schema.types import ListOf, Scalar, ValueType, is_text
from omnigraph.schema.values import derive_id, format_key

_MAX_IDS = 4_096
"""Of more ids than this by one key, a predicate is not turned round."""


def find_named_ids(type_: AnyType, terms: tuple[Expr, ...], inputs: QueryInputs) -> list[str] | None:
    """The ids of the only rows that can pass all terms, when one says so by id, or some by the whole key; else None."""
    if not has_key_predicate(type_, terms):
        return None
    given: dict[str, tuple[Value, ...]] = {}
    for term in terms:
        named = _find_fixed_values(type_, term, inputs)
        if named is None:
            continue
        column, values = named
        if column == ID:
            return list(dict.fromkeys(str(value) for value in values if value is not None))
        if column in type_.key:
            given.setdefault(column, values)
    if not type_.key or len(given) < len(type_.key):
        return None
    if prod(len(given[name]) for name in type_.key) > _MAX_IDS:
        return None
    texts = [
        [format_key(_get_type(type_, name), value) for value in given[name] if value is not None] for name in type_.key
    ]
    return list(dict.fromkeys(derive_id(parts) for parts in product(*texts)))


def has_key_predicate(type_: AnyType, terms: tuple[Expr, ...]) -> bool:
    """Whether terms speak of the id or the whole key; looks at no value."""
    fixed = {get_column_name(column) for term in terms if (column := _find_fixed_column(term)) is not None}
    return ID in fixed or (bool(type_.key) and fixed.issuperset(type_.key))


def _find_fixed_column(term: Expr) -> Prop | Identity | None:
    """The column that a term sets equal to something that is known before a row is read."""
    match term:
        case Compare(op=Op.EQ, left=Prop() | Identity() as column, right=Const() | ParamRef()):
            return column
        case Compare(op=Op.EQ, left=Const() | ParamRef(), right=Prop() | Identity() as column):
            return column
        case In(element=Prop() | Identity() as column, collection=Const() | ParamRef()):
            return column
        case _:
            return None


def _find_fixed_values(type_: AnyType, term: Expr, inputs: QueryInputs) -> tuple[str, tuple[Value, ...]] | None:
    column = _find_fixed_column(term)
    if column is None:
        return None
    name = get_column_name(column)
    match term:
        case Compare(left=Const() | ParamRef() as value) | Compare(right=Const() | ParamRef() as value):
            values: tuple[Value, ...] = (inputs.resolve(value),)
            kind: ValueType = value.type
        case In(collection=Const() | ParamRef() as value):
            items = inputs.resolve(value)
            values = tuple(items) if isinstance(items, tuple | list) else ()
            kind = value.type.element if isinstance(value.type, ListOf) else value.type
        case _:
            return None
    if not _is_same_text(_get_type(type_, name), kind):
        return None
    return name, values


def _get_type(type_: AnyType, column: str) -> ValueType:
    found = type_.find_property(column)
    return Scalar.STRING if found is None else found.type


def _is_same_text(column: ValueType, given: ValueType) -> bool:
    """Whether equal values of both types have equal texts in an id."""
    if is_text(column):
        return is_text(given)
    if isinstance(column, Scalar) and isinstance(given, Scalar) and column.is_integer:
        return given.is_integer
    return column == given and column not in (Scalar.F32, Scalar.F64)
