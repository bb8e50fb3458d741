"""Create threads, pools, locks and events, and hold the state of a process, in one place that a test can replace.

Races are tested by running several processes as threads of one, under a scheduler that decides which of them goes on.
It can do so only if no thread waits where the scheduler doesn't see it, and if no two of these processes share a lock.
So what waits while a commit is made gets its locks here, calls of Lance are announced, and state of a whole process is
a `ProcessState`. In production the functions return what the standard library has, and a `ProcessState` is one object.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Generic, Protocol, TypeVar, cast

T = TypeVar("T")


class Lock(Protocol):
    """A mutex, as `threading.Lock` and `threading.RLock` are; with a lock of the latter kind `locked` may be absent."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; return whether it was taken."""
        ...

    def release(self) -> None:
        """Give the lock back."""
        ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Mutex(Lock, Protocol):
    """A lock that says whether it is taken."""

    @property
    def locked(self) -> Callable[[], bool]:
        """The function that returns whether any thread holds the lock."""
        ...


class Event(Protocol):
    """A flag that threads wait for, as `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        ...

    def set(self) -> None:
        """Set the flag, and wake all threads that wait."""
        ...

    def clear(self) -> None:
        """Reset the flag."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set, or the time is over; return whether it is set."""
        ...


class Thread(Protocol):
    """A thread of control, as `threading.Thread`."""

    def start(self) -> None:
        """Begin to run."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, or until the time is over."""
        ...

    def is_alive(self) -> bool:
        """Return whether it runs."""
        ...


class Backend(Protocol):
    """What the functions of this module return."""

    def create_lock(self) -> Mutex:
        """See `create_lock`."""
        ...

    def create_rlock(self) -> Lock:
        """See `create_rlock`."""
        ...

    def create_event(self) -> Event:
        """See `create_event`."""
        ...

    def create_thread(self, target: Callable[[], object], name: str, *, daemon: bool) -> Thread:
        """See `create_thread`."""
        ...

    def create_pool(self, threads: int, name: str) -> Executor:
        """See `create_pool`."""
        ...

    def get_thread_id(self) -> int:
        """See `get_thread_id`."""
        ...

    def announce_call(self, target: str) -> AbstractContextManager[None]:
        """See `announce_call`."""
        ...

    def get_states(self) -> dict[object, object]:
        """Return the states of the process that the calling thread belongs to, by their `ProcessState`."""
        ...


class SystemBackend:
    """The threads of the standard library, in one process."""

    def __init__(self) -> None:
        # By `ProcessState`, which is compared by identity.
        self._states: dict[object, object] = {}

    def create_lock(self) -> Mutex:
        """See `create_lock`."""
        return threading.Lock()

    def create_rlock(self) -> Lock:
        """See `create_rlock`."""
        return threading.RLock()

    def create_event(self) -> Event:
        """See `create_event`."""
        return threading.Event()

    def create_thread(self, target: Callable[[], object], name: str, *, daemon: bool) -> Thread:
        """See `create_thread`."""
        return threading.Thread(target=target, name=name, daemon=daemon)

    def create_pool(self, threads: int, name: str) -> Executor:
        """See `create_pool`."""
        return ThreadPoolExecutor(threads, thread_name_prefix=name)

    def get_thread_id(self) -> int:
        """See `get_thread_id`."""
        return threading.get_ident()

    def announce_call(self, target: str) -> AbstractContextManager[None]:
        """See `announce_call`."""
        del target
        # One object for all calls: a context that did anything would be paid for with each request of Lance.
        return _NO_CONTEXT

    def get_states(self) -> dict[object, object]:
        """Return the states of the only process that there is."""
        return self._states


_NO_CONTEXT = nullcontext()
_SYSTEM = SystemBackend()
# A list, so that the functions below read it without a `global` statement.
_backends: list[Backend] = [_SYSTEM]


def install(backend: Backend | None) -> None:
    """Let the functions of this module call a backend of a test; None brings back the system's."""
    _backends[0] = backend or _SYSTEM


def create_lock() -> Mutex:
    """Return a new lock."""
    return _backends[0].create_lock()


def create_rlock() -> Lock:
    """Return a new lock that the thread that holds it may take again."""
    return _backends[0].create_rlock()


def create_event() -> Event:
    """Return a new event, which is not set."""
    return _backends[0].create_event()


def create_thread(target: Callable[[], object], name: str, *, daemon: bool = False) -> Thread:
    """Return a new thread that will call `target`. The interpreter does not wait for the end of a daemon."""
    return _backends[0].create_thread(target, name, daemon=daemon)


def create_pool(threads: int, name: str) -> Executor:
    """Return a pool of at most so many threads."""
    return _backends[0].create_pool(threads, name)


def get_thread_id() -> int:
    """Return the number of the thread that calls."""
    return _backends[0].get_thread_id()


def announce_call(target: str) -> AbstractContextManager[None]:
    """Return a context for a call of Lance that reads or writes files of `target`: a manifest, or a table."""
    return _backends[0].announce_call(target)


class ProcessState(Generic[T]):
    """An object that all threads of a process share, built when it is first used."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._guard = threading.Lock()

    def get(self) -> T:
        """Return the object of the process that the calling thread belongs to."""
        # The states are with the process, not here: those of a simulated one go with it.
        states = _backends[0].get_states()
        # A plain lock, because `build` waits for nothing.
        with self._guard:
            if self not in states:
                states[self] = self._build()
            return cast("T", states[self])
