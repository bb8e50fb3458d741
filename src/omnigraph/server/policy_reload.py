"""Policies that are read again when their files change, while a server runs."""

import threading
from pathlib import Path

from omnigraph.clock import Clock
from omnigraph.errors import OmnigraphError
from omnigraph.policy import Access, Decision
from omnigraph.server.cedar_policies import SUFFIX, CedarPolicies, GraphPolicy
from omnigraph.telemetry import log

_POLL_SECONDS = 1.0
"""How often a directory is looked at, at most."""

_Signature = tuple[tuple[str, int, int, int], ...]


class ReloadingPolicies:
    """The policies of a directory as they are now. Safe from several threads.

    A change counts within a second, and all at once. While what is there can't be read or understood, what was there
    last counts, and the log says so: saving files one after the other neither locks out nor lets in anybody. To take a
    right away for good, look at the log for the line that says that the policies were read again.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        """PoliciesError when they can't be used from the start."""
        self._directory, self._clock = directory, clock
        self._lock = threading.Lock()
        self._checked_at = clock.monotonic()
        self._last_signature = _read_signature(directory)
        self._policies = CedarPolicies.load(directory)

    @property
    def examples(self) -> tuple[str, ...]:
        """Names of branches that the policies make a difference for."""
        return self._load_current().examples

    def decide(self, graph: str, access: Access) -> Decision:
        """Whether somebody may do something to a graph of the server."""
        return self._load_current().decide(graph, access)

    def of_graph(self, graph: str) -> GraphPolicy:
        """The same for one graph."""
        return GraphPolicy(self, graph)

    def _load_current(self) -> CedarPolicies:
        now = self._clock.monotonic()
        if now - self._checked_at < _POLL_SECONDS:
            return self._policies
        with self._lock:
            if now - self._checked_at < _POLL_SECONDS:
                return self._policies
            self._checked_at = now
            seen = _read_signature(self._directory)
            if seen != self._last_signature:
                self._last_signature = seen
                self._reload()
            return self._policies

    def _reload(self) -> None:
        try:
            self._policies = CedarPolicies.load(self._directory)
        except (OmnigraphError, OSError) as error:
            log.error("changed policies can't be used; those from before are: %s", error)
            return
        log.info("the policies were read again: %d", len(self._policies.names))


def _read_signature(directory: Path) -> _Signature:
    found = []
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            stat = path.stat()
        except OSError:  # it went away between the two looks: the next one sees that
            continue
        found.append((path.name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(sorted(found))
