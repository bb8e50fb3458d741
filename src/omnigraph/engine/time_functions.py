"""Apply date and time functions to columns. A DateTime is an instant; its parts are those of UTC."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.arithmetic import read_clipped
from omnigraph.errors import QueryError
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.storage.arrow_buffers import is_valid

_PARTS: dict[ScalarFunction, Callable[[pa.Array], pa.Array]] = {
    ScalarFunction.YEAR: pc.year,
    ScalarFunction.MONTH: pc.month,
    ScalarFunction.WEEK: pc.iso_week,
    ScalarFunction.DAY: pc.day,
    # Monday is 1, as in ISO 8601.
    ScalarFunction.WEEKDAY: lambda moments: pc.day_of_week(moments, count_from_zero=False, week_start=1),
    ScalarFunction.HOUR: pc.hour,
    ScalarFunction.MINUTE: pc.minute,
    ScalarFunction.SECOND: pc.second,
}
PART_FUNCTIONS = frozenset(_PARTS)
_MICROSECONDS = {"weeks": 604_800_000_000, "days": 86_400_000_000, "hours": 3_600_000_000, "minutes": 60_000_000}
_MICROSECONDS["seconds"] = 1_000_000
_MONTHS = {"months": 1, "years": 12}
# Dates and instants of the years 1 to 9999, which are all that a value can be.
_FIRST_DAY = int(np.datetime64("0001-01-01", "D").astype(np.int64))
_LAST_DAY = int(np.datetime64("9999-12-31", "D").astype(np.int64))
_DAY = _MICROSECONDS["days"]
# Amounts beyond it leave the years 1 to 9999 from anywhere, and would overflow when multiplied.
_MAX_AMOUNT = 10**6 * 400_000


def get_part(function: ScalarFunction, moments: pa.Array) -> pa.Array:
    """Return the year, month or other part of each Date or DateTime."""
    return _PARTS[function](moments).cast(pa.int64())


def truncate(moments: pa.Array, unit: str) -> pa.Array:
    """Return the first instant of the year, month, week or other unit that each moment is in; weeks start on Monday."""
    return pc.floor_temporal(moments, unit=unit, week_starts_monday=True).cast(moments.type)


def to_local_date(instants: pa.Array, zone: str | None) -> pa.Array:
    """Return the date that each instant has in a time zone; UTC without one.

    Raises:
        QueryError: There is no such zone (`bad_zone`).
    """
    if zone is None:
        return _floor_to_date(instants)
    try:
        return _floor_to_date(pc.local_timestamp(instants.cast(pa.timestamp("us", tz=zone))))
    except pa.ArrowInvalid as error:
        raise QueryError.bad_zone(zone) from error


def count_days(start: pa.Array, end: pa.Array) -> pa.Array:
    """Return the number of days from one Date to another, or of whole days between two instants."""
    if pa.types.is_date(start.type):
        return pc.subtract(end.cast(pa.int32()).cast(pa.int64()), start.cast(pa.int32()).cast(pa.int64()))
    return pc.divide(pc.subtract(end.cast(pa.int64()), start.cast(pa.int64())), pa.scalar(_DAY, pa.int64()))


def count_seconds(start: pa.Array, end: pa.Array) -> pa.Array:
    """Return the number of seconds from one instant to another."""
    difference = pc.subtract(end.cast(pa.int64()), start.cast(pa.int64()))
    return pc.divide(difference.cast(pa.float64(), safe=False), pa.scalar(1e6))


def shift(moments: pa.Array, unit: str, amounts: pa.Array) -> pa.Array:
    """Return each moment moved by a number of units; null outside of the years 1 to 9999.

    Months and years keep the day of the month, or take the last one of a shorter month.
    """
    valid = is_valid(moments) & is_valid(amounts)
    steps = read_clipped(amounts)
    valid &= (steps >= -_MAX_AMOUNT) & (steps <= _MAX_AMOUNT)
    steps = np.where(valid, steps, 0)
    is_date = pa.types.is_date(moments.type)
    numbers = moments.cast(pa.int32() if is_date else pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    numbers = numbers.astype(np.int64)
    days, rest = (numbers, np.zeros_like(numbers)) if is_date else np.divmod(numbers, _DAY)
    if unit in _MONTHS:
        # Beyond this the year is out of range from anywhere.
        valid &= np.abs(steps) <= 12 * 20_000
        days = _add_months(days, np.where(valid, steps * _MONTHS[unit], 0))
    elif is_date:
        days = days + np.clip(steps, -(10**9), 10**9) * (_MICROSECONDS[unit] // _DAY)
    else:
        # Divided first, so that no product leaves 64 bits.
        per_day = _DAY // _MICROSECONDS[unit] if _MICROSECONDS[unit] <= _DAY else 1
        whole_days, units = np.divmod(steps, per_day)
        days_per_unit = max(1, _MICROSECONDS[unit] // _DAY)
        carried, rest = np.divmod(rest + units * min(_MICROSECONDS[unit], _DAY), _DAY)
        days = days + whole_days * days_per_unit + carried
    valid &= (days >= _FIRST_DAY) & (days <= _LAST_DAY)
    result = np.where(valid, days if is_date else days * _DAY + rest, 0)
    integers = pa.array(result.astype(np.int32 if is_date else np.int64), mask=~valid)
    return integers.cast(moments.type)


def _add_months(days: NDArray[np.int64], months: NDArray[np.int64]) -> NDArray[np.int64]:
    dates = days.astype("datetime64[D]")
    first = dates.astype("datetime64[M]")
    day = (dates - first.astype("datetime64[D]")).astype(np.int64)
    moved = first + months
    lengths = ((moved + 1).astype("datetime64[D]") - moved.astype("datetime64[D]")).astype(np.int64)
    shifted: NDArray[np.int64] = moved.astype("datetime64[D]").astype(np.int64) + np.minimum(day, lengths - 1)
    return shifted


def _floor_to_date(instants: pa.Array) -> pa.Array:
    valid = is_valid(instants)
    days = np.floor_divide(instants.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), _DAY)
    # In a time zone, an instant at the end of the calendar may be outside of it.
    valid &= (days >= _FIRST_DAY) & (days <= _LAST_DAY)
    return pa.array(days.astype(np.int32), mask=~valid).cast(pa.date32())
