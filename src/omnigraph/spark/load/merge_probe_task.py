"""A merge on executors that something may be wrong with: a task tells what its rows say, without writing any.

First the keys of all rows, filled from the committed ones, for the ledger; then those rows that are under suspicion,
for the driver, which decides about them by the ordinary checks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from omnigraph.engine.bulk.unique import effective_values
from omnigraph.spark.load.chunk_batch import PieceIncoming, pieces_of
from omnigraph.spark.load.id_join import Group, Places
from omnigraph.spark.load.key_hashes import Wanted, among, key_hashes, roles_of
from omnigraph.spark.load.key_shuffle import encode_hashes, gone_roles
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.merge_fill_task import Filled
from omnigraph.spark.load.row_chunks import Piece, PieceWriter, chosen_rows, piece_rows
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.columnar_sets import Mask, Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What is asked of groups: the keys of all rows, or the rows that are wanted and those that are wrong."""

    groups: tuple[Group, ...]
    phase: int
    only_known: bool = False
    wanted: Wanted | None = None

    def done(self, worker: Worker, number: int, places: Places) -> Filled:
        """What a group tells."""
        told = _Told(self, worker, number)
        return told.keys(places) if self.wanted is None else told.rows(places, self.wanted)


class _Told:
    """One group on its way."""

    def __init__(self, work: Telling, worker: Worker, number: int) -> None:
        self._work, self._worker = work, worker
        self._group = work.groups[number]
        self._type = worker.type(self._group.type)
        self._found = Filled(number=number, type=self._group.type)
        self._note = worker.note(work.phase, number)

    def keys(self, places: Places) -> Filled:
        """The keys of all rows."""
        said: dict[str, list[bytes]] = {}
        gone: dict[str, list[bytes]] = {}
        for piece in self._pieces(places):
            self._found.unsure += piece.mistaken()
            self._found.rows += int((~piece.rows.is_out).sum())
            for side, keys in ((said, said_keys(piece, self._seed)), (gone, gone_keys(piece, self._seed))):
                for role, (hashes, _) in keys.items():
                    side.setdefault(role, []).append(hashes.tobytes())
        self._found.told = self._note.keep("told", _packed(said))
        self._found.gone = self._note.keep("gone", _packed(gone))
        return self._found

    def rows(self, places: Places, wanted: Wanted) -> Filled:
        """The rows that are wanted."""
        asked = {role: np.frombuffer(one, np.uint64) for role, one in wanted.get(self._type.name, {}).items()}
        shared: dict[str, list[bytes]] = {}
        for piece in self._pieces(places):
            sides = said_keys(piece, self._seed), gone_keys(piece, self._seed)
            is_wanted = piece.suspects()
            for keys in sides:
                for role, (hashes, rows) in keys.items():
                    if role in asked:
                        is_wanted[rows[among(hashes, asked[role])]] = True
            if not is_wanted.any():
                continue
            self._found.handed[piece.number] = self._handed(piece, is_wanted)
            for keys in sides:
                for role in gone_roles(self._type).keys() & keys.keys():
                    hashes, rows = keys[role]
                    shared.setdefault(role, []).append(hashes[is_wanted[rows]].tobytes())
        self._found.shared = {role: b"".join(parts) for role, parts in shared.items()}
        return self._found

    @property
    def _seed(self) -> int:
        return self._worker.spec.seed

    def _pieces(self, places: Places) -> Iterator[PieceIncoming]:
        for piece in pieces_of(self._worker, self._type, self._group, places):
            if self._work.only_known:
                piece.rows.is_out |= ~piece.rows.exists
            yield piece

    def _handed(self, piece: PieceIncoming, is_wanted: Mask) -> Piece:
        """Those rows as they were read, each with its place in the piece."""
        writer = PieceWriter(self._type)
        start = 0
        for part in piece_rows(self._type, self._worker.store.objects.get(piece.piece.key).data, 0):
            end = start + part.window.rows.num_rows
            at = np.flatnonzero(is_wanted[start:end])
            writer.add(chosen_rows(part.window, at), at + start)
            start = end
        data = writer.bytes()
        key = self._note.keep(f"{piece.number}.piece", data)
        return Piece(key=key, rows=writer.rows, nbytes=len(data))


def said_keys(piece: PieceIncoming, seed: int) -> dict[str, tuple[Hashes, Positions]]:
    """By role, the keys that rows will have, filled, and the rows that have them; not of those that are out."""
    found: dict[str, tuple[Hashes, Positions]] = {}
    for role, columns in roles_of(piece.rows.type).items():
        hashes, held = key_hashes(effective_values(piece.rows, columns), columns, seed)
        rows = np.arange(piece.piece.rows) if held is None else held
        is_kept = ~piece.rows.is_out[rows]
        found[role] = hashes[is_kept], rows[is_kept]
    return found


def gone_keys(piece: PieceIncoming, seed: int) -> dict[str, tuple[Hashes, Positions]]:
    """By role in which it matters, the keys of the committed rows, and the rows that take their places."""
    found: dict[str, tuple[Hashes, Positions]] = {}
    rows = piece.rows
    taking = np.flatnonzero(rows.exists & ~rows.is_out)
    if rows.existing is None or not len(taking):
        return found
    for role, columns in gone_roles(rows.type).items():
        before = rows.existing.fetch(rows.existing.at[taking], list(columns))
        hashes, held = key_hashes(before, columns, seed)
        found[role] = hashes, taking if held is None else taking[held]
    return found


def _packed(keys: Mapping[str, list[bytes]]) -> bytes:
    return encode_hashes({role: b"".join(parts) for role, parts in keys.items()})
