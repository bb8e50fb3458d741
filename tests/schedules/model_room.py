"""A model of the storage package, for schedules of the commit package: objects and tables in memory.

`Room` is the disk, which all simulated processes share. A process reaches it through a `ModelStorage`.
`test_model_room.py` runs the same scripts on this and on Lance.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar, cast
from unittest.mock import patch

import pyarrow as pa

from omnigraph.runtime import Runtime
from omnigraph.storage.carried_rows import CarriedCache
from omnigraph.storage.cas_table_errors import SwapLostError, TableMissingError
from omnigraph.storage.graph_storage import GraphStorage, Interval
from omnigraph.storage.layout import (
    RECOVERY,
    build_version_key,
    format_detached_name,
    format_version_name,
    is_detached,
    parse_version_number,
)
from omnigraph.storage.object_store import (
    ObjectChangedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoredObject,
    StoreUnavailableError,
)
from omnigraph.storage.staging import StagedWrite, WriteKind
from omnigraph.storage.table_cache import PinUnreadableError, TableCache
from omnigraph.storage.uri import parse_uri
from omnigraph.storage.version_files import PinnedFiles
from schedules.scheduler import Fault, Process, Scheduler, Step, StepError

T = TypeVar("T")
URI = "s3://model/graph"
CHECKSUM = "xxh3:0000000000000000"


@dataclass(frozen=True, slots=True)
class Content:
    """An object: bytes, or what a file of Lance means."""

    data: object
    modified: datetime
    number: int


@dataclass
class Room:
    """All objects, by key."""

    objects: dict[str, Content] = field(default_factory=dict)
    writes: int = 0
    sidecars: dict[str, tuple[bytes, Process | None]] = field(default_factory=dict)
    """Every sidecar that its owner has written, as it was last, and the owner."""

    def copy(self) -> "Room":
        """Return a room with the same objects, which never change themselves."""
        return Room(dict(self.objects), self.writes)

    def write(self, key: str, data: object, now: datetime) -> Content:
        """Write an object, or replace it."""
        self.writes += 1
        content = self.objects[key] = Content(data, now, self.writes)
        return content

    def list_versions(self, path: str) -> Sequence[int]:
        """Return the numbers of the ordinary versions of a table, in no order."""
        prefix = f"{path}/_versions/"
        names = tuple(key for key in self.objects if key.startswith(prefix))
        return _parse_numbers(names)


@lru_cache(4_096)
def _parse_numbers(keys: tuple[str, ...]) -> Sequence[int]:
    numbers = (parse_version_number(key) for key in keys)
    return [number for number in numbers if number]


@dataclass(frozen=True, slots=True)
class CasVersion:
    """One version of a compare-and-swap table: its fragments, oldest first, and the transaction that made it."""

    fragments: tuple[tuple[str, pa.Table], ...]
    transaction: object


@dataclass(frozen=True, slots=True)
class RowVersion:
    """One version of a table of lists: what each list has, and the files of the version."""

    rows: dict[str, tuple[str, ...]]
    files: frozenset[str]


class ModelObjects:
    """The ObjectStore of one process."""

    def __init__(self, room: Room, scheduler: Scheduler) -> None:
        self._room = room
        self._scheduler = scheduler

    def request(self, label: str, key: str, act: Callable[[], T], *, writes: bool) -> T:
        """Do something as one request, which may fail before or after it, or happen later."""
        if self._scheduler.get_task() is None:
            # Who judges a run is alone.
            return act()
        step = Step(label, key, writes, is_request=True, is_on_key=True)
        try:
            fault = self._scheduler.reach(step)
            if fault is Fault.LATE:
                self._do_later(label, act)
            result = act()
            self._scheduler.finish(fault)
        except StepError as error:
            raise StoreUnavailableError(step.label, "a fault was injected") from error
        return result

    def _do_later(self, label: str, act: Callable[[], object]) -> None:
        def try_act() -> None:
            try:
                act()
            except (ObjectExistsError, ObjectChangedError, SwapLostError):
                return

        self._scheduler.spawn(Process("the store"), f"late {label}", try_act)
        raise StepError(label)

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        return self.request("get", key, lambda: self._get(key), writes=False)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """See ObjectStore."""
        return self.get(key).data[start : start + size]

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        return self.request("look up", key, lambda: self._stat(key), writes=False)

    def put(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        return self.request("put", key, lambda: self._write(key, data), writes=True)

    def put_if_absent(self, key: str, data: bytes) -> str:
        """See ObjectStore."""

        def act() -> str:
            if key in self._room.objects:
                raise ObjectExistsError(key)
            return self._write(key, data)

        return self.request("create", key, act, writes=True)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """See ObjectStore."""

        def act() -> str:
            self._check_etag(key, etag)
            return self._write(key, data)

        return self.request("replace", key, act, writes=True)

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        self.request("delete", key, lambda: self._room.objects.pop(key, None), writes=True)

    def delete_if_match(self, key: str, etag: str) -> None:
        """See ObjectStore."""

        def act() -> None:
            self._check_etag(key, etag)
            del self._room.objects[key]

        self.request("delete", key, act, writes=True)

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore."""
        return self.request("list", f"{prefix}/", lambda: self._list(prefix), writes=False)

    def list_children(self) -> list[str]:
        """See ObjectStore."""
        return self.request(
            "list", "", lambda: sorted({key.split("/", 1)[0] for key in self._room.objects}), writes=False
        )

    def _get(self, key: str) -> StoredObject:
        info = self._stat(key)
        if info is None:
            raise ObjectMissingError(key)
        content = self._room.objects[key]
        data = content.data if isinstance(content.data, bytes) else b"lance"
        return StoredObject(data, str(content.number), info)

    def _stat(self, key: str) -> ObjectInfo | None:
        content = self._room.objects.get(key)
        if content is None:
            return None
        size = len(content.data) if isinstance(content.data, bytes) else 1
        return ObjectInfo(key, size, content.modified)

    def _list(self, prefix: str) -> list[ObjectInfo]:
        infos = (self._stat(key) for key in sorted(self._room.objects) if key.startswith(f"{prefix}/"))
        return [info for info in infos if info is not None]

    def _write(self, key: str, data: bytes) -> str:
        if key.startswith(f"{RECOVERY}/") and key.endswith(".json") and b'"state":"abandoned"' not in data:
            task = self._scheduler.get_task()
            owner = self._room.sidecars[key][1] if key in self._room.sidecars else None
            self._room.sidecars[key] = data, owner or (None if task is None else task.process)
        return str(self._room.write(key, data, self._scheduler.now).number)

    def _check_etag(self, key: str, etag: str) -> None:
        content = self._room.objects.get(key)
        if content is None or str(content.number) != etag:
            raise ObjectChangedError(key)


