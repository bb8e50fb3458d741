"""Serve one graph to the browser of its owner: on loopback, with a token that only a one-time code gives."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from omnigraph.api import load_runtime
from omnigraph.config.server import DEFAULT_HOST, build_server_config
from omnigraph.config.tokens import TokenRecord, generate_token, hash_token
from omnigraph.ops.commit_signature import check_actor
from omnigraph.policy import Actor
from omnigraph.runtime import Runtime
from omnigraph.server.draining_server import DrainingServer
from omnigraph.server.http_errors import ServerUnavailableError
from omnigraph.server.listener import format_address, open_listener
from omnigraph.server.login_codes import Grant
from omnigraph.server.logs import start_logging
from omnigraph.server.service import Service

EXPLORER_FILES = Path(__file__).parent / "explorer"
"""The built page; a source tree has none until it is built."""
# A page that is open is no work to wait for.
_DRAIN_SECONDS = 2.0


def explore(
    graph: str,
    announce: Callable[[str], None],
    *,
    actor: str = "anonymous",
    read_only: bool = False,
    port: int = 0,
    runtime: Runtime | None = None,
) -> None:
    """Serve a graph on loopback until a signal stops it; `announce` gets the address to open once it listens.

    The address has a code in its fragment, which no browser sends to a server or stores in its history of requests. It
    is good once, for a minute; the page exchanges it for a token that may do everything, or only read. Commits are
    signed by `actor`.

    Raises:
        SettingsError, NotAGraphError, ActorRefusedError: The graph or the actor can't be used.
        ServerUnavailableError: The page was not built into this installation, or the port is in use.
    """
    if not (EXPLORER_FILES / "index.html").is_file():
        raise ServerUnavailableError.explorer_missing()
    check_actor(actor)
    # Without the environment: tokens of a server that runs elsewhere have no business here.
    config = build_server_config(None, {}, [graph], f"{DEFAULT_HOST}:{port}")
    token = generate_token()
    hosted = tuple(replace(one, is_read_only=read_only) for one in config.graphs)
    owner = TokenRecord(actor=Actor(name=actor), digest=hash_token(token))
    settings = replace(config, graphs=hosted, given_tokens=(owner,), drain_seconds=_DRAIN_SECONDS, scrub_days=0)
    machine = runtime or load_runtime()
    # The terminal is a person's: requests are not listed, failures are.
    start_logging(machine.clock, logging.WARNING)
    service = Service.start(settings, machine, grants_all=True)
    listener = open_listener(settings)
    graph_id = settings.graphs[0].id
    address = format_address(settings, listener.getsockname()[1])
    code = service.codes.issue(Grant(token, graph_id))
    announce(f"{address}/explorer/#code={code}&graph={graph_id}")
    DrainingServer(service).run(sockets=[listener])
