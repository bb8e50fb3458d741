"""How a process of Spark reaches the tables of a graph: what it is told, and what it keeps open."""

import json
from dataclasses import dataclass
from functools import lru_cache

from omnigraph.commit.pin_usage import explained_handles
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.storage.graph_storage import Store
from omnigraph.storage.lance_table import Table
from omnigraph.storage.table_cache import Handles
from omnigraph.storage.uri import parse_uri

_OPEN_GRAPHS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a graph is, for another process: its address, and what its driver was told about the object store."""

    uri: str
    storage: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, session: Session) -> "Place":
        """The place of an open graph."""
        storage = session.store.lance_options or {}
        return cls(uri=session.uri, storage=tuple(sorted(storage.items())))

    @classmethod
    def from_options(cls, uri: str, storage: str | None) -> "Place":
        """As `storage_text` wrote it."""
        given: dict[str, str] = json.loads(storage) if storage else {}
        return cls(uri=uri, storage=tuple(sorted(given.items())))

    def storage_text(self) -> str | None:
        """The settings of the object store as one text; None when there are none."""
        return json.dumps(dict(self.storage)) if self.storage else None

    def store(self) -> Store:
        """Its storage, opened once in each process."""
        return _handles(self).store

    def table(self, path: str, version: int) -> Table:
        """A table at its pin; what was opened once is kept, since Python workers live long."""
        return Table(_handles(self), path, version)


@lru_cache(maxsize=_OPEN_GRAPHS)
def _handles(place: Place) -> Handles:
    runtime = Runtime(options=Options(storage=dict(place.storage)))
    return explained_handles(Store(parse_uri(place.uri), runtime))
