"""Join the matches of a block back to the rows that it was solved for.

A block is solved once for the distinct combinations of the outer values that it reads. The seed column carries the
number of the combination through its steps, so that every match knows to which rows it belongs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.kernels import argsort_stable
from omnigraph.engine.operators.chunking import concat_bindings
from omnigraph.engine.operators.distinct import compact
from omnigraph.engine.operators.join import join
from omnigraph.engine.operators.join_matches import RunMatches
from omnigraph.engine.operators.multiplicity import pack_keys, shift_missing
from omnigraph.engine.physical_plan import SEED
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.value_store import NO_POSITION

_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Seeds:
    """The distinct combinations that a block is solved for, and the number of the combination of each outer row."""

    bindings: Bindings
    # None if every row is a combination of its own, in order.
    row_numbers: NDArray[np.int64] | None

    @property
    def size(self) -> int:
        """The number of combinations."""
        return self.bindings.size

    def spread(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return what was computed for each combination, for each row."""
        return values if self.row_numbers is None else values[self.row_numbers]


def build_seeds(bindings: Bindings, shared: Iterable[str]) -> Seeds:
    """Return the distinct combinations of some variables; without any, there is a single one."""
    names = [name for name in shared if name in bindings.columns]
    if not names:
        return Seeds(Bindings({}, 1), np.zeros(bindings.size, np.int64))
    columns = [bindings.columns[name] for name in names]
    first, row_numbers = _find_distinct(columns)
    size = bindings.size if first is None else len(first)
    seeds = {name: column if first is None else column[first] for name, column in zip(names, columns, strict=True)}
    return Seeds(Bindings({**seeds, SEED: np.arange(size)}, size), row_numbers)


def get_seed_numbers(matches: Bindings) -> Positions:
    """Return the combination of each match of a block; a block that reads nothing has only one."""
    numbers = matches.columns.get(SEED)
    return np.zeros(matches.size, np.int64) if numbers is None else numbers


def find_matching(seeds: Seeds, matches: Bindings) -> NDArray[np.bool_]:
    """Return which combinations have a match."""
    has_match = np.zeros(seeds.size, np.bool_)
    if matches.size:
        has_match[get_seed_numbers(matches)] = True
    return has_match


def join_matches(
    bindings: Bindings, seeds: Seeds, matches: Bindings, binds: tuple[str, ...], budget: Budget, *, is_outer: bool
) -> Bindings:
    """Return each row with each of its matches; if `is_outer`, a row without one once, with no positions."""
    columns = {name: matches.columns.get(name, _NO_ROWS) for name in binds}
    numbers = get_seed_numbers(matches).astype(np.int64, copy=False)
    counts = np.bincount(numbers, minlength=seeds.size).astype(np.int64, copy=False)
    begins = np.cumsum(counts) - counts
    nbytes = 8 * (matches.size * (len(binds) + 2) + 2 * seeds.size)
    budget.claim(nbytes, "joining the matches of a block")
    is_sorted = bool((numbers[1:] >= numbers[:-1]).all())
    order = np.arange(matches.size) if is_sorted else argsort_stable(numbers, budget.check)
    right = Bindings(columns, matches.size, matches.multiplicity)
    if is_outer:
        # One more row without positions is the partner of all combinations that have no match.
        right = concat_bindings([right, Bindings(dict.fromkeys(binds, _MISSING), 1)])
        order = np.append(order, matches.size)
        begins = np.where(counts > 0, begins, matches.size)
        counts = np.maximum(counts, 1)
    if seeds.row_numbers is not None:
        begins, counts = begins[seeds.row_numbers], counts[seeds.row_numbers]
    joined = join(bindings, right, RunMatches(order, begins, counts, bindings.size), budget)
    budget.release(nbytes)
    return joined


_MISSING = np.full(1, NO_POSITION, np.int64)


def unite_matches(parts: list[Bindings], variables: tuple[str, ...], budget: Budget) -> Bindings:
    """Return the distinct matches of several alternatives."""
    keep = (SEED, *variables)
    filled = [
        Bindings({SEED: get_seed_numbers(part), **{name: part.columns[name] for name in variables}}, part.size)
        for part in parts
        if part.size
    ]
    if not filled:
        return Bindings({}, 0)
    nbytes = 8 * sum(part.size for part in filled) * (2 * len(keep) + 1)
    budget.claim(nbytes, "uniting the matches of alternatives")
    united = compact(concat_bindings(filled), keep, has_multiplicity=False)
    budget.release(nbytes)
    return united


def _find_distinct(columns: list[Positions]) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Return the first row of each combination, and the combination number of each row; None if all rows differ."""
    columns, _ = shift_missing(columns)
    keys = pack_keys(columns, [int(column.max(initial=0)) + 1 for column in columns])
    if keys is None:
        # The columns together have too many values for one 64-bit key per row.
        _, first, rows = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
        return first, rows.reshape(-1)
    steps = np.diff(keys)
    if not len(steps) or steps.min() > 0:
        return None, None
    if steps.min() == 0:  # sorted already
        is_first = np.append(True, steps > 0)
        return np.flatnonzero(is_first), np.cumsum(is_first) - 1
    _, first, rows = np.unique(keys, return_index=True, return_inverse=True)
    return first, rows
