"""The records of an append or overwrite on Spark: staged while they are read, checked by ledger, published at once."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import Armed, abandon, arm
from omnigraph.commit.requirement import Requirement
from omnigraph.engine.bulk.incoming import Batch, Incoming, LoadMode
from omnigraph.engine.bulk.quarantine import Rejects
from omnigraph.engine.bulk.refusals import Inputs
from omnigraph.engine.bulk.scratch import Scratch
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.view import View
from omnigraph.ops.load import OPERATION
from omnigraph.ops.load_call import LoadCall, TypeCounts
from omnigraph.ops.load_inputs import expand_inputs
from omnigraph.ops.load_reading import is_repeatable, unit_of
from omnigraph.ops.session import Session
from omnigraph.ops.write import TableWrite
from omnigraph.schema.codec import encode_catalog
from omnigraph.spark.keys import Wanted
from omnigraph.spark.ledger import KNOWN, Ledger, Rules, Unit
from omnigraph.spark.load_jobs import LoadJobs
from omnigraph.spark.load_spec import FRAME_SPLITS, JOB_BITS, FrameSource, LoadSpec
from omnigraph.spark.phases import Phases
from omnigraph.spark.pieces import piece_rows
from omnigraph.spark.relied_on import relied_on
from omnigraph.spark.splits import lines_before, plan_splits, spooled
from omnigraph.spark.staged_load import StagedLoad, total_rows
from omnigraph.spark.suspects import Fetched, SuspectCheck, SuspectRows, Suspects
from omnigraph.spark.task import Done, HandingOver, Staging, decode_rejected
from omnigraph.storage.staged_rows import fragment_files
from omnigraph.storage.staging import Change, stage_fragments

COMMITTED_ROWS = 4_000_000
"""How many committed rows one task reads the keys of."""


class SparkRecords:
    """The records of a load on Spark. Close it, and nothing is left but what was published."""

    def __init__(
        self,
        spark: SparkSession,
        session: Session,
        call: LoadCall,
        head: Head,
        frames: Sequence[tuple[FrameSource, DataFrame]] = (),
        *,
        split_bytes: int | None = None,
        local_keys: int | None = None,
    ) -> None:
        self._session, self._call, self._head = session, call, head
        self._split_bytes = split_bytes
        jobs = LoadJobs(spark, call, frames)
        self._jobs = jobs if local_keys is None else replace(jobs, local_keys=local_keys)
        self._catalog = session.catalog(head.snapshot)
        self.schema_id = head.snapshot.manifest.schema.id
        self._given = expand_inputs(
            call.input, self._catalog, is_partial=call.mode is LoadMode.MERGE, blobs=session.blob_sources
        )
        self._frames = [source for source, _ in frames]
        self._names = [one.name for one in self._given]
        self._units = [unit_of(one) for one in self._given]
        self._files: dict[int, int] = {}
        """By split, the number of its input."""
        self._before: dict[int, int] = {}
        """By split, the lines that its input has before it."""
        self._scratch = Scratch("omnigraph-load-")
        numbers = {name: number for number, name in reversed(list(enumerate(self._names)))}
        self._numbers = numbers
        self.rejects = Rejects(self._scratch.directory if call.on_error is not None else None, numbers)
        self.unreadable: set[str] = set()
        self.armed: Armed | None = None
        self._phases: Phases | None = None
        self._spec: LoadSpec | None = None
        self.staged = StagedLoad()
        self._known: dict[str, int] = {}
        self._suspects: SuspectRows | None = None

    @property
    def inputs(self) -> Inputs:
        """See Records."""
        return Inputs(tuple(self._names), tuple(self._units))

    @property
    def is_repeatable(self) -> bool:
        """See Records."""
        return is_repeatable(self._given)

    @property
    def spec(self) -> LoadSpec:
        """What tasks are told."""
        assert self._spec is not None  # noqa: S101 - `read` comes first
        return self._spec

    @property
    def phases(self) -> Phases:
        """The phases of the job."""
        assert self._phases is not None  # noqa: S101 - `read` comes first
        return self._phases

    @property
    def loaded(self) -> list[str]:
        """The types that the load has rows of, or names."""
        named = [one.type.name for one in self._given if one.type is not None]
        return list(dict.fromkeys([*named, *(one.type for one in self._frames), *self.staged.types]))

    # --- reading ---------------------------------------------------------------------------------------

    def read(self) -> None:
        """See Records. The rows are staged while they are read."""
        self._begin()
        with self.phases.opened() as phase:
            done = self._jobs.work(self.spec, phase.number, Staging(), doing="read")
            self._take_over(done)
            phase.keep(self._staged_files(done))

    def _begin(self) -> None:
        session, call = self._session, self._call
        inputs = spooled(self._given, self._scratch.directory)
        splits = (
            plan_splits(inputs) if self._split_bytes is None else plan_splits(inputs, target_bytes=self._split_bytes)
        )
        self.armed = arm(session.log, self._head, operation=OPERATION, actor=call.actor, keeps_staged=True)
        self._phases = Phases(session.store, self.armed)
        now = int(session.runtime.clock.now().timestamp() * 1000)
        self._spec = LoadSpec(
            uri=session.uri,
            storage=tuple(sorted((session.store.lance_options or {}).items())),
            operation_id=self._phases.operation_id,
            catalog=encode_catalog(self._catalog),
            pins=_pins(self._head),
            blobs=session.blob_sources,
            inputs=tuple(inputs),
            units=tuple(self._units),
            splits=tuple(splits),
            keeps_left_out=call.mode is LoadMode.MERGE or call.on_error is not None,
            seed=secrets.randbits(64),
            first_id=(now << JOB_BITS | secrets.randbits(JOB_BITS)) << (80 - JOB_BITS),
            faults=session.runtime.faults,
        )

    def _take_over(self, done: Sequence[Done]) -> None:
        """What the tasks say: lines, rejected records, rows."""
        by_split = {one.split: one for one in done}
        self.staged = StagedLoad(by_split)
        splits = self.spec.splits
        self._before = lines_before(splits, {split.number: by_split[split.number].lines for split in splits})
        self._files = {split.number: split.input for split in splits}
        for number in sorted(split for split in by_split if split >= FRAME_SPLITS):
            frame = self._frames[number // FRAME_SPLITS - 1]
            self._files[number], self._before[number] = len(self._names), 0
            self._names.append(frame.name_of(number - frame.first_split))
            self._units.append("row")
            self._numbers[self._names[-1]] = self._files[number]
        for number in sorted(by_split):
            self._take_rejects(by_split[number])
        self.unreadable |= self.rejects.types.keys()
        self.rejects.close()

    def _take_rejects(self, done: Done) -> None:
        if done.rejected is None:
            return
        name, before = self._names[self._files[done.split]], self._before[done.split]
        for one in decode_rejected(self._session.store.objects.get(done.rejected).data):
            error = RecordError(name, one.line + before, one.type, one.property, one.value, one.reason, one.unit)
            self.rejects.add(error, one.text, one.rule)
        if done.split < FRAME_SPLITS:
            type_ = self._given[self._files[done.split]].type
            if type_ is not None:
                self.unreadable.add(type_.name)

    # --- checking --------------------------------------------------------------------------------------

    def checked(self, view: View, *, leaves_out: bool) -> Batch:
        """See Records: the batch holds the rows under suspicion."""
        self._drop_suspects()
        self._restage({})
        loaded = self.loaded
        spec = replace(self.spec, pins={key: (pin.path, str(pin.version)) for key, pin in view.snapshot.pins.items()})
        rules = Rules(
            loaded=frozenset(loaded),
            replaced=self._replaced(leaves_out=leaves_out),
            is_append=self._call.mode is LoadMode.APPEND,
        )
        units, keys = self._units_of(view, rules)
        judged = self._jobs.judge(spec, units, rules, keys)
        self._known = {name: int(judged.pop(f"{KNOWN}/{name}", np.zeros(1)).sum()) for name in loaded}
        check = SuspectCheck(
            view=view,
            mode=self._call.mode,
            loaded=loaded,
            total={name: self.staged.rows(name) for name in loaded},
            inputs=lambda: self.inputs,
            seed=spec.seed,
            keeps_left_out=spec.keeps_left_out,
            leaves_out=leaves_out,
            unreadable=frozenset(self.unreadable),
            fetch=self._fetched,
        )
        suspects = Suspects.of(judged, view.catalog)
        has_any = bool(suspects.missing or any(len(one) for one in suspects.hashes.values()))
        batch, self._suspects = check.run(suspects) if has_any else check.nothing()
        return batch

    def _replaced(self, *, leaves_out: bool) -> frozenset[str]:
        """The types whose committed rows go: not one of which every record is bad."""
        if self._call.mode is not LoadMode.OVERWRITE:
            return frozenset()
        all_bad = {name for name in self.unreadable if leaves_out and not self.staged.rows(name)}
        return frozenset(self.loaded) - all_bad

    def _units_of(self, view: View, rules: Rules) -> tuple[list[Unit], int]:
        """What the ledger reads, and about how many keys that are."""
        plan = Ledger(view.catalog, rules).plan()
        units: list[Unit] = []
        keys = 0
        for name, roles in plan.staged.items():
            texts = self.staged.fragments(name)
            units += [Unit(type=name, roles=tuple(sorted(roles)), staged=text) for text in texts]
            keys += len(roles) * self.staged.rows(name)
        for name, roles in plan.committed.items():
            table = view.table(view.type(name))
            group: list[int] = []
            held = 0
            for fragment in table.fragments():
                if group and held + fragment.rows > COMMITTED_ROWS:
                    units.append(Unit(type=name, roles=tuple(sorted(roles)), committed=tuple(group)))
                    group, held = [], 0
                group.append(fragment.number)
                held += fragment.rows
                keys += len(roles) * (fragment.rows - fragment.deleted)
            if group:
                units.append(Unit(type=name, roles=tuple(sorted(roles)), committed=tuple(group)))
        return units, keys

    def _fetched(self, wanted: Wanted) -> Mapping[str, Sequence[Fetched]]:
        """The wanted rows of all splits."""
        found: dict[str, list[Fetched]] = {}
        objects = self._session.store.objects
        with self.phases.opened() as phase:
            done = self._jobs.work(self.spec, phase.number, HandingOver(wanted=wanted), doing="check")
            self.staged.check_same(done, {one.split: self._names[self._files[one.split]] for one in done})
            for one in done:
                for name, told in one.types.items():
                    if told.piece is None:
                        continue
                    data, type_ = objects.get(told.piece).data, self._catalog.type(name)
                    assert type_ is not None  # noqa: S101 - it was read by this catalog
                    for rows in piece_rows(type_, data, self._before[one.split]):
                        found.setdefault(name, []).append(Fetched(one.split, self._files[one.split], rows))
        return found

    def compare(self, batch: Batch) -> None:
        """See Records: nothing is compared but in a merge."""

    def counts(self, rows: Incoming) -> TypeCounts:
        """See Records."""
        name = rows.type.name
        read = self.staged.rows(name) - int(rows.is_out.sum())
        if self._call.mode is LoadMode.APPEND:
            return TypeCounts(read=read, inserted=read)
        there = rows.ids().filter(rows.exists) if rows.exists.any() else rows.ids().slice(0, 0)
        known = self._known[name] - len(there.unique()) + int((rows.exists & ~rows.is_out).sum())
        deleted = rows.table.count() - known if rows.replaces_all else 0
        return TypeCounts(read=read, inserted=read - known, updated=known, deleted=deleted)

    # --- writing ---------------------------------------------------------------------------------------

    def writes(self, batch: Batch) -> Sequence[TableWrite]:
        """See Records: what is staged, without what was refused."""
        self._call.tell("write", sum(self.staged.rows(name) for name in self.loaded))
        self._restage(self._refused(batch))
        found: list[TableWrite] = []
        change = Change.OVERWRITE if self._call.mode is LoadMode.OVERWRITE else Change.APPEND
        for rows in (*batch.node_rows(), *batch.edge_rows()):
            fragments = self.staged.fragments(rows.type.name)
            if fragments or (rows.replaces_all and rows.table.count()):
                staged = stage_fragments(rows.table, change, fragments, total_rows(fragments))
                found.append(TableWrite(table_key=rows.type.table_key, staged=staged))
        self._call.tell("publish", sum(self.staged.rows(name) for name in self.loaded))
        return found

    def requirements(self, batch: Batch) -> Sequence[Requirement]:
        """See Records."""
        return relied_on(batch, self.staged)

    def _refused(self, batch: Batch) -> dict[tuple[int, str], bytes]:
        """By split and type, the ordinals of the rows that are out."""
        assert self._suspects is not None  # noqa: S101 - `checked` comes first
        found: dict[tuple[int, str], bytes] = {}
        for name, rows in batch.types.items():
            for split, ordinals in self._suspects.places(name, np.flatnonzero(rows.is_out)).items():
                found[split, name] = ordinals.tobytes()
        return found

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
        work = Staging(left_out=without, only={split: frozenset(names) for split, names in only.items()})
        with self.phases.opened() as phase:
            files = sorted(split for split in only if split < FRAME_SPLITS)
            done = self._jobs.work(self.spec, phase.number, work, doing="write", numbers=files)
            self.staged.check_same(done, {one.split: self._names[self._files[one.split]] for one in done})
            phase.keep(self._staged_files(done))
            old = self._old_files(changed)
            self.staged.replace(done, changed)
        for file in old:
            self._session.store.objects.delete(file)

    def _old_files(self, changed: Mapping[tuple[int, str], bytes]) -> list[str]:
        found: list[str] = []
        for split, name in changed:
            found += self._fragment_files(name, self.staged.done[split].types[name].fragments)
        return found

    def _staged_files(self, done: Sequence[Done]) -> list[str]:
        return [
            file
            for one in done
            for name, told in one.types.items()
            for file in self._fragment_files(name, told.fragments)
        ]

    def _fragment_files(self, name: str, fragments: Sequence[str]) -> Sequence[str]:
        type_ = self._catalog.type(name)
        assert type_ is not None  # noqa: S101 - it was read by this catalog
        table = self._session.tables(self._head.snapshot).table(type_.table_key)
        return fragment_files(table, fragments)

    # --- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """See Records."""
        self.rejects.close()
        self._drop_suspects()
        self._scratch.close()
        if self.armed is not None and self.armed.lease.is_running:  # else it was published, or recovery decides
            abandon(self._session.log, self.armed, self._staged_files([*self.staged.done.values()]))

    def _drop_suspects(self) -> None:
        if self._suspects is not None:
            self._suspects.spool.close()
            self._suspects = None


def _pins(head: Head) -> dict[str, tuple[str, str]]:
    return {key: (pin.path, str(pin.version)) for key, pin in head.snapshot.pins.items()}
