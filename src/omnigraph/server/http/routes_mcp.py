"""Routes for agents: stateless MCP over HTTP, with the same middleware as all other routes."""

from collections.abc import Callable
from typing import TypeAlias, cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.extensions import Extension, load_extension
from omnigraph.policy import Action, Actor, DeniedError
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.relaying import relay_agent_call
from omnigraph.server.http.request_arguments import GraphId
from omnigraph.server.http.request_bodies import RpcAnswer, RpcBody
from omnigraph.server.http_errors import BadRequestError, ServerUnavailableError
from omnigraph.server.service import get_exchange, get_service

router = APIRouter()

# The packages that `omnigraph[mcp]` installs.
_MCP_MODULES = frozenset({"mcp", "mcp_types"})
# The response to a request for one graph with this body.
_McpResponse: TypeAlias = Callable[[Request, str, bytes], Response]


@router.post("/mcp", **describe_route(RpcAnswer, body=RpcBody, is_rpc=True))
async def mcp(request: Request) -> Response:
    """Serve MCP for the only graph that the actor may see. If there are several, name one: `/mcp/{graph}`."""
    service, actor = get_service(request), get_exchange(request).actor
    graphs = sorted(service.registry.graphs.items())
    visible = await service.run(request, lambda: [name for name, hosted in graphs if _has_any_access(hosted, actor)])
    if len(visible) != 1:
        raise BadRequestError.graph_unclear(tuple(visible))
    return await _respond(request, visible[0])


@router.post("/mcp/{graph}", **describe_route(RpcAnswer, body=RpcBody, is_rpc=True))
async def mcp_of_graph(request: Request, graph: GraphId) -> Response:
    """Serve MCP for one graph: stored queries as tools, tools to read and write, schema and branches."""
    service, actor = get_service(request), get_exchange(request).actor
    hosted = service.find_graph(request, graph, Action.READ, None)
    # The same error as for a graph that does not exist.
    if not await service.run(request, lambda: _has_any_access(hosted, actor)):
        raise DeniedError(actor.name, Action.READ.value, None)
    return await _respond(request, graph)


async def _respond(request: Request, graph: str) -> Response:
    body = await request.body()
    request.scope["state"]["body"] = body
    relayed = await relay_agent_call(get_service(request), request, graph, body)
    if relayed is not None:
        return relayed
    # In a thread: the first request imports a large library.
    build_response = await get_service(request).run(request, _load_mcp_response)
    return build_response(request, graph, body)


def _has_any_access(hosted: ServedGraph, actor: Actor) -> bool:
    """Return whether the actor may do anything with the graph, even if it is a single stored query."""
    if any(hosted.is_allowed_somewhere(actor, action) for action in Action):
        return True
    stored = [] if hosted.stored_queries is None else hosted.stored_queries.list_all()
    return any(hosted.is_allowed_somewhere(actor, Action.INVOKE_QUERY, query=query.name) for query in stored)


def _load_mcp_response() -> _McpResponse:
    try:
        return cast("_McpResponse", load_extension(Extension.MCP_RESPONSE))
    except ModuleNotFoundError as error:
        # Any other missing module is a defect of the installation, and not fixed by the extra.
        if error.name not in _MCP_MODULES:
            raise
        raise ServerUnavailableError.mcp_missing() from error
