"""How a process of Spark reaches the tables of a graph: what it is told, and what it keeps open."""

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

_MAX_OPEN_GRAPHS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLocation:
    """Where a graph is, for another process: its address, and what its driver was told about the object store."""

    uri: str
    storage: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_session(cls, session: Session) -> "GraphLocation":
        """The place of an open graph."""
        storage = session.store.lance_options or {}
        return cls(uri=session.uri, storage=tuple(sorted(storage.items())))

    @classmethod
    def from_options(cls, uri: str, storage: str | None) -> "GraphLocation":
        """As `encode_storage` wrote it."""
        given: dict[str, str] = json.loads(storage) if storage else {}
        return cls(uri=uri, storage=tuple(sorted(given.items())))

    def encode_storage(self) -> str | None:
        """The settings of the object store as one text; None when there are none."""
        return json.dumps(dict(self.storage)) if self.storage else None

    def open_store(self) -> GraphStorage:
        """Its storage, opened once in each process."""
        return _open_handles(self).store

    def open_table(self, path: str, version: int) -> LanceTable:
        """A table at its pin; what was opened once is kept, since Python workers live long."""
        return LanceTable(_open_handles(self), path, version)


@lru_cache(maxsize=_MAX_OPEN_GRAPHS)
def _open_handles(place: GraphLocation) -> TableCache:
    runtime = Runtime(options=Options(storage=dict(place.storage)))
    return build_explaining_handles(GraphStorage(parse_uri(place.uri), runtime))
