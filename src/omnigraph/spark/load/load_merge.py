"""Merge on Spark: executors read and check the records; then the driver, or executors, fill, compare and write them.

A merge reads the committed row of every record. Changes are mostly few compared to the committed rows, so this is
cheapest in one process: rows are sent to the driver, into the spool that a local load fills, and the rest is the same.
A large merge stays on the executors; only its suspect rows are sent to the driver, which finds the errors.
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
from omnigraph.spark.load.load_state import count_generated_ids
from omnigraph.spark.load.load_task import HandOverWork, SplitResult
from omnigraph.spark.load.merge_recheck import ChunkOrigin, MergeCheck
from omnigraph.spark.load.row_chunks import RowChunk


class SparkMerge(SpooledRecords):
    """The records of a merge, read by Spark."""

    def __init__(self, session: Session, input_: SparkInput, jobs: LoadJobs) -> None:
        super().__init__(input_.call, input_.schema_id, session.blob_sources, input_.inputs)
        self._session = session
        self._input = input_
        self._jobs = jobs
        self._has_scratch = False
        # Results whose rows are still in chunks, not in the spool.
        self._results: list[SplitResult] = []
        self._merge: StagedMerge | None = None
        # Of a merge on executors, the suspect rows.
        self._suspects: Spool | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether the input can be read again."""
        return self._input.is_repeatable

    def read(self) -> None:
        """Read all input: into the spool, or into chunks if the merge is large.

        One lease covers everything from the first file to the commit.
        """
        for name in self._input.named_types:
            self.spool.declare_type(self._input.get_type(name))
        self.armed, self._phases = self._input.begin(keeps_staged=True, spark=self._jobs.spark)
        self._has_scratch = True
        # The number of rows is not known yet; it decides below.
        may_be_large = bool(self._input.frames) or self._input.nbytes > self._jobs.max_local_reread_bytes
        with self._phases.open_phase() as phase:
            work = HandOverWork(wanted=None, with_ids=may_be_large)
            self._results = self._jobs.run_splits(
                self._input.spec,
                phase.number,
                work,
                doing="read",
                is_first=True,
                max_local_bytes=self._jobs.max_local_read_bytes,
                # Executors could not read what is in the driver's memory.
                buffer=None if may_be_large else self._input.buffer,
            )
            self.unreadable = self._input.take_over(self._results, self.rejects)
            self.inputs, self.export = self._input.inputs, self._input.export
            if may_be_large and self._count_rows() > self._jobs.max_local_merge_rows:
                phase.keep_scratch(
                    key for chunk in self._list_chunks() for key in (chunk.key, chunk.ids) if key is not None
                )
            else:
                self._fill_spool()

    def _count_rows(self) -> int:
        return sum(chunk.rows for chunk in self._list_chunks())

    def _list_chunks(self) -> list[RowChunk]:
        return [chunk for chunks in self._group_chunks().values() for chunk in chunks]

    def _group_chunks(self) -> dict[str, list[RowChunk]]:
        """Return the chunks of each type, in the order of the input."""
        chunks: dict[str, list[RowChunk]] = {}
        for result in sorted(self._results, key=lambda result: result.split):
            for name, type_result in result.types.items():
                chunks.setdefault(name, []).extend(type_result.chunks)
        return chunks

    def _fill_spool(self) -> None:
        """Read all rows into the spool; from now on the driver does the merge."""
        for _, fetched in self._input.iter_fetched(self._results):
            self.spool.add(fetched.file, fetched.rows.window)
        self.spool.seal()
        self._results = []
        # The driver stages its files again after a conflict.
        if self.armed is not None:
            self.armed = replace(self.armed, keeps_staged=False)

    # --- checking and writing, on executors or here ------------------------------------------------------

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """Check all rows on this state, and return a batch of at least the rejected rows."""
        # The lease ended with an attempt that met a conflict; the next attempt has its own.
        if self.armed is not None and not self.armed.lease.is_running:
            self.armed = None
        self._drop_merge()
        if self._results:
            batch = self._check_on_executors(view, leaves_out=leaves_out)
            if batch is not None:
                return batch
            self._fill_spool()
            self._clear_scratch()
        return super().check(view, leaves_out=leaves_out)

    def _check_on_executors(self, view: View, *, leaves_out: bool) -> LoadBatch | None:
        """Check the suspect rows, stage all others, and return the batch; None if the driver has to take all rows."""
        chunks = self._group_chunks()
        merging = DistributedMerge(view, self._input.spec, self._jobs, self._phases, chunks)
        self._merge = merging.merge()
        loaded = list(dict.fromkeys([*self._input.named_types, *chunks]))
        if self._merge is not None:
            return self._build_empty_batch(view, loaded)
        splits: dict[str, int] = {}
        for result in self._results:
            for type_result in result.types.values():
                splits |= {chunk.key: result.split for chunk in type_result.chunks}
        check = MergeCheck(
            merging=merging,
            chunks=chunks,
            find_origin=lambda chunk: ChunkOrigin(*self._input.find_origin(splits[chunk.key])),
            loaded=loaded,
            inputs=lambda: self.inputs,
            leaves_out=leaves_out,
            unreadable=frozenset(self.unreadable),
        )
        checked = check.run()
        if checked is None:
            return None
        self._merge, self._suspects = checked.merge, checked.suspects.spool
        return checked.batch

    def _build_empty_batch(self, view: View, names: list[str]) -> LoadBatch:
        """Return the batch of a merge without suspect rows."""
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
        """Return the numbers of rows of a type that are read, inserted, updated and unchanged."""
        return super().count_changes(rows) if self._merge is None else self._merge.count_changes(rows.type.name)

    def count_generated_ids(self, rows: TypeBatch) -> int:
        """Return the number of ids that were generated for a type, also for rows outside the batch."""
        if self._results:
            return count_generated_ids(self._results, rows.type.name)
        return super().count_generated_ids(rows)

    def build_writes(self, batch: LoadBatch) -> list[TableWrite]:
        """Return a write for every table that changes, without the rejected rows."""
        if self._merge is None:
            return list(super().build_writes(batch))
        self._call.report_progress("publish", self._count_rows())
        return self._merge.build_writes()

    def build_requirements(self, batch: LoadBatch) -> list[Requirement]:
        """Return the requirements that must hold until the merge is published."""
        if self._merge is None:
            return list(super().build_requirements(batch))
        return self._merge.build_requirements(self._session.store)

    # --- closing ---------------------------------------------------------------------------------------

    def _drop_merge(self) -> None:
        """Delete the files of a merge that was staged on an older state."""
        if self._suspects is not None:
            self._suspects.close()
            self._suspects = None
        if self._merge is not None:
            for file in self._merge.files:
                self._session.store.objects.delete(file)
            self._merge = None

    def _clear_scratch(self) -> None:
        """Remove the chunks."""
        if self._has_scratch:
            clear(self._session.store, self._phases.operation_id)
            self._has_scratch = False

    def close(self) -> None:
        """Remove everything that was not published."""
        self._input.close()
        if self._suspects is not None:
            self._suspects.close()
        if self._results:
            self._clear_scratch()
        if self.armed is not None and self.armed.lease.is_running:
            abandon(self._session.log, self.armed, self.armed.lease.files)
        super().close()
