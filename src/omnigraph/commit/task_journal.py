"""Track the files that the tasks of a distributed operation write: each task has its own note beside the sidecar.

A job has one or more phases. While a phase is open, its tasks write files and scratch objects. When it is closed, the
sidecar names the files that the operation keeps, and all other files in the notes of the phase are removed with the
notes. A task that outlives its phase (a duplicate, or one that was cancelled) notices before it completes a file, and
removes its own files. Recovery does the same for an operation that died.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import repeat
from math import floor
from typing import TypeAlias

import msgspec

from omnigraph.commit.checksummed_json import decode_with_checksum, encode_with_checksum
from omnigraph.commit.sidecar import FencedError, read_phase
from omnigraph.concurrency import create_lock
from omnigraph.ids import draw_bytes
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import RECOVERY, TableFile, build_job_key, build_sidecar_key
from omnigraph.storage.object_store import ForeignFileError, ObjectChangedError, ObjectInfo, ObjectMissingError
from omnigraph.telemetry import log

_NOTE_SUFFIX = ".note"
# The names of scratch objects of writes without a sidecar begin with this, after the operation's id. Such objects
# outlive the process that wrote them.
SAVED_PREFIX = "save-"
# A write without a sidecar that has put nothing for this long is dead, and its objects are swept.
MAX_SAVED_AGE = timedelta(days=1)
# A note whose put took longer is put again: the store's time of it may be that of its begin.
_PUT_SECONDS = 1.0
# The names of objects of tasks: the id of the operation, then the object's own name. Nothing else may be swept.
_OPERATION_OBJECT = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})-([^/]+)")


NamingTimes: TypeAlias = dict[str, datetime]
"""When files were named in notes, at the latest, by the store's clock."""


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files that a task has written or is writing, relative to the root."""

    files: tuple[TableFile, ...] = ()
    is_open: bool = True
    ages: tuple[float, ...] = ()
    """For how many seconds the first files had been named when this was put; the others are new in it."""


class TaskJournal:
    """The note of one task, updated as it writes. Call `begin` before the first file.

    Once the phase of the task is closed, every method raises FencedError, and removes all files of the task. Without a
    phase, it is a task of a write that has no sidecar yet: its files count until its note is cleared.
    """

    def __init__(self, store: GraphStorage, operation_id: str, phase: int | None, task: int) -> None:
        self._store = store
        self._operation_id = operation_id
        self._phase = phase
        start = SAVED_PREFIX if phase is None else f"{phase}-"
        self._task = f"{start}{task}-{draw_bytes(4).hex()}"
        self._etag = ""
        self._lock = create_lock()
        # When the stored note first named each file, by the clock that only goes forward; None: not yet.
        self._files: dict[str, float | None] = {}
        self._scratch: list[str] = []

    def begin(self) -> None:
        """Put the empty note.

        Raises:
            FencedError: The phase was closed already.
        """
        data = encode_with_checksum(Note())
        self._etag = self._store.objects.put_if_absent(self._key, data)
        # Read after the put: a phase that is closed from now on finds the note.
        if self._phase is not None and read_phase(self._store, self._operation_id) != self._phase:
            self._discard()

    def on_begin(self, files: Sequence[str]) -> None:
        """Record files that are about to be written, see `Witness`."""
        self._add(files)

    def on_complete(self, files: Sequence[str]) -> None:
        """Record the final names of files, see `Witness`."""
        self._add(files)

    def keep(self, name: str, data: bytes) -> str:
        """Store an object for the driver until the phase is closed; return its key."""
        key = build_job_key(self._operation_id, f"{self._task}.{name}")
        self._scratch.append(key)
        self._store.objects.put(key, data)
        self._add((), is_always=True)
        return key

    @property
    def _key(self) -> str:
        return build_job_key(self._operation_id, f"{self._task}{_NOTE_SUFFIX}")

    def _add(self, files: Iterable[str], *, is_always: bool = False) -> None:
        # One task may have several writers.
        with self._lock:
            recorded = len(self._files)
            for file in files:
                self._files.setdefault(file, None)
            if len(self._files) == recorded and not is_always:
                return
            if self._put() > _PUT_SECONDS:
                self._put()

    def _put(self) -> float:
        """Put the note; return how long that took."""
        clock = self._store.runtime.clock
        begun = clock.monotonic()
        ages = tuple(floor((begun - named) * 1000) / 1000 for named in self._files.values() if named is not None)
        data = encode_with_checksum(Note(files=tuple(self._files), ages=ages))
        try:
            self._etag = self._store.objects.put_if_match(self._key, data, self._etag)
        except ObjectChangedError:
            self._discard()
        now = clock.monotonic()
        self._files = {file: now if named is None else named for file, named in self._files.items()}
        return now - begun

    def _discard(self) -> None:
        for file in (*self._files, *self._scratch, self._key):
            self._store.objects.delete(file)
        raise FencedError.phase_closed(self._operation_id, self._task)


def clear(
    store: GraphStorage,
    operation_id: str,
    *,
    phase: int | None = None,
    keep: Collection[str] = (),
    named: NamingTimes | None = None,
) -> int:
    """Remove the files and objects of the tasks of an operation, in one phase or in all; return the bytes freed.

    Files and objects in `keep` stay; objects that later phases need stay until the whole operation is cleared.
    `named` gets the files of all notes.
    """
    freed = 0
    times: NamingTimes = {} if named is None else named
    for info in _list_objects(store, operation_id, phase):
        if info.key in keep:
            continue
        if info.key.endswith(_NOTE_SUFFIX):
            # The note is closed first, so that its task can't add to it unseen, and removed last, in case we die.
            freed += _remove(store, _close_note(store, info.key, times), keep)
        store.objects.delete(info.key)
    return freed


def find_noted_files(store: GraphStorage) -> frozenset[str]:
    """Return every file in a task's note that its operation has not named yet. Unreadable notes are skipped.

    A note that is removed during the search was resolved: its files are named elsewhere, or removed.
    """
    files: set[str] = set()
    for info in store.objects.list_under(RECOVERY):
        if not info.key.endswith(_NOTE_SUFFIX):
            continue
        try:
            files.update(decode_with_checksum(store.objects.get(info.key).data, Note).files)
        except ObjectMissingError:
            continue
        except (ForeignFileError, ValueError) as error:
            log.warning("the note %s can't be read, so cleanup may remove the files that it names: %s", info.key, error)
    return frozenset(files)


def find_stray_operations(objects: Iterable[ObjectInfo], sidecars: Collection[str]) -> dict[str, datetime]:
    """Return operations that left objects but no sidecar: their ids, and until when they may have run."""
    strays: dict[str, datetime] = {}
    for info in objects:
        match = _OPERATION_OBJECT.fullmatch(info.key.removeprefix(f"{RECOVERY}/"))
        if match is None or build_sidecar_key(match[1]) in sidecars:
            continue
        last = info.modified + MAX_SAVED_AGE if match[2].startswith(SAVED_PREFIX) else info.modified
        strays[match[1]] = max(strays.get(match[1], last), last)
    return strays


def sweep(store: GraphStorage, strays: Mapping[str, datetime], now: datetime, lease: timedelta) -> None:
    """Remove the objects of operations that ended long ago: scratch, and notes of tasks that came too late.

    A task that still runs notices that its operation has ended and removes its own; this is for tasks that died.
    """
    for operation_id, newest in strays.items():
        if now - newest > 2 * lease and store.objects.stat(build_sidecar_key(operation_id)) is None:
            log.info("removing the objects that operation %s has left", operation_id)
            clear(store, operation_id)


def _list_objects(store: GraphStorage, operation_id: str, phase: int | None) -> list[ObjectInfo]:
    start = build_job_key(operation_id, "" if phase is None else f"{phase}-")
    return [info for info in store.objects.list_under(RECOVERY) if info.key.startswith(start)]


def _close_note(store: GraphStorage, key: str, named: NamingTimes) -> tuple[str, ...]:
    """Close a note and return the files that it names; its task can no longer change it."""
    while True:
        try:
            stored = store.objects.get(key)
            note = decode_with_checksum(stored.data, Note)
            store.objects.put_if_match(key, encode_with_checksum(Note(files=note.files, is_open=False)), stored.etag)
        except ObjectMissingError:
            return ()
        except ObjectChangedError:
            continue
        except (ForeignFileError, ValueError) as error:
            log.warning("the note %s can't be read, and the files that it names are not removed: %s", key, error)
            return ()
        named.update(_find_times(note, stored.info.modified))
        return note.files


def _find_times(note: Note, modified: datetime) -> Iterator[tuple[str, datetime]]:
    """Yield the files of a note that was put at a time, and when each was named, at the latest."""
    if not modified.microsecond:
        # Such a store may tell whole seconds only.
        modified += timedelta(seconds=1)
    ages = (*note.ages, *repeat(-_PUT_SECONDS, len(note.files) - len(note.ages)))
    for file, age in zip(note.files, ages, strict=True):
        yield file, modified - timedelta(seconds=age)


def _remove(store: GraphStorage, paths: Iterable[str], keep: Collection[str]) -> int:
    freed = 0
    for path in paths:
        info = None if path in keep else store.objects.stat(path)
        if info is not None:
            store.objects.delete(path)
            freed += info.size
    return freed
