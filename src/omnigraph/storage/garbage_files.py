"""Classify the files of a graph as needed or garbage, and remove garbage.

Only files with names that this software or Lance uses are ever removed; all others are reported as unknown. The
decision is pure: names, sizes and times in, a verdict out.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from omnigraph.concurrency import create_pool
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import CHECKSUM_LISTS, VERSION_NOTE, parse_version_number
from omnigraph.storage.object_store import ObjectInfo
from omnigraph.storage.version_files import PinnedFiles

# Files of an object store that are removed concurrently.
MAX_CONCURRENT_REMOVALS = 16


class FileKind(Enum):
    """The kind of a file below a table, by its name."""

    VERSION = "version"
    """A detached version, which can be opened by its number only."""
    HEAD = "head"
    """An ordinary version of Lance, of which every table has the first; or a note about the newest one."""
    CONTENT = "content"
    """Rows, deletions, indexes, transactions: the content of versions."""
    UNKNOWN = "stranger"
    """Not a file of a table."""


# A file that is being written on local disk has such a suffix, or is called `.tmp` and six letters; if its writer
# dies, it stays.
_PARTIAL_SUFFIX = r"(?:#\d+)?"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CONTENT = re.compile(
    rf"data/[0-9A-Za-z_-]+\.lance{_PARTIAL_SUFFIX}|data/[0-9A-Za-z_-]+/[0-9A-Za-z_-]+\.blob{_PARTIAL_SUFFIX}"
    rf"|_deletions/\d+-\d+-\d+\.(?:arrow|bin){_PARTIAL_SUFFIX}|_transactions/\d+-{_UUID}\.txn{_PARTIAL_SUFFIX}"
    rf"|_indices/{_UUID}/[0-9A-Za-z_./-]+{_PARTIAL_SUFFIX}"
    rf"|keys/[0-9A-Z]{{26}}|{CHECKSUM_LISTS}/[0-9a-f]{{32}}"
    r"|(?:data|data/[0-9A-Za-z_-]+|_deletions|_transactions|_versions)/\.tmp[0-9A-Za-z]{6}"
)
_VERSION = re.compile(rf"_versions/d\d+\.manifest{_PARTIAL_SUFFIX}")
# The name of an object on local disk until it is complete.
_TEMPORARY_NAME = re.compile(r"\.tmp-[0-9a-f]{16}")
_HEAD = re.compile(rf"_versions/(?:\d{{20}}\.manifest|latest_version_hint\.json){_PARTIAL_SUFFIX}|{VERSION_NOTE}")


def classify_file(name: str) -> FileKind:
    """Return the kind of a file by its name relative to its table."""
    if _CONTENT.fullmatch(name):
        return FileKind.CONTENT
    if _VERSION.fullmatch(name):
        return FileKind.VERSION
    return FileKind.HEAD if _HEAD.fullmatch(name) else FileKind.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRules:
    """What spares a file besides being needed: being young, or being named by an operation in progress."""

    before: datetime
    """Only older files can be removed, by the store's clock."""
    is_named: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class TableGarbage:
    """The files of a table that can be removed, in the required order, and the unknown files."""

    garbage: tuple[ObjectInfo, ...]
    unknown_files: tuple[ObjectInfo, ...] = ()

    @property
    def nbytes(self) -> int:
        """The total size of the garbage."""
        return sum(info.size for info in self.garbage)

    @property
    def versions(self) -> int:
        """The number of versions in the garbage."""
        return sum(info.key.endswith(".manifest") for info in self.garbage)

    def select_unchanged(self, listed: Iterable[ObjectInfo]) -> "TableGarbage":
        """Return the garbage that a later listing also has, with the same size and time."""
        current = {(info.key, info.size, info.modified) for info in listed}
        unchanged = (info for info in self.garbage if (info.key, info.size, info.modified) in current)
        return TableGarbage(tuple(unchanged), self.unknown_files)


def find_table_garbage(path: str, files: Iterable[ObjectInfo], needed: PinnedFiles, rules: SweepRules) -> TableGarbage:
    """Return everything that is not needed of a table of rows, whose versions are detached.

    Ordinary versions of Lance always stay. The first one marks the path as used, so that no later table gets it; others
    were created by other tools, which may need them: pass their files as needed too.
    """
    return _find_garbage(path, files, rules, lambda kind, key: kind is FileKind.HEAD or key in needed)


