"""A state of a graph by a short text: a branch, a commit, or a branch and a commit or time of it."""

from omnigraph.clock import parse_instant
from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.commit.records import MAIN, Snapshot
from omnigraph.commit.refs import CommitMissingError
from omnigraph.ids import ULID_LENGTH
from omnigraph.ops.session import Session

SEPARATOR = "@"
"""No branch has it in its name."""


def state_of(session: Session, text: str) -> Snapshot:
    """The state that `text` names.

    `review` is the newest of a branch. `01J…`, a commit's id, is looked for on main and then on every other branch.
    `review@01J…` and `review@2026-01-31T12:00:00Z` are a commit and a time of a branch.

    Raises:
        BranchMissingError, CommitMissingError: There is no such state.
    """
    branch, sign, rest = text.partition(SEPARATOR)
    if sign:
        return _past(session.on(branch), rest)
    try:
        return session.on(text).snapshot()
    except BranchMissingError:
        if len(text) != ULID_LENGTH:
            raise
    for name in (MAIN, *(record.name for record in session.branches.records())):
        try:
            return session.on(name).snapshot(commit_id=text)
        except CommitMissingError:
            continue
    raise CommitMissingError(text, MAIN)


def _past(session: Session, text: str) -> Snapshot:
    try:
        instant = parse_instant(text)
    except ValueError:
        return session.snapshot(commit_id=text)
    return session.snapshot(at=instant)
