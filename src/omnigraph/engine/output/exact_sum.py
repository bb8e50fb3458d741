"""Sums by group that don't depend on the order of the rows: computed exactly, rounded once at the end.

So a sum is the same whatever plan found the rows, and whether equal rows were listed or counted. Every number is a
whole multiple of a power of two. It is cut into digits of 32 bits, and the digits of a group are added up in 64 bits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.query_budget import Budget

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_DIGIT_BITS = 32
_MASK = np.int64(2**_DIGIT_BITS - 1)
_MANTISSA_BITS = 53
_MAX_SAFE_MULTIPLICITY = 2.0**30
"""So many digits of 32 bits can be added without a carry; a part of a row's weight has at most so many bits:"""
_MULTIPLICITY_BITS = 14
_CHUNK_ROWS = 1 << 15
_MAX_EXACT_ROWS = 1 << 21
_MAX_EXACT_FLOAT = 2**53
_MAX_DIVISOR = 2**31 - 1
"""A remainder below it and the next digit fit into 63 bits; groups with more rows are divided one by one."""
_EXTRA_DIGITS = 3
_SMALLEST_NORMAL = 2.0**-1022


def _add_by_group(groups: Ints, count: int, values: Ints) -> Ints:
    """The sum of the values of each group, in 64 bits; the caller knows that it fits."""
    if count == 1:
        return np.array([values.sum(dtype=np.int64)], np.int64)
    if len(values) <= _MAX_EXACT_ROWS and not np.any((values > _MASK) | (values < -_MASK)):
        # So few digits of 32 bits are added exactly in 53 bits too, and that is several times as fast.
        return np.bincount(groups, values, count).astype(np.int64)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, values)
    return sums


