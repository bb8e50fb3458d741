"""Background scrubbing of a server's graphs: one thread per graph verifies files slowly and yields to requests."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from omnigraph.ops.scrub import Scrub, ScrubReport
from omnigraph.server.graph_registry import ServedGraph

_SECONDS_TO_STOP = 5.0
# The delay of the first step: a server that starts has other data to read first.
_START_SECONDS = 60.0
# A thread checks at least every hour whether a pass is due, in case the clock was changed in the meantime.
_MAX_WAIT_SECONDS = 3_600.0
# A step waits up to 20 times half a second while requests run. So even a server that is always busy verifies 4 MiB in
# ten seconds, which is a terabyte in 29 days.
_BUSY_SECONDS = 0.5
_MAX_BUSY_WAITS = 20


class Scrubber:
    """Threads that scrub graphs until they are stopped. No policy applies to them."""

    def __init__(self, graphs: Iterable[ServedGraph], days: float, is_busy: Callable[[], bool]) -> None:
        """Set the days for one pass over all files of a graph (above 0), and the check for running requests."""
        self._is_busy = is_busy
        self._stopped = threading.Event()
        self._days = days
        self._graphs = list(graphs)
        # Replaced, never changed: reports are collected at any time.
        self._scrubs: dict[str, Scrub] = {hosted.id: self._build(hosted) for hosted in self._graphs}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        for hosted in self._graphs:
            self._start(hosted, self._scrubs[hosted.id])

    def add(self, hosted: ServedGraph) -> None:
        """Start a thread for a graph."""
        scrub = self._build(hosted)
        self._scrubs = {**self._scrubs, hosted.id: scrub}
        self._start(hosted, scrub)

    def remove(self, hosted: ServedGraph) -> None:
        """Report a graph no longer; its thread ends before its next step."""
        self._scrubs = {name: scrub for name, scrub in self._scrubs.items() if name != hosted.id}

    def stop(self) -> None:
        """Stop after the chunk in progress, waiting for at most a few seconds."""
        self._stopped.set()
        # One deadline for all threads: a store that does not respond must not delay the stop once per graph.
        deadline = time.monotonic() + _SECONDS_TO_STOP
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def collect_reports(self) -> dict[str, ScrubReport]:
        """Return the progress of each graph's scrub."""
        return {name: scrub.report() for name, scrub in self._scrubs.items()}

    def _build(self, hosted: ServedGraph) -> Scrub:
        return Scrub(hosted.config.uri, replace(hosted.runtime, policy=None), self._days)

    def _start(self, hosted: ServedGraph, scrub: Scrub) -> None:
        thread = threading.Thread(target=self._run, args=(hosted, scrub), name=f"scrub {hosted.id}", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _run(self, hosted: ServedGraph, scrub: Scrub) -> None:
        delay = _START_SECONDS
        while not self._stopped.wait(min(delay, _MAX_WAIT_SECONDS)) and not hosted.is_removed:
            self._yield_to_requests()
            if not self._stopped.is_set() and not hosted.is_removed:
                delay = scrub.step()
        scrub.close()

    def _yield_to_requests(self) -> None:
        for _ in range(_MAX_BUSY_WAITS):
            if not self._is_busy() or self._stopped.wait(_BUSY_SECONDS):
                return
