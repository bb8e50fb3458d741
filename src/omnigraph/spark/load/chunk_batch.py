"""The rows of a piece over the committed ones, in a task of a merge: filled and compared by the code of one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.bulk.id_checks import find_incomplete
from omnigraph.engine.bulk.load_batch import LoadMode, TypeBatch
from omnigraph.engine.bulk.outdated import find_stale_embeddings
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.load.id_join import REPEATED, ChunkGroup, RowMatches
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.row_chunks import RowChunk, read_chunk
from omnigraph.storage.columnar_sets import Mask, concat_chunks
from omnigraph.storage.key_lookup import ExistingRows


@dataclass(frozen=True, slots=True)
class ChunkBatch:
    """The rows of one piece, each with its committed row where there is one; valid while it is open."""

    number: int
    """Of the piece, among those of all groups."""
    chunk: RowChunk
    rows: TypeBatch
    is_repeated: Mask
    """The rows whose id the load has twice."""

    def find_suspects(self) -> Mask:
        """The rows that are wrong or may be: not those that are out, unless their id is there twice.

        Beside those whose id is repeated, new ones that are not complete, and texts without their vectors.
        """
        found = self.is_repeated.copy()
        for one in (*find_incomplete(self.rows), *find_stale_embeddings(self.rows)):
            found[one.rows] = True
        return found

    def count_hash_collisions(self) -> int:
        """How many rows have another id than their committed rows: hashes can be equal by chance."""
        rows = self.rows
        if rows.existing is None or not rows.exists.any():
            return 0
        own = rows.read_ids().filter(pa.array(rows.exists))
        there = rows.existing.fetch(rows.existing.at[rows.exists], [ID]).column(ID)
        return len(own) - int(pc.sum(pc.equal(own, concat_chunks(there))).as_py() or 0)


def open_chunks(worker: Worker, type_: AnyType, group: ChunkGroup, places: RowMatches) -> Iterator[ChunkBatch]:
    """The pieces of a group, one after the other; each is closed when the next one is asked for."""
    start = 0
    for number, piece in enumerate(group.chunks, start=group.first):
        first, last = np.searchsorted(places[:, 0], [start, start + piece.rows])
        with _open_chunk(worker, type_, number, piece, places[first:last] - np.array([start, 0])) as one:
            yield one
        start += piece.rows


@contextmanager
def _open_chunk(
    worker: Worker, type_: AnyType, number: int, piece: RowChunk, places: RowMatches
) -> Iterator[ChunkBatch]:
    table = worker.open_table(type_.table_key)
    is_mark = places[:, 1] == REPEATED
    is_repeated = np.zeros(piece.rows, np.bool_)
    is_repeated[places[is_mark, 0]] = True
    known = places[~is_mark]
    at = np.full(piece.rows, -1, np.int64)
    at[known[:, 0]] = np.arange(len(known))
    there = ExistingRows(table, at, np.ascontiguousarray(known[:, 1]))
    with Spool(keeps_left_out=True) as spool:
        for part in read_chunk(type_, worker.store.objects.get(piece.key).data, 0):
            spool.add(0, part.window)
        spool.seal()
        rows = TypeBatch(spool.types[type_.name], table, LoadMode.MERGE, existing=there)
        yield ChunkBatch(number, piece, rows, is_repeated)
