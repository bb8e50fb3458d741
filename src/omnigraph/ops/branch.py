"""Create, list and delete branches."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import msgspec

from omnigraph.commit.branch_errors import BranchMissingError, OutcomeUnknownError
from omnigraph.commit.branches import BranchDraft
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import MAIN, BranchRecord, Snapshot
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.commit_signature import check_actor
from omnigraph.ops.redaction import HIDDEN
from omnigraph.ops.session import Session, find_row_rules, is_readable, list_row_rules
from omnigraph.policy import Action, DeniedError


class Branch(JsonStruct, frozen=True, kw_only=True):
    """A branch and the commit that it was created from; main has none."""

    name: str
    id: str | None = None
    """A new id each time that a branch of this name is created."""
    parent_branch: str | None = None
    parent_commit: str | None = None
    created_at: str | None = None
    created_by: str | None = None


def list_branches(session: Session) -> list[Branch]:
    """Return main, and by name the branches that the caller may read."""
    session.allow_on_graph(Action.READ, hides_rows=True)
    records = (record for record in session.branches.list_records() if is_readable(session, record.name))
    branches = map(_build_branch, records)
    # The name of a branch that may not be read is hidden wherever it occurs.
    hidden = (
        branch
        if branch.parent_branch is None or is_readable(session, branch.parent_branch)
        else msgspec.structs.replace(branch, parent_branch=HIDDEN)
        for branch in branches
    )
    return [Branch(name=MAIN), *hidden]


def create_branch(
    session: Session,
    name: str,
    *,
    source: str = MAIN,
    commit_id: str | None = None,
    at: datetime | None = None,
    actor: str,
) -> Branch:
    """Create a branch from the head of `source`, or from one of its commits or its state at an instant.

    The cost does not depend on the number of tables, rows and commits; none of them is copied or read.

    Raises:
        BadArgumentError, BranchExistsError: The name is invalid or taken.
        BranchMissingError, CommitMissingError: There is no such source.
        BranchGoneError: `source` was deleted in the meantime.
        OutcomeUnknownError: The store stopped answering; the branch may have been created.
    """
    check_text("name", name)
    with draft_branch(session, name, source=source, commit_id=commit_id, at=at, actor=actor) as draft:
        return _build_branch(draft.record)


@contextmanager
def draft_branch(
    session: Session,
    name: str,
    *,
    source: str = MAIN,
    commit_id: str | None = None,
    at: datetime | None = None,
    actor: str,
) -> Iterator[BranchDraft]:
    """Yield an unregistered branch that the block may write to, and register it when the block ends.

    Readers see the branch with everything that was written to it, or, if the block fails, not at all. The errors are
    those of `create_branch`.
    """
    session.allow(Action.READ, source, hides_rows=True)
    session.allow(Action.BRANCH_CREATE, name, signed=actor, hides_rows=True)
    session.check_writable()
    check_actor(actor)
    parent, snapshot = _resolve_origin(session, source, commit_id, at)
    _check_rows_stay_hidden(session, name, parent, snapshot)
    draft = session.branches.draft(name, parent, snapshot, actor)
    try:
        yield draft
    # Also on an interrupt: the branch is not registered yet, so no reader can lose it.
    except BaseException:
        session.branches.discard(draft)
        raise
    try:
        session.branches.register(draft)
    # The branch may be registered, so its files must stay.
    except OutcomeUnknownError:
        raise
    # The registration has failed for certain, so no reader can see the draft.
    except Exception:
        session.branches.discard(draft)
        raise


def _check_rows_stay_hidden(session: Session, name: str, parent: ManifestLog, snapshot: Snapshot) -> None:
    """Check that on a new branch, whose newest state is its own, the actor sees no more rows than in its origin.

    Raises:
        DeniedError: The policy hides rows of the origin, and has other rules for the branch.
    """
    new = find_row_rules(session, name)
    for rules in list_row_rules(session.checkout_log(parent), snapshot):
        if rules != new:
            assert session.actor is not None  # noqa: S101 - rules are those of an actor
            raise DeniedError.rows_hidden(session.actor.name, snapshot.branch)


def _resolve_origin(
    session: Session, source: str, commit_id: str | None, at: datetime | None
) -> tuple[ManifestLog, Snapshot]:
    """Return the snapshot to start from, and the log that has its commit; `source` may be a tag instead of a branch."""
    try:
        return session.checkout(source).locate_snapshot(commit_id=commit_id, at=at)
    except BranchMissingError:
        # A tag is one commit, so it can't be combined with another commit or an instant.
        if commit_id is not None or at is not None:
            raise
        tags = {tag.name for tag in session.branches.tags.list_records()}
        if source not in tags:
            raise
    return session.locate_snapshot(commit_id=source)


def delete_branch(session: Session, name: str) -> Branch:
    """Delete a branch, and return what it was. Its commits are lost, except those that were merged.

    Raises:
        BadArgumentError: It is main, or not a valid name.
        BranchMissingError: There is no such branch.
        BranchHasChildrenError: Other branches were created from it; delete those first.
        OutcomeUnknownError: The store stopped answering; the branch may have been deleted.
    """
    session.allow(Action.BRANCH_DELETE, name, hides_rows=True)
    session.check_writable()
    return _build_branch(session.branches.delete(name))


def _build_branch(record: BranchRecord) -> Branch:
    return Branch(
        name=record.name,
        id=record.id,
        parent_branch=record.parent_branch,
        parent_commit=record.parent_commit,
        created_at=record.created_at,
        created_by=record.created_by,
    )
