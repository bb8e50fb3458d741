"""The per-branch mutex: threads of one process take turns at the swap instead of racing for it."""

from collections import defaultdict

from omnigraph.concurrency import Mutex, ProcessState, create_lock


class _BranchLocks:
    """The locks of all branches of all graphs."""

    def __init__(self) -> None:
        self._guard = create_lock()
        self._locks: defaultdict[tuple[str, str], Mutex] = defaultdict(create_lock)

    def get(self, graph_uri: str, manifest_path: str) -> Mutex:
        """Return the lock of one branch."""
        with self._guard:
            return self._locks[graph_uri, manifest_path]


_branch_locks = ProcessState(_BranchLocks)


def get_branch_lock(graph_uri: str, manifest_path: str) -> Mutex:
    """Return the lock of one branch of one graph, the same for every handle of this process."""
    return _branch_locks.get().get(graph_uri, manifest_path)
