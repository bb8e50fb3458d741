"""Match the rows of a chunk with the committed rows, in a task of a merge."""

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
    """The rows of one chunk, each with its committed row if there is one; valid while the chunk is open."""

    number: int
    """The number of the chunk among those of all groups."""
    chunk: RowChunk
    rows: TypeBatch
    is_repeated: Mask
    """The rows whose id occurs more than once in the load."""

    def find_suspects(self) -> Mask:
        """Return the rows that may be wrong: repeated ids, incomplete new rows, and texts without their vectors.

        Excluded rows count only if their id is repeated.
        """
        is_suspect = self.is_repeated.copy()
        for rejection in (*find_incomplete(self.rows), *find_stale_embeddings(self.rows)):
            is_suspect[rejection.rows] = True
        return is_suspect

    def count_hash_collisions(self) -> int:
        """Return the number of rows whose id differs from that of the committed row with the same hash."""
        rows = self.rows
        if rows.existing is None or not rows.exists.any():
            return 0
        ids = rows.read_ids().filter(pa.array(rows.exists))
        committed_ids = rows.existing.fetch(rows.existing.at[rows.exists], [ID]).column(ID)
        return len(ids) - int(pc.sum(pc.equal(ids, concat_chunks(committed_ids))).as_py() or 0)


def open_chunks(worker: Worker, type_: AnyType, group: ChunkGroup, matches: RowMatches) -> Iterator[ChunkBatch]:
    """Yield the chunks of a group in order; each is closed when the next one is requested."""
    start = 0
    for number, chunk in enumerate(group.chunks, start=group.first):
        # Matches are sorted by the row's number in the group; here they are cut out and renumbered for the chunk.
        first, last = np.searchsorted(matches[:, 0], [start, start + chunk.rows])
        with _open_chunk(worker, type_, number, chunk, matches[first:last] - np.array([start, 0])) as batch:
            yield batch
        start += chunk.rows


@contextmanager
def _open_chunk(
    worker: Worker, type_: AnyType, number: int, chunk: RowChunk, matches: RowMatches
) -> Iterator[ChunkBatch]:
    table = worker.open_table(type_.table_key)
    # A repeated id has a row with REPEATED, and, if it is committed too, another one with the position.
    is_mark = matches[:, 1] == REPEATED
    is_repeated = np.zeros(chunk.rows, np.bool_)
    is_repeated[matches[is_mark, 0]] = True
    committed = matches[~is_mark]
    at = np.full(chunk.rows, -1, np.int64)
    at[committed[:, 0]] = np.arange(len(committed))
    existing = ExistingRows(table, at, np.ascontiguousarray(committed[:, 1]))
    with Spool(keeps_left_out=True) as spool:
        # Neither line numbers nor the input's number are used in a task: the driver reports errors.
        for part in read_chunk(type_, worker.store.objects.get(chunk.key).data, 0):
            spool.add(0, part.window)
        spool.seal()
        rows = TypeBatch(spool.types[type_.name], table, LoadMode.MERGE, existing=existing)
        yield ChunkBatch(number, chunk, rows, is_repeated)
