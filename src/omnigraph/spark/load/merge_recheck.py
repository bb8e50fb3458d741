"""Check a large merge that has suspect rows: only these are sent to the driver.

Tasks report the keys of all rows, completed from the committed ones, and the key shuffle finds the suspicious ones.
Their rows are sent to the driver, with every row that shares an id, a unique value or, where edges are counted, a
source with one of them, in its new values or in those of the committed row that it replaces. The ordinary checks then
reject the same rows as in a load in one process (decision 37).
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
    """The origin of a chunk's rows: the number of their input, and the number of its lines before them."""

    file: int
    lines_before: int


@dataclass(frozen=True, slots=True)
class MergeCheckResult:
    """The checked suspect rows of a merge, and the staged merge of all rows that were not rejected.

    `merge` is None if a row was rejected and none may be left out: then nothing is written.
    """

    batch: LoadBatch
    suspects: SuspectRows
    merge: StagedMerge | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCheck:
    """The check of a merge on one state."""

    merging: DistributedMerge
    chunks: Mapping[str, Sequence[RowChunk]]
    find_origin: Callable[[RowChunk], ChunkOrigin]
    loaded: Sequence[str]
    inputs: Callable[[], InputNames]
    leaves_out: bool
    unreadable: frozenset[str]

    def run(self) -> MergeCheckResult | None:
        """Check the suspect rows, and merge without the rejected ones; return None if the driver must take all rows."""
        suspicious = self.merging.find_suspicious_keys()
        if suspicious is None:
            return None
        check = SuspectCheck(
            view=self.merging.view,
            mode=LoadMode.MERGE,
            loaded=self.loaded,
            total={name: sum(chunk.rows for chunk in self.chunks.get(name, ())) for name in self.loaded},
            inputs=self.inputs,
            seed=self.merging.spec.seed,
            keeps_left_out=True,
            leaves_out=self.leaves_out,
            unreadable=self.unreadable,
            fetch=self._fetch_rows,
            only_known=self.merging.jobs.call.only_known,
        )
        batch, rows = check.run(Suspects.from_hashes(suspicious, self.merging.view.catalog))
        if (batch.rejections.records or batch.rejections.global_problems) and not self.leaves_out:
            return MergeCheckResult(batch, rows, None)
        # The key shuffle of this merge sees all rows, so a suspect that was not fetched can't be published.
        merge = self.merging.merge(self._find_left_out(batch, rows))
        if merge is None:
            rows.spool.close()
            return None
        return MergeCheckResult(batch, rows, merge)

    def _fetch_rows(self, wanted: WantedKeys) -> Mapping[str, Sequence[FetchedRows]]:
        """Return the requested rows by type."""
        chunks = [chunk for group in self.merging.groups for chunk in group.chunks]
        fetched: dict[str, list[FetchedRows]] = {}
        for result, number, data in self.merging.fetch_rows(wanted):
            origin = self.find_origin(chunks[number])
            shared = {role: np.frombuffer(packed, np.uint64) for role, packed in result.shared.items()}
            for rows in read_chunk(self.merging.view.get_type(result.type), data, origin.lines_before):
                fetched.setdefault(result.type, []).append(FetchedRows(number, origin.file, rows, shared))
        return fetched

    def _find_left_out(self, batch: LoadBatch, rows: SuspectRows) -> dict[int, bytes]:
        """Return the packed positions of the excluded rows by the number of their chunk."""
        left_out: dict[int, bytes] = {}
        for name, type_batch in batch.types.items():
            # A chunk has rows of one type only, so no entry is overwritten.
            for number, positions in rows.group_ordinals(name, np.flatnonzero(type_batch.is_excluded)).items():
                left_out[number] = positions.tobytes()
        return left_out
