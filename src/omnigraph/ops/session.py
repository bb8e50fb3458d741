"""One open graph: what every verb works with."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.commit.branches import Branches
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.records import Snapshot
from omnigraph.commit.refs import at_commit, at_time
from omnigraph.commit.tables import SnapshotTables
from omnigraph.engine.tables.read_cache import ReadCache
from omnigraph.engine.writing.record_size import MAX_BLOB_BYTES
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.suggest import closest
from omnigraph.ops.kept_plans import KeptPlans
from omnigraph.ops.prepared import KeptCatalogs, PreparedQueries
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.derived import DerivedObjects
from omnigraph.storage.handles import Handles
from omnigraph.storage.store import Store


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

    store: Store
    handles: Handles
    log: ManifestLog
    is_read_only: bool = False
    keep_derived: bool | None = None
    """Whether reads may keep what they derived beside the tables; None: unless it is read-only."""
    reads: ReadCache = field(init=False)
    """What queries keep in memory between each other."""
    prepared: PreparedQueries = field(init=False)
    plans: KeptPlans = field(default_factory=KeptPlans, init=False, repr=False)
    branches: Branches = field(init=False)
    _catalogs: KeptCatalogs = field(default_factory=KeptCatalogs, init=False, repr=False)
    _is_by_name: bool = field(default=False, init=False, repr=False)
    """Whether the branch is known by its name alone: nothing of it was read yet."""

    def __post_init__(self) -> None:
        self.branches = Branches(self.log)
        is_kept = not self.is_read_only if self.keep_derived is None else self.keep_derived
        derived = DerivedObjects(self.store, is_read_only=not is_kept)
        self.reads = ReadCache(self.store.runtime.options, derived)
        self.prepared = PreparedQueries(self.store.runtime.options.query_text_characters)

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

    def on(self, branch: str) -> "Session":
        """This graph on a branch, with the same open tables and everything that is kept; BranchMissingError.

        Cheap: make one for each operation. Once it has read something, it is on that very branch: when the branch is
        deleted it gives BranchGoneError, also when there is another one of the same name.
        """
        if branch == self.log.branch:
            return self
        return self.on_log(self._found(branch), is_by_name=True)

    def on_log(self, log: ManifestLog, *, is_by_name: bool = False) -> "Session":
        """This graph on the branch that a log is of."""
        other = copy.copy(self)
        other.log, other._is_by_name = log, is_by_name  # noqa: SLF001 - a copy of this very object
        return other

    def head(self) -> Head:
        """The newest state of the branch, by one probe when nothing moved."""
        return self._looked(ManifestLog.latest)

    def recent(self) -> Head:
        """The state to base a write on that gives way when somebody else was faster: cheaper to find than the newest.

        It is the newest, unless many commits were made just now; then the write's own swap finds out.
        """
        return self._looked(ManifestLog.recent)

    def snapshot(self, *, commit_id: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state, or that of a commit or an instant."""
        if commit_id is not None:
            head = self._looked(ManifestLog.newest_readable)
            return at_commit(self.log, head, commit_id)
        if at is not None:
            head = self._looked(ManifestLog.newest_readable)
            return at_time(self.log, head, at)
        return self.head().snapshot

    def tables(self, snapshot: Snapshot) -> SnapshotTables:
        """The tables of a snapshot."""
        return SnapshotTables(self.handles, snapshot)

    def catalog(self, snapshot: Snapshot) -> Catalog:
        """The accepted schema of a snapshot; the same object for as long as the schema is the same."""
        return self._catalogs.get(snapshot.manifest.schema)

    def check_writable(self) -> None:
        """ReadOnlyError for a read-only graph: every write asks."""
        if self.is_read_only:
            raise ReadOnlyError(self.uri)

    def _looked(self, look: Callable[[ManifestLog], Head]) -> Head:
        """A state of the branch. What was known by a name that is used anew is looked for again, once."""
        try:
            head = look(self.log)
        except BranchGoneError:
            self.branches.forget(self.log)
            if not self._is_by_name:
                raise
            self.log = self._found(self.log.branch)
            head = look(self.log)
        self._is_by_name = False
        return head

    def _found(self, branch: str) -> ManifestLog:
        try:
            return self.branches.log(branch)
        except BranchMissingError as error:
            raise BranchMissingError(branch, error.known, closest(branch, error.known)) from None
