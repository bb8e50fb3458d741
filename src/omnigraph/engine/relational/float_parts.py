"""Floats as integers times powers of two, so that an engine of tables adds them exactly, in any order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.output.exact_sum import ExactSums, sum_scaled
from omnigraph.engine.relational.tree import FLOAT_PLACE_BITS
from omnigraph.storage.columnar_sets import concat_chunks

_MANTISSA_BITS = 53
# Names of the fields of a pair that `DigitList` lists: the total is `high * 2^HIGH_BITS + low`.
PLACE, HIGH, LOW = "place", "high", "low"
# `sum_scaled` adds numbers of at most 62 bits. A sum of digits has up to 124 (see FLOAT_PLACE_BITS): both halves fit.
HIGH_BITS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatPartFunction:
    """Return the digit of each float, or its place; null for null."""

    name: str
    is_place: bool

    def evaluate(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return integers of 64 bits."""
        column = concat_chunks(columns[0])
        values = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        fraction, exponent = np.frexp(values)
        # Divided downwards, so that the shift is never negative: no bit of the mantissa is lost, and a digit has at
        # most 53 + FLOAT_PLACE_BITS - 1 bits.
        place, shift = np.divmod(exponent.astype(np.int64) - _MANTISSA_BITS, FLOAT_PLACE_BITS)
        mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        if self.is_place:
            return pa.array(place, pa.int64(), mask=mask)
        mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64)
        return pa.array(mantissa << shift, pa.int64(), mask=mask)


def add_digits(lists: pa.Array) -> ExactSums:
    """Return the exact sum of each list of pairs of a place and the sum of its digits; 0 for null."""
    # A null list has no element here: its sum stays 0, and the caller, which knows the nulls, masks it.
    groups = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = lists.flatten()
    places = pairs.field(PLACE).to_numpy(zero_copy_only=False).astype(np.int64) * FLOAT_PLACE_BITS
    high, low = (pairs.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in (HIGH, LOW))
    values, exponents = np.concatenate((low, high)), np.concatenate((places, places + HIGH_BITS))
    return sum_scaled(np.concatenate((groups, groups)), len(lists), values, exponents)
