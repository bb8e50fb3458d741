"""The parent of a server's workers: it starts, watches, replaces and ends them, and opens no graph itself."""

import os
import pickle
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.config.server import ServerConfig
from omnigraph.errors import OmnigraphError
from omnigraph.server.allocators import ARROW_POOL_VARIABLE
from omnigraph.server.http_errors import ServerUnavailableError
from omnigraph.server.logs import FIELDS, log
from omnigraph.server.shared_state import ServerStage, SharedState, WorkerSlot
from omnigraph.server.workers.worker_settings import WorkerSettings

_MODULE = __package__ + ".worker_process"
_POLL_SECONDS = 0.1
# A worker whose loop has not turned for this long publishes no writes of others.
_LATE_SECONDS = 3.0
# The waits before a worker that ended is replaced: the first, and the longest of one that keeps ending.
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 30.0
# A worker that ran for this long has not ended because of how it starts.
_STEADY_SECONDS = 60.0
# The time that the workers have to end: longer than each gives itself, after its requests or when these are cancelled.
_END_SECONDS = 15.0
_CANCEL_SECONDS = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class _Worker:
    """A slot, its process if it has one, and when the next one is due."""

    slot: WorkerSlot
    process: subprocess.Popen[bytes] | None = None
    status: int = -1
    """Where the process writes the error that keeps it from starting."""
    started_at: float = 0.0
    due_at: float = 0.0
    wait: float = _FIRST_WAIT
    is_needless: bool = False
    """Whether the process was ended while it started, as the server ended."""


