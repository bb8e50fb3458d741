"""The rows of a piece over the committed ones, in a task of a merge: filled and compared by the code of one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.bulk.id_checks import incomplete
from omnigraph.engine.bulk.load_batch import Incoming, LoadMode
from omnigraph.engine.bulk.outdated import outdated
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.load.id_join import REPEATED, Group, Places
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.row_chunks import Piece, piece_rows
from omnigraph.storage.columnar_sets import Mask, one_array
from omnigraph.storage.key_lookup import Existing


@dataclass(frozen=True, slots=True)
class PieceIncoming:
    """The rows of one piece, each with its committed row where there is one; valid while it is open."""

    number: int
    """Of the piece, among those of all groups."""
    piece: Piece
    rows: Incoming
    is_repeated: Mask
    """The rows whose id the load has twice."""

    def suspects(self) -> Mask:
        """The rows that are wrong or may be: not those that are out, unless their id is there twice.

        Beside those whose id is repeated, new ones that are not complete, and texts without their vectors.
        """
        found = self.is_repeated.copy()
        for one in (*incomplete(self.rows), *outdated(self.rows)):
            found[one.rows] = True
        return found

    def mistaken(self) -> int:
        """How many rows have another id than their committed rows: hashes can be equal by chance."""
        rows = self.rows
        if rows.existing is None or not rows.exists.any():
            return 0
        own = rows.ids().filter(pa.array(rows.exists))
        there = rows.existing.fetch(rows.existing.at[rows.exists], [ID]).column(ID)
        return len(own) - int(pc.sum(pc.equal(own, one_array(there))).as_py() or 0)


def pieces_of(worker: Worker, type_: AnyType, group: Group, places: Places) -> Iterator[PieceIncoming]:
    """The pieces of a group, one after the other; each is closed when the next one is asked for."""
    start = 0
    for number, piece in enumerate(group.pieces, start=group.first):
        first, last = np.searchsorted(places[:, 0], [start, start + piece.rows])
        with _opened(worker, type_, number, piece, places[first:last] - np.array([start, 0])) as one:
            yield one
        start += piece.rows


@contextmanager
def _opened(worker: Worker, type_: AnyType, number: int, piece: Piece, places: Places) -> Iterator[PieceIncoming]:
    table = worker.table(type_.table_key)
    is_mark = places[:, 1] == REPEATED
    is_repeated = np.zeros(piece.rows, np.bool_)
    is_repeated[places[is_mark, 0]] = True
    known = places[~is_mark]
    at = np.full(piece.rows, -1, np.int64)
    at[known[:, 0]] = np.arange(len(known))
    there = Existing(table, at, np.ascontiguousarray(known[:, 1]))
    with Spool(keeps_left_out=True) as spool:
        for part in piece_rows(type_, worker.store.objects.get(piece.key).data, 0):
            spool.add(0, part.window)
        spool.seal()
        rows = Incoming(spool.types[type_.name], table, LoadMode.MERGE, existing=there)
        yield PieceIncoming(number, piece, rows, is_repeated)
