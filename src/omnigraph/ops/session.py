"""The session: an open graph on one branch, which every operation works with."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.pin_usage import explain_pin
from omnigraph.commit.ref_names import looks_like_id
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.commit.tag_errors import TagMissingError
from omnigraph.commit.time_travel import (
    CommitMissingError,
    find_journal,
    find_short_id,
    looks_like_short_id,
    read_at_commit,
    read_at_time,
    read_at_version,
    split_steps,
    step_back,
)
from omnigraph.engine.constraints.record_size import MAX_BLOB_BYTES
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.row_security.masked_tables import MaskedTables
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.key_pages import StoredKeyPages
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_instant, check_text
from omnigraph.ops.plan_cache import PlanCache
from omnigraph.ops.query_cache import CatalogCache, QueryCache
from omnigraph.ops.tail_keeper import TailKeeper
from omnigraph.policy import Action, Actor, DeniedError, WrongActorError, require
from omnigraph.row_rules import RowRules
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.derived_cache import DerivedCache
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.key_cache import KeyCache
from omnigraph.storage.table_cache import TableCache

# The author of commits if a call names none.
ANONYMOUS = "anonymous"


class ReadOnlyError(OmnigraphError):
    """The graph was opened read-only."""

    kind = Kind.USAGE
    code = "read_only"
    uri: str
    message = "{uri} was opened read-only; open it without read_only to write"


@dataclass
class Session:
    """A graph's storage, open tables, caches, and the manifest log of one branch. Thread-safe.

    It starts on main; `checkout` returns a session on another branch that shares tables and caches.
    """

    store: GraphStorage
    handles: TableCache
    log: ManifestLog
    is_read_only: bool = False
    keep_derived: bool | None = None
    """Whether reads may store derived files beside the tables; None for yes. A read-only session never does."""
    reads: GraphCache = field(init=False)
    """The in-memory cache that queries share."""
    prepared: QueryCache = field(init=False)
    plans: PlanCache = field(default_factory=PlanCache, init=False, repr=False)
    branches: BranchRegistry = field(init=False)
    tails: TailKeeper = field(init=False, repr=False)
    """Compacts small fragments after writes."""
    _catalogs: CatalogCache = field(default_factory=CatalogCache, init=False, repr=False)
    actor: Actor | None = field(default=None, init=False)
    """The actor it acts for, if any: the policy is evaluated for this actor, who signs commits."""
    through: str | None = field(default=None, init=False)
    """The stored query on whose behalf it acts."""
    check_cancelled: Callable[[], None] = field(default_factory=lambda: _never_cancel, init=False, repr=False)
    """Called regularly by long operations; an error that it raises ends them, as an interrupt would."""
    watch: Budget | None = field(default=None, init=False, repr=False)
    """The deadline and memory limit of a single operation; see `with_budget`."""
    next_commit: str | None = field(default=None, init=False, repr=False)
    """The id of the commit of a mutation, if its caller chose it; see `with_next_commit`."""
    _is_by_name: bool = field(default=False, init=False, repr=False)
    """Whether the branch was only looked up by name, and nothing was read from it yet."""

    def __post_init__(self) -> None:
        self.branches = BranchRegistry(self.log)
        self.handles.explain = partial(explain_pin, self.branches)
        derived = DerivedCache(self.store, is_read_only=self.is_read_only or self.keep_derived is False)
        self.reads = GraphCache(self.store.runtime.options, derived)
        pages = StoredKeyPages(derived) if self.runtime.options.derived_cache else None
        self.handles.carried.versions = self.reads.lru
        self.handles.keys = KeyCache(self.reads.lru, pages, is_remote=self.store.local is None)
        self.tails = TailKeeper(self.store.runtime.options)
        self.prepared = QueryCache(self.store.runtime.options.query_text_characters)

    @property
    def runtime(self) -> Runtime:
        """The clock, ids, settings and policy."""
        return self.store.runtime

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self.store.location.uri

    @property
    def blob_sources(self) -> BlobSources:
        """The locations outside the graph that Blob values may be read from."""
        options = self.runtime.options
        return BlobSources(options.blob_sources, limit=min(options.blob_bytes, MAX_BLOB_BYTES), storage=options.storage)

    def checkout(self, branch: str) -> "Session":
        """Return a session on a branch, which shares open tables and caches. Cheap: make one for each operation.

        Once it has read something, it stays on that very branch: after the branch is deleted it raises BranchGoneError,
        even if there is a new one of the same name.

        Raises:
            BranchMissingError: There is no branch of that name.
        """
        if branch == self.log.branch:
            return self
        check_text("branch", branch)
        return self.checkout_log(self._find_log(branch), is_by_name=True)

    def checkout_log(self, log: ManifestLog, *, is_by_name: bool = False) -> "Session":
        """Return a session on the branch of a log."""
        # A shallow copy shares the storage, open tables and caches.
        other = copy.copy(self)
        other.log = log
        other._is_by_name = is_by_name  # noqa: SLF001 - a copy of this very object
        return other

    def acting_as(self, actor: Actor, *, through: str | None = None) -> "Session":
        """Return a session that acts for an actor, through a stored query if one is named. Cheap."""
        other = copy.copy(self)
        other.actor = actor
        other.through = through
        return other

    def allow(
        self, action: Action, branch: str | None = None, *, signed: str | None = None, hides_rows: bool = False
    ) -> None:
        """Check that the policy, if there is one, allows an action on a branch. Every operation calls it first.

        `branch` is the session's own unless another is named. `signed` is the author that a commit would name.
        `hides_rows` says that the operation shows, counts and changes seen rows only; any other one is for actors who
        see all rows.

        Raises:
            DeniedError: The policy does not allow it.
            DeniedError: The policy hides rows from the actor, and the operation does not.
            WrongActorError: The session acts for another actor than `signed`, or for none although there is a policy.
        """
        if signed is not None and self.actor is not None and signed != self.actor.name:
            raise WrongActorError.actor_differs(self.actor.name, signed)
        policy = self.runtime.policy
        if policy is not None:
            name = self.log.branch if branch is None else branch
            require(policy, self.actor, action, name, self.through)
            if not hides_rows:
                _require_all_rows(self, name)

    def allow_on_graph(self, action: Action, *, hides_rows: bool = False) -> None:
        """Check, as `allow` does, an action that concerns the whole graph."""
        policy = self.runtime.policy
        if policy is not None:
            require(policy, self.actor, action, None, self.through)
            if not hides_rows:
                _require_all_rows(self, None)

    def resolve_signer(self, named: str) -> str:
        """Return the author of a commit: the session's actor if the call names none, else the one it names."""
        return self.actor.name if self.actor is not None and named == ANONYMOUS else named

    def head(self, max_age: float = 0.0) -> Head:
        """Return the newest state of the branch, or one that was the newest within the last `max_age` seconds.

        Takes one probe of the store if nothing changed, or none if a cached state is recent enough.
        """
        return self._read_head(lambda log: log.head(max_age))

    def cached_head(self) -> Head:
        """Return a recent state of the branch to base a write on, which is cheaper to find than the newest.

        It is the newest unless many commits were made just now. Then the write loses the swap, and is retried.
        """
        return self._read_head(ManifestLog.cached_head)

    def resolve_snapshot(self, *, commit_id: str | None = None, at: datetime | None = None) -> Snapshot:
        """Return the newest state, or that of a commit or an instant. `commit_id` may be a tag, on any branch."""
        return self.locate_snapshot(commit_id=commit_id, at=at)[1]

    def locate_snapshot(
        self, *, commit_id: str | None = None, at: datetime | None = None
    ) -> tuple[ManifestLog, Snapshot]:
        """Return the state, as `resolve_snapshot` does, and the log whose journal has its commit."""
        if commit_id is not None:
            check_text("snapshot", commit_id)
        steps = None if commit_id is None else split_steps(commit_id)
        if steps is not None:
            return _step_back(self, *steps)
        if commit_id is not None and not looks_like_id(commit_id):
            return self._locate_tag(commit_id)
        if commit_id is None and at is None:
            head = self.head()
            return self.log, head.snapshot
        head = self._read_head(ManifestLog.readable_head)
        if commit_id is not None:
            snapshot = read_at_commit(self.log, head, commit_id)
        else:
            check_instant("at", at)
            assert at is not None  # noqa: S101 - one of the two is given
            snapshot = read_at_time(self.log, head, at)
        _check_origin(self, head, snapshot)
        return find_journal(self.log, head, snapshot), snapshot

    def open_tables(self, snapshot: Snapshot) -> SnapshotTables:
        """Return the tables of a snapshot, without the rows that the policy hides from the actor."""
        return hide_rows(self, open_whole_tables(self, snapshot))

    def load_catalog(self, snapshot: Snapshot) -> Catalog:
        """Return the catalog of a snapshot; the same object while the schema is the same."""
        return self._catalogs.get_or_decode(snapshot.manifest.schema)

    def check_writable(self) -> None:
        """Check that the session may write. Every write calls it.

        Raises:
            ReadOnlyError: The graph was opened read-only.
        """
        if self.is_read_only:
            raise ReadOnlyError(self.uri)

    def _locate_tag(self, name: str) -> tuple[ManifestLog, Snapshot]:
        """Return the state that a tag names, from the journal of its branch, which may have been deleted.

        A number that is no tag is a version of the branch's manifest.
        """
        try:
            record = self.branches.tags.find_record(name)
        except TagMissingError:
            if name.isascii() and name.isdigit():
                head = self._read_head(ManifestLog.readable_head)
                snapshot = read_at_version(self.log, head, int(name))
                _check_origin(self, head, snapshot)
                return find_journal(self.log, head, snapshot), snapshot
            commit_id = _find_short_id(self, name)
            if commit_id is None:
                raise CommitMissingError(name, self.log.branch, is_snapshot=True) from None
            return self.locate_snapshot(commit_id=commit_id)
        self.allow(Action.READ, record.branch, hides_rows=True)
        log = self.branches.get_journal(record.branch, record.path)
        return log, read_at_commit(log, log.final_head(), record.commit_id)

    def _read_head(self, look: Callable[[ManifestLog], Head]) -> Head:
        """Return a head of the branch; if the cached log is of a deleted branch, look its name up again, once."""
        try:
            head = look(self.log)
        except BranchGoneError:
            self.branches.forget(self.log)
            # A session that has read from the deleted branch must not move to a new one of the same name.
            if not self._is_by_name:
                raise
            self.log = self._find_log(self.log.branch)
            head = look(self.log)
        self._is_by_name = False
        return head

    def _find_log(self, branch: str) -> ManifestLog:
        try:
            return self.branches.get_log(branch)
        except BranchMissingError as error:
            # An actor that may not read the branch must not learn that it does not exist.
            self.allow(Action.READ, branch, hides_rows=True)
            names = tuple(name for name in error.known if is_readable(self, name))
            is_tag = any(
                tag.name == branch and is_readable(self, tag.branch) for tag in self.branches.tags.list_records()
            )
            raise BranchMissingError(branch, names, find_closest(branch, names), branch if is_tag else None) from None


