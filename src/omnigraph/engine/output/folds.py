"""Statistics and products by group: exact or stable, and the same for every order and every merging of equal rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.kernels import argsort_stable
from omnigraph.engine.output.exact_sum import sum_floats
from omnigraph.engine.query_budget import Budget

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64] | NDArray[np.uint64] | NDArray[np.float64]

# A product of magnitudes whose float lies this close to the limit of I64 is decided by exact integers.
_PRODUCT_SLACK = 1e-9
_MAX_I64 = 2.0**63
# From this sum on, the running counts of a percentile would not fit into 64 bits.
_MAX_COUNT = 2.0**62


@dataclass(frozen=True, slots=True)
class GroupedNumbers:
    """Numbers without nulls, the group of each, and how often each counts."""

    groups: Ints
    count: int
    values: Numbers
    multiplicity: Ints | None
    budget: Budget

    def count_values(self) -> Ints:
        """Return how many values each group has."""
        if self.multiplicity is None:
            return np.bincount(self.groups, minlength=self.count).astype(np.int64, copy=False)
        counts = np.zeros(self.count, np.int64)
        np.add.at(counts, self.groups, self.multiplicity)
        return counts

    @property
    def is_countable(self) -> bool:
        """Whether all values together can be counted in 64 bits."""
        return self.multiplicity is None or float(self.multiplicity.sum(dtype=np.float64)) < _MAX_COUNT


def compute_variances(numbers: GroupedNumbers, counts: Ints, *, is_root: bool) -> Floats:
    """Return the sample variance of each group, or its root; NaN for fewer than two values, infinite if too large.

    Distances from the mean are squared and summed exactly, so no digits cancel, whatever the size of the values. They
    are scaled by powers of two on the way, so that no square overflows.
    """
    groups, size, times = numbers.groups, numbers.count, numbers.multiplicity
    values, exponents = _scale_by_group(_shift_to_origin(numbers), groups, size)
    divisors = np.maximum(counts, 1)
    means = sum_floats(groups, size, values, times, numbers.budget).average(divisors)
    distances, inner_exponents = _scale_by_group(values - means[groups], groups, size)
    total = sum_floats(groups, size, distances * distances, times, numbers.budget).to_float64()
    # The mean is rounded: the sum of the distances tells by how much.
    rest = sum_floats(groups, size, distances, times, numbers.budget).to_float64()
    variances = np.maximum(total - rest * rest / divisors, 0.0) / np.maximum(counts - 1, 1)
    scale = exponents + inner_exponents
    with np.errstate(over="ignore", under="ignore"):
        result = np.ldexp(np.sqrt(variances), scale) if is_root else np.ldexp(variances, 2 * scale)
    return np.where(counts > 1, result, np.nan)


def _scale_by_group(values: Floats, groups: Ints, count: int) -> tuple[Floats, Ints]:
    """Return the values divided by a power of two, so that all are below 1, and its exponent for each group."""
    exponents = np.zeros(count, np.int64)
    is_used = values != 0
    # Filled first, because the exponents of small values are negative.
    exponents[groups[is_used]] = np.iinfo(np.int64).min
    np.maximum.at(exponents, groups[is_used], np.frexp(values[is_used])[1].astype(np.int64))
    return np.ldexp(values, -exponents[groups]), exponents


def _shift_to_origin(numbers: GroupedNumbers) -> Floats:
    """Return the values as floats; whole numbers as distances from the smallest of their group.

    Large whole numbers that are close to each other would be equal as floats.
    """
    values = numbers.values
    if values.dtype == np.float64:
        return values.astype(np.float64, copy=False)
    highest = 2**64 - 1 if values.dtype == np.uint64 else 2**63 - 1
    lowest = np.full(numbers.count, highest, values.dtype)
    np.minimum.at(lowest, numbers.groups, values)
    # The distance of two 64-bit integers always fits into 64 bits without a sign.
    return (values.astype(np.uint64) - lowest[numbers.groups].astype(np.uint64)).astype(np.float64)


def compute_percentiles(numbers: GroupedNumbers, counts: Ints, fraction: float) -> Floats:
    """Return the value at a fraction of each group's sorted values, interpolated between neighbours; NaN without any.

    The fraction 0 is the smallest value, 1 the largest, and 0.5 the median.
    """
    values = numbers.values.astype(np.float64) + 0.0
    order = np.argsort(values, kind="stable")
    numbers.budget.check()
    order = order[argsort_stable(numbers.groups[order], numbers.budget.check)]
    values = values[order]
    times = np.ones(len(order), np.int64) if numbers.multiplicity is None else numbers.multiplicity[order]
    # The number of values up to each row, over all groups; a group's values begin after those of the groups before.
    ends = np.cumsum(times)
    starts = np.cumsum(counts) - counts
    ranks = fraction * np.maximum(counts - 1, 0)
    low = np.floor(ranks).astype(np.int64)
    share = ranks - low
    if not len(values):
        return np.full(numbers.count, np.nan)
    high = np.minimum(low + 1, np.maximum(counts - 1, 0))
    first = values[np.minimum(np.searchsorted(ends, starts + low, side="right"), len(values) - 1)]
    second = values[np.minimum(np.searchsorted(ends, starts + high, side="right"), len(values) - 1)]
    # Scaled separately where their distance exceeds the largest float.
    with np.errstate(over="ignore", invalid="ignore"):
        distance = second - first
        between = np.where(np.isfinite(distance), first + distance * share, first * (1.0 - share) + second * share)
    result = np.where(share == 0, first, between)
    return np.where(counts > 0, result, np.nan)


# --- products ------------------------------------------------------------------------------------------


def multiply_whole(numbers: GroupedNumbers) -> Ints | None:
    """Return the product of each group's whole numbers, 1 for none; None if one does not fit into I64."""
    groups, size, times = numbers.groups, numbers.count, _get_times(numbers)
    values = numbers.values
    is_negative = values < 0
    magnitudes = np.where(is_negative, np.uint64(0) - values.astype(np.uint64), values.astype(np.uint64))
    has_zero = np.zeros(size, np.bool_)
    has_zero[groups[magnitudes == 0]] = True
    negatives = np.zeros(size, np.int64)
    np.bitwise_xor.at(negatives, groups, is_negative.astype(np.int64) & times)
    # Ones change nothing, and each other factor at least doubles: a group of more than 64 of them is too large.
    is_factor = (magnitudes > 1) & ~has_zero[groups]
    groups, magnitudes, times = groups[is_factor], magnitudes[is_factor], times[is_factor]
    logs = np.bincount(groups, np.log2(magnitudes.astype(np.float64)) * times, size)
    if np.any(logs > 64):
        return None
    powers = magnitudes ** times.astype(np.uint64)
    products = np.ones(size, np.uint64)
    np.multiply.at(products, groups, powers)
    estimates = np.ones(size, np.float64)
    np.multiply.at(estimates, groups, magnitudes.astype(np.float64) ** times)
    is_negative_product = (negatives & 1).astype(np.bool_)
    if np.any(estimates > _MAX_I64 * (1 + _PRODUCT_SLACK)):
        return None
    # Below twice the limit nothing wrapped around in 64 bits without a sign, so these products are exact.
    limit = np.where(is_negative_product, np.uint64(2**63), np.uint64(2**63 - 1))
    if np.any(products > limit):
        return None
    signed = np.where(is_negative_product, np.uint64(0) - products, products).view(np.int64)
    return np.where(has_zero, np.int64(0), signed)


