"""Routes of tags: names for states, which cleanup keeps."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.policy import Action, DeniedError
from omnigraph.server.http.maintenance_bodies import TagAnswer, TagBody, TagsAnswer
from omnigraph.server.http.openapi import described
from omnigraph.server.http.paging import NameCursor, cursor_of, cursor_text
from omnigraph.server.http.request_arguments import USUAL_LIMIT, Cursor, GraphId, Limit, body_of
from omnigraph.server.http.responses import answer
from omnigraph.server.service import exchange_of, service_of

router = APIRouter()


@router.get("/graphs/{graph}/tags", **described(TagsAnswer))
async def tags(request: Request, graph: GraphId, limit: Limit = USUAL_LIMIT, cursor: Cursor = None) -> Response:
    """The tags by name, but for those of branches that the actor may not read."""
    service, actor = service_of(request), exchange_of(request).actor
    hosted = service.hosted(request, graph, Action.READ, None)
    after = None if cursor is None else cursor_of(cursor, NameCursor).after
    found = await service.run(request, hosted.graph(actor).tags.list)
    if not found and not hosted.allows(actor, Action.READ):
        raise DeniedError(actor.name, Action.READ.value, None)  # as of a graph that is not there
    rest = [one for one in found if after is None or one.name > after]
    more = cursor_text(NameCursor(rest[limit - 1].name)) if len(rest) > limit else None
    return answer({"tags": [one.to_json() for one in rest[:limit]], "next_cursor": more})


@router.post("/graphs/{graph}/tags", **described(TagAnswer, body=TagBody, status=201, can_conflict=True))
async def create_tag(request: Request, graph: GraphId) -> Response:
    """Name a state. It needs what a branch of that name needs, and to read the state."""
    body = await body_of(request, TagBody)
    service = service_of(request)
    handle = service.graph(request, graph, Action.BRANCH_CREATE, body.name)
    return answer((await service.write(request, partial(handle.tags.create, body.name, body.ref))).to_json(), 201)


@router.delete("/graphs/{graph}/tags/{tag:path}", **described(TagAnswer, can_conflict=True))
async def delete_tag(request: Request, graph: GraphId, tag: str) -> Response:
    """Delete a tag; the state that it named stays until a cleanup takes it."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.BRANCH_DELETE, tag)
    return answer((await service.write(request, partial(handle.tags.delete, tag))).to_json())
