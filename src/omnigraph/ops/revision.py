"""Resolve a revision, such as a branch, a tag, a commit id or `branch@time`, to a state of the graph."""

from datetime import datetime

from omnigraph.clock import parse_instant
from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import MAIN, Snapshot
from omnigraph.commit.ref_names import looks_like_id
from omnigraph.commit.time_travel import CommitMissingError, find_commit_at
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.redaction import redact_snapshot
from omnigraph.ops.session import Session
from omnigraph.policy import Action, DeniedError

# Not allowed in names of branches and tags.
SEPARATOR = "@"


class AcceptedSchema(JsonStruct, frozen=True, kw_only=True):
    """The schema of one state, with its source text."""

    json_keys = "target.branch=branch commit_id id fingerprint source"

    branch: str
    commit_id: str
    id: str
    fingerprint: str
    source: str


def show_schema(
    session: Session, *, branch: str = MAIN, commit_id: str | None = None, at: datetime | None = None
) -> AcceptedSchema:
    """Return the schema of a state; raises what `show_state` raises."""
    state = show_state(session, branch=branch, commit_id=commit_id, at=at)
    record = state.manifest.schema
    return AcceptedSchema(
        branch=state.branch,
        commit_id=state.commit.id,
        id=record.id,
        fingerprint=record.fingerprint,
        source=record.source,
    )


def show_state(
    session: Session, *, branch: str = MAIN, commit_id: str | None = None, at: datetime | None = None
) -> Snapshot:
    """Return the newest state of a branch, or that of a commit or an instant.

    Raises:
        BranchMissingError, CommitMissingError: There is no such state.
    """
    session.allow(Action.READ, branch)
    branch_session = session.checkout(branch)
    return redact_snapshot(branch_session, branch_session.resolve_snapshot(commit_id=commit_id, at=at))


def resolve_state(session: Session, text: str) -> Snapshot:
    """Return the state that `text` names.

    `review` is the newest state of a branch, or the commit of a tag. `01J…`, a commit id, is searched for on main and
    then on every other branch. `review@01J…` and `review@2026-01-31T12:00:00Z` are a commit and a time of a branch; a
    time alone is one of main.

    Raises:
        BranchMissingError, CommitMissingError: There is no such state.
        CommitCollectedError: Cleanup has collected it.
    """
    return locate_state(session, text)[1]


def locate_state(session: Session, text: str) -> tuple[ManifestLog, Snapshot]:
    """Return the state that `text` names, as `resolve_state` does, and the log whose journal has its commit."""
    check_text("a state", text)
    branch, separator, rest = text.partition(SEPARATOR)
    if separator:
        return _locate_past(session.checkout(branch), rest)
    # A branch comes first, then a commit id, a tag, and a time. A missing branch may raise DeniedError, which hides
    # that it is missing; the text may still be one of the others.
    try:
        return session.checkout(text).locate_snapshot()
    except (BranchMissingError, DeniedError):
        if looks_like_id(text):
            return _locate_on_any_branch(session, text)
        if text not in {tag.name for tag in session.branches.tags.list_records()}:
            instant = _parse_instant(text)
            if instant is None:
                raise
            session.allow(Action.READ)
            return session.locate_snapshot(at=instant)
    return session.locate_snapshot(commit_id=text)


def resolve_commit(session: Session, text: str) -> str:
    """Return the id of the commit that `text` names, seen from the session's branch; an id is returned unchanged.

    A tag names its commit, a branch its newest one, a time the newest that the session's branch had then, `review@…`
    one of another branch. Unlike a state, the commit may have been collected.

    Raises:
        BranchMissingError, CommitMissingError: It names none.
    """
    check_text("a commit", text)
    branch, separator, rest = text.partition(SEPARATOR)
    if separator:
        session.allow(Action.READ, branch)
        return resolve_commit(session.checkout(branch), rest)
    if looks_like_id(text):
        return text
    tags = {tag.name: tag for tag in session.branches.tags.list_records()}
    if text in tags:
        session.allow(Action.READ, tags[text].branch)
        return tags[text].commit_id
    instant = _parse_instant(text)
    if instant is not None:
        return find_commit_at(session.log, session.head(), instant).id
    try:
        session.allow(Action.READ, text)
        return session.checkout(text).head().snapshot.commit.id
    except BranchMissingError as error:
        raise CommitMissingError(text, session.log.branch, error.near or find_closest(text, tags)) from None


def _locate_on_any_branch(session: Session, commit_id: str) -> tuple[ManifestLog, Snapshot]:
    """Find a commit on any branch that may be read, main first."""
    for name in (MAIN, *(record.name for record in session.branches.list_records())):
        try:
            session.allow(Action.READ, name)
            return session.checkout(name).locate_snapshot(commit_id=commit_id)
        except (CommitMissingError, DeniedError):
            continue
    raise CommitMissingError(commit_id, MAIN)


def _locate_past(session: Session, text: str) -> tuple[ManifestLog, Snapshot]:
    instant = _parse_instant(text)
    return session.locate_snapshot(commit_id=text) if instant is None else session.locate_snapshot(at=instant)


def _parse_instant(text: str) -> datetime | None:
    try:
        return parse_instant(text)
    except ValueError:
        return None
