"""The read cache of one open graph: table readers, columns, adjacency and search structures under one memory limit."""

import copy
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.engine.tables.content_cache import CacheStats, ContentCache, Key
from omnigraph.engine.tables.row_layout import Layout
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.tables.topology import Topology, TopologyTables, is_earlier, resolve_endpoints
from omnigraph.engine.tables.topology_codec import decode_topology, encode_topology
from omnigraph.engine.tables.version_cache import VersionCache
from omnigraph.engine.view import View
from omnigraph.lru_cache import LruCache
from omnigraph.options import Options
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.storage.derived_cache import DerivedCache
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import build_derived_key, build_version_key
from omnigraph.telemetry import log

T = TypeVar("T")

# Unless set, the cache takes at most a quarter of the memory.
_MEMORY_DIVISOR = 4
# Rules of a policy that readers are cached for: each has readers, and the values of its rows, in memory.
_MAX_REALMS = 64
_CGROUP_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# A topology of at least this number of edges is stored beside the tables for the next process. Building one for 2.4
# million edges took 500 ms, reading it 14 ms (decision 14).
MIN_DERIVED_EDGES = 50_000
# A stored topology is replaced when more than this share of its edges changed; fewer changes are patched quickly.
REWRITE_SHARE = 0.1
# The memory that building a topology takes for each edge: both ends, one packed sort, and both lists.
_BUILD_BYTES = 56


