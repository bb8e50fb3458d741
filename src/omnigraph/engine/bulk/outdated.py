"""Vectors that must be there and are computed from a text: a merge that changes the text brings the vector too."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_batch import TypeBatch
from omnigraph.engine.bulk.load_errors import RejectedRows
from omnigraph.engine.bulk.row_spool import build_left_out_name
from omnigraph.engine.writing.stale_embeddings import format_missing_value
from omnigraph.schema.catalog import AnyType, Property
from omnigraph.storage.columnar_sets import are_equal, concat_chunks, to_mask


def find_stale_embeddings(rows: TypeBatch) -> Iterator[RejectedRows]:
    """A vector that must be there, and was computed from another text than the record now gives, must come with it."""
    existing = rows.existing
    for p in rows.type.properties:
        if p.embedding is None or p.nullable or existing is None or p.name not in rows.spooled.left_out:
            continue
        source = p.embedding.source
        silent = to_mask(rows.read_column(build_left_out_name(p.name))) & rows.exists & ~rows.is_excluded
        silent &= ~to_mask(rows.read_column(build_left_out_name(source)))
        asked = np.flatnonzero(silent)
        if not len(asked):
            continue
        given = rows.read_column(source).take(pa.array(asked))
        before = concat_chunks(existing.fetch(existing.at[asked], [source]).column(source))
        changed = asked[~are_equal(given, before.cast(given.type))]
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
