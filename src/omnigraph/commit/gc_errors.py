"""Explain why a table version can't be read: cleanup has collected it, or it is damaged."""

import sys
from datetime import UTC, datetime

from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.gc_plan import gather_histories
from omnigraph.commit.gc_retention import BranchHistory, RetentionPolicy
from omnigraph.commit.manifest_types import Commit, GcHorizon
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.table_cache import PinUnreadableError
from omnigraph.telemetry import log

# Only the published horizons decide here, so the policy itself collects nothing.
_KEEP_ALL = RetentionPolicy(commits=sys.maxsize, since=datetime.min.replace(tzinfo=UTC))


class SnapshotCollectedError(PinUnreadableError):
    """A state was read for longer than the grace of a cleanup, which has collected its files. Nothing is damaged."""

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
        self.commit_id = commit_id
        self.branch = branch
        self.at = at
        self.epoch = epoch
        self.kept_from = kept_from
        self.kept_since = kept_since

    def __str__(self) -> str:
        since = "" if self.kept_since is None else f", and data that was current after {self.kept_since}"
        return (
            f"this state was collected while it was read: cleanup {self.epoch} has removed the data that commit"
            f" {self.commit_id} of {self.at} wrote to {self.path}. On branch `{self.branch}` it kept the commits from"
            f" number {self.kept_from} on{since}. Read again, or open the graph again, to get a current state; for"
            " long reads, give cleanup a longer `--grace`, or tag the commit to keep it"
        )


def explain_collected(branches: BranchRegistry, error: PinUnreadableError) -> PinUnreadableError:
    """Return SnapshotCollectedError if no retained state has the unreadable version, else the original error.

    Cleanup publishes its horizon before it removes anything, so a reader that misses a collected file finds the
    horizon. A retained version that can't be read is damaged. This reads the journals, so call it only after a read
    has failed.
    """
    try:
        main = branches.main.head()
        if not main.snapshot.manifest.gc_horizon.epoch:
            return error
        histories = gather_histories(branches, main, (), _KEEP_ALL, {}, {})
        if error.version in histories.find_versions().get(error.path, ()):
            return error
        writers = (_find_writer(history, error) for history in histories.publish_order)
        writer = next((writer for writer in writers if writer is not None), None)
    except OmnigraphError as failure:
        # The caller reports the original error; a second one about the journals would hide it.
        log.info("could not find out whether version %s of %s was collected: %s", error.version, error.path, failure)
        return error
    if writer is None:
        return error
    commit, horizon = writer
    return SnapshotCollectedError(
        error.path,
        error.version,
        commit.id,
        commit.branch,
        commit.at,
        horizon.epoch,
        horizon.kept_from,
        horizon.staged_before,
    )


def _find_writer(history: BranchHistory, error: PinUnreadableError) -> tuple[Commit, GcHorizon] | None:
    """Return the commit of a history that published the unreadable version, and the horizon of its journal."""
    for commit in history.iter_commits():
        if any(change.path == error.path and change.after == str(error.version) for change in commit.changes):
            return commit, history.find_segment(commit.seq).horizon
    return None
