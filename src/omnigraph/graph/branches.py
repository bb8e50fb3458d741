"""The branches of a graph."""

from datetime import datetime
from typing import TYPE_CHECKING

from omnigraph.graph import lazy_ops
from omnigraph.graph.blame import blames_damage
from omnigraph.ops.session import Session

if TYPE_CHECKING:
    from omnigraph.ops.branch import Branch


@blames_damage
class GraphBranches:
    """The branches of a graph."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"GraphBranches({self._session.uri!r})"

    def list(self) -> "list[Branch]":
        """All branches, main first and the others by name."""
        return lazy_ops.branch.list_branches(self._session)

    def create(
        self,
        name: str,
        *,
        from_: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        actor: str = "anonymous",
    ) -> "Branch":
        """A new branch that starts as the newest state of `from_`, or as that of one of its commits or of an instant.

        It takes the same few requests for any graph: no table is copied.

        Raises:
            BadBranchNameError: No branch may have that name.
            BranchExistsError: The name is taken.
            BranchMissingError, CommitMissingError: There is no such state to start from.
            BranchGoneError: `from_` was deleted meanwhile.
            BranchOutcomeUnknownError: The store stopped answering; `list` tells later whether it is there.
        """
        return lazy_ops.branch.create_branch(
            self._session, name, source=from_, commit_id=snapshot, at=at, actor=self._session.resolve_signer(actor)
        )

    def delete(self, name: str) -> "Branch":
        """Delete a branch, with its commits; what it was. Whoever works on it gets a BranchGoneError.

        Raises:
            BadBranchNameError: It is main, which every graph has.
            BranchMissingError: There is no such branch.
            BranchHasChildrenError: Others were taken from it: delete those first.
            BranchOutcomeUnknownError: The store stopped answering; `list` tells later whether it is gone.
        """
        return lazy_ops.branch.delete_branch(self._session, name)
