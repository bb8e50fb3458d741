"""A large merge that something may be wrong with: the driver looks at the rows under suspicion, and at no others.

Tasks tell the keys of all rows, filled, and the ledger finds those that may be wrong. They come to the driver with
every row that shares an id, a unique value or, where edges are counted, a source with one of them, whether by what it
will say or by what the committed row says whose place it takes. The ordinary checks refuse what they refuse in one
process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from omnigraph.engine.bulk.load_batch import Batch, LoadMode
from omnigraph.engine.bulk.load_errors import Inputs
from omnigraph.spark.load.distributed_merge import ExecutorMerge, ExecutorMerging
from omnigraph.spark.load.key_hashes import Wanted
from omnigraph.spark.load.recheck import Fetched, SuspectCheck, SuspectRows, Suspects
from omnigraph.spark.load.row_chunks import Piece, piece_rows


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a piece come from: the number of their input, and the lines that it has before them."""

    file: int
    lines_before: int


@dataclass(frozen=True, slots=True)
class CheckedMerge:
    """The rows of a merge that were under suspicion, checked; and the merge of all rows that were not refused.

    `merge` is None when something was refused and nothing may be left out: then nothing is written.
    """

    batch: Batch
    suspects: SuspectRows
    merge: ExecutorMerge | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCheck:
    """Checks a merge on one state."""

    merging: ExecutorMerging
    pieces: Mapping[str, Sequence[Piece]]
    origin: Callable[[Piece], Origin]
    loaded: Sequence[str]
    inputs: Callable[[], Inputs]
    leaves_out: bool
    unreadable: frozenset[str]

    def run(self) -> CheckedMerge | None:
        """What is wrong, and the merge without it; None when only a look at all rows can tell."""
        judged = self.merging.suspicious()
        if judged is None:
            return None
        check = SuspectCheck(
            view=self.merging.view,
            mode=LoadMode.MERGE,
            loaded=self.loaded,
            total={name: sum(piece.rows for piece in self.pieces.get(name, ())) for name in self.loaded},
            inputs=self.inputs,
            seed=self.merging.spec.seed,
            keeps_left_out=True,
            leaves_out=self.leaves_out,
            unreadable=self.unreadable,
            fetch=self._fetched,
            only_known=self.merging.jobs.call.only_known,
        )
        batch, rows = check.run(Suspects.of(judged, self.merging.view.catalog))
        if (batch.refusals.records or batch.refusals.unplaced) and not self.leaves_out:
            return CheckedMerge(batch, rows, None)
        merge = self.merging.merged(self._left_out(batch, rows))
        if merge is None:
            rows.spool.close()
            return None
        return CheckedMerge(batch, rows, merge)

    def _fetched(self, wanted: Wanted) -> Mapping[str, Sequence[Fetched]]:
        """The rows that are wanted, by type."""
        every = [piece for group in self.merging.groups for piece in group.pieces]
        found: dict[str, list[Fetched]] = {}
        for told, number, data in self.merging.handed_over(wanted):
            origin = self.origin(every[number])
            shared = {role: np.frombuffer(packed, np.uint64) for role, packed in told.shared.items()}
            for rows in piece_rows(self.merging.view.type(told.type), data, origin.lines_before):
                found.setdefault(told.type, []).append(Fetched(number, origin.file, rows, shared))
        return found

    def _left_out(self, batch: Batch, rows: SuspectRows) -> dict[int, bytes]:
        """By the number of their piece, the places of the rows that are out."""
        found: dict[int, bytes] = {}
        for name, incoming in batch.types.items():
            for number, places in rows.places(name, np.flatnonzero(incoming.is_out)).items():
                found[number] = places.tobytes()
        return found
