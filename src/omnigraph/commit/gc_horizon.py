"""What cleanup has taken away: which commits can't be read any more, and which writers come too late.

A cleanup publishes its floor on every branch before it removes anything. So whoever swaps a manifest has seen the
floor, or loses the swap and sees it then; and what it stands on is looked at again before it goes on.
"""

from collections.abc import Callable, Iterable, Sequence

from omnigraph.clock import parse_instant
from omnigraph.commit.branch_errors import BranchGoneError
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import Commit, GcHorizon, Manifest, MergedFrom, Snapshot
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import build_branch_path
from omnigraph.storage.object_store import ObjectInfo

MAX_SINGLE_LOOKUPS = 32
"""So many files are looked up each; for more, their tables are listed."""


class CommitCollectedError(OmnigraphError):
    """The commit is known, but cleanup has collected what it said; `kept_from` is the oldest that was kept in a row."""

    kind = Kind.NOT_FOUND
    code = "commit_collected"

    def __init__(self, commit_id: str, branch: str, at: str, seq: int, kept_from: int, epoch: int) -> None:
        super().__init__(commit_id, branch, at, seq, kept_from, epoch)
        self.commit_id, self.branch, self.at = commit_id, branch, at
        self.seq, self.kept_from, self.epoch = seq, kept_from, epoch

    def __str__(self) -> str:
        return (
            f"commit {self.commit_id} of {self.at} was collected: it is number {self.seq} of the branch"
            f" `{self.branch}`, and cleanup {self.epoch} kept those from {self.kept_from} on, and tagged ones."
            " `omnigraph commit list` marks what can't be read; a tag keeps a commit"
        )


class TooSlowError(OmnigraphError):
    """A cleanup has collected something that this write stands on. Nothing of it is visible."""

    kind = Kind.CONFLICT
    code = "too_slow"

    def __init__(self, epoch: int, reason: str) -> None:
        super().__init__(epoch, reason)
        self.epoch, self.reason = epoch, reason

    def __str__(self) -> str:
        return (
            f"this was too slow: cleanup {self.epoch} came in between, and {self.reason}."
            " Nothing of it is visible: run it again"
        )


def check_commit_retained(log: ManifestLog, head: Head, commit: Commit) -> None:
    """CommitCollectedError when cleanup has collected the state that a commit of this history made."""
    floor = _find_horizon(log, head, commit.seq)
    if not floor.retains(commit.seq):
        raise CommitCollectedError(commit.id, commit.branch, commit.at, commit.seq, floor.kept_from, floor.epoch)


def build_collected_predicate(log: ManifestLog, head: Head) -> Callable[[Commit], bool]:
    """Tells of the commits of a branch's history, newest first, whether each was collected."""
    floors: list[tuple[int, GcHorizon]] = []
    here, state = log, head
    while True:
        fork = state.snapshot.manifest.fork
        floors.append((-1 if fork is None else fork.seq, state.snapshot.manifest.gc_horizon))
        if fork is None:
            break
        here = here.open_parent(fork)
        state = here.final_head()
    return lambda commit: not next(floor for first, floor in floors if commit.seq >= first).retains(commit.seq)


def _find_horizon(log: ManifestLog, head: Head, seq: int) -> GcHorizon:
    """The floor of the journal that has the number `seq` of a history."""
    fork = head.snapshot.manifest.fork
    while fork is not None and seq < fork.seq:
        log = log.open_parent(fork)
        head = log.final_head()
        fork = head.snapshot.manifest.fork
    return head.snapshot.manifest.gc_horizon


def check_base_retained(floor: GcHorizon, base: Commit) -> None:
    """TooSlowError when the state that a write was made on was collected, so that it can't be compared with the new."""
    if not floor.retains(base.seq):
        raise TooSlowError(floor.epoch, f"commit {base.id}, which it was made on, was collected")


def check_staged_files(store: GraphStorage, floor: GcHorizon, files: Iterable[str], *, is_leased: bool) -> None:
    """TooSlowError unless everything that a write has made so far is there, and safe from the cleanup of this floor.

    That spares what is younger than its boundary, and what the sidecar of an operation names, however old it is.
    """
    boundary = None if floor.staged_before is None else parse_instant(floor.staged_before)
    wanted = list(dict.fromkeys(files))
    for file, info in zip(wanted, _stat_files(store, wanted), strict=True):
        if info is None:
            raise TooSlowError(floor.epoch, f"`{file}`, which it had written, was collected")
        if not is_leased and boundary is not None and info.modified < boundary:
            raise TooSlowError(floor.epoch, f"`{file}`, which it had written, is older than what that keeps")


def check_merge_source_retained(log: ManifestLog, floor: GcHorizon, source: MergedFrom) -> None:
    """TooSlowError unless the commit that a merge takes tables from is kept by the cleanup of the target's floor.

    While that cleanup has not come to the source's branch yet, only the newest commit there is certain to be kept; and
    of a branch that was deleted not even that.
    """
    try:
        head = log.open_other(source.branch, source.path).final_head()
    except NotAGraphError:
        raise TooSlowError(floor.epoch, f"the branch `{source.branch}` was collected") from None
    theirs = head.snapshot.manifest.gc_horizon
    is_newest = head.snapshot.commit.seq == source.seq and not head.snapshot.manifest.is_closed
    if not is_newest and not (theirs.epoch >= floor.epoch and theirs.retains(source.seq)):
        raise TooSlowError(floor.epoch, f"the merged commit of the branch `{source.branch}` was collected")


def check_reachable(main: ManifestLog, manifest: Manifest, found: Snapshot, journal: ManifestLog) -> None:
    """A state of main vouches for a state of a journal: a tag names it, or its branch lives and has it still.

    Asked inside the swap of main's manifest that is going to name the commit. A cleanup publishes its floor on main
    last: so in a state of main before that it will see the new name, and in one behind it the journal's own floor,
    which was seen when the state was found or is read here, says what it took.

    Raises:
        BranchGoneError: The commit's branch was deleted.
        CommitCollectedError: Cleanup has collected it.
    """
    commit, path = found.commit, journal.path
    if any(tag.commit_id == commit.id and tag.path == path for tag in manifest.tags.values()):
        return
    floor = manifest.gc_horizon
    if path != main.path:
        if all(one.path != path for one in manifest.live_branches.values()):
            raise BranchGoneError(journal.branch)
        fork = found.manifest.fork
        is_its_own = fork is not None and build_branch_path(fork.branch_id) == path
        if is_its_own and found.manifest.gc_horizon.epoch >= floor.epoch:
            return
        floor = main.open_other(journal.branch, path).final_head().snapshot.manifest.gc_horizon
    if not floor.retains(commit.seq):
        raise CommitCollectedError(commit.id, commit.branch, commit.at, commit.seq, floor.kept_from, floor.epoch)


def _stat_files(store: GraphStorage, files: Sequence[str]) -> list[ObjectInfo | None]:
    if len(files) <= MAX_SINGLE_LOOKUPS:
        return [store.objects.stat(file) for file in files]
    tables = dict.fromkeys("/".join(file.split("/", 2)[:2]) for file in files)
    there = {info.key: info for table in tables for info in store.objects.list_under(table)}
    return [there.get(file) for file in files]
