"""Routes for agents: MCP over HTTP, each request complete in itself, behind the same gate as every other."""

from importlib import import_module
from types import ModuleType

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.policy import Action, Actor, DeniedError
from omnigraph.server.graph_registry import Hosted
from omnigraph.server.http.openapi import described
from omnigraph.server.http.request_arguments import GraphId
from omnigraph.server.http.request_bodies import RpcAnswer, RpcBody
from omnigraph.server.http_errors import AgentsMissingError, GraphUnclearError
from omnigraph.server.service import exchange_of, service_of

router = APIRouter()

_OWN = frozenset({"mcp", "mcp_types"})
"""What `omnigraph[mcp]` brings along."""


@router.post("/mcp", **described(RpcAnswer, body=RpcBody, speaks_rpc=True))
async def mcp(request: Request) -> Response:
    """MCP for agents, about the graph of this server. If there are several for the actor, say which: `/mcp/{graph}`."""
    service, actor = service_of(request), exchange_of(request).actor
    graphs = sorted(service.hosting.graphs.items())
    seen = await service.run(request, lambda: [name for name, one in graphs if _may_anything(one, actor)])
    if len(seen) != 1:
        raise GraphUnclearError(tuple(seen))
    return await _answered(request, seen[0])


@router.post("/mcp/{graph}", **described(RpcAnswer, body=RpcBody, speaks_rpc=True))
async def mcp_of_graph(request: Request, graph: GraphId) -> Response:
    """MCP for agents, about one graph: stored queries as tools, tools to read and write, schema and branches."""
    service, actor = service_of(request), exchange_of(request).actor
    hosted = service.hosted(request, graph, Action.READ, None)
    if not await service.run(request, lambda: _may_anything(hosted, actor)):
        raise DeniedError(actor.name, Action.READ.value, None)  # as of a graph that is not there
    return await _answered(request, graph)


async def _answered(request: Request, graph: str) -> Response:
    body = await request.body()
    # In a thread: the first time, a library is imported that takes its time.
    door = await service_of(request).run(request, _door)
    made: Response = door.McpResponse(request, graph, body)
    return made


def _may_anything(hosted: Hosted, actor: Actor) -> bool:
    """Whether there is something for somebody here, be it a single stored query."""
    if any(hosted.may_somewhere(actor, action) for action in Action):
        return True
    stored = [] if hosted.stored is None else hosted.stored.all()
    return any(hosted.may_somewhere(actor, Action.INVOKE_QUERY, query=one.name) for one in stored)


def _door() -> ModuleType:
    try:
        return import_module("omnigraph.server.mcp.http_transport")
    except ModuleNotFoundError as error:
        if error.name not in _OWN:
            raise
        raise AgentsMissingError from error
