"""Back a graph up into a repository of backups elsewhere; each backup costs what is new since the one before it."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from omnigraph.clock import format_instant
from omnigraph.commit.clone_lock import CloneLock, lock_clone_target
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.sidecar import CloneOrigin
from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.backup_repository import Backup, BackupRecord, Repository, map_versions
from omnigraph.ops.clone import check_not_nested, find_first_commit
from omnigraph.ops.clone_cut import CopiedCut, CutReader, list_manifest_files
from omnigraph.ops.clone_tables import CloneProgress, copy_files, is_reused
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.checksums import compute_checksum
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.uri import parse_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupCall:
    """The arguments of a backup."""

    target: str
    keep: int | None = None
    """Afterwards, remove all but this number of the newest backups; None: keep all."""
    progress: Callable[[CloneProgress], None] | None = None


class BackupResult(JsonStruct, frozen=True, kw_only=True):
    """The newest backup of a graph, and what it took."""

    json_keys = "target new=is_new backup files bytes=nbytes removed"

    target: str
    is_new: bool
    """False if nothing had changed since the newest backup, which is reported then."""
    backup: Backup
    files: int
    """The number of files copied; files that earlier backups have are not copied again."""
    nbytes: int
    removed: tuple[str, ...]
    """The ids of older backups that were removed."""


def back_up(session: Session, call: BackupCall) -> BackupResult:
    """Add a backup of a graph to a repository. It exists completely or not at all; others may write meanwhile.

    Raises:
        BadArgumentError: One location is inside the other, or fewer than one backup would be kept.
        PlaceTakenError: The target holds anything but backups of this graph, or another backup is being written there.
        CorruptError: A record in the repository is damaged.
        PinUnreadableError: Files of a current version are missing or do not match their checksums. Damaged versions
            of earlier commits are left out instead.
        DamagedError: A manifest of the graph is damaged.
        ConflictError: Cleanups collect files faster than they can be copied; try again later.
    """
    session.allow_on_graph(Action.EXPORT)
    if call.keep is not None and call.keep < 1:
        raise BadArgumentError("keep", f"`{call.keep}`", "keep at least one backup")
    repository = Repository(parse_uri(call.target), session.runtime)
    check_not_nested(session.store.location, repository.store.location)
    head = session.branches.main.head()
    origin = CloneOrigin(uri=session.uri, root=find_first_commit(session.branches.main, head))
    repository.check_root(origin.root)
    with lock_clone_target(repository.store, origin, head, lambda: None) as lock:
        # Again under the lock: another process may have made the location a repository of another graph.
        if not repository.check_root(origin.root):
            repository.create(origin.root)
        return _BackupRun(session, repository, lock, call).run()


class _BackupRun:
    """One run, under the lock of the repository."""

    def __init__(self, session: Session, repository: Repository, lock: CloneLock, call: BackupCall) -> None:
        self._session = session
        self._repository = repository
        self._call = call
        self._lock = lock
        self._id = session.runtime.ids.ulid()
        self._own = repository.open_own(self._id)
        self._reader = CutReader(session, None)
        operation = lock.lease.operation_id
        self._copier = Copier(self._reader.source, repository.store, operation)
        self._own_copier = Copier(self._reader.source, self._own, operation)
        self._faults = session.runtime.faults

    def run(self) -> BackupResult:
        newest = self._repository.find_newest()
        is_new = newest is None or newest.versions != self._read_versions()
        files = nbytes = 0
        if newest is None or is_new:
            newest, files, nbytes = self._add()
        removed = self._remove_old()
        # A process that died, or a cut that was given up, may have left files.
        if removed or self._lock.is_taken_over or self._reader.has_retried:
            self._lock.lease.confirm(())
            self._repository.sweep()
        return BackupResult(
            target=self._repository.uri,
            is_new=is_new,
            backup=newest.summarize(),
            files=files,
            nbytes=nbytes,
            removed=removed,
        )

    def _read_versions(self) -> dict[str, int]:
        """Return the manifest version of each branch, with one request for each."""
        branches = self._session.branches
        main = branches.main.head()
        others = {
            record.path: branches.get_journal(name, record.path).final_head()
            for name, record in main.snapshot.manifest.live_branches.items()
        }
        return map_versions({MANIFEST: main, **others})

    def _add(self) -> tuple[BackupRecord, int, int]:
        """Copy what is new, and write the record; return it with the number of files and bytes copied."""
        at = format_instant(self._session.runtime.clock.now())
        with ExitStack() as stack:
            copied = self._reader.read(stack, self._copy_tables)
            self._faults.reach("backup.copied")
            manifests = self._put_manifests(copied)
        cut = copied.cut
        names = {name: cut.get_head(name) for name in (MAIN, *cut.branches)}
        shared, own = _divide(copied.plan.sizes)
        record = BackupRecord(
            id=self._id,
            at=at,
            source=self._session.uri,
            branches={name: head.snapshot.commit.id for name, head in names.items()},
            rows={name: sum(pin.rows for pin in head.snapshot.pins.values()) for name, head in names.items()},
            versions=map_versions({head.table.path: head for head in names.values()}),
            shared=shared,
            own=own,
            manifests=manifests,
        )
        self._faults.reach("backup.ready")
        self._lock.lease.confirm(())
        self._repository.add(record)
        self._faults.reach("backup.added")
        return record, copied.files + len(manifests), copied.nbytes + sum(size for size, _ in manifests.values())

    def _copy_tables(self, sizes: Mapping[str, int], damaged: dict[str, str]) -> tuple[int, int]:
        shared, own = _divide(sizes)
        workers = self._session.runtime.options.upkeep.concurrency
        files, nbytes = copy_files(
            self._copier, shared, self._repository.store, workers=workers, progress=self._call.progress, damaged=damaged
        )
        own_files, own_bytes = copy_files(
            self._own_copier, own, self._own, workers=workers, progress=None, damaged=damaged
        )
        return files + own_files, nbytes + own_bytes

    def _put_manifests(self, copied: CopiedCut) -> dict[str, tuple[int, int]]:
        spool = copied.spool
        files = dict(file for head in copied.heads.values() for file in list_manifest_files(spool, head))
        copier = Copier(spool, self._own, self._lock.lease.operation_id)
        for key, size in files.items():
            copier.copy(key, size, lambda _: None)
        self._own.flush_directories(files)
        return {key: (size, compute_checksum(spool.objects.get(key).data)) for key, size in files.items()}

    def _remove_old(self) -> tuple[str, ...]:
        if self._call.keep is None:
            return ()
        old = self._repository.list_ids()[: -self._call.keep]
        self._lock.lease.confirm(())
        for backup_id in old:
            self._repository.remove(backup_id)
            self._faults.reach("backup.removed")
        return tuple(old)


def _divide(sizes: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the files that backups can share, and those whose names can have other content later."""
    own = {key: size for key, size in sizes.items() if is_reused(key)}
    return {key: size for key, size in sizes.items() if key not in own}, own
