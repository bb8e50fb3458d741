"""Append or overwrite on Spark: stage rows while they are read, check them by a key shuffle, publish one commit."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from omnigraph.commit.publisher import ArmedWrite, abandon
from omnigraph.commit.requirements import Requirement
from omnigraph.commit.task_journal import clear
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.rejected_records import UnreadableRecords
from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.engine.view import View
from omnigraph.ops.load_call import TypeCounts
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite
from omnigraph.spark.load.left_out_rows import LeftOutRows
from omnigraph.spark.load.load_input import SparkInput
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_requirements import build_requirements
from omnigraph.spark.load.load_state import StagedLoad, sum_fragment_rows
from omnigraph.spark.load.load_task import SplitResult, StageWork
from omnigraph.spark.load.recheck import SuspectRows
from omnigraph.spark.load.staged_check import StagedCheck
from omnigraph.spark.load.task_phases import Phase, Phases
from omnigraph.spark.load.verdicts import Verdicts
from omnigraph.storage.fragment_writer import list_fragment_files
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.staging import WriteKind, stage_fragments


class SparkRecords:
    """The records of an append or overwrite on Spark. `close` removes everything that was not published."""

    def __init__(self, session: Session, input_: SparkInput, jobs: LoadJobs) -> None:
        self._session = session
        self._input = input_
        self._jobs = jobs
        self._call = input_.call
        self._scratch = TempDirectory("omnigraph-load-")
        self.rejects = UnreadableRecords(self._scratch.directory if self._call.on_error is not None else None, {})
        # The types that have records which were rejected while they were read.
        self.unreadable: set[str] = set()
        self.export: str | None = None
        self.armed: ArmedWrite | None = None
        self._phases: Phases | None = None
        self.staged = StagedLoad()
        self._staged_check: StagedCheck | None = None
        # Numbers the spools of rejected records: an attempt after a conflict has its own.
        self._attempts = 0
        # Whether the rejected records of tasks are kept until the load ends.
        self._has_rejects = False

    @property
    def schema_id(self) -> str:
        """The id of the schema by which records are read."""
        return self._input.schema_id

    @property
    def inputs(self) -> InputNames:
        """The names of all inputs, for messages."""
        return self._input.inputs

    @property
    def is_repeatable(self) -> bool:
        """Whether the input can be read again."""
        return self._input.is_repeatable

    @property
    def loaded(self) -> list[str]:
        """The types that the load has rows of, or names."""
        return self._checks.loaded

    @property
    def _open(self) -> Phases:
        assert self._phases is not None  # noqa: S101 - `read` comes first
        return self._phases

    @property
    def _checks(self) -> StagedCheck:
        assert self._staged_check is not None  # noqa: S101 - `read` comes first
        return self._staged_check

    def read(self) -> None:
        """Read all input, and stage its rows."""
        self.armed, self._phases = self._input.begin(keeps_staged=True, spark=self._jobs.spark)
        with self._open.open_phase() as phase:
            results = self._stage(phase)
            self.unreadable = self._input.take_over(results, self.rejects)
            self.export = self._input.export
            self.staged = StagedLoad({result.split: result for result in results})
            phase.keep(self._list_staged_files(results))
            # Read again if rows that are checked by themselves come in between.
            rejects = [key for result in results for key in result.rejects.objects]
            phase.keep_scratch(rejects)
            self._has_rejects = bool(rejects)
        self._staged_check = StagedCheck(
            self._session.store, self._input, self._jobs, self.staged, self._open, self.unreadable, self._restage
        )

    def _stage(self, phase: Phase) -> Sequence[SplitResult]:
        """Stage all rows in tasks, and return the result of each split."""
        return self._jobs.run_splits(self._input.spec, phase.number, StageWork(), doing="read", is_first=True)

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """Check all rows on this state, and return a batch of the suspect rows with what is wrong."""
        # A previous check may have left out rows that are right on this state.
        self._restage(self._checks.left_out)
        batch = self._checks.run(view, leaves_out=leaves_out)
        if self._checks.verdicts.by_split or self._attempts:
            self._collect_rejects()
        return batch

    def _collect_rejects(self) -> None:
        """Write down the records that were rejected while they were read, and those that tasks have rejected."""
        self._attempts += 1
        directory = self.rejects.directory
        if directory is not None:
            directory = self._scratch.directory / f"rejects-{self._attempts}"
            directory.mkdir()
        self.rejects = UnreadableRecords(directory, {})
        self._input.take_verdicts(self.staged.results, self._checks.verdicts.by_split, self.rejects)

    def compare(self, batch: LoadBatch) -> None:
        """Do nothing: only a merge compares rows with committed ones."""

    def count_changes(self, rows: TypeBatch) -> TypeCounts:
        """Return the numbers of rows of a type that are read, inserted, updated and deleted."""
        name = rows.type.name
        read = self.staged.count_rows(name) - int(rows.is_excluded.sum()) - self._checks.verdicts.count_rejected(name)
        if self._call.mode is LoadMode.APPEND:
            return TypeCounts(read=read, inserted=read)
        # `known` counts each id of the load once, also those of suspects; of these, only accepted rows count.
        existing_ids = rows.read_ids().filter(rows.exists) if rows.exists.any() else rows.read_ids().slice(0, 0)
        known = self._checks.known[name] - len(existing_ids.unique()) + int((rows.exists & ~rows.is_excluded).sum())
        known -= self._checks.verdicts.count_existing(name)
        deleted = rows.table.count() - known if rows.replaces_all else 0
        return TypeCounts(read=read, inserted=read - known, updated=known, deleted=deleted)

    def count_generated_ids(self, rows: TypeBatch) -> int:
        """Return the number of ids that tasks have generated for a type."""
        return self.staged.count_generated_ids(rows.type.name)

    # --- writing ---------------------------------------------------------------------------------------

    def build_writes(self, batch: LoadBatch) -> Sequence[TableWrite]:
        """Return a write for every table that changes, without the rejected rows."""
        self._call.report_progress("write", sum(self.staged.count_rows(name) for name in self.loaded))
        suspects = self._checks.suspects
        assert suspects is not None  # noqa: S101 - `check` comes first
        self._restage(_find_rejected(batch, suspects, self._checks.verdicts))
        writes: list[TableWrite] = []
        change = WriteKind.OVERWRITE if self._call.mode is LoadMode.OVERWRITE else WriteKind.APPEND
        for rows in (*batch.list_node_batches(), *batch.list_edge_batches()):
            fragments = self.staged.list_fragments(rows.type.name)
            if fragments or (rows.replaces_all and rows.table.count()):
                staged = stage_fragments(rows.table, change, fragments, sum_fragment_rows(fragments))
                writes.append(TableWrite(table_key=rows.type.table_key, staged=staged))
        self._call.report_progress("publish", sum(self.staged.count_rows(name) for name in self.loaded))
        return writes

    def build_requirements(self, batch: LoadBatch) -> Sequence[Requirement]:
        """Return the requirements that must hold until the load is published."""
        return build_requirements(batch, self.staged, partial(self._jobs.filter_rows, self._input.spec))

    def _restage(self, left_out: Mapping[tuple[int, str], LeftOutRows]) -> None:
        """Stage the splits and types again whose left-out rows differ from those left out so far."""
        current = self.staged.left_out
        # The rows of a type in a pack share fragments, so they are staged together.
        changed = {
            (split, name): left_out.get((split, name), LeftOutRows())
            for key in {*current, *left_out}
            if current.get(key) != left_out.get(key)
            for split, name in self.staged.list_with_type(self._input.find_pack(key[0]), key[1])
        }
        if not changed:
            return
        only: dict[int, set[str]] = {}
        without: dict[int, dict[str, LeftOutRows]] = {}
        for (split, name), rows in changed.items():
            only.setdefault(split, set()).add(name)
            without.setdefault(split, {})[name] = rows
        work = StageWork(left_out=without, only={split: frozenset(names) for split, names in only.items()})
        with self._open.open_phase() as phase:
            results = self._jobs.run_splits(self._input.spec, phase.number, work, doing="write")
            self.staged.check_same(results, self._input.find_name, only)
            phase.keep(self._list_staged_files(results))
            replaced = self.staged.replace(results, changed)
        # Only now, when the sidecar names the new files.
        for name, fragments in replaced.items():
            for file in self._list_fragment_files(name, fragments):
                self._session.store.objects.delete(file)

    def _list_staged_files(self, results: Sequence[SplitResult]) -> list[str]:
        files: list[str] = []
        for result in results:
            for name, type_result in result.types.items():
                files += self._list_fragment_files(name, type_result.fragments)
        return files

    def _list_fragment_files(self, name: str, fragments: Sequence[str]) -> Sequence[str]:
        key = self._input.get_type(name).table_key
        path, version = self._input.spec.pins[key]
        return list_fragment_files(LanceTable(self._session.handles, path, int(version)), fragments)

    # --- closing ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove everything that was not published."""
        self.rejects.close()
        if self._staged_check is not None:
            self._staged_check.close()
        self._scratch.close()
        self._input.close()
        # A lease that ended belongs to a load that was published, or that recovery decides about.
        if self.armed is not None and self.armed.lease.is_running:
            abandon(self._session.log, self.armed, self.armed.lease.files)
        if self._has_rejects or (self._staged_check is not None and self._staged_check.has_scratch):
            clear(self._session.store, self._open.operation_id)


def _find_rejected(batch: LoadBatch, suspects: SuspectRows, verdicts: Verdicts) -> dict[tuple[int, str], LeftOutRows]:
    """Return the excluded rows by split and type."""
    rejected = verdicts.list_left_out()
    for name, rows in batch.types.items():
        for split, ordinals in suspects.group_ordinals(name, np.flatnonzero(rows.is_excluded)).items():
            rejected[split, name] = rejected.get((split, name), LeftOutRows())._replace(ordinals=ordinals.tobytes())
    return rejected
