"""Find the ids that a predicate selects directly: by id, or by the whole key, which ids are derived from."""

from itertools import product
from math import prod

from omnigraph.engine.predicate_eval import get_column_name
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.query.expr import Compare, Const, Expr, Identity, In, Op, ParamRef, Prop
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Value
from omnigraph.schema.types import ListOf, Scalar, ValueType, is_text
from omnigraph.schema.values import derive_id, format_key

# With more combinations of key values than this, the predicate is evaluated like any other.
_MAX_IDS = 4_096


def find_named_ids(type_: AnyType, terms: tuple[Expr, ...], inputs: QueryInputs) -> list[str] | None:
    """Return the ids of the only rows that can satisfy all terms; None if the terms fix neither id nor key.

    The rows still have to be compared with all terms.
    """
    # Reads no parameter: most predicates are rejected here.
    if not has_key_predicate(type_, terms):
        return None
    values_by_column: dict[str, tuple[Value, ...]] = {}
    for term in terms:
        fixed = _find_fixed_values(type_, term, inputs)
        if fixed is None:
            continue
        column, values = fixed
        if column == ID:
            # Null equals no id.
            return list(dict.fromkeys(str(value) for value in values if value is not None))
        if column in type_.key:
            values_by_column.setdefault(column, values)
    if not type_.key or len(values_by_column) < len(type_.key):
        return None
    if prod(len(values_by_column[name]) for name in type_.key) > _MAX_IDS:
        return None
    key_texts = []
    for name in type_.key:
        key_type = _get_type(type_, name)
        key_texts.append([format_key(key_type, value) for value in values_by_column[name] if value is not None])
    # An `in` list may contain a value twice.
    return list(dict.fromkeys(derive_id(parts) for parts in product(*key_texts)))


def has_key_predicate(type_: AnyType, terms: tuple[Expr, ...]) -> bool:
    """Return whether terms fix the id or the whole key, without reading any value."""
    fixed = {get_column_name(column) for term in terms if (column := _find_fixed_column(term)) is not None}
    return ID in fixed or (bool(type_.key) and fixed.issuperset(type_.key))


def _find_fixed_column(term: Expr) -> Prop | Identity | None:
    """Return the column that a term sets equal to a constant or a parameter, if any."""
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
    declared = type_.find_property(column)
    return Scalar.STRING if declared is None else declared.type


def _is_same_text(column: ValueType, other: ValueType) -> bool:
    """Return whether equal values of both types have the same text in an id."""
    if is_text(column):
        return is_text(other)
    if isinstance(column, Scalar) and isinstance(other, Scalar) and column.is_integer:
        return other.is_integer
    # A float can't be part of a key, see `format_key`.
    return column == other and column not in (Scalar.F32, Scalar.F64)