def _step_back(session: Session, name: str, count: int) -> tuple[ManifestLog, Snapshot]:
    """Return the state some first parents before that of a commit, tag or version."""
    log, snapshot = session.locate_snapshot(commit_id=name)
    head = log.final_head()
    commit = step_back(log, head, snapshot.commit, count)
    if commit is None:
        raise CommitMissingError(f"{name}~{count}", log.branch, is_snapshot=True)
    past = read_at_commit(log, head, commit.id)
    return find_journal(log, head, past), past


def _find_short_id(session: Session, text: str) -> str | None:
    """Return the id of the branch's commit that a text is a part of; None if there is none."""
    if not looks_like_short_id(text):
        return None
    return find_short_id(text, [session.log.iter_history(session.log.readable_head())])


def with_cancellation(session: Session, check_cancelled: Callable[[], None]) -> Session:
    """Return a session whose operations end when `check_cancelled` raises; several threads call it. Cheap."""
    other = copy.copy(session)
    other.check_cancelled = check_cancelled
    return other


def with_next_commit(session: Session, commit_id: str) -> Session:
    """Return a session for one mutation, whose commit gets this id. Cheap.

    A caller that knows the id before can look for the commit of a process that died.
    """
    other = copy.copy(session)
    other.next_commit = commit_id
    return other


