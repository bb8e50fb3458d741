"""Two tables of bindings as one: every pair, or the pairs whose values are equal."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.budget import Budget
from omnigraph.engine.operators.weights import multiplied


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


def join(left: Bindings, right: Bindings, keys: tuple[pa.Array, pa.Array], budget: Budget) -> Bindings:
    """The pairs of rows whose keys are equal; null equals nothing. Both keys have one type."""
    mine, others = _numbered(*keys)
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    begins = np.searchsorted(ordered, mine, side="left")
    counts = np.searchsorted(ordered, mine, side="right") - begins
    counts[mine < 0] = 0
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
        both = pc.add(both, pa.scalar(0.0, both.type))  # -0.0 becomes 0.0, which it equals
    numbers = np.asarray(both.dictionary_encode().indices.fill_null(-1), np.int64)
    return numbers[: len(left)], numbers[len(left) :]
