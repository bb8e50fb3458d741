"""Graphs that clients create and delete: those directly below a root, which several servers may share."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.config.server import HostedGraph, ServerConfig, is_graph_id
from omnigraph.errors import OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.locations import Location
from omnigraph.ops.create import create
from omnigraph.policy import Actor, DeniedError
from omnigraph.runtime import Runtime
from omnigraph.server.graph_registry import GraphRegistry
from omnigraph.server.http_errors import RequestLimitError, ResourceMissingError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import BRANCHES, MANIFEST
from omnigraph.storage.uri import parse_uri
from omnigraph.telemetry import log

# How often the root is listed for graphs that other servers and workers have created or deleted.
_REFRESH_SECONDS = 5.0
# On a disk, where a listing costs next to nothing.
_LOCAL_REFRESH_SECONDS = 1.0
# Ends the name of an object beside a graph that is being deleted, which no server opens from then on. It is directly
# below the root, so that one listing shows the graphs and these.
_MARKER = ".deleted"
# A deletion is completed by another server once its marker is this old: its own server has died.
_DEAD_SECONDS = 60.0


class GraphRoot:
    """The graphs below the root of a server. Thread-safe; a thread notices what other servers create and delete."""

    def __init__(self, config: ServerConfig, runtime: Runtime, registry: GraphRegistry) -> None:
        self._limit = config.max_created_graphs
        self._runtime = replace(runtime, policy=None)
        self._registry = registry
        self._location = None if config.graph_root is None else parse_uri(config.graph_root)
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="list graphs", daemon=True)

    def start(self) -> None:
        """Serve the graphs that are there, and begin to look for others; do nothing without a root.

        Raises:
            OmnigraphError: The root can't be listed.
        """
        if self._location is not None:
            self.refresh()
            self._thread.start()

    def stop(self) -> None:
        """Stop looking for graphs."""
        self._stopped.set()

    def create(self, graph: str, schema: str, actor: Actor) -> str:
        """Create a graph with a name that `is_graph_id` accepts, and serve it; return the id of its first commit.

        Raises:
            DeniedError: There is no root.
            PlaceTakenError: The name is taken.
            RequestLimitError: There are too many graphs.
                SourceError: The schema has errors.
        """
        location = self._require_root()
        with self._claim(graph):
            self._check_free(graph)
            uri = location.join(graph).uri
            if self._find_marker(graph) is not None:
                raise PlaceTakenError.graph_exists(graph)
            try:
                session = create(uri, Source(schema, "schema.pg"), actor=actor.name, runtime=self._runtime)
            except PlaceTakenError:
                raise PlaceTakenError.graph_exists(graph) from None
            self._registry.add(HostedGraph(id=graph, uri=uri, is_created=True))
            return session.head().snapshot.commit.id

    def delete(self, graph: str) -> None:
        """Stop serving a graph, and remove its files.

        Raises:
            DeniedError: There is no root, or the graph is not below it.
            ResourceMissingError: There is no such graph.
        """
        location = self._require_root()
        hosted = self._registry.graphs.get(graph)
        if hosted is None:
            raise ResourceMissingError.graph_not_found(graph)
        if not hosted.config.is_created:
            raise DeniedError.graph_configured(graph)
        with self._claim(graph):
            # Marked first: should this process die, another completes it, and none serves half a graph.
            self._open_root().objects.put(f"{graph}{_MARKER}", b"")
            self._registry.remove(graph)
            self._remove_files(graph, location.join(graph))

    def refresh(self) -> None:
        """Serve graphs that are new below the root, and no longer those that are gone.

        Raises:
            OmnigraphError: The root can't be listed.
        """
        root = self._open_root()
        # Before the listing: a graph that is created after it is not missing.
        served = {name: hosted.config for name, hosted in self._registry.graphs.items()}
        children = root.objects.list_children()
        marked = set(filter(is_graph_id, (name.removesuffix(_MARKER) for name in children if name.endswith(_MARKER))))
        names = set(filter(is_graph_id, children)) - marked
        for name in sorted((names | marked) - served.keys()):
            try:
                with self._claim(name):
                    self._serve(name, root.location.join(name))
            except OmnigraphError as error:
                # It may be in use by a request, no graph, or damaged; it is looked at again the next time.
                log.debug("%s below the root is not served: %s", name, error)
        for name, config in served.items():
            if config.is_created and name not in names:
                self._registry.remove(name)

    def _serve(self, name: str, location: Location) -> None:
        """Serve a graph that is below the root, or complete its deletion.

        Raises:
            OmnigraphError: It can't be opened.
        """
        if name in self._registry.graphs:
            return
        age = self._find_marker(name)
        if age is None:
            self._registry.add(HostedGraph(id=name, uri=location.uri, is_created=True))
        elif age > _DEAD_SECONDS:
            self._remove_files(name, location)

    def _find_marker(self, graph: str) -> float | None:
        """Return for how many seconds a graph has been marked as deleted; None if it is not."""
        info = self._open_root().objects.stat(f"{graph}{_MARKER}")
        return None if info is None else (self._runtime.clock.now() - info.modified).total_seconds()

    def _check_free(self, graph: str) -> None:
        graphs = self._registry.graphs
        if graph in graphs:
            raise PlaceTakenError.graph_exists(graph)
        if sum(hosted.config.is_created for hosted in graphs.values()) >= self._limit:
            raise RequestLimitError.graphs_full(self._limit)

    @contextmanager
    def _claim(self, graph: str) -> Iterator[None]:
        """Keep other threads from creating, deleting or opening a graph of this name.

        Raises:
            PlaceTakenError: One does so already.
        """
        with self._lock:
            if graph in self._busy:
                raise PlaceTakenError.graph_exists(graph)
            self._busy.add(graph)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(graph)

    def _remove_files(self, graph: str, location: Location) -> None:
        """Remove the files of a graph that is marked as deleted, and then the marker."""
        _remove_files(GraphStorage(location, self._runtime))
        self._open_root().objects.delete(f"{graph}{_MARKER}")

    def _open_root(self) -> GraphStorage:
        return GraphStorage(self._require_root(), self._runtime)

    def _require_root(self) -> Location:
        if self._location is None:
            raise DeniedError.graphs_fixed()
        return self._location

    def _run(self) -> None:
        seconds = _LOCAL_REFRESH_SECONDS if self._require_root().is_local else _REFRESH_SECONDS
        while not self._stopped.wait(seconds):
            try:
                self.refresh()
            except OmnigraphError as error:
                log.warning("the graphs below the root can't be listed, and will be: %s", error)


def _remove_files(store: GraphStorage) -> None:
    """Remove the files of a graph that is marked as deleted.

    A write that is still running may leave files; they are no graph, and another one may be created beside them.
    """
    # The manifests first: a name that is used again soon has new tables, but manifests of the same names.
    first = [MANIFEST, BRANCHES]
    names = [*first, *(name for name in store.objects.list_children() if name not in first)]
    if store.location.is_local:
        root = Path(store.location.path)
        for name in names:
            shutil.rmtree(root / name, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)
        return
    for name in names:
        for key in [name, *(info.key for info in store.objects.list_under(name))]:
            store.objects.delete(key)
