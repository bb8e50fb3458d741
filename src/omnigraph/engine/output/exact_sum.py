"""Exact sums by group, rounded once at the end, so that they don't depend on the order of the rows.

A sum is the same whatever plan produced the rows, and whether equal rows were listed or counted. Every number is a
whole multiple of a power of two. It is split into digits of 32 bits, and the digits of a group are added in 64 bits.
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
# This number of 32-bit digits can be added in 64 bits without propagating carries in between.
_MAX_SAFE_MULTIPLICITY = 2.0**30
# Larger multiplicities are applied in parts of this many bits.
_MULTIPLICITY_BITS = 14
# Rows per step: few enough to be worked on in the processor's cache.
_CHUNK_ROWS = 1 << 15
# The sum of this number of 32-bit digits still has at most 53 bits, so floating point adds it exactly.
_MAX_EXACT_ROWS = 1 << 21
_MAX_EXACT_FLOAT = 2**53
# A remainder below this and the next digit fit into 63 bits; groups with more rows are divided individually.
_MAX_DIVISOR = 2**31 - 1
# Digits added below a sum before a division: the quotient then has more than the 64 bits that decide its rounding.
_EXTRA_DIGITS = 3
_SMALLEST_NORMAL = 2.0**-1022


def _add_by_group(groups: Ints, count: int, values: Ints) -> Ints:
    """Return the sum of the values of each group in 64 bits; the caller ensures that it fits."""
    if count == 1:
        return np.array([values.sum(dtype=np.int64)], np.int64)
    if len(values) <= _MAX_EXACT_ROWS and not np.any((values > _MASK) | (values < -_MASK)):
        # `bincount` adds in floating point, which is exact here and several times as fast as `add.at`.
        return np.bincount(groups, values, count).astype(np.int64)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, values)
    return sums


@dataclass(frozen=True, slots=True)
class ExactSums:
    """A sum per group: digits, lowest first, times 2^`exponent`. All digits except the highest are non-negative."""

    digits: Ints
    exponent: int

    def to_ints(self) -> list[int]:
        """Return the sums of whole numbers as Python integers."""
        total = [0] * self.digits.shape[1]
        for index, digits in enumerate(self.digits.tolist()):
            total = [sum_ + (digit << (index * _DIGIT_BITS)) for sum_, digit in zip(total, digits, strict=True)]
        return total

    def to_int64(self) -> Ints | None:
        """Return the sums of whole numbers in 64 bits, or None if one of them does not fit."""
        highest = self.digits[-1]
        if self.digits.shape[0] > 2 or np.any((highest < -(2**31)) | (highest >= 2**31)):
            return None
        sums: Ints = (highest << _DIGIT_BITS) + self.digits[0]
        return sums

    def wrap_int64(self) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the sums of whole numbers in 64 bits, and which of them are too large: their bits are cut off."""
        highest = self.digits[-1]
        if self.digits.shape[0] <= 2:
            too_large = (highest < -(2**31)) | (highest >= 2**31)
            return (highest << _DIGIT_BITS) + self.digits[0], too_large
        # What fits has no digits above the second but copies of its sign.
        sign = np.where(self.digits[1] >= 2**31, -1, 0)
        too_large = highest != sign
        for digit in self.digits[2:-1]:
            too_large |= digit != (sign & _MASK)
        return (self.digits[1] << _DIGIT_BITS) + self.digits[0], too_large

    def to_float64(self) -> Floats:
        """Return the sums, rounded once to the nearest float; infinite if too large."""
        negative = self.digits[-1] < 0
        digits = _propagate_carries(np.where(negative, -self.digits, self.digits))
        top = _find_top_digit(digits)
        columns = np.arange(digits.shape[1])

        def get_digit(below: int) -> NDArray[np.uint64]:
            index = top - below
            values = np.where(index >= 0, digits[np.maximum(index, 0), columns], 0)
            return values.astype(np.uint64)

        first, second, third = get_digit(0), get_digit(1), get_digit(2)
        # Moves the highest set bit to the top of 64 bits: `frexp` returns the number of bits of the first digit.
        shift = (_DIGIT_BITS - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
        high = ((first << np.uint64(_DIGIT_BITS)) | second) << shift
        spilled = third << shift
        leading = high | (spilled >> np.uint64(_DIGIT_BITS))
        nonzero_below = np.cumsum(digits != 0, axis=0)
        is_sticky = (spilled & np.uint64(_MASK)) != 0
        is_sticky |= np.where(top >= 3, nonzero_below[np.maximum(top - 3, 0), columns] > 0, False)
        # 64 leading bits, the last one set if anything follows (a sticky bit): rounding this to 53 bits is correct.
        rounded = (leading | is_sticky.astype(np.uint64)).astype(np.float64)
        exponent = self.exponent + _DIGIT_BITS * (top - 1) - shift.astype(np.int64)
        with np.errstate(over="ignore"):
            scaled = np.ldexp(rounded, exponent)
        # Adding 0.0 turns -0.0 into 0.0.
        result: Floats = np.where(negative, -scaled, scaled) + 0.0
        return result

    def average(self, counts: Ints) -> Floats:
        """Return the exact sum of each group divided by its count, at least one, rounded once to the nearest."""
        ints = self.to_int64() if self.exponent == 0 else None
        if ints is not None and max(_find_largest(ints), _find_largest(counts)) <= _MAX_EXACT_FLOAT:
            # Both are exact in floating point, so the division rounds once.
            return np.asarray(ints / counts, np.float64)
        negative = self.digits[-1] < 0
        magnitudes = _propagate_carries(np.where(negative, -self.digits, self.digits))
        averages = _divide(magnitudes, np.minimum(counts, _MAX_DIVISOR), self.exponent).to_float64()
        # Below the smallest normal number, to_float64 rounds to 53 bits and then once more to fewer.
        is_hard = (counts > _MAX_DIVISOR) | (magnitudes.any(axis=0) & (averages < _SMALLEST_NORMAL))
        for group in np.flatnonzero(is_hard).tolist():
            averages[group] = self._divide_in_python(magnitudes[:, group].tolist(), int(counts[group]))
        result: Floats = np.where(negative, -averages, averages) + 0.0
        return result

    def _divide_in_python(self, digits: list[int], count: int) -> float:
        """Divide one sum, given by its digits, as Python integers, whose division rounds once."""
        total = sum(digit << (index * _DIGIT_BITS) for index, digit in enumerate(digits))
        return (total << max(self.exponent, 0)) / (count << max(-self.exponent, 0))


def _divide(digits: Ints, counts: Ints, exponent: int) -> ExactSums:
    """Divide non-negative sums by counts of up to 31 bits: long division of all groups together.

    A remainder sets the last bit of the quotient: `to_float64` only needs to know whether anything follows.
    """
    quotient = np.zeros((digits.shape[0] + _EXTRA_DIGITS, digits.shape[1]), np.int64)
    remainder = np.zeros(digits.shape[1], np.int64)
    for index in reversed(range(len(quotient))):
        remainder <<= _DIGIT_BITS
        if index >= _EXTRA_DIGITS:
            remainder |= digits[index - _EXTRA_DIGITS]
        quotient[index], remainder = np.divmod(remainder, counts)
    quotient[0] |= remainder != 0
    return ExactSums(quotient, exponent - _EXTRA_DIGITS * _DIGIT_BITS)


def sum_whole(groups: Ints, count: int, values: Ints | NDArray[np.uint64], multiplicity: Ints | None) -> ExactSums:
    """Sum whole numbers by group; a row counts `multiplicity` times."""
    small = _sum_small(groups, count, values, multiplicity)
    if small is not None:
        return ExactSums(np.stack((small & _MASK, small >> _DIGIT_BITS)), 0)
    dtype = values.dtype.type

    def split(rows: slice) -> tuple[list[Ints], None]:
        part = values[rows]
        return [(part & dtype(_MASK)).astype(np.int64), (part >> dtype(_DIGIT_BITS)).astype(np.int64)], None

    return _sum_digits(groups, count, split, 0, 0, multiplicity)


def _find_largest(values: Ints | NDArray[np.uint64]) -> int:
    """Return the largest absolute value, or 0 if there is none."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


def _sum_small(groups: Ints, count: int, values: Ints | NDArray[np.uint64], multiplicity: Ints | None) -> Ints | None:
    """Sum by group in floating point, or return None if a sum may exceed the 53 bits that floats add exactly."""
    largest = _find_largest(values)
    matches = len(groups) if multiplicity is None else float(multiplicity.sum(dtype=np.float64))
    if largest * matches >= _MAX_EXACT_FLOAT:
        return None
    products = values.astype(np.int64, copy=False)
    products = products if multiplicity is None else products * multiplicity
    if count == 1:
        return np.array([products.sum(dtype=np.int64)], np.int64)
    return np.bincount(groups, products, count).astype(np.int64)


def sum_floats(
    groups: Ints, count: int, values: Floats, multiplicity: Ints | None, budget: Budget | None = None
) -> ExactSums:
    """Sum finite floats by group; a row counts `multiplicity` times."""
    lowest, highest = _find_digit_range(values)

    def split(rows: slice) -> tuple[list[Ints], Ints]:
        return _split_floats(values[rows], lowest)

    # Numbers of very different magnitudes need many digits: a billionth and a billion three, at worst sixty-seven.
    nbytes = (highest + 4) * count * 3 * 8
    if budget is not None:
        budget.claim(nbytes, f"sums of {count:,} groups")
    sums = _sum_digits(groups, count, split, highest, lowest, multiplicity)
    if budget is not None:
        budget.release(nbytes)
    return sums


def sum_scaled(groups: Ints, count: int, values: Ints, exponents: Ints) -> ExactSums:
    """Sum `value * 2^exponent` by group; the values have at most 62 bits."""
    lowest = int(exponents.min(initial=0))
    shift = exponents - lowest
    places = shift // _DIGIT_BITS
    highest = int(places.max(initial=0))

    def split(rows: slice) -> tuple[list[Ints], Ints]:
        return _split_shifted(values[rows], shift[rows] & np.int64(_DIGIT_BITS - 1)), places[rows]

    return _sum_digits(groups, count, split, highest, lowest, None)


def accumulate_whole(values: Ints | NDArray[np.uint64], starts: Ints) -> ExactSums:
    """Return for each row the exact sum of the whole numbers from its start up to it.

    `starts` is the number of the first row that counts for each row; it never decreases.
    """
    dtype = values.dtype.type
    digits = np.stack(((values & dtype(_MASK)).astype(np.int64), (values >> dtype(_DIGIT_BITS)).astype(np.int64)))
    return ExactSums(_propagate_carries(_accumulate(digits, starts)), 0)


def accumulate_floats(values: Floats, starts: Ints, budget: Budget) -> ExactSums:
    """Return for each row the exact sum of the finite floats from its start up to it; see `accumulate_whole`."""
    lowest, highest = _find_digit_range(values)
    # The digits of every row, their sums, and those without the rows before the start.
    nbytes = (highest + 3) * len(values) * 3 * 8
    budget.claim(nbytes, f"running sums of {len(values):,} rows")
    parts, places = _split_floats(values, lowest)
    digits = np.zeros((highest + 3, len(values)), np.int64)
    columns = np.arange(len(values))
    for index, part in enumerate(parts):
        digits[places + index, columns] += part
    sums = ExactSums(_propagate_carries(_accumulate(digits, starts)), lowest)
    budget.release(nbytes)
    return sums


def _accumulate(digits: Ints, starts: Ints) -> Ints:
    # Digits of 32 bits: up to 2^31 rows of them add up in 64.
    sums = np.cumsum(digits, axis=1)
    before = np.concatenate((np.zeros((digits.shape[0], 1), np.int64), sums), axis=1)
    return np.asarray(sums - before[:, starts], np.int64)


def _find_digit_range(values: Floats) -> tuple[int, int]:
    """Return the exponent of the lowest digit that floats have, and the largest place of a float's lowest digit."""
    exponents = np.frexp(values)[1][values != 0]
    first, last = (int(exponents.min()), int(exponents.max())) if len(exponents) else (0, 0)
    return first - _MANTISSA_BITS, (last - first) // _DIGIT_BITS


def _split_floats(values: Floats, lowest: int) -> tuple[list[Ints], Ints]:
    """Return three digits of each float, and the place of the lowest of them."""
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64)
    shift = np.where(mantissa == 0, 0, exponent.astype(np.int64) - _MANTISSA_BITS - lowest)
    return _split_shifted(mantissa, shift & np.int64(_DIGIT_BITS - 1)), shift // _DIGIT_BITS


