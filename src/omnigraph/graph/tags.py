"""The tags of a graph."""

from typing import TYPE_CHECKING

from omnigraph.graph import lazy_ops
from omnigraph.graph.blame import blames_damage
from omnigraph.ops.session import Session

if TYPE_CHECKING:
    from omnigraph.ops.tag import Tag


@blames_damage
class GraphTags:
    """The tags of a graph: names for states, which cleanup keeps."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"GraphTags({self._session.uri!r})"

    def list(self) -> "list[Tag]":
        """All tags, by name."""
        return lazy_ops.tag.list_tags(self._session)

    def create(self, name: str, ref: str = "main", *, actor: str = "anonymous") -> "Tag":
        """Name the state that `ref` stands for now: a branch's newest, a commit's id, a time of a branch, a tag's.

        A tag can be asked for wherever a commit's id can, and stays when its branch is deleted. Its name is none that
        a branch has.

        Raises:
            BadTagNameError: No tag may have that name.
            TagExistsError, BranchExistsError: The name is taken.
            BranchMissingError, CommitMissingError: There is no such state.
            CommitCollectedError: Cleanup has collected it.
            BranchGoneError: Its branch was deleted meanwhile.
            TagOutcomeUnknownError: The store stopped answering; `list` tells later whether it is there.
        """
        return lazy_ops.tag.create_tag(self._session, name, ref=ref, actor=self._session.resolve_signer(actor))

    def delete(self, name: str) -> "Tag":
        """Delete a tag; what it was. The state that it named stays until a cleanup takes it.

        Raises:
            TagMissingError: There is no such tag.
            TagOutcomeUnknownError: The store stopped answering; `list` tells later whether it is gone.
        """
        return lazy_ops.tag.delete_tag(self._session, name)
