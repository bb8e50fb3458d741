"""Copy a graph that others are writing to, with its branches and its past, to another place.

    claim    a sidecar at the target, so that nobody else takes the place
    cut      states of all branches that belong together; their manifests are kept aside at once
    copy     the files of every version that those manifests name; they never change
    place    the manifests of the branches, then main's; its last file makes the place a graph

Nothing is written to the source. Versions keep their numbers and commits their ids, so the past is as readable in the
clone as it is in the source. What was collected there is not in the clone either; operations in flight, the audit of
recoveries and what was derived from tables stay behind.
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
from omnigraph.commit.sidecar import CLONE, CloneOrigin
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.faults import NoFaults
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
from omnigraph.ops.create import PlaceTakenError, check_conditions
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

MAX_ATTEMPTS = 10
"""How often a cut is made anew because files of it were collected before they were copied."""
CONCURRENT_GRAPH = "a graph that was made at the same time"


class NestedPlacesError(OmnigraphError):
    """A clone would lie inside of its source, or the source inside of the clone."""

    kind = Kind.USAGE
    code = "nested_places"

    def __init__(self, source: str, target: str) -> None:
        super().__init__(source, target)
        self.source, self.target = source, target

    def __str__(self) -> str:
        return f"{self.target} and {self.source} are one inside of the other, or the same: choose a place beside it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneCall:
    """What to copy, and where to."""

    target: str
    branches: tuple[str, ...] | None = None
    """Beside main only these, and those that they were taken from; None: all."""
    progress: Callable[[CloneProgress], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """What was copied."""

    source: str
    target: str
    branches: Mapping[str, str]
    """By name, the commit that each branch is at; main is the first."""
    rows: Mapping[str, int]
    """By name, how many rows each branch shows."""
    tables: int
    versions: int
    collected: int
    """How many versions that commits name were collected in the source before, or dropped for good."""
    files: int
    """How many files were copied; those that an earlier try had copied are not among them."""
    nbytes: int

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "source": self.source,
            "target": self.target,
            "branches": dict(self.branches),
            "rows": dict(self.rows),
            "tables": self.tables,
            "versions": self.versions,
            "collected": self.collected,
            "files": self.files,
            "bytes": self.nbytes,
        }


def clone(session: Session, call: CloneCall) -> CloneResult:
    """Make a graph at another place that says what this one says: there whole, or not at all.

    Others may write meanwhile; what they commit after the clone has begun may be in it or not, whole commits in either
    case. A clone that died is gone on with by the next call with the same two places.

    Raises:
        BranchMissingError: There is no such branch.
        PlaceTakenError: A graph, something else, or the beginning of another graph's clone is at the target.
        CloneBusyError: Somebody else is making a clone there.
        NestedPlacesError: One place is inside of the other.
        PinUnreadableError: Files of what is shown now are gone, or do not match their checksums. Damage of the past is
            left out.
        DamagedError: A manifest of the source is damaged.
        ConflictError: Cleanups collect faster than can be copied; go on later.
    """
    session.allow_on_graph(Action.EXPORT)
    source = session.store
    target = GraphStorage(parse_uri(call.target), session.runtime)
    check_not_nested(source.location, target.location)
    for name in call.branches or ():
        session.checkout(name)  # or BranchMissingError, before anything is written
    head = session.branches.main.head()
    origin = CloneOrigin(uri=source.location.uri, root=_find_first_commit(session.branches.main, head))
    finished = _check_target(target, origin)
    if finished is not None:
        return _build_finished_result(session, target, finished)
    with lock_clone_target(target, origin, head, lambda: _check_no_graph(target)) as claim:
        check_conditions(target)
        return _CloneRun(session, target, claim, call).run()


def check_not_nested(source: Location, target: Location) -> None:
    """NestedPlacesError when one place is the other, or inside of it."""
    if source.bucket != target.bucket:
        return
    places = [_split_location(location) for location in (source, target)]
    if all(one == other for one, other in zip(*places, strict=False)):
        raise NestedPlacesError(source.uri, target.uri)


def _split_location(location: Location) -> tuple[str, ...]:
    # Links are followed: two names may be of one directory.
    return Path(location.path).resolve().parts if location.is_local else tuple(location.path.split("/"))


def _find_first_commit(log: ManifestLog, head: Head) -> str:
    """The id of the graph's first commit."""
    return next(log.iter_history(head, 1)).id


