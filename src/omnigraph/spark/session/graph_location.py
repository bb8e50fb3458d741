"""Open a graph's tables in Spark's processes, from its URI and the settings of its object store."""

import json
from dataclasses import dataclass
from functools import lru_cache

from omnigraph.commit.pin_usage import build_explaining_handles
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri

# Python workers outlive tasks and jobs, so they may serve several graphs, one after another.
_MAX_OPEN_GRAPHS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLocation:
    """The location of a graph, for another process: its URI, and the driver's settings for the object store."""

    uri: str
    storage: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_session(cls, session: Session) -> "GraphLocation":
        """Return the location of an open graph."""
        storage = session.store.lance_options or {}
        return cls(uri=session.uri, storage=tuple(sorted(storage.items())))

    @classmethod
    def from_options(cls, uri: str, storage: str | None) -> "GraphLocation":
        """Return a location from its URI and its storage settings as JSON."""
        settings: dict[str, str] = json.loads(storage) if storage else {}
        return cls(uri=uri, storage=tuple(sorted(settings.items())))

    def open_store(self) -> GraphStorage:
        """Return the graph's storage, which is opened once per process."""
        return _open_handles(self).store

    def open_table(self, path: str, version: int) -> LanceTable:
        """Return a table at a version; open tables are cached, since Python workers live long."""
        return LanceTable(_open_handles(self), path, version)


@lru_cache(maxsize=_MAX_OPEN_GRAPHS)
def _open_handles(location: GraphLocation) -> TableCache:
    runtime = Runtime(options=Options(storage=dict(location.storage)))
    return build_explaining_handles(GraphStorage(parse_uri(location.uri), runtime))