class NoVerifier:
    """A verifier of files that have no checksums."""

    def __init__(self) -> None:
        self.lists = self
        self.is_verifying_reads = False

    def expect(self, *_: object) -> None:
        """See Verifier."""

    def checksum_version(self, path: str, version: int) -> str:
        """See Verifier."""
        del path, version
        return CHECKSUM


class ModelStorage(GraphStorage):
    """The storage of one process on a room."""

    def __init__(self, room: Room, scheduler: Scheduler, runtime: Runtime) -> None:
        self.room = room
        self.scheduler = scheduler
        self.location = parse_uri(URI)
        self.runtime = runtime
        self.recovery = Interval(runtime.clock)
        self.future_time = None
        self.local = None
        self.model = ModelObjects(room, scheduler)
        self.objects = self.model
        self.verifier = NoVerifier()  # type: ignore[assignment]  # only what commits need

    def flush(self, paths: Iterable[str]) -> None:
        """See GraphStorage."""

    def wait_for_uploads(self, path: str) -> None:
        """See GraphStorage."""

    def write_model(self, key: str, data: object) -> None:
        """Write a file of Lance."""
        self.model.request("write", key, lambda: self.room.write(key, data, self.scheduler.now), writes=True)


# --- compare-and-swap tables -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelSwap:
    """See PreparedSwap."""

    content: CasVersion
    files: tuple[str, ...]