def multiply_floats(numbers: GroupedNumbers) -> Floats:
    """Return the product of each group's floats, 1 for none; infinite where it overflows.

    Equal values count together and factors are taken in their order, so that merging and order of rows don't matter.
    Fractions and exponents are multiplied apart, so that nothing overflows on the way.
    """
    values = numbers.values.astype(np.float64) + 0.0
    times = _get_times(numbers)
    order = np.argsort(values, kind="stable")
    numbers.budget.check()
    order = order[argsort_stable(numbers.groups[order], numbers.budget.check)]
    groups, values, times = numbers.groups[order], values[order], times[order]
    is_new = np.ones(len(groups), np.bool_)
    is_new[1:] = (groups[1:] != groups[:-1]) | (values[1:] != values[:-1])
    first = np.flatnonzero(is_new)
    times = np.add.reduceat(times, first) if len(first) else times
    groups, values = groups[first], values[first]
    fractions, exponents = _raise(values, times)
    # Pairs of neighbours are multiplied until each group has one factor left.
    while len(groups) and bool((groups[1:] == groups[:-1]).any()):
        numbers.budget.check()
        groups, fractions, exponents = _multiply_pairs(groups, fractions, exponents)
    result = np.ones(numbers.count, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        result[groups] = np.ldexp(fractions, np.clip(exponents, -5000, 5000))
    return result + 0.0


def _raise(values: Floats, times: Ints) -> tuple[Floats, Ints]:
    """Return values to the power of `times`, by repeated squaring, as fractions and exponents."""
    base, base_exponents = np.frexp(values)
    base_exponents = base_exponents.astype(np.int64)
    fractions = np.ones(len(values), np.float64)
    exponents = np.zeros(len(values), np.int64)
    rest = times.copy()
    while rest.any():
        is_odd = (rest & 1).astype(np.bool_)
        fractions = np.where(is_odd, fractions * base, fractions)
        exponents = np.where(is_odd, exponents + base_exponents, exponents)
        fractions, exponents = _normalize(fractions, exponents)
        base, base_exponents = _normalize(base * base, 2 * base_exponents)
        rest >>= 1
    return fractions, exponents


def _multiply_pairs(groups: Ints, fractions: Floats, exponents: Ints) -> tuple[Ints, Floats, Ints]:
    """Return the products of pairs: each factor at an even place of its group times the next one, if there is one."""
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    lengths = np.diff(np.append(starts, len(groups)))
    places = np.arange(len(groups)) - np.repeat(starts, lengths)
    left = np.flatnonzero(places % 2 == 0)
    right = left + 1
    has_partner = (right < len(groups)) & (groups[np.minimum(right, len(groups) - 1)] == groups[left])
    partner = np.minimum(right, len(groups) - 1)
    products = fractions[left] * np.where(has_partner, fractions[partner], 1.0)
    sums = exponents[left] + np.where(has_partner, exponents[partner], 0)
    return groups[left], *_normalize(products, sums)


def _normalize(fractions: Floats, exponents: Ints) -> tuple[Floats, Ints]:
    fractions, shifts = np.frexp(fractions)
    # Far beyond the range of floats the exact exponent no longer matters, and must not wrap around.
    return fractions, np.clip(exponents + shifts, -(2**40), 2**40)


def _get_times(numbers: GroupedNumbers) -> Ints:
    return np.ones(len(numbers.groups), np.int64) if numbers.multiplicity is None else numbers.multiplicity
