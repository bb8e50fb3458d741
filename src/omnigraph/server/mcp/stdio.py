"""MCP over stdin and stdout: one graph for one agent, in a process of its own."""

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
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.commit_signature import check_actor
from omnigraph.policy import Actor
from omnigraph.runtime import Runtime
from omnigraph.server.logs import FIELDS, log, start_logging
from omnigraph.server.mcp.calls import Caller
from omnigraph.server.mcp.server import Context, McpServer, WatchState, observe, watch_all
from omnigraph.server.service import Exchange, Service

OVERSIZED_LINE = "a line that was too long"
"""What comes in the place of such a line; it is answered like any other nonsense."""
_CHUNK_BYTES = 64 * 1024


class StdinLines:
    """The lines of a file, as text. Of one that is longer than it may be, no more than a piece is in memory.

    What ends a line does not count.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file, self._limit = file, limit

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await anyio.to_thread.run_sync(self._read_line):
            yield line

    def _read_line(self) -> str:
        """The next line, or nothing at the end."""
        line = self._file.readline(self._limit + len(b"\r\n"))
        if len(line.removesuffix(b"\n").removesuffix(b"\r")) <= self._limit:
            return line.decode("utf-8", errors="replace")
        while line and not line.endswith(b"\n"):
            line = self._file.readline(_CHUNK_BYTES)
        log.warning("too long", extra={FIELDS: {"limit": self._limit}})
        return OVERSIZED_LINE


def take_stdin() -> BinaryIO:
    """This process's stdin, for whoever asks and nobody else: what is started from now on reads nothing there."""
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return os.fdopen(wire, "rb", closefd=False)  # a thread may wait for it until the process ends


ANONYMOUS_NAME = "anonymous"
_POLL_SECONDS = 0.05


class AgentSettingsError(OmnigraphError):
    """It is not clear which graph an agent works on, or for whom."""

    kind = Kind.USAGE
    code = "bad_agent_settings"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


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
        uri: The graph; else that of a settings file, as `serve` takes it.
        config: The settings: graphs, stored queries, policies, limits.
        graph: Which graph of the settings, if there are several.
        queries: A directory of stored queries, instead of what the settings say.
        actor: For whom the agent acts: the name in its commits, and the one that policies are asked about.
        groups: The groups of the actor.
        write: Without policies, let it write, too; with policies, they decide.
        runtime: Settings, clock and the like; without it those of this process's environment.

    Raises:
        AgentSettingsError: It is not clear which graph it is about, or who acts.
        SettingsError, PoliciesError, StoredQueriesError, NotAGraphError: What it is told can't be served.
    """
    machine = runtime or load_runtime()
    try:
        told = load_server_config(() if uri is None else (uri,), config, None)
    except NothingToServeError:
        raise AgentSettingsError("name the graph: `omnigraph mcp URI`, or `--config FILE` with settings") from None
    settings = _select_graph(told, graph, queries)
    if settings.policies is not None and actor is None:
        raise AgentSettingsError("there are policies: say with --as for whom the agent acts")
    if settings.policies is not None and write:
        raise AgentSettingsError("there are policies, and they decide who may write: leave --write out")
    for name in (actor or ANONYMOUS_NAME, *groups):
        check_actor(name)
    if settings.policies is None and not write:
        settings = replace(settings, graphs=tuple(replace(one, is_read_only=True) for one in settings.graphs))
    start_logging(machine.clock)
    service = Service.start(settings, machine, is_open_to_all=write)
    try:
        (hosted,) = service.registry.graphs.values()
        if not hosted.is_open:
            hosted.open()  # raises what is wrong
        anyio.run(_StdioAgent(service, hosted.id, Actor(name=actor or ANONYMOUS_NAME, groups=frozenset(groups))).serve)
    finally:
        service.is_draining = True
        service.close()


def _select_graph(config: ServerConfig, graph: str | None, queries: str | os.PathLike[str] | None) -> ServerConfig:
    """Only one graph, and no tokens: whoever starts this process has its files."""
    ids = sorted(one.id for one in config.graphs)
    chosen = [one for one in config.graphs if graph in (None, one.id)]
    if not chosen:
        raise AgentSettingsError(f"there is no graph `{graph}` in the settings: there are {', '.join(ids)}")
    if len(chosen) > 1:
        raise AgentSettingsError(f"say with --graph which graph the agent works on: {', '.join(ids)}")
    hosted = chosen[0] if queries is None else replace(chosen[0], queries=Path(queries))
    return replace(config, graphs=(hosted,), tokens_file=None, given_tokens=(), maintenance=None)


@dataclass
class _StdioAgent:
    """The one who asks."""

    service: Service
    graph_id: str
    actor: Actor
    session: ServerSession | None = None
    """Of an agent that has seen the tools, and is to be told when they are others."""

    async def serve(self) -> None:
        """Answer until there is nothing more to read."""
        door = McpServer(
            lambda context: self._build_caller(context.method),
            on_finish=self._log_request,
            on_list=self._remember_session,
        )
        known = await observe(
            self._build_caller("watch")
        )  # before anybody can have seen the tools: no change is missed
        options = door.server.create_initialization_options(NotificationOptions(tools_changed=True))
        lines = cast(
            "anyio.AsyncFile[str]", StdinLines(take_stdin(), self.service.limits.body_bytes)
        )  # all that is asked of one
        async with stdio_server(lines) as (incoming, outgoing), anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, known)
            tasks.start_soon(self._stop_on_signal)
            await door.server.run(incoming, outgoing, options)
            tasks.cancel_scope.cancel()

    def _build_caller(self, method: str) -> Caller:
        runtime = self.service.runtime
        exchange = Exchange(
            id=runtime.ids.ulid(), method="MCP", began=runtime.clock.monotonic(), actor=self.actor, route=method
        )
        scope = {"type": "http", "method": "MCP", "path": "/", "headers": [], "state": {"exchange": exchange}}
        return Caller(service=self.service, request=Request(scope, _wait_forever), graph_id=self.graph_id)

    def _log_request(self, caller: Caller) -> None:
        exchange = caller.exchange
        seconds = self.service.runtime.clock.monotonic() - exchange.began
        fields = {name: value for name, value in exchange.to_log_fields().items() if name != "status"}  # that is HTTP's
        log.info("request", extra={FIELDS: {**fields, "ms": round(seconds * 1e3, 3)}})

    def _remember_session(self, context: Context) -> None:
        """An agent of an older protocol is told on this connection; one of a newer protocol asks to be told."""
        if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            self.session = context.session

    async def _stop_on_signal(self) -> None:
        """On a signal let what runs finish, for as long as a server would, and be gone."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                log.info("stopping", extra={FIELDS: {"signal": number.name}})
                with anyio.move_on_after(self.service.config.drain_seconds):
                    while self.service.admission.working:  # noqa: ASYNC110 - nobody tells when the last one ends
                        await anyio.sleep(_POLL_SECONDS)
                    await anyio.sleep(_POLL_SECONDS)  # for the last answers to be written
                os._exit(0)  # a thread waits for stdin, which nothing but its end would wake

    async def _watch(self, known: WatchState) -> None:
        await watch_all(self._build_caller("watch"), (), known, self._notify)

    async def _notify(self, _: ServerEvent) -> None:
        if self.session is not None:
            await self.session.send_tool_list_changed()


async def _wait_forever() -> Message:
    """A client that never goes away by itself: its pipe ends, or it takes a request back."""
    await anyio.sleep_forever()
    raise AssertionError
