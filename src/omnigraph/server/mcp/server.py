"""The MCP server: it lists and calls tools and resources for whoever asks; what they may do is up to the policy."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextContent,
)

from omnigraph import __version__
from omnigraph.errors import OmnigraphError
from omnigraph.policy import Action
from omnigraph.server.http.middleware import report_error
from omnigraph.server.http.request_bodies import encode_json
from omnigraph.server.http_errors import BadRequestError
from omnigraph.server.logs import log
from omnigraph.server.mcp import resources
from omnigraph.server.mcp.calls import MAX_RESPONSE_BYTES, Caller, ToolResult
from omnigraph.server.mcp.stored_query_tools import StoredTool, load_stored_tools
from omnigraph.server.mcp.tools import TOOLS, GraphTool

Context: TypeAlias = ServerRequestContext[Any, Any]
Tools: TypeAlias = dict[str, GraphTool | StoredTool]
WatchState: TypeAlias = dict[ServerEvent, str]
"""What can change, by how that is told."""

POLL_SECONDS = 1.0
"""How often it is looked, for somebody who wants to know of changes, whether there are any."""
MAX_ERROR_CHARACTERS = 16 * 1024
"""The longest story of an error, in characters."""
MAX_WATCHED_RESOURCES = 16
"""The most resources that one may have watched at once."""
MAX_LISTEN_SECONDS = 600.0
"""How long one may listen before one has to ask again, with a token that is valid then."""

INSTRUCTIONS = """\
A typed, versioned property graph. Read the schema first (graph_schema, or the resource). Prefer a stored query where \
one fits; else write one with graph_query. Answers are cut at `limit` rows and say how to get more.
If you may write: make a branch of your own (graph_create_branch), write there (graph_mutate), look at what you did \
(graph_diff main → your branch), then merge it (graph_merge). Every write is one commit, whole or not at all, and \
carries your name."""


def _skip_input_schema(_: str) -> None:
    """No tool has arguments that are headers, too: nothing is looked up before a call."""


class McpServer:
    """Answers what agents ask.

    `callers` says who asks, and about which graph; `finished` is told when they have their answer, and `listed` when
    somebody is about to see which tools there are.
    """

    def __init__(
        self,
        callers: Callable[[Context], Caller],
        *,
        on_finish: Callable[[Caller], None] | None = None,
        on_list: Callable[[Context], None] | None = None,
    ) -> None:
        self._build_caller, self._on_finish, self._on_list = callers, on_finish, on_list
        self.server: Server[Any] = Server(
            "omnigraph",
            version=__version__,
            title="omnigraph",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=self._listen,
            get_tool_input_schema=_skip_input_schema,
        )
        self.server.middleware.clear()  # no spans: what is traced would have the names that callers choose

    @contextmanager
    def _handle_call(self, context: Context) -> Iterator[Caller]:
        """Who asks. What goes wrong is told as an error of the protocol, with the facts that a body of HTTP has."""
        caller = self._build_caller(context)
        try:
            yield caller
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever happens, an agent is told no more than other clients
            body = report_error(error, caller.exchange, caller.service)
            raise MCPError(INTERNAL_ERROR, _format_error(body), _shorten_body(body)) from None
        finally:
            if self._on_finish is not None:
                self._on_finish(caller)

    async def _list_tools(self, context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        with self._handle_call(context) as caller:
            if self._on_list is not None:
                self._on_list(context)  # first: whatever changes while they are listed is told
            return ListToolsResult(tools=[tool.to_tool() for tool in (await list_visible_tools(caller)).values()])

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        with self._handle_call(context) as caller:
            told = await _run_tool(caller, params.name, params.arguments or {})
            return CallToolResult(
                content=[TextContent(text=told.text)], structured_content=told.value, is_error=told.is_error
            )

    async def _list_resources(self, context: Context, _: PaginatedRequestParams | None) -> ListResourcesResult:
        with self._handle_call(context) as caller:
            return ListResourcesResult(resources=resources.list_resources(caller))

    async def _list_templates(self, context: Context, _: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        with self._handle_call(context) as caller:
            return ListResourceTemplatesResult(resource_templates=resources.list_templates(caller))

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        with self._handle_call(context) as caller:
            return ReadResourceResult(contents=[await resources.read(caller, params.uri)])

    async def _listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Tell what changes of what the caller sees, until the server stops or the time is up."""
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)
        uris = params.notifications.resource_subscriptions or ()
        with self._handle_call(context) as caller:
            known = await observe(
                caller, uris
            )  # before it is said that somebody listens: nothing is missed from then on

            async def watch() -> None:
                with anyio.move_on_after(MAX_LISTEN_SECONDS):
                    await watch_all(caller, uris, known, bus.publish)
                handler.close()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                found = await handler(context, params)
                tasks.cancel_scope.cancel()
            return found


