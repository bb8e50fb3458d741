"""Values of other libraries as Python's own: numpy's scalars, pandas' missing values, decimals, arrays.

No library is imported for it: values are recognised by their type's name, or by what they can do. A value is taken
where Python's own says exactly the same; for any other there is a `InvalidValue` that names the way out.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from omnigraph.schema.values import InvalidValue

NO_ZONE = 'a time needs its zone: give value.replace(tzinfo=UTC), or value.tz_localize("UTC") of pandas'

_MISSING = frozenset({("pandas", "NAType"), ("pandas", "NaTType")})
_PYTHON_TYPES = frozenset({str, int, float, bool, bytes, list, tuple, dict, datetime, date, type(None)})


def is_missing(value: object) -> bool:
    """Return whether a value says that there is none: None, or what pandas and numpy have for it. NaN is a number."""
    if value is None:
        return True
    kind = type(value)
    if (kind.__module__.partition(".")[0], kind.__name__) in _MISSING:
        return True
    return _is_numpy_scalar(value) and kind.__name__ == "datetime64" and value != value  # noqa: PLR0124 - NaT only


def to_python_value(value: object) -> object:
    """Return Python's own value of a scalar of another library, a Misfit if there is none, or any other as it is."""
    if type(value) in _PYTHON_TYPES:
        return value
    if is_missing(value):
        return None
    if isinstance(value, Decimal):
        return _from_decimal(value)
    return _from_numpy(value) if _is_numpy_scalar(value) else value


def to_items(value: object) -> object:
    """Return the items of an array as a list; anything else as it is."""
    to_list = getattr(value, "tolist", None)
    if not callable(to_list) or _is_numpy_scalar(value):
        return value
    if getattr(getattr(value, "dtype", None), "kind", None) == "M" and isinstance(items := _list_items(value), list):
        return items  # `tolist` makes numbers of times that are finer than a microsecond
    return to_list()


def _list_items(value: Any) -> object:  # noqa: ANN401 - another library's
    return list(value) if getattr(value, "ndim", 1) == 1 else value


def _is_numpy_scalar(value: object) -> bool:
    return any(one.__name__ == "generic" and one.__module__ == "numpy" for one in type(value).__mro__)


def _from_decimal(value: Decimal) -> object:
    if not value.is_finite():
        return InvalidValue(f"the Decimal {value} is no number; give a finite one, or null")
    if value.adjusted() > 40:
        return InvalidValue("the Decimal has more than 40 digits before its point; give float(…) if rounding is meant")
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    if Decimal(number) != value:
        return InvalidValue(f"the Decimal {value} can't be held exactly by a float; give float(…) if rounding is meant")
    return number


def _from_numpy(value: Any) -> object:  # noqa: ANN401 - another library's
    name = type(value).__name__
    if name == "datetime64":
        return _from_datetime64(value)
    if name == "longdouble":
        number = float(value)
        return number if number == value else InvalidValue("a longdouble is finer than any float; give float(…)")
    return value.item()


def _from_datetime64(value: Any) -> object:  # noqa: ANN401 - another library's
    unit = str(value.dtype)[len("datetime64[") : -1]
    if unit in ("Y", "M", "W"):
        return InvalidValue(f"a datetime64[{unit}] names no single day; give value.astype('datetime64[D]')")
    rounded = value if unit == "D" else value.astype("datetime64[us]")
    own = rounded.item()
    if not isinstance(own, date):
        return InvalidValue("the time lies outside the years 1 to 9999")
    if rounded != value:
        return InvalidValue(f"{value} is finer than a microsecond: keep at most 6 digits behind the point")
    return own
