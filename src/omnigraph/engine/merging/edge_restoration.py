"""Keep the edges of nodes that a merge keeps although one side deleted them. Pure: no table is read.

Deleting a node deletes its edges. Where the strategy prefers the side that changed the node, the deletion of its edges
is undone too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph.engine.merging.side_changes import SideChanges
from omnigraph.schema.arrow import ID
from omnigraph.storage.columnar_sets import concat_chunks, is_among


@dataclass(frozen=True, slots=True)
class EndNodes:
    """The nodes at one end of edges, by their ids."""

    spared: pa.Array
    """Nodes that stay because the preferred side changed them, although the other side deleted them."""
    deleted: pa.Array
    """All nodes that the other side deleted."""


def find_restorable(deleted: pa.Table, ends: Mapping[str, EndNodes]) -> pa.Array:
    """Return the ids of deleted edges that have a spared node at an end, and both ends in the merged state.

    An edge whose other end stays deleted stays deleted with it.
    """
    is_at_spared = np.zeros(deleted.num_rows, np.bool_)
    is_whole = np.ones(deleted.num_rows, np.bool_)
    for column, nodes in ends.items():
        is_spared = is_among(deleted.column(column), nodes.spared)
        is_at_spared |= is_spared
        is_whole &= is_spared | ~is_among(deleted.column(column), nodes.deleted)
    return concat_chunks(deleted.column(ID).filter(pa.array(is_at_spared & is_whole)))


def undelete(keeper: SideChanges, deleter: SideChanges, ids: pa.Array) -> tuple[SideChanges, pa.Array]:
    """Return the deleting side's changes without the deletion of some rows, and the ids of those rows.

    Rows that the keeping side changed are left out, because the merge keeps them anyway; so are those that it deleted.
    """
    is_settled = is_among(ids, keeper.deleted) | is_among(ids, keeper.after.column(ID))
    left = ids.filter(pa.array(~is_settled))
    return replace(deleter, deleted=deleter.deleted.filter(pa.array(~is_among(deleter.deleted, left)))), left