def _check_target(target: GraphStorage, origin: CloneOrigin) -> Head | None:
    """Nothing when a clone may be made at a place; the state of a clone that only its claim is left of.

    PlaceTakenError for everything else.
    """
    names = target.objects.list_children()
    uri = target.location.uri
    if set(names) <= {RECOVERY} and not target.objects.list_under(RECOVERY):
        return None
    claims = find_clones(target)
    for found in claims:
        if isinstance(found.sidecar.origin, CloneOrigin) and found.sidecar.origin.root != origin.root:
            raise PlaceTakenError(uri, f"an unfinished clone of another graph, {found.sidecar.origin.uri}")
    try:
        head = ManifestLog(target).head()
    except UnfinishedCloneError:
        return None
    except NotAGraphError:
        raise PlaceTakenError(uri, f"`{names[0]}`") from None
    if not claims:
        raise PlaceTakenError(uri, "a graph")
    finish_clone(target, claims)
    return head


def _build_finished_result(session: Session, target: GraphStorage, head: Head) -> CloneResult:
    """Of a clone that was finished by an earlier call."""
    main = ManifestLog(target)
    heads = {MAIN: head} | {
        name: main.open_other(name, record.path).head()
        for name, record in sorted(head.snapshot.manifest.live_branches.items())
    }
    tables = {pin.path for one in heads.values() for pin in one.snapshot.pins.values()}
    return CloneResult(
        source=session.uri,
        target=target.location.uri,
        branches={name: one.snapshot.commit.id for name, one in heads.items()},
        rows={name: sum(pin.rows for pin in one.snapshot.pins.values()) for name, one in heads.items()},
        tables=len(tables),
        versions=0,
        collected=0,
        files=0,
        nbytes=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _CopiedCut:
    """A cut whose tables are copied; its manifests wait in the spool."""

    cut: ConsistentCut
    spool: GraphStorage
    heads: Mapping[str, Head]
    """By its path, the state of each manifest in the spool: main's with the clone's own register, and that of a
    deleted branch with what the clone has of it."""
    plan: CopyPlan
    files: int
    nbytes: int


class _CloneRun:
    """One clone, from its claim to its being there."""

    def __init__(self, session: Session, target: GraphStorage, claim: CloneLock, call: CloneCall) -> None:
        self._session, self._target, self._claim, self._call = session, target, claim, call
        self._workers = session.runtime.options.upkeep.concurrency
        # Of its own, so that every file is compared anew, also one that this process has read or written before.
        self._source = GraphStorage(session.store.location, session.runtime)
        self._handles = TableCache(self._source)
        self._handles.explain = session.handles.explain
        self._copier = Copier(self._source, target, claim.lease.operation_id)
        self._damaged: dict[str, str] = {}
        """Files of the source that do not match their checksums, and why."""
        self._has_remains = claim.is_taken_over
        """Whether files may have been copied that are not needed."""

    def run(self) -> CloneResult:
        with ExitStack() as stack:
            made = self._gather(stack)
            cut, plan = made.cut, made.plan
            self._remove_unneeded((NODES, EDGES), plan.sizes)
            rows = check_tables(self._target, cut, plan)
            self._target.runtime.faults.reach("clone.flushed")
            self._place_manifests(made)
        return CloneResult(
            source=self._session.uri,
            target=self._target.location.uri,
            branches={name: cut.get_head(name).snapshot.commit.id for name in (MAIN, *cut.branches)},
            rows=rows,
            tables=len({pin.path for pin in cut.present}),
            versions=plan.versions,
            collected=cut.collected + plan.missing,
            files=made.files,
            nbytes=made.nbytes,
        )

    def _gather(self, stack: ExitStack) -> _CopiedCut:
        """Copy all files of the tables that some cut needs; a newer cut when some were collected meanwhile.

        A cleanup tells every branch what it collects before it removes anything. So when something is missing that the
        cut should have, and a newer cut knows of no later cleanup, then it is damage, which is left as it is.
        """
        epoch = -1
        for attempt in range(1, MAX_ATTEMPTS + 1):
            spool = self._open_spool(stack)
            try:
                cut = take_cut(self._session.branches, self._call.branches)
                heads = self._spool_manifests(cut, spool)
                expect_recorded(self._source, cut)
                plan = plan_tables(self._handles, cut, self._workers, self._damaged)
                if plan.missing and cut.epoch != epoch:
                    epoch = cut.epoch
                    continue
                known = len(self._damaged)
                files, nbytes = copy_files(
                    self._copier,
                    plan.sizes,
                    self._target,
                    workers=self._workers,
                    progress=self._call.progress,
                    damaged=self._damaged,
                )
                if len(self._damaged) > known:  # what only the past needs is left out, as if it were missing
                    self._has_remains = True
                    continue
            except (ObjectMissingError, PinUnreadableError) as error:
                if attempt == MAX_ATTEMPTS or self._damaged:
                    raise
                self._has_remains = True
                log.info("the cut of %s is made anew: %s", self._session.uri, error)
                continue
            return _CopiedCut(cut=cut, spool=spool, heads=heads, plan=plan, files=files, nbytes=nbytes)
        reason = f"what was to be copied was collected {MAX_ATTEMPTS} times: clone again, or clean up later"
        raise ConflictError("tables", "to stay while they are copied", f"cleanup {epoch}", reason)

    def _open_spool(self, stack: ExitStack) -> GraphStorage:
        """A place on this machine for manifests until it is their turn: the source may drop them in the meantime."""
        runtime = self._session.runtime
        directory = stack.enter_context(TemporaryDirectory(prefix="omnigraph-clone-"))
        options = replace(runtime.options, durability=Durability.OS)
        return GraphStorage(
            Location(directory), replace(runtime, options=options, faults=NoFaults(), telemetry=Telemetry())
        )

    def _spool_manifests(self, cut: ConsistentCut, spool: GraphStorage) -> dict[str, Head]:
        """Copy the manifests of a cut to the spool; their states there, which say what is in the clone."""
        copier = Copier(self._source, spool, CLONE)
        for head in cut.heads.values():
            for key, size in _list_manifest_files(self._session.store, head):
                copier.copy(key, size, lambda _: None)
        heads = dict(cut.heads)
        for path, there in cut.heads.items():
            kept = _build_clone_manifest(there.snapshot.manifest, path, cut)
            if kept != there.snapshot.manifest:
                spooled = ManifestLog(spool, there.snapshot.branch, path)
                heads[path] = spooled.publish(spooled.final_head(), kept)
        return heads

    def _place_manifests(self, made: _CopiedCut) -> None:
        """Put the manifests; main's version is the last file, and makes the place a graph."""
        target, spool, faults = self._target, made.spool, self._target.runtime.faults
        self._remove_unneeded((BRANCHES, f"{MANIFEST}/data", f"{MANIFEST}/keys"), {})
        copier = Copier(spool, target, self._claim.lease.operation_id)
        main = made.heads[MANIFEST]
        for path, head in sorted(made.heads.items()):
            if path != MANIFEST:
                self._put(copier, _list_manifest_files(spool, head))
                faults.reach("clone.branch")
        *data, (last, _) = _list_manifest_files(spool, main)
        self._put(copier, data)
        target.objects.put(SCHEMA_COPY, main.snapshot.manifest.schema.source.encode())
        faults.reach("clone.ready")
        self._check_free()
        try:
            target.objects.put_if_absent(last, spool.objects.get(last).data)
        except ObjectExistsError:
            raise PlaceTakenError(target.location.uri, CONCURRENT_GRAPH) from None
        target.flush_directories([last])
        faults.reach("clone.placed")

    def _remove_unneeded(self, rooms: Sequence[str], wanted: Mapping[str, int]) -> None:
        """Remove what was copied before and is not needed: by a clone that died, or for an earlier cut."""
        self._check_free()
        if self._has_remains:
            remove_unneeded(self._target, rooms, wanted)

    def _check_free(self) -> None:
        """Prove that the place is still ours, and not a graph; else FencedError or PlaceTakenError."""
        self._claim.lease.confirm(())
        _check_no_graph(self._target)

    def _put(self, copier: Copier, files: Sequence[tuple[str, int]]) -> None:
        for key, size in files:
            copier.copy(key, size, lambda _: None)
        self._target.flush_directories([key for key, _ in files])


def _check_no_graph(target: GraphStorage) -> None:
    if target.objects.list_under(f"{MANIFEST}/_versions"):
        raise PlaceTakenError(target.location.uri, CONCURRENT_GRAPH)


def _list_manifest_files(store: GraphStorage, head: Head) -> list[tuple[str, int]]:
    """The files of a manifest's state with their sizes; the last one is the version itself.

    Idempotency keys that are damaged are left out: the journal makes up for them.
    """
    path = head.table.path
    runs = [key for run in head.snapshot.manifest.key_runs if _is_whole(store, run, key := f"{path}/{run.name}")]
    keys = [
        *runs,
        *(key for key, _ in head.table.list_files()),
        f"{head.table.path}/{format_version_name(head.table.version)}",
    ]
    found = []
    for key in keys:
        info = store.objects.stat(key)
        if info is None:
            raise ObjectMissingError(key)
        found.append((key, info.size))
    return found


def _is_whole(store: GraphStorage, run: KeyRun, key: str) -> bool:
    try:
        return find_run_fault(run, store.objects.get(key).data) is None
    except ObjectMissingError:
        return False


def _build_clone_manifest(manifest: Manifest, path: str, cut: ConsistentCut) -> Manifest:
    """A manifest as the clone has it: main's with the branches and tags that are in it, each with its floor."""
    if path == MANIFEST:
        return replace(manifest, branches=dict(cut.branches), tags=dict(cut.tags))
    return replace(manifest, gc_horizon=cut.horizons.get(path, manifest.gc_horizon))