class GraphCache:
    """The cache that all reads of one open graph share.

    Keys are derived from the contents of tables, so branches with equal rows share entries.
    """

    def __init__(self, options: Options, derived: DerivedCache | None = None) -> None:
        limit = detect_memory_limit() // _MEMORY_DIVISOR if options.cache_bytes is None else options.cache_bytes
        self.lru = ContentCache(limit)
        self._derived = derived if options.derived_cache else None
        self._has_derived: dict[str, bool] = {}
        self._workers: list[threading.Thread] = []
        self._versions = VersionCache()
        self._background_keys: set[Key] = set()
        self._lock = threading.Lock()
        self.realm = ""
        self._realms: LruCache[str, GraphCache] = LruCache(_MAX_REALMS)

    def select_realm(self, view: View) -> "GraphCache":
        """Return the cache for a view: if it leaves out rows, one with readers of its own.

        They share the memory limit, and values whose keys name their rows.
        """
        if view.realm == self.realm:
            return self
        assert not self.realm  # noqa: S101 - what is read through one cache has one realm
        with self._lock:
            realm = self._realms.get(view.realm)
            if realm is None:
                # What is stored beside the tables is made of all rows.
                realm = self.without_derived()
                vars(realm).update(realm=view.realm, _versions=VersionCache(), _background_keys=set())
                realm._lock = threading.Lock()  # noqa: SLF001 - a copy of its own
                self._realms.put(view.realm, realm)
            return realm

    def get_reader(self, view: View, type_: AnyType) -> TableReader:
        """Return the reader of a type's table at the version that the snapshot pins."""
        if view.realm != self.realm:
            return self.select_realm(view).get_reader(view, type_)
        pin = view.snapshot.pin(type_.table_key)
        with self._lock:
            cached = self._versions.get(view.snapshot, pin)
        # Which edges are left out follows their ends too, so a version is not enough to identify the rows.
        table = view.get_table(type_) if self.realm else None
        if cached is not None and table is not None and cached.table.cache_version != table.cache_version:
            cached = None
        if cached is not None and cached.type is type_:
            return cached
        # Another catalog has another type object; the columns of the version are the same.
        columns = ColumnStore(table or view.get_table(type_), self.lru) if cached is None else cached.columns
        reader = TableReader(type_, columns)
        with self._lock:
            self._versions.add(view.snapshot, pin, reader)
        return reader

    def without_derived(self) -> "GraphCache":
        """Return the same cache, for reads of versions that no commit will have: nothing of them is stored."""
        other = copy.copy(self)
        other._derived = None  # noqa: SLF001 - a copy of its own
        return other

    def forget(self, path: str, version: int) -> None:
        """Drop the readers of a version that no commit will have."""
        with self._lock:
            self._versions.remove(path, version)
            realms = self._realms.list_values() if not self.realm else []
        for realm in realms:
            realm.forget(path, version)

    def get_topology(self, view: View, edge: EdgeType, budget: Budget) -> Topology:
        """Return the topology of an edge type, built on first use.

        Raises:
            CorruptError: An edge references a node that does not exist.
        """
        if view.realm != self.realm:
            return self.select_realm(view).get_topology(view, edge, budget)
        tables = _open_tables(self, view, edge)
        key = _build_topology_key(tables)
        return self.lru.get_or_build(
            key, lambda: self._build_topology(tables, key, budget), lambda topology: topology.nbytes, budget
        )

    def has_topology(self, view: View, edge: EdgeType) -> bool:
        """Return whether `get_topology` is cheap: it is in memory, or was stored by another process."""
        if view.realm != self.realm:
            return self.select_realm(view).has_topology(view, edge)
        tables = _open_tables(self, view, edge)
        if _build_topology_key(tables) in self.lru:
            return True
        if self._derived is None or tables.edges.count < MIN_DERIVED_EDGES:
            return False
        key = _build_derived_key(tables)
        if key not in self._has_derived:
            self._has_derived[key] = self._derived.exists(key)
        return self._has_derived[key]

    def get_or_build(
        self, key: Key, make: Callable[[], T], nbytes: Callable[[T], int], budget: Budget | None = None
    ) -> T:
        """Return the value of a caller's own key, built on first use; see `ContentCache.get_or_build`."""
        return self.lru.get_or_build(key, make, nbytes, budget)

    def get_stats(self) -> CacheStats:
        """Return the size of the cache, and its hits and misses."""
        return self.lru.get_stats()

    def _build_topology(self, tables: TopologyTables, key: Key, budget: Budget) -> Topology:
        """Build a topology by updating that of an earlier version if there is one, else from all edges."""
        latest: Key = ("latest topology", self.realm, *(rows.table.path for rows in tables.all))
        older_key = self.lru.get(latest)
        older = self.lru.get(older_key) if isinstance(older_key, tuple) else None
        if not isinstance(older, Topology):
            older = self._load_topology(tables)
        if older is not None and older.layouts.states == tables.layouts.states:
            topology = older
            should_store = False
        else:
            ends, change = resolve_endpoints(tables, older, budget)
            topology = Topology(tables.layouts, ends, change=change, threads=budget.threads)
            should_store = (
                older is None
                or change is None
                or change.count > REWRITE_SHARE * tables.edges.count
                or any(map(_is_rewritten, tables.layouts.all, older.layouts.all))
            )
            if older is not None and is_earlier(tables.layouts.edges, older.layouts.edges):
                # A read of an older version must not replace the stored topology of the newest.
                should_store = False
        topology.on_growth = _build_growth_listener(self.lru, key)
        self.lru.put(latest, key, 256)
        if should_store:
            self._store_topology(tables, topology)
        return topology

    # --- derived data beside the tables ---------------------------------------------------------------

    def _load_topology(self, tables: TopologyTables) -> Topology | None:
        """Return the topology that another process stored for these tables, of this or an earlier version, if any."""
        if self._derived is None or tables.edges.count < MIN_DERIVED_EDGES:
            return None
        data = self._derived.read(_build_derived_key(tables))
        return None if data is None else decode_topology(data)

    def _store_topology(self, tables: TopologyTables, topology: Topology) -> None:
        """Store a large topology for the next process, in the background."""
        if tables.edges.count >= MIN_DERIVED_EDGES:
            sources = [rows.table for rows in tables.all]
            self.store_derived([(_build_derived_key(tables), lambda: encode_topology(topology))], sources)

    def read_derived(self, key: str) -> memoryview | None:
        """Return what another process stored under a key, if any; the caller must check that it is undamaged."""
        return None if self._derived is None else self._derived.read(key)

    def read_derived_range(self, key: str, start: int, size: int) -> bytes | None:
        """Return some bytes of what another process stored under a key, if any; the caller must check them."""
        return None if self._derived is None else self._derived.read_range(key, start, size)

    def list_derived(self, prefix: str) -> list[str]:
        """Return the keys of what is stored with this prefix."""
        return [] if self._derived is None else self._derived.list_keys(prefix)

    def store_derived(
        self, objects: Sequence[tuple[str, Callable[[], list[memoryview | bytes]]]], sources: Sequence[LanceTable]
    ) -> None:
        """Store objects one after the other in a background thread: the query does not wait. Each is encoded there.

        `sources` are the tables that it was derived from. A cleanup removes table versions first, then their data
        files, then objects derived from those files. So if all versions still exist after the write, a cleanup that
        collects them later finds the object; if one is missing, the object is removed here.
        """
        derived = self._derived
        if derived is None or derived.is_read_only:
            return

        def write_all() -> None:
            for key, encode in objects:
                write(key, encode)

        def write(key: str, encode: Callable[[], list[memoryview | bytes]]) -> None:
            try:
                is_stored = derived.write(key, encode())
                if is_stored and not all(
                    derived.exists(build_version_key(table.path, table.version)) for table in sources
                ):
                    derived.remove(key)
                    is_stored = False
                self._has_derived[key] = is_stored
            except Exception:  # noqa: BLE001 - derived data is optional: a failure must not reach a query
                log.warning("could not keep %s for the next process", key, exc_info=True)

        self._start_worker(write_all, "omnigraph-derived")

    def keep_topologies(self, view: View, edges: Sequence[EdgeType], budget: Budget) -> None:
        """Build the topologies of edge types and store them for the next process, in a background thread.

        Those of few edges, and those that need more memory than the budget has, are left out.
        """
        large = [edge for edge in edges if self.get_reader(view, edge).count >= MIN_DERIVED_EDGES]
        if not large or self._derived is None or self._derived.is_read_only:
            return

        def keep() -> None:
            for edge in large:
                nbytes = self.get_reader(view, edge).count * _BUILD_BYTES
                try:
                    budget.claim(nbytes, f"the topology of {edge.name}")
                    self.get_topology(view, edge, budget)
                    budget.release(nbytes)
                except Exception:  # noqa: BLE001 - the next reader builds it
                    log.info("no topology of %s was stored", edge.name, exc_info=True)

        self._start_worker(keep, "omnigraph-topology")

    def _start_worker(self, work: Callable[[], None], name: str) -> None:
        """Start a background thread, which the process waits for when it ends."""
        worker = threading.Thread(target=work, name=name)
        with self._lock:
            self._workers = [*(other for other in self._workers if other.is_alive()), worker]
        worker.start()

    def build_in_background(self, key: Key, make: Callable[[Callable[[], None]], T], keep: Callable[[T], None]) -> None:
        """Build something for later queries in a background thread, unless that is running or has failed before.

        `make` gets a function that it has to call from time to time: it raises when the process ends.
        """

        def work() -> None:
            try:
                keep(make(_check_process_alive))
                self._background_keys.discard(key)
            except _ProcessEndsError:
                pass
            except Exception:  # noqa: BLE001 - queries work without it
                # The key stays in the set, so that the same failure is not repeated by every query.
                log.warning("could not build %s", key, exc_info=True)

        with self._lock:
            if key in self._background_keys:
                return
            self._background_keys.add(key)
        self._start_worker(work, "omnigraph-background")

    def wait_for_workers(self) -> None:
        """Wait until all background threads have finished, and those that they started."""
        while running := [worker for worker in self._workers if worker.is_alive()]:
            for worker in running:
                worker.join()


