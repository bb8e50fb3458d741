"""The per-branch mutex: threads of one process take turns at the swap instead of racing for it."""

import threading
from collections import defaultdict

_guard = threading.Lock()
_branch_locks: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)


def get_branch_lock(graph_uri: str, manifest_path: str) -> threading.Lock:
    """Return the lock of one branch of one graph, the same for every handle of this process."""
    with _guard:
        return _branch_locks[graph_uri, manifest_path]