class ModelCasTable:
    """See CasTable."""

    def __init__(self, store: ModelStorage, path: str, version: int, content: CasVersion) -> None:
        self.store = store
        self.path = path
        self.version = version
        self._content = content

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """See CasTable."""
        return dict(self._content.fragments[-1][1].schema.metadata or {})

    @property
    def sealed_count(self) -> int:
        """See CasTable."""
        return len(self._content.fragments) - 1

    def read_head(self) -> pa.Table:
        """See CasTable."""
        return self._content.fragments[-1][1]

    def read_sealed(self, index: int, *, last: int | None = None) -> pa.Table:
        """See CasTable."""
        rows = self._content.fragments[:-1][index][1]
        return rows if last is None else rows.slice(max(rows.num_rows - last, 0))

    def get_sealed_name(self, index: int) -> str:
        """See CasTable."""
        return self._content.fragments[:-1][index][0]

    def count_sealed_rows(self) -> list[int]:
        """See CasTable."""
        return [rows.num_rows for _, rows in self._content.fragments[:-1]]

    def list_files(self) -> list[tuple[str, int | None]]:
        """See CasTable."""
        return [(f"{self.path}/data/{name}", 1) for name, _ in self._content.fragments]

    def is_newest(self) -> bool:
        """See CasTable."""
        return self.store.objects.stat(f"{self.path}/{format_version_name(self.version + 1)}") is None

    def open_latest(self) -> "ModelCasTable":
        """See CasTable."""
        newest = open_table(self.store, self.path)
        return self if newest.version == self.version else newest

    def prepare(
        self, head: pa.Table, *, seal: pa.Table | None = None, keep_sealed: int | None = None, dropped_sealed: int = 0
    ) -> ModelSwap:
        """See CasTable."""
        sealed = self._content.fragments[dropped_sealed:-1]
        kept = sealed if keep_sealed is None else sealed[:keep_sealed]
        new: list[tuple[str, pa.Table]] = []
        for rows in (head,) if seal is None else (seal, head):
            name = f"{self.store.runtime.ids.ulid()}.lance"
            self.store.write_model(f"{self.path}/data/{name}", rows)
            new.append((name, rows.cast(self.read_head().schema)))
        files = tuple(f"{self.path}/data/{name}" for name, _ in new)
        return ModelSwap(CasVersion((*kept, *new), object()), files)

    def commit(self, prepared: ModelSwap) -> "ModelCasTable":
        """See CasTable."""
        key = f"{self.path}/{format_version_name(self.version + 1)}"
        room = self.store.room

        def act() -> None:
            existing = room.objects.get(key)
            if existing is None:
                room.write(key, prepared.content, self.store.scheduler.now)
            elif existing.data is not prepared.content:
                raise SwapLostError(self.path, self.version)

        self.store.model.request("swap", key, act, writes=True)
        return ModelCasTable(self.store, self.path, self.version + 1, prepared.content)

    def flush(self) -> None:
        """See CasTable."""

    def read_created_at(self) -> datetime:
        """See CasTable."""
        info = self.store.objects.stat(build_version_key(self.path, self.version))
        if info is None:
            raise TableMissingError(self.path)
        return info.modified

    def is_there(self) -> bool:
        """See CasTable."""
        return self.store.objects.stat(build_version_key(self.path, self.version)) is not None

    def remove(self) -> None:
        """See CasTable."""
        self.store.objects.delete(build_version_key(self.path, self.version))

    def trim(self, keep: int, age: timedelta) -> None:
        """See CasTable."""
        room = self.store.room
        before = self.store.scheduler.now - age

        def list_names(number: int) -> set[str]:
            version = cast("CasVersion", room.objects[build_version_key(self.path, number)].data)
            return {name for name, _ in version.fragments}

        def act() -> None:
            # Files that no version ever had are left alone for seven days, longer than any run.
            removed: set[str] = set()
            for number in sorted(room.list_versions(self.path))[:-keep]:
                key = build_version_key(self.path, number)
                if room.objects[key].modified < before:
                    removed |= list_names(number)
                    del room.objects[key]
            for number in room.list_versions(self.path):
                removed -= list_names(number)
            for name in removed:
                room.objects.pop(f"{self.path}/data/{name}", None)

        self.store.model.request("trim", f"{self.path}/", act, writes=True)


def create_table(store: ModelStorage, path: str, head: pa.Table) -> ModelCasTable:
    """See create_cas_table."""
    name = f"{store.runtime.ids.ulid()}.lance"
    key = f"{path}/{format_version_name(1)}"
    content = CasVersion(((name, head),), object())
    store.write_model(f"{path}/data/{name}", head)

    def act() -> None:
        if store.room.list_versions(path):
            raise SwapLostError(path, 0)
        store.room.write(key, content, store.scheduler.now)

    store.model.request("create", key, act, writes=True)
    return ModelCasTable(store, path, 1, content)


