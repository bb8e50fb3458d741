"""Routes of tags: names of states, which garbage collection keeps."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.ops.tag import Tag
from omnigraph.policy import Action, DeniedError
from omnigraph.server.http.maintenance_bodies import TagBody, TagsAnswer
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.paging import NameCursor, decode_cursor, encode_cursor
from omnigraph.server.http.request_arguments import DEFAULT_LIMIT, Cursor, GraphId, Limit, read_body
from omnigraph.server.http.responses import respond_json, respond_large_json
from omnigraph.server.service import get_exchange, get_service

router = APIRouter()


@router.get("/graphs/{graph}/tags", **describe_route(TagsAnswer))
async def tags(request: Request, graph: GraphId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> Response:
    """List the tags by name, except those of branches that the actor may not read."""
    service, actor = get_service(request), get_exchange(request).actor
    hosted = service.find_graph(request, graph, Action.READ, None)
    after = None if cursor is None else decode_cursor(cursor, NameCursor).after
    visible = await service.run(request, hosted.bind_actor(actor).tags.list)
    # The same error as for a graph that does not exist.
    if not visible and not hosted.allows(actor, Action.READ):
        raise DeniedError(actor.name, Action.READ.value, None)
    rest = [tag for tag in visible if after is None or tag.name > after]
    next_cursor = encode_cursor(NameCursor(rest[limit - 1].name)) if len(rest) > limit else None
    return await respond_large_json(
        lambda: {"tags": [tag.to_json() for tag in rest[:limit]], "next_cursor": next_cursor}, service.limits
    )


@router.post("/graphs/{graph}/tags", **describe_route(Tag, body=TagBody, status=201, can_conflict=True))
async def create_tag(request: Request, graph: GraphId) -> Response:
    """Create a tag. It needs the permission to create a branch of that name, and to read the state."""
    body = await read_body(request, TagBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.BRANCH_CREATE, body.name)
    return respond_json((await service.write(request, partial(handle.tags.create, body.name, body.ref))).to_json(), 201)


@router.delete("/graphs/{graph}/tags/{tag:path}", **describe_route(Tag, can_conflict=True))
async def delete_tag(request: Request, graph: GraphId, tag: str) -> Response:
    """Delete a tag; the state that it named stays until a cleanup removes it."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.BRANCH_DELETE, tag)
    return respond_json((await service.write(request, partial(handle.tags.delete, tag))).to_json())
