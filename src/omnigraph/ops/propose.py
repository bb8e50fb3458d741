"""Propose a change: a new branch with one mutation, which appears only if the change could be merged back."""

from dataclasses import dataclass

from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import MAIN, Snapshot
from omnigraph.commit.merge_base import Tip
from omnigraph.ops.branch import draft_branch
from omnigraph.ops.diff import Diff
from omnigraph.ops.merge import MergeAttempt, MergeCall
from omnigraph.ops.merge_result import MergeConflictsError
from omnigraph.ops.mutate import MutationCall, MutationResult, mutate
from omnigraph.ops.revision import resolve_base, resolve_state
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.object_store import StoreUnavailableError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeCall:
    """The arguments of a proposal."""

    branch: str
    """The new branch."""
    mutation: MutationCall
    source: str = MAIN
    """The branch that the change is meant for."""
    commit_id: str | None = None
    """The commit of `source` that the branch starts from: what the author has read. By default the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """A new branch with one mutation. Without a change there is no branch and no diff."""

    mutation: MutationResult
    session: Session
    call: ProposeCall

    @property
    def is_empty(self) -> bool:
        """Whether the mutation changed nothing."""
        return self.mutation.commit_id is None

    def diff(self) -> Diff:
        """Read what the branch changes. It stands already, also if that fails."""
        before = resolve_base(self.session, self.call.source, self.call.branch, "merge")
        return Diff(self.session, before, resolve_state(self.session, self.call.branch))


class _NothingChangedError(Exception):
    """Ends the draft of a branch whose mutation changed nothing."""


def propose(session: Session, call: ProposeCall) -> ProposedChange:
    """Create a branch and run a mutation on it; what that changes against the merge base can be read then.

    The branch becomes visible with the change. If the mutation fails, changes nothing, or conflicts with what was
    committed to `source` after `commit_id`, there is no branch at all, even if the process is killed.

    Raises:
        MergeConflictsError: The change conflicts with newer commits of `source`.
        BadArgumentError, BranchExistsError: The name is invalid or in use.
        BranchMissingError, CommitMissingError: There is no such state to start from.
        What `mutate` raises.
    """
    # Conflicts quote rows of the target.
    session.allow(Action.READ, call.source)
    session.allow(Action.CHANGE, call.branch, signed=call.mutation.actor)
    try:
        result = _write_draft(session, call)
    except _NothingChangedError as nothing:
        (result,) = nothing.args
    return ProposedChange(mutation=result, session=session, call=call)


def _write_draft(session: Session, call: ProposeCall) -> MutationResult:
    actor = call.mutation.actor
    with draft_branch(session, call.branch, source=call.source, commit_id=call.commit_id, actor=actor) as draft:
        try:
            result = mutate(session.checkout_log(draft.log), call.mutation)
        except OutcomeUnknownError as error:
            # The draft is not visible, so the outcome is known: nothing was proposed.
            raise StoreUnavailableError(f"propose a change on `{call.branch}`", error.reason) from error
        if result.commit_id is None:
            raise _NothingChangedError(result)
        _check_mergeable(session, call, draft.log, draft.source)
        return result


def _check_mergeable(session: Session, call: ProposeCall, log: ManifestLog, start: Snapshot) -> None:
    """Check that the draft can be merged into the branch it is meant for.

    Raises:
        MergeConflictsError: It conflicts with a newer commit there.
    """
    target = session.checkout(call.source)
    head = target.head()
    if head.snapshot.commit.id == start.commit.id:
        return
    merge_call = MergeCall(source=call.branch, into=call.source, actor=call.mutation.actor, is_dry_run=True)
    merged = MergeAttempt(target, head, Tip(log, log.final_head()), merge_call).run()
    if merged.conflict_total:
        raise MergeConflictsError(merged)
