"""Check reads and writes against the garbage-collection horizon of a branch.

A cleanup publishes its horizon on every branch before it removes anything: which commits are kept, and before which
instant staged files may be gone. A writer that swaps a manifest has therefore seen the horizon, or loses the swap and
sees it then. Before it tries again it checks, with the functions below, that everything it depends on is still there.
"""

from collections.abc import Callable, Iterable, Sequence

from omnigraph.clock import parse_instant
from omnigraph.commit.branch_errors import BranchGoneError
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import Commit, GcHorizon, Manifest, MergedFrom, Snapshot
from omnigraph.commit.sidecar import Lease
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import build_branch_path
from omnigraph.storage.object_store import ObjectInfo

# A lookup is one request per file, a listing one request per 1,000 files of a table. Locally 32 lookups take 0.3 ms and
# a listing of 1,000 files 16 ms, so a few lookups win; on S3 requests decide, so beyond this number tables are listed.
MAX_SINGLE_LOOKUPS = 32


class CommitCollectedError(OmnigraphError):
    """The commit is still listed, but cleanup has collected its data; commits from number `kept_from` on are kept."""

    kind = Kind.NOT_FOUND
    code = "commit_collected"
    commit_id: str
    branch: str
    at: str
    seq: int
    kept_from: int
    epoch: int
    message = (
        "commit {commit_id} of {at} was collected: it is number {seq} on branch `{branch}`,"
        " and cleanup {epoch} kept only tagged commits and those from number {kept_from} on."
        " `omnigraph commit list` marks commits that can no longer be read; tag a commit to keep it"
    )


class TooSlowError(OmnigraphError):
    """Cleanup has collected data that this write depends on. The write was not committed."""

    kind = Kind.CONFLICT
    code = "too_slow"
    epoch: int
    reason: str
    message = (
        "this write took too long: cleanup {epoch} ran in the meantime, and {reason}."
        " Nothing was committed; run it again"
    )


def check_commit_retained(log: ManifestLog, head: Head, commit: Commit) -> None:
    """Check that the state of a commit of this history can still be read.

    Raises:
        CommitCollectedError: Cleanup has collected it.
    """
    horizon = _find_horizon(log, head, commit.seq)
    if not horizon.retains(commit.seq):
        raise CommitCollectedError(commit.id, commit.branch, commit.at, commit.seq, horizon.kept_from, horizon.epoch)


def build_collected_predicate(log: ManifestLog, head: Head) -> Callable[[Commit], bool]:
    """Return a function that returns whether a commit in the history of `head` was collected."""
    # A history runs through the journals of the branch, its parent, the parent's parent and so on. Each journal has its
    # own horizon, which counts from the commit where the journal begins; the first journal that has the commit decides.
    horizons: list[tuple[int, GcHorizon]] = []
    while True:
        manifest = head.snapshot.manifest
        fork = manifest.fork
        horizons.append((-1 if fork is None else fork.seq, manifest.gc_horizon))
        if fork is None:
            break
        log = log.open_parent(fork)
        head = log.final_head()

    def is_collected(commit: Commit) -> bool:
        horizon = next(horizon for first_seq, horizon in horizons if commit.seq >= first_seq)
        return not horizon.retains(commit.seq)

    return is_collected


def _find_horizon(log: ManifestLog, head: Head, seq: int) -> GcHorizon:
    """Return the horizon of the journal that has commit number `seq` of a history."""
    fork = head.snapshot.manifest.fork
    while fork is not None and seq < fork.seq:
        log = log.open_parent(fork)
        head = log.final_head()
        fork = head.snapshot.manifest.fork
    return head.snapshot.manifest.gc_horizon


def check_base_retained(horizon: GcHorizon, base: Commit) -> None:
    """Check that the state a write started from is still there, so that it can be compared with the new head.

    Raises:
        TooSlowError: Cleanup has collected it.
    """
    if not horizon.retains(base.seq):
        raise TooSlowError(horizon.epoch, f"its base, commit {base.id}, was collected")


