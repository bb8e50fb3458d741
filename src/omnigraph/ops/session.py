"""One open graph: what every verb works with."""

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
from omnigraph.commit.time_travel import CommitMissingError, find_journal, read_at_commit, read_at_time, read_at_version
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.writing.record_size import MAX_BLOB_BYTES
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_instant, check_text
from omnigraph.ops.plan_cache import PlanCache
from omnigraph.ops.query_cache import CatalogCache, QueryCache
from omnigraph.policy import Action, Actor, ActorDiffersError, DeniedError, require
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.derived_cache import DerivedCache
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.table_cache import TableCache

ANONYMOUS = "anonymous"
"""Who signs where nobody is named."""


class ReadOnlyError(OmnigraphError):
    """The graph was opened read-only."""

    kind = Kind.USAGE
    code = "read_only"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri

    def __str__(self) -> str:
        return f"{self.uri} was opened read-only; open it without read_only to write"


@dataclass
class Session:
    """A graph's storage, open tables and the manifest of one branch. Cheap to keep, safe to share between threads.

    It is made with main's manifest; `on` gives the same graph on another branch.
    """

    store: GraphStorage
    handles: TableCache
    log: ManifestLog
    is_read_only: bool = False
    keep_derived: bool | None = None
    """Whether reads may keep what they derived beside the tables; None: unless it is read-only, which never does."""
    reads: GraphCache = field(init=False)
    """What queries keep in memory between each other."""
    prepared: QueryCache = field(init=False)
    plans: PlanCache = field(default_factory=PlanCache, init=False, repr=False)
    branches: BranchRegistry = field(init=False)
    _catalogs: CatalogCache = field(default_factory=CatalogCache, init=False, repr=False)
    actor: Actor | None = field(default=None, init=False)
    """For whom it acts, where that was said: whom a policy is asked about, and who signs."""
    through: str | None = field(default=None, init=False)
    """The stored query on whose behalf it acts."""
    check_cancelled: Callable[[], None] = field(default_factory=lambda: _never_cancel, init=False, repr=False)
    """Asked now and then by verbs that may take long: what it raises ends them, as an interrupt would."""
    watch: Budget | None = field(default=None, init=False, repr=False)
    """The deadline and memory limit of the one verb that it is for; see `within`."""
    _is_by_name: bool = field(default=False, init=False, repr=False)
    """Whether the branch is known by its name alone: nothing of it was read yet."""

    def __post_init__(self) -> None:
        self.branches = BranchRegistry(self.log)
        self.handles.explain = partial(explain_pin, self.branches)
        derived = DerivedCache(self.store, is_read_only=self.is_read_only or self.keep_derived is False)
        self.reads = GraphCache(self.store.runtime.options, derived)
        self.prepared = QueryCache(self.store.runtime.options.query_text_characters)

    @property
    def runtime(self) -> Runtime:
        """Time, ids, settings."""
        return self.store.runtime

    @property
    def uri(self) -> str:
        """The graph's address."""
        return self.store.location.uri

    @property
    def blob_sources(self) -> BlobSources:
        """The places outside of the graph that Blob values may be read from."""
        options = self.runtime.options
        return BlobSources(options.blob_sources, limit=min(options.blob_bytes, MAX_BLOB_BYTES), storage=options.storage)

    def checkout(self, branch: str) -> "Session":
        """This graph on a branch, with the same open tables and everything that is kept; BranchMissingError.

        Cheap: make one for each operation. Once it has read something, it is on that very branch: when the branch is
        deleted it gives BranchGoneError, also when there is another one of the same name.
        """
        if branch == self.log.branch:
            return self
        check_text("branch", branch)
        return self.checkout_log(self._find_log(branch), is_by_name=True)

    def checkout_log(self, log: ManifestLog, *, is_by_name: bool = False) -> "Session":
        """This graph on the branch that a log is of."""
        other = copy.copy(self)
        other.log, other._is_by_name = log, is_by_name  # noqa: SLF001 - a copy of this very object
        return other

    def acting_as(self, actor: Actor, *, through: str | None = None) -> "Session":
        """This graph in the hands of an actor, by way of a stored query if one is named. Cheap."""
        other = copy.copy(self)
        other.actor, other.through = actor, through
        return other

    def allow(self, action: Action, branch: str | None = None, *, signed: str | None = None) -> None:
        """Every verb asks this first. Nothing where there is no policy, or where it allows the action on the branch.

        `branch` is the session's own unless another is named. `signed` is the name that a commit is to have.

        Raises:
            DeniedError, NobodyActsError: The policy does not allow it.
            ActorDiffersError: The session acts for somebody else than who is to sign.
        """
        if signed is not None and self.actor is not None and signed != self.actor.name:
            raise ActorDiffersError(self.actor.name, signed)
        policy = self.runtime.policy
        if policy is not None:
            require(policy, self.actor, action, self.log.branch if branch is None else branch, self.through)

    def allow_on_graph(self, action: Action) -> None:
        """As `allow`, for what is about the graph as a whole."""
        policy = self.runtime.policy
        if policy is not None:
            require(policy, self.actor, action, None, self.through)

    def resolve_signer(self, named: str) -> str:
        """Who signs: the one that it acts for, if there is one; else the one that a call names."""
        return self.actor.name if self.actor is not None and named == ANONYMOUS else named

    def head(self) -> Head:
        """The newest state of the branch, by one probe when nothing moved."""
        return self._read_head(ManifestLog.head)

    def cached_head(self) -> Head:
        """The state to base a write on that gives way when somebody else was faster: cheaper to find than the newest.

        It is the newest, unless many commits were made just now; then the write's own swap finds out.
        """
        return self._read_head(ManifestLog.cached_head)

    def resolve_snapshot(self, *, commit_id: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state, or that of a commit or an instant; a tag stands for its commit, on whatever branch."""
        return self.locate_snapshot(commit_id=commit_id, at=at)[1]

    def locate_snapshot(
        self, *, commit_id: str | None = None, at: datetime | None = None
    ) -> tuple[ManifestLog, Snapshot]:
        """As `snapshot`, with the log whose journal has the state's commit."""
        if commit_id is not None:
            check_text("snapshot", commit_id)
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
        if snapshot.commit.branch != self.log.branch:  # what it had before it was taken from another is that one's
            self.allow(Action.READ, snapshot.commit.branch)
        return find_journal(self.log, head, snapshot), snapshot

    def open_tables(self, snapshot: Snapshot) -> SnapshotTables:
        """The tables of a snapshot."""
        return SnapshotTables(self.handles, snapshot, self.watch)

    def load_catalog(self, snapshot: Snapshot) -> Catalog:
        """The accepted schema of a snapshot; the same object for as long as the schema is the same."""
        return self._catalogs.get_or_decode(snapshot.manifest.schema)

    def check_writable(self) -> None:
        """ReadOnlyError for a read-only graph: every write asks."""
        if self.is_read_only:
            raise ReadOnlyError(self.uri)

    def _locate_tag(self, name: str) -> tuple[ManifestLog, Snapshot]:
        """The state that a tag names, found in the journal of its branch, which may have been deleted.

        A number that is no tag is a version of the branch's manifest.
        """
        try:
            record = self.branches.tags.find_record(name)
        except TagMissingError:
            if name.isascii() and name.isdigit():
                head = self._read_head(ManifestLog.readable_head)
                snapshot = read_at_version(self.log, head, int(name))
                return find_journal(self.log, head, snapshot), snapshot
            raise CommitMissingError(name, self.log.branch, is_snapshot=True) from None
        self.allow(Action.READ, record.branch)
        log = self.branches.get_journal(record.branch, record.path)
        return log, read_at_commit(log, log.final_head(), record.commit_id)

    def _read_head(self, look: Callable[[ManifestLog], Head]) -> Head:
        """A state of the branch. What was known by a name that is used anew is looked for again, once."""
        try:
            head = look(self.log)
        except BranchGoneError:
            self.branches.forget(self.log)
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
            self.allow(Action.READ, branch)  # whoever may not read it does not learn that it is not there
            known = tuple(name for name in error.known if _is_readable(self, name))
            is_tag = any(
                tag.name == branch and _is_readable(self, tag.branch) for tag in self.branches.tags.list_records()
            )
            raise BranchMissingError(branch, known, find_closest(branch, known), branch if is_tag else None) from None


def with_cancellation(session: Session, check_cancelled: Callable[[], None]) -> Session:
    """The same graph for verbs that end when `check_cancelled` raises. It is asked from several threads. Cheap."""
    other = copy.copy(session)
    other.check_cancelled = check_cancelled
    return other


def with_budget(session: Session, budget: Budget) -> Session:
    """Return the same graph for one verb with a deadline and a memory limit, which hold for all that it reads. Cheap.

    What is read through it must not be cached for others: it ends when this budget does.
    """
    earlier = session.check_cancelled

    def go_on() -> None:
        earlier()
        budget.check()

    other = with_cancellation(session, go_on)
    other.watch = budget
    return other


def without_limits(session: Session) -> Session:
    """Return the same graph for what follows a commit: no deadline turns what is published into an error."""
    other = with_cancellation(session, _never_cancel)
    other.watch = None
    return other


def _never_cancel() -> None:
    """Nobody ends a verb of a graph that was not told so."""


def _is_readable(session: Session, branch: str) -> bool:
    try:
        session.allow(Action.READ, branch)
    except DeniedError:
        return False
    return True