def _open_tables(cache: GraphCache, view: View, edge: EdgeType) -> TopologyTables:
    """Return the readers of the tables of a topology."""
    nodes = view.catalog.nodes
    types = (edge, nodes[edge.source], nodes[edge.target])
    return TopologyTables(*(cache.get_reader(view, type_) for type_ in types))


class _ProcessEndsError(Exception):
    """The process is ending: no query will use the result."""


def _build_growth_listener(cache: ContentCache, key: Key) -> Callable[[Topology], None]:
    """Return a function that reports the new size of a topology to a cache.

    It holds a weak reference: the cache is freed together with its graph handle, not later.
    """
    cache_ref = weakref.ref(cache)

    def report_growth(topology: Topology) -> None:
        target = cache_ref()
        if target is not None:
            target.update_size(key, topology, topology.nbytes)

    return report_growth


def _is_rewritten(layout: Layout, older: Layout) -> bool:
    """Return whether many rows of an older version are in other files now, so that nothing known of them is of use."""
    kept_rows = sum(run.rows for run in layout.match_runs(older) if run.start is not None)
    return older.size - kept_rows > REWRITE_SHARE * older.size


def _check_process_alive() -> None:
    if not threading.main_thread().is_alive():
        raise _ProcessEndsError


def _build_derived_key(tables: TopologyTables) -> str:
    return build_derived_key("topology", [rows.table.path for rows in tables.all])


def _build_topology_key(tables: TopologyTables) -> Key:
    return ("topology", *(rows.columns.state for rows in tables.all))


def detect_memory_limit() -> int:
    """Return the bytes of memory that this process may use: those of the machine or its container's limit."""
    nbytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _CGROUP_LIMIT_FILES:
        # Without a limit the file does not exist, or contains the word `max`.
        with suppress(OSError, ValueError):
            nbytes = min(nbytes, int(Path(file).read_text()))
    return nbytes
