"""The matches of a pattern, as one column of row positions per variable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Rows of one table version by their position among its written rows, deleted ones included.
Positions: TypeAlias = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Bindings:
    """A table of matches: for each variable that is still needed, the position of the row it is bound to.

    `multiplicity` is the number of matches that a row represents: matches that differ only in variables that are no
    longer needed are counted instead of listed. Without it, each row is one match.
    """

    columns: Mapping[str, Positions]
    size: int
    multiplicity: NDArray[np.int64] | None = None

    def take(self, rows: Positions | NDArray[np.bool_]) -> "Bindings":
        """Return the selected rows: by row number, in the order of the numbers, or by mask."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        size = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
        return Bindings(columns, size, None if self.multiplicity is None else self.multiplicity[rows])

    def with_column(self, variable: str, positions: Positions) -> "Bindings":
        """Return the same rows with one more variable bound."""
        return Bindings({**self.columns, variable: positions}, self.size, self.multiplicity)
