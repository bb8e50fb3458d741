"""Whether an index finds what a scan of its column finds, for a sample of the values that are there."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.tables.wanted_indexes import BTREE
from omnigraph.storage.column_sets import one_array
from omnigraph.storage.dataset import Table
from omnigraph.storage.index_staging import StoredIndex
from omnigraph.storage.inspection import found_by_index, load_index

SAMPLE = 64
_ASKED = (pa.string(), pa.int32(), pa.int64())
"""Of these, an index decides exactly as a scan does, and queries ask it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """What an index says that a scan does not, for some values of its column."""

    index: str
    values: int
    """How many values were looked up."""
    missed: int
    """Rows that the index does not find."""
    invented: int
    """Rows that it finds, and that don't hold the value."""
    doubled: int
    """Rows that it finds more than once."""

    def __str__(self) -> str:
        return (
            f"of the rows with {self.values} values it misses {self.missed}, invents {self.invented},"
            f" and gives {self.doubled} twice"
        )


def check_lookups(table: Table, index: StoredIndex) -> Disagreement | None:
    """Ask the index for values from all over the table. DamagedError when it can't be read.

    An index that no query asks, such as one of words or of unsigned numbers, is only read.
    """
    rows = table.count()
    if not rows:
        return None
    if index.kind != BTREE or table.schema.field(index.columns[0]).type not in _ASKED:
        load_index(table, index.name)
        return None
    places = np.unique(np.linspace(0, rows - 1, SAMPLE).astype(np.int64))
    column = index.columns[0]
    values = one_array(table.take(places.tolist(), [column]).column(column)).drop_null().unique()
    if not len(values):
        return None
    asked, scanned = found_by_index(table, column, values)
    once = np.unique(asked)
    found = Disagreement(
        index=index.name,
        values=len(values),
        missed=len(np.setdiff1d(scanned, once)),
        invented=len(np.setdiff1d(once, scanned)),
        doubled=len(asked) - len(once),
    )
    return found if found.missed or found.invented or found.doubled else None