def check_staged_files(store: GraphStorage, horizon: GcHorizon, files: Iterable[str], lease: Lease | None) -> None:
    """Check that all files a write has staged exist, and that the cleanup of this horizon will not remove them.

    Cleanup spares files younger than `staged_before`, and at any age those that a sidecar names when it marks. So an
    older one is safe if its sidecar had named it by that instant, which is before the cleanup began.

    Raises:
        TooSlowError: A file is gone, or may be removed at any time.
    """
    boundary = None if horizon.staged_before is None else parse_instant(horizon.staged_before)
    staged = list(dict.fromkeys(files))
    old: list[str] = []
    for file, info in zip(staged, _stat_files(store, staged), strict=True):
        if info is None:
            raise TooSlowError(horizon.epoch, f"its file `{file}` was collected")
        if boundary is not None and info.modified < boundary:
            old.append(file)
    if boundary is not None and old and lease is not None:
        old = lease.list_named_late(old, boundary)
    if old:
        raise TooSlowError(horizon.epoch, f"its file `{old[0]}` is too old to be kept")


def check_merge_source_retained(log: ManifestLog, horizon: GcHorizon, source: MergedFrom) -> None:
    """Check that the commit a merge takes tables from is kept by the cleanup of the target's horizon.

    Raises:
        TooSlowError: Cleanup has collected the commit or its branch, or may yet do so.
    """
    try:
        head = log.open_other(source.branch, source.path).final_head()
    except NotAGraphError:
        raise TooSlowError(horizon.epoch, f"branch `{source.branch}` was collected") from None
    manifest = head.snapshot.manifest
    # Until that cleanup has reached the source's branch, only the newest commit there is certain to be kept; and of a
    # deleted branch, not even that one.
    is_newest = head.snapshot.commit.seq == source.seq and not manifest.is_closed
    source_horizon = manifest.gc_horizon
    is_retained = source_horizon.epoch >= horizon.epoch and source_horizon.retains(source.seq)
    if not is_newest and not is_retained:
        raise TooSlowError(horizon.epoch, f"the merged commit of branch `{source.branch}` was collected")


def check_reachable(main: ManifestLog, manifest: Manifest, snapshot: Snapshot, journal: ManifestLog) -> None:
    """Check that a state of main keeps a commit readable: a tag names it, or its branch is alive and retains it.

    Call it inside the swap of main's manifest that is about to name the commit. Cleanup publishes its horizon on main
    last, so one of two things holds. Main has no new horizon yet: then cleanup will see the new name. Or it has one:
    then the journal has its own too, which `snapshot` shows or which is read here.

    Raises:
        BranchGoneError: The commit's branch was deleted.
        CommitCollectedError: Cleanup has collected the commit.
    """
    commit = snapshot.commit
    path = journal.path
    if any(tag.commit_id == commit.id and tag.path == path for tag in manifest.tags.values()):
        return
    horizon = manifest.gc_horizon
    if path != main.path:
        if all(branch.path != path for branch in manifest.live_branches.values()):
            raise BranchGoneError(journal.branch)
        fork = snapshot.manifest.fork
        # A snapshot carries the manifest of the branch through whose history it was found. Its horizon applies
        # to this commit only if the commit is in that branch's own journal.
        is_from_journal = fork is not None and build_branch_path(fork.branch_id) == path
        if is_from_journal and snapshot.manifest.gc_horizon.epoch >= horizon.epoch:
            return
        horizon = main.open_other(journal.branch, path).final_head().snapshot.manifest.gc_horizon
    if not horizon.retains(commit.seq):
        raise CommitCollectedError(commit.id, commit.branch, commit.at, commit.seq, horizon.kept_from, horizon.epoch)


def _stat_files(store: GraphStorage, files: Sequence[str]) -> list[ObjectInfo | None]:
    """Return size and age of each file, None for one that does not exist."""
    tables = dict.fromkeys("/".join(file.split("/", 2)[:2]) for file in files)
    for table in tables:
        # One that is on its way does not exist yet.
        store.wait_for_uploads(table)
    if len(files) <= MAX_SINGLE_LOOKUPS:
        return [store.objects.stat(file) for file in files]
    infos = {info.key: info for table in tables for info in store.objects.list_under(table)}
    return [infos.get(file) for file in files]
