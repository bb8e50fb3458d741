"""Create, list and delete tags: names of states that cleanup keeps."""

from omnigraph.commit.manifest_types import MAIN, TagRecord
from omnigraph.commit.tag_errors import TagMissingError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.commit_signature import check_actor
from omnigraph.ops.revision import locate_state
from omnigraph.ops.session import Session, is_readable
from omnigraph.policy import Action


class Tag(JsonStruct, frozen=True, kw_only=True):
    """A name for a commit, and the branch the commit was made on, which may have been deleted."""

    name: str
    commit_id: str
    branch: str
    created_at: str
    created_by: str


def list_tags(session: Session) -> list[Tag]:
    """Return all tags by name, except those on branches that the session may not read."""
    return [
        _build_tag(record) for record in session.branches.tags.list_records() if is_readable(session, record.branch)
    ]


def create_tag(session: Session, name: str, *, ref: str = MAIN, actor: str) -> Tag:
    """Tag the state that `ref` names now: the newest of a branch, a commit, a time of a branch, or another tag.

    Raises:
        BadArgumentError, TagExistsError, BranchExistsError: The name is invalid or in use.
        BranchMissingError, CommitMissingError, CommitCollectedError: There is no such state, or no longer.
        BranchGoneError: Its branch was deleted in the meantime.
        OutcomeUnknownError: The store stopped responding; the tag may exist.
    """
    session.allow(Action.BRANCH_CREATE, name, signed=actor, hides_rows=True)
    session.check_writable()
    check_text("name", name)
    check_actor(actor)
    log, snapshot = locate_state(session, ref)
    # A branch that `ref` names was resolved without this check.
    session.allow(Action.READ, log.branch, hides_rows=True)
    return _build_tag(session.branches.tags.create(name, snapshot, log, actor))


def delete_tag(session: Session, name: str) -> Tag:
    """Delete a tag and return it. Its commit stays until a cleanup collects it.

    Raises:
        TagMissingError: There is no tag of that name.
        OutcomeUnknownError: The store stopped responding; the tag may be deleted.
    """
    session.allow(Action.BRANCH_DELETE, name, hides_rows=True)
    session.check_writable()
    try:
        return _build_tag(session.branches.tags.delete(name))
    except TagMissingError as error:
        raise TagMissingError(name, error.known, find_closest(name, error.known)) from None


def _build_tag(record: TagRecord) -> Tag:
    return Tag(
        name=record.name,
        commit_id=record.commit_id,
        branch=record.branch,
        created_at=record.created_at,
        created_by=record.created_by,
    )
