"""Routes of stored queries. A query that does not exist and one that the actor may not run give the same error."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.ops.mutate import MutationResult
from omnigraph.policy import Action, DeniedError
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.request_arguments import GraphId, read_body
from omnigraph.server.http.request_bodies import (
    ARROW,
    NDJSON,
    InvokeBody,
    MutateBody,
    ReadBody,
    ResultAnswer,
    StoredListAnswer,
)
from omnigraph.server.http.responses import respond_large_json
from omnigraph.server.http.routes_read import answer_query
from omnigraph.server.http.routes_write import answer_mutation
from omnigraph.server.http_errors import BadRequestError, ResourceMissingError
from omnigraph.server.service import get_exchange, get_service

router = APIRouter()

_COMMON_FIELDS = ("params", "texts", "branch", "seconds", "memory_bytes")
_READ_FIELDS = ("snapshot", "at", "max_staleness", "min_commit", "query_id")
_WRITE_FIELDS = ("message", "idempotency_key", "if_commit")


@router.get("/graphs/{graph}/queries", **describe_route(StoredListAnswer))
async def queries(request: Request, graph: GraphId) -> Response:
    """List the stored queries that the actor may run, with their parameters."""
    service, actor = get_service(request), get_exchange(request).actor
    hosted = service.find_graph(request, graph, Action.INVOKE_QUERY, None)
    hosted.bind_actor(actor)  # raises if the graph is not open
    stored = await service.run(
        request, lambda: [] if hosted.stored_queries is None else hosted.stored_queries.list_all()
    )
    allowed = [query for query in stored if hosted.allows(actor, Action.INVOKE_QUERY, branch="main", query=query.name)]
    # The same error as for a graph that does not exist.
    if not allowed and not hosted.allows(actor, Action.READ):
        raise DeniedError(actor.name, Action.READ.value, None)
    return await respond_large_json(lambda: {"queries": [query.to_json() for query in allowed]}, service.limits)


@router.post(
    "/graphs/{graph}/queries/{name}",
    **describe_route(ResultAnswer, MutationResult, body=InvokeBody, streams=[NDJSON, ARROW], can_conflict=True),
)
async def invoke(request: Request, graph: GraphId, name: str) -> Response:
    """Run a stored query. The response to a mutation is that of `mutate`."""
    body = await read_body(request, InvokeBody)
    # An actor must not learn from the error whether the query exists.
    try:
        return await _run_stored_query(request, graph, name, body)
    except DeniedError:
        raise ResourceMissingError.stored_query_not_found(name) from None


async def _run_stored_query(request: Request, graph: str, name: str, body: InvokeBody) -> Response:
    service, actor = get_service(request), get_exchange(request).actor
    hosted = service.find_graph(request, graph, Action.INVOKE_QUERY, body.branch)
    handle = hosted.bind_actor(actor, through=name, next_commit=get_exchange(request).next_commit)
    stored = None
    if hosted.stored_queries is not None:
        # In a thread only where files may be read: a turn in a thread costs as much as the look-up of a row.
        find = partial(hosted.stored_queries.get, name)
        stored = await service.run(request, find) if hosted.stored_queries.is_check_due else find()
    is_allowed = hosted.allows(actor, Action.INVOKE_QUERY, branch=body.branch, query=name)
    if stored is None or not is_allowed:
        raise ResourceMissingError.stored_query_not_found(name)
    # Only now: the log names stored queries, never a text that a client made up.
    get_exchange(request).query = name
    _check_fields(body, is_mutation=stored.is_mutation)
    fields = {field: getattr(body, field) for field in _COMMON_FIELDS}
    if stored.is_mutation:
        fields |= {field: getattr(body, field) for field in _WRITE_FIELDS}
        write = MutateBody(query="", name=name, **fields)
        return await answer_mutation(service, request, handle, write, stored.source)
    fields |= {field: getattr(body, field) for field in _READ_FIELDS}
    fields["max_staleness"] = body.max_staleness or 0.0
    return await answer_query(service, request, handle, ReadBody(query="", name=name, **fields), stored.source)


def _check_fields(body: InvokeBody, *, is_mutation: bool) -> None:
    """Check that a body has no fields that only a query of the other kind takes.

    Raises:
        BadRequestError: It has one.
    """
    for field in _READ_FIELDS if is_mutation else _WRITE_FIELDS:
        if getattr(body, field) is not None:
            kind = "writes" if is_mutation else "reads"
            raise BadRequestError("body", f"a stored query that {kind} does not take `{field}`")
