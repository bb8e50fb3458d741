"""Resolve a revision, such as a branch, a tag, a commit id or `branch@time`, to a state of the graph."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from omnigraph.clock import parse_instant, parse_moment
from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import MAIN, Commit, Snapshot
from omnigraph.commit.merge_base import Ancestry, Tip
from omnigraph.commit.ref_names import looks_like_id
from omnigraph.commit.time_travel import (
    CommitMissingError,
    find_commit_at,
    find_journal,
    find_short_id,
    looks_like_short_id,
    read_at_commit,
    split_steps,
    step_back,
)
from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.redaction import redact_snapshot
from omnigraph.ops.session import Session
from omnigraph.policy import Action, DeniedError

# Not allowed in names of branches and tags.
SEPARATOR = "@"
# Between two states, for their merge base. Names may contain it, so they come first.
MERGE_BASE = "..."
# What a difference may begin from, besides a state of its own.
MERGE = "merge"


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
    session.allow(Action.READ, branch, hides_rows=True)
    branch_session = session.checkout(branch)
    return redact_snapshot(branch_session, branch_session.resolve_snapshot(commit_id=commit_id, at=at))


def resolve_state(session: Session, text: str) -> Snapshot:
    """Return the state that `text` names.

    `review` is the newest state of a branch, or the commit of a tag. `01J…`, a commit id or a unique part of one, is
    searched for on main and then on every other branch. `review@01J…`, `review@2026-01-31T12:00:00Z` and `review@2h`
    are a commit and times of a branch; a time alone is one of main. `X~2` is two first parents before any of these, and
    `X...Y` the merge base of two. A branch or tag of that name comes first.

    Raises:
        BranchMissingError, CommitMissingError: There is no such state.
        BadArgumentError: It is a part of several commit ids.
        CommitCollectedError: Cleanup has collected it.
    """
    return locate_state(session, text)[1]


def locate_state(session: Session, text: str) -> tuple[ManifestLog, Snapshot]:
    """Return the state that `text` names, as `resolve_state` does, and the log whose journal has its commit."""
    check_text("a state", text)
    if MERGE_BASE in text and not _begins_with_name(session, text):
        left, _, right = text.partition(MERGE_BASE)
        if not left or not right:
            raise BadArgumentError("state", f"`{text}`", "a merge base has two states, as in `main...review`")
        return _locate_merge_base(session, left, right)
    steps = split_steps(text)
    if steps is not None:
        log, state = locate_state(session, steps[0])
        head = log.final_head()
        commit = step_back(log, head, state.commit, steps[1])
        if commit is None:
            raise CommitMissingError(text, log.branch)
        past = read_at_commit(log, head, commit.id)
        return find_journal(log, head, past), past
    branch, separator, rest = text.partition(SEPARATOR)
    if separator:
        return _locate_past(session.checkout(branch), rest)
    # A branch comes first, then a tag, a commit id, a part of one, and a time. A missing branch may raise DeniedError,
    # which hides that it is missing; the text may still be one of the others.
    try:
        return session.checkout(text).locate_snapshot()
    except (BranchMissingError, DeniedError):
        if text in {tag.name for tag in session.branches.tags.list_records()}:
            return session.locate_snapshot(commit_id=text)
        commit_id = text if looks_like_id(text) else _find_short_id(session, text)
        if commit_id is not None:
            return _locate_on_any_branch(session, commit_id)
        instant = _parse_instant(text)
        if instant is None:
            raise
        session.allow(Action.READ, hides_rows=True)
        return session.locate_snapshot(at=instant)


def resolve_base(session: Session, before: str, after: str, base: str | None) -> Snapshot:
    """Return the state that a difference begins from: `before`, or with the base `merge` the merge base of the two.

    Raises:
        BadArgumentError: There is no such base.
        What `resolve_state` raises.
    """
    if base is None:
        return resolve_state(session, before)
    if base != MERGE:
        raise BadArgumentError("base", f"`{base}`", f"`{MERGE}` is the merge base of the two states")
    check_text("a state", before)
    check_text("a state", after)
    return _locate_merge_base(session, before, after)[1]


def resolve_commit(session: Session, text: str) -> str:
    """Return the id of the commit that `text` names, seen from the session's branch; an id is returned unchanged.

    A tag names its commit, a branch its newest one, a time the newest that the session's branch had then, `review@…`
    one of another branch; a part of an id and `X~2` are as in `resolve_state`. Unlike a state, the commit may have been
    collected.

    Raises:
        BranchMissingError, CommitMissingError: It names none.
        BadArgumentError: It is a part of several commit ids.
    """
    check_text("a commit", text)
    steps = split_steps(text)
    if steps is not None:
        return _step_back(session, resolve_commit(session, steps[0]), steps[1], text)
    branch, separator, rest = text.partition(SEPARATOR)
    if separator:
        session.allow(Action.READ, branch, hides_rows=True)
        moment = _parse_moment(session, rest)
        past = session.checkout(branch)
        return resolve_commit(past, rest) if moment is None else find_commit_at(past.log, past.head(), moment).id
    if looks_like_id(text):
        return text
    tags = {tag.name: tag for tag in session.branches.tags.list_records()}
    if text in tags:
        session.allow(Action.READ, tags[text].branch, hides_rows=True)
        return tags[text].commit_id
    try:
        session.allow(Action.READ, text, hides_rows=True)
        return session.checkout(text).head().snapshot.commit.id
    except (BranchMissingError, DeniedError) as error:
        commit_id = _find_short_id(session, text)
        instant = _parse_instant(text)
        if commit_id is not None:
            return commit_id
        if instant is not None:
            return find_commit_at(session.log, session.head(), instant).id
        if isinstance(error, DeniedError):
            raise
        raise CommitMissingError(text, session.log.branch, error.near or find_closest(text, tags)) from None


def _begins_with_name(session: Session, text: str) -> bool:
    """Return whether a text with `...` is a branch or tag, whose names may contain that, or something after one."""
    name = text.partition("~")[0].partition(SEPARATOR)[0]
    names = {record.name for record in session.branches.list_records()}
    return name in names or name in {tag.name for tag in session.branches.tags.list_records()}


def _locate_merge_base(session: Session, left: str, right: str) -> tuple[ManifestLog, Snapshot]:
    """Return the newest merge base of two states."""
    tips = []
    for side in (left, right):
        log, state = locate_state(session, side)
        tips.append(Tip(log, log.final_head(), state))
    ancestry = Ancestry(*tips)
    base = ancestry.open_tip(ancestry.find_divergence().base_id)
    return base.log, base.snapshot


def _iter_readable(session: Session) -> Iterator[Session]:
    """Yield sessions on main and every other branch that may be read and still exists."""
    for name in (MAIN, *(record.name for record in session.branches.list_records())):
        try:
            session.allow(Action.READ, name, hides_rows=True)
            yield session.checkout(name)
        except (BranchGoneError, BranchMissingError, DeniedError):
            continue


def _find_short_id(session: Session, text: str) -> str | None:
    """Return the commit id of any readable branch that a text is a part of; None if there is none."""
    if not looks_like_short_id(text):
        return None
    return find_short_id(text, (_iter_own_commits(branch) for branch in _iter_readable(session)))


def _iter_own_commits(session: Session) -> Iterator[Commit]:
    """Yield the commits of a branch since its fork, newest first: older ones belong to its parent."""
    head = session.head()
    fork = head.snapshot.manifest.fork
    for commit in session.log.iter_history(head):
        session.check_cancelled()
        if fork is not None and commit.seq <= fork.seq:
            return
        yield commit


def _step_back(session: Session, commit_id: str, count: int, text: str) -> str:
    """Return the id of the `count`-th first parent of a commit, on the session's branch or any other."""
    for branch in chain((session,), _iter_readable(session)):
        head = branch.head()
        commit = next((commit for commit in branch.log.iter_history(head) if commit.id == commit_id), None)
        if commit is not None:
            past = step_back(branch.log, head, commit, count)
            if past is None:
                break
            return past.id
    raise CommitMissingError(text, session.log.branch)


def _locate_on_any_branch(session: Session, commit_id: str) -> tuple[ManifestLog, Snapshot]:
    """Find a commit on any branch that may be read, main first."""
    for branch in _iter_readable(session):
        try:
            return branch.locate_snapshot(commit_id=commit_id)
        except (CommitMissingError, DeniedError):
            continue
    raise CommitMissingError(commit_id, MAIN)


def _locate_past(session: Session, text: str) -> tuple[ManifestLog, Snapshot]:
    moment = _parse_moment(session, text)
    return session.locate_snapshot(commit_id=text) if moment is None else session.locate_snapshot(at=moment)


def _parse_moment(session: Session, text: str) -> datetime | None:
    """Parse what follows `@`: an instant, or a time ago such as `2h`; None if it is neither."""
    try:
        return parse_moment(text, session.runtime.clock.now())
    except ValueError:
        return None


def _parse_instant(text: str) -> datetime | None:
    try:
        return parse_instant(text)
    except ValueError:
        return None
