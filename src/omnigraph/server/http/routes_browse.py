"""Routes for tools that show a graph: check texts, find nodes and neighbours, tell permissions, cancel queries."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.lang.source import Source
from omnigraph.ops.find_entities import EntityMatches
from omnigraph.ops.lint import LintReport
from omnigraph.ops.neighbours import NeighbourPage
from omnigraph.policy import Action, DeniedError
from omnigraph.server.http.browse_bodies import (
    CancelledAnswer,
    GraphMeAnswer,
    LintBody,
    MeAnswer,
    NeighboursBody,
    RunningAnswer,
    SearchBody,
    build_node_keys,
)
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.paging import NameCursor, decode_cursor, encode_cursor
from omnigraph.server.http.relaying import gather_documents
from omnigraph.server.http.request_arguments import (
    DEFAULT_LIMIT,
    BranchFilter,
    Cursor,
    GraphId,
    Limit,
    parse_optional_instant,
    read_body,
)
from omnigraph.server.http.responses import respond_json, respond_large_json
from omnigraph.server.http.routes_read import SOURCE_NAME
from omnigraph.server.service import get_exchange, get_service

router = APIRouter()
SCHEMA_NAME = "schema.pg"

# The name that a client gave to a request in its body.
QueryId = Annotated[str, Path(description="The `query_id` of a running request.", max_length=64)]


# --- texts -------------------------------------------------------------------------------------------------


@router.post("/graphs/{graph}/lint", **describe_route(LintReport, body=LintBody))
async def lint(request: Request, graph: GraphId) -> Response:
    """Return all findings in a text of queries, in a schema, or in both, and what parameters the queries take."""
    body = await read_body(request, LintBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, body.branch)
    # It reads no row, so it needs no budget: its cost is bounded by the lengths of the texts.
    report = await service.run(
        request,
        partial(
            handle.lint,
            None if body.query is None else Source(body.query, SOURCE_NAME),
            schema=None if body.schema is None else Source(body.schema, SCHEMA_NAME),
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
        ),
    )
    return await respond_large_json(report.to_json, service.limits)


# --- nodes and edges ---------------------------------------------------------------------------------------


@router.post("/graphs/{graph}/neighbours", **describe_route(NeighbourPage, body=NeighboursBody))
async def neighbours(request: Request, graph: GraphId) -> Response:
    """Return edges of some nodes, the nodes at their other ends, and the number of edges of each node."""
    body = await read_body(request, NeighboursBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, body.branch)
    budget = service.build_read_budget(body.seconds, body.memory_bytes)
    page = await service.read(
        request,
        budget,
        partial(
            handle.neighbours,
            build_node_keys(body.nodes),
            edges=body.edges,
            direction=body.direction,
            limit=body.limit,
            cursor=body.cursor,
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
            budget=budget,
        ),
        query_id=body.query_id,
    )
    # The log then says which state was read, as that of a query does.
    get_exchange(request).commit = page.commit_id
    return await respond_large_json(page.to_json, service.limits)


@router.post("/graphs/{graph}/search", **describe_route(EntityMatches, body=SearchBody))
async def search(request: Request, graph: GraphId) -> Response:
    """Find nodes by a text that a person typed: by id first, then by the words of their properties."""
    body = await read_body(request, SearchBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, body.branch)
    budget = service.build_read_budget(body.seconds, body.memory_bytes)
    page = await service.read(
        request,
        budget,
        partial(
            handle.search,
            body.text,
            types=body.types,
            limit=body.limit,
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
            budget=budget,
        ),
        query_id=body.query_id,
    )
    get_exchange(request).commit = page.commit_id
    return await respond_large_json(page.to_json, service.limits)


# --- permissions -------------------------------------------------------------------------------------------


@router.get("/me", **describe_route(MeAnswer))
async def me(request: Request) -> Response:
    """Return the owner of the token."""
    # Any token may ask this: it says nothing about any graph.
    actor = get_exchange(request).actor
    has_tokens = get_service(request).tokens is not None
    return respond_json({"actor": actor.name, "groups": sorted(actor.groups), "is_authenticated": has_tokens})


@router.get("/graphs/{graph}/me", **describe_route(GraphMeAnswer))
async def permissions(
    request: Request, graph: GraphId, branch: BranchFilter = None, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response:
    """Return what the owner of the token may do on the graph, and on the branches that it may read: main first."""
    service = get_service(request)
    exchange = get_exchange(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)
    after = None if cursor is None else decode_cursor(cursor, NameCursor).after

    def build_page() -> dict[str, object]:
        document = handle.permissions(branches=None if branch is None else [branch]).to_json()
        if not document["actions"] and not document["branches"]:
            # As for a graph that there is not.
            raise DeniedError(exchange.actor.name, Action.READ.value, branch)
        # By name, as the pages of `/branches`: branches that come or go in the meantime don't shift the next page.
        rest = [
            item
            for item in document["branches"]
            if after is None or (item["name"] != "main" and (after == "main" or item["name"] > after))
        ]
        next_cursor = encode_cursor(NameCursor(rest[limit - 1]["name"])) if len(rest) > limit else None
        # The actor of the request, not of the handle: a server without tokens has no policy, and so no actor there.
        actor = {"actor": exchange.actor.name, "groups": sorted(exchange.actor.groups), "graph": graph}
        return {**document, **actor, "branches": rest[:limit], "next_cursor": next_cursor}

    page = await service.run(request, build_page)
    return await respond_large_json(lambda: page, service.limits)


# --- running requests --------------------------------------------------------------------------------------


@router.get("/graphs/{graph}/running", **describe_route(RunningAnswer))
async def running(request: Request, graph: GraphId) -> Response:
    """List the actor's own requests with a `query_id` that are running."""
    _check_readable(request, graph)
    actor = get_exchange(request).actor.name
    running = get_service(request).running.list_running(graph, actor)
    for document in await gather_documents(request):
        running += document["running"]
    return respond_json({"running": sorted(running, key=lambda each: str(each["started_at"]))})


@router.delete("/graphs/{graph}/running/{query_id}", **describe_route(CancelledAnswer))
async def cancel(request: Request, graph: GraphId, query_id: QueryId) -> Response:
    """Cancel a request of the actor's own, which then responds with `query_cancelled`.

    `cancelled` is false if none of that name is running, or its rows are being streamed already.
    """
    _check_readable(request, graph)
    # Only one's own: what others run is not even counted.
    is_running = get_service(request).running.cancel(graph, get_exchange(request).actor.name, query_id)
    if not is_running:
        is_running = any(document["cancelled"] for document in await gather_documents(request))
    return respond_json({"query_id": query_id, "cancelled": is_running})


def _check_readable(request: Request, graph: str) -> None:
    """Check that the actor may read some of a graph: else it must look like one that there is not.

    Raises:
        ResourceMissingError, DeniedError: There is no such graph, or the actor may read nothing of it.
    """
    hosted = get_service(request).find_graph(request, graph, Action.READ, None)
    actor = get_exchange(request).actor
    # Not on a certain branch: what runs may read any of them.
    if not hosted.is_allowed_somewhere(actor, Action.READ):
        raise DeniedError(actor.name, Action.READ.value, None)