def _split_shifted(values: Ints, offset: Ints) -> list[Ints]:
    """Return the three digits of whole numbers of at most 62 bits that are shifted by less than a digit."""
    # 62 bits shifted by up to 31 are at most 93: three digits. Floats, of 53 bits, need no more than 84.
    magnitude, sign = np.abs(values), np.sign(values)
    low = (magnitude & _MASK) << offset
    middle = ((magnitude >> _DIGIT_BITS) << offset) + (low >> _DIGIT_BITS)
    return [(low & _MASK) * sign, (middle & _MASK) * sign, (middle >> _DIGIT_BITS) * sign]


def _sum_digits(
    groups: Ints,
    count: int,
    split: Callable[[slice], tuple[list[Ints], Ints | None]],
    highest: int,
    exponent: int,
    multiplicity: Ints | None,
) -> ExactSums:
    """Add the digits that `split` returns for some rows; each row has its own lowest digit, at most `highest`."""
    total = np.zeros((1, count), np.int64)
    bins = (highest + 1) * count
    for rows, factors, shift, is_full in _iter_chunks(len(groups), bins, multiplicity):
        digits, lowest = split(rows)
        # One bin per group and lowest digit, so that rows of any magnitude are added in one call.
        row_bins = groups[rows] if lowest is None else lowest * count + groups[rows]
        for index, digit in enumerate(digits):
            added = _add_by_group(row_bins, bins, digit if factors is None else digit * factors)
            total = _add_shifted(total, added.reshape(highest + 1, count), index, shift)
        if is_full:
            total = _propagate_carries(total)
    return ExactSums(_propagate_carries(total), exponent)


