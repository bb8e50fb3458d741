"""Why a version of a table that somebody reads is gone: a cleanup has collected it, or something else removed it."""

import sys
from datetime import UTC, datetime

from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.gc_plan import gather_histories
from omnigraph.commit.gc_retention import BranchHistory, RetentionPolicy
from omnigraph.commit.manifest_types import Commit, GcHorizon
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.table_cache import PinUnreadableError
from omnigraph.telemetry import log

_KEEP_ALL = RetentionPolicy(commits=sys.maxsize, since=datetime.min.replace(tzinfo=UTC))


class SnapshotCollectedError(PinUnreadableError):
    """A state was read for longer than a cleanup's grace: its files were collected meanwhile. Nothing is damaged."""

    kind = Kind.CONFLICT
    code = "snapshot_collected"

    def __init__(
        self,
        path: str,
        version: int,
        commit_id: str,
        branch: str,
        at: str,
        epoch: int,
        kept_from: int,
        kept_since: str | None,
    ) -> None:
        super().__init__(path, version, "it was collected")
        self.args = (path, version, commit_id, branch, at, epoch, kept_from, kept_since)
        self.commit_id, self.branch, self.at = commit_id, branch, at
        self.epoch, self.kept_from, self.kept_since = epoch, kept_from, kept_since

    def __str__(self) -> str:
        since = "" if self.kept_since is None else f", and what was current after {self.kept_since}"
        return (
            f"this state was collected while it was read: cleanup {self.epoch} has removed what commit {self.commit_id}"
            f" of {self.at} wrote to {self.path}. Of the branch `{self.branch}` it kept the commits from number"
            f" {self.kept_from} on{since}. Read again, or open the graph again, for a state that is there; a longer"
            " `--grace` of cleanup spares who reads for so long, and a tag keeps a commit"
        )


def explain_collected(branches: BranchRegistry, error: PinUnreadableError) -> PinUnreadableError:
    """The error of a version that can't be read, or SnapshotCollectedError when no state that is kept has it any more.

    A floor is published before anything is removed, so whoever misses a file that was collected finds the floor. What
    is kept and can't be read is damaged. Reads the journals: it is asked only when a read has failed.
    """
    try:
        main = branches.main.head()
        if not main.snapshot.manifest.gc_horizon.epoch:
            return error
        journals = gather_histories(branches, main, (), _KEEP_ALL, {}, {})
        if error.version in journals.find_versions().get(error.path, ()):
            return error
        made = next((found for line in journals.publish_order if (found := _find_maker(line, error)) is not None), None)
    except OmnigraphError as failure:
        log.info("it is not known whether version %s of %s was collected: %s", error.version, error.path, failure)
        return error
    if made is None:
        return error
    commit, floor = made
    return SnapshotCollectedError(
        error.path,
        error.version,
        commit.id,
        commit.branch,
        commit.at,
        floor.epoch,
        floor.kept_from,
        floor.staged_before,
    )


def _find_maker(line: BranchHistory, error: PinUnreadableError) -> tuple[Commit, GcHorizon] | None:
    """The commit of a line that showed a version first, and the floor that says what is kept of its journal."""
    for commit in line.iter_commits():
        if any(one.path == error.path and one.after == str(error.version) for one in commit.changes):
            return commit, line.find_segment(commit.seq).horizon
    return None
