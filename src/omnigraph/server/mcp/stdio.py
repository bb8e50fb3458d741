"""MCP over stdin and stdout: one graph for one agent, in its own process."""

import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

import anyio
import anyio.to_thread
from mcp.server.lowlevel import NotificationOptions
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ServerEvent
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Message

from omnigraph.api import load_runtime
from omnigraph.config.server import NothingToServeError, ServerConfig, load_server_config
from omnigraph.errors import SettingsError
from omnigraph.ops.commit_signature import check_actor
from omnigraph.policy import Actor
from omnigraph.runtime import Runtime
from omnigraph.server.logs import FIELDS, log, log_request, start_logging
from omnigraph.server.mcp.calls import Caller
from omnigraph.server.mcp.server import Context, McpServer, WatchState, observe, watch_all
from omnigraph.server.service import Exchange, Service

# Replaces a line that is too long. It is not JSON, so the library rejects it like any other malformed message.
OVERSIZED_LINE = "a line that was too long"
# The rest of a line that is too long is read and dropped in chunks of this size.
_CHUNK_BYTES = 64 * 1024


class StdinLines:
    """An async iterator over the lines of a file, as text; a line longer than `limit` is replaced, not held in memory.

    The limit does not count the line ending.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file = file
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await anyio.to_thread.run_sync(self._read_line):
            yield line

    def _read_line(self) -> str:
        """Read the next line; return an empty string at the end."""
        line = self._file.readline(self._limit + len(b"\r\n"))
        if len(line.removesuffix(b"\n").removesuffix(b"\r")) <= self._limit:
            return line.decode("utf-8", errors="replace")
        while line and not line.endswith(b"\n"):
            line = self._file.readline(_CHUNK_BYTES)
        log.warning("too long", extra={FIELDS: {"limit": self._limit}})
        return OVERSIZED_LINE


def take_stdin() -> BinaryIO:
    """Return this process's stdin, and replace it by an empty one for all other code and for child processes."""
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # Not closed with the file: a thread may wait for input until the process ends.
    return os.fdopen(wire, "rb", closefd=False)


ANONYMOUS_NAME = "anonymous"
# How often a stopping process checks whether running requests have finished.
_POLL_SECONDS = 0.05


def serve_mcp(
    uri: str | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    graph: str | None = None,
    queries: str | os.PathLike[str] | None = None,
    actor: str | None = None,
    groups: Sequence[str] = (),
    write: bool = False,
    runtime: Runtime | None = None,
) -> None:
    """Answer one agent on stdin and stdout, until stdin ends. The log goes to stderr.

    Args:
        uri: The graph; by default the one in the settings file.
        config: The settings file, as for `serve`: graphs, stored queries, policies, limits.
        graph: The name of the graph in the settings, if there are several.
        queries: A directory of stored queries, instead of the one in the settings.
        actor: The actor the agent acts as: its commits are signed with this name, and policies decide about it.
        groups: The groups of the actor.
        write: Allow writes, if there are no policies; with policies, they decide.
        runtime: Settings, clock and the like; by default those of this process's environment.

    Raises:
        SettingsError, StoredQueriesError, NotAGraphError: The settings or the graph can't be used, or the settings
            don't determine the graph or the actor.
    """
    runtime = runtime or load_runtime()
    try:
        server_config = load_server_config(() if uri is None else (uri,), config, None)
    except NothingToServeError:
        raise SettingsError.bad_agent_settings(
            "name the graph: `omnigraph mcp URI`, or `--config FILE` with settings"
        ) from None
    settings = _select_graph(server_config, graph, queries)
    if settings.policies is not None and actor is None:
        raise SettingsError.bad_agent_settings("there are policies: name the actor that the agent acts as with --as")
    if settings.policies is not None and write:
        raise SettingsError.bad_agent_settings("policies decide who may write: leave --write out")
    for name in (actor or ANONYMOUS_NAME, *groups):
        check_actor(name)
    # Without policies nothing else would restrict an agent.
    if settings.policies is None and not write:
        settings = replace(settings, graphs=tuple(replace(entry, is_read_only=True) for entry in settings.graphs))
    start_logging(runtime.clock)
    service = Service.start(settings, runtime, is_open_to_all=write)
    try:
        (hosted,) = service.registry.graphs.values()
        if not hosted.is_open:
            # The service starts without a graph that can't be opened; here its error must reach the user.
            hosted.open()
        anyio.run(_StdioAgent(service, hosted.id, Actor(name=actor or ANONYMOUS_NAME, groups=frozenset(groups))).serve)
    finally:
        service.is_draining = True
        service.close()


