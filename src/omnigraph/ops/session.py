"""One open graph: what every verb works with."""

from dataclasses import dataclass, field
from datetime import datetime

from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.records import Snapshot
from omnigraph.commit.refs import at_commit, at_time
from omnigraph.commit.tables import SnapshotTables
from omnigraph.engine.tables.read_cache import ReadCache
from omnigraph.errors import Kind, OmnigraphError
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
    """A graph's storage, open tables and manifest. Cheap to keep, safe to share between threads."""

    store: Store
    handles: Handles
    log: ManifestLog
    is_read_only: bool = False
    keep_derived: bool | None = None
    """Whether reads may keep what they derived beside the tables; None: unless it is read-only."""
    reads: ReadCache = field(init=False)
    """What queries keep in memory between each other."""
    prepared: PreparedQueries = field(init=False)
    _catalogs: KeptCatalogs = field(default_factory=KeptCatalogs, init=False, repr=False)

    def __post_init__(self) -> None:
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
        return BlobSources(options.blob_sources, limit=options.blob_bytes, storage=options.storage)

    def head(self) -> Head:
        """The newest state, by one probe when nothing moved."""
        return self.log.latest()

    def snapshot(self, *, commit_id: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state, or that of a commit or an instant."""
        if commit_id is not None:
            return at_commit(self.log, self.log.newest_readable(), commit_id)
        if at is not None:
            return at_time(self.log, self.log.newest_readable(), at)
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
