"""Branches: make one from any state of another, list them, delete one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from omnigraph.commit.branch_errors import BranchMissingError, BranchOutcomeUnknownError
from omnigraph.commit.branches import BranchDraft
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import MAIN, BranchRecord, Snapshot
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.commit_signature import check_actor
from omnigraph.ops.session import Session
from omnigraph.policy import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch, and what it was taken from; main was taken from nothing."""

    name: str
    id: str | None = None
    """New each time that the name is used."""
    parent_branch: str | None = None
    parent_commit: str | None = None
    created_at: str | None = None
    created_by: str | None = None

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "name": self.name,
            "id": self.id,
            "parent_branch": self.parent_branch,
            "parent_commit": self.parent_commit,
            "created_at": self.created_at,
            "created_by": self.created_by,
        }


def list_branches(session: Session) -> list[Branch]:
    """All branches, main first and the others by name."""
    session.allow_on_graph(Action.READ)
    return [Branch(name=MAIN), *map(_build_branch, session.branches.list_records())]


def create_branch(
    session: Session,
    name: str,
    *,
    source: str = MAIN,
    commit_id: str | None = None,
    at: datetime | None = None,
    actor: str,
) -> Branch:
    """A branch that starts as the newest state of `source`, or as that of one of its commits or of an instant.

    It costs the same for any number of tables, rows and commits, and touches none of them.

    Raises:
        BadBranchNameError, BranchExistsError: The name won't do.
        BranchMissingError, CommitMissingError: There is no such state to start from.
        BranchGoneError: `source` was deleted meanwhile.
        BranchOutcomeUnknownError: The store stopped answering; the branch may be there.
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
    """A branch that nobody sees while the block writes to it; behind the block it is there, with all of that.

    When the block fails there is no branch. Raises what `create_branch` raises.
    """
    session.allow(Action.READ, source)
    session.allow(Action.BRANCH_CREATE, name, signed=actor)
    session.check_writable()
    check_actor(actor)
    parent, snapshot = _resolve_origin(session, source, commit_id, at)
    draft = session.branches.draft(name, parent, snapshot, actor)
    try:
        yield draft
    except BaseException:  # an interrupt too: nobody sees it yet
        session.branches.discard(draft)
        raise
    try:
        session.branches.register(draft)
    except BranchOutcomeUnknownError:
        raise  # somebody may see it: its files stay
    except Exception:
        session.branches.discard(draft)
        raise


def _resolve_origin(
    session: Session, source: str, commit_id: str | None, at: datetime | None
) -> tuple[ManifestLog, Snapshot]:
    """The state to start from, and the log that has its commit; `source` may be a tag instead of a branch."""
    try:
        return session.checkout(source).locate_snapshot(commit_id=commit_id, at=at)
    except BranchMissingError:
        if (
            commit_id is not None
            or at is not None
            or source not in {tag.name for tag in session.branches.tags.list_records()}
        ):
            raise
    return session.locate_snapshot(commit_id=source)


def delete_branch(session: Session, name: str) -> Branch:
    """Delete a branch; what it was. Its commits are lost, but for what was merged.

    Raises:
        BadBranchNameError: It is main, or no name at all.
        BranchMissingError: There is none of that name.
        BranchHasChildrenError: Others were taken from it: delete those first.
        BranchOutcomeUnknownError: The store stopped answering; the branch may be gone.
    """
    session.allow(Action.BRANCH_DELETE, name)
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
