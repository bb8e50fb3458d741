"""Routes for agents: MCP over HTTP, each request complete in itself, behind the same gate as every other."""

from importlib import import_module
from types import ModuleType

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.policy import Action, Actor, DeniedError
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.request_arguments import GraphId
from omnigraph.server.http.request_bodies import RpcAnswer, RpcBody
from omnigraph.server.http_errors import AgentsMissingError, GraphUnclearError
from omnigraph.server.service import get_exchange, get_service

router = APIRouter()

_MCP_MODULES = frozenset({"mcp", "mcp_types"})
"""What `omnigraph[mcp]` brings along."""


@router.post("/mcp", **describe_route(RpcAnswer, body=RpcBody, is_rpc=True))
async def mcp(request: Request) -> Response:
    """MCP for agents, about the graph of this server. If there are several for the actor, say which: `/mcp/{graph}`."""
    service, actor = get_service(request), get_exchange(request).actor
    graphs = sorted(service.registry.graphs.items())
    seen = await service.run(request, lambda: [name for name, one in graphs if _has_any_access(one, actor)])
    if len(seen) != 1:
        raise GraphUnclearError(tuple(seen))
    return await _respond(request, seen[0])


@router.post("/mcp/{graph}", **describe_route(RpcAnswer, body=RpcBody, is_rpc=True))
async def mcp_of_graph(request: Request, graph: GraphId) -> Response:
    """MCP for agents, about one graph: stored queries as tools, tools to read and write, schema and branches."""
    service, actor = get_service(request), get_exchange(request).actor
    hosted = service.find_graph(request, graph, Action.READ, None)
    if not await service.run(request, lambda: _has_any_access(hosted, actor)):
        raise DeniedError(actor.name, Action.READ.value, None)  # as of a graph that is not there
    return await _respond(request, graph)


async def _respond(request: Request, graph: str) -> Response:
    body = await request.body()
    # In a thread: the first time, a library is imported that takes its time.
    door = await get_service(request).run(request, _load_mcp_http)
    made: Response = door.McpResponse(request, graph, body)
    return made


def _has_any_access(hosted: ServedGraph, actor: Actor) -> bool:
    """Whether there is something for somebody here, be it a single stored query."""
    if any(hosted.is_allowed_somewhere(actor, action) for action in Action):
        return True
    stored = [] if hosted.stored_queries is None else hosted.stored_queries.list_all()
    return any(hosted.is_allowed_somewhere(actor, Action.INVOKE_QUERY, query=one.name) for one in stored)


def _load_mcp_http() -> ModuleType:
    try:
        return import_module("omnigraph.server.mcp.http_transport")
    except ModuleNotFoundError as error:
        if error.name not in _MCP_MODULES:
            raise
        raise AgentsMissingError from error
