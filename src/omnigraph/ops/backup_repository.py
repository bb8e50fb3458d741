"""A repository of backups: the table files of all of them once, and for each its manifests and the list of its files.

nodes/, edges/          table files, which never change; backups share them
backups/repository.json the graph that the backups are of
backups/ID/             the manifests of one backup, and table files whose names can have other content later
backups/ID/backup.json  its record, written last: a directory without it is no backup
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec

from omnigraph.commit.checksummed_json import decode_with_checksum, encode_with_checksum
from omnigraph.commit.manifest_log import Head, NotAGraphError
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.json_struct import JsonStruct
from omnigraph.locations import Location
from omnigraph.runtime import Runtime
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import BACKUPS, EDGES, NODES, RECOVERY, ManifestPath, TableFile
from omnigraph.storage.object_store import ObjectMissingError

S = TypeVar("S", bound=msgspec.Struct)

_REPOSITORY = f"{BACKUPS}/repository.json"
_RECORD = "backup.json"
_BackupId = Annotated[str, msgspec.Meta(pattern=r"\A[0-9A-HJKMNP-TV-Z]{26}\Z")]


class Backup(JsonStruct, frozen=True, kw_only=True):
    """One state of a graph that can be restored."""

    json_keys = "id at source branches rows files bytes=nbytes"

    id: str
    at: str
    """When it was begun."""
    source: str
    branches: Mapping[str, str]
    """By name, the head commit of each branch; main is first."""
    rows: Mapping[str, int]
    """By name, the number of rows of each branch."""
    files: int
    """The number of files that it needs, which other backups may need as well."""
    nbytes: int


class BackupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The stored description of a backup."""

    format: Literal[1] = 1
    id: _BackupId
    at: str
    source: str
    branches: dict[str, str]
    rows: dict[str, int]
    versions: dict[ManifestPath, int]
    """By path, the version of the manifest of each branch: equal ones mean that nothing has changed since."""
    shared: dict[TableFile, int]
    """The files that backups share, with their sizes."""
    own: dict[str, int]
    """The table files in the directory of this backup."""
    manifests: dict[str, tuple[int, int]]
    """The other files there, with their sizes and checksums."""

    def summarize(self) -> Backup:
        """Return what users see of it."""
        manifests = {key: size for key, (size, _) in self.manifests.items()}
        files = (self.shared, self.own, manifests)
        return Backup(
            id=self.id,
            at=self.at,
            source=self.source,
            branches=self.branches,
            rows=self.rows,
            files=sum(map(len, files)),
            nbytes=sum(sum(sizes.values()) for sizes in files),
        )


class _RepositoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The graph that a repository has backups of, by its first commit."""

    format: Literal[1] = 1
    root: str


class Repository:
    """The backups of one graph at one location. Backups are added and removed by the owner of its lock only."""

    def __init__(self, location: Location, runtime: Runtime) -> None:
        self.store = GraphStorage(location, runtime)
        self.uri = location.uri

    def open_own(self, backup_id: str) -> GraphStorage:
        """Return the storage of the files that are of one backup alone."""
        return GraphStorage(self.store.location.join(f"{BACKUPS}/{backup_id}"), self.store.runtime)

    def check_root(self, root: str) -> bool:
        """Return whether the location has backups of the graph with this first commit; False if it is empty.

        Raises:
            PlaceTakenError: It has backups of another graph, or anything else.
            DamagedError: Its record is damaged.
        """
        try:
            data = self.store.objects.get(_REPOSITORY).data
        except ObjectMissingError:
            names = sorted(set(self.store.objects.list_children()) - {RECOVERY})
            if names:
                raise PlaceTakenError(self.uri, f"`{names[0]}`") from None
            return False
        if self._decode(_REPOSITORY, data, _RepositoryRecord).root != root:
            raise PlaceTakenError(self.uri, "backups of another graph")
        return True

    def create(self, root: str) -> None:
        """Make the location a repository of backups of a graph."""
        self.store.objects.put(_REPOSITORY, encode_with_checksum(_RepositoryRecord(root=root)))

    def list_ids(self) -> list[str]:
        """Return the ids of all complete backups, oldest first, with one listing."""
        return [key.split("/")[1] for key in self._list_keys() if key.endswith(f"/{_RECORD}")]

    def read(self, backup_id: str) -> BackupRecord:
        """Return the record of a backup.

        Raises:
            NotAGraphError: There is no such backup.
            DamagedError: Its record is damaged.
        """
        key = f"{BACKUPS}/{backup_id}/{_RECORD}"
        try:
            data = self.store.objects.get(key).data
        except ObjectMissingError:
            raise NotAGraphError.backup_not_found(self.uri, backup_id) from None
        return self._decode(key, data, BackupRecord)

    def find_newest(self) -> BackupRecord | None:
        """Return the record of the newest backup; None if there is none."""
        ids = self.list_ids()
        return self.read(ids[-1]) if ids else None

    def add(self, record: BackupRecord) -> None:
        """Write the record of a backup whose files are all durable: from then on it is one."""
        self.store.objects.put_if_absent(f"{BACKUPS}/{record.id}/{_RECORD}", encode_with_checksum(record))

    def remove(self, backup_id: str) -> None:
        """Remove the record of a backup: from then on it is none. `sweep` removes its files."""
        self.store.objects.delete(f"{BACKUPS}/{backup_id}/{_RECORD}")

    def sweep(self) -> int:
        """Remove files that no backup needs, and return their number.

        Raises:
            DamagedError: The record of a backup is damaged, so that what it needs is unknown. Nothing is
                removed.
        """
        ids = set(self.list_ids())
        needed: set[str] = set()
        for backup_id in ids:
            needed.update(self.read(backup_id).shared)
        kept = {f"{BACKUPS}/{backup_id}" for backup_id in ids}
        unneeded = [key for key in self._list_keys() if key != _REPOSITORY and "/".join(key.split("/")[:2]) not in kept]
        unneeded += [
            info.key
            for root in (NODES, EDGES)
            for info in self.store.objects.list_under(root)
            if info.key not in needed
        ]
        for key in unneeded:
            self.store.objects.delete(key)
        return len(unneeded)

    def _list_keys(self) -> list[str]:
        return [info.key for info in self.store.objects.list_under(BACKUPS)]

    def _decode(self, key: str, data: bytes, type_: type[S]) -> S:
        try:
            return decode_with_checksum(data, type_)
        except ValueError as error:
            raise DamagedError.backup_damaged(self.uri, key, str(error)) from error


def map_versions(heads: Mapping[str, Head]) -> dict[str, int]:
    """Return the version of each manifest by its path."""
    return {path: head.table.version for path, head in heads.items()}
