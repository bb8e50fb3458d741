"""Simulated processes on the model: what each does through the commit package, and what it notes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.commit_plan import AdoptedTable, CommitPlan, Move, NewTable
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import MAIN, MAINTAIN, MergedFrom, SchemaRecord, TableRecord
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, initialise, publish, publish_or_replan
from omnigraph.commit.recovery import recover
from omnigraph.commit.requirements import RowsUnchanged, TableProvider, TableUnchanged, Violation, resolve_keys
from omnigraph.commit.row_changes import RowChange
from omnigraph.concurrency import create_thread
from omnigraph.errors import OmnigraphError
from omnigraph.ops.cleanup import CleanupCall, cleanup
from omnigraph.ops.open import heal
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.storage.layout import build_table_path
from omnigraph.storage.staging import StagedWrite, WriteKind
from schedules.healing import serve
from schedules.history import Attempt, History
from schedules.model_room import PAYLOADS, ModelHandles, ModelStorage, Room
from schedules.scheduler import Process, Scheduler, Task
from schedules.simulation import build_runtime

LISTS = ("node:L", "node:M")
TASK = "task"
"""How the names of tasks begin."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""What is virtual in a run on the model includes its date."""
SCHEMA = pa.schema([pa.field("id", pa.string()), pa.field("items", pa.string())])
OPTIONS = Options(
    heartbeat_seconds=10.0,
    lease_seconds=60.0,
    recovery_seconds=10_000.0,
    head_commits=6,
    sealed_fragments=2,
    manifest_versions=3,
    trim_every=3,
    publish_rounds=8,
    reserve_bytes=0,
    cache_bytes=1 << 20,
)
"""Small thresholds: a run seals, and versions of the manifest are few."""


@dataclass
class Run:
    """One run on the model."""

    scheduler: Scheduler
    room: Room
    history: History
    processes: list[Process] = field(default_factory=list)
    options: Options = OPTIONS
    clone: Room = field(default_factory=Room)
    """The place that clones are written to."""

    def open_session(self, process: Process) -> Session:
        """Return a handle of a process, before its first request."""
        number = self.processes.index(process) + 1 if process in self.processes else 99
        store = ModelStorage(self.room, self.scheduler, build_runtime(self.scheduler, self.options, number))
        return Session(store=store, handles=ModelHandles(store), log=ManifestLog(store))

    def add_process(self, name: str, *actors: "Actor") -> Process:
        """Add a process whose threads share a handle."""
        process = Process(name)
        self.processes.append(process)
        shared: list[Session] = []

        def start(actor: Actor, task: str) -> Callable[[], None]:
            def live() -> None:
                if not shared:
                    shared.append(self.open_session(process))
                actor(self, shared[0], task)

            return live

        for number, actor in enumerate(actors):
            task = name if not number else f"{name}{number + 1}"
            self.scheduler.spawn(process, task, start(actor, task))
        return process

    def add_task(self, number: int, work: Callable[[Process], None]) -> Task:
        """Add a process of one thread while others run: a task of a distributed load, which need not end."""
        process = Process(f"{TASK}{number}")
        self.processes.append(process)
        return self.scheduler.spawn(process, process.name, lambda: work(process), is_daemon=True)


