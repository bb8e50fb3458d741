"""Keep the tails of tables short: after small writes, compact the newest small fragments, so that commits stay cheap.

A commit adds a fragment to each table that it writes, and every later commit and cold read pays for it: without
maintenance, the CPU time of a one-row insert grew from 10 ms at 30 commits to 125 ms at 1,580. The work is done after
the answer, in a thread that no call waits for, or when a handle of a short-lived process is closed (decision 69).
"""

import atexit
import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.concurrency import ProcessState, Thread, create_event, create_lock, create_thread
from omnigraph.errors import OmnigraphError
from omnigraph.options import Maintenance, Options
from omnigraph.storage.lance_table import count_small_fragments
from omnigraph.telemetry import log

if TYPE_CHECKING:
    from omnigraph.commit.manifest_types import Snapshot
    from omnigraph.ops.session import Session

# The maximum number of writes of a table between two counts of its fragments, which take a microsecond for each; also
# the number of writes to wait for after an attempt, which another process or a deadline may have prevented.
MAX_UNCOUNTED_WRITES = 8
# Tables, each on its branch, whose writes are counted. Beyond that the counts start again.
MAX_COUNTED_TABLES = 4_096
# The number of fragments that closing a handle compacts: 33 took 32 ms, 128 took 133 ms.
MAX_FRAGMENTS_AT_CLOSE = 40
# How long an interpreter that exits waits for work in progress; a step takes less than a second on a local disk. If the
# process ends earlier, recovery removes the files.
_SECONDS_AT_EXIT = 5.0

# The thread rests this many times as long as it has worked. Beside 64 writers on an object store a compaction takes a
# second, in which as many fragments are written: without rest it would always run, and writers would share the store.
_REST_FACTOR = 4.0
_MAX_REST_SECONDS = 60.0


class _Workers:
    """The threads of this process that compact, and the event that ends them."""

    def __init__(self) -> None:
        self.is_exiting = create_event()
        self._threads: list[Thread] = []

    def start(self, thread: Thread) -> None:
        """Start a thread, which is stopped when the interpreter exits."""
        if not self._threads:
            # Once: registering it again moves it, so that it runs before what was registered since.
            atexit.unregister(self.stop)
            atexit.register(self.stop)
        self._threads = [*(other for other in self._threads if other.is_alive()), thread]
        thread.start()

    def stop(self) -> None:
        """End the work in progress when the interpreter exits, waiting for a limited time."""
        self.is_exiting.set()
        deadline = monotonic() + _SECONDS_AT_EXIT
        for thread in self._threads:
            thread.join(max(deadline - monotonic(), 0))


_workers = ProcessState(_Workers)


CompactTail: TypeAlias = "Callable[[Session, str, Callable[[], bool], int], object]"
"""Compacts the tail of a table: see `auto_maintenance.compact_tail`."""


class TailKeeper:
    """Find tails that are due after writes, and have them compacted. Thread-safe; shared by the sessions of a graph.

    No error reaches a writer: it is logged, and a later write tries again.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        # Set by the handle of the graph, which imports the modules of compaction only when they are needed.
        self.compact: CompactTail | None = None
        self._lock = create_lock()
        # By branch and table, the number of writes until its fragments are counted again.
        self._waits: dict[tuple[str, str], int] = {}
        self._due: dict[tuple[str, str], Session] = {}
        self._thread: Thread | None = None
        self._rests_until = 0.0

    def on_write(self, session: "Session", snapshot: "Snapshot", table_keys: Sequence[str]) -> None:
        """Count the small fragments of tables that a commit has just written, and start compacting where it is due."""
        if self.compact is None or self._options.maintenance is Maintenance.OFF:
            return
        for table_key in table_keys:
            place = (session.log.path, table_key)
            with self._lock:
                wait = self._waits.get(place, 1) - 1
                self._waits[place] = wait
            if wait > 0:
                continue
            try:
                self._count(session, snapshot, place)
            except Exception:  # noqa: BLE001 - the write is committed, and must not fail any more
                log.warning("the fragments of %s were not counted", table_key, exc_info=True)

    def close(self) -> None:
        """Compact what is due, within the time that the options allow; without such a limit, do nothing."""
        seconds = self._options.maintenance_seconds
        if seconds is None:
            return
        # Other threads may still write.
        with self._lock:
            due, self._due = self._due, {}
        deadline = monotonic() + seconds
        for (_, table_key), session in due.items():
            self._compact(session, table_key, lambda: monotonic() > deadline, MAX_FRAGMENTS_AT_CLOSE)

    def wait(self, seconds: float) -> bool:
        """Wait until no thread works, for tests and measurements; return whether that was within the time."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def _count(self, session: "Session", snapshot: "Snapshot", place: tuple[str, str]) -> None:
        upkeep = self._options.upkeep
        pin = snapshot.pin(place[1])
        # The version is in the cache: it was just created.
        excess = count_small_fragments(session.handles, pin.path, pin.version, upkeep.tail_rows) - upkeep.tail_fragments
        max_wait = max(min(upkeep.tail_fragments, MAX_UNCOUNTED_WRITES), 1)
        # Each write adds about one fragment.
        wait = max_wait if excess > 0 else min(1 - excess, max_wait)
        is_short_lived = self._options.maintenance_seconds is not None
        with self._lock:
            if len(self._waits) > MAX_COUNTED_TABLES:
                self._waits.clear()
            self._waits[place] = wait
            # On a slow disk no process may have the time: only one in some tries.
            if excess <= 0 or (is_short_lived and (excess - 1) % max_wait):
                return
            self._due[place] = session
            if not is_short_lived and (self._thread is None or not self._thread.is_alive()):
                self._thread = create_thread(self._run, "maintain", daemon=True)
                _workers.get().start(self._thread)

    def _compact(self, session: "Session", table_key: str, is_stopped: Callable[[], bool], max_fragments: int) -> None:
        """Compact the tail of a table; an error is logged."""
        assert self.compact is not None  # noqa: S101 - without it, nothing is due
        try:
            self.compact(session, table_key, is_stopped, max_fragments)
        except OmnigraphError as error:
            log.info("the tail of %s was not compacted: %s", table_key, error)
        except Exception:  # noqa: BLE001 - no caller is there to get it
            log.warning("the tail of %s was not compacted", table_key, exc_info=True)

    def _run(self) -> None:
        """Compact what is due until nothing is."""
        is_exiting = _workers.get().is_exiting
        while True:
            with self._lock:
                if not self._due or is_exiting.is_set():
                    # Under the lock: a writer sees either the thread, which will see its table, or none.
                    self._thread = None
                    return
                (_, table_key), session = self._due.popitem()
            is_exiting.wait(max(self._rests_until - monotonic(), 0))
            start = monotonic()
            self._compact(session, table_key, is_exiting.is_set, sys.maxsize)
            end = monotonic()
            self._rests_until = end + min((end - start) * _REST_FACTOR, _MAX_REST_SECONDS)