def find_manifest_garbage(
    path: str, files: Iterable[ObjectInfo], needed: PinnedFiles, rules: SweepRules
) -> TableGarbage:
    """Return the versions of a manifest, which are ordinary ones, that are not needed, with files that only they use.

    If nothing is needed, the whole manifest is garbage. Versions are removed first, the newest last: a concurrent
    reader finds the true newest version, or nothing.
    """
    is_whole = not needed.files

    # The hint and the note of the newest version stay with it, and go with the whole manifest only.
    def is_needed(_kind: FileKind, key: str) -> bool:
        return key in needed or (key.endswith((".json", VERSION_NOTE)) and not is_whole)

    return _find_garbage(path, files, rules, is_needed)


def is_older(files: Iterable[ObjectInfo], before: datetime) -> bool:
    """Return whether all files are old: a directory with a young file is one that a writer is creating."""
    return all(info.modified < before for info in files)


def _find_garbage(
    path: str, files: Iterable[ObjectInfo], rules: SweepRules, is_needed: Callable[[FileKind, str], bool]
) -> TableGarbage:
    garbage: list[tuple[bool, int, ObjectInfo]] = []
    unknown_files: list[ObjectInfo] = []
    for info in files:
        name = info.key.removeprefix(f"{path}/")
        kind = classify_file(name)
        if kind is FileKind.UNKNOWN:
            unknown_files.append(info)
        elif info.modified < rules.before and not is_needed(kind, info.key) and not rules.is_named(info.key):
            is_version = name.startswith("_versions/")
            number = parse_version_number(name) if is_version else 0
            # Versions first, in ascending order: content goes only after the versions that use it.
            garbage.append((not is_version, number, info))
    garbage.sort(key=lambda item: (item[0], item[1], item[2].key))
    return TableGarbage(tuple(info for _, _, info in garbage), tuple(unknown_files))


def remove_garbage(store: GraphStorage, files: Sequence[ObjectInfo], on_removed: Callable[[ObjectInfo], None]) -> None:
    """Remove files and report each, then remove directories that are empty now and never used again.

    Versions are removed one after the other, their content concurrently on an object store, where each is a request.
    """

    def remove(info: ObjectInfo) -> None:
        store.objects.delete(info.key)
        on_removed(info)
        store.runtime.faults.reach("cleanup.removed")

    versions = [info for info in files if info.key.endswith(".manifest")]
    rest = [info for info in files if not info.key.endswith(".manifest")]
    for info in versions:
        remove(info)
    with create_pool(1 if store.location.is_local else MAX_CONCURRENT_REMOVALS, "cleanup") as pool:
        try:
            for _ in pool.map(remove, rest):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if store.local is not None:
        directories = {directory for info in files for directory in _list_own_directories(info.key)}
        # Longest first: a directory is empty only after those inside it are removed.
        for directory in sorted(directories, key=len, reverse=True):
            store.local.remove_directory(directory)


def remove_temporary_files(store: GraphStorage, directory: str, before: datetime) -> int:
    """Remove old temporary files of a directory whose writers died, and return their number.

    They were to become objects, and no listing shows them. Only a local disk has such files.
    """
    if store.local is None:
        return 0
    leftovers = [
        info
        for info in store.local.list_temporary(directory)
        if info.modified < before and _TEMPORARY_NAME.fullmatch(info.key.rpartition("/")[2])
    ]
    for info in leftovers:
        store.local.delete(info.key)
    return len(leftovers)


def _list_own_directories(key: str) -> list[str]:
    """Return the directories above a file whose names are never reused: those of an index, of blobs, of a branch.

    Others, such as that of all data files, may be in use: removing one could break a concurrent write.
    """
    parts = key.split("/")
    directories = []
    if parts[0] == "__branches":
        directories += ["/".join(parts[:number]) for number in range(2, len(parts))]
    # `nodes/{table}/data/{blobs}/…` and `nodes/{table}/_indices/{uuid}/…`.
    elif len(parts) > 4 and parts[2] in {"data", "_indices"}:
        directories += ["/".join(parts[:number]) for number in range(4, len(parts))]
    return directories