Actor = Callable[[Run, Session, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListsUnchanged(RowsUnchanged):
    """RowsUnchanged for lists of the model."""

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """See RowsUnchanged."""
        before, after = (read_rows(tables.open_table(self.table_key)) for tables in (base, now))
        keys = resolve_keys(self.ids).to_pylist()
        changed = [key for key in keys if before.get(key) != after.get(key)]
        return Violation(self.table_key, f"{changed} changed") if changed else None


Lists = Mapping[str, tuple[str, ...]]
"""Lists by their keys."""


def read_rows(table: object) -> Lists:
    """Return the lists of an open table."""
    handles: ModelHandles = table.handles  # type: ignore[attr-defined]
    return handles.read(table.path, table.version).rows  # type: ignore[attr-defined]


def build_room(options: Options = OPTIONS) -> Room:
    """Return the room of a new graph with empty tables of lists."""
    from schedules.strategies import FaultPlan, RandomStrategy

    room = Room()
    scheduler = Scheduler(RandomStrategy(0, FaultPlan(())), BEGIN)
    store = ModelStorage(room, scheduler, build_runtime(scheduler, options, 0))
    tables = [
        NewTable(
            record=TableRecord(table_key=key, path=build_table_path("node", key[-1]), identity=number), schema=SCHEMA
        )
        for number, key in enumerate(LISTS, 1)
    ]
    initialise(store, tables, SchemaRecord(id="s1", source="lists", catalog="{}", fingerprint="f1"), "test")
    return room


# --- writes ------------------------------------------------------------------------------------------------


def stage(session: Session, table_key: str, head: Head, rows: Lists) -> StagedWrite:
    """Write the file of new lists."""
    store = session.store
    assert isinstance(store, ModelStorage)
    pin = head.snapshot.pins[table_key]
    name = f"{store.runtime.ids.ulid()}.lance"
    key = f"{pin.path}/data/{name}"
    PAYLOADS[key] = dict(rows)
    store.write_model(key, dict(rows))
    return StagedWrite(
        change=WriteKind.UPSERT,
        path=pin.path,
        base=pin.version,
        written=(json.dumps({"id": 0, "files": [{"path": name}]}),),
        keys=pa.array(list(rows), pa.string()),
        base_rows=pin.rows,
    )


@dataclass(frozen=True, slots=True)
class Append:
    """Append to lists what they lead to: places are `table/key`; the first `writes` of them are written."""

    places: tuple[str, ...]
    writes: int = 1
    is_large: bool = False
    """Whether it has a sidecar, if it writes several tables."""
    is_armed: bool = False
    """Whether its sidecar comes before its first file."""
    key: str | None = None
    """An idempotency key; an unknown outcome is then resolved by sending it again."""
    branch: str = MAIN
    times: int = 1
    pause: float = 0.0
    is_compacted: bool = False
    """Whether a thread of its process rewrites its first table after each write, as the keeper of tails does."""

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Run the transactions one after the other."""
        for number in range(self.times):
            if self.pause:
                session.runtime.clock.sleep(self.pause)
            attempt = run.history.begin(
                f"{name}.{number}", {place: f"{name}.{number}-{place[-3:]}" for place in self.places[: self.writes]}
            )
            tries = 3 if self.key else 1
            if self.key is not None:
                run.history.keyed.append(attempt)
            for last in range(tries - 1, -1, -1):
                try:
                    self._run(session.checkout(self.branch), attempt)
                except OutcomeUnknownError as error:
                    run.history.end(attempt, "unknown", str(error))
                    if last:
                        continue
                except OmnigraphError as error:
                    # With a key, an earlier try may have been committed.
                    told = "unknown" if attempt.outcome == "unknown" and attempt.reason else "fail"
                    run.history.end(attempt, told, repr(error))
                else:
                    run.history.end(attempt, "unknown" if attempt.is_repeated else "ok")
                    if self.is_compacted:
                        self._compact(session)
                break

    def _compact(self, session: Session) -> None:
        table = self.places[0].partition("/")[0]
        there = session.checkout(self.branch)
        create_thread(lambda: _tolerate(lambda: rewrite(there, table, MAINTAIN)), "tail", daemon=True).start()

    def _run(self, session: Session, attempt: Attempt) -> None:
        head = session.cached_head()
        armed = None
        if self.is_armed:
            armed = arm(session.log, head, operation="append", actor="test")
        try:
            plan = self._plan(session, attempt, head, armed)
        except BaseException as error:
            if armed is not None:
                abandon(session.log, armed, armed.lease.files, error)
            raise
        replan = None if armed is not None else lambda newer: self._plan(session, attempt, newer, None)
        done = publish_or_replan(session.log, session.handles, plan, armed, replan)
        assert done is not None
        # Another request with its key may be the one that was committed.
        attempt.is_repeated = done.is_repeated
        # Not what its last run read: an earlier run may be the one that was committed.
        attempt.reads = done.answer if isinstance(done.answer, dict) else {}

    def _plan(self, session: Session, attempt: Attempt, head: Head, armed: ArmedWrite | None) -> CommitPlan:
        tables = session.open_tables(head.snapshot)
        read: dict[str, Mapping[str, tuple[str, ...]]] = {}
        attempt.reads = {}
        written: dict[str, dict[str, tuple[str, ...]]] = {}
        for place in self.places:
            table, _, key = place.partition("/")
            if table not in read:
                read[table] = read_rows(tables.open_table(table))
            attempt.reads[place] = list(read[table].get(key, ()))
            if place in attempt.appends:
                rows = written.setdefault(table, {})
                rows[key] = (*attempt.reads[place], attempt.appends[place])
        moves = []
        for table, rows in written.items():
            staged = stage(session, table, head, rows)
            if armed is not None:
                armed.lease.add_files(staged.files)
            change = None if self.is_large else RowChange(ids=frozenset(rows), rows=None, is_fresh=False)
            moves.append(Move(table_key=table, staged=staged, change=change))
        needs: dict[str, list[str]] = {}
        for place in self.places:
            needs.setdefault(place.partition("/")[0], []).append(place.partition("/")[2])
        return CommitPlan(
            base=head,
            operation="append",
            actor="test",
            moves=tuple(moves),
            requirements=tuple(ListsUnchanged(table_key=table, ids=ids) for table, ids in needs.items()),
            answer=attempt.reads,
            idempotency_key=self.key,
            request=None if self.key is None else self.key,
        )


@dataclass(frozen=True, slots=True)
class Read:
    """Read lists in one snapshot, some times."""

    places: tuple[str, ...]
    times: int = 2
    branch: str = MAIN

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Read."""
        for number in range(self.times):
            attempt = run.history.begin(f"{name}.{number}", {})
            try:
                tables = session.open_tables(session.checkout(self.branch).head().snapshot)
                reads = {
                    place: list(read_rows(tables.open_table(place.partition("/")[0])).get(place.partition("/")[2], ()))
                    for place in self.places
                }
            except OmnigraphError as error:
                run.history.end(attempt, "fail", repr(error))
            else:
                attempt.reads = reads
                run.history.end(attempt, "ok")


# --- the others --------------------------------------------------------------------------------------------


def _tolerate(call: Callable[[], object]) -> bool:
    """Return whether a call did what it should; an error of ours is an answer too."""
    try:
        call()
    except OmnigraphError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Recover:
    """Look for dead operations some times, a lease apart."""

    times: int = 2
    spares_live: bool = False
    pause: float = 61.0

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Recover."""
        del run, name
        for _ in range(self.times):
            run_clock = session.runtime.clock
            run_clock.sleep(self.pause)
            if self.spares_live:
                _tolerate(lambda: heal(session, session.head(), spares_live=True))
            else:
                _tolerate(lambda: recover(session.store, session.log))


@dataclass(frozen=True, slots=True)
class Serve:
    """Serve the graph, with a healer."""

    every_seconds: float = 61.0
    seconds: float = 130.0

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Serve it."""
        del run, name
        serve(session, self.every_seconds, self.seconds)


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Remove what no commit of the policy needs."""

    keep: int = 1
    grace_seconds: float = 0.0
    pause: float = 0.0

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Clean up."""
        del run, name
        if self.pause:
            session.runtime.clock.sleep(self.pause)
        call = CleanupCall(keep=self.keep, grace=timedelta(seconds=self.grace_seconds), is_confirmed=True)
        _tolerate(lambda: cleanup(session, call))


@dataclass(frozen=True, slots=True)
class Optimize:
    """Rewrite the files of a table into one."""

    table: str = LISTS[0]

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Optimize."""
        del run, name
        _tolerate(lambda: rewrite(session, self.table, "optimize"))


def rewrite(session: Session, table_key: str, operation: str) -> None:
    """Rewrite the files of a table into one, as a commit of an operation."""
    head = session.head()
    pin = head.snapshot.pins[table_key]
    store = session.store
    assert isinstance(store, ModelStorage)
    file = f"{store.runtime.ids.ulid()}.lance"
    store.write_model(f"{pin.path}/data/{file}", {})
    group = {"read": [], "written": [{"files": [{"path": file}]}], "new": []}
    staged = StagedWrite(
        change=WriteKind.REWRITE,
        path=pin.path,
        base=pin.version,
        base_rows=pin.rows,
        rewrites=(json.dumps(group),),
        origin=pin.version,
    )
    plan = CommitPlan(
        base=head,
        operation=operation,
        actor="test",
        moves=(Move(table_key=table_key, staged=staged),),
    )
    publish(session.log, session.handles, plan)


@dataclass(frozen=True, slots=True)
class ApplySchema:
    """Add a type, which relies on the lists of a table."""

    label: str = "N"

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Apply a schema."""
        del run
        _tolerate(lambda: self._run(session, name))

    def _run(self, session: Session, name: str) -> None:
        head = session.head()
        number = len(head.snapshot.manifest.old_schemas) + 2
        record = TableRecord(table_key=f"node:{self.label}", path=build_table_path("node", self.label), identity=9)
        plan = CommitPlan(
            base=head,
            operation="schema",
            actor="test",
            schema=SchemaRecord(id=f"s{number}{name}", source=name, catalog="{}", fingerprint=name),
            new_tables=(NewTable(record=record, schema=SCHEMA),),
            requirements=(TableUnchanged(table_key=LISTS[1]),),
        )
        publish(session.log, session.handles, plan)


@dataclass(frozen=True, slots=True)
class CreateBranch:
    """Create a branch, and run another actor on it."""

    branch: str
    then: "Actor | None" = None

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Create it."""

        def create() -> None:
            head = session.head()
            draft = session.branches.draft(self.branch, session.log, head.snapshot, "test")
            run.history.created.append(self.branch)
            session.branches.register(draft)

        if _tolerate(create) and self.then is not None:
            self.then(run, session, name)


@dataclass(frozen=True, slots=True)
class DeleteBranch:
    """Delete a branch."""

    branch: str

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Delete it."""
        del name
        run.history.gone.setdefault(self.branch, float("inf"))
        if _tolerate(lambda: session.branches.delete(self.branch)):
            run.history.gone[self.branch] = len(run.scheduler.trace)


@dataclass(frozen=True, slots=True)
class Merge:
    """Adopt a table of a branch that main has not changed since the fork."""

    branch: str
    table: str = LISTS[1]

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Merge."""
        del name
        promised: list[tuple[str, str, str]] = []
        if _tolerate(lambda: self._run(session, promised)):
            run.history.promised += promised

    def _run(self, session: Session, promised: list[tuple[str, str, str]]) -> None:
        source = session.checkout(self.branch)
        there = source.head()
        here = session.head()
        fork = there.snapshot.manifest.fork
        assert fork is not None
        table = self.table
        pin = there.snapshot.pins[table]
        commit = there.snapshot.commit
        plan = CommitPlan(
            base=here,
            operation="merge",
            actor="test",
            merged_parent=commit.id,
            merged_from=MergedFrom(branch=self.branch, path=source.log.path, seq=commit.seq),
            adopted={table: AdoptedTable(record=there.snapshot.manifest.tables[table], pin=pin)},
            requirements=(TableUnchanged(table_key=table),),
        )
        changed = [
            change.table_key
            for other in session.log.read_since(here, fork.seq)
            for change in other.changes
            if not other.is_maintenance
        ]
        if table in changed:
            return
        rows = read_rows(source.open_tables(there.snapshot).open_table(table))
        promised += [(MAIN, f"{table}/{key}", item) for key, items in rows.items() for item in items]
        publish(session.log, session.handles, plan)


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait, then run another actor."""

    seconds: float
    then: "Actor"

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Wait and run it."""
        session.runtime.clock.sleep(self.seconds)
        self.then(run, session, name)


@dataclass(frozen=True, slots=True)
class Chain:
    """Run actors one after the other."""

    actors: Sequence["Actor"]

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Run them."""
        for number, actor in enumerate(self.actors):
            actor(run, session, f"{name}:{number}")


@dataclass(frozen=True, slots=True)
class Tag:
    """Tag the newest state of main, and perhaps delete the tag again."""

    label: str
    is_deleted: bool = False

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Create the tag."""
        del run, name

        def create() -> None:
            session.branches.tags.create(self.label, session.head().snapshot, session.log, "test")

        if _tolerate(create) and self.is_deleted:
            _tolerate(lambda: session.branches.tags.delete(self.label))
