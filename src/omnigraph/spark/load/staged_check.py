"""Check the staged rows of an append or overwrite: suspicious keys by a shuffle, then the rows that have them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode
from omnigraph.engine.view import View
from omnigraph.spark.load.key_hashes import WantedKeys
from omnigraph.spark.load.key_shuffle import KNOWN, LATER, KeyRules, plan_key_sources
from omnigraph.spark.load.left_out_rows import LeftOutRows
from omnigraph.spark.load.load_input import SparkInput
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_spec import LoadSpec
from omnigraph.spark.load.load_state import StagedLoad
from omnigraph.spark.load.load_task import CheckWork, HandOverWork, ListWork
from omnigraph.spark.load.recheck import FetchedRows, SuspectCheck, SuspectRows, Suspects
from omnigraph.spark.load.repeated_rows import ListedIds, RepeatedRows
from omnigraph.spark.load.separate_keys import SeparateKeys, SuspiciousKeys, can_separate
from omnigraph.spark.load.split_check import SeparateRules
from omnigraph.spark.load.task_phases import Phase, Phases
from omnigraph.spark.load.verdicts import Verdicts
from omnigraph.storage.graph_storage import GraphStorage


class StagedCheck:
    """Check all staged rows on a state; `close` forgets what was found."""

    def __init__(
        self,
        store: GraphStorage,
        input_: SparkInput,
        jobs: LoadJobs,
        staged: StagedLoad,
        phases: Phases,
        unreadable: set[str],
        restage: Callable[[Mapping[tuple[int, str], LeftOutRows]], None],
    ) -> None:
        self._store = store
        self._input = input_
        self._jobs = jobs
        self._mode = input_.call.mode
        self._staged = staged
        self._phases = phases
        # The types that have records which were rejected while they were read.
        self._unreadable = frozenset(unreadable)
        self._restage = restage
        # By split and type, the rows that have the id of an earlier row, if these are too many for the driver. That
        # depends on the input alone, so it holds on every state.
        self._repeats: dict[tuple[int, str], RepeatedRows] = {}
        # The rows that are not staged while the others are checked.
        self.left_out: dict[tuple[int, str], LeftOutRows] = {}
        # Of an overwrite, the number of ids of each type that are committed.
        self.known: dict[str, int] = {}
        self.suspects: SuspectRows | None = None
        self.verdicts = Verdicts()
        # Whether objects of tasks are kept until the load ends.
        self.has_scratch = False

    @property
    def loaded(self) -> list[str]:
        """The types that the load has rows of, or names."""
        return list(dict.fromkeys([*self._input.named_types, *self._staged.types]))

    def run(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """Check all rows on this state, and return a batch of the suspect rows with what is wrong."""
        self.close()
        replaced = self._find_replaced(leaves_out=leaves_out)
        suspects = Suspects()
        while True:
            batch = self._check_replacing(view, replaced, suspects, leaves_out=leaves_out)
            still_replaced = frozenset(name for name in replaced if batch.types[name].replaces_all)
            if still_replaced == replaced:
                return batch
            # All records of a type were rejected, so its committed rows stay: the shuffle has to include them.
            self.close()
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
            is_append=self._mode is LoadMode.APPEND,
            generated=frozenset(name for name in loaded if self._staged.has_generated_ids(name)),
            separates=can_separate(view.catalog, frozenset(loaded)),
        )
        suspicious = self._find_suspicious_keys(view, spec, rules)
        later = sum(suspicious.take_count(LATER, name) for name in loaded)
        limit = self._jobs.max_driver_suspects
        if not self._repeats and suspicious.separate.count + suspicious.repeated.count + later > limit and later:
            self._repeats = self._find_repeated_rows(spec, suspicious.repeated)
            if sum(map(len, suspicious.shared.values())) > limit:
                # Rows that repeat others share all of their keys: without them, few others may be left.
                self.left_out = {key: repeated.left_out for key, repeated in self._repeats.items()}
                self._restage(self.left_out)
                suspicious = self._find_suspicious_keys(view, spec, rules)
                for name in loaded:
                    suspicious.take_count(LATER, name)
        self.known = {name: suspicious.take_count(KNOWN, name) for name in loaded}
        suspects.merge(Suspects.from_hashes(suspicious.shared, view.catalog))
        # The first rows of repeated ids can be checked by themselves, once the others are left out.
        separate = suspicious.separate.combine(suspicious.repeated)
        if separate.count <= limit:
            suspects.add_separate(separate.read_all(self._read_object), view.catalog)
            separate = SeparateKeys()
        check = SuspectCheck(
            view=view,
            mode=self._mode,
            loaded=loaded,
            total={name: self._staged.count_rows(name) for name in loaded},
            inputs=lambda: self._input.inputs,
            seed=spec.seed,
            keeps_left_out=spec.keeps_left_out,
            leaves_out=leaves_out,
            unreadable=self._unreadable,
            fetch=partial(self._fetch_rows, suspects, separate),
        )
        return self._check_all(check, spec, rules, suspects, separate)

    def _find_suspicious_keys(self, view: View, spec: LoadSpec, rules: KeyRules) -> SuspiciousKeys:
        staged = {name: self._staged.list_fragments(name) for name in rules.loaded}
        sources, keys = plan_key_sources(view, rules, staged)
        if keys <= self._jobs.max_local_keys:
            return self._jobs.find_suspicious_keys(spec, sources, rules, keys)
        with self._phases.open_phase() as phase:
            suspicious = self._jobs.find_suspicious_keys(spec, sources, rules, keys, phase.number)
            self._keep_scratch(phase, suspicious.list_objects())
        return suspicious

    def _find_repeated_rows(self, spec: LoadSpec, repeated: SeparateKeys) -> dict[tuple[int, str], RepeatedRows]:
        """Return, by split and type, the rows that have the id of an earlier row."""
        with self._phases.open_phase() as phase:
            results = self._jobs.run_splits(spec, phase.number, ListWork(repeated=repeated), doing="check")
            self._staged.check_same(results, self._input.find_name)
            listed = [
                ListedIds(
                    type=name, split=result.split, key=chunk.key, lines_before=self._input.find_origin(result.split)[1]
                )
                for result in results
                for name, type_result in result.types.items()
                for chunk in type_result.chunks
            ]
            rows = sum(chunk.rows for result in results for one in result.types.values() for chunk in one.chunks)
            repeats = self._jobs.find_repeated_rows(spec, phase.number, listed, rows)
            self._keep_scratch(phase, [repeated.key for repeated in repeats.values()])
        return repeats

    def _check_all(
        self, check: SuspectCheck, spec: LoadSpec, rules: KeyRules, suspects: Suspects, separate: SeparateKeys
    ) -> LoadBatch:
        """Check rows with shared keys here, and those with separate keys in tasks, until both agree."""
        catalog = check.view.catalog
        while True:
            self._drop_suspects()
            has_any = bool(suspects.missing or any(len(hashes) for hashes in suspects.hashes.values()))
            batch, self.suspects = check.run(suspects) if has_any else check.build_empty()
            if not separate.count and not self._repeats:
                return batch
            self.verdicts = self._check_apart(spec, rules, suspects, separate)
            if separate.count and self.verdicts.gone > self._jobs.max_driver_suspects:
                # Edges lose so many nodes that the driver has to decide about all rows together.
                suspects.add_separate(separate.read_all(self._read_object), catalog)
                self.verdicts, separate = Verdicts(), SeparateKeys()
                check = replace(check, fetch=partial(self._fetch_rows, suspects, separate))
            elif not suspects.add_gone(self.verdicts.gone_hashes, catalog, check.loaded):
                self._take_rejected_off(batch)
                return batch

    def _check_apart(self, spec: LoadSpec, rules: KeyRules, suspects: Suspects, separate: SeparateKeys) -> Verdicts:
        """Check the rows with separate keys in the tasks that read them, less those that the driver decides about."""
        work = CheckWork(
            rules=SeparateRules(
                mode=self._mode,
                keys=separate,
                excluded=suspects.to_wanted(self.loaded),
                loaded=tuple(self.loaded),
                replaced=rules.replaced,
                repeats=self._repeats,
            )
        )
        with self._phases.open_phase() as phase:
            results = self._jobs.run_splits(spec, phase.number, work, doing="check")
            self._staged.check_same(results, self._input.find_name)
            verdicts = Verdicts.from_results(results)
            self._keep_scratch(phase, verdicts.list_objects())
        return verdicts

    def _take_rejected_off(self, batch: LoadBatch) -> None:
        """Count the rows that tasks have rejected out of those that the batch keeps."""
        for name, rows in batch.types.items():
            rejected = self.verdicts.count_rejected(name)
            if rejected and rows.rest is not None:
                rows.rest = replace(rows.rest, rows=rows.rest.rows - rejected)
                rows.has_unreadable = True

    def _keep_scratch(self, phase: Phase, keys: Sequence[str]) -> None:
        phase.keep_scratch(keys)
        self.has_scratch |= bool(keys)

    def _read_object(self, key: str) -> bytes:
        return self._store.objects.get(key).data

    def _find_replaced(self, *, leaves_out: bool) -> frozenset[str]:
        """Return the types whose committed rows are removed: none whose records are all unreadable."""
        if self._mode is not LoadMode.OVERWRITE:
            return frozenset()
        all_bad = {name for name in self._unreadable if leaves_out and not self._staged.count_rows(name)}
        return frozenset(self.loaded) - all_bad

    def _fetch_rows(
        self, suspects: Suspects, separate: SeparateKeys, wanted: WantedKeys
    ) -> Mapping[str, Sequence[FetchedRows]]:
        """Read all splits again, and return the requested rows by type; add their missing ends to `suspects`."""
        fetched: dict[str, list[FetchedRows]] = {}
        with self._phases.open_phase() as phase:
            left_out: dict[int, dict[str, LeftOutRows]] = {}
            for (split, name), repeated in self._repeats.items():
                left_out.setdefault(split, {})[name] = repeated.left_out
            work = HandOverWork(wanted=wanted, separate=separate if separate.count else None, left_out=left_out)
            results = self._jobs.run_splits(self._input.spec, phase.number, work, doing="check")
            self._staged.check_same(results, self._input.find_name)
            for name, rows in self._input.iter_fetched(results):
                fetched.setdefault(name, []).append(rows)
        for result in results:
            for type_result in result.types.values():
                for node, packed in type_result.missing.items():
                    suspects.add_missing(node, np.frombuffer(packed, np.uint64))
        return fetched

    def close(self) -> None:
        """Forget what was found on a state."""
        self._drop_suspects()
        self.verdicts = Verdicts()

    def _drop_suspects(self) -> None:
        if self.suspects is not None:
            self.suspects.spool.close()
            self.suspects = None
