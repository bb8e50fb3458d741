"""Real operations on a real graph in a directory, by simulated processes: Lance does what it does, in memory files."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Durability, Maintenance, Options, UpkeepOptions
from omnigraph.runtime import Runtime
from omnigraph.storage.local_object_store import LocalObjectStore
from omnigraph.storage.object_store import ObjectInfo, StoredObject, StoreUnavailableError
from race.jobs import LIST_SCHEMA
from schedules.history import History
from schedules.scheduler import Process, Scheduler, Step, StepError, Task
from schedules.simulation import build_runtime

T = TypeVar("T")
OPTIONS = Options(
    durability=Durability.OS,
    heartbeat_seconds=10.0,
    lease_seconds=60.0,
    recovery_seconds=10_000.0,
    head_commits=6,
    sealed_fragments=2,
    manifest_versions=3,
    trim_every=3,
    publish_rounds=8,
    reserve_bytes=0,
    cache_bytes=1 << 28,
    maintenance=Maintenance.AUTO,
    upkeep=UpkeepOptions(merged_fragments=2, tail_fragments=3, concurrency=1),
    derived_cache=False,
)


@dataclass
class Disk:
    """The directory of a graph, and when each file was written by the virtual clock.

    Files carry real times. A file that was not there when the clock last jumped was written since.
    """

    root: Path
    scheduler: Scheduler
    times: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)

    def note_all(self) -> None:
        """Note the time of all files that exist now."""
        for directory, _, names in os.walk(self.root):
            for name in names:
                path = f"{directory}/{name}"
                with suppress(FileNotFoundError):
                    written = datetime.fromtimestamp(os.stat(path).st_mtime, UTC)  # noqa: PTH116 - there are many
                    self._note(os.path.relpath(path, self.root), written)

    def translate(self, info: ObjectInfo) -> ObjectInfo:
        """Return a listed file with its virtual time."""
        return replace(info, modified=self._note(info.key, info.modified))

    def list_files(self) -> frozenset[tuple[str, int]]:
        """Return all files by their keys, each with a number that another file does not have."""
        found = []
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            with os.scandir(self.root / prefix) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{prefix}{entry.name}/")
                    else:
                        found.append((f"{prefix}{entry.name}", entry.inode()))
        return frozenset(found)

    def forget(self, key: str) -> None:
        """Forget the time of a file that is written again."""
        self.times.pop(key, None)

    def _note(self, key: str, written: datetime) -> datetime:
        known = self.times.get(key)
        if known is None or known[0] != written:
            known = self.times[key] = written, self.scheduler.now
        return known[1]


class ScheduledObjects(LocalObjectStore):
    """The control objects of one process, on the disk."""

    def __init__(self, disk: Disk, runtime: Runtime) -> None:
        super().__init__(str(disk.root), is_durable=False, clock=runtime.clock)
        self._disk = disk

    def _request(self, label: str, key: str, act: Callable[[], T], *, writes: bool = False) -> T:
        step = Step(label, key, writes, is_request=True, is_on_key=True)
        scheduler = self._disk.scheduler
        try:
            fault = scheduler.reach(step)
            result = act()
            if writes:
                self._disk.forget(key)
            scheduler.finish(fault)
        except StepError as error:
            raise StoreUnavailableError(step.label, "a fault was injected") from error
        return result

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        stored = self._request("get", key, lambda: LocalObjectStore.get(self, key))
        return replace(stored, info=self._disk.translate(stored.info))

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        info = self._request("look up", key, lambda: LocalObjectStore.stat(self, key))
        return None if info is None else self._disk.translate(info)

    def put(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        return self._request("put", key, lambda: LocalObjectStore.put(self, key, data), writes=True)

    def put_if_absent(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        return self._request("create", key, lambda: LocalObjectStore.put_if_absent(self, key, data), writes=True)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """See ObjectStore."""
        return self._request("replace", key, lambda: LocalObjectStore.put_if_match(self, key, data, etag), writes=True)

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        self._request("delete", key, lambda: LocalObjectStore.delete(self, key), writes=True)

    def delete_if_match(self, key: str, etag: str) -> None:
        """See ObjectStore."""
        self._request("delete", key, lambda: LocalObjectStore.delete_if_match(self, key, etag), writes=True)

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore."""
        infos = self._request("list", f"{prefix}/", lambda: LocalObjectStore.list_under(self, prefix))
        return [self._disk.translate(info) for info in infos]