def with_budget(session: Session, budget: Budget) -> Session:
    """Return a session for one operation with a deadline and a memory limit for everything that it reads. Cheap.

    Tables opened through it must not be cached for other operations: reading them fails once the budget is used up.
    """
    check_before = session.check_cancelled

    def check_both() -> None:
        check_before()
        budget.check()

    other = with_cancellation(session, check_both)
    other.watch = budget
    return other


def without_limits(session: Session) -> Session:
    """Return a session without limits, for work after a commit: a deadline must not make a published commit fail."""
    other = with_cancellation(session, _never_cancel)
    other.watch = None
    return other


def _never_cancel() -> None:
    """Do nothing: the default of a session that is never cancelled."""


def _check_origin(session: Session, head: Head, snapshot: Snapshot) -> None:
    """Check that the caller may read the branch that made a past state, however the state was named.

    Commits before the fork belong to the parent branch. The newest state is the branch's own, also if its commit
    is the parent's.
    """
    if snapshot.commit.branch != session.log.branch and snapshot.commit.id != head.snapshot.commit.id:
        session.allow(Action.READ, snapshot.commit.branch, hides_rows=True)


def open_whole_tables(session: Session, snapshot: Snapshot) -> SnapshotTables:
    """Return the tables of a snapshot with all rows: for what is written or moved, and for checks of that."""
    return SnapshotTables(session.handles, snapshot, session.watch)


