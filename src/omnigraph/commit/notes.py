"""Files that the tasks of one operation write in many processes: each task notes its own beside the sidecar.

A job is one or more phases. While a phase is open, its tasks write files and scratch. When it is closed, what the
operation keeps is named by its sidecar, and everything else that the phase's notes name goes, with the notes. A task
that outlives its phase (a duplicate, one that was cancelled) finds that out before it is done with a file, and takes
its own files away. Recovery does the same for an operation that died.
"""

import secrets
import threading
from collections.abc import Collection, Iterable, Sequence

import msgspec

from omnigraph.commit.sidecar import is_table_file, phase_of
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.layout import RECOVERY, job_key
from omnigraph.storage.objects import ObjectChangedError, ObjectInfo, ObjectMissingError
from omnigraph.storage.store import Store
from omnigraph.telemetry import log

_NOTE = ".note"


class PhaseClosedError(OmnigraphError):
    """A task found that its job goes on without it."""

    kind = Kind.CONFLICT
    code = "phase_closed"

    def __init__(self, operation_id: str, task: str) -> None:
        super().__init__(operation_id, task)
        self.operation_id, self.task = operation_id, task

    def __str__(self) -> str:
        return f"the task {self.task} of operation {self.operation_id} came too late: its job has ended without it"


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files that a task has made or is making, relative to the root."""

    files: tuple[str, ...] = ()
    is_open: bool = True


class TaskNote:
    """A task's own note: the witness of its writes. `begin` it before the first file.

    Once the task's phase is closed, every method raises PhaseClosedError, and no file of the task is left.
    """

    def __init__(self, store: Store, operation_id: str, phase: int, task: int) -> None:
        self._store, self._operation_id, self._phase = store, operation_id, phase
        self._task = f"{phase}-{task}-{secrets.token_hex(4)}"
        self._etag = ""
        self._lock = threading.Lock()
        self._files: dict[str, None] = {}
        self._scratch: list[str] = []

    def begin(self) -> None:
        """Put the note, empty."""
        data = msgspec.json.encode(Note())
        self._etag = self._store.objects.put_if_absent(self._key, data)
        if phase_of(self._store, self._operation_id) != self._phase:
            self._end()

    def begun(self, files: Sequence[str]) -> None:
        """See Witness."""
        self._add(files)

    def made(self, files: Sequence[str]) -> None:
        """See Witness."""
        self._add(files)

    def keep(self, name: str, data: bytes) -> str:
        """Keep something for the driver, until the phase is closed: its key."""
        key = job_key(self._operation_id, f"{self._task}.{name}")
        self._scratch.append(key)
        self._store.objects.put(key, data)
        self._add((), is_always=True)
        return key

    @property
    def _key(self) -> str:
        return job_key(self._operation_id, f"{self._task}{_NOTE}")

    def _add(self, files: Iterable[str], *, is_always: bool = False) -> None:
        with self._lock:  # several writers of one task may be at it
            known = len(self._files)
            self._files.update(dict.fromkeys(files))
            if len(self._files) == known and not is_always:
                return
            data = msgspec.json.encode(Note(files=tuple(self._files)))
            try:
                self._etag = self._store.objects.put_if_match(self._key, data, self._etag)
            except ObjectChangedError:
                self._end()

    def _end(self) -> None:
        for file in (*self._files, *self._scratch, self._key):
            self._store.objects.delete(file)
        raise PhaseClosedError(self._operation_id, self._task)


def clear(store: Store, operation_id: str, *, phase: int | None = None, kept: Collection[str] = ()) -> int:
    """Remove what tasks of an operation (in one phase, or in all) have noted and kept, but for `kept`; the bytes freed.

    A note is closed first, so that its task can't add to it unseen; then its files go, and at last the note.
    """
    freed = 0
    for info in _objects(store, operation_id, phase):
        if info.key.endswith(_NOTE):
            freed += _remove(store, _closed(store, info.key), kept)
        store.objects.delete(info.key)
    return freed


def _objects(store: Store, operation_id: str, phase: int | None) -> list[ObjectInfo]:
    start = job_key(operation_id, "" if phase is None else f"{phase}-")
    return [info for info in store.objects.list_under(RECOVERY) if info.key.startswith(start)]


def _closed(store: Store, key: str) -> tuple[str, ...]:
    """The files that a note names for good: whoever wanted to add to it finds that it was changed."""
    while True:
        try:
            stored = store.objects.get(key)
            note = msgspec.json.decode(stored.data, type=Note)
            store.objects.put_if_match(key, msgspec.json.encode(Note(files=note.files, is_open=False)), stored.etag)
        except ObjectMissingError:
            return ()
        except ObjectChangedError:
            continue
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            log.warning("the note %s can't be read, and the files that it names are left: %s", key, error)
            return ()
        return tuple(file for file in note.files if is_table_file(file))


def _remove(store: Store, files: Iterable[str], kept: Collection[str]) -> int:
    freed = 0
    for file in files:
        info = None if file in kept else store.objects.info(file)
        if info is not None:
            store.objects.delete(file)
            freed += info.size
    return freed
