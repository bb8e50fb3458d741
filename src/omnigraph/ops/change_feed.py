"""The change feed of a branch: every commit behind a cursor, oldest first, each exactly once.

A cursor is a commit's id. Every commit of the branch's line is told, also one that left all rows as they were
(maintenance, a recovery): then without rows, so that the cursor moves on.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from omnigraph.commit.branch_errors import BranchGoneError
from omnigraph.commit.gc_horizon import check_commit_retained
from omnigraph.commit.history_reader import find_position, find_restored_tables, read_next_commits
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MAIN, Commit
from omnigraph.commit.purges import build_dropped_error
from omnigraph.commit.time_travel import CommitMissingError, expect_versions
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import BadArgumentError, check_count, check_number
from omnigraph.ops.commit_changes import ChangeSet, TypeFilter, build_change_set
from omnigraph.ops.diff import list_types
from omnigraph.ops.history import find_commit
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.revision import resolve_commit
from omnigraph.ops.schema_history import SchemaHistory
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.identity import renumber_catalog
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.object_store import StoreDeniedError, StoreUnavailableError
from omnigraph.telemetry import log as telemetry_log

POLL_SECONDS = 1.0
MAX_OUTAGE_SECONDS = 600.0
"""How long a store may not answer before somebody who follows gives up."""
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.1, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesCall:
    """A feed as it was asked for."""

    since: str | None = None
    """The commit behind which it begins, by its id, a tag, a branch or a time; None: the first commit of the graph."""
    types: Sequence[str] | None = None
    limit: int | None = None
    """After so many commits it ends."""
    follow: bool = False
    """Whether it goes on with commits that come, for ever."""
    poll_seconds: float = POLL_SECONDS

    def __post_init__(self) -> None:
        check_count("limit", self.limit, minimum=1)
        check_number("poll_seconds", self.poll_seconds)
        if not 0 < self.poll_seconds < float("inf"):
            raise BadArgumentError("poll_seconds", str(self.poll_seconds), "it is a number of seconds above 0")


class ChangeFeed:
    """The commits of a branch behind a cursor, as what they changed; an iterator, read as it is asked.

    Without `follow` it ends with what was the newest commit when it was made. With it, it waits for the next commit by
    one cheap probe now and then, outlasts a store that does not answer for a while, and ends with BranchGoneError when
    the branch is deleted, also when there is another one of that name.
    """

    def __init__(self, session: Session, call: ChangesCall) -> None:
        """Raises what `graph.changes` raises."""
        session.allow(Action.READ)
        self._session, self._call = session, call
        head = session.head()
        self._last_seq = head.snapshot.commit.seq
        self._schemas = SchemaHistory(session.log)
        since = None if call.since is None else resolve_commit(session, call.since)
        self._position = find_position(session.log, head, since)
        if self._position.commit is not None:
            check_commit_retained(session.log, head, self._position.commit)  # what follows is told against it
        self._type_filter = self._resolve_types(head, call.types)
        self._emitted = 0
        self._backoff = _OutageBackoff(session)
        self._waiting: deque[Commit] = deque()
        self._tables: dict[str, LanceTable] = {}
        """By location, the version that was looked at last."""

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
        found = self._build_with_retries(self._waiting[0])
        self._waiting.popleft()
        self._emitted += 1
        schema_id = found.commit.schema_after or self._position.schema_id
        self._position = replace(self._position, commit=found.commit, schema_id=schema_id)
        return found

    @property
    def cursor(self) -> str | None:
        """The commit that was given last, or behind which it began: where to go on."""
        return None if self._position.commit is None else self._position.commit.id

    def blocks(self) -> Iterator[bytes]:
        """The feed as lines of JSON, some at once: see `ChangeSet.blocks`.

        When the store fails in the middle of a commit, one who follows gets that commit from its beginning again.
        """
        for found in self:
            while True:
                try:
                    yield from found.blocks()
                except StoreUnavailableError as error:
                    self._wait_out(error)
                    continue
                self._backoff.reset()
                break

    def _read_next_commits(self) -> Sequence[Commit]:
        """The next commits, if there are any by now."""
        while True:
            try:
                head = self._session.head()
                found = read_next_commits(self._session.log, head, self._position.seq)
            except StoreUnavailableError as error:
                self._wait_out(error)
                continue
            self._backoff.reset()
            self._check_continuity(head, found)
            return found if self._call.follow else [commit for commit in found if commit.seq <= self._last_seq]

    def _check_continuity(self, head: Head, found: Sequence[Commit]) -> None:
        """CommitMissingError when the line does not go on behind the cursor: a repair has taken the branch back."""
        before = self._position.commit
        if found:
            goes_on = found[0].parent == (None if before is None else before.id)
        else:
            goes_on = before is not None and head.snapshot.commit.id == before.id
        if not goes_on:
            raise CommitMissingError(self.cursor or "", self._session.log.branch)

    def _build_with_retries(self, commit: Commit) -> ChangeSet:
        while True:
            try:
                found = self._build_change_set(commit)
            except StoreUnavailableError as error:
                self._wait_out(error)
                continue
            self._backoff.reset()
            return found

    def _build_change_set(self, commit: Commit) -> ChangeSet:
        session = self._session
        session.check_cancelled()
        for branch in {session.log.branch, commit.branch}:  # asked each time: who follows may lose the right to
            session.allow(Action.READ, branch)
        head = session.head()
        old, new = self._position.schema_id, commit.schema_after or self._position.schema_id
        assert new is not None  # noqa: S101 - the first commit brings a schema
        catalogs = None if old is None else self._schemas.load_catalog(head, old), self._schemas.load_catalog(head, new)
        if commit.schema_after is not None:  # what two branches added alike has one identity since they were merged
            same = head.snapshot.manifest.schema.same
            catalogs = (
                None if catalogs[0] is None else renumber_catalog(catalogs[0], same),
                renumber_catalog(catalogs[1], same),
            )
        unchanged = find_restored_tables(session.log, head, commit)
        expect_versions(session.store.verifier, commit.changes)
        found = build_change_set(self._open_table, commit, (old, new), catalogs, self._type_filter, unchanged=unchanged)
        if found.pairs:  # what left all rows as they were can be told whatever was collected
            self._check_rows_retained(head, commit, found)
        return replace(found, go_on=session.check_cancelled)

    def _open_table(self, path: str, version: int) -> LanceTable:
        """A table; what one commit left is what the next one found, and is looked at once."""
        last = self._tables.get(path)
        if last is None or last.version != version:
            last = self._tables[path] = LanceTable(self._session.handles, path, version)
        return last

    def _check_rows_retained(self, head: Head, commit: Commit, found: ChangeSet) -> None:
        """CommitCollectedError or DataDroppedError when what the commit changed can't be read any more."""
        for one in (self._position.commit, commit):
            if one is not None:
                check_commit_retained(self._session.log, head, one)
        later = [(purge, dropper) for purge, dropper in self._position.purged if dropper.seq > commit.seq]
        for pair in found.pairs:
            for purge, dropper in later:
                if any(table is not None and table.path == purge.path for table in (pair.before, pair.after)):
                    raise build_dropped_error(pair.type.table_key, purge, dropper)

    def _resolve_types(self, head: Head, names: Sequence[str] | None) -> TypeFilter:
        """Types by their names now, or as the feed begins; TypeMissingError."""
        if names is None:
            return TypeFilter()
        snapshot = head.snapshot
        known = {
            one.name: snapshot.pins[one.table_key].path for one in list_types(self._session.load_catalog(snapshot))
        }
        begins = self._position.schema_id
        earlier = [] if begins is None else list_types(self._schemas.load_catalog(head, begins))
        for name in names:
            if name not in known and name not in {one.name for one in earlier}:
                raise TypeMissingError(name, find_closest(name, known))
        return TypeFilter(frozenset(names), {known[name] for name in names if name in known})

    def _wait_out(self, error: StoreUnavailableError) -> None:
        """Wait until the store may answer again, or raise: who does not follow, is denied, or has waited long enough.

        BranchGoneError when it does not answer because the branch and its files are gone.
        """
        if not self._call.follow or isinstance(error, StoreDeniedError):
            raise error
        branch, path = self._session.log.branch, self._session.log.path
        if branch != MAIN:
            try:
                live = {record.path for record in self._session.branches.list_records()}
            except StoreUnavailableError:
                live = {path}
            if path not in live:
                raise BranchGoneError(branch) from error
        self._backoff.wait(error)


class _OutageBackoff:
    """Waits longer and longer while a store does not answer, and not for ever."""

    def __init__(self, session: Session) -> None:
        self._clock, self._ids = session.runtime.clock, session.runtime.ids
        self._since: float | None = None
        self._tries = 0

    def wait(self, error: StoreUnavailableError) -> None:
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
            telemetry_log.warning("the store does not answer; trying on: %s", error)
        elif now - self._since > MAX_OUTAGE_SECONDS:
            raise error
        seconds = min(_FIRST_WAIT_SECONDS * 2**self._tries, _MAX_WAIT_SECONDS)
        self._tries += 1
        self._clock.sleep(seconds / 2 + self._ids.jitter(seconds / 2))

    def reset(self) -> None:
        """The store has answered."""
        self._since, self._tries = None, 0


def commit_changes(
    session: Session, commit_id: str, *, branch: str | None = None, types: Sequence[str] | None = None
) -> ChangeSet:
    """What one commit changed against its first parent; raises what `find_commit` and a feed raise."""
    found = find_commit(session, commit_id, branch=branch)
    return next(ChangeFeed(found.session, ChangesCall(since=found.commit.parent, types=types, limit=1)))
