"""Routes of stored queries. Those that are not there and those that somebody may not run look alike."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.policy import Action, DeniedError
from omnigraph.server.http.openapi import described
from omnigraph.server.http.request_arguments import GraphId, body_of
from omnigraph.server.http.request_bodies import (
    ARROW,
    NDJSON,
    InvokeBody,
    MutateBody,
    MutationAnswer,
    ReadBody,
    ResultAnswer,
    StoredListAnswer,
)
from omnigraph.server.http.responses import answer
from omnigraph.server.http.routes_read import answer_query
from omnigraph.server.http.routes_write import answer_mutation
from omnigraph.server.http_errors import BadRequestError, StoredQueryMissingError
from omnigraph.server.service import exchange_of, service_of

router = APIRouter()

_OF_BOTH = ("params", "texts", "branch", "seconds", "memory_bytes")
_OF_READS, _OF_WRITES = ("snapshot", "at"), ("message", "idempotency_key", "if_commit")


@router.get("/graphs/{graph}/queries", **described(StoredListAnswer))
async def queries(request: Request, graph: GraphId) -> Response:
    """The stored queries that the actor may run, with their parameters."""
    service, actor = service_of(request), exchange_of(request).actor
    hosted = service.hosted(request, graph, Action.INVOKE_QUERY, None)
    hosted.graph(actor)
    found = await service.run(request, lambda: [] if hosted.stored is None else hosted.stored.all())
    seen = [one for one in found if hosted.allows(actor, Action.INVOKE_QUERY, branch="main", query=one.name)]
    if not seen and not hosted.allows(actor, Action.READ):
        raise DeniedError(actor.name, Action.READ.value, None)  # as of a graph that is not there
    return answer({"queries": [one.to_json() for one in seen]})


@router.post(
    "/graphs/{graph}/queries/{name}",
    **described(ResultAnswer, MutationAnswer, body=InvokeBody, streams=[NDJSON, ARROW], can_conflict=True),
)
async def invoke(request: Request, graph: GraphId, name: str) -> Response:
    """Run a stored query. What one that writes answers is what `mutate` answers."""
    body = await body_of(request, InvokeBody)
    try:
        return await _invoked(request, graph, name, body)
    except DeniedError:
        raise StoredQueryMissingError(name) from None


async def _invoked(request: Request, graph: str, name: str, body: InvokeBody) -> Response:
    service, actor = service_of(request), exchange_of(request).actor
    hosted = service.hosted(request, graph, Action.INVOKE_QUERY, body.branch)
    handle = hosted.graph(actor, through=name)
    stored = await service.run(request, lambda: None if hosted.stored is None else hosted.stored.get(name))
    is_allowed = hosted.allows(actor, Action.INVOKE_QUERY, branch=body.branch, query=name)
    if stored is None or not is_allowed:
        raise StoredQueryMissingError(name)
    _check_fits(body, is_mutation=stored.is_mutation)
    fields = {field: getattr(body, field) for field in _OF_BOTH}
    if stored.is_mutation:
        fields |= {field: getattr(body, field) for field in _OF_WRITES}
        write = MutateBody(query="", name=name, **fields)
        return await answer_mutation(service, request, handle, write, stored.source)
    fields |= {field: getattr(body, field) for field in _OF_READS}
    return await answer_query(service, request, handle, ReadBody(query="", name=name, **fields), stored.source)


def _check_fits(body: InvokeBody, *, is_mutation: bool) -> None:
    """BadRequestError for what only a query of the other kind takes."""
    given = msgspec.structs.asdict(body)
    for field in _OF_READS if is_mutation else _OF_WRITES:
        if given[field] is not None:
            kind = "writes" if is_mutation else "reads"
            raise BadRequestError("body", f"`{field}` is of no use to a stored query that {kind}")