@dataclass
class Supervisor:
    """The workers of a server. All calls come from the main thread of the parent."""

    config: ServerConfig
    is_open_to_all: bool
    port: int
    _workers: list[_Worker] = field(default_factory=list, init=False)
    _signals: list[int] = field(default_factory=list, init=False)
    _deadline: float | None = field(default=None, init=False)
    _is_abandoned: bool = field(default=False, init=False)
    """Whether a worker was ended with what it ran."""

    def __post_init__(self) -> None:
        self._serving = self.config.workers
        self._shared = SharedState.create(self._serving + self.config.long_workers)
        self._workers = [_Worker(slot) for slot in self._shared.slots]
        # Of this user only: whoever may connect to a worker may ask it as a client may.
        self._home = Path(tempfile.mkdtemp(prefix="omnigraph-"))

    def run(self, started: dict[str, object]) -> bool:
        """Serve until a signal ends the server; return whether every worker ended by itself.

        `started` is logged once all of them answer.

        Raises:
            OmnigraphError: A worker can't start.
        """
        try:
            with self._catch_signals() as wakeup:
                for worker in self._workers:
                    self._start(worker)
                if self._await_start(wakeup):
                    log.info("serving", extra={FIELDS: started})
                while any(worker.process for worker in self._workers) or self._shared.stage is ServerStage.SERVE:
                    self._turn(wakeup)
        finally:
            self._kill_all()
            shutil.rmtree(self._home, ignore_errors=True)
        return not self._is_abandoned

    def _await_start(self, wakeup: selectors.BaseSelector) -> bool:
        """Wait until all workers are ready, or a signal ends the server before; return whether they are.

        Raises:
            OmnigraphError: One of them can't start.
        """
        while not all(worker.slot.is_ready for worker in self._workers):
            _wait(wakeup)
            if self._handle_signals():
                return False
            for worker in self._workers:
                if worker.process is not None and (code := worker.process.poll()) is not None:
                    raise self._read_error(worker) or ServerUnavailableError.worker_failed(code)
        self._name()
        return True

    def _turn(self, wakeup: selectors.BaseSelector) -> None:
        """Wait a moment, and see to signals and to the workers."""
        _wait(wakeup)
        self._handle_signals()
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline:
            self._kill_all()
        for worker in self._workers:
            if worker.process is None:
                if self._shared.stage is ServerStage.SERVE and now >= worker.due_at:
                    self._start(worker)
            elif (code := worker.process.poll()) is not None:
                self._reap(worker, code)
            # A worker that ends has its deadline, and its loop may turn no more.
            elif self._shared.stage is ServerStage.SERVE and self._find_silence(worker) > self.config.stuck_seconds:
                fields = {"worker": worker.slot.index, "seconds": round(self._find_silence(worker), 1)}
                log.error("a worker does not respond and is replaced", extra={FIELDS: fields})
                worker.process.kill()
        self._name()

    def _start(self, worker: _Worker) -> None:
        """Start a process in a slot."""
        slot = worker.slot
        slot.begin()
        worker.status, status_fd = os.pipe()
        settings = WorkerSettings(
            config=self.config,
            is_open_to_all=self.is_open_to_all,
            index=slot.index,
            serving=self._serving,
            workers=len(self._workers),
            port=self.port,
            home=self._home,
            shared_fd=self._shared.fd,
            status_fd=status_fd,
            parent=os.getpid(),
        )
        settings_fd = settings.write()
        worker.process = subprocess.Popen(  # noqa: S603 - this interpreter and module
            [sys.executable, "-m", _MODULE, str(settings_fd)],
            stdin=subprocess.DEVNULL,
            # Arrow reads the name of its allocator when it is loaded.
            env={ARROW_POOL_VARIABLE: "system", **os.environ},
            pass_fds=(settings_fd, status_fd, self._shared.fd),
            # In a group of its own: Ctrl-C on a terminal is for the parent.
            process_group=0,
        )
        os.close(settings_fd)
        os.close(status_fd)
        worker.started_at = time.monotonic()

    def _reap(self, worker: _Worker, code: int) -> None:
        """Forget a process that has ended, and see that it is replaced unless the server ends."""
        slot, now = worker.slot, time.monotonic()
        error = self._read_error(worker)
        (self._home / f"{slot.index}-{slot.generation}.sock").unlink(missing_ok=True)
        worker.process = None
        # One that never answered, because it could not start or was ended as it did, had no requests; one that closed
        # its graphs has none left.
        is_abandoned = code != 0 and slot.is_ready and not worker.is_needless
        slot.reap()
        if self._shared.stage is not ServerStage.SERVE:
            if is_abandoned:
                self._is_abandoned = True
                log.error("a worker ended with what it ran", extra={FIELDS: {"worker": slot.index, "code": code}})
            return
        is_steady = now - worker.started_at > _STEADY_SECONDS
        worker.wait = _FIRST_WAIT if is_steady else min(2 * worker.wait, _LONGEST_WAIT)
        worker.due_at = now + worker.wait
        fields: dict[str, object] = {"worker": slot.index, "code": code, "restart_in": round(worker.wait, 1)}
        if error is not None:
            fields["reason"] = str(error)
        log.error("a worker ended and is replaced", extra={FIELDS: fields})

    def _read_error(self, worker: _Worker) -> OmnigraphError | None:
        """Return the error that kept a process from starting, once it has ended."""
        descriptor, worker.status = worker.status, -1
        with os.fdopen(descriptor, "rb") as status:
            data = status.read()
        error = pickle.loads(data) if data else None  # noqa: S301 - written by our own process
        return error if isinstance(error, OmnigraphError) else None

    def _name(self) -> None:
        """Choose the workers that publish the writes of branches: those that have clients and respond."""
        for worker in self._workers[: self._serving]:
            is_ready = worker.slot.is_ready
            is_named = is_ready and self._find_silence(worker) < _LATE_SECONDS
            if worker.slot.is_named != is_named:
                worker.slot.is_named = is_named

    def _find_silence(self, worker: _Worker) -> float:
        """Return the seconds since the event loop of a worker last turned; 0 for one that is starting."""
        if not worker.slot.is_ready:
            return 0.0
        return (time.monotonic_ns() - worker.slot.beat) / 1e9

    def _handle_signals(self) -> bool:
        """Give signals as orders to the workers; return whether the server is to end."""
        while self._signals:
            number = self._signals.pop(0)
            name = signal.Signals(number).name
            if number == signal.SIGHUP:
                self._shared.reloads += 1
                continue
            match self._shared.stage:
                case ServerStage.SERVE:
                    self._shared.stage = ServerStage.DRAIN
                    self._end_within(self.config.drain_seconds + _END_SECONDS)
                    self._end_starting()
                    log.info("stopping", extra={FIELDS: {"signal": name}})
                case ServerStage.DRAIN:
                    self._shared.stage = ServerStage.STOP
                    self._end_within(_CANCEL_SECONDS)
                case ServerStage.STOP:
                    self._kill_all()
        return self._shared.stage is not ServerStage.SERVE

    def _end_starting(self) -> None:
        """End the processes that have no requests yet: starting one may take longer than completing the others'."""
        for worker in self._workers:
            if worker.process is not None and not worker.slot.is_ready:
                worker.is_needless = True
                worker.process.kill()

    def _end_within(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def _kill_all(self) -> None:
        """End all workers at once, with whatever they run."""
        running = [worker for worker in self._workers if worker.process is not None]
        for worker in running:
            self._is_abandoned |= worker.slot.is_ready
            worker.process.kill()  # type: ignore[union-attr]  # selected above
        for worker in running:
            worker.process.wait()  # type: ignore[union-attr]  # selected above
            if worker.status >= 0:
                os.close(worker.status)
            worker.process = None
            worker.slot.reap()

    @contextmanager
    def _catch_signals(self) -> Iterator[selectors.BaseSelector]:
        """Collect signals, and yield a selector that wakes when one comes."""
        receiving, sending = socket.socketpair()
        sending.setblocking(False)
        receiving.setblocking(False)
        selector = selectors.DefaultSelector()
        selector.register(receiving, selectors.EVENT_READ)
        earlier = {number: signal.signal(number, lambda got, _: self._signals.append(got)) for number in _SIGNALS}
        earlier_fd = signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False)
        try:
            yield selector
        finally:
            signal.set_wakeup_fd(earlier_fd)
            for number, handler in earlier.items():
                signal.signal(number, handler)
            selector.close()
            receiving.close()
            sending.close()


def _wait(wakeup: selectors.BaseSelector) -> None:
    for key, _ in wakeup.select(_POLL_SECONDS):
        # The socket that a signal wrote to: what counts is the list of signals.
        with suppress(BlockingIOError):
            os.read(key.fd, 64)
