"""A server that drains on the first signal, and ends in bounded time whatever runs."""

import asyncio
import os
import resource
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import uvicorn

from omnigraph.server.http.app import build_app
from omnigraph.server.http.connections import ConnectionLimit, build_protocol
from omnigraph.server.logs import FIELDS, log
from omnigraph.server.service import Service, has_requests
from omnigraph.server.tls import TlsCertificate

_MAX_HEADER_BYTES = 64 * 1024
_KEEP_ALIVE_SECONDS = 30
# Short, as requests have had `drain_seconds` before Uvicorn begins to shut down.
_SHUTDOWN_SECONDS = 2
# The time for closing the graphs and background threads after that.
_CLOSE_SECONDS = 8
# The time that a server has to end after its requests have had theirs.
END_SECONDS = _SHUTDOWN_SECONDS + _CLOSE_SECONDS
# The time that cancelled work has to end after the second signal; an operation checks for cancellation within 0.1 s.
CANCEL_SECONDS = 1
_MAX_CONNECTIONS = 4_096
_HANDSHAKE_SECONDS = 10.0
# File descriptors that connections leave to the tables, indexes and logs of the graphs.
_RESERVED_FILES = 256


class DrainingServer(uvicorn.Server):
    """A Uvicorn server that drains on the first signal, completing running requests, and stops on the second.

    It ends in bounded time whatever runs: work that does not end when it is cancelled is abandoned with the process. A
    write that is abandoned is published or not, as after a crash; the next process recovers from it.
    """

    def __init__(self, service: Service, certificate: TlsCertificate | None = None) -> None:
        connections = ConnectionLimit(raise_connection_limit())
        self.app = build_app(service, connections)
        super().__init__(
            uvicorn.Config(
                self.app,
                # Uvicorn's own has no deadline for headers, and its limit refuses health checks.
                http=build_protocol(service.limits.body_seconds, connections),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
                ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
            )
        )
        self._certificate = certificate
        self._service = service
        self._deadline = 0.0
        self._signals = 0
        self._is_reload_due = False
        self._reloading: asyncio.Future[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while the server runs; a hang-up reloads."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        earlier = signal.signal(signal.SIGHUP, lambda *_: self._reload_soon())
        try:
            with super().capture_signals():
                yield
        finally:
            signal.signal(signal.SIGHUP, earlier)

    def _reload_soon(self) -> None:
        # A handler interrupts any line of the main thread, which may hold a lock that reloading takes.
        self._is_reload_due = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        if self._certificate is not None:
            # Uvicorn passes no limit, and the minute of asyncio is long: a connection that never ends its handshake
            # is not counted among the connections yet.
            loop = asyncio.get_running_loop()
            create_server = partial(loop.create_server, ssl_handshake_timeout=_HANDSHAKE_SECONDS)
            loop.create_server = create_server  # type: ignore[method-assign]  # of this loop only
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the interface of a signal handler
        """Handle a signal: the first begins to drain, the second cancels what runs, the third ends the process."""
        self._signals += 1
        if self._signals == 1:
            self.drain()
            log.info("stopping", extra={FIELDS: {"signal": signal.Signals(sig).name}})
        elif self._signals == 2:
            self.stop()
        else:
            self._abandon()

    def drain(self) -> None:
        """Accept no further requests, and end when those in progress are completed or their time is over."""
        self._service.is_draining = True
        drain_seconds = self._service.config.drain_seconds
        self._deadline = self._service.runtime.clock.monotonic() + drain_seconds
        self._abandon_after(drain_seconds + END_SECONDS)

    def stop(self) -> None:
        """Cancel what runs, and end."""
        self._stop()
        self._abandon_after(CANCEL_SECONDS)

    def reload(self) -> None:
        """Read what changed of tokens, policies, stored queries and the certificate, before the next look is due."""
        if self._certificate is not None:
            self._certificate.reload_if_changed(is_due=True)
        # In a thread: it reads files, and the schemas of the graphs.
        self._reloading = asyncio.ensure_future(asyncio.to_thread(self._service.reload))

    async def on_tick(self, counter: int) -> bool:
        """Return whether the server should stop, which it should once it is drained or out of time."""
        if self._is_reload_due:
            self._is_reload_due = False
            self.reload()
        if self._certificate is not None:
            self._certificate.reload_if_changed()
        if self._service.is_draining and not self.should_exit:
            is_late = self._service.runtime.clock.monotonic() > self._deadline
            if is_late or not has_requests(self._service):
                self._stop()
        return await super().on_tick(counter)

    def _stop(self) -> None:
        self._service.cancel_all()
        self.should_exit = True

    def _abandon_after(self, seconds: float) -> None:
        # A daemon: it must neither keep a process alive that has ended in time, nor be joined by it.
        timer = threading.Timer(seconds, self._abandon)
        timer.daemon = True
        timer.start()

    def _abandon(self) -> None:
        """End the process at once, with whatever its threads are doing."""
        log.error("stopped", extra={FIELDS: {"abandoned": True}})
        os._exit(1)


def raise_connection_limit() -> int:
    """Raise the process's limit of open files as far as connections need it, and return the limit of connections.

    With more connections than files, accepting fails, and so does every request that opens a file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_CONNECTIONS + _RESERVED_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # Half of a small limit stays for files, so that a server with few descriptors still serves.
    return min(_MAX_CONNECTIONS, max(soft - _RESERVED_FILES, soft // 2))
