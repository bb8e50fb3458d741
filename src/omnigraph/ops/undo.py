"""Revert a commit, or apply one of another branch, by a three-way merge of rows and properties around that commit."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MAIN, Commit, Snapshot
from omnigraph.commit.time_travel import CommitMissingError, read_at_commit
from omnigraph.engine.merging.criss_cross_base import CrissCrossBase
from omnigraph.engine.merging.schema_agreement import BaseSchema, SchemaAgreement, SchemaConflicts, Side
from omnigraph.errors import BadArgumentError
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.history import LocatedCommit, find_commit
from omnigraph.ops.merge import (
    ManifestChange,
    MergeAttempt,
    MergeCall,
    check_states,
    find_written_paths,
    run_until_published,
)
from omnigraph.ops.merge_result import MergeConflictsError, MergeResult, Strategy
from omnigraph.ops.session import Session
from omnigraph.policy import Action

REVERT = "revert"
CHERRY_PICK = "cherry-pick"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoCall:
    """The arguments of a revert or a cherry-pick."""

    commit: str
    """An id, a tag, a branch (its newest commit), or `branch@time`."""
    branch: str = MAIN
    strategy: Strategy | None = None
    actor: str = "anonymous"
    message: str | None = None
    idempotency_key: str | None = None
    is_dry_run: bool = False
    resolutions: Sequence[Mapping[str, Any]] | None = None
    lists_all: bool = False


def revert(session: Session, call: UndoCall) -> MergeResult:
    """Undo the changes of one commit in a new commit; later changes stay.

    The base of the merge is the commit, and the other side is the state before it. So a row that was changed again
    since is a conflict, and a commit whose changes are all gone already needs no commit. A merge commit is compared
    with its first parent.

    Raises:
        MergeConflictsError: Later changes contradict the revert, or the result would break the schema.
        KeyReusedError: The actor's idempotency key belongs to another request.
        CommitMissingError, CommitCollectedError: There is no such commit, or its data was collected.
        BadArgumentError: The commit has no parent.
        DataDroppedError: Data that it needs was dropped permanently.
        ConflictError: Other writers interfered, as in a merge.
    """
    return _run(session, call, REVERT)


def cherry_pick(session: Session, call: UndoCall) -> MergeResult:
    """Apply the changes of one commit to a branch that does not have it, in a new commit.

    The base of the merge is the parent of the commit, and the other side is the commit. Raises what `revert` raises.
    """
    return _run(session, call, CHERRY_PICK)


def _run(session: Session, call: UndoCall, operation: str) -> MergeResult:
    session.allow(Action.READ, call.branch)
    session.allow(Action.CHANGE, call.branch, signed=call.actor)
    if not call.is_dry_run:
        session.check_writable()
        check_signature(call.actor, call.message, call.idempotency_key)
    target = session.checkout(call.branch)
    located = _find_commit(session, call)
    commit = located.commit
    session.allow(Action.READ, commit.branch)
    if commit.parent is None:
        raise BadArgumentError("commit", f"`{commit.id}`", "it is the first commit, so there is no state before it")
    log, head = located.session.log, located.session.log.final_head()
    after = read_at_commit(log, head, commit.id)
    before = read_at_commit(log, head, commit.parent)
    states = (after, before) if operation == REVERT else (before, after)
    result = run_until_published(
        target,
        lambda newest: _UndoAttempt(target, newest, commit, states, call).run(),
        is_for_one_state=call.resolutions is not None,
    )
    if result.conflict_total and not call.is_dry_run:
        raise MergeConflictsError(result)
    return result


def _find_commit(session: Session, call: UndoCall) -> LocatedCommit:
    """Find the commit on the branch itself, or else on any other: there may be thousands of branches."""
    try:
        return find_commit(session, call.commit, branch=call.branch)
    except CommitMissingError:
        return find_commit(session, call.commit)


class _UndoAttempt(MergeAttempt):
    """An attempt to revert or apply a commit on one state of the target. `states` are the base and the other side."""

    is_partial = True

    def __init__(
        self, target: Session, head: Head, commit: Commit, states: tuple[Snapshot, Snapshot], call: UndoCall
    ) -> None:
        self.session = target
        self.head = head
        self._commit = commit
        self._base, self._theirs = states
        is_revert = self._base.commit.id == commit.id
        self.operation = REVERT if is_revert else CHERRY_PICK
        # The name of the other side in messages about conflicts.
        source = f"before {commit.id}" if is_revert else commit.id
        self.call = MergeCall(
            source=source,
            into=call.branch,
            strategy=call.strategy,
            actor=call.actor,
            message=call.message,
            idempotency_key=call.idempotency_key,
            is_dry_run=call.is_dry_run,
            resolutions=call.resolutions,
            lists_all=call.lists_all,
        )

    def run(self) -> MergeResult:
        """Merge and publish; with conflicts, return them."""
        repeated = self.find_repeated()
        if repeated is not None:
            return repeated
        check_states(self)
        return self.merge_states()

    @property
    def base_id(self) -> str:
        """The commit that both sides are compared with."""
        return self._base.commit.id

    @property
    def their_state(self) -> Snapshot:
        """The state whose changes are applied."""
        return self._theirs

    def merge_schemas(self) -> tuple[SchemaAgreement | SchemaConflicts, CrissCrossBase | None]:
        """Return the merged schema or its conflicts."""
        base = self.build_view(self._base)
        return self.build_agreement((base, BaseSchema.from_view(base))), None

    def find_written_paths(self) -> Mapping[Side, Collection[str] | None]:
        """Return the locations of the tables that the commit changed, for its side; ours may have changed any."""
        return {"ours": None, "theirs": find_written_paths([self._commit])}

    def check_change(self, change: ManifestChange) -> None:
        """Check that the caller may change the schema, if the commit did."""
        if change.schema is not None:
            self.session.allow(Action.SCHEMA_APPLY, self.call.into, signed=self.call.actor)

    def link_commits(self, plan: CommitPlan) -> CommitPlan:
        """Return the plan with the commit that it undoes or applies."""
        # It may pin versions that only past commits pin, which a cleanup in the meantime may have collected.
        return replace(plan, refers_to=self._commit.id, outlives_cleanup=not plan.adopted)
