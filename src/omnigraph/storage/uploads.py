"""Write small files to an object store in the background, so that a chain of writes waits for their requests once.

The flush before a swap waits for a file, as do a read of it or of its table, and its removal.
"""

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from omnigraph.concurrency import ProcessState, create_pool

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

# Requests at the same time: as many as a group of 64 writes with two files each needs for four rounds.
_THREADS: Final = 32


class Uploads:
    """The files that this process is writing, by their URIs, for all handles of all graphs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: Executor | None = None
        self._running: dict[str, Future[object]] = {}

    def start(self, uri: str, put: Callable[[], object]) -> None:
        """Call `put`, which writes the file, in another thread."""
        with self._lock:
            if self._pool is None:
                self._pool = create_pool(_THREADS, "upload")
        # Not under the lock: a pool that runs its tasks at once makes the request here, while others go on.
        # No one looks for the file before it is named, and that is after this.
        future = self._pool.submit(put)
        with self._lock:
            self._running[uri] = future

    def wait(self, uris: Iterable[str]) -> None:
        """Wait until these files are written. Raises the error of one that failed."""
        for uri in uris:
            future = self._running.get(uri)
            if future is not None:
                # One that failed stays until it is discarded, so that no one takes it for written.
                future.result()
                with self._lock:
                    self._running.pop(uri, None)

    def wait_below(self, prefix: str) -> None:
        """Wait for the files whose URIs begin with `prefix`. One that failed is reported by its reader as missing."""
        if self._running:
            with self._lock:
                futures = [future for uri, future in self._running.items() if uri.startswith(prefix)]
            for future in futures:
                future.exception()

    def discard(self, uri: str) -> None:
        """Wait for a file that is about to be removed, whether it was written or not."""
        future = self._running.get(uri)
        if future is not None:
            future.exception()
            with self._lock:
                self._running.pop(uri, None)


UPLOADS = ProcessState(Uploads)
