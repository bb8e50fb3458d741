"""The route by which a page that was opened with a one-time code gets its token."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.request_arguments import read_body
from omnigraph.server.http.request_bodies import ExplorerCodeBody, ExplorerTokenAnswer
from omnigraph.server.http.responses import respond_json
from omnigraph.server.http_errors import UnauthenticatedError
from omnigraph.server.service import get_service

router = APIRouter()


@router.post("/explorer/token", **describe_route(ExplorerTokenAnswer, body=ExplorerCodeBody, is_open=True))
async def explorer_token(request: Request) -> Response:
    """Exchange the one-time code of `omnigraph explore` for a token. Needs no token."""
    body = await read_body(request, ExplorerCodeBody)
    grant = get_service(request).codes.redeem(body.code)
    if grant is None:
        raise UnauthenticatedError
    return respond_json({"token": grant.token, "graph": grant.graph})