def open_table(store: ModelStorage, path: str, version: int | None = None) -> ModelCasTable:
    """See open_cas_table."""
    room = store.room

    def act() -> tuple[int, CasVersion]:
        numbers = room.list_versions(path)
        number = version or max(numbers, default=0)
        if number not in numbers:
            raise TableMissingError(path)
        return number, cast("CasVersion", room.objects[f"{path}/{format_version_name(number)}"].data)

    key = f"{path}/_versions/" if version is None else f"{path}/{format_version_name(version)}"
    number, content = store.model.request("open", key, act, writes=False)
    return ModelCasTable(store, path, number, content)


# --- tables of lists ---------------------------------------------------------------------------------------


class ModelHandles(TableCache):
    """The open tables of a process."""

    def __init__(self, store: ModelStorage) -> None:
        self.store = store
        self.model = store
        self.explain = lambda error: error
        self.carried = CarriedCache()

    def read(self, path: str, version: int) -> RowVersion:
        """Return one version of a table.

        Raises:
            PinUnreadableError: It is gone, or a file of it is.
        """
        objects = self.model.room.objects
        key = build_version_key(path, version)

        def act() -> RowVersion:
            content = objects.get(key)
            missing = key if content is None else None
            if content is not None:
                missing = next((file for file in cast("RowVersion", content.data).files if file not in objects), None)
            if content is None or missing is not None:
                raise PinUnreadableError(path, version, f"{missing} is gone")
            return cast("RowVersion", content.data)

        return self.model.model.request("read", key, act, writes=False)


def apply_staged(handles: ModelHandles, staged: StagedWrite, base: int) -> int:
    """See versions.apply."""
    old = handles.read(staged.path, base)
    store = handles.model
    written = [file for file in staged.files if "/data/" in file]
    if staged.change is WriteKind.REWRITE:
        new = RowVersion(old.rows, frozenset(written))
    else:
        # Not read from the room: a writer has what it has staged in memory.
        rows = PAYLOADS[written[0]]
        new = RowVersion({**old.rows, **rows}, old.files | frozenset(written))
    return _write_version(store, staged.path, new)


PAYLOADS: dict[str, dict[str, tuple[str, ...]]] = {}
"""The rows of staged files, which a real one contains."""


def create_lists(store: ModelStorage, path: str, schema: pa.Schema) -> int:
    """See versions.create_table."""
    del schema
    return _write_version(store, path, RowVersion({}, frozenset()))


def _write_version(store: ModelStorage, path: str, content: RowVersion) -> int:
    number = 1 << 63 | int(store.runtime.ids.jitter(1) * (1 << 52))
    store.write_model(f"{path}/{format_detached_name(number)}", content)
    return number


def rebase_lists(staged: StagedWrite, table: Any, _: object = None) -> StagedWrite:
    """See compaction.rebase_staged."""
    from dataclasses import replace

    rows = table.handles.read(table.path, table.version).rows
    return replace(staged, base=table.version, base_rows=len(rows))


def list_files(handles: ModelHandles, path: str, versions: Iterable[int]) -> PinnedFiles:
    """See list_pinned_files."""
    files: set[str] = set()
    for version in versions:
        key = build_version_key(path, version)
        files.add(key)
        if is_detached(version):
            files |= handles.read(path, version).files
        else:
            try:
                table = open_table(handles.model, path, version)
            except TableMissingError as error:
                raise PinUnreadableError(path, version, "it is gone") from error
            files.update(name for name, _ in table.list_files())
    return PinnedFiles(frozenset(files))


_PATCHES: Sequence[tuple[str, object]] = (
    ("omnigraph.commit.manifest_log.open_cas_table", open_table),
    ("omnigraph.commit.manifest_log.create_cas_table", create_table),
    ("omnigraph.commit.manifest_log.read_hint", lambda *_: None),
    ("omnigraph.commit.recovery_log.open_cas_table", open_table),
    ("omnigraph.commit.recovery_log.create_cas_table", create_table),
    ("omnigraph.commit.version_builder.apply", apply_staged),
    ("omnigraph.commit.version_builder.create_table", create_lists),
    ("omnigraph.commit.publisher.create_table", create_lists),
    ("omnigraph.commit.rebase.rebase_staged", rebase_lists),
    ("omnigraph.commit.rebase.restage_in_place", rebase_lists),
    ("omnigraph.ops.cleanup_files.list_pinned_files", list_files),
)


@contextmanager
def modelled() -> Iterator[None]:
    """Let the commit package use the model inside the block."""
    patches = [patch(name, new) for name, new in _PATCHES]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        PAYLOADS.clear()
        for each in reversed(patches):
            each.stop()
