"""Routes that create and delete graphs, on a server whose settings name a place for them."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.config.server import is_graph_id
from omnigraph.policy import Action, DeniedError, require
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.relaying import gather_documents
from omnigraph.server.http.request_arguments import GraphId, check_text, read_body
from omnigraph.server.http.request_bodies import GraphBody, GraphCreatedAnswer, GraphDeletedAnswer
from omnigraph.server.http.responses import respond_json
from omnigraph.server.http_errors import BadRequestError
from omnigraph.server.service import Service, get_exchange, get_service

router = APIRouter()

Confirm = Annotated[bool, Query(description="Must be true: all data of the graph is removed.")]


@router.post("/graphs", **describe_route(GraphCreatedAnswer, body=GraphBody, status=201, can_conflict=True))
async def create_graph(request: Request) -> Response:
    """Create an empty graph with a schema. It needs `graph_create` on a graph of this name, by name."""
    body = await read_body(request, GraphBody)
    if not is_graph_id(body.graph):
        raise BadRequestError("graph", "use at most 63 letters (A–Z, a–z), digits, `-` and `_`")
    exchange, service = get_exchange(request), get_service(request)
    exchange.action, exchange.graph = Action.GRAPH_CREATE, body.graph
    _require(request, body.graph, Action.GRAPH_CREATE)
    check_text(body.schema, "schema.pg", service.limits)
    if exchange.is_relayed:
        return await _follow(service, request)
    work = partial(service.graph_root.create, body.graph, body.schema, exchange.actor)
    exchange.commit = await service.write(request, work)
    await gather_documents(request)
    return respond_json({"graph": body.graph, "commit_id": exchange.commit}, 201)


@router.delete("/graphs/{graph}", **describe_route(GraphDeletedAnswer, can_conflict=True))
async def delete_graph(request: Request, graph: GraphId, confirm: Confirm = False) -> Response:
    """Delete a graph that was created through a server, with all of its data. It needs `graph_delete`, by name."""
    service = get_service(request)
    if get_exchange(request).is_relayed:
        return await _follow(service, request)
    # A graph that does not exist gets the same answer as one that the actor may not read.
    service.find_graph(request, graph, Action.GRAPH_DELETE, None)
    _require(request, graph, Action.GRAPH_DELETE)
    if not confirm:
        raise BadRequestError("confirm", "deleting a graph removes all of its data: add `confirm=true`")
    await service.write(request, partial(service.graph_root.delete, graph))
    await gather_documents(request)
    return respond_json({"deleted": graph})


async def _follow(service: Service, request: Request) -> Response:
    """Look at the graphs below the root, since another worker has created or deleted one."""
    if service.config.graph_root is not None:
        await service.run(request, service.graph_root.refresh)
    return respond_json({})


def _require(request: Request, graph: str, action: Action) -> None:
    """Check the policy of a graph name, whether there is such a graph or not.

    Raises:
        DeniedError: It does not allow the action, or the server has no place for graphs of clients.
    """
    service = get_service(request)
    policy = service.registry.find_policy(graph)
    if policy is not None:
        require(policy, get_exchange(request).actor, action, None, None)
    if service.config.graph_root is None:
        raise DeniedError.graphs_fixed()
