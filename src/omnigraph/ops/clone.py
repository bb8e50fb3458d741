"""Clone a graph, with its branches and history, to another location while others write to it.

    claim    write a sidecar at the target, so that no other clone or init uses the location
    cut      take a consistent cut: states of all branches that belong together; spool their manifests immediately
    copy     copy the immutable files of every table version that those manifests reference
    place    write the manifests of the branches, then that of main; its last file makes the location a graph

Nothing is written to the source. Versions keep their numbers and commits their ids, so history is as readable in the
clone as in the source. Collected data is not cloned, nor are operations in flight, the recovery log and derived data.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from omnigraph.commit.clone_lock import CloneLock, find_clones, finish_clone, lock_clone_target
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.consistent_cut import ConsistentCut, take_cut
from omnigraph.commit.key_index import find_run_fault
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError, UnfinishedCloneError
from omnigraph.commit.manifest_types import MAIN, KeyRun, Manifest
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.commit.sidecar import CLONE, CloneOrigin
from omnigraph.errors import BadArgumentError
from omnigraph.faults import NoFaults
from omnigraph.json_struct import JsonStruct
from omnigraph.locations import Location
from omnigraph.ops.clone_tables import (
    CloneProgress,
    CopyPlan,
    check_tables,
    copy_files,
    expect_recorded,
    plan_tables,
    remove_unneeded,
)
from omnigraph.ops.create import check_conditions
from omnigraph.ops.session import Session
from omnigraph.options import Durability
from omnigraph.policy import Action
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import BRANCHES, EDGES, MANIFEST, NODES, RECOVERY, SCHEMA_COPY, format_version_name
from omnigraph.storage.object_store import ObjectExistsError, ObjectMissingError
from omnigraph.storage.table_cache import PinUnreadableError, TableCache
from omnigraph.storage.uri import parse_uri
from omnigraph.telemetry import Telemetry, log

# A cut is taken again, up to this number of times, if files of it were collected before they were copied.
MAX_ATTEMPTS = 10
CONCURRENT_GRAPH = "a graph that was created at the same time"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneCall:
    """The arguments of a clone."""

    target: str
    branches: tuple[str, ...] | None = None
    """Besides main, clone only these and the branches they were created from; None: all."""
    progress: Callable[[CloneProgress], None] | None = None


class CloneResult(JsonStruct, frozen=True, kw_only=True):
    """The branches and the amount of data in a clone."""

    json_keys = "source target branches rows tables versions collected files bytes=nbytes"

    source: str
    target: str
    branches: Mapping[str, str]
    """By name, the head commit of each branch; main is first."""
    rows: Mapping[str, int]
    """By name, the number of rows of each branch."""
    tables: int
    versions: int
    collected: int
    """The number of versions that commits reference, but that the source has collected or dropped permanently."""
    files: int
    """The number of files copied; files that an earlier attempt had copied are not counted."""
    nbytes: int


def clone(session: Session, call: CloneCall) -> CloneResult:
    """Clone a graph to another location, atomically: the clone exists completely or not at all.

    Others may write to the source in the meantime. Commits made after the clone began may be in it or not, but always
    as a whole. If a clone dies, the next call with the same source and target resumes it.

    Raises:
        BranchMissingError: There is no such branch.
        PlaceTakenError: The target holds a graph, other files, or an unfinished clone of another graph; or another
            clone is being written there.
        BadArgumentError: One location is inside the other.
        PinUnreadableError: Files of a current version are missing or do not match their checksums. Damaged versions
            of earlier commits are left out instead.
        DamagedError: A manifest of the source is damaged.
        ConflictError: Cleanups collect files faster than they can be copied; try again later.
    """
    session.allow_on_graph(Action.EXPORT)
    source = session.store
    target = GraphStorage(parse_uri(call.target), session.runtime)
    check_not_nested(source.location, target.location)
    # Raises BranchMissingError for an unknown branch before anything is written.
    for name in call.branches or ():
        session.checkout(name)
    head = session.branches.main.head()
    origin = CloneOrigin(uri=source.location.uri, root=_find_first_commit(session.branches.main, head))
    finished = _check_target(target, origin)
    if finished is not None:
        return _build_finished_result(session, target, finished)
    with lock_clone_target(target, origin, head, lambda: _check_no_graph(target)) as lock:
        check_conditions(target)
        return _CloneRun(session, target, lock, call).run()


def check_not_nested(source: Location, target: Location) -> None:
    """Check that neither location is inside the other.

    Raises:
        BadArgumentError: One is, or both are the same.
    """
    if source.bucket != target.bucket:
        return
    # Not strict: the shorter path contains the longer one if all of its parts are equal.
    parts = zip(_split_location(source), _split_location(target), strict=False)
    if all(source_part == target_part for source_part, target_part in parts):
        raise BadArgumentError.nested_places(source.uri, target.uri)


def _split_location(location: Location) -> tuple[str, ...]:
    # Links are resolved, because two paths may name the same directory.
    return Path(location.path).resolve().parts if location.is_local else tuple(location.path.split("/"))


def _find_first_commit(log: ManifestLog, head: Head) -> str:
    """Return the id of the graph's first commit, which identifies the graph across clones."""
    return next(log.iter_history(head, 1)).id


