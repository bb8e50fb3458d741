"""Vectors that must be there and are computed from a text: a merge that changes the text brings the vector too."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_batch import Incoming
from omnigraph.engine.bulk.load_errors import Refusal
from omnigraph.engine.bulk.row_spool import left_out_name
from omnigraph.engine.writing.stale_embeddings import missing_message
from omnigraph.schema.catalog import AnyType, Property
from omnigraph.storage.columnar_sets import are_equal, mask_of, one_array


def outdated(rows: Incoming) -> Iterator[Refusal]:
    """A vector that must be there, and was computed from another text than the record now gives, must come with it."""
    existing = rows.existing
    for p in rows.type.properties:
        if p.embedding is None or p.nullable or existing is None or p.name not in rows.spooled.left_out:
            continue
        source = p.embedding.source
        silent = mask_of(rows.column(left_out_name(p.name))) & rows.exists & ~rows.is_out
        silent &= ~mask_of(rows.column(left_out_name(source)))
        asked = np.flatnonzero(silent)
        if not len(asked):
            continue
        given = rows.column(source).take(pa.array(asked))
        before = one_array(existing.fetch(existing.at[asked], [source]).column(source))
        changed = asked[~are_equal(given, before.cast(given.type))]
        ids = rows.ids().take(pa.array(changed))
        yield Refusal(
            rows=changed,
            rule="required",
            property=p.name,
            value=lambda _: None,
            message=partial(_missing, rows.type, p, ids),
        )


def _missing(type_: AnyType, p: Property, ids: pa.Array, number: int) -> str:
    return missing_message(type_, p, ids[number].as_py())
