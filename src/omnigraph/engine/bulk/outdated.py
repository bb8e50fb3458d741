"""Check required embedding vectors: a record of a merge that changes the text must contain the vector too."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_batch import TypeBatch
from omnigraph.engine.bulk.load_errors import RejectedRows
from omnigraph.engine.bulk.row_spool import build_left_out_name
from omnigraph.engine.constraints.values import format_missing_value
from omnigraph.schema.catalog import AnyType, Property
from omnigraph.storage.columnar_sets import are_equal, concat_chunks, to_mask


def find_stale_embeddings(rows: TypeBatch) -> Iterator[RejectedRows]:
    """Yield the rows that change the text of a required vector without setting the vector."""
    existing = rows.existing
    for p in rows.type.properties:
        # A stale vector that is nullable is cleared instead, and the record accepted.
        if p.embedding is None or p.nullable or existing is None or p.name not in rows.spooled.left_out:
            continue
        source = p.embedding.source
        is_suspect = to_mask(rows.read_column(build_left_out_name(p.name))) & rows.exists & ~rows.is_excluded
        is_suspect &= ~to_mask(rows.read_column(build_left_out_name(source)))
        suspects = np.flatnonzero(is_suspect)
        if not len(suspects):
            continue
        after = rows.read_column(source).take(pa.array(suspects))
        before = concat_chunks(existing.fetch(existing.at[suspects], [source]).column(source))
        changed = suspects[~are_equal(after, before.cast(after.type))]
        ids = rows.read_ids().take(pa.array(changed))
        yield RejectedRows(
            rows=changed,
            rule="required",
            property=p.name,
            value=lambda _: None,
            message=partial(_format_missing, rows.type, p, ids),
        )


def _format_missing(type_: AnyType, p: Property, ids: pa.Array, number: int) -> str:
    return format_missing_value(type_, p, ids[number].as_py())
