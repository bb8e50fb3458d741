"""Check that a Python value is a value of a type, for the constants of typed expressions."""

from datetime import date, datetime
from typing import assert_never

from omnigraph.schema.catalog import Value
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType, VectorOf


def is_value_of(value: Value, type_: ValueType) -> bool:
    """Return whether a value belongs to a type."""
    # Null belongs to every type.
    if value is None or type_ is Scalar.BLOB:
        return True
    match type_:
        case EnumOf():
            return value in type_.values
        case ListOf():
            # The binder of our query language refuses nulls in lists; those of Cypher may hold some.
            return isinstance(value, tuple) and all(is_value_of(v, type_.element) for v in value)
        case VectorOf():
            return isinstance(value, tuple) and len(value) == type_.size and all(isinstance(v, float) for v in value)
        case Scalar():
            return _is_scalar_value(value, type_)
        case _:
            assert_never(type_)


def _is_scalar_value(value: Value, type_: Scalar) -> bool:
    if type_ in INTEGER_RANGES:
        low, high = INTEGER_RANGES[type_]
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    # In Python, a datetime is a date.
    if type_ is Scalar.DATE:
        return isinstance(value, date) and not isinstance(value, datetime)
    return isinstance(value, _PYTHON_TYPES[type_])


# The types that `_is_scalar_value` has not checked before.
_PYTHON_TYPES: dict[Scalar, type] = {
    Scalar.STRING: str,
    Scalar.BOOL: bool,
    Scalar.F32: float,
    Scalar.F64: float,
    Scalar.DATETIME: datetime,
}
