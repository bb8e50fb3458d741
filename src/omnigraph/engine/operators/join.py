"""Two tables of bindings as one: every pair, or the pairs whose values are equal or in an order."""

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
from omnigraph.storage.arrow_buffers import build_scalar, fill_nulls


def build_product(left: Bindings, right: Bindings, budget: Budget) -> Bindings:
    """Every row with every row."""
    size = left.size * right.size
    needed = size * 8 * (len(left.columns) + len(right.columns) + 1)
    budget.claim(needed, "a product of two parts of the pattern")
    columns: dict[str, Positions] = {}
    for name, column in left.columns.items():
        columns[name] = np.repeat(column, right.size)
        budget.check()
    for name, column in right.columns.items():
        columns[name] = np.tile(column, left.size)
        budget.check()
    weight = multiply_counts(
        None if left.multiplicity is None else np.repeat(left.multiplicity, right.size),
        None if right.multiplicity is None else np.tile(right.multiplicity, left.size),
    )
    budget.release(needed)
    return Bindings(columns, size, weight)


@dataclass(frozen=True, slots=True)
class JoinMatches:
    """For each row of one side the rows of the other: `counts` of them in `order`, from `begins` on."""

    order: NDArray[np.int64]
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]

    def select(self, rows: NDArray[np.int64] | slice) -> "JoinMatches":
        """For some rows only."""
        return JoinMatches(self.order, self.begins[rows], self.counts[rows])


def match_keys(mine: pa.Array, others: pa.Array, op: Op = Op.EQ, check: Check = skip_check) -> JoinMatches:
    """For which rows `mine op others` is true: equal keys, or those in an order; never for null.

    Both keys have one type, for an order one that can be sorted. `check` is called between parts of the rows.
    """
    numbers, other_numbers = _encode_keys(mine, others, check, has_order=op is not Op.EQ)
    order = argsort_stable(other_numbers, check)
    ordered = other_numbers[order]
    least, most = np.searchsorted(ordered, 0), len(ordered)  # nulls come first
    below, above = (search_sorted(ordered, numbers, side, check) for side in ("left", "right"))
    match op:
        case Op.EQ:
            begins, ends = below, above
        case Op.LT:
            begins, ends = above, np.full_like(above, most)
        case Op.LE:
            begins, ends = below, np.full_like(below, most)
        case Op.GT:
            begins, ends = np.full_like(below, least), below
        case Op.GE:
            begins, ends = np.full_like(above, least), above
        case _:
            raise AssertionError(f"nothing is joined by `{op.value}`")
    return JoinMatches(order, begins, np.where(numbers < 0, 0, ends - begins))


def join(left: Bindings, right: Bindings, found: JoinMatches, budget: Budget) -> Bindings:
    """The pairs of rows that match."""
    order, begins, counts = found.order, found.begins, found.counts
    size = int(counts.sum())
    needed = size * 8 * (len(left.columns) + len(right.columns) + 2)
    budget.claim(needed, "a join of two parts of the pattern")
    rows = np.repeat(np.arange(left.size), counts)
    budget.check()
    ends = np.cumsum(counts)
    matches = order[np.repeat(begins - ends + counts, counts) + np.arange(size)]
    budget.check()
    a = left.take(rows)
    budget.check()
    b = right.take(matches)
    budget.release(needed)
    return Bindings({**a.columns, **b.columns}, size, multiply_counts(a.multiplicity, b.multiplicity))


def semi_join(left: Bindings, right: Bindings, found: JoinMatches, *, has_multiplicity: bool) -> Bindings | None:
    """The rows of one side that are in a pair; with `counts`, weighted by their pairs. None beyond 64 bits."""
    sums = found.counts
    if has_multiplicity and right.multiplicity is not None:
        if sum_counts(right.multiplicity, right.size) == OVERFLOWED:
            return None
        whole = np.concatenate(([0], np.cumsum(right.multiplicity[found.order])))
        sums = whole[found.begins + found.counts] - whole[found.begins]
    kept = left.take(sums > 0)
    return Bindings(
        kept.columns, kept.size, multiply_counts(kept.multiplicity, sums[sums > 0]) if has_multiplicity else None
    )


def _encode_keys(
    left: pa.Array, right: pa.Array, check: Check, *, has_order: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Equal numbers for equal values, with an order larger ones for larger values, -1 for null."""
    both = pa.concat_arrays([left, right])
    if pa.types.is_floating(both.type):
        both = pc.add(both, build_scalar(0.0, both.type))  # -0.0 becomes 0.0, which it equals
    codes, distinct = encode_dictionary(both, check)
    numbers = fill_nulls(codes, -1).astype(np.int64)
    check()
    if has_order:
        ranks = np.full(len(distinct) + 1, -1, np.int64)  # the last one is that of null
        ranks[:-1] = rank_distinct(distinct, check)
        numbers = ranks[numbers]
    return numbers[: len(left)], numbers[len(left) :]
