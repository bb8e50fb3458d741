"""Restore a backup to an empty location, where it becomes a graph with all its branches and history."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.clone_lock import CloneLock, lock_clone_target
from omnigraph.commit.consistent_cut import ConsistentCut, take_cut
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.sidecar import CloneOrigin
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.backup_repository import Backup, BackupRecord, Repository
from omnigraph.ops.clone import check_not_nested, check_target, find_first_commit
from omnigraph.ops.clone_cut import open_spool
from omnigraph.ops.clone_placement import ManifestPlacement, check_no_graph
from omnigraph.ops.clone_tables import CloneProgress, CopyPlan, check_tables, copy_files, expect_recorded
from omnigraph.ops.create import check_conditions
from omnigraph.runtime import Runtime
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.checksums import compute_checksum
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import BACKUPS, EDGES, NODES
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.storage.uri import parse_uri
from omnigraph.storage.verification import MISMATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCall:
    """The arguments of a restore."""

    source: str
    target: str
    backup: str | None = None
    """The id of a backup; None: the newest."""
    progress: Callable[[CloneProgress], None] | None = None


class RestoreResult(JsonStruct, frozen=True, kw_only=True):
    """A backup that was restored."""

    json_keys = "source target backup rows files bytes=nbytes"

    source: str
    target: str
    backup: Backup
    rows: Mapping[str, int]
    files: int
    """The number of table files copied; files that an earlier attempt had copied are not counted."""
    nbytes: int


def list_backups(source: str, runtime: Runtime) -> list[Backup]:
    """Return the backups of a repository, newest first.

    Raises:
        DamagedError: The record of one is damaged.
    """
    repository = Repository(parse_uri(source), runtime)
    return [repository.read(backup_id).summarize() for backup_id in reversed(repository.list_ids())]


def restore(call: RestoreCall, runtime: Runtime) -> RestoreResult:
    """Restore a backup, atomically: the target becomes a graph at the end. Repeat it to resume one that died.

    Raises:
        NotAGraphError: There is no such backup.
        DamagedError: A file of it is missing or does not match its checksum.
        PlaceTakenError: The target is not empty, or another process is writing there.
        BadArgumentError: One location is inside the other.
    """
    repository = Repository(parse_uri(call.source), runtime)
    target = GraphStorage(parse_uri(call.target), runtime)
    check_not_nested(repository.store.location, target.location)
    record = repository.find_newest() if call.backup is None else repository.read(call.backup)
    if record is None:
        raise NotAGraphError.no_backups(repository.uri)
    with ExitStack() as stack:
        restored = _read_manifests(repository, record, stack, runtime)
        origin = CloneOrigin(uri=repository.uri, root=find_first_commit(restored.main, restored.head))
        if check_target(target, origin) is None:
            with lock_clone_target(target, origin, restored.head, lambda: check_no_graph(target)) as lock:
                check_conditions(target)
                return _RestoreRun(repository, record, restored, target, lock, call).run()
    # An earlier call died after the last file.
    return _build_result(call, record, files=0, nbytes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifests:
    """The manifests of a backup in a temporary directory, and the cut that they are of."""

    spool: GraphStorage
    main: ManifestLog
    head: Head
    cut: ConsistentCut


def _read_manifests(repository: Repository, record: BackupRecord, stack: ExitStack, runtime: Runtime) -> _Manifests:
    spool = open_spool(stack, runtime)
    copier = Copier(repository.open_own(record.id), spool, record.id)
    for key, (size, checksum) in record.manifests.items():
        place = f"{BACKUPS}/{record.id}/{key}"
        try:
            copier.copy(key, size, lambda _: None)
        except ObjectMissingError:
            raise DamagedError.backup_damaged(repository.uri, place, "it is missing") from None
        if compute_checksum(spool.objects.get(key).data) != checksum:
            raise DamagedError.backup_damaged(repository.uri, place, MISMATCH)
    main = ManifestLog(spool)
    return _Manifests(spool=spool, main=main, head=main.head(), cut=take_cut(BranchRegistry(main)))


class _RestoreRun:
    """One run of a restore, from the claimed target to the graph."""

    def __init__(
        self,
        repository: Repository,
        record: BackupRecord,
        manifests: _Manifests,
        target: GraphStorage,
        lock: CloneLock,
        call: RestoreCall,
    ) -> None:
        self._repository = repository
        self._record = record
        self._manifests = manifests
        self._target = target
        self._call = call
        self._operation = lock.lease.operation_id
        self._placement = ManifestPlacement(target, lock)

    def run(self) -> RestoreResult:
        cut = self._manifests.cut
        sizes = {**self._record.shared, **self._record.own}
        files, nbytes = self._copy(self._repository.store, self._record.shared)
        own_files, own_bytes = self._copy(self._repository.open_own(self._record.id), self._record.own)
        self._placement.remove_unneeded((NODES, EDGES), sizes)
        check_tables(self._target, cut, CopyPlan(sizes=sizes, versions=len(cut.present), missing=0))
        self._target.runtime.faults.reach("restore.flushed")
        self._placement.place(self._manifests.spool, cut.heads)
        return _build_result(self._call, self._record, files=files + own_files, nbytes=nbytes + own_bytes)

    def _copy(self, store: GraphStorage, sizes: Mapping[str, int]) -> tuple[int, int]:
        """Copy files from the repository, and return the number of files and bytes.

        Raises:
            DamagedError: One is missing or damaged.
        """
        expect_recorded(store, self._manifests.cut)
        damaged: dict[str, str] = {}
        try:
            copied = copy_files(
                Copier(store, self._target, self._operation),
                sizes,
                self._target,
                workers=self._target.runtime.options.upkeep.concurrency,
                progress=self._call.progress,
                damaged=damaged,
            )
        except ObjectMissingError as error:
            raise DamagedError.backup_damaged(self._repository.uri, error.key, "it is missing") from error
        for key, reason in damaged.items():
            raise DamagedError.backup_damaged(self._repository.uri, key, reason)
        return copied


def _build_result(call: RestoreCall, record: BackupRecord, *, files: int, nbytes: int) -> RestoreResult:
    return RestoreResult(
        source=call.source,
        target=call.target,
        backup=record.summarize(),
        rows=record.rows,
        files=files,
        nbytes=nbytes,
    )
