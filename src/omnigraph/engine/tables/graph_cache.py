"""What the reads of one open graph share: columns, codes, adjacency, search structures, under one memory limit."""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from omnigraph.engine.freed_memory import keep_freed_memory
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.engine.tables.lru_cache import CacheStats, Key, LruCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.tables.topology import Topology, TopologyTables, is_earlier, resolve_endpoints
from omnigraph.engine.tables.topology_codec import decode_topology, encode_topology
from omnigraph.engine.tables.version_cache import VersionCache
from omnigraph.engine.view import View
from omnigraph.options import Options
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.storage.derived_cache import DerivedCache
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import build_derived_key, build_version_key
from omnigraph.telemetry import log

T = TypeVar("T")

_MEMORY_DIVISOR = 4
_CGROUP_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
MIN_DERIVED_EDGES = 50_000
"""From so many edges on, a topology is kept for the next process."""
_REWRITE_SHARE = 0.1
"""The one that is kept is replaced when more of its edges than this have changed; less is quickly made good."""


class GraphCache:
    """One for each open graph. Keys are what tables hold, so branches with equal rows share what is kept."""

    def __init__(self, options: Options, derived: DerivedCache | None = None) -> None:
        limit = detect_memory_limit() // _MEMORY_DIVISOR if options.cache_bytes is None else options.cache_bytes
        self.lru = LruCache(limit)
        self._derived = derived if options.derived_cache else None
        self._has_derived: dict[str, bool] = {}
        self._writers: list[threading.Thread] = []
        self._versions = VersionCache()
        self._background_keys: set[Key] = set()
        self._lock = threading.Lock()
        keep_freed_memory()

    def get_reader(self, view: View, type_: AnyType) -> TableReader:
        """The rows of a type at its pin."""
        pin = view.snapshot.pin(type_.table_key)
        with self._lock:
            found = self._versions.get(view.snapshot, pin)
        if found is not None and found.type is type_:
            return found
        columns = ColumnStore(view.get_table(type_), self.lru) if found is None else found.columns
        made = TableReader(type_, columns)
        with self._lock:
            self._versions.add(view.snapshot, pin, made)
        return made

    def get_topology(self, view: View, edge: EdgeType, budget: Budget) -> Topology:
        """The shape under an edge type; DanglingEdgeError when an edge has a node that is not there."""
        tables = self._get_tables(view, edge)
        key = _build_topology_key(tables)
        return self.lru.get_or_build(
            key, lambda: self._build_topology(tables, key, budget), lambda made: made.nbytes, budget
        )

    def has_topology(self, view: View, edge: EdgeType) -> bool:
        """Whether `topology` is at hand, or nearly so: in memory, or made before by another process."""
        tables = self._get_tables(view, edge)
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
        """A value under a key of the caller's, made once; see `LruCache.keep`."""
        return self.lru.get_or_build(key, make, nbytes, budget)

    def get_stats(self) -> CacheStats:
        """What is kept now, and how often it was of use."""
        return self.lru.get_stats()

    def _get_tables(self, view: View, edge: EdgeType) -> TopologyTables:
        nodes = view.catalog.nodes
        return TopologyTables(
            *(self.get_reader(view, type_) for type_ in (edge, nodes[edge.source], nodes[edge.target]))
        )

    def _build_topology(self, tables: TopologyTables, key: Key, budget: Budget) -> Topology:
        """The topology of an earlier version with what changed, else all of it."""
        latest: Key = ("latest topology", *(rows.table.path for rows in tables.all))
        older_key = self.lru.get(latest)
        older = self.lru.get(older_key) if isinstance(older_key, tuple) else None
        if not isinstance(older, Topology):
            older = self._load_topology(tables)
        if older is not None and older.layouts.states == tables.layouts.states:
            made, is_worth_keeping = older, False
        else:
            ends, change = resolve_endpoints(tables, older, budget)
            made = Topology(tables.layouts, ends, change=change)
            is_worth_keeping = change is None or change.count > _REWRITE_SHARE * tables.edges.count
            if older is not None and is_earlier(tables.layouts.edges, older.layouts.edges):
                is_worth_keeping = False  # who looks back does not take the place of the newest
        made.on_growth = _build_growth_listener(self.lru, key)
        self.lru.put(latest, key, 256)
        if is_worth_keeping:
            self._store_topology(tables, made)
        return made

    # --- beside the tables ---------------------------------------------------------------------------

    def _load_topology(self, tables: TopologyTables) -> Topology | None:
        """What another process has made of these tables, now or at an earlier version."""
        if self._derived is None or tables.edges.count < MIN_DERIVED_EDGES:
            return None
        data = self._derived.read(_build_derived_key(tables))
        return None if data is None else decode_topology(data)

    def _store_topology(self, tables: TopologyTables, topology: Topology) -> None:
        """Have a topology written for the next process, when it is worth it."""
        if tables.edges.count >= MIN_DERIVED_EDGES:
            sources = [rows.table for rows in tables.all]
            self.store_derived(_build_derived_key(tables), sources, lambda: encode_topology(topology))

    def read_derived(self, key: str) -> memoryview | None:
        """What another process has kept under a key, or None; whoever reads it must tell whether it is sound."""
        return None if self._derived is None else self._derived.read(key)

    def store_derived(
        self, key: str, sources: Sequence[LanceTable], encode: Callable[[], list[memoryview | bytes]]
    ) -> None:
        """Have something written for the next process, by a thread of its own: the query that made it does not wait.

        `sources` are the tables that it was derived from. A cleanup removes versions of tables first, then their data
        files, then what was derived from those: so if the versions are there after the write, a cleanup that collects
        them later finds the object; and if not, it is removed here.
        """
        derived = self._derived
        if derived is None or derived.is_read_only:
            return

        def write() -> None:
            try:
                is_kept = derived.write(key, encode())
                if is_kept and not all(derived.exists(build_version_key(one.path, one.version)) for one in sources):
                    derived.remove(key)
                    is_kept = False
                self._has_derived[key] = is_kept
            except Exception:  # noqa: BLE001 - nothing that goes wrong here is in anybody's way
                log.warning("could not keep %s for the next process", key, exc_info=True)

        writer = threading.Thread(target=write, name="omnigraph-derived")
        with self._lock:
            self._writers = [*(one for one in self._writers if one.is_alive()), writer]
        writer.start()

    def build_in_background(self, key: Key, make: Callable[[Callable[[], None]], T], keep: Callable[[T], None]) -> None:
        """Have something made by a thread of its own, for later queries; what is going on or failed is not begun again.

        `make` is handed what it has to call now and then: it gives up when the process ends.
        """

        def work() -> None:
            try:
                keep(make(_check_process_alive))
                self._background_keys.discard(key)
            except _ProcessEndsError:
                pass
            except Exception:  # noqa: BLE001 - queries are answered without it
                log.warning("could not make %s", key, exc_info=True)

        with self._lock:
            if key in self._background_keys:
                return
            self._background_keys.add(key)
            worker = threading.Thread(target=work, name="omnigraph-meanwhile")
            self._writers = [*(one for one in self._writers if one.is_alive()), worker]
        worker.start()

    def wait_for_workers(self) -> None:
        """Wait until what is being made or written for later is there."""
        for writer in self._writers:
            writer.join()


class _ProcessEndsError(Exception):
    """Nobody will ask any more."""


def _build_growth_listener(kept: LruCache, key: Key) -> Callable[[Topology], None]:
    """Tells a cache of a topology that has grown. It does not hold the cache: that goes with its handle, at once."""
    there = weakref.ref(kept)

    def grown(topology: Topology) -> None:
        cache = there()
        if cache is not None:
            cache.update_size(key, topology, topology.nbytes)

    return grown


def _check_process_alive() -> None:
    if not threading.main_thread().is_alive():
        raise _ProcessEndsError


def _build_derived_key(tables: TopologyTables) -> str:
    return build_derived_key("topology", [rows.table.path for rows in tables.all])


def _build_topology_key(tables: TopologyTables) -> Key:
    return ("topology", *(rows.columns.state for rows in tables.all))


def detect_memory_limit() -> int:
    """The bytes of memory that this process may use: the machine's, or what its container is allowed."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _CGROUP_LIMIT_FILES:
        with suppress(OSError, ValueError):  # there is no such limit, or it is the word `max`
            found = min(found, int(Path(limit).read_text()))
    return found
