"""Hide from an actor what commits of branches that it may not read say about them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from omnigraph.commit.manifest_types import Commit, Snapshot
from omnigraph.ops.session import Session, find_row_rules, is_readable, list_row_rules

# No branch and no actor has this name: parentheses are not allowed in either.
HIDDEN = "(hidden)"


def redact_commit(session: Session, commit: Commit) -> Commit:
    """Return a commit, without message, author, key, tables and branch names that the actor may not read.

    A branch that was taken from another shares its history with it, so listing the one must not reveal the other. Ids,
    times and parents stay: the history has the same length and the same positions for every reader.
    """
    if session.runtime.policy is None:
        return commit
    merged = commit.merged_from
    if merged is not None and not is_readable(session, merged.branch):
        commit = msgspec.structs.replace(
            commit, merged_from=msgspec.structs.replace(merged, branch=HIDDEN), digest=None
        )
    if commit.branch == session.log.branch or is_readable(session, commit.branch):
        branches = dict.fromkeys((session.log.branch, commit.branch))
        hides_rows = any(find_row_rules(session, branch) is not None for branch in branches)
        return _drop_row_facts(commit) if hides_rows else commit
    return msgspec.structs.replace(
        _drop_row_facts(commit), branch=HIDDEN, actor=HIDDEN, message=None, idempotency_key=None, merged_from=None
    )


def _drop_row_facts(commit: Commit) -> Commit:
    """Return a commit without what it says about rows: tables, versions and counts.

    Without its digest too, with which guesses of everything that is left out could be checked.
    """
    return msgspec.structs.replace(
        commit,
        digest=None,
        request=None,
        changes=(),
        summary=None,
        purged=(),
        affected_nodes=None,
        affected_edges=None,
    )


def redact_snapshot(session: Session, snapshot: Snapshot) -> Snapshot:
    """Return a state whose commit and tables don't name branches that the actor may not read."""
    if session.runtime.policy is None:
        return snapshot
    commits = (*snapshot.manifest.commits[:-1], redact_commit(session, snapshot.commit))
    if list_row_rules(session, snapshot):
        # Versions and numbers of rows are those of all rows.
        return replace(snapshot, manifest=replace(snapshot.manifest, commits=commits, pins={}))
    # A table keeps the name of the branch that wrote it last.
    pins = {
        key: pin if is_readable(session, pin.branch) else replace(pin, branch=HIDDEN)
        for key, pin in snapshot.pins.items()
    }
    return replace(snapshot, manifest=replace(snapshot.manifest, commits=commits, pins=pins))


def redact_commits(session: Session, commits: Iterable[Commit]) -> Iterator[Commit]:
    """Yield commits as `redact_commit` returns them."""
    for commit in commits:
        yield redact_commit(session, commit)
