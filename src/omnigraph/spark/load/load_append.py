"""Append or overwrite on Spark: stage rows while they are read, check them by a key shuffle, publish one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from omnigraph.spark.load.key_hashes import WantedKeys
from omnigraph.spark.load.key_shuffle import KNOWN, KeyRules, plan_key_sources
from omnigraph.spark.load.load_input import SparkInput
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_requirements import build_requirements
from omnigraph.spark.load.load_spec import LoadSpec
from omnigraph.spark.load.load_state import StagedLoad, sum_fragment_rows
from omnigraph.spark.load.load_task import CheckWork, HandOverWork, LeftOutRows, SplitResult, StageWork
from omnigraph.spark.load.recheck import FetchedRows, SuspectCheck, SuspectRows, Suspects
from omnigraph.spark.load.separate_keys import SeparateKeys, can_separate
from omnigraph.spark.load.split_check import SeparateRules
from omnigraph.spark.load.task_phases import Phase, Phases
from omnigraph.spark.load.verdicts import Verdicts
from omnigraph.storage.column_hashing import Hashes
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
        # Of an overwrite, the number of ids of each type that are committed.
        self._known: dict[str, int] = {}
        self._suspects: SuspectRows | None = None
        self._verdicts = Verdicts()
        # Numbers the spools of rejected records: an attempt after a conflict has its own.
        self._attempts = 0
        # Whether objects of tasks are kept until the load ends.
        self._has_scratch = False

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
        return list(dict.fromkeys([*self._input.named_types, *self.staged.types]))

    @property
    def _open(self) -> Phases:
        assert self._phases is not None  # noqa: S101 - `read` comes first
        return self._phases

    def read(self) -> None:
        """Read all input, and stage its rows."""
        self.armed, self._phases = self._input.begin(keeps_staged=True)
        with self._open.open_phase() as phase:
            results = self._jobs.run_splits(self._input.spec, phase.number, StageWork(), doing="read", is_first=True)
            self.unreadable = self._input.take_over(results, self.rejects)
            self.export = self._input.export
            self.staged = StagedLoad({result.split: result for result in results})
            phase.keep(self._list_staged_files(results))
            # Read again if rows that are checked by themselves come in between.
            self._keep_scratch(phase, [key for result in results for key in result.rejects.objects])

    # --- checking --------------------------------------------------------------------------------------

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """Check all rows on this state, and return a batch of the suspect rows with what is wrong."""
        self._drop_verdicts()
        # A previous check may have left out rows that are right on this state.
        self._restage({})
        replaced = self._find_replaced(leaves_out=leaves_out)
        suspects = Suspects()
        while True:
            batch = self._check_replacing(view, replaced, suspects, leaves_out=leaves_out)
            still_replaced = frozenset(name for name in replaced if batch.types[name].replaces_all)
            if still_replaced == replaced:
                return batch
            # All records of a type were rejected, so its committed rows stay: the shuffle has to include them.
            self._drop_verdicts()
            replaced = still_replaced

    def _check_replacing(
        self, view: View, replaced: frozenset[str], suspects: Suspects, *, leaves_out: bool
    ) -> LoadBatch:
        """Check all rows, given that the committed rows of these types are removed; add new suspects to `suspects`."""
        loaded = self.loaded
        spec = replace(
            self._input.spec, pins={key: (pin.path, str(pin.version)) for key, pin in view.snapshot.pins.items()}
        )
        rules = KeyRules(
            loaded=frozenset(loaded),
            replaced=replaced,
            is_append=self._call.mode is LoadMode.APPEND,
            generated=frozenset(name for name in loaded if self.staged.has_generated_ids(name)),
            separates=can_separate(view.catalog, frozenset(loaded)),
        )
        suspicious, separate = self._find_suspicious_keys(view, spec, rules)
        # One count per bucket.
        self._known = {name: int(suspicious.pop(f"{KNOWN}/{name}", np.zeros(1)).sum()) for name in loaded}
        suspects.merge(Suspects.from_hashes(suspicious, view.catalog))
        if separate.count <= self._jobs.max_driver_suspects:
            suspects.add_separate(separate.read_all(self._read_object), view.catalog)
            separate = SeparateKeys()
        check = SuspectCheck(
            view=view,
            mode=self._call.mode,
            loaded=loaded,
            total={name: self.staged.count_rows(name) for name in loaded},
            inputs=lambda: self.inputs,
            seed=spec.seed,
            keeps_left_out=spec.keeps_left_out,
            leaves_out=leaves_out,
            unreadable=frozenset(self.unreadable),
            fetch=partial(self._fetch_rows, suspects, separate),
        )
        return self._check_all(check, spec, rules, suspects, separate)

    def _find_suspicious_keys(
        self, view: View, spec: LoadSpec, rules: KeyRules
    ) -> tuple[dict[str, Hashes], SeparateKeys]:
        sources, keys = plan_key_sources(view, rules, self.staged)
        if keys <= self._jobs.max_local_keys:
            return self._jobs.find_suspicious_keys(spec, sources, rules, keys)
        with self._open.open_phase() as phase:
            suspicious, separate = self._jobs.find_suspicious_keys(spec, sources, rules, keys, phase.number)
            self._keep_scratch(phase, separate.list_objects())
        return suspicious, separate

    def _check_all(
        self, check: SuspectCheck, spec: LoadSpec, rules: KeyRules, suspects: Suspects, separate: SeparateKeys
    ) -> LoadBatch:
        """Check rows with shared keys here, and those with separate keys in tasks, until both agree."""
        catalog = check.view.catalog
        while True:
            self._drop_suspects()
            has_any = bool(suspects.missing or any(len(hashes) for hashes in suspects.hashes.values()))
            batch, self._suspects = check.run(suspects) if has_any else check.build_empty()
            if not separate.count:
                return batch
            self._verdicts = self._check_apart(spec, rules, suspects, separate)
            if self._verdicts.gone > self._jobs.max_driver_suspects:
                # Edges lose so many nodes that the driver has to decide about all rows together.
                suspects.add_separate(separate.read_all(self._read_object), catalog)
                self._verdicts, separate = Verdicts(), SeparateKeys()
                check = replace(check, fetch=partial(self._fetch_rows, suspects, separate))
            elif not suspects.add_gone(self._verdicts.gone_hashes, catalog, check.loaded):
                self._add_verdicts(batch)
                return batch

    def _check_apart(self, spec: LoadSpec, rules: KeyRules, suspects: Suspects, separate: SeparateKeys) -> Verdicts:
        """Check the rows with separate keys in the tasks that read them, less those that the driver decides about."""
        work = CheckWork(
            rules=SeparateRules(
                mode=self._call.mode,
                keys=separate,
                excluded=suspects.to_wanted(self.loaded),
                loaded=tuple(self.loaded),
                replaced=rules.replaced,
            )
        )
        with self._open.open_phase() as phase:
            results = self._jobs.run_splits(spec, phase.number, work, doing="check")
            self.staged.check_same(results, self._input.find_name)
            verdicts = Verdicts.from_results(results)
            self._keep_scratch(phase, verdicts.list_objects())
        return verdicts

    def _add_verdicts(self, batch: LoadBatch) -> None:
        """Add the records that tasks have rejected to those of the driver."""
        for name, rows in batch.types.items():
            rejected = self._verdicts.count_rejected(name)
            if rejected and rows.rest is not None:
                rows.rest = replace(rows.rest, rows=rows.rest.rows - rejected)
                rows.has_unreadable = True
        self._attempts += 1
        directory = self.rejects.directory
        if directory is not None:
            directory = self._scratch.directory / f"rejects-{self._attempts}"
            directory.mkdir()
        self.rejects = UnreadableRecords(directory, {})
        self._input.take_verdicts(self.staged.results, self._verdicts.by_split, self.rejects)

    def _keep_scratch(self, phase: Phase, keys: Sequence[str]) -> None:
        phase.keep_scratch(keys)
        self._has_scratch |= bool(keys)

    def _read_object(self, key: str) -> bytes:
        return self._session.store.objects.get(key).data

    def _find_replaced(self, *, leaves_out: bool) -> frozenset[str]:
        """Return the types whose committed rows are removed: none whose records are all unreadable."""
        if self._call.mode is not LoadMode.OVERWRITE:
            return frozenset()
        all_bad = {name for name in self.unreadable if leaves_out and not self.staged.count_rows(name)}
        return frozenset(self.loaded) - all_bad

    def _fetch_rows(
        self, suspects: Suspects, separate: SeparateKeys, wanted: WantedKeys
    ) -> Mapping[str, Sequence[FetchedRows]]:
        """Read all splits again, and return the requested rows by type; add their missing ends to `suspects`."""
        fetched: dict[str, list[FetchedRows]] = {}
        with self._open.open_phase() as phase:
            work = HandOverWork(wanted=wanted, separate=separate if separate.count else None)
            results = self._jobs.run_splits(self._input.spec, phase.number, work, doing="check")
            self.staged.check_same(results, self._input.find_name)
            for name, rows in self._input.iter_fetched(results):
                fetched.setdefault(name, []).append(rows)
        for result in results:
            for type_result in result.types.values():
                for node, packed in type_result.missing.items():
                    suspects.add_missing(node, np.frombuffer(packed, np.uint64))
        return fetched

    def compare(self, batch: LoadBatch) -> None:
        """Do nothing: only a merge compares rows with committed ones."""

    def count_changes(self, rows: TypeBatch) -> TypeCounts:
        """Return the numbers of rows of a type that are read, inserted, updated and deleted."""
        name = rows.type.name
        read = self.staged.count_rows(name) - int(rows.is_excluded.sum()) - self._verdicts.count_rejected(name)
        if self._call.mode is LoadMode.APPEND:
            return TypeCounts(read=read, inserted=read)
        # `_known` counts each id of the load once, also those of suspects; of these, only accepted rows count.
        existing_ids = rows.read_ids().filter(rows.exists) if rows.exists.any() else rows.read_ids().slice(0, 0)
        known = self._known[name] - len(existing_ids.unique()) + int((rows.exists & ~rows.is_excluded).sum())
        known -= self._verdicts.count_existing(name)
        deleted = rows.table.count() - known if rows.replaces_all else 0
        return TypeCounts(read=read, inserted=read - known, updated=known, deleted=deleted)

    def count_generated_ids(self, rows: TypeBatch) -> int:
        """Return the number of ids that tasks have generated for a type."""
        return self.staged.count_generated_ids(rows.type.name)

    # --- writing ---------------------------------------------------------------------------------------

    def build_writes(self, batch: LoadBatch) -> Sequence[TableWrite]:
        """Return a write for every table that changes, without the rejected rows."""
        self._call.report_progress("write", sum(self.staged.count_rows(name) for name in self.loaded))
        assert self._suspects is not None  # noqa: S101 - `check` comes first
        self._restage(_find_rejected(batch, self._suspects, self._verdicts))
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
        return build_requirements(batch, self.staged)

    def _restage(self, left_out: Mapping[tuple[int, str], LeftOutRows]) -> None:
        """Stage the splits and types again whose left-out rows differ from those left out so far."""
        current = self.staged.left_out
        changed = {
            key: left_out.get(key, LeftOutRows())
            for key in {*current, *left_out}
            if current.get(key) != left_out.get(key)
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
        self._drop_suspects()
        self._scratch.close()
        self._input.close()
        # A lease that ended belongs to a load that was published, or that recovery decides about.
        if self.armed is not None and self.armed.lease.is_running:
            abandon(self._session.log, self.armed, self.armed.lease.files)
        if self._has_scratch:
            clear(self._session.store, self._open.operation_id)

    def _drop_verdicts(self) -> None:
        """Forget what was rejected on another state."""
        self._drop_suspects()
        self._verdicts = Verdicts()

    def _drop_suspects(self) -> None:
        if self._suspects is not None:
            self._suspects.spool.close()
            self._suspects = None


def _find_rejected(batch: LoadBatch, suspects: SuspectRows, verdicts: Verdicts) -> dict[tuple[int, str], LeftOutRows]:
    """Return the excluded rows by split and type."""
    rejected = verdicts.list_left_out()
    for name, rows in batch.types.items():
        for split, ordinals in suspects.group_ordinals(name, np.flatnonzero(rows.is_excluded)).items():
            rejected[split, name] = LeftOutRows(ordinals.tobytes(), rejected.get((split, name), LeftOutRows()).key)
    return rejected
