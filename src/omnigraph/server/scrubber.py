"""The scrub of a server: each of its graphs is verified slowly, in a thread of its own that gives way to requests."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from omnigraph.ops.scrub import Scrub, ScrubReport
from omnigraph.server.graph_registry import ServedGraph

_SECONDS_TO_STOP = 5.0
_START_SECONDS = 60.0
"""A server that starts has other things to read first."""
_MAX_WAIT_SECONDS = 3_600.0
"""Within an hour it is looked whether something is due, whatever became of the clock meanwhile."""
_BUSY_SECONDS = 0.5
_MAX_BUSY_WAITS = 20
"""How long, and how often at the most, a step waits while requests are at work.

A server that never rests still verifies 4 MiB in ten seconds: a terabyte in 29 days.
"""


class Scrubber:
    """Scrubs graphs until it is stopped. It is nobody's actor: no policy is asked."""

    def __init__(self, graphs: Iterable[ServedGraph], days: float, is_busy: Callable[[], bool]) -> None:
        """Take in how many days all files of a graph are verified once, above 0, and who tells whether requests run."""
        self._is_busy = is_busy
        self._stopped = threading.Event()
        self._scrubs = {
            hosted.id: Scrub(hosted.config.uri, replace(hosted.runtime, policy=None), days) for hosted in graphs
        }
        self._threads = [
            threading.Thread(target=self._run, args=(scrub,), name=f"scrub {name}", daemon=True)
            for name, scrub in self._scrubs.items()
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End behind the chunk that is being read; a store that hangs is not waited for longer than a few seconds."""
        self._stopped.set()
        deadline = time.monotonic() + _SECONDS_TO_STOP
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def collect_reports(self) -> dict[str, ScrubReport]:
        """Return how far the scrub of each graph is."""
        return {name: scrub.report() for name, scrub in self._scrubs.items()}

    def _run(self, scrub: Scrub) -> None:
        rest = _START_SECONDS
        while not self._stopped.wait(min(rest, _MAX_WAIT_SECONDS)):
            self._yield_to_requests()
            if not self._stopped.is_set():
                rest = scrub.step()
        scrub.close()

    def _yield_to_requests(self) -> None:
        for _ in range(_MAX_BUSY_WAITS):
            if not self._is_busy() or self._stopped.wait(_BUSY_SECONDS):
                return
