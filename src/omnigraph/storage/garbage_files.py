"""Sorting the files of a graph into those that are needed and those that can go, and removing the latter.

Only files whose names are such as this software and Lance give are ever removed; all others are strangers, and are
told of. What decides is pure: names, sizes and times in, a verdict out.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import CHECKSUM_LISTS, VERSION_NOTE, parse_version_number
from omnigraph.storage.object_store import ObjectInfo
from omnigraph.storage.version_files import PinnedFiles

MAX_CONCURRENT_REMOVALS = 16
"""How many files of an object store are removed at the same time."""


class FileKind(Enum):
    """What a file below a table is, by its name."""

    VERSION = "version"
    """A version that only who knows its number can open."""
    HEAD = "head"
    """A version of Lance's own line, which every table has a first one of; or what is noted of the newest."""
    CONTENT = "content"
    """Rows, deletions, indexes, transactions: what versions are made of."""
    UNKNOWN = "stranger"
    """Nothing that belongs here."""


_PARTIAL_SUFFIX = r"(?:#\d+)?"
"""A file that is just being written on local disk has such an ending, or is called `.tmp` and six letters; when its
writer dies it stays."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CONTENT = re.compile(
    rf"data/[0-9A-Za-z_-]+\.lance{_PARTIAL_SUFFIX}|data/[0-9A-Za-z_-]+/[0-9A-Za-z_-]+\.blob{_PARTIAL_SUFFIX}"
    rf"|_deletions/\d+-\d+-\d+\.(?:arrow|bin){_PARTIAL_SUFFIX}|_transactions/\d+-{_UUID}\.txn{_PARTIAL_SUFFIX}"
    rf"|_indices/{_UUID}/[0-9A-Za-z_./-]+{_PARTIAL_SUFFIX}"
    rf"|keys/[0-9A-Z]{{26}}|{CHECKSUM_LISTS}/[0-9a-f]{{32}}"
    r"|(?:data|data/[0-9A-Za-z_-]+|_deletions|_transactions|_versions)/\.tmp[0-9A-Za-z]{6}"
)
_VERSION = re.compile(rf"_versions/d\d+\.manifest{_PARTIAL_SUFFIX}")
_TEMPORARY_NAME = re.compile(r"\.tmp-[0-9a-f]{16}")
"""What an object is called on local disk until it is whole."""
_HEAD = re.compile(rf"_versions/(?:\d{{20}}\.manifest|latest_version_hint\.json){_PARTIAL_SUFFIX}|{VERSION_NOTE}")


def classify_file(name: str) -> FileKind:
    """What a file is, by its name relative to its table."""
    if _CONTENT.fullmatch(name):
        return FileKind.CONTENT
    if _VERSION.fullmatch(name):
        return FileKind.VERSION
    return FileKind.HEAD if _HEAD.fullmatch(name) else FileKind.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRules:
    """What spares a file: being needed, being young, being named by somebody who is at work."""

    before: datetime
    """Only what is older can go, by the store's clock."""
    is_named: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class TableGarbage:
    """The files of a table that can go, in the order in which they have to, and those that nobody knows."""

    garbage: tuple[ObjectInfo, ...]
    unknown_files: tuple[ObjectInfo, ...] = ()

    @property
    def nbytes(self) -> int:
        """How much goes."""
        return sum(info.size for info in self.garbage)

    @property
    def versions(self) -> int:
        """How many versions go."""
        return sum(info.key.endswith(".manifest") for info in self.garbage)

    def select_unchanged(self, listed: Iterable[ObjectInfo]) -> "TableGarbage":
        """Those that a later listing has too, and that nobody has touched since."""
        there = {(info.key, info.size, info.modified) for info in listed}
        return TableGarbage(
            tuple(info for info in self.garbage if (info.key, info.size, info.modified) in there), self.unknown_files
        )


