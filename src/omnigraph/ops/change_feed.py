"""The change feed (change data capture) of a branch: every commit after a cursor, oldest first, each exactly once.

A cursor is a commit id. The feed contains every commit of the branch's history, including those that changed no row
(maintenance, a recovery): these come without rows, so that the cursor advances.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from omnigraph.backoff import OutageBackoff
from omnigraph.commit.branch_errors import BranchGoneError
from omnigraph.commit.gc_horizon import check_commit_retained
from omnigraph.commit.history_reader import find_position, find_restored_tables, read_next_commits
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MAIN, Commit
from omnigraph.commit.purges import build_dropped_error
from omnigraph.commit.time_travel import CommitMissingError, expect_versions, read_at_commit
from omnigraph.errors import BadArgumentError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_count, check_number
from omnigraph.ops.commit_changes import ChangeSet, TypeFilter, build_change_set
from omnigraph.ops.diff import CatalogPair, build_pairs
from omnigraph.ops.history import find_commit
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.redaction import redact_commit
from omnigraph.ops.revision import resolve_commit
from omnigraph.ops.schema_history import SchemaHistory
from omnigraph.ops.session import Session, find_row_rules, list_row_rules
from omnigraph.policy import Action
from omnigraph.schema.identity import renumber_catalog
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.object_store import StoreDeniedError, StoreUnavailableError

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesCall:
    """The arguments of a change feed."""

    since: str | None = None
    """The commit after which it begins: an id, a tag, a branch or a time. None: begin with the first commit."""
    types: Sequence[str] | None = None
    limit: int | None = None
    """The number of commits after which it ends."""
    follow: bool = False
    """Whether it continues with new commits, without end."""
    poll_seconds: float = POLL_SECONDS

    def __post_init__(self) -> None:
        check_count("limit", self.limit, minimum=1)
        check_number("poll_seconds", self.poll_seconds)
        if not 0 < self.poll_seconds < float("inf"):
            raise BadArgumentError("poll_seconds", str(self.poll_seconds), "it must be a number of seconds above 0")


class ChangeFeed:
    """An iterator over the change sets of a branch's commits after a cursor, read on demand.

    Without `follow` it ends with the commit that was newest when the feed was created. With `follow` it polls for the
    next commit with one cheap request, retries while the store is unavailable, and ends with BranchGoneError when the
    branch is deleted, even if a new branch of the same name exists.
    """

    def __init__(self, session: Session, call: ChangesCall, type_filter: TypeFilter | None = None) -> None:
        """Find the position of the cursor, and check the arguments. The errors are those of `graph.changes`.

        A part of a feed gets the `type_filter` of the whole instead of names in its call.
        """
        session.allow(Action.READ, hides_rows=True)
        self._session = session
        self._call = call
        head = session.head()
        self._last_seq = head.snapshot.commit.seq
        self._schemas = SchemaHistory(session.log)
        since = None if call.since is None else resolve_commit(session, call.since)
        self._position = find_position(session.log, head, since)
        if self._position.commit is not None:
            # The first change set is the difference from this commit, so its tables are still needed.
            check_commit_retained(session.log, head, self._position.commit)
        self._type_filter = type_filter or self._resolve_types(head, call.types)
        self._emitted = 0
        self._backoff = OutageBackoff(session.runtime.clock, session.runtime.ids)
        self._waiting: deque[Commit] = deque()
        # By path, the table version that was opened last.
        self._tables: dict[str, LanceTable] = {}

    def __iter__(self) -> "ChangeFeed":
        return self

    def __next__(self) -> ChangeSet:
        if self._emitted == self._call.limit:
            raise StopIteration
        while not self._waiting:
            self._session.check_cancelled()
            self._waiting.extend(self._read_next_commits())
            if not self._waiting:
                if not self._call.follow:
                    raise StopIteration
                self._session.runtime.clock.sleep(self._call.poll_seconds)
        # The commit is removed from the queue only once its change set is built: after an error it is tried again.
        changes = self._build_with_retries(self._waiting[0])
        self._waiting.popleft()
        self._emitted += 1
        schema_id = changes.commit.schema_after or self._position.schema_id
        self._position = replace(self._position, commit=changes.commit, schema_id=schema_id)
        return changes

    @property
    def cursor(self) -> str | None:
        """The commit to continue after: the one returned last, or the one that the feed began after."""
        return None if self._position.commit is None else self._position.commit.id

    def list_commits(self, *, until: str | None = None) -> list[Commit]:
        """Return the commits that are next, up to the newest, or the one with the id `until`, and continue after them.

        There are none if `until` is not among them.
        """
        listed: list[Commit] = []
        while commits := self._read_next_commits():
            for commit in commits:
                listed.append(commit)
                self._position = replace(self._position, commit=commit)
                if commit.id == until:
                    return listed
        return listed if until is None else []

    def blocks(self) -> Iterator[bytes]:
        """Yield the feed as blocks of JSON lines; see `ChangeSet.blocks`.

        If the store fails in the middle of a commit, a follower gets that commit again from its beginning.
        """
        for changes in self:
            while True:
                try:
                    yield from changes.blocks()
                except StoreUnavailableError as error:
                    self._wait_out(error)
                    continue
                self._backoff.reset()
                break

    def _read_next_commits(self) -> Sequence[Commit]:
        """Return the next commits, none if there are none yet."""
        while True:
            try:
                head = self._session.head()
                commits = read_next_commits(self._session.log, head, self._position.seq)
            except StoreUnavailableError as error:
                self._wait_out(error)
                continue
            self._backoff.reset()
            self._check_continuity(head, commits)
            if self._call.follow:
                return commits
            return [commit for commit in commits if commit.seq <= self._last_seq]

    def _check_continuity(self, head: Head, commits: Sequence[Commit]) -> None:
        """Check that the history continues directly after the cursor.

        Raises:
            CommitMissingError: It does not: a repair has set the branch back.
        """
        before = self._position.commit
        if commits:
            is_continuous = commits[0].parent == (None if before is None else before.id)
        else:
            is_continuous = before is not None and head.snapshot.commit.id == before.id
        if not is_continuous:
            raise CommitMissingError(self.cursor or "", self._session.log.branch)

    def _build_with_retries(self, commit: Commit) -> ChangeSet:
        while True:
            try:
                changes = self._build_change_set(commit)
            except StoreUnavailableError as error:
                self._wait_out(error)
                continue
            self._backoff.reset()
            return changes

    def _build_change_set(self, commit: Commit) -> ChangeSet:
        session = self._session
        session.check_cancelled()
        # Checked for every commit, because a follower may lose the permission while it runs.
        for branch in {session.log.branch, commit.branch}:
            session.allow(Action.READ, branch, hides_rows=True)
        head = session.head()
        old = self._position.schema_id
        new = commit.schema_after or old
        assert new is not None  # noqa: S101 - the first commit brings a schema
        catalogs = None if old is None else self._schemas.load_catalog(head, old), self._schemas.load_catalog(head, new)
        # A type or property that two branches added alike has one identity once they were merged.
        if commit.schema_after is not None:
            same = head.snapshot.manifest.schema.same
            catalogs = (
                None if catalogs[0] is None else renumber_catalog(catalogs[0], same),
                renumber_catalog(catalogs[1], same),
            )
        unchanged = find_restored_tables(session.log, head, commit)
        expect_versions(session.store.verifier, commit.changes)
        changes = build_change_set(
            self._open_table, commit, (old, new), catalogs, self._type_filter, unchanged=unchanged
        )
        # The branch may show all rows, and one that it was created from hide some in the commits from before that.
        branches = {session.log.branch, commit.branch}
        if list_row_rules(session, head.snapshot) or any(find_row_rules(session, name) for name in branches):
            changes = self._hide_rows(head, changes)
        # A commit that changed no row needs no table, so it can be returned even if its tables were collected.
        if changes.pairs:
            self._check_rows_retained(head, commit, changes)
        return replace(changes, go_on=session.check_cancelled)

    def _hide_rows(self, head: Head, changes: ChangeSet) -> ChangeSet:
        """Return the changes as an actor sees them who does not see all rows.

        A row that comes into sight is inserted, one that leaves it is deleted. Edges do so with their ends, so all
        types are compared, not only those that the commit wrote.
        """
        commit = changes.commit
        pairs = changes.pairs[:0]
        # Maintenance changes no row, and before the first commit there was none.
        if commit.parent is not None and not commit.is_maintenance:
            before, after = (
                read_at_commit(self._session.log, head, commit_id) for commit_id in (commit.parent, commit.id)
            )
            fills = {pair.type.table_key: pair.fills for pair in changes.pairs}
            pairs = tuple(
                replace(pair, fills=fills.get(pair.type.table_key))
                for pair in build_pairs(self._session, CatalogPair(self._session, before, after), None)
                if self._type_filter.has(None, pair.type, pair.old_type)
            )
        return replace(changes, commit=redact_commit(self._session, commit), pairs=pairs)

    def _open_table(self, path: str, version: int) -> LanceTable:
        """Open a table version, or return the one opened last: a commit starts from what the commit before it left."""
        table = self._tables.get(path)
        if table is None or table.version != version:
            table = self._tables[path] = LanceTable(self._session.handles, path, version)
        return table

    def _check_rows_retained(self, head: Head, commit: Commit, changes: ChangeSet) -> None:
        """Check that the tables before and after a commit can still be read.

        Raises:
            CommitCollectedError: Cleanup has collected one of the two commits.
            DataDroppedError: A later commit dropped the data permanently.
        """
        for needed in (self._position.commit, commit):
            if needed is not None:
                check_commit_retained(self._session.log, head, needed)
        later = [(purge, dropper) for purge, dropper in self._position.purged if dropper.seq > commit.seq]
        for pair in changes.pairs:
            for purge, dropper in later:
                if any(table is not None and table.path == purge.path for table in (pair.before, pair.after)):
                    raise build_dropped_error(pair.type.table_key, purge, dropper)

    def _resolve_types(self, head: Head, names: Sequence[str] | None) -> TypeFilter:
        """Return the filter for types by name; a name may be that of the head or that where the feed begins.

        Raises:
            TypeMissingError: Neither schema has a type of this name.
        """
        if names is None:
            return TypeFilter()
        snapshot = head.snapshot
        # Tables keep their paths when types are renamed, so the filter also matches earlier names of a type.
        types = self._session.load_catalog(snapshot).types
        paths = {type_.name: snapshot.pins[type_.table_key].path for type_ in types}
        schema_id = self._position.schema_id
        earlier_types = [] if schema_id is None else self._schemas.load_catalog(head, schema_id).types
        earlier_names = {type_.name for type_ in earlier_types}
        for name in names:
            if name not in paths and name not in earlier_names:
                raise TypeMissingError(name, find_closest(name, paths))
        return TypeFilter(frozenset(names), {paths[name] for name in names if name in paths})

    def _wait_out(self, error: StoreUnavailableError) -> None:
        """Wait before the store is tried again.

        Raises:
            StoreUnavailableError: The feed does not follow, access is denied, or the outage has lasted too long.
            BranchGoneError: The branch was deleted, so its files are missing.
        """
        if not self._call.follow or isinstance(error, StoreDeniedError):
            raise error
        branch, path = self._session.log.branch, self._session.log.path
        if branch != MAIN:
            try:
                live = {record.path for record in self._session.branches.list_records()}
            except StoreUnavailableError:
                # The list of branches is unavailable too: assume that this one still exists.
                live = {path}
            if path not in live:
                raise BranchGoneError(branch) from error
        self._backoff.wait(error)


def commit_changes(
    session: Session, commit_id: str, *, branch: str | None = None, types: Sequence[str] | None = None
) -> ChangeSet:
    """Return what one commit changed relative to its first parent. The errors are those of `find_commit` and a feed."""
    located = find_commit(session, commit_id, branch=branch)
    return next(ChangeFeed(located.session, ChangesCall(since=located.commit.parent, types=types, limit=1)))
