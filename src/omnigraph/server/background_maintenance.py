"""Background threads of a server that recover and optimize its writable graphs."""

import threading
from collections.abc import Iterable
from dataclasses import replace

from omnigraph.concurrency import create_event, create_thread
from omnigraph.errors import OmnigraphError
from omnigraph.ops.auto_maintenance import ReconcilePolicy, Reconciler
from omnigraph.ops.open import heal, open_session
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.telemetry import log

# How long a stopping server waits for a thread. A crash would do no harm either, so it need not wait for the end.
_SECONDS_TO_STOP = 5.0


class Healer:
    """A thread that recovers interrupted operations of other processes while the server runs.

    Recovery otherwise happens when a graph is opened, and a server keeps its graphs open. Each round costs one listing
    per graph.
    """

    def __init__(self, graphs: Iterable[ServedGraph], every_seconds: float) -> None:
        self._graphs = graphs
        self._every = every_seconds
        self._stopped = create_event()
        self._thread = create_thread(self._run, "recover", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the graph in progress, waiting for at most a few seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS_TO_STOP)

    def heal_all(self) -> None:
        """Recover interrupted operations of every open graph."""
        for hosted in self._graphs:
            session = None if hosted.config.is_read_only else hosted.session
            if session is not None and not self._stopped.is_set():
                heal(session, session.branches.main.peek_head(), spares_live=True)

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self.heal_all()


class MaintenanceWorker:
    """Threads that optimize graphs until they are stopped, one per writable graph. No policy applies to them."""

    def __init__(self, graphs: Iterable[ServedGraph], policy: ReconcilePolicy) -> None:
        policy.check()
        self._policy = policy
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._running: dict[int, Reconciler] = {}
        self._graphs = list(graphs)
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        for hosted in self._graphs:
            self.add(hosted)

    def add(self, hosted: ServedGraph) -> None:
        """Start a thread for a graph."""
        if not hosted.config.is_read_only:
            thread = threading.Thread(target=self._maintain, args=(hosted,), name=f"maintain {hosted.id}", daemon=True)
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            thread.start()

    def remove(self, hosted: ServedGraph) -> None:
        """End the thread of a graph after the step in progress."""
        with self._lock:
            reconciler = self._running.get(id(hosted))
            if reconciler is not None:
                reconciler.stop()

    def stop(self) -> None:
        """Stop after the step in progress, waiting for at most a few seconds per graph."""
        # The lock orders this with `_maintain`: a reconciler is either in the list here, or sees the event there.
        with self._lock:
            self._stopped.set()
            for reconciler in self._running.values():
                reconciler.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_SECONDS_TO_STOP)

    def _maintain(self, hosted: ServedGraph) -> None:
        # The server itself acts here, not an actor of its policies.
        runtime = replace(hosted.runtime, policy=None)
        while not self._stopped.is_set() and not hosted.is_removed:
            try:
                session = open_session(hosted.config.uri, is_read_only=False, runtime=runtime)
            except OmnigraphError as error:
                log.warning("maintenance of graph %s failed and will be retried: %s", hosted.id, error)
                self._stopped.wait(self._policy.every_seconds)
                continue
            reconciler = Reconciler(session, self._policy)
            with self._lock:
                self._running[id(hosted)] = reconciler
                if self._stopped.is_set() or hosted.is_removed:
                    reconciler.stop()
            reconciler.run()
            with self._lock:
                del self._running[id(hosted)]
            return
