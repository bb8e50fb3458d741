"""Start a server after checking its settings, and drain running requests before it stops."""

import asyncio
import os
import resource
import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import FrameType

import uvicorn

from omnigraph.api import load_runtime
from omnigraph.config.server import ServerConfig, load_server_config
from omnigraph.config.settings_file import CONFIG_FILE
from omnigraph.config.tokens import read_tokens
from omnigraph.errors import SettingsError
from omnigraph.runtime import Runtime
from omnigraph.server.graph_registry import GraphRegistry
from omnigraph.server.http.app import build_app
from omnigraph.server.http.connections import ConnectionLimit, build_protocol
from omnigraph.server.http_errors import ServerUnavailableError
from omnigraph.server.jwt_tokens import JwtTokens
from omnigraph.server.logs import FIELDS, log, start_logging
from omnigraph.server.service import Service
from omnigraph.server.tls import TlsCertificate

_MAX_HEADER_BYTES = 64 * 1024
_KEEP_ALIVE_SECONDS = 30
# Short, as requests have had `drain_seconds` before Uvicorn begins to shut down.
_SHUTDOWN_SECONDS = 2
# The time for closing the graphs and background threads after that.
_CLOSE_SECONDS = 8
# The time that cancelled work has to end after the second signal; an operation checks for cancellation within 0.1 s.
_CANCEL_SECONDS = 1
_MAX_CONNECTIONS = 4_096
_HANDSHAKE_SECONDS = 10.0
# File descriptors that connections leave to the tables, indexes and logs of the graphs.
_RESERVED_FILES = 256


def serve(
    graphs: Sequence[str] = (),
    *,
    config: str | os.PathLike[str] | None = None,
    bind: str | None = None,
    unauthenticated: int = 0,
    runtime: Runtime | None = None,
) -> None:
    """Serve graphs (`ID=URI`, or a URI alone) and those of a settings file until a signal stops the server.

    `unauthenticated` is the number of times the user confirmed that every client may do everything: once is enough on
    loopback, other addresses need two.

    Raises:
        SettingsError: There are no tokens, and the user did not confirm that; or a setting is invalid.
        ServerUnavailableError: The address is in use, or the process may not listen there.
        StoredQueriesError, NotAGraphError: The settings can't be served.
    """
    settings = load_server_config(graphs, config, bind)
    check_authentication(settings, unauthenticated)
    machine = runtime or load_runtime()
    start_logging(machine.clock)
    certificate = None if settings.tls is None else TlsCertificate(settings.tls, machine.clock)
    service = Service.start(settings, machine, is_open_to_all=bool(unauthenticated))
    # Only now: a server that listens has its graphs open, or knows that they can't be.
    listener = open_listener(settings)
    fields: dict[str, object] = {
        "address": format_address(settings, listener.getsockname()[1]),
        "graphs": [graph.id for graph in settings.graphs],
        "tokens": None if service.tokens is None else len(service.tokens),
        "policies": settings.policies is not None,
    }
    log.info("serving", extra={FIELDS: fields})
    DrainingServer(service, certificate).run(sockets=[listener])
    log.info("stopped", extra={FIELDS: {}})


def check_server(
    graphs: Sequence[str] = (),
    *,
    config: str | os.PathLike[str] | None = None,
    bind: str | None = None,
    unauthenticated: int = 0,
    runtime: Runtime | None = None,
) -> ServerConfig:
    """Check everything that `serve` checks before it listens, and open every graph; write nothing.

    Raises:
        OmnigraphError: The errors of `serve`, or a graph can't be opened.
    """
    settings = load_server_config(graphs, config, bind)
    check_authentication(settings, unauthenticated)
    machine = runtime or load_runtime()
    if settings.tokens_file is not None:
        read_tokens(settings.tokens_file)
    JwtTokens(settings.jwt_issuers, machine.clock).check()
    if settings.tls is not None:
        TlsCertificate(settings.tls, machine.clock)
    # Opening a graph for writing may recover interrupted operations, which is a write.
    read_only_graphs = tuple(replace(graph, is_read_only=True) for graph in settings.graphs)
    read_only_settings = replace(settings, graphs=read_only_graphs)
    GraphRegistry(read_only_settings, machine, is_open_to_all=bool(unauthenticated)).open_all(is_strict=True)
    return settings


def check_authentication(config: ServerConfig, unauthenticated: int) -> None:
    """Check that a server has tokens, or that the user confirmed that it needs none.

    Raises:
        SettingsError: It has neither, both, or too few confirmations for its address.
    """
    address = format_address(config, config.port)
    if unauthenticated and config.has_tokens:
        raise SettingsError.open_server(
            address, "--unauthenticated allows access without a token, but there are tokens: remove one of the two"
        )
    if unauthenticated == 1 and not config.is_loopback:
        reason = "every client that reaches it could do everything: bind to 127.0.0.1, or give --unauthenticated twice"
        raise SettingsError.open_server(address, reason)
    if not unauthenticated and not config.has_tokens:
        reason = (
            f"there are no tokens: name a tokens file as `tokens` in [server] of {CONFIG_FILE} (`omnigraph token new`"
            " creates one), set OMNIGRAPH_TOKENS, or give --unauthenticated"
        )
        raise SettingsError.open_server(address, reason)


class DrainingServer(uvicorn.Server):
    """A Uvicorn server that drains on the first signal, completing running requests, and stops on the second.

    It ends in bounded time whatever runs: work that does not end when it is cancelled is abandoned with the process. A
    write that is abandoned is published or not, as after a crash; the next process recovers from it.
    """

    def __init__(self, service: Service, certificate: TlsCertificate | None = None) -> None:
        connections = ConnectionLimit(raise_connection_limit())
        super().__init__(
            uvicorn.Config(
                build_app(service, connections),
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
            self._service.is_draining = True
            drain_seconds = self._service.config.drain_seconds
            self._deadline = self._service.runtime.clock.monotonic() + drain_seconds
            self._abandon_after(drain_seconds + _SHUTDOWN_SECONDS + _CLOSE_SECONDS)
            log.info("stopping", extra={FIELDS: {"signal": signal.Signals(sig).name}})
        elif self._signals == 2:
            self._stop()
            self._abandon_after(_CANCEL_SECONDS)
        else:
            self._abandon()

    async def on_tick(self, counter: int) -> bool:
        """Return whether the server should stop, which it should once it is drained or out of time."""
        if self._certificate is not None:
            self._certificate.reload_if_changed()
        if self._service.is_draining and not self.should_exit:
            is_late = self._service.runtime.clock.monotonic() > self._deadline
            if is_late or self._service.admission.in_flight == 0:
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


def open_listener(config: ServerConfig) -> socket.socket:
    """Return a socket that listens at the address of a configuration.

    Raises:
        ServerUnavailableError: The address is in use, or the process may not listen there.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on accepted connections. Without it, each answer waited for the
    # client's delayed acknowledgement: 48 ms instead of 2.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A server that restarts can listen again while connections of the old one are still closing.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen()  # connections queue from now on, until the server accepts them
    except OSError as error:
        listener.close()
        raise ServerUnavailableError.address_unavailable(
            format_address(config, config.port), error.strerror or str(error)
        ) from error
    return listener


def format_address(config: ServerConfig, port: int) -> str:
    """Return the address of a server as a browser takes it."""
    scheme = "http" if config.tls is None else "https"
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{scheme}://{host}:{port}"
