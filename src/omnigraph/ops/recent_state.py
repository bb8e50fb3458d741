"""Read a state of a branch that may be a moment old, but never older than a commit that the caller knows."""

import math
from collections.abc import Callable

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.errors import BadArgumentError
from omnigraph.ops.argument_checks import check_number, check_text
from omnigraph.ops.session import Session


def resolve_recent_state(
    session: Session, max_staleness: float, min_commit: str | None, check: Callable[[], None]
) -> Snapshot:
    """Return a state that was the newest of the branch within the last `max_staleness` seconds.

    With `min_commit`, it contains that commit: a cached state without it is not used. `check` is called while the
    history is searched for the commit.

    Raises:
        BadArgumentError: The time is negative, infinite or no number.
        CommitMissingError: The newest state does not contain the commit either.
    """
    check_number("max_staleness", max_staleness)
    if not 0 <= max_staleness < math.inf:
        raise BadArgumentError("max_staleness", str(max_staleness), "it must be a number of seconds, 0 or more")
    head = session.head(max_staleness)
    if min_commit is None:
        return head.snapshot
    check_text("min_commit", min_commit)
    # Usually one of the newest commits: the manifest itself has it.
    if _is_recent(head, min_commit):
        return head.snapshot
    head = session.head()
    if not _is_recent(head, min_commit):
        for commit in session.log.iter_history(head):
            check()
            if commit.id == min_commit:
                break
        else:
            raise CommitMissingError(min_commit, session.log.branch)
    return head.snapshot


def _is_recent(head: Head, commit_id: str) -> bool:
    return any(commit.id == commit_id for commit in reversed(head.snapshot.manifest.commits))
