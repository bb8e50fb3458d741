"""A large merge that something may be wrong with: the driver looks at the rows under suspicion, and at no others.

Tasks tell the keys of all rows, filled, and the ledger finds those that may be wrong. They come to the driver with
every row that shares an id, a unique value or, where edges are counted, a source with one of them, whether by what it
will say or by what the committed row says whose place it takes. The ordinary checks refuse what they refuse in one
process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.spark.load.distributed_merge import DistributedMerge, StagedMerge
from omnigraph.spark.load.key_hashes import WantedKeys
from omnigraph.spark.load.recheck import FetchedRows, SuspectCheck, SuspectRows, Suspects
from omnigraph.spark.load.row_chunks import RowChunk, read_chunk


@dataclass(frozen=True, slots=True)
class ChunkOrigin:
    """Where the rows of a piece come from: the number of their input, and the lines that it has before them."""

    file: int
    lines_before: int


@dataclass(frozen=True, slots=True)
class MergeCheckResult:
    """The rows of a merge that were under suspicion, checked; and the merge of all rows that were not refused.

    `merge` is None when something was refused and nothing may be left out: then nothing is written.
    """

    batch: LoadBatch
    suspects: SuspectRows
    merge: StagedMerge | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCheck:
    """Checks a merge on one state."""

    merging: DistributedMerge
    chunks: Mapping[str, Sequence[RowChunk]]
    find_origin: Callable[[RowChunk], ChunkOrigin]
    loaded: Sequence[str]
    inputs: Callable[[], InputNames]
    leaves_out: bool
    unreadable: frozenset[str]

    def run(self) -> MergeCheckResult | None:
        """What is wrong, and the merge without it; None when only a look at all rows can tell."""
        judged = self.merging.find_suspicious_keys()
        if judged is None:
            return None
        check = SuspectCheck(
            view=self.merging.view,
            mode=LoadMode.MERGE,
            loaded=self.loaded,
            total={name: sum(piece.rows for piece in self.chunks.get(name, ())) for name in self.loaded},
            inputs=self.inputs,
            seed=self.merging.spec.seed,
            keeps_left_out=True,
            leaves_out=self.leaves_out,
            unreadable=self.unreadable,
            fetch=self._fetch_rows,
            only_known=self.merging.jobs.call.only_known,
        )
        batch, rows = check.run(Suspects.from_hashes(judged, self.merging.view.catalog))
        if (batch.rejections.records or batch.rejections.global_problems) and not self.leaves_out:
            return MergeCheckResult(batch, rows, None)
        merge = self.merging.merge(self._find_left_out(batch, rows))
        if merge is None:
            rows.spool.close()
            return None
        return MergeCheckResult(batch, rows, merge)

    def _fetch_rows(self, wanted: WantedKeys) -> Mapping[str, Sequence[FetchedRows]]:
        """The rows that are wanted, by type."""
        every = [piece for group in self.merging.groups for piece in group.chunks]
        found: dict[str, list[FetchedRows]] = {}
        for told, number, data in self.merging.fetch_rows(wanted):
            origin = self.find_origin(every[number])
            shared = {role: np.frombuffer(packed, np.uint64) for role, packed in told.shared.items()}
            for rows in read_chunk(self.merging.view.get_type(told.type), data, origin.lines_before):
                found.setdefault(told.type, []).append(FetchedRows(number, origin.file, rows, shared))
        return found

    def _find_left_out(self, batch: LoadBatch, rows: SuspectRows) -> dict[int, bytes]:
        """By the number of their piece, the places of the rows that are out."""
        found: dict[int, bytes] = {}
        for name, incoming in batch.types.items():
            for number, places in rows.group_ordinals(name, np.flatnonzero(incoming.is_excluded)).items():
                found[number] = places.tobytes()
        return found