def hide_rows(session: Session, tables: SnapshotTables) -> SnapshotTables:
    """Return the same tables without the rows that the policy hides from the actor."""
    rules = list_row_rules(session, tables.snapshot)
    if not rules:
        return tables
    budget = session.watch or Budget(session.runtime.clock)
    return MaskedTables(tables, session.load_catalog(tables.snapshot), rules, session.reads, budget)


def find_row_rules(session: Session, branch: str | None) -> RowRules | None:
    """Return which rows of a branch the actor sees; None means all."""
    policy = session.runtime.policy
    if policy is None:
        return None
    if session.actor is None:
        raise WrongActorError.nobody_acts()
    return policy.find_row_rules(session.actor, branch, session.through)


def _require_all_rows(session: Session, branch: str | None) -> None:
    if find_row_rules(session, branch) is not None:
        assert session.actor is not None  # noqa: S101 - rules are those of an actor
        raise DeniedError.rows_hidden(session.actor.name, branch)


def list_row_rules(session: Session, snapshot: Snapshot) -> list[RowRules]:
    """Return which rows of a state the caller sees, by each branch that it is read under; none means all.

    The newest state of a branch is the branch's own; any other one is also that of the branch that made its commit.
    """
    if session.runtime.policy is None:
        return []
    branches = {snapshot.branch}
    if snapshot.commit.branch != snapshot.branch and not _is_newest(session, snapshot):
        branches.add(snapshot.commit.branch)
    found = [find_row_rules(session, branch) for branch in sorted(branches)]
    return [rules for rules in found if rules is not None]


def _is_newest(session: Session, snapshot: Snapshot) -> bool:
    """Return whether a state is the newest that was seen of its branch."""
    try:
        log = session.checkout(snapshot.branch).log
        head = log.peek_head()
    except (BranchMissingError, BranchGoneError, DeniedError):
        return False
    return head is not None and head.snapshot.commit.id == snapshot.commit.id


def is_readable(session: Session, branch: str) -> bool:
    """Return whether the policy lets the caller read a branch."""
    try:
        session.allow(Action.READ, branch, hides_rows=True)
    except DeniedError:
        return False
    return True
