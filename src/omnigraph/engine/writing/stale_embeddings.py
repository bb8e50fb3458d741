"""Clear embedding vectors (`@embed`) whose source text has changed, so that a vector never outlives its text."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.catalog import AnyType


def clear_stale_vectors(
    type_: AnyType, before: pa.Table, after: pa.Table, is_omitted: Mapping[str, pa.Array]
) -> pa.Table:
    """Return `after` with a null for every vector whose text differs from that in `before`.

    The two tables have the same rows in the same order. `is_omitted` marks, by vector, the rows in which the write does
    not set it; a vector that is not a key of it is set in every row.
    """
    for p in type_.properties:
        if p.embedding is None or p.name not in is_omitted:
            continue
        source = p.embedding.source
        # Only a text that really differs clears its vector: writing the same text again must cost no vector.
        is_stale = pc.and_(is_omitted[p.name], pc.invert(_is_same(before.column(source), after.column(source))))
        if pc.any(is_stale).as_py():
            index = after.schema.get_field_index(p.name)
            field = after.schema.field(index)
            vectors = pc.if_else(is_stale, pa.scalar(None, field.type), after.column(index))
            after = after.set_column(index, field, vectors)
    return after


def _is_same(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    # Two nulls are the same here, unlike in SQL.
    are_equal = pc.fill_null(pc.equal(left, right), fill_value=False)
    return pc.or_(are_equal, pc.and_(pc.is_null(left), pc.is_null(right)))
