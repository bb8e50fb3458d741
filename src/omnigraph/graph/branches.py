"""Branch operations of a graph."""

from datetime import datetime
from typing import TYPE_CHECKING

from omnigraph.graph import lazy_ops
from omnigraph.graph.blame import blames_damage
from omnigraph.ops.session import Session

if TYPE_CHECKING:
    from omnigraph.ops.branch import Branch


@blames_damage
class GraphBranches:
    """The branches of a graph: list, create, delete."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"GraphBranches({self._session.uri!r})"

    def list(self) -> "list[Branch]":
        """List all branches: main first, then the others by name."""
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
        """Create a branch from the newest state of `from_`, from one of its commits, or from its state at an instant.

        No table is copied: it takes the same few requests for a graph of any size.

        Raises:
            BadArgumentError: The name is not valid for a branch.
            BranchExistsError: The name is taken.
            BranchMissingError, CommitMissingError: There is no such state to start from.
            BranchGoneError: `from_` was deleted in the meantime.
            OutcomeUnknownError: The store stopped answering; `list` shows later whether the branch exists.
        """
        return lazy_ops.branch.create_branch(
            self._session, name, source=from_, commit_id=snapshot, at=at, actor=self._session.resolve_signer(actor)
        )

    def delete(self, name: str) -> "Branch":
        """Delete a branch with its commits, and return it. Clients that still use it get a BranchGoneError.

        Raises:
            BadArgumentError: It is main, which every graph has.
            BranchMissingError: There is no such branch.
            BranchHasChildrenError: Other branches were created from it: delete those first.
            OutcomeUnknownError: The store stopped answering; `list` shows later whether the branch exists.
        """
        return lazy_ops.branch.delete_branch(self._session, name)
