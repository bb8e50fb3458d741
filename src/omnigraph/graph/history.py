"""The versioning methods of a graph: branches, tags, history, diffs, change feeds, merges, schemas and clones.

Each method is one call into `ops`, through `lazy_ops`, which imports its module on first use.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from omnigraph.commit.manifest_types import Commit, Snapshot
from omnigraph.engine.query_budget import Budget
from omnigraph.graph import lazy_ops
from omnigraph.graph.arguments import build_schema_source, check_uri
from omnigraph.graph.blame import blames_damage
from omnigraph.graph.branches import GraphBranches
from omnigraph.graph.tags import GraphTags
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.limits import ResourceLimits, with_limits
from omnigraph.ops.session import Session

if TYPE_CHECKING:
    from omnigraph.ops.change_feed import ChangeFeed
    from omnigraph.ops.clone import CloneResult
    from omnigraph.ops.clone_tables import CloneProgress
    from omnigraph.ops.commit_changes import ChangeSet
    from omnigraph.ops.diff import Diff
    from omnigraph.ops.entity_history import EntityHistory
    from omnigraph.ops.history import CommitPage
    from omnigraph.ops.merge_result import MergeResult, Strategy
    from omnigraph.ops.reset import ResetResult
    from omnigraph.ops.revision import AcceptedSchema
    from omnigraph.ops.schema_apply import SchemaResult
    from omnigraph.ops.undo import UndoCall
    from omnigraph.schema.migration_steps import MigrationPlan


@blames_damage
class HistoryMethods:
    """The methods of a graph for branches, history and schemas."""

    _session: Session

    def snapshot(self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None) -> Snapshot:
        """Return the newest state of a branch, or that of a commit id or an instant (with a time zone).

        Raises:
            BranchMissingError: There is no such branch.
            CommitMissingError: The history of the branch has no such commit, or none that early.
        """
        return lazy_ops.revision.show_state(self._session, branch=branch, commit_id=snapshot, at=at)

    def accepted_schema(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> "AcceptedSchema":
        """Return the schema of a state: the newest of a branch, or that of a commit id or an instant.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
        """
        return lazy_ops.revision.show_schema(self._session, branch=branch, commit_id=snapshot, at=at)

    @property
    def branches(self) -> GraphBranches:
        """The graph's branches: list, create, delete."""
        return GraphBranches(self._session)

    @property
    def tags(self) -> GraphTags:
        """The graph's tags: list, create, delete."""
        return GraphTags(self._session)

    def commits(
        self,
        *,
        branch: str = "main",
        filters: Mapping[str, str] | None = None,
        limit: int | None = None,
        before: str | None = None,
        all_branches: bool = False,
        include_maintenance: bool = False,
    ) -> list[Commit]:
        """List the commits of a branch, newest first; with `before`, only those older than that commit.

        The branch's own commits are followed by those of the branch it was created from. `all_branches` lists the
        commits of every branch, each once, by time, and ignores `branch`. A commit must pass all `filters`: `actor`,
        `branch`, `operation`, `type` and `key` must be equal, `message` is a substring, `since` and `until` are times.
        Commits of automatic maintenance, which change no row, are listed only with `include_maintenance`.

        Raises:
            BadArgumentError: There is no such filter, or its value can't be parsed.
            BranchMissingError, CommitMissingError: There is no such branch, or `before` is not one of its commits.
        """
        session = self._session if all_branches else self._session.checkout(branch)
        return lazy_ops.history.list_commits(
            session,
            filters=filters,
            limit=limit,
            before=before,
            all_branches=all_branches,
            include_maintenance=include_maintenance,
        )

    def commit_page(
        self,
        *,
        branch: str = "main",
        filters: Mapping[str, str] | None = None,
        limit: int | None = None,
        before: str | None = None,
        all_branches: bool = False,
        include_maintenance: bool = False,
    ) -> "CommitPage":
        """Return a page of `commits`, with those that cleanup has collected, and the cursor of the next page."""
        session = self._session if all_branches else self._session.checkout(branch)
        return lazy_ops.history.read_commit_page(
            session,
            filters=filters,
            limit=limit,
            before=before,
            all_branches=all_branches,
            include_maintenance=include_maintenance,
        )

    def commit(self, commit_id: str, *, branch: str | None = None) -> Commit:
        """Return one commit of a branch, or of any branch, even one that was merged and deleted.

        Raises:
            BranchMissingError, CommitMissingError: There is no such branch, or no history has such a commit.
        """
        return lazy_ops.history.show_commit(self._session, commit_id, branch=branch)

    def commit_changes(
        self, commit_id: str, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> "ChangeSet":
        """Return the changes of one commit against its first parent; rows are read lazily.

        Raises:
            BranchMissingError, CommitMissingError: There is no such branch, or no branch has such a commit.
            CommitCollectedError, DataDroppedError: The data it changed can no longer be read.
            TypeMissingError: There is no type of that name.
        """
        return lazy_ops.change_feed.commit_changes(self._session, commit_id, branch=branch, types=types)

    def changes(
        self,
        *,
        branch: str = "main",
        since: str | None = None,
        types: Sequence[str] | None = None,
        limit: int | None = None,
        follow: bool = False,
        poll_seconds: float = 1.0,
    ) -> "ChangeFeed":
        """Return the change feed of a branch: an iterator over its commits after `since`, oldest first, each once.

        Each item is a `ChangeSet`: the commit, its changes of the schema, and, as it is iterated, the rows that were
        inserted, deleted or updated, before and after. Changes are relative to the first parent, also for a merge: a
        consumer that applies the feed in order always has the state of the branch. Without `since` the feed begins with
        the commit that created the graph. `types` restricts rows, not commits. `follow` waits for new commits
        indefinitely, checking every `poll_seconds`. The cost depends on what the commits changed, not on table sizes.

        Raises:
            BranchMissingError: There is no such branch.
            CommitMissingError: `since` is not a commit of the branch.
            CommitCollectedError, DataDroppedError: The next changes can no longer be read.
            TypeMissingError: There is no type of that name.
            BranchGoneError: The branch was deleted while it was followed.
        """
        call = lazy_ops.change_feed.ChangesCall(
            since=since, types=types, limit=limit, follow=follow, poll_seconds=poll_seconds
        )
        return lazy_ops.change_feed.ChangeFeed(self._session.checkout(branch), call)

    def history(self, type_name: str, id: str, *, branch: str = "main", limit: int | None = None) -> "EntityHistory":
        """Return every version of one node or edge on a branch, newest first: its author, time and changes.

        The history includes that of the branch it was created from, and follows renames; deletions and re-creations
        are versions too. Only commits that changed the table of the type are read.

        Raises:
            BranchMissingError: There is no such branch.
            TypeMissingError, MissingError: There is no such type, or never was such a node or edge.
        """
        return lazy_ops.entity_history.read_entity_history(self._session.checkout(branch), type_name, id, limit=limit)

    def diff(self, before: str, after: str, *, types: Sequence[str] | None = None, base: str | None = None) -> "Diff":
        """Compare two states: rows that were inserted, deleted or updated, computed lazily.

        A state is a branch (`review`), a commit id, or a commit or time of a branch (`review@2026-01-31T12:00:00Z`).
        `types` restricts the types. With the base `merge`, `after` is compared with the merge base of the two: what a
        merge of `after` into `before` brings. The cost depends on the differences, not on table sizes.

        Raises:
            BadArgumentError: There is no such base.
            BranchMissingError, CommitMissingError: There is no such state.
            TypeMissingError: Neither state has a type of that name.
        """
        session = self._session
        revision = lazy_ops.revision
        after_state = revision.resolve_state(session, after)
        before_state = revision.resolve_base(session, before, after, base)
        return lazy_ops.diff.Diff(session, before_state, after_state, types)

    def merge(  # noqa: PLR0913 - all but the source by name
        self,
        source: str,
        *,
        into: str = "main",
        strategy: "Strategy | str | None" = None,
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        resolutions: "Iterable[Mapping[str, Any]] | None" = None,
        all_conflicts: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "MergeResult":
        """Merge the changes of one branch since the merge base into another, in one commit with two parents.

        A three-way merge: rows are matched by id, and merged property by property. Contradicting changes, and changes
        that break a constraint together, are conflicts; then nothing is published. `strategy` resolves rows that both
        changed: `ours` takes the target's values, `theirs` the source's. Merging again does nothing. `dry_run`
        publishes nothing in any case, and the result lists the conflicts: the first, or with `all_conflicts` all.
        `resolutions` are the documents of `MergeResult.list_conflicts` with each `take` filled in; they hold for the
        heads that they name. If a commit of this actor already has the `idempotency_key`, nothing is done: the outcome
        is `already_up_to_date`, with that commit. `seconds` and `memory_bytes` limit the work until the commit is
        published; the options have the defaults. A `budget` replaces both limits, and lets the caller cancel the merge.

        Raises:
            MergeConflictsError: There are conflicts; the error's `result` lists them.
            KeyReusedError: The actor used the idempotency key for another request.
            BadArgumentError: Source and target are the same branch, there is no such strategy, or the resolutions are
                unknown, missing or contradict each other.
            BranchMissingError, BranchGoneError: One of the branches does not exist, or was deleted.
            CorruptError, DataDroppedError: The merge base can no longer be read: its commits were collected,
                or its data was dropped permanently.
            ConflictError: The resolutions are for other heads; or in the meantime the target's schema was changed, one
                of its tables overwritten, or another branch merged into it; or other writers kept changing its tables.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out; nothing was changed.
        """
        chosen_strategy = (
            None if strategy is None else parse_choice("strategy", lazy_ops.merge_result.Strategy, strategy)
        )
        call = lazy_ops.merge.MergeCall(
            source=source,
            into=into,
            strategy=chosen_strategy,
            actor=self._session.resolve_signer(actor),
            message=message,
            idempotency_key=idempotency_key,
            is_dry_run=dry_run,
            resolutions=None if resolutions is None else list(resolutions),
            lists_all=all_conflicts,
        )
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        return lazy_ops.merge.merge(with_limits(self._session, limits, "merge"), call)

    def revert(  # noqa: PLR0913 - all but the commit by name
        self,
        commit: str,
        *,
        branch: str = "main",
        strategy: "Strategy | str | None" = None,
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        resolutions: "Iterable[Mapping[str, Any]] | None" = None,
        all_conflicts: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "MergeResult":
        """Undo the changes of one commit on a branch, in a new commit; later changes stay.

        A three-way merge whose base is the commit and whose other side is the state before it, so rows that were
        changed again since are conflicts, and all arguments are those of `merge`. A merge commit is compared with its
        first parent. Reverting a revert applies the changes again. The new commit names the reverted one in
        `refers_to`. If nothing of the commit is left, the outcome is `already_up_to_date`, without a commit.

        Raises:
            MergeConflictsError: Later changes contradict it, or the result would break the schema.
            CommitMissingError, CommitCollectedError: There is no such commit, or its data was collected.
            BadArgumentError: It is the first commit, there is no such strategy, or the resolutions don't fit.
            DataDroppedError: Data that it needs was dropped permanently.
            ConflictError: Other writers interfered, as in `merge`.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out; nothing was changed.
        """
        call = self._build_undo(
            commit, branch, strategy, actor, (message, idempotency_key), (dry_run, all_conflicts), resolutions
        )
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        return lazy_ops.undo.revert(with_limits(self._session, limits, "revert"), call)

    def cherry_pick(  # noqa: PLR0913 - all but the commit by name
        self,
        commit: str,
        *,
        branch: str = "main",
        strategy: "Strategy | str | None" = None,
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        resolutions: "Iterable[Mapping[str, Any]] | None" = None,
        all_conflicts: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "MergeResult":
        """Apply the changes of one commit of any branch to a branch, in a new commit.

        A three-way merge whose base is the parent of the commit and whose other side is the commit. Arguments, result
        and errors are those of `revert`.
        """
        call = self._build_undo(
            commit, branch, strategy, actor, (message, idempotency_key), (dry_run, all_conflicts), resolutions
        )
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        return lazy_ops.undo.cherry_pick(with_limits(self._session, limits, "cherry-pick"), call)

    def _build_undo(
        self,
        commit: str,
        branch: str,
        strategy: "Strategy | str | None",
        actor: str,
        texts: tuple[str | None, str | None],
        flags: tuple[bool, bool],
        resolutions: "Iterable[Mapping[str, Any]] | None",
    ) -> "UndoCall":
        return lazy_ops.undo.UndoCall(
            commit=commit,
            branch=branch,
            strategy=None if strategy is None else parse_choice("strategy", lazy_ops.merge_result.Strategy, strategy),
            actor=self._session.resolve_signer(actor),
            message=texts[0],
            idempotency_key=texts[1],
            is_dry_run=flags[0],
            resolutions=None if resolutions is None else list(resolutions),
            lists_all=flags[1],
        )

    def reset(
        self,
        branch: str,
        *,
        to: str,
        actor: str = "anonymous",
        message: str | None = None,
        dry_run: bool = False,
    ) -> "ResetResult":
        """Give a branch the rows and the schema of another state, in a new commit whose parent is the old head.

        `to` is a commit id, a tag, a branch or `branch@time`. No row is read or copied, and nothing is lost: the
        commits in between stay in the history, and can be returned to in the same way.

        Raises:
            BranchMissingError, CommitMissingError, CommitCollectedError: There is no such state, or it was collected.
            DataDroppedError: Data of that state was dropped permanently.
            ConflictError: Another writer committed in the meantime.
        """
        call = lazy_ops.reset.ResetCall(
            to=to, branch=branch, actor=self._session.resolve_signer(actor), message=message, is_dry_run=dry_run
        )
        return lazy_ops.reset.reset(self._session, call)

    def plan_schema(
        self, schema: str | Source, *, branch: str = "main", allow_data_loss: bool = False
    ) -> "MigrationPlan":
        """Plan the migration from a branch's schema to another one; nothing is changed.

        Steps that drop data have its number of rows or values: `drops_values` is then true, and `apply_schema` needs
        `allow_drops`. With `allow_data_loss`, the steps are those of `apply_schema` with the same argument.

        Raises:
            SourceError: The text has mistakes.
            BranchMissingError: There is no such branch.
        """
        session = self._session.checkout(branch)
        return lazy_ops.schema_apply.plan_schema(session, build_schema_source(schema), allows_data_loss=allow_data_loss)

    def apply_schema(  # noqa: PLR0913 - all but the schema by name
        self,
        schema: str | Source,
        *,
        branch: str = "main",
        actor: str = "anonymous",
        message: str | None = None,
        allow_drops: bool = False,
        allow_data_loss: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "SchemaResult":
        """Apply a schema to a branch, and migrate its tables, in one commit.

        New constraints are checked against the existing rows first. A type that has rows, or a property that has
        values, is dropped only with `allow_drops`. Dropped data stays readable in earlier snapshots, which keep their
        schemas. With `allow_data_loss` it does not: the table is rewritten without it, and earlier states of that table
        on this branch raise DataDroppedError. `seconds`, `memory_bytes` and `budget` are as for `merge`.

        Raises:
            SourceError: The text has mistakes.
            SchemaUnsupportedError: A change has no migration; the message suggests an alternative.
            SchemaDropsDataError: Rows or values would be dropped, and neither argument allows it.
            ConstraintError: Existing rows break a new constraint; the error names the first of them.
            ConflictError: Another writer changed the schema in the meantime, or kept writing the types that the change
                affects: plan again and retry.
            BranchMissingError: There is no such branch.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out; nothing was changed.
        """
        call = lazy_ops.schema_apply.SchemaCall(
            source=build_schema_source(schema),
            actor=self._session.resolve_signer(actor),
            message=message,
            allows_drops=allow_drops,
            allows_data_loss=allow_data_loss,
        )
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        return lazy_ops.schema_apply.apply_schema(
            with_limits(self._session, limits, "change of the schema").checkout(branch), call
        )

    def clone(
        self,
        target: str | os.PathLike[str],
        *,
        branches: Sequence[str] | None = None,
        progress: "Callable[[CloneProgress], None] | None" = None,
    ) -> "CloneResult":
        """Clone the graph with its branches and history to another location, while others may write to it.

        See `omnigraph.clone_graph`, which does the same.

        Raises:
            BranchMissingError: A name in `branches` is not a branch.
            PlaceTakenError, BadArgumentError: The target is not empty, in use, or overlaps the graph.
        """
        names = None if branches is None else tuple(branches)
        return lazy_ops.clone.clone(
            self._session,
            lazy_ops.clone.CloneCall(target=check_uri(target, "target"), branches=names, progress=progress),
        )
