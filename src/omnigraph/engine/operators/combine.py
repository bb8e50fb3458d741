"""Two tables of bindings as one: every pair, or the pairs whose values are equal."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.budget import Budget
from omnigraph.engine.operators.weights import multiplied
from omnigraph.storage.plain_arrays import filled, scalar


def product(left: Bindings, right: Bindings, budget: Budget) -> Bindings:
    """Every row with every row."""
    size = left.size * right.size
    needed = size * 8 * (len(left.columns) + len(right.columns) + 1)
    budget.claim(needed, "a product of two parts of the pattern")
    columns: dict[str, Positions] = {name: np.repeat(column, right.size) for name, column in left.columns.items()}
    columns |= {name: np.tile(column, left.size) for name, column in right.columns.items()}
    weight = multiplied(
        None if left.weight is None else np.repeat(left.weight, right.size),
        None if right.weight is None else np.tile(right.weight, left.size),
    )
    budget.release(needed)
    return Bindings(columns, size, weight)


@dataclass(frozen=True, slots=True)
class Matched:
    """For each row of one side the rows of the other: `counts` of them in `order`, from `begins` on."""

    order: NDArray[np.int64]
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]

    def of(self, rows: NDArray[np.int64] | slice) -> "Matched":
        """For some rows only."""
        return Matched(self.order, self.begins[rows], self.counts[rows])


def matched(mine: pa.Array, others: pa.Array) -> Matched:
    """Which rows have equal keys; null equals nothing. Both keys have one type."""
    numbers, other_numbers = _numbered(mine, others)
    order = np.argsort(other_numbers, kind="stable")
    ordered = other_numbers[order]
    begins = np.searchsorted(ordered, numbers, side="left")
    counts = np.searchsorted(ordered, numbers, side="right") - begins
    counts[numbers < 0] = 0
    return Matched(order, begins, counts)


def join(left: Bindings, right: Bindings, found: Matched, budget: Budget) -> Bindings:
    """The pairs of rows that match."""
    order, begins, counts = found.order, found.begins, found.counts
    size = int(counts.sum())
    needed = size * 8 * (len(left.columns) + len(right.columns) + 2)
    budget.claim(needed, "a join of two parts of the pattern")
    rows = np.repeat(np.arange(left.size), counts)
    ends = np.cumsum(counts)
    matches = order[np.repeat(begins - ends + counts, counts) + np.arange(size)]
    a, b = left.take(rows), right.take(matches)
    budget.release(needed)
    return Bindings({**a.columns, **b.columns}, size, multiplied(a.weight, b.weight))


def _numbered(left: pa.Array, right: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Equal numbers for equal values, -1 for null."""
    both = pa.concat_arrays([left, right])
    if pa.types.is_floating(both.type):
        both = pc.add(both, scalar(0.0, both.type))  # -0.0 becomes 0.0, which it equals
    numbers = filled(both.dictionary_encode().indices, -1).astype(np.int64)
    return numbers[: len(left)], numbers[len(left) :]
