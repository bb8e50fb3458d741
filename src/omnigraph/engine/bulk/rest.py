"""The part of a load that is not in its batch, because it is too large and known to be right."""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from omnigraph.storage.columnar_sets import Mask


class IdPredicate(Protocol):
    """Answers for many ids at once."""

    def __call__(self, ids: pa.Array) -> Mask:
        """For each id, yes or no."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadedRows:
    """The rows of one type that a load has beside those of the batch. No check refuses any of them.

    Whoever makes a batch of some rows of a load sees to it that it holds every row that shares an id, a unique value
    or, where edges are counted, a source with one of its own.
    """

    rows: int
    is_there: IdPredicate
    """Which ids rows have that are not in the batch: those of the rest, or committed ones that stay."""
    is_counted: IdPredicate
    """Of an edge type, from which nodes every edge of the load is in the batch."""
