"""Matches of a pattern as columns of positions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Positions: TypeAlias = NDArray[np.integer[Any]]
"""Rows of one table version, by their places in it."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """What the variables of a pattern are bound to, match by match.

    `columns` has a position for each variable that is still needed. `weight` says how many matches a row stands for,
    when matches that differ only in what nobody asks for were counted and not listed; without it, one each.
    """

    columns: Mapping[str, Positions]
    size: int
    multiplicity: NDArray[np.int64] | None = None

    def take(self, rows: Positions | NDArray[np.bool_]) -> "Bindings":
        """Only these rows, by number in any order, or by mask."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        size = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
        return Bindings(columns, size, None if self.multiplicity is None else self.multiplicity[rows])

    def with_column(self, variable: str, positions: Positions) -> "Bindings":
        """One variable more."""
        return Bindings({**self.columns, variable: positions}, self.size, self.multiplicity)