@dataclass(frozen=True, slots=True)
class ExactSums:
    """A sum for each group: digits, lowest first, times 2^`exponent`. All digits but the highest are not negative."""

    digits: Ints
    exponent: int

    def to_ints(self) -> list[int]:
        """The sums as Python's integers; of whole numbers."""
        total = [0] * self.digits.shape[1]
        for place, digits in enumerate(self.digits.tolist()):
            total = [sum_ + (digit << (place * _DIGIT_BITS)) for sum_, digit in zip(total, digits, strict=True)]
        return total

    def to_int64(self) -> Ints | None:
        """The sums in 64 bits, of whole numbers; None when one of them does not fit."""
        highest = self.digits[-1]
        if self.digits.shape[0] > 2 or np.any((highest < -(2**31)) | (highest >= 2**31)):
            return None
        found: Ints = (highest << _DIGIT_BITS) + self.digits[0]
        return found

    def to_float64(self) -> Floats:
        """Each sum, rounded once to the nearest; infinite when it is too large."""
        negative = self.digits[-1] < 0
        digits = _propagate_carries(np.where(negative, -self.digits, self.digits))
        top = _find_top_digit(digits)
        columns = np.arange(digits.shape[1])

        def digit(below: int) -> NDArray[np.uint64]:
            place = top - below
            found = np.where(place >= 0, digits[np.maximum(place, 0), columns], 0)
            return found.astype(np.uint64)

        first, second, third = digit(0), digit(1), digit(2)
        shift = (_DIGIT_BITS - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
        high = ((first << np.uint64(_DIGIT_BITS)) | second) << shift
        spilled = third << shift
        leading = high | (spilled >> np.uint64(_DIGIT_BITS))
        below = np.cumsum(digits != 0, axis=0)
        is_sticky = (spilled & np.uint64(_MASK)) != 0
        is_sticky |= np.where(top >= 3, below[np.maximum(top - 3, 0), columns] > 0, False)
        # 64 leading bits, the last one set when anything follows: the one rounding to 53 is then the right one.
        rounded = (leading | is_sticky.astype(np.uint64)).astype(np.float64)
        exponent = self.exponent + _DIGIT_BITS * (top - 1) - shift.astype(np.int64)
        with np.errstate(over="ignore"):
            scaled = np.ldexp(rounded, exponent)
        found: Floats = np.where(negative, -scaled, scaled) + 0.0
        return found

    def average(self, counts: Ints) -> Floats:
        """Return the exact sum of each group divided by its count, at least one, rounded once to the nearest."""
        ints = self.to_int64() if self.exponent == 0 else None
        if ints is not None and max(_find_largest(ints), _find_largest(counts)) <= _MAX_EXACT_FLOAT:
            return np.asarray(ints / counts, np.float64)  # both are exact in floating point, so this rounds once
        negative = self.digits[-1] < 0
        size = _propagate_carries(np.where(negative, -self.digits, self.digits))
        found = _divide(size, np.minimum(counts, _MAX_DIVISOR), self.exponent).to_float64()
        # Below the smallest normal number, to_float64 rounds to 53 bits and then once more to fewer.
        is_hard = (counts > _MAX_DIVISOR) | (size.any(axis=0) & (found < _SMALLEST_NORMAL))
        for group in np.flatnonzero(is_hard).tolist():
            found[group] = self._divide_in_python(size[:, group].tolist(), int(counts[group]))
        averages: Floats = np.where(negative, -found, found) + 0.0
        return averages

    def _divide_in_python(self, digits: list[int], count: int) -> float:
        """Divide one sum, given by its digits, in Python's integers, whose division rounds once."""
        total = sum(digit << (place * _DIGIT_BITS) for place, digit in enumerate(digits))
        return (total << max(self.exponent, 0)) / (count << max(-self.exponent, 0))


def _divide(digits: Ints, counts: Ints, exponent: int) -> ExactSums:
    """Divide sums that are not negative by counts of up to 31 bits: long division, all groups at once.

    Three digits are added below, so that the quotient has more than the 64 bits which decide about its rounding. What
    remains behind them sets the last bit: `to_float64` only asks whether anything follows.
    """
    quotient = np.zeros((digits.shape[0] + _EXTRA_DIGITS, digits.shape[1]), np.int64)
    rest = np.zeros(digits.shape[1], np.int64)
    for place in reversed(range(len(quotient))):
        rest <<= _DIGIT_BITS
        if place >= _EXTRA_DIGITS:
            rest |= digits[place - _EXTRA_DIGITS]
        quotient[place], rest = np.divmod(rest, counts)
    quotient[0] |= rest != 0
    return ExactSums(quotient, exponent - _EXTRA_DIGITS * _DIGIT_BITS)


def sum_whole(groups: Ints, count: int, values: Ints | NDArray[np.uint64], weight: Ints | None) -> ExactSums:
    """The sums of whole numbers; a row counts `weight` times."""
    small = _sum_small(groups, count, values, weight)
    if small is not None:
        return ExactSums(np.stack((small & _MASK, small >> _DIGIT_BITS)), 0)
    kind = values.dtype.type

    def cut(rows: slice) -> tuple[list[Ints], None]:
        own = values[rows]
        return [(own & kind(_MASK)).astype(np.int64), (own >> kind(_DIGIT_BITS)).astype(np.int64)], None

    return _sum_digits(groups, count, cut, 0, 0, weight)


def _find_largest(values: Ints | NDArray[np.uint64]) -> int:
    """Return the largest absolute value, 0 of none."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


def _sum_small(groups: Ints, count: int, values: Ints | NDArray[np.uint64], weight: Ints | None) -> Ints | None:
    """The sums, where all of them together fit into the 53 bits that floats add exactly; None where they may not."""
    largest = _find_largest(values)
    weights = len(groups) if weight is None else float(weight.sum(dtype=np.float64))
    if largest * weights >= _MAX_EXACT_FLOAT:
        return None
    own = values.astype(np.int64, copy=False)
    own = own if weight is None else own * weight
    if count == 1:
        return np.array([own.sum(dtype=np.int64)], np.int64)
    return np.bincount(groups, own, count).astype(np.int64)


def sum_floats(
    groups: Ints, count: int, values: Floats, weight: Ints | None, budget: Budget | None = None
) -> ExactSums:
    """The sums of finite floats; a row counts `weight` times."""
    exponents = np.frexp(values)[1][values != 0]
    first, last = (int(exponents.min()), int(exponents.max())) if len(exponents) else (0, 0)
    lowest, highest = first - _MANTISSA_BITS, (last - first) // _DIGIT_BITS

    def cut(rows: slice) -> tuple[list[Ints], Ints]:
        fraction, exponent = np.frexp(values[rows])
        mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64)
        shift = np.where(mantissa == 0, 0, exponent.astype(np.int64) - _MANTISSA_BITS - lowest)
        offset = shift & np.int64(_DIGIT_BITS - 1)
        size, sign = np.abs(mantissa), np.sign(mantissa)
        # 53 bits moved by up to 31 are at most 84: three digits.
        low = (size & _MASK) << offset
        middle = ((size >> _DIGIT_BITS) << offset) + (low >> _DIGIT_BITS)
        return [(low & _MASK) * sign, (middle & _MASK) * sign, (middle >> _DIGIT_BITS) * sign], shift // _DIGIT_BITS

    # Numbers of very different sizes need many digits: of a billionth and a billion three, at worst sixty-seven.
    needed = (highest + 4) * count * 3 * 8
    if budget is not None:
        budget.claim(needed, f"sums of {count:,} groups")
    sums = _sum_digits(groups, count, cut, highest, lowest, weight)
    if budget is not None:
        budget.release(needed)
    return sums


def _sum_digits(
    groups: Ints,
    count: int,
    cut: Callable[[slice], tuple[list[Ints], Ints | None]],
    highest: int,
    exponent: int,
    weight: Ints | None,
) -> ExactSums:
    """Add up the digits that `cut` gives of some rows, each row's from a place of its own up to `highest`."""
    total = np.zeros((1, count), np.int64)
    bins = (highest + 1) * count
    for rows, part, shift, is_full in _iter_chunks(len(groups), bins, weight):
        digits, place = cut(rows)
        own = groups[rows] if place is None else place * count + groups[rows]
        for number, digit in enumerate(digits):
            added = _add_by_group(own, bins, digit if part is None else digit * part)
            total = _add_shifted(total, added.reshape(highest + 1, count), number, shift)
        if is_full:
            total = _propagate_carries(total)
    return ExactSums(_propagate_carries(total), exponent)


def _iter_chunks(size: int, bins: int, weight: Ints | None) -> Iterator[tuple[slice, Ints | None, int, bool]]:
    """Portions of rows, their weights, by 2^what those count, and whether sums may be full behind them.

    A portion is small enough to be worked on near the processor. A large weight is cut into parts of a few bits, so
    that no digit times its weight, nor their sum, overflows.
    """
    is_safe = (size if weight is None else float(weight.sum(dtype=np.float64))) < _MAX_SAFE_MULTIPLICITY
    length = max(_CHUNK_ROWS, bins) if is_safe or weight is None else _CHUNK_ROWS
    for start in range(0, size, length):
        rows = slice(start, start + length)
        if is_safe or weight is None:
            yield rows, None if weight is None else weight[rows], 0, not is_safe
            continue
        rest, shift = weight[rows], 0
        while rest.any():
            yield rows, rest & np.int64(2**_MULTIPLICITY_BITS - 1), shift, True
            rest, shift = rest >> np.int64(_MULTIPLICITY_BITS), shift + _MULTIPLICITY_BITS


def _add_shifted(total: Ints, added: Ints, place: int, shift: int) -> Ints:
    """`total` plus `added` at a place, times 2^shift; a row more where that needs one."""
    if shift:
        added = _propagate_carries(added)
        place, rest = place + shift // _DIGIT_BITS, np.int64(shift % _DIGIT_BITS)
        # A carried digit has 32 bits, but the highest: moved by up to 31, each fits into 64 bits when cut in two.
        low, high = (added & _MASK) << rest, (added >> _DIGIT_BITS) << rest
        total = _add_shifted(total, low & _MASK, place, 0)
        total = _add_shifted(total, (low >> _DIGIT_BITS) + high, place + 1, 0)
        return _propagate_carries(total)
    missing = place + added.shape[0] - total.shape[0]
    if missing > 0:
        total = np.concatenate((total, np.zeros((missing, total.shape[1]), np.int64)))
    total[place : place + added.shape[0]] += added
    return total


def _propagate_carries(digits: Ints) -> Ints:
    """The same numbers with every digit but the highest from 0 to 2^32 - 1; the highest keeps the sign."""
    result = np.concatenate((digits, np.zeros((1, digits.shape[1]), np.int64)))
    for place in range(result.shape[0] - 1):
        result[place + 1] += result[place] >> _DIGIT_BITS
        result[place] &= _MASK
    while result.shape[0] > 2:
        sign_only = (result[-1] == 0) | (result[-1] == -1)
        if not np.all(sign_only):
            break
        # The highest digit says nothing but the sign: the one below can carry that itself.
        result[-2] += result[-1] << _DIGIT_BITS
        result = result[:-1]
    return result


def _find_top_digit(digits: Ints) -> Ints:
    """The place of the highest digit that is not 0, or 0."""
    is_used = digits != 0
    return np.where(is_used.any(axis=0), digits.shape[0] - 1 - np.argmax(is_used[::-1], axis=0), 0).astype(np.int64)
