"""The tables of a clone: which files they need, copying those, and seeing that they came."""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from omnigraph.commit.consistent_cut import ConsistentCut, PinnedVersion
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.checksum_lists import build_list_key
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import EDGES, NODES, parse_version_number
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.table_cache import PinUnreadableError, TableCache
from omnigraph.storage.version_files import PinnedFiles, list_pinned_files

_TRANSACTIONS, _INDEXES, _VERSIONS = "/_transactions/", "/_indices/", "/_versions/"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneProgress:
    """How far a clone is."""

    files: int
    total_files: int
    nbytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """What has to be copied of the tables."""

    sizes: Mapping[str, int]
    """Every file, relative to the root, with its size."""
    versions: int
    missing: int
    """How many versions of the past can't be read, though no cleanup that the cut knows of has collected them."""


def expect_recorded(store: GraphStorage, cut: ConsistentCut) -> None:
    """Let files be compared with what the commits of a cut record of them."""
    for pin, one in cut.recorded.items():
        store.verifier.expect(pin.path, pin.version, one.checksum, one.rows)
    for path, names in cut.lists.items():
        store.verifier.lists.expect(path, names)


def plan_tables(handles: TableCache, cut: ConsistentCut, workers: int, damaged: Mapping[str, str]) -> CopyPlan:
    """Return the files that a cut needs. Some were found to be `damaged`, for these reasons.

    Raises:
        PinUnreadableError: Something that is shown now is not there, or damaged. It was collected since the cut was
            made, or something else has damaged the graph.
    """
    there = _list_table_files(handles.store)
    held = {key.rpartition("/")[0] for key in there}

    def needed(pin: PinnedVersion) -> PinnedFiles | None:
        try:
            files = list_pinned_files(handles, pin.path, [pin.version])
            _check_files_exist(pin, files, there, held)
            _check_whole(pin, files, damaged)
        except PinUnreadableError:
            if pin in cut.present:
                raise
            return None
        return files

    with ThreadPoolExecutor(workers, thread_name_prefix="clone") as pool:
        found = list(pool.map(needed, (*cut.present, *cut.past)))
    readable = [files for files in found if files is not None]
    wanted = PinnedFiles(
        frozenset[str]().union(*(files.files for files in readable)),
        frozenset[str]().union(*(files.directories for files in readable)),
    )
    lists = {build_list_key(path, name) for path, names in cut.lists.items() for name in names} - damaged.keys()
    sizes = {key: size for key, size in there.items() if key in wanted or key in lists}
    return CopyPlan(sizes=sizes, versions=len(readable), missing=len(found) - len(readable))


def _list_table_files(store: GraphStorage) -> dict[str, int]:
    """All files of tables, with their sizes."""
    return {info.key: info.size for room in (NODES, EDGES) for info in store.objects.list_under(room)}


def _check_files_exist(pin: PinnedVersion, files: PinnedFiles, there: Mapping[str, int], held: set[str]) -> None:
    """PinUnreadableError when a file of a version is missing; that of its transaction is of no use to a reader."""
    for key in files.files:
        if key not in there and _TRANSACTIONS not in key:
            raise PinUnreadableError(pin.path, pin.version, f"{key} is missing")
    for directory in files.directories:
        if _INDEXES in directory and directory not in held:
            raise PinUnreadableError(pin.path, pin.version, f"{directory} is missing")


def _check_whole(pin: PinnedVersion, files: PinnedFiles, damaged: Mapping[str, str]) -> None:
    """Check that a version has no damaged file.

    Raises:
        PinUnreadableError: It has one.
    """
    for key, reason in damaged.items():
        if key in files or key in files.directories:
            raise PinUnreadableError(pin.path, pin.version, f"{key}: {reason}")


def copy_files(
    copier: Copier,
    sizes: Mapping[str, int],
    target: GraphStorage,
    *,
    workers: int,
    progress: Callable[[CloneProgress], None] | None,
    damaged: dict[str, str],
) -> tuple[int, int]:
    """Copy what is not there yet; return how many files and bytes that was.

    Files that do not match their checksums are not copied: they are added to `damaged`, with the reasons.

    Raises:
        ObjectMissingError: One is gone meanwhile.
    """
    there = _list_table_files(target)
    missing = {key: size for key, size in sizes.items() if there.get(key) != size or _is_reused(key)}
    counts = _CopyProgress(len(missing), sum(missing.values()), progress)

    def copy(key: str) -> None:
        try:
            copier.copy(key, missing[key], counts.add_bytes)
        except DamagedError as error:
            damaged[error.place] = error.reason
        target.runtime.faults.reach("clone.copied")

    with ThreadPoolExecutor(workers, thread_name_prefix="clone") as pool:
        waiting = [pool.submit(copy, key) for key in missing]
        try:
            for future in as_completed(waiting):
                future.result()
                counts.add_file()
        except BaseException:
            counts.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    target.flush_directories(missing)
    return len(missing), counts.total_bytes


def _is_reused(key: str) -> bool:
    """Whether a file's name does not tell its content: that of an ordinary version, which the next table may have."""
    return _VERSIONS in key and parse_version_number(key) > 0


class _StoppedError(Exception):
    """Another file could not be copied, or somebody has interrupted it: the rest is of no use."""


class _CopyProgress:
    """Adds up what several threads have done, and tells of it."""

    def __init__(self, total_files: int, total_bytes: int, progress: Callable[[CloneProgress], None] | None) -> None:
        self.total_files, self.total_bytes, self._progress = total_files, total_bytes, progress
        self._lock = threading.Lock()
        self._files = self._bytes = 0
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True

    def add_bytes(self, nbytes: int) -> None:
        if self._is_stopped:
            raise _StoppedError
        with self._lock:
            self._bytes += nbytes
            self._report()

    def add_file(self) -> None:
        with self._lock:
            self._files += 1
            self._report()

    def _report(self) -> None:
        if self._progress is not None:
            progress = CloneProgress(
                files=self._files, total_files=self.total_files, nbytes=self._bytes, total_bytes=self.total_bytes
            )
            self._progress(progress)


def remove_unneeded(target: GraphStorage, places: Iterable[str], wanted: Mapping[str, int]) -> None:
    """Remove what an earlier try has copied and this one does not need. Nobody but clones has written there."""
    for place in places:
        for info in target.objects.list_under(place):
            if info.key not in wanted:
                target.objects.delete(info.key)


def check_tables(target: GraphStorage, cut: ConsistentCut, plan: CopyPlan) -> dict[str, int]:
    """See that every file has its size, and every table of every branch its rows; by branch, how many rows."""
    there = _list_table_files(target)
    for key, size in plan.sizes.items():
        if there.get(key) != size:
            raise StoreUnavailableError(f"copy `{key}`", f"{there.get(key, 0)} bytes are there instead of {size}")
    handles = TableCache(target)
    counted: dict[tuple[str, int], int] = {}
    rows: dict[str, int] = {}
    for head in (cut.main, *(cut.get_head(name) for name in cut.branches)):
        for pin in head.snapshot.pins.values():
            version = (pin.path, pin.version)
            if version not in counted:
                counted[version] = LanceTable(handles, *version).count()
            if counted[version] != pin.rows:
                reason = f"{counted[version]} rows are there instead of {pin.rows}"
                raise PinUnreadableError(pin.path, pin.version, reason)
        rows[head.snapshot.branch] = sum(pin.rows for pin in head.snapshot.pins.values())
    return rows
