"""Calculate with stored walks: their lengths, and the texts that order them."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.query.expr import ArrayOf, EdgeRef, NodeRef, WalkOf
from omnigraph.query.expr_types import WALK_EDGES, WALK_NODES
from omnigraph.query.union_types import SEPARATOR, TYPE_COLUMN, is_union
from omnigraph.schema.arrow import ID
from omnigraph.storage.columnar_sets import concat_chunks

# Reads a column of a type at positions.
ReadProperty = Callable[[str, str, pa.Array], "pa.Array | pa.ChunkedArray"]

# Between ids, and between nodes and edges. The second one is smaller, so that a walk comes before those that go on.
_BETWEEN_IDS = "\x01"
_AFTER_NODES = "\x00"


def measure_walks(walks: pa.Array) -> pa.Array:
    """Return the number of edges of each walk; null for null."""
    return pc.list_value_length(pc.struct_field(walks, WALK_EDGES)).cast(pa.int64())


def build_walk_keys(walks: pa.Array, type_: WalkOf, read: ReadProperty) -> pa.Array:
    """Return texts in the order of the walks: by their node ids, then by their edge ids; null for null."""
    nodes = _join_ids(pc.struct_field(walks, WALK_NODES), type_.nodes, read)
    edges = _join_ids(pc.struct_field(walks, WALK_EDGES), type_.edges, read)
    return pc.binary_join_element_wise(nodes, edges, _AFTER_NODES)


def _join_ids(lists: pa.Array, type_: ArrayOf, read: ReadProperty) -> pa.Array:
    element = type_.element
    assert isinstance(element, NodeRef | EdgeRef)  # noqa: S101 - a walk has nodes and edges
    ids = concat_chunks(read(element.name, ID, lists.flatten())).cast(pa.utf8())
    if is_union(element.name):
        # Nodes of two types may have the same id.
        types = concat_chunks(read(element.name, TYPE_COLUMN, lists.flatten())).cast(pa.utf8())
        ids = pc.binary_join_element_wise(types, ids, SEPARATOR)
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    texts = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), ids), _BETWEEN_IDS)
    if not lists.null_count:
        return texts
    return pc.if_else(lists.is_valid(), texts, pa.scalar(None, pa.utf8()))
