"""Convert values of other libraries to plain Python: numpy scalars and arrays, pandas' missing values, decimals.

No library is imported for this: values are recognised by the name of their type, or by their methods. Conversions are
exact; a value without an exact Python equivalent is an `InvalidValue` that names the way out.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from omnigraph.schema.values import InvalidValue

NO_ZONE = 'a time needs its zone: give value.replace(tzinfo=UTC), or value.tz_localize("UTC") of pandas'

_MISSING = frozenset({("pandas", "NAType"), ("pandas", "NaTType")})
# Subclasses, such as numpy.float64 of float, are not plain: the exact type is compared.
_PYTHON_TYPES = frozenset({str, int, float, bool, bytes, list, tuple, dict, datetime, date, type(None)})


def is_missing(value: object) -> bool:
    """Return whether a value is None, or a missing value of pandas or numpy. NaN is a number, not missing."""
    if value is None:
        return True
    kind = type(value)
    if (kind.__module__.partition(".")[0], kind.__name__) in _MISSING:
        return True
    return _is_numpy_scalar(value) and kind.__name__ == "datetime64" and value != value  # noqa: PLR0124 - NaT only


def to_python_value(value: object) -> object:
    """Return the plain value of a scalar of another library, or an `InvalidValue`; any other value unchanged."""
    if type(value) in _PYTHON_TYPES:
        return value
    if is_missing(value):
        return None
    if isinstance(value, Decimal):
        return _from_decimal(value)
    return _from_numpy(value) if _is_numpy_scalar(value) else value


def to_items(value: object) -> object:
    """Return the items of an array as a list; any other value unchanged."""
    to_list = getattr(value, "tolist", None)
    if not callable(to_list) or _is_numpy_scalar(value):
        return value
    # `tolist` converts times finer than a microsecond to integers; iterating keeps them as datetime64.
    if getattr(getattr(value, "dtype", None), "kind", None) == "M" and isinstance(items := _list_items(value), list):
        return items
    return to_list()


def _list_items(value: Any) -> object:  # noqa: ANN401 - of another library
    return list(value) if getattr(value, "ndim", 1) == 1 else value


def _is_numpy_scalar(value: object) -> bool:
    return any(base.__name__ == "generic" and base.__module__ == "numpy" for base in type(value).__mro__)


def _from_decimal(value: Decimal) -> object:
    if not value.is_finite():
        return InvalidValue(f"the Decimal {value} is not a number; give a finite one, or null")
    # Numbers have at most 40 digits, as in the languages; `int` would write out all digits of a Decimal such as 1e400.
    if value.adjusted() > 40:
        return InvalidValue(
            "the Decimal has more than 40 digits before its decimal point; give float(…) if rounding is meant"
        )
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    if Decimal(number) != value:
        return InvalidValue(f"the Decimal {value} can't be held exactly by a float; give float(…) if rounding is meant")
    return number


def _from_numpy(value: Any) -> object:  # noqa: ANN401 - of another library
    name = type(value).__name__
    if name == "datetime64":
        return _from_datetime64(value)
    if name == "longdouble":
        number = float(value)
        return number if number == value else InvalidValue("a longdouble is more precise than a float; give float(…)")
    return value.item()


def _from_datetime64(value: Any) -> object:  # noqa: ANN401 - of another library
    unit = str(value.dtype)[len("datetime64[") : -1]
    if unit in ("Y", "M", "W"):
        return InvalidValue(f"a datetime64[{unit}] is not a single day; give value.astype('datetime64[D]')")
    rounded = value if unit == "D" else value.astype("datetime64[us]")
    # Outside of Python's years `item` gives an integer.
    converted = rounded.item()
    if not isinstance(converted, date):
        return InvalidValue("the time lies outside the years 1 to 9999")
    if rounded != value:
        return InvalidValue(f"{value} is finer than a microsecond: keep at most 6 digits after the decimal point")
    return converted
