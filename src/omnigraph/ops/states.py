"""A state of a graph by a short text: a branch, a tag, a commit, or a branch and a commit or time of it."""

from datetime import datetime

from omnigraph.clock import parse_instant
from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.commit.branch_names import looks_like_id
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.records import MAIN, Snapshot
from omnigraph.commit.refs import CommitMissingError
from omnigraph.ops.session import Session
from omnigraph.policy import Action, DeniedError

SEPARATOR = "@"
"""No branch or tag has it in its name."""


def show_state(
    session: Session, *, branch: str = MAIN, commit_id: str | None = None, at: datetime | None = None
) -> Snapshot:
    """The newest state of a branch, or that of a commit or an instant.

    Raises:
        BranchMissingError, CommitMissingError: There is no such state.
    """
    session.allow(Action.READ, branch)
    return session.on(branch).snapshot(commit_id=commit_id, at=at)


def state_of(session: Session, text: str) -> Snapshot:
    """The state that `text` names.

    `review` is the newest of a branch, or the commit that a tag names. `01J…`, a commit's id, is looked for on main and
    then on every other branch. `review@01J…` and `review@2026-01-31T12:00:00Z` are a commit and a time of a branch.

    Raises:
        BranchMissingError, CommitMissingError: There is no such state.
        CommitCollectedError: Cleanup has collected it.
    """
    return located(session, text)[1]


def located(session: Session, text: str) -> tuple[ManifestLog, Snapshot]:
    """As `state_of`, with the log whose journal has the state's commit."""
    branch, sign, rest = text.partition(SEPARATOR)
    if sign:
        return _past(session.on(branch), rest)
    try:
        return session.on(text).located()
    except (BranchMissingError, DeniedError):
        if looks_like_id(text):
            return _anywhere(session, text)
        if text not in {tag.name for tag in session.branches.tags.records()}:
            raise
    return session.located(commit_id=text)


def _anywhere(session: Session, commit_id: str) -> tuple[ManifestLog, Snapshot]:
    """A commit of any branch that may be read."""
    for name in (MAIN, *(record.name for record in session.branches.records())):
        try:
            session.allow(Action.READ, name)
            return session.on(name).located(commit_id=commit_id)
        except (CommitMissingError, DeniedError):
            continue
    raise CommitMissingError(commit_id, MAIN)


def _past(session: Session, text: str) -> tuple[ManifestLog, Snapshot]:
    try:
        instant = parse_instant(text)
    except ValueError:
        return session.located(commit_id=text)
    return session.located(at=instant)
