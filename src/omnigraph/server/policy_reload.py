"""Cedar policies that a running server reloads when their files change."""

import math
import threading
from pathlib import Path

from omnigraph.clock import Clock
from omnigraph.errors import OmnigraphError
from omnigraph.policy import Access, Actor, Decision
from omnigraph.row_rules import RowRules
from omnigraph.server.cedar_policies import SUFFIX, CedarPolicies
from omnigraph.telemetry import log

# The minimum time between two checks of the directory, which every decision would list otherwise.
_POLL_SECONDS = 1.0

_Signature = tuple[tuple[str, int, int, int], ...]


class ReloadingPolicies:
    """The current policies of a directory, reloaded when its files change. Thread-safe.

    A change takes effect within a second, all files together. While the files can't be read or parsed, the last valid
    policies stay in use and the log reports it, so saving several files one after the other neither locks users out nor
    lets them in. After revoking a permission, check that the log reports the reload.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        """Load the policies of a directory.

        Raises:
            SettingsError: They can't be used.
        """
        self._directory, self._clock = directory, clock
        self._lock = threading.Lock()
        self._checked_at = clock.monotonic()
        # The signature comes first: a file that changes while it is loaded is loaded again at the next check.
        self._last_signature = _read_signature(directory)
        self._policies = CedarPolicies.load(directory)

    @property
    def examples(self) -> tuple[str, ...]:
        """Branch names that the policies may treat specially, see `CedarPolicies.examples`."""
        return self._load_current().examples

    def reload(self) -> None:
        """Read the files again if they changed, without waiting for the next check."""
        self._checked_at = -math.inf
        self._load_current()

    def decide(self, graph: str, access: Access) -> Decision:
        """Return whether an actor may perform an action on a graph, and the policies that decided it."""
        return self._load_current().decide(graph, access)

    def find_row_rules(self, graph: str, actor: Actor, branch: str | None, query: str | None) -> RowRules | None:
        """Return which rows of a branch of a graph an actor sees; None means all."""
        return self._load_current().find_row_rules(graph, actor, branch, query)

    def names_type(self, name: str) -> bool:
        """Return whether a rule about rows may name a type."""
        return self._load_current().names_type(name)

    def _load_current(self) -> CedarPolicies:
        now = self._clock.monotonic()
        if now - self._checked_at < _POLL_SECONDS:
            return self._policies
        with self._lock:
            # Another thread may have checked while this one waited for the lock.
            if now - self._checked_at < _POLL_SECONDS:
                return self._policies
            self._checked_at = now
            signature = _read_signature(self._directory)
            if signature != self._last_signature:
                self._last_signature = signature
                self._reload()
            return self._policies

    def _reload(self) -> None:
        try:
            self._policies = CedarPolicies.load(self._directory)
        except (OmnigraphError, OSError) as error:
            log.error("the changed policies can't be used; the previous ones stay in use: %s", error)
            return
        log.info("the policies were reloaded: %d", len(self._policies.names))


def _read_signature(directory: Path) -> _Signature:
    signatures = []
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            stat = path.stat()
        except OSError:  # removed since the directory was listed: the next check sees that
            continue
        signatures.append((path.name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(sorted(signatures))