async def observe(caller: Caller, uris: Sequence[str] = ()) -> WatchState:
    """What the caller sees of the tools and of some resources. BadRequestError for too many of them."""
    if len(uris) > MAX_WATCHED_RESOURCES:
        raise BadRequestError("resourceSubscriptions", f"no more than {MAX_WATCHED_RESOURCES} are watched at once")
    tools = [tool.to_tool().model_dump_json() for tool in (await list_visible_tools(caller)).values()]
    found: WatchState = {ToolsListChanged(): "\n".join(tools)}
    return found | {ResourceUpdated(uri=uri): await _read_text(caller, uri) for uri in uris}


async def watch_all(
    caller: Caller, uris: Sequence[str], known: WatchState, publish: Callable[[ServerEvent], Awaitable[None]]
) -> None:
    """Say when something is no longer as it was known; ends when the server is about to stop."""
    while not caller.service.is_draining:
        await anyio.sleep(POLL_SECONDS)
        try:
            now = await observe(caller, uris)
        except OmnigraphError as error:  # such as a server that has too much to do: the next look tells
            log.debug("it could not be seen whether anything changed: %s", error.code)
            continue
        for event, text in now.items():
            if known[event] != text:
                await publish(event)
        known = now


async def list_visible_tools(caller: Caller) -> Tools:
    """The tools that the caller may use, by name."""
    hosted = caller.find_graph(Action.READ, None)
    return {name: tool for name, tool in (await _load_tools(caller)).items() if tool.is_visible(caller, hosted, {})}


async def _load_tools(caller: Caller) -> Tools:
    """Every tool of the graph. GraphUnavailableError while it can't be asked."""
    hosted = caller.find_graph(Action.READ, None)
    hosted.bind_actor(caller.actor)
    return {**await caller.run(lambda: load_stored_tools(hosted)), **TOOLS}


async def _run_tool(caller: Caller, name: str, arguments: dict[str, Any]) -> ToolResult:
    """What a tool says, or the error that it ends with. A tool that is hidden is as one that is not there."""
    counted = "-"
    try:
        tool = (await _load_tools(caller)).get(name)
        if tool is not None and tool.is_visible(caller, caller.find_graph(Action.READ, None), arguments):
            counted = tool.name
            told = await tool.run(caller, arguments)
            _count(caller, counted, told.value["code"] if told.is_error else "ok")
            return told
    except Exception as error:  # noqa: BLE001 - whatever happens, an agent is told no more than other clients
        body = report_error(error, caller.exchange, caller.service)
        _count(caller, counted, str(body["code"]))
        return ToolResult(value=_shorten_body(body), text=_format_error(body), is_error=True)
    caller.exchange.code = "tool_not_found"
    _count(caller, counted, caller.exchange.code)
    raise MCPError(INVALID_PARAMS, f"there is no tool `{name[:128]}` that you may call")


def _count(caller: Caller, tool: str, outcome: str) -> None:
    """Tools have the names that an operator gave them; those that somebody made up are not counted one by one."""
    caller.service.metrics.count("omnigraph_tool_calls_total", graph=caller.graph_id, tool=tool, outcome=outcome)


def _format_error(body: dict[str, object]) -> str:
    story = f"{body['code']}: {body['error']}"
    return story if len(story) <= MAX_ERROR_CHARACTERS else f"{story[:MAX_ERROR_CHARACTERS]}…"


def _shorten_body(body: dict[str, object]) -> dict[str, object]:
    """The facts of an error; of one that has very many, such as a text full of mistakes, the story alone."""
    if len(encode_json(body)) <= MAX_RESPONSE_BYTES:
        return body
    return {name: body[name] for name in ("code", "kind", "request_id")} | {"error": _format_error(body)}


async def _read_text(caller: Caller, uri: str) -> str:
    try:
        return (await resources.read(caller, uri)).text
    except MCPError:  # not there, or not to be read: it may be later
        return ""