def find_table_garbage(path: str, files: Iterable[ObjectInfo], needed: PinnedFiles, rules: SweepRules) -> TableGarbage:
    """Of a table of rows, whose versions are detached: everything that is not needed.

    Versions of Lance's own line always stay. The first one says that the path was used, so that no later table gets it;
    others were made by other tools, which may need them: name their files as needed too.
    """
    return _find_garbage(path, files, rules, lambda part, key: part is FileKind.HEAD or key in needed)


def find_manifest_garbage(
    path: str, files: Iterable[ObjectInfo], needed: PinnedFiles, rules: SweepRules
) -> TableGarbage:
    """Of a manifest, whose versions are Lance's own line: those that are not needed, with what only they are made of.

    With nothing needed it goes as a whole. Versions go first, the newest last: so whoever looks meanwhile finds the
    true end of the line, or nothing.
    """
    is_whole = not needed.files

    def is_needed(_part: FileKind, key: str) -> bool:
        return key in needed or (key.endswith((".json", VERSION_NOTE)) and not is_whole)

    return _find_garbage(path, files, rules, is_needed)


def is_older(files: Iterable[ObjectInfo], before: datetime) -> bool:
    """Whether every one of the files is old: a directory with a young one is one that somebody is making."""
    return all(info.modified < before for info in files)


def _find_garbage(
    path: str, files: Iterable[ObjectInfo], rules: SweepRules, is_needed: Callable[[FileKind, str], bool]
) -> TableGarbage:
    garbage: list[tuple[bool, int, ObjectInfo]] = []
    strangers: list[ObjectInfo] = []
    for info in files:
        name = info.key.removeprefix(f"{path}/")
        part = classify_file(name)
        if part is FileKind.UNKNOWN:
            strangers.append(info)
        elif info.modified < rules.before and not is_needed(part, info.key) and not rules.is_named(info.key):
            is_version = name.startswith("_versions/")
            number = parse_version_number(name) if is_version else 0
            garbage.append((not is_version, number, info))
    garbage.sort(key=lambda item: (item[0], item[1], item[2].key))
    return TableGarbage(tuple(info for _, _, info in garbage), tuple(strangers))


def remove_garbage(store: GraphStorage, files: Sequence[ObjectInfo], told: Callable[[ObjectInfo], None]) -> None:
    """Remove files, telling of each; then directories that are empty now and never used again.

    Versions go one after the other. What they are made of goes several at once, where each is a request.
    """

    def gone(info: ObjectInfo) -> None:
        store.objects.delete(info.key)
        told(info)
        store.runtime.faults.reach("cleanup.removed")

    versions = [info for info in files if info.key.endswith(".manifest")]
    rest = [info for info in files if not info.key.endswith(".manifest")]
    for info in versions:
        gone(info)
    with ThreadPoolExecutor(
        1 if store.location.is_local else MAX_CONCURRENT_REMOVALS, thread_name_prefix="cleanup"
    ) as pool:
        try:
            for _ in pool.map(gone, rest):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if store.local is not None:
        for directory in sorted(
            {directory for info in files for directory in _list_own_directories(info.key)}, key=len, reverse=True
        ):
            store.local.remove_directory(directory)


def remove_temporary_files(store: GraphStorage, room: str, before: datetime) -> int:
    """Remove old files of a room that were to become objects, and whose writers died; how many there were.

    No listing shows them. Only a local disk has such.
    """
    if store.local is None:
        return 0
    unplaced = [
        info
        for info in store.local.list_temporary(room)
        if info.modified < before and _TEMPORARY_NAME.fullmatch(info.key.rpartition("/")[2])
    ]
    for info in unplaced:
        store.local.delete(info.key)
    return len(unplaced)


def _list_own_directories(key: str) -> list[str]:
    """The directories above a file whose names are given once: those of an index, of blobs, of a branch.

    Others, such as that of all data files, may be about to be written into: a writer must not lose it.
    """
    parts = key.split("/")
    found = []
    if parts[0] == "__branches":
        found += ["/".join(parts[:number]) for number in range(2, len(parts))]
    elif len(parts) > 4 and parts[2] in {"data", "_indices"}:
        found += ["/".join(parts[:number]) for number in range(4, len(parts))]
    return found
