"""Join two tables of bindings: cross product, equi-join, range join and semi-join."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.kernels import Check, argsort_stable, encode_dictionary, rank_distinct, search_sorted, skip_check
from omnigraph.engine.operators.multiplicity import OVERFLOWED, multiply_counts, sum_counts
from omnigraph.engine.query_budget import Budget
from omnigraph.query.expr import Op
from omnigraph.storage.arrow_buffers import fill_nulls


def build_product(left: Bindings, right: Bindings, budget: Budget) -> Bindings:
    """Return the cross product: every row of one side with every row of the other."""
    size = left.size * right.size
    nbytes = size * 8 * (len(left.columns) + len(right.columns) + 1)
    budget.claim(nbytes, "a product of two parts of the pattern")
    columns: dict[str, Positions] = {}
    for name, column in left.columns.items():
        columns[name] = np.repeat(column, right.size)
        budget.check()
    for name, column in right.columns.items():
        columns[name] = np.tile(column, left.size)
        budget.check()
    multiplicity = multiply_counts(
        None if left.multiplicity is None else np.repeat(left.multiplicity, right.size),
        None if right.multiplicity is None else np.tile(right.multiplicity, left.size),
    )
    budget.release(nbytes)
    return Bindings(columns, size, multiplicity)


@dataclass(frozen=True, slots=True)
class JoinMatches:
    """The matching rows of the other side for each row: `counts[i]` entries of `order`, from `begins[i]` on."""

    order: NDArray[np.int64]
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]

    def select(self, rows: NDArray[np.int64] | slice) -> "JoinMatches":
        """Return the matches of some rows only."""
        return JoinMatches(self.order, self.begins[rows], self.counts[rows])


def match_keys(left: pa.Array, right: pa.Array, op: Op = Op.EQ, check: Check = skip_check) -> JoinMatches:
    """Find the rows for which `left op right` is true; null never matches.

    Both keys have the same type, for an order one that can be sorted. `check` is called between parts of the rows.
    """
    codes, right_codes = _encode_keys(left, right, check, has_order=op is not Op.EQ)
    order = argsort_stable(right_codes, check)
    ordered = right_codes[order]
    # Nulls have the code -1 and come first: they match nothing.
    first, end = np.searchsorted(ordered, 0), len(ordered)
    below, above = (search_sorted(ordered, codes, side, check) for side in ("left", "right"))
    match op:
        case Op.EQ:
            begins, ends = below, above
        case Op.LT:
            begins, ends = above, np.full_like(above, end)
        case Op.LE:
            begins, ends = below, np.full_like(below, end)
        case Op.GT:
            begins, ends = np.full_like(below, first), below
        case Op.GE:
            begins, ends = np.full_like(above, first), above
        case _:
            raise AssertionError(f"no join by `{op.value}`")
    return JoinMatches(order, begins, np.where(codes < 0, 0, ends - begins))


def join(left: Bindings, right: Bindings, matches: JoinMatches, budget: Budget) -> Bindings:
    """Return the pairs of rows that match."""
    begins, counts = matches.begins, matches.counts
    size = int(counts.sum())
    nbytes = size * 8 * (len(left.columns) + len(right.columns) + 2)
    budget.claim(nbytes, "a join of two parts of the pattern")
    rows = np.repeat(np.arange(left.size), counts)
    budget.check()
    ends = np.cumsum(counts)
    # Expands the runs: run i has `counts[i]` consecutive indices from `begins[i]` on.
    right_rows = matches.order[np.repeat(begins - ends + counts, counts) + np.arange(size)]
    budget.check()
    a = left.take(rows)
    budget.check()
    b = right.take(right_rows)
    budget.release(nbytes)
    return Bindings({**a.columns, **b.columns}, size, multiply_counts(a.multiplicity, b.multiplicity))


def semi_join(left: Bindings, right: Bindings, matches: JoinMatches, *, has_multiplicity: bool) -> Bindings | None:
    """Return the rows of `left` that are in a pair; with `has_multiplicity`, each counts once per pair.

    Returns None if the sum of all multiplicities exceeds 64 bits.
    """
    sums = matches.counts
    if has_multiplicity and right.multiplicity is not None:
        if sum_counts(right.multiplicity, right.size) == OVERFLOWED:
            return None
        # A difference of two prefix sums is the sum over a run of matches.
        prefix = np.concatenate(([0], np.cumsum(right.multiplicity[matches.order])))
        sums = prefix[matches.begins + matches.counts] - prefix[matches.begins]
    rows = left.take(sums > 0)
    multiplicity = multiply_counts(rows.multiplicity, sums[sums > 0]) if has_multiplicity else None
    return Bindings(rows.columns, rows.size, multiplicity)


def _encode_keys(
    left: pa.Array, right: pa.Array, check: Check, *, has_order: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return codes that are equal for equal values, with `has_order` in the order of the values, and -1 for null."""
    both = pa.concat_arrays([left, right])
    if pa.types.is_floating(both.type):
        # -0.0 becomes 0.0, which it equals.
        both = pc.add(both, pa.scalar(0.0, both.type))
    codes, distinct = encode_dictionary(both, check)
    numbers = fill_nulls(codes, -1).astype(np.int64)
    check()
    if has_order:
        # Null has the code -1, which indexes the last entry.
        ranks = np.full(len(distinct) + 1, -1, np.int64)
        ranks[:-1] = rank_distinct(distinct, check)
        numbers = ranks[numbers]
    return numbers[: len(left)], numbers[len(left) :]
