"""A merge on Spark: executors read and check the records; the driver, or they, fill, compare and write them.

A merge looks at the committed row of every record. What changes is mostly small beside what is there, so this is
cheapest where the rows are together: they are handed to the driver, into the same spool that a load in one process
fills, and from there everything is the same. A large merge stays on the executors. Where something may be wrong with
some of its rows, those come to the driver, which says what it is; the others stay.
"""

from dataclasses import replace

from omnigraph.commit.publisher import abandon
from omnigraph.commit.requirements import Requirement
from omnigraph.commit.task_journal import clear
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.engine.view import View
from omnigraph.ops.load_call import TypeCounts
from omnigraph.ops.load_local import SpooledRecords
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite
from omnigraph.spark.load.distributed_merge import DistributedMerge, StagedMerge
from omnigraph.spark.load.load_input import SparkInput
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_task import HandOverWork, SplitResult
from omnigraph.spark.load.merge_recheck import ChunkOrigin, MergeCheck
from omnigraph.spark.load.row_chunks import RowChunk


class SparkMerge(SpooledRecords):
    """The records of a merge, read by Spark."""

    def __init__(self, session: Session, input_: SparkInput, jobs: LoadJobs) -> None:
        super().__init__(input_.call, input_.schema_id, session.blob_sources, input_.inputs)
        self._session, self._input, self._jobs = session, input_, jobs
        self._has_scratch = False
        self._done: list[SplitResult] = []
        """What tasks have handed over, while it is not in the spool."""
        self._merge: StagedMerge | None = None
        self._suspects: Spool | None = None
        """Of a merge on executors, the rows that may be wrong."""

    @property
    def is_repeatable(self) -> bool:
        """See Records."""
        return self._input.is_repeatable

    def read(self) -> None:
        """See Records. One lease covers everything, from the first file to the commit."""
        for name in self._input.named_types:
            self.spool.declare_type(self._input.get_type(name))
        self.armed, self._phases = self._input.begin(keeps_staged=True)
        self._has_scratch = True
        may_be_large = bool(self._input.frames) or self._input.nbytes > self._jobs.max_local_reread_bytes
        with self._phases.open_phase() as phase:
            work = HandOverWork(wanted=None, with_ids=may_be_large)
            self._done = self._jobs.run_splits(
                self._input.spec,
                phase.number,
                work,
                doing="read",
                is_first=True,
                max_local_bytes=self._jobs.max_local_read_bytes,
                buffer=None if may_be_large else self._input.buffer,
            )
            self.unreadable = self._input.take_over(self._done, self.rejects)
            self.inputs, self.export = self._input.inputs, self._input.export
            if may_be_large and self._count_rows() > self._jobs.max_local_merge_rows:
                phase.keep_scratch(
                    key for piece in self._list_chunks() for key in (piece.key, piece.ids) if key is not None
                )
            else:
                self._fill_spool()

    def _count_rows(self) -> int:
        return sum(piece.rows for piece in self._list_chunks())

    def _list_chunks(self) -> list[RowChunk]:
        return [piece for one in self._group_chunks().values() for piece in one]

    def _group_chunks(self) -> dict[str, list[RowChunk]]:
        """The pieces of each type, in the order of the input."""
        found: dict[str, list[RowChunk]] = {}
        for one in sorted(self._done, key=lambda one: one.split):
            for name, told in one.types.items():
                found.setdefault(name, []).extend(told.pieces)
        return found

    def _fill_spool(self) -> None:
        """From now on the driver does it."""
        for _, fetched in self._input.iter_fetched(self._done):
            self.spool.add(fetched.file, fetched.rows.window)
        self.spool.seal()
        self._done = []
        if self.armed is not None:  # what the driver stages is staged again after a conflict
            self.armed = replace(self.armed, keeps_staged=False)

    # --- on executors, or here -------------------------------------------------------------------------

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """See Records."""
        if self.armed is not None and not self.armed.lease.is_running:
            self.armed = None  # it ended with an attempt that met a conflict; the next one has its own
        self._drop_merge()
        if self._done:
            batch = self._check_on_executors(view, leaves_out=leaves_out)
            if batch is not None:
                return batch
            self._fill_spool()
            self._clear_scratch()
        return super().check(view, leaves_out=leaves_out)

    def _check_on_executors(self, view: View, *, leaves_out: bool) -> LoadBatch | None:
        """The rows that may be wrong, checked, and all others staged; None when only the driver can tell."""
        pieces = self._group_chunks()
        merging = DistributedMerge(view, self._input.spec, self._jobs, self._phases, pieces)
        self._merge = merging.merge()
        loaded = list(dict.fromkeys([*self._input.named_types, *pieces]))
        if self._merge is not None:
            return self._build_empty_batch(view, loaded)
        splits = {piece.key: one.split for one in self._done for told in one.types.values() for piece in told.pieces}
        check = MergeCheck(
            merging=merging,
            chunks=pieces,
            find_origin=lambda piece: ChunkOrigin(*self._input.find_origin(splits[piece.key])),
            loaded=loaded,
            inputs=lambda: self.inputs,
            leaves_out=leaves_out,
            unreadable=frozenset(self.unreadable),
        )
        found = check.run()
        if found is None:
            return None
        self._merge, self._suspects = found.merge, found.suspects.spool
        return found.batch

    def _build_empty_batch(self, view: View, names: list[str]) -> LoadBatch:
        """The batch of a merge that nothing is wrong with: no row is under suspicion."""
        self._suspects = Spool(keeps_left_out=True)
        for name in names:
            self._suspects.declare_type(view.get_type(name))
        self._suspects.seal()
        types = {
            name: TypeBatch(spooled, view.get_table(spooled.type), LoadMode.MERGE)
            for name, spooled in self._suspects.types.items()
        }
        return LoadBatch(view=view, mode=LoadMode.MERGE, types=types)

    def count_changes(self, rows: TypeBatch) -> TypeCounts:
        """See Records."""
        return super().count_changes(rows) if self._merge is None else self._merge.count_changes(rows.type.name)

    def build_writes(self, batch: LoadBatch) -> list[TableWrite]:
        """See Records."""
        if self._merge is None:
            return list(super().build_writes(batch))
        self._call.report_progress("publish", self._count_rows())
        return self._merge.build_writes()

    def build_requirements(self, batch: LoadBatch) -> list[Requirement]:
        """See Records."""
        if self._merge is None:
            return list(super().build_requirements(batch))
        return self._merge.build_requirements(self._session.store)

    # --- the end ---------------------------------------------------------------------------------------

    def _drop_merge(self) -> None:
        """What was staged on another state than the newest goes."""
        if self._suspects is not None:
            self._suspects.close()
            self._suspects = None
        if self._merge is not None:
            for file in self._merge.files:
                self._session.store.objects.delete(file)
            self._merge = None

    def _clear_scratch(self) -> None:
        """The pieces go."""
        if self._has_scratch:
            clear(self._session.store, self._phases.operation_id)
            self._has_scratch = False

    def close(self) -> None:
        """See Records."""
        self._input.close()
        if self._suspects is not None:
            self._suspects.close()
        if self._done:
            self._clear_scratch()
        if self.armed is not None and self.armed.lease.is_running:
            abandon(self._session.log, self.armed, self.armed.lease.files)
        super().close()