def _iter_chunks(size: int, bins: int, multiplicity: Ints | None) -> Iterator[tuple[slice, Ints | None, int, bool]]:
    """Yield chunks of rows, their factors, the power of two of these, and whether carries are due afterwards.

    A large multiplicity is split into factors of a few bits, so that no digit times its factor, nor a sum of such
    products, overflows.
    """
    matches = size if multiplicity is None else float(multiplicity.sum(dtype=np.float64))
    is_safe = matches < _MAX_SAFE_MULTIPLICITY
    # Each chunk adds arrays of `bins` entries to the total, so chunks are at least as long.
    length = max(_CHUNK_ROWS, bins) if is_safe or multiplicity is None else _CHUNK_ROWS
    for start in range(0, size, length):
        rows = slice(start, start + length)
        if is_safe or multiplicity is None:
            yield rows, None if multiplicity is None else multiplicity[rows], 0, not is_safe
            continue
        rest, shift = multiplicity[rows], 0
        while rest.any():
            yield rows, rest & np.int64(2**_MULTIPLICITY_BITS - 1), shift, True
            rest, shift = rest >> np.int64(_MULTIPLICITY_BITS), shift + _MULTIPLICITY_BITS


def _add_shifted(total: Ints, added: Ints, index: int, shift: int) -> Ints:
    """Return `total` plus `added` times 2^shift, from the digit `index` on, with more digits if needed."""
    if shift:
        added = _propagate_carries(added)
        index, bits = index + shift // _DIGIT_BITS, np.int64(shift % _DIGIT_BITS)
        # After carrying, all digits except the highest have 32 bits: split in two, each fits into 64 when shifted.
        low, high = (added & _MASK) << bits, (added >> _DIGIT_BITS) << bits
        total = _add_shifted(total, low & _MASK, index, 0)
        total = _add_shifted(total, (low >> _DIGIT_BITS) + high, index + 1, 0)
        return _propagate_carries(total)
    missing = index + added.shape[0] - total.shape[0]
    if missing > 0:
        total = np.concatenate((total, np.zeros((missing, total.shape[1]), np.int64)))
    total[index : index + added.shape[0]] += added
    return total


def _propagate_carries(digits: Ints) -> Ints:
    """Return the same numbers with every digit from 0 to 2^32 - 1, except the highest, which keeps the sign."""
    result = np.concatenate((digits, np.zeros((1, digits.shape[1]), np.int64)))
    for index in range(result.shape[0] - 1):
        result[index + 1] += result[index] >> _DIGIT_BITS
        result[index] &= _MASK
    while result.shape[0] > 2:
        sign_only = (result[-1] == 0) | (result[-1] == -1)
        if not np.all(sign_only):
            break
        # The highest digit has only the sign, which the one below can carry.
        result[-2] += result[-1] << _DIGIT_BITS
        result = result[:-1]
    return result


def _find_top_digit(digits: Ints) -> Ints:
    """Return the index of the highest digit that is not 0, or 0."""
    is_used = digits != 0
    return np.where(is_used.any(axis=0), digits.shape[0] - 1 - np.argmax(is_used[::-1], axis=0), 0).astype(np.int64)