def _select_graph(config: ServerConfig, graph: str | None, queries: str | os.PathLike[str] | None) -> ServerConfig:
    """Return settings with one graph, and without tokens and maintenance.

    Raises:
        SettingsError: There is no such graph, or several and no name.
    """
    ids = sorted(entry.id for entry in config.graphs)
    matches = [entry for entry in config.graphs if graph in (None, entry.id)]
    if not matches:
        raise SettingsError.bad_agent_settings(f"there is no graph `{graph}` in the settings, only {', '.join(ids)}")
    if len(matches) > 1:
        raise SettingsError.bad_agent_settings(
            f"choose the graph that the agent works on with --graph: {', '.join(ids)}"
        )
    selected = matches[0] if queries is None else replace(matches[0], queries=Path(queries))
    # A user that can start this process has access to the files: tokens would protect nothing (decision 32).
    return replace(config, graphs=(selected,), tokens_file=None, given_tokens=(), jwt_issuers=(), maintenance=None)


@dataclass
class _StdioAgent:
    """The connection to the one agent on stdin and stdout."""

    service: Service
    graph_id: str
    actor: Actor
    session: ServerSession | None = None
    """The session of an agent that has listed the tools, to notify it when they change."""

    async def serve(self) -> None:
        """Answer requests until stdin ends."""
        mcp_server = McpServer(
            lambda context: self._build_caller(context.method),
            on_finish=self._log_request,
            on_list=self._remember_session,
        )
        # Before the agent can list the tools, so that no change is missed.
        state = await observe(self._build_caller("watch"))
        options = mcp_server.server.create_initialization_options(NotificationOptions(tools_changed=True))
        # The library only iterates over the file, which `StdinLines` can do.
        lines = cast("anyio.AsyncFile[str]", StdinLines(take_stdin(), self.service.limits.body_bytes))
        async with stdio_server(lines) as (incoming, outgoing), anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, state)
            tasks.start_soon(self._stop_on_signal)
            await mcp_server.server.run(incoming, outgoing, options)
            tasks.cancel_scope.cancel()

    def _build_caller(self, method: str) -> Caller:
        runtime = self.service.runtime
        exchange = Exchange(
            id=runtime.ids.ulid(),
            method="MCP",
            began=runtime.clock.monotonic(),
            actor=self.actor,
            is_authenticated=True,
            route=method,
        )
        scope = {"type": "http", "method": "MCP", "path": "/", "headers": [], "state": {"exchange": exchange}}
        return Caller(service=self.service, request=Request(scope, _wait_forever), graph_id=self.graph_id)

    def _log_request(self, caller: Caller) -> None:
        exchange = caller.exchange
        seconds = self.service.runtime.clock.monotonic() - exchange.began
        # The status is an HTTP status, which a request over stdio does not have.
        fields = {name: value for name, value in exchange.to_log_fields().items() if name != "status"}
        log_request({**fields, "ms": round(seconds * 1e3, 3)})

    def _remember_session(self, context: Context) -> None:
        """Keep the session of an agent with an older protocol: changes are pushed to it. Newer ones subscribe."""
        if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            self.session = context.session

    async def _stop_on_signal(self) -> None:
        """Wait for a signal; then let running requests finish within the drain time of a server, and exit."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                log.info("stopping", extra={FIELDS: {"signal": number.name}})
                with anyio.move_on_after(self.service.config.drain_seconds):
                    while self.service.admission.working:  # noqa: ASYNC110 - no event when the last one ends
                        await anyio.sleep(_POLL_SECONDS)
                    # Leave time for the last responses to be written.
                    await anyio.sleep(_POLL_SECONDS)
                # A normal exit would wait for the thread that reads stdin, which only the end of input wakes.
                os._exit(0)

    async def _watch(self, state: WatchState) -> None:
        await watch_all(self._build_caller("watch"), (), state, self._notify)

    async def _notify(self, _: ServerEvent) -> None:
        if self.session is not None:
            await self.session.send_tool_list_changed()


async def _wait_forever() -> Message:
    """Wait forever, as the `receive` of a client that never disconnects: its stdin ends, or it cancels a request."""
    await anyio.sleep_forever()
    raise AssertionError
