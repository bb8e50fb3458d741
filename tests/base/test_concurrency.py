"""Locks and events come from one place, and every simulated process has its own state."""

import ast
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnigraph import concurrency
from omnigraph.concurrency import Event, Lock, Mutex, ProcessState, SystemBackend, Thread

SOURCE = Path(concurrency.__file__).parent
WAITING_NAMES = {"Lock", "RLock", "Event", "Condition", "Semaphore", "Barrier", "Thread"}
LEAVES = {
    "storage/blob_sources.py": "guards a dictionary",
    "storage/compaction.py": "a thread that looks at open files while Lance compacts",
    "storage/file_copy.py": "copies of a clone, in a pool",
    "storage/fragment_writer.py": "feeds Lance, which reads batches in a thread of its own",
    "storage/io_counters.py": "guards counters",
    "storage/local_encoding.py": "guards a setting of the process",
    "storage/object_store.py": "a store of tests",
    "storage/uploads.py": "starts a pool",
    "ops/clone_tables.py": "progress of a pool",
    "ops/evaluation_cost.py": "guards a number",
}
"""Locks that are held for a moment, never during a request, and threads that nothing waits for."""


class TwoProcesses(SystemBackend):
    """A backend whose threads belong to the process that their name says."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = 0
        self.states: dict[str, dict[object, object]] = {}

    def create_lock(self) -> Mutex:
        self.locks += 1
        return super().create_lock()

    def get_states(self) -> dict[object, object]:
        return self.states.setdefault(threading.current_thread().name, {})


@pytest.fixture
def two_processes() -> Iterator[TwoProcesses]:
    backend = TwoProcesses()
    concurrency.install(backend)
    yield backend
    concurrency.install(None)


def run_as(process: str, function: Callable[[], object]) -> object:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(function()), name=process)
    thread.start()
    thread.join()
    return results[0]


def test_the_system_has_the_locks_of_the_standard_library() -> None:
    lock: Mutex = concurrency.create_lock()
    again: Lock = concurrency.create_rlock()
    event: Event = concurrency.create_event()
    done: list[int] = []
    thread: Thread = concurrency.create_thread(lambda: done.append(1), "worker")

    thread.start()
    thread.join()

    assert done == [1]
    assert type(lock) is type(threading.Lock())
    assert type(again) is type(threading.RLock())
    assert isinstance(event, threading.Event)


def test_a_process_shares_its_state_and_two_share_none(two_processes: TwoProcesses) -> None:
    state = ProcessState(concurrency.create_lock)

    first, again, other = (run_as(process, state.get) for process in ("a", "a", "b"))

    assert first is again
    assert first is not other
    assert two_processes.locks == 2


@pytest.mark.parametrize("package", ["commit", "ops", "storage"])
def test_what_waits_in_a_commit_waits_where_a_test_can_see_it(package: str) -> None:
    using = set()
    for path in sorted((SOURCE / package).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "threading":
                using |= {f"{package}/{path.name}"} if node.attr in WAITING_NAMES else set()

    assert using == {file for file in LEAVES if file.startswith(package)}