def _check_target(target: GraphStorage, origin: CloneOrigin) -> Head | None:
    """Return None if a clone may be written to the target, or the head of a clone that is complete but still claimed.

    Raises:
        PlaceTakenError: The target holds anything else.
    """
    names = target.objects.list_children()
    uri = target.location.uri
    if set(names) <= {RECOVERY} and not target.objects.list_under(RECOVERY):
        return None
    claims = find_clones(target)
    for claim in claims:
        claimed = claim.sidecar.origin
        if isinstance(claimed, CloneOrigin) and claimed.root != origin.root:
            raise PlaceTakenError(uri, f"an unfinished clone of another graph, {claimed.uri}")
    try:
        head = ManifestLog(target).head()
    except UnfinishedCloneError:
        return None
    except NotAGraphError:
        raise PlaceTakenError(uri, f"`{names[0]}`") from None
    if not claims:
        raise PlaceTakenError(uri, "a graph")
    # An earlier clone died after its last file and before its claim was removed.
    finish_clone(target, claims)
    return head


def _build_finished_result(session: Session, target: GraphStorage, head: Head) -> CloneResult:
    """Return the result for a clone that an earlier call has completed."""
    main = ManifestLog(target)
    heads = {MAIN: head} | {
        name: main.open_other(name, record.path).head()
        for name, record in sorted(head.snapshot.manifest.live_branches.items())
    }
    snapshots = {name: head.snapshot for name, head in heads.items()}
    tables = {pin.path for snapshot in snapshots.values() for pin in snapshot.pins.values()}
    return CloneResult(
        source=session.uri,
        target=target.location.uri,
        branches={name: snapshot.commit.id for name, snapshot in snapshots.items()},
        rows={name: sum(pin.rows for pin in snapshot.pins.values()) for name, snapshot in snapshots.items()},
        tables=len(tables),
        versions=0,
        collected=0,
        files=0,
        nbytes=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _CopiedCut:
    """A cut whose tables are copied; its manifests are in the spool."""

    cut: ConsistentCut
    spool: GraphStorage
    heads: Mapping[str, Head]
    """By path, the head of each manifest in the spool. That of main has the register of the clone, and that of a
    deleted branch has a horizon that leaves out what is not cloned."""
    plan: CopyPlan
    files: int
    nbytes: int


class _CloneRun:
    """One run of a clone, from the claimed target to the complete graph."""

    def __init__(self, session: Session, target: GraphStorage, lock: CloneLock, call: CloneCall) -> None:
        self._session = session
        self._target = target
        self._lock = lock
        self._call = call
        self._workers = session.runtime.options.upkeep.concurrency
        # A separate storage, so that every file is verified, also one that this process has read or written before.
        self._source = GraphStorage(session.store.location, session.runtime)
        self._handles = TableCache(self._source)
        self._handles.explain = session.handles.explain
        self._copier = Copier(self._source, target, lock.lease.operation_id)
        # By file of the source that does not match its checksum, the reason.
        self._damaged: dict[str, str] = {}
        # Whether the target may have files that are not needed.
        self._has_remains = lock.is_taken_over

    def run(self) -> CloneResult:
        with ExitStack() as stack:
            copied = self._copy_tables(stack)
            cut = copied.cut
            plan = copied.plan
            self._remove_unneeded((NODES, EDGES), plan.sizes)
            rows = check_tables(self._target, cut, plan)
            self._target.runtime.faults.reach("clone.flushed")
            self._place_manifests(copied)
        return CloneResult(
            source=self._session.uri,
            target=self._target.location.uri,
            branches={name: cut.get_head(name).snapshot.commit.id for name in (MAIN, *cut.branches)},
            rows=rows,
            tables=len({pin.path for pin in cut.present}),
            versions=plan.versions,
            collected=cut.collected + plan.missing,
            files=copied.files,
            nbytes=copied.nbytes,
        )

    def _copy_tables(self, stack: ExitStack) -> _CopiedCut:
        """Take a cut and copy all files of its tables; take a newer cut if some were collected in the meantime.

        A cleanup publishes its horizon on every branch before it removes anything. So if files of earlier versions are
        missing and a newer cut shows no later cleanup, they are damaged, and those versions are left out.
        """
        epoch = -1
        for attempt in range(1, MAX_ATTEMPTS + 1):
            spool = self._open_spool(stack)
            try:
                cut = take_cut(self._session.branches, self._call.branches)
                heads = self._spool_manifests(cut, spool)
                expect_recorded(self._source, cut)
                plan = plan_tables(self._handles, cut, self._workers, self._damaged)
                # A cleanup may have collected them: take another cut, which then shows its epoch.
                if plan.missing and cut.epoch != epoch:
                    epoch = cut.epoch
                    continue
                damaged_before = len(self._damaged)
                files, nbytes = copy_files(
                    self._copier,
                    plan.sizes,
                    self._target,
                    workers=self._workers,
                    progress=self._call.progress,
                    damaged=self._damaged,
                )
                # Plan again without the versions that need the damaged files.
                if len(self._damaged) > damaged_before:
                    self._has_remains = True
                    continue
            except (ObjectMissingError, PinUnreadableError) as error:
                if attempt == MAX_ATTEMPTS or self._damaged:
                    raise
                self._has_remains = True
                log.info("a newer cut of %s is taken: %s", self._session.uri, error)
                continue
            return _CopiedCut(cut=cut, spool=spool, heads=heads, plan=plan, files=files, nbytes=nbytes)
        reason = f"files were collected before they were copied, {MAX_ATTEMPTS} times: clone again, or clean up later"
        raise ConflictError("tables", "to stay while they are copied", f"cleanup {epoch}", reason)

    def _open_spool(self, stack: ExitStack) -> GraphStorage:
        """Open a temporary directory for the manifests of a cut, since the source may trim them in the meantime."""
        runtime = self._session.runtime
        directory = stack.enter_context(TemporaryDirectory(prefix="omnigraph-clone-"))
        # The spool is temporary: it needs no flushes, and its requests must reach no fault point or counter.
        options = replace(runtime.options, durability=Durability.OS)
        return GraphStorage(
            Location(directory), replace(runtime, options=options, faults=NoFaults(), telemetry=Telemetry())
        )

    def _spool_manifests(self, cut: ConsistentCut, spool: GraphStorage) -> dict[str, Head]:
        """Copy the manifests of a cut to the spool, adapt them to the clone, and return their heads by path."""
        copier = Copier(self._source, spool, CLONE)
        for head in cut.heads.values():
            for key, size in _list_manifest_files(self._session.store, head):
                copier.copy(key, size, lambda _: None)
        heads = dict(cut.heads)
        for path, head in cut.heads.items():
            manifest = _build_clone_manifest(head.snapshot.manifest, path, cut)
            if manifest != head.snapshot.manifest:
                spooled = ManifestLog(spool, head.snapshot.branch, path)
                heads[path] = spooled.publish(spooled.final_head(), manifest)
        return heads

    def _place_manifests(self, copied: _CopiedCut) -> None:
        """Write the manifests; the version file of main is last, and makes the location a graph."""
        target = self._target
        spool = copied.spool
        faults = target.runtime.faults
        self._remove_unneeded((BRANCHES, f"{MANIFEST}/data", f"{MANIFEST}/keys"), {})
        copier = Copier(spool, target, self._lock.lease.operation_id)
        main = copied.heads[MANIFEST]
        for path, head in sorted(copied.heads.items()):
            if path != MANIFEST:
                self._put(copier, _list_manifest_files(spool, head))
                faults.reach("clone.branch")
        *data, (last, _) = _list_manifest_files(spool, main)
        self._put(copier, data)
        target.objects.put(SCHEMA_COPY, main.snapshot.manifest.schema.source.encode())
        faults.reach("clone.ready")
        self._check_free()
        # Put-if-absent decides a race with an init at the same location.
        try:
            target.objects.put_if_absent(last, spool.objects.get(last).data)
        except ObjectExistsError:
            raise PlaceTakenError(target.location.uri, CONCURRENT_GRAPH) from None
        target.flush_directories([last])
        faults.reach("clone.placed")

    def _remove_unneeded(self, roots: Sequence[str], needed: Mapping[str, int]) -> None:
        """Remove files that are not needed: copied by a clone that died, or for an earlier cut."""
        self._check_free()
        if self._has_remains:
            remove_unneeded(self._target, roots, needed)

    def _check_free(self) -> None:
        """Check that the target is still claimed by this run, and not a graph.

        Raises:
            FencedError: The lease was lost.
            PlaceTakenError: There is a graph.
        """
        self._lock.lease.confirm(())
        _check_no_graph(self._target)

    def _put(self, copier: Copier, files: Sequence[tuple[str, int]]) -> None:
        for key, size in files:
            copier.copy(key, size, lambda _: None)
        self._target.flush_directories([key for key, _ in files])


def _check_no_graph(target: GraphStorage) -> None:
    if target.objects.list_under(f"{MANIFEST}/_versions"):
        raise PlaceTakenError(target.location.uri, CONCURRENT_GRAPH)


def _list_manifest_files(store: GraphStorage, head: Head) -> list[tuple[str, int]]:
    """Return the files of a manifest version with their sizes; the version file is last.

    Damaged objects with idempotency keys are left out, since the journal is read instead.
    """
    path = head.table.path
    runs = [key for run in head.snapshot.manifest.key_runs if _is_whole(store, run, key := f"{path}/{run.name}")]
    keys = [
        *runs,
        *(key for key, _ in head.table.list_files()),
        f"{head.table.path}/{format_version_name(head.table.version)}",
    ]
    sizes = []
    for key in keys:
        info = store.objects.stat(key)
        if info is None:
            raise ObjectMissingError(key)
        sizes.append((key, info.size))
    return sizes


def _is_whole(store: GraphStorage, run: KeyRun, key: str) -> bool:
    try:
        return find_run_fault(run, store.objects.get(key).data) is None
    except ObjectMissingError:
        return False


def _build_clone_manifest(manifest: Manifest, path: str, cut: ConsistentCut) -> Manifest:
    """Return a manifest as the clone has it: with the cloned branches and tags, or with the horizon of the cut."""
    if path == MANIFEST:
        return replace(manifest, branches=dict(cut.branches), tags=dict(cut.tags))
    return replace(manifest, gc_horizon=cut.horizons.get(path, manifest.gc_horizon))
