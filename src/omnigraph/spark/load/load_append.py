"""The records of an append or overwrite on Spark: staged while they are read, checked by ledger, published at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from omnigraph.commit.publisher import ArmedWrite, abandon
from omnigraph.commit.requirements import Requirement
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
from omnigraph.spark.load.load_state import StagedLoad, sum_fragment_rows
from omnigraph.spark.load.load_task import HandOverWork, SplitResult, StageWork
from omnigraph.spark.load.recheck import FetchedRows, SuspectCheck, SuspectRows, Suspects
from omnigraph.spark.load.task_phases import Phases
from omnigraph.storage.fragment_writer import list_fragment_files
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.staging import WriteKind, stage_fragments


class SparkRecords:
    """The records of a load on Spark. Close it, and nothing is left but what was published."""

    def __init__(self, session: Session, input_: SparkInput, jobs: LoadJobs) -> None:
        self._session, self._input, self._jobs = session, input_, jobs
        self._call = input_.call
        self._scratch = TempDirectory("omnigraph-load-")
        self.rejects = UnreadableRecords(self._scratch.directory if self._call.on_error is not None else None, {})
        self.unreadable: set[str] = set()
        """The types of which records were refused while they were read."""
        self.export: str | None = None
        """See Records."""
        self.armed: ArmedWrite | None = None
        self._phases: Phases | None = None
        self.staged = StagedLoad()
        self._known: dict[str, int] = {}
        """Of an overwrite, how many ids of each type are committed ones."""
        self._suspects: SuspectRows | None = None

    @property
    def schema_id(self) -> str:
        """See Records."""
        return self._input.schema_id

    @property
    def inputs(self) -> InputNames:
        """See Records."""
        return self._input.inputs

    @property
    def is_repeatable(self) -> bool:
        """See Records."""
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
        """See Records. The rows are staged while they are read."""
        self.armed, self._phases = self._input.begin(keeps_staged=True)
        with self._open.open_phase() as phase:
            done = self._jobs.run_splits(self._input.spec, phase.number, StageWork(), doing="read", is_first=True)
            self.unreadable = self._input.take_over(done, self.rejects)
            self.export = self._input.export
            self.staged = StagedLoad({one.split: one for one in done})
            phase.keep(self._list_staged_files(done))

    # --- checking --------------------------------------------------------------------------------------

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """See Records: the batch holds the rows under suspicion."""
        self._drop_suspects()
        self._restage({})
        replaced = self._find_replaced(leaves_out=leaves_out)
        suspects = Suspects()
        while True:
            batch = self._check_replacing(view, replaced, suspects, leaves_out=leaves_out)
            goes = frozenset(name for name in replaced if batch.types[name].replaces_all)
            if goes == replaced:
                return batch
            # Every record of a type was refused, so its committed rows stay: the ledger has to be about them, too.
            self._drop_suspects()
            replaced = goes

    def _check_replacing(
        self, view: View, replaced: frozenset[str], suspects: Suspects, *, leaves_out: bool
    ) -> LoadBatch:
        """The batch, when the committed rows of these types go; with the suspects that there are already."""
        loaded = self.loaded
        spec = replace(
            self._input.spec, pins={key: (pin.path, str(pin.version)) for key, pin in view.snapshot.pins.items()}
        )
        rules = KeyRules(
            loaded=frozenset(loaded),
            replaced=replaced,
            is_append=self._call.mode is LoadMode.APPEND,
            generated=frozenset(name for name in loaded if self.staged.has_generated_ids(name)),
        )
        units, keys = plan_key_sources(view, rules, self.staged)
        judged = self._jobs.find_suspicious_keys(spec, units, rules, keys)
        self._known = {name: int(judged.pop(f"{KNOWN}/{name}", np.zeros(1)).sum()) for name in loaded}
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
            fetch=self._fetch_rows,
        )
        suspects.merge(Suspects.from_hashes(judged, view.catalog))
        has_any = bool(suspects.missing or any(len(one) for one in suspects.hashes.values()))
        batch, self._suspects = check.run(suspects) if has_any else check.build_empty()
        return batch

    def _find_replaced(self, *, leaves_out: bool) -> frozenset[str]:
        """The types whose committed rows go: not one of which every record is bad."""
        if self._call.mode is not LoadMode.OVERWRITE:
            return frozenset()
        all_bad = {name for name in self.unreadable if leaves_out and not self.staged.count_rows(name)}
        return frozenset(self.loaded) - all_bad

    def _fetch_rows(self, wanted: WantedKeys) -> Mapping[str, Sequence[FetchedRows]]:
        """The wanted rows of all splits."""
        found: dict[str, list[FetchedRows]] = {}
        with self._open.open_phase() as phase:
            done = self._jobs.run_splits(self._input.spec, phase.number, HandOverWork(wanted=wanted), doing="check")
            self.staged.check_same(done, self._input.find_name)
            for name, rows in self._input.iter_fetched(done):
                found.setdefault(name, []).append(rows)
        return found

    def compare(self, batch: LoadBatch) -> None:
        """See Records: nothing is compared but in a merge."""

    def count_changes(self, rows: TypeBatch) -> TypeCounts:
        """See Records."""
        name = rows.type.name
        read = self.staged.count_rows(name) - int(rows.is_excluded.sum())
        if self._call.mode is LoadMode.APPEND:
            return TypeCounts(read=read, inserted=read)
        there = rows.read_ids().filter(rows.exists) if rows.exists.any() else rows.read_ids().slice(0, 0)
        known = self._known[name] - len(there.unique()) + int((rows.exists & ~rows.is_excluded).sum())
        deleted = rows.table.count() - known if rows.replaces_all else 0
        return TypeCounts(read=read, inserted=read - known, updated=known, deleted=deleted)

    # --- writing ---------------------------------------------------------------------------------------

    def build_writes(self, batch: LoadBatch) -> Sequence[TableWrite]:
        """See Records: what is staged, without what was refused."""
        self._call.report_progress("write", sum(self.staged.count_rows(name) for name in self.loaded))
        assert self._suspects is not None  # noqa: S101 - `checked` comes first
        self._restage(_find_refused(batch, self._suspects))
        found: list[TableWrite] = []
        change = WriteKind.OVERWRITE if self._call.mode is LoadMode.OVERWRITE else WriteKind.APPEND
        for rows in (*batch.list_node_batches(), *batch.list_edge_batches()):
            fragments = self.staged.list_fragments(rows.type.name)
            if fragments or (rows.replaces_all and rows.table.count()):
                staged = stage_fragments(rows.table, change, fragments, sum_fragment_rows(fragments))
                found.append(TableWrite(table_key=rows.type.table_key, staged=staged))
        self._call.report_progress("publish", sum(self.staged.count_rows(name) for name in self.loaded))
        return found

    def build_requirements(self, batch: LoadBatch) -> Sequence[Requirement]:
        """See Records."""
        return build_requirements(batch, self.staged)

    def _restage(self, left_out: Mapping[tuple[int, str], bytes]) -> None:
        """Write the rows of those splits and types anew of which other rows are left out than so far."""
        now = self.staged.left_out
        changed = {key: left_out.get(key, b"") for key in {*now, *left_out} if now.get(key) != left_out.get(key)}
        if not changed:
            return
        only: dict[int, set[str]] = {}
        without: dict[int, dict[str, bytes]] = {}
        for (split, name), ordinals in changed.items():
            only.setdefault(split, set()).add(name)
            without.setdefault(split, {})[name] = ordinals
        work = StageWork(left_out=without, only={split: frozenset(names) for split, names in only.items()})
        with self._open.open_phase() as phase:
            done = self._jobs.run_splits(self._input.spec, phase.number, work, doing="write")
            self.staged.check_same(done, self._input.find_name, only)
            phase.keep(self._list_staged_files(done))
            replaced = self.staged.replace(done, changed)
        for name, fragments in replaced.items():
            for file in self._list_fragment_files(name, fragments):
                self._session.store.objects.delete(file)

    def _list_staged_files(self, done: Sequence[SplitResult]) -> list[str]:
        return [
            file
            for one in done
            for name, told in one.types.items()
            for file in self._list_fragment_files(name, told.fragments)
        ]

    def _list_fragment_files(self, name: str, fragments: Sequence[str]) -> Sequence[str]:
        key = self._input.get_type(name).table_key
        path, version = self._input.spec.pins[key]
        return list_fragment_files(LanceTable(self._session.handles, path, int(version)), fragments)

    # --- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """See Records."""
        self.rejects.close()
        self._drop_suspects()
        self._scratch.close()
        self._input.close()
        if self.armed is not None and self.armed.lease.is_running:  # else it was published, or recovery decides
            abandon(self._session.log, self.armed, self.armed.lease.files)

    def _drop_suspects(self) -> None:
        if self._suspects is not None:
            self._suspects.spool.close()
            self._suspects = None


def _find_refused(batch: LoadBatch, suspects: SuspectRows) -> dict[tuple[int, str], bytes]:
    """By split and type, the ordinals of the rows that are out."""
    found: dict[tuple[int, str], bytes] = {}
    for name, rows in batch.types.items():
        for split, ordinals in suspects.group_ordinals(name, np.flatnonzero(rows.is_excluded)).items():
            found[split, name] = ordinals.tobytes()
    return found
