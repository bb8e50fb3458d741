"""Tag operations of a graph."""

from typing import TYPE_CHECKING

from omnigraph.graph import lazy_ops
from omnigraph.graph.blame import blames_damage
from omnigraph.ops.session import Session

if TYPE_CHECKING:
    from omnigraph.ops.tag import Tag


@blames_damage
class GraphTags:
    """The tags of a graph: names for states, which cleanup retains."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"GraphTags({self._session.uri!r})"

    def list(self) -> "list[Tag]":
        """List all tags by name."""
        return lazy_ops.tag.list_tags(self._session)

    def create(self, name: str, ref: str = "main", *, actor: str = "anonymous") -> "Tag":
        """Create a tag for the state that `ref` names now: a branch, a commit id, a time of a branch, or a tag.

        A tag can be used wherever a commit id can, and stays when its branch is deleted. A tag and a branch can't have
        the same name.

        Raises:
            BadArgumentError: The name is not valid for a tag.
            TagExistsError, BranchExistsError: The name is taken.
            BranchMissingError, CommitMissingError: There is no such state.
            CommitCollectedError: Cleanup has collected it.
            BranchGoneError: Its branch was deleted in the meantime.
            OutcomeUnknownError: The store stopped answering; `list` shows later whether the tag exists.
        """
        return lazy_ops.tag.create_tag(self._session, name, ref=ref, actor=self._session.resolve_signer(actor))

    def delete(self, name: str) -> "Tag":
        """Delete a tag, and return it. The state that it named stays until a cleanup collects it.

        Raises:
            MissingError: There is no such tag.
            OutcomeUnknownError: The store stopped answering; `list` shows later whether the tag exists.
        """
        return lazy_ops.tag.delete_tag(self._session, name)
