"""Start a server after checking its settings: in this process, or as a parent of worker processes."""

import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace

from omnigraph.api import load_runtime
from omnigraph.config.server import ServerConfig, load_server_config
from omnigraph.config.settings_file import CONFIG_FILE
from omnigraph.config.tokens import read_tokens
from omnigraph.errors import SettingsError
from omnigraph.runtime import Runtime
from omnigraph.server.draining_server import DrainingServer
from omnigraph.server.graph_registry import GraphRegistry
from omnigraph.server.jwt_tokens import JwtTokens
from omnigraph.server.listener import format_address, open_listener, reserve_address
from omnigraph.server.logs import FIELDS, log, start_logging
from omnigraph.server.service import Service
from omnigraph.server.tls import TlsCertificate
from omnigraph.server.workers.supervisor import Supervisor


def serve(
    graphs: Sequence[str] = (),
    *,
    config: str | os.PathLike[str] | None = None,
    bind: str | None = None,
    unauthenticated: int = 0,
    workers: int | None = None,
    runtime: Runtime | None = None,
) -> None:
    """Serve graphs (`ID=URI`, or a URI alone) and those of a settings file until a signal stops the server.

    `unauthenticated` is the number of times the user confirmed that every client may do everything: once is enough on
    loopback, other addresses need two. `workers` is the number of processes that serve clients; with one, with a
    `runtime` of the caller's or outside of the main thread, this process serves them itself.

    Raises:
        SettingsError: There are no tokens, and the user did not confirm that; or a setting is invalid.
        ServerUnavailableError: The address is in use, or the process may not listen there.
        StoredQueriesError, NotAGraphError: The settings can't be served.
        SystemExit: The server ended with work that it could not complete.
    """
    settings = load_server_config(graphs, config, bind, workers)
    check_authentication(settings, unauthenticated)
    machine = runtime or load_runtime()
    is_main = threading.current_thread() is threading.main_thread()
    if settings.workers == 1 or runtime is not None or not is_main:
        _serve_alone(settings, machine, unauthenticated)
    else:
        _serve_with_workers(settings, machine, unauthenticated)


def _serve_alone(settings: ServerConfig, machine: Runtime, unauthenticated: int) -> None:
    start_logging(machine.clock)
    certificate = None if settings.tls is None else TlsCertificate(settings.tls, machine.clock)
    service = Service.start(settings, machine, is_open_to_all=bool(unauthenticated))
    # Only now: a server that listens has its graphs open, or knows that they can't be.
    listener = open_listener(settings)
    tokens = None if service.tokens is None else len(service.tokens)
    log.info("serving", extra={FIELDS: _describe(settings, listener.getsockname()[1], tokens)})
    DrainingServer(service, certificate).run(sockets=[listener])
    log.info("stopped", extra={FIELDS: {}})


def _serve_with_workers(settings: ServerConfig, machine: Runtime, unauthenticated: int) -> None:
    start_logging(machine.clock)
    with reserve_address(settings) as reserved:
        port = reserved.getsockname()[1]
        tokens = None if unauthenticated else len(settings.given_tokens)
        if settings.tokens_file is not None:
            tokens = len(settings.given_tokens) + len(read_tokens(settings.tokens_file))
        fields = {**_describe(settings, port, tokens), "workers": settings.workers}
        is_complete = Supervisor(settings, bool(unauthenticated), port).run(fields)
    log.info("stopped", extra={FIELDS: {} if is_complete else {"abandoned": True}})
    if not is_complete:
        sys.exit(1)


def _describe(settings: ServerConfig, port: int, tokens: int | None) -> dict[str, object]:
    return {
        "address": format_address(settings, port),
        "graphs": [graph.id for graph in settings.graphs],
        "tokens": tokens,
        "policies": settings.policies is not None,
    }


def check_server(
    graphs: Sequence[str] = (),
    *,
    config: str | os.PathLike[str] | None = None,
    bind: str | None = None,
    unauthenticated: int = 0,
    workers: int | None = None,
    runtime: Runtime | None = None,
) -> ServerConfig:
    """Check everything that `serve` checks before it listens, and open every graph; write nothing.

    Raises:
        OmnigraphError: The errors of `serve`, or a graph can't be opened.
    """
    settings = load_server_config(graphs, config, bind, workers)
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
