"""Branches, the past, differences, merges and schemas: the verbs of a graph that is versioned.

A verb is imported when it is first called: say `verbs.<module of ops>.<name>`, see `graph/lazy_ops.py`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

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
    from omnigraph.ops.revision import AcceptedSchema
    from omnigraph.ops.schema_apply import SchemaResult
    from omnigraph.schema.migration_steps import MigrationPlan


@blames_damage
class HistoryMethods:
    """What a graph can do with its branches and its past, each verb one call into `ops`."""

    _session: Session

    def snapshot(self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state of a branch, or that of a commit's id, or that of an instant (which needs a time zone).

        Raises:
            BranchMissingError: There is no such branch.
            CommitMissingError: The branch's history has no such commit, or nothing that early.
        """
        return lazy_ops.revision.show_state(self._session, branch=branch, commit_id=snapshot, at=at)

    def accepted_schema(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> "AcceptedSchema":
        """The schema of a state: the newest of a branch, or that of a commit's id, or that of an instant.

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
    ) -> list[Commit]:
        """The history of a branch, newest first, or only what is older than the commit `before`.

        Behind its own commits come those of the branch it was taken from. With `all_branches` come the commits of
        every branch, each once, by their times; `branch` does not matter then. A commit passes every filter: `actor`,
        `branch`, `operation`, `type` and `key` are equal, `message` is part of it, `since` and `until` are times.

        Raises:
            BadFilterError: There is no such filter, or its value can't be read.
            BranchMissingError, CommitMissingError: There is no such branch, or `before` is no commit of it.
        """
        session = self._session if all_branches else self._session.checkout(branch)
        return lazy_ops.history.list_commits(
            session, filters=filters, limit=limit, before=before, all_branches=all_branches
        )

    def commit_page(
        self,
        *,
        branch: str = "main",
        filters: Mapping[str, str] | None = None,
        limit: int | None = None,
        before: str | None = None,
        all_branches: bool = False,
    ) -> "CommitPage":
        """As `commits`, with which of them cleanup has collected, and what to ask for to get the next page."""
        session = self._session if all_branches else self._session.checkout(branch)
        return lazy_ops.history.read_commit_page(
            session, filters=filters, limit=limit, before=before, all_branches=all_branches
        )

    def commit(self, commit_id: str, *, branch: str | None = None) -> Commit:
        """One commit: of a branch's history, or of any branch's, also of one that was merged and deleted.

        Raises:
            BranchMissingError, CommitMissingError: There is no such branch, or no history has such a commit.
        """
        return lazy_ops.history.show_commit(self._session, commit_id, branch=branch)

    def commit_changes(
        self, commit_id: str, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> "ChangeSet":
        """What one commit changed against its first parent; rows are read when they are asked for.

        Raises:
            BranchMissingError, CommitMissingError: There is no such branch, or no branch has such a commit.
            CommitCollectedError, DataDroppedError: What it changed can't be read any more.
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
        """The change feed of a branch: an iterator over its commits after `since`, oldest first, each exactly once.

        Each is a `ChangeSet`: the commit, what it did to the schema, and as it is iterated the rows that came, went or
        say something else, before and after. It is told against the first parent, also for a merge: whoever applies the
        feed in order always has what the branch has. Without `since` it begins with the commit that made the graph.
        `types` are the only ones whose rows are told; every commit still is. `follow` waits for more, for ever, looking
        every `poll_seconds`. It costs what the commits changed, however large the tables are.

        Raises:
            BranchMissingError: There is no such branch.
            CommitMissingError: `since` is no commit of the branch's history.
            CommitCollectedError, DataDroppedError: What comes next can't be read any more.
            TypeMissingError: There is no type of that name.
            BranchGoneError: The branch was deleted while it was followed.
        """
        call = lazy_ops.change_feed.ChangesCall(
            since=since, types=types, limit=limit, follow=follow, poll_seconds=poll_seconds
        )
        return lazy_ops.change_feed.ChangeFeed(self._session.checkout(branch), call)

    def history(self, type_name: str, id: str, *, branch: str = "main", limit: int | None = None) -> "EntityHistory":
        """Every version that one node or edge has had on a branch, newest first: by whom, when, and what changed.

        It goes back before the branch was taken from another, and through renames; deletions and re-creations are
        versions too. Only commits that changed the table of the type are looked into.

        Raises:
            BranchMissingError: There is no such branch.
            TypeMissingError, EntityMissingError: There is no such type, or there never was such a node or edge.
        """
        return lazy_ops.entity_history.read_entity_history(self._session.checkout(branch), type_name, id, limit=limit)

    def diff(self, before: str, after: str, *, types: Sequence[str] | None = None) -> "Diff":
        """What differs between two states: rows that came, went or say something else. Found as it is asked for.

        A state is a branch (`review`), a commit's id, or a commit or time of a branch (`review@2026-01-31T12:00:00Z`).
        `types` are the only ones to compare. It costs what differs, however large the tables are.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
            TypeMissingError: Neither state has a type of that name.
        """
        session = self._session
        before_state, after_state = (lazy_ops.revision.resolve_state(session, state) for state in (before, after))
        return lazy_ops.diff.Diff(session, before_state, after_state, types)

    def merge(  # noqa: PLR0913 - all but the source by name
        self,
        source: str,
        *,
        into: str = "main",
        strategy: "Strategy | str | None" = None,
        actor: str = "anonymous",
        message: str | None = None,
        dry_run: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "MergeResult":
        """Bring to a branch what another one has done since the two parted, in one commit with two parents.

        Rows are told apart by their ids, and merged property by property. What the two don't agree about, or break
        together, is a conflict; then nothing is published. `strategy` settles rows that both changed: with `ours` the
        target's word counts, with `theirs` the source's. Merging again does nothing. With `dry_run` nothing is
        published either way, and the result lists the conflicts. `seconds` and `memory_bytes` are what it may use until
        it is published, if not what the options say; a `budget` can also be cancelled, and counts instead.

        Raises:
            MergeConflictsError: There are conflicts; the error's `result` lists them.
            BadArgumentError: The two are one branch, or there is no such strategy.
            BranchMissingError, BranchGoneError: One of the branches is not there, or not any more.
            MergeBaseGoneError, MergeBaseDroppedError: What the two have in common can't be told any more: its commits
                are gone, or data of it was dropped for good.
            ConflictError: Meanwhile the target's schema was changed, a table of it was overwritten, or another branch
                was merged into it; or others kept writing the same tables.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out; nothing was changed.
        """
        settled = None if strategy is None else parse_choice("strategy", lazy_ops.merge_result.Strategy, strategy)
        call = lazy_ops.merge.MergeCall(
            source=source,
            into=into,
            strategy=settled,
            actor=self._session.resolve_signer(actor),
            message=message,
            is_dry_run=dry_run,
        )
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        return lazy_ops.merge.merge(with_limits(self._session, limits, "merge"), call)

    def plan_schema(
        self, schema: str | Source, *, branch: str = "main", allow_data_loss: bool = False
    ) -> "MigrationPlan":
        """What it takes to get from a branch's schema to another one; nothing is changed.

        Steps that drop something say how many rows or values it has: `drops_values` is then true, and `apply_schema`
        needs `allow_drops`. With `allow_data_loss`, the steps are those of `apply_schema` with it.

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
        """Make a schema the accepted one of a branch, with all that follows for its tables, in one commit.

        New rules are checked against the rows that are there first. A type that has rows, or a property that has
        values, is dropped only with `allow_drops`. What is dropped stays readable in earlier snapshots, and those keep
        the schema that they had. With `allow_data_loss` it does not: its table gets files without it, and the branch's
        earlier states of that table give a DataDroppedError. `seconds`, `memory_bytes` and `budget` are as for `merge`.

        Raises:
            SourceError: The text has mistakes.
            SchemaUnsupportedError: Some change has no migration; the message says the way round.
            SchemaDropsDataError: Rows or values would be dropped, and neither of the two allows it.
            SchemaUnfitError: Rows that are there break a new rule; it names the first of them.
            ConflictError: Somebody else changed the schema meanwhile, or kept writing the types that the change
                touches: look again and retry.
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
        """Copy the graph with its branches and its past to another place, while others may write to it.

        What `omnigraph.clone_graph` does, which says more.

        Raises:
            BranchMissingError: There is no branch of a name in `branches`.
            PlaceTakenError, CloneBusyError, NestedPlacesError: The clone can't be there.
        """
        names = None if branches is None else tuple(branches)
        return lazy_ops.clone.clone(
            self._session,
            lazy_ops.clone.CloneCall(target=check_uri(target, "target"), branches=names, progress=progress),
        )
