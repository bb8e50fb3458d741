"""The tables of a clone: plan which files to copy, copy them, and check the copy."""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass

from omnigraph.commit.consistent_cut import ConsistentCut, PinnedVersion
from omnigraph.concurrency import create_pool
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.checksum_lists import build_list_key
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import EDGES, NODES, parse_version_number
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.table_cache import PinUnreadableError, TableCache
from omnigraph.storage.version_files import PinnedFiles, list_pinned_files

_TRANSACTIONS = "/_transactions/"
_INDEXES = "/_indices/"
_VERSIONS = "/_versions/"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneProgress:
    """The progress of a clone."""

    files: int
    total_files: int
    nbytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """The table files that a clone needs."""

    sizes: Mapping[str, int]
    """Every file, relative to the root, with its size."""
    versions: int
    missing: int
    """The number of earlier versions that can't be read, though no cleanup known to the cut has collected them."""


def expect_recorded(store: GraphStorage, cut: ConsistentCut) -> None:
    """Register the checksums that the commits of a cut record, so that files are verified when they are read."""
    for pin, record in cut.recorded.items():
        store.verifier.expect(pin.path, pin.version, record.checksum, record.rows)
    for path, names in cut.lists.items():
        store.verifier.lists.expect(path, names)


def plan_tables(handles: TableCache, cut: ConsistentCut, workers: int, damaged: Mapping[str, str]) -> CopyPlan:
    """Return the files that a cut needs; `damaged` are files that must not be used, with the reasons.

    Raises:
        PinUnreadableError: A file of a current version is missing or damaged. Either it was collected since the cut
            was taken, or the graph is damaged.
    """
    existing = _list_table_files(handles.store)
    existing_directories = {key.rpartition("/")[0] for key in existing}

    def list_files(pin: PinnedVersion) -> PinnedFiles | None:
        try:
            files = list_pinned_files(handles, pin.path, [pin.version])
            _check_files_exist(pin, files, existing, existing_directories)
            _check_undamaged(pin, files, damaged)
        except PinUnreadableError:
            # An earlier version may be left out of a clone, a current one may not.
            if pin in cut.present:
                raise
            return None
        return files

    with create_pool(workers, "clone") as pool:
        results = list(pool.map(list_files, (*cut.present, *cut.past)))
    readable = [files for files in results if files is not None]
    needed = PinnedFiles(
        frozenset[str]().union(*(files.files for files in readable)),
        frozenset[str]().union(*(files.directories for files in readable)),
    )
    lists = {build_list_key(path, name) for path, names in cut.lists.items() for name in names} - damaged.keys()
    sizes = {key: size for key, size in existing.items() if key in needed or key in lists}
    return CopyPlan(sizes=sizes, versions=len(readable), missing=len(results) - len(readable))


def _list_table_files(store: GraphStorage) -> dict[str, int]:
    """Return the sizes of all table files by key."""
    return {info.key: info.size for root in (NODES, EDGES) for info in store.objects.list_under(root)}


def _check_files_exist(
    pin: PinnedVersion, files: PinnedFiles, existing: Mapping[str, int], existing_directories: set[str]
) -> None:
    """Check that all files of a version exist that a reader needs.

    Raises:
        PinUnreadableError: One is missing.
    """
    for key in files.files:
        # No reader needs the transaction file of a version.
        if key not in existing and _TRANSACTIONS not in key:
            raise PinUnreadableError(pin.path, pin.version, f"{key} is missing")
    # Every data file has a directory name for its large blobs, which exists only if there are any.
    for directory in files.directories:
        if _INDEXES in directory and directory not in existing_directories:
            raise PinUnreadableError(pin.path, pin.version, f"{directory} is missing")


def _check_undamaged(pin: PinnedVersion, files: PinnedFiles, damaged: Mapping[str, str]) -> None:
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
    """Copy the files that the target lacks, and return the number of files and bytes copied.

    Files that do not match their checksums are not copied, but added to `damaged` with the reasons.

    Raises:
        ObjectMissingError: A file was removed in the meantime.
    """
    existing = _list_table_files(target)
    missing = {key: size for key, size in sizes.items() if existing.get(key) != size or is_reused(key)}
    counter = _CopyProgress(len(missing), sum(missing.values()), progress)

    def copy(key: str) -> None:
        try:
            copier.copy(key, missing[key], counter.add_bytes)
        except DamagedError as error:
            damaged[error.place] = error.reason
        target.runtime.faults.reach("clone.copied")

    with create_pool(workers, "clone") as pool:
        futures = [pool.submit(copy, key) for key in missing]
        try:
            for future in as_completed(futures):
                future.result()
                counter.add_file()
        # Also on an interrupt: copies in progress stop at their next block instead of running to the end.
        except BaseException:
            counter.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    target.flush_directories(missing)
    return len(missing), counter.total_bytes


def is_reused(key: str) -> bool:
    """Return whether the same name can have other content: that of an ordinary version, which every table has."""
    return _VERSIONS in key and parse_version_number(key) > 0


class _StoppedError(Exception):
    """Stops copies in progress after another copy has failed, or after an interrupt."""


class _CopyProgress:
    """A thread-safe counter of copied files and bytes that reports the progress."""

    def __init__(self, total_files: int, total_bytes: int, progress: Callable[[CloneProgress], None] | None) -> None:
        self.total_files = total_files
        self.total_bytes = total_bytes
        self._progress = progress
        self._lock = threading.Lock()
        self._files = 0
        self._bytes = 0
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


def remove_unneeded(target: GraphStorage, roots: Iterable[str], needed: Mapping[str, int]) -> None:
    """Remove files that an earlier attempt has copied and this one does not need."""
    # Safe, because only clones have written to a target that is not a graph yet.
    for root in roots:
        for info in target.objects.list_under(root):
            if info.key not in needed:
                target.objects.delete(info.key)


def check_tables(target: GraphStorage, cut: ConsistentCut, plan: CopyPlan) -> dict[str, int]:
    """Check the size of every file and the row count of every table, and return the rows of each branch.

    Raises:
        StoreUnavailableError: A file has another size.
        PinUnreadableError: A table has another number of rows.
    """
    existing = _list_table_files(target)
    for key, size in plan.sizes.items():
        if existing.get(key) != size:
            raise StoreUnavailableError(f"copy `{key}`", f"it has {existing.get(key, 0)} bytes instead of {size}")
    handles = TableCache(target)
    # Branches share most versions, so each is counted once.
    counted: dict[tuple[str, int], int] = {}
    rows: dict[str, int] = {}
    for head in (cut.main, *(cut.get_head(name) for name in cut.branches)):
        for pin in head.snapshot.pins.values():
            version = (pin.path, pin.version)
            if version not in counted:
                counted[version] = LanceTable(handles, *version).count()
            if counted[version] != pin.rows:
                reason = f"it has {counted[version]} rows instead of {pin.rows}"
                raise PinUnreadableError(pin.path, pin.version, reason)
        rows[head.snapshot.branch] = sum(pin.rows for pin in head.snapshot.pins.values())
    return rows
