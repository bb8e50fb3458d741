"""Clone a graph, with its branches and history, to another location while others write to it.

    claim    write a sidecar at the target, so that no other clone or init uses the location
    cut      take a consistent cut: states of all branches that belong together; spool their manifests immediately
    copy     copy the immutable files of every table version that those manifests reference
    place    write the manifests of the branches, then that of main; its last file makes the location a graph

Nothing is written to the source. Versions keep their numbers and commits their ids, so history is as readable in the
clone as in the source. Collected data is not cloned, nor are operations in flight, the recovery log and derived data.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from omnigraph.commit.clone_lock import CloneLock, find_clones, finish_clone, lock_clone_target
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError, UnfinishedCloneError
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.commit.sidecar import CloneOrigin
from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import JsonStruct
from omnigraph.locations import Location
from omnigraph.ops.clone_cut import CutReader
from omnigraph.ops.clone_placement import ManifestPlacement, check_no_graph
from omnigraph.ops.clone_tables import CloneProgress, check_tables, copy_files
from omnigraph.ops.create import check_conditions
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import BACKUPS, EDGES, NODES, RECOVERY
from omnigraph.storage.uri import parse_uri


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
    origin = CloneOrigin(uri=source.location.uri, root=find_first_commit(session.branches.main, head))
    finished = check_target(target, origin)
    if finished is not None:
        return _build_finished_result(session, target, finished)
    with lock_clone_target(target, origin, head, lambda: check_no_graph(target)) as lock:
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


def find_first_commit(log: ManifestLog, head: Head) -> str:
    """Return the id of the graph's first commit, which identifies the graph across clones."""
    return next(log.iter_history(head, 1)).id


def check_target(target: GraphStorage, origin: CloneOrigin) -> Head | None:
    """Return None if a clone may be written to the target, or the head of a clone that is complete but still claimed.

    Raises:
        PlaceTakenError: The target holds anything else.
    """
    names = target.objects.list_children()
    uri = target.location.uri
    if set(names) <= {RECOVERY} and not target.objects.list_under(RECOVERY):
        return None
    if BACKUPS in names:
        raise PlaceTakenError(uri, "backups of a graph")
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


class _CloneRun:
    """One run of a clone, from the claimed target to the complete graph."""

    def __init__(self, session: Session, target: GraphStorage, lock: CloneLock, call: CloneCall) -> None:
        self._session = session
        self._target = target
        self._call = call
        self._reader = CutReader(session, call.branches)
        self._copier = Copier(self._reader.source, target, lock.lease.operation_id)
        self._placement = ManifestPlacement(target, lock)

    def run(self) -> CloneResult:
        with ExitStack() as stack:
            copied = self._reader.read(stack, self._copy_tables)
            self._placement.has_remains |= self._reader.has_retried
            cut = copied.cut
            plan = copied.plan
            self._placement.remove_unneeded((NODES, EDGES), plan.sizes)
            rows = check_tables(self._target, cut, plan)
            self._target.runtime.faults.reach("clone.flushed")
            self._placement.place(copied.spool, copied.heads)
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

    def _copy_tables(self, sizes: Mapping[str, int], damaged: dict[str, str]) -> tuple[int, int]:
        workers = self._session.runtime.options.upkeep.concurrency
        return copy_files(
            self._copier, sizes, self._target, workers=workers, progress=self._call.progress, damaged=damaged
        )