@dataclass
class LanceRun:
    """One run on a graph of lists."""

    scheduler: Scheduler
    disk: Disk
    history: History
    processes: list[Process] = field(default_factory=list)
    options: Options = OPTIONS
    first_number: int = 0
    """What the numbers of processes begin after: their ids differ from those of an earlier run on the same graph."""
    changes: dict[int, frozenset[str]] | None = None
    """The files that each call of Lance has written or removed, by the number of its step; None if nobody asks."""

    @property
    def clone_uri(self) -> str:
        """The place that a clone is written to."""
        return f"{self.disk.root}-clone"

    def add_task(self, number: int, work: Callable[[Process], None]) -> Task:
        """Add a process of one thread while others run: a task of a distributed load, which need not end."""
        process = Process(f"task{number}")
        self.processes.append(process)
        return self.scheduler.spawn(process, process.name, lambda: work(process), is_daemon=True)

    def open_session(self, process: Process) -> Session:
        """Open the graph in a process; dead operations are recovered first, as ever."""
        number = self.processes.index(process) + 1 if process in self.processes else 99
        runtime = build_runtime(self.scheduler, self.options, number + self.first_number)
        return open_session(str(self.disk.root), is_read_only=False, runtime=runtime)

    def add_process(self, name: str, *actors: "LanceActor") -> Process:
        """Add a process whose threads share a handle."""
        process = Process(name)
        self.processes.append(process)
        shared: list[Session] = []

        def start(actor: LanceActor, task: str) -> Callable[[], None]:
            def live() -> None:
                if not shared:
                    try:
                        shared.append(self.open_session(process))
                    except StoreUnavailableError:
                        return
                actor(self, shared[0], task)

            return live

        for number, actor in enumerate(actors):
            task = name if not number else f"{name}{number + 1}"
            self.scheduler.spawn(process, task, start(actor, task))
        return process

    @contextmanager
    def announce(self, target: str) -> Iterator[None]:
        """Hand over before and after a call of Lance."""
        step = Step(f"call Lance for a {target}", "lance", writes=True, is_request=True)
        try:
            fault = self.scheduler.reach(step)
        except StepError as error:
            raise StoreUnavailableError(step.label, "a fault was injected") from error
        number = len(self.scheduler.trace) - 1
        before = self.disk.list_files() if self.changes is not None else frozenset()
        yield
        if self.changes is not None:
            self.changes[number] = frozenset(key for key, _ in before ^ self.disk.list_files())
        try:
            self.scheduler.finish(fault)
            self.scheduler.reach(Step(f"return from Lance for a {target}"))
        except StepError as error:
            raise StoreUnavailableError(step.label, "a fault was injected") from error

    @contextmanager
    def stored(self) -> Iterator[None]:
        """Let graphs below the disk be stored through it inside the block."""
        from omnigraph.storage import graph_storage

        original = graph_storage._open_local_objects

        def open_objects(location: object, runtime: Runtime) -> LocalObjectStore | None:
            if str(location.path) != str(self.disk.root):  # type: ignore[attr-defined]
                return original(location, runtime)  # type: ignore[arg-type]
            return ScheduledObjects(self.disk, runtime)

        # Lance goes by real times when it removes old versions, of which none is a minute old here.
        with (
            patch("omnigraph.storage.graph_storage._open_local_objects", open_objects),
            patch("omnigraph.commit.manifest_log.TRIM_AGE", timedelta()),
        ):
            yield


LanceActor = Callable[[LanceRun, Session, str], None]


def build_template(directory: Path) -> Path:
    """Create the graph that every run begins with a copy of."""
    root = directory / "template"
    options = replace(OPTIONS, maintenance=Maintenance.OFF)
    create(str(root), Source(LIST_SCHEMA, "lists.pg"), actor="test", runtime=Runtime(options=options))
    return root


@contextmanager
def copied(template: Path, scheduler: Scheduler) -> Iterator[Disk]:
    """Copy the template for one run, and remove the copy after it."""
    root = template.parent / f"run-{os.getpid()}"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(template, root)
    disk = Disk(root, scheduler)
    scheduler.on_jump = disk.note_all
    # What is there was written long ago.
    disk.note_all()
    disk.times = {key: (written, then - timedelta(hours=1)) for key, (written, then) in disk.times.items()}
    try:
        yield disk
    finally:
        shutil.rmtree(root, ignore_errors=True)
