"""Branches, the past, differences, merges and schemas: the verbs of a graph that is versioned."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from omnigraph.commit.records import Commit, Snapshot
from omnigraph.graph.branches import GraphBranches
from omnigraph.lang.source import Source
from omnigraph.ops.arguments import chosen
from omnigraph.ops.diff import Diff
from omnigraph.ops.history import list_commits, show_commit
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.merge_result import MergeResult, Strategy
from omnigraph.ops.schema_apply import SchemaCall, SchemaResult, apply_schema, plan_schema
from omnigraph.ops.session import Session
from omnigraph.ops.states import state_of
from omnigraph.schema.steps import MigrationPlan


class HistoryVerbs:
    """What a graph can do with its branches and its past, each verb one call into `ops`."""

    _session: Session

    def snapshot(self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state of a branch, or that of a commit's id, or that of an instant (which needs a time zone).

        Raises:
            BranchMissingError: There is no such branch.
            CommitMissingError: The branch's history has no such commit, or nothing that early.
        """
        return self._session.on(branch).snapshot(commit_id=snapshot, at=at)

    @property
    def branches(self) -> GraphBranches:
        """The graph's branches: list, create, delete."""
        return GraphBranches(self._session)

    def commits(
        self, *, branch: str = "main", filters: Mapping[str, str] | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The history of a branch, newest first; filters are `actor`, `operation`, `since` and `until`.

        Behind its own commits come those of the branch it was taken from.

        Raises:
            BadFilterError: There is no such filter, or its value can't be read.
            BranchMissingError: There is no such branch.
        """
        return list_commits(self._session.on(branch), filters=filters, limit=limit)

    def commit(self, commit_id: str, *, branch: str = "main") -> Commit:
        """One commit of a branch's history.

        Raises:
            BranchMissingError, CommitMissingError: There is no such branch, or its history has no such commit.
        """
        return show_commit(self._session.on(branch), commit_id)

    def diff(self, before: str, after: str, *, types: Sequence[str] | None = None) -> Diff:
        """What differs between two states: rows that came, went or say something else. Found as it is asked for.

        A state is a branch (`review`), a commit's id, or a commit or time of a branch (`review@2026-01-31T12:00:00Z`).
        `types` are the only ones to compare. It costs what differs, however large the tables are.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
            TypeMissingError: Neither state has a type of that name.
        """
        session = self._session
        return Diff(session, state_of(session, before), state_of(session, after), types)

    def merge(
        self,
        source: str,
        *,
        into: str = "main",
        strategy: Strategy | str | None = None,
        actor: str = "anonymous",
        message: str | None = None,
        dry_run: bool = False,
    ) -> MergeResult:
        """Bring to a branch what another one has done since the two parted, in one commit with two parents.

        Rows are told apart by their ids, and merged property by property. What the two don't agree about, or break
        together, is listed in the result's `conflicts`; then nothing is published. `strategy` settles rows that both
        changed: with `ours` the target's word counts, with `theirs` the source's. Merging again does nothing.

        Raises:
            BadArgumentError: The two are one branch, or there is no such strategy.
            BranchMissingError, BranchGoneError: One of the branches is not there, or not any more.
            MergeBaseGoneError: What the two have in common can't be told any more: its commits are gone.
            ConflictError: Meanwhile the target's schema was changed, a table of it was overwritten, or another branch
                was merged into it; or others kept writing the same tables.
        """
        settled = None if strategy is None else chosen("strategy", Strategy, strategy)
        call = MergeCall(source=source, into=into, strategy=settled, actor=actor, message=message, is_dry_run=dry_run)
        return merge(self._session, call)

    def plan_schema(self, schema: str | Source, *, branch: str = "main") -> MigrationPlan:
        """What it takes to get from a branch's schema to another one; nothing is changed, and no row is looked at.

        Raises:
            SourceError: The text has mistakes.
            BranchMissingError: There is no such branch.
        """
        return plan_schema(self._session.on(branch), _schema(schema))

    def apply_schema(
        self, schema: str | Source, *, branch: str = "main", actor: str = "anonymous", message: str | None = None
    ) -> SchemaResult:
        """Make a schema the accepted one of a branch, with all that follows for its tables, in one commit.

        New rules are checked against the rows that are there first. What is dropped stays readable in earlier
        snapshots, and those keep the schema that they had.

        Raises:
            SourceError: The text has mistakes.
            SchemaUnsupportedError: Some change has no migration; the message says the way round.
            SchemaUnfitError: Rows that are there break a new rule; it names the first of them.
            ConflictError: Somebody else wrote meanwhile: look again and retry.
            BranchMissingError: There is no such branch.
        """
        call = SchemaCall(source=_schema(schema), actor=actor, message=message)
        return apply_schema(self._session.on(branch), call)


def _schema(text: str | Source) -> Source:
    return text if isinstance(text, Source) else Source(text, "schema.pg")
