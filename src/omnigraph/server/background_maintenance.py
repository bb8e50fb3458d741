"""Maintenance in the background of a server: a reconciler for each graph that may be written, if the settings ask."""

import threading
from collections.abc import Iterable
from dataclasses import replace

from omnigraph.errors import OmnigraphError
from omnigraph.ops.auto_optimize import ReconcilePolicy, Reconciler
from omnigraph.ops.open import heal, open_session
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.telemetry import log

_SECONDS_TO_STOP = 5.0


class Healer:
    """Settles operations of other processes that died, for as long as the server runs. One listing a graph and round.

    A graph that is open stays open: without this, a server would never look for them again.
    """

    def __init__(self, graphs: Iterable[ServedGraph], every_seconds: float) -> None:
        self._graphs = [hosted for hosted in graphs if not hosted.config.is_read_only]
        self._every = every_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recover", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the graph that is being looked at; a crash would do no harm either."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS_TO_STOP)

    def heal_all(self) -> None:
        """Look at every graph that is open."""
        for hosted in self._graphs:
            session = hosted.session
            if session is not None and not self._stopped.is_set():
                heal(session, session.branches.main.peek_head(), spares_live=True)

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self.heal_all()


class MaintenanceWorker:
    """Looks after graphs in threads of its own, until it is stopped. It is nobody's actor: no policy is asked."""

    def __init__(self, graphs: Iterable[ServedGraph], policy: ReconcilePolicy) -> None:
        policy.check()
        self._policy = policy
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._running: list[Reconciler] = []
        self._threads = [
            threading.Thread(target=self._maintain, args=(hosted,), name=f"maintain {hosted.id}", daemon=True)
            for hosted in graphs
            if not hosted.config.is_read_only
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let what is being worked on be finished, and don't wait for it for long: a crash would do no harm either."""
        with self._lock:
            self._stopped.set()
            for reconciler in self._running:
                reconciler.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_SECONDS_TO_STOP)

    def _maintain(self, hosted: ServedGraph) -> None:
        runtime = replace(hosted.runtime, policy=None)
        while not self._stopped.is_set():
            try:
                session = open_session(hosted.config.uri, is_read_only=False, runtime=runtime)
            except OmnigraphError as error:
                log.warning("maintenance of the graph %s is tried again later: %s", hosted.id, error)
                self._stopped.wait(self._policy.every_seconds)
                continue
            reconciler = Reconciler(session, self._policy)
            with self._lock:
                self._running.append(reconciler)
                if self._stopped.is_set():
                    reconciler.stop()
            reconciler.run()
            return
