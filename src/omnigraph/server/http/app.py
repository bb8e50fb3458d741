"""The ASGI application: all routes and exception handlers, wrapped in the request middleware."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from omnigraph.errors import OmnigraphError
from omnigraph.server.http import (
    routes_browse,
    routes_changes,
    routes_explorer,
    routes_explorer_token,
    routes_graphs,
    routes_history,
    routes_maintenance,
    routes_mcp,
    routes_read,
    routes_server,
    routes_stored_queries,
    routes_tags,
    routes_write,
)
from omnigraph.server.http.connections import ConnectionLimit
from omnigraph.server.http.direct_routes import DirectRoutes
from omnigraph.server.http.middleware import RequestMiddleware, refuse, respond_disconnected
from omnigraph.server.http.openapi import name_operation
from omnigraph.server.http.relay_client import Relay
from omnigraph.server.http.relaying import relay_long
from omnigraph.server.http.request_arguments import check_query_names
from omnigraph.server.http_errors import BadRequestError, ResourceMissingError
from omnigraph.server.service import HandedOverError, Service

ROUTERS = (
    routes_server.router,
    routes_graphs.router,
    routes_read.router,
    routes_browse.router,
    routes_history.router,
    routes_changes.router,
    routes_tags.router,
    routes_write.router,
    routes_maintenance.router,
    routes_stored_queries.router,
    routes_mcp.router,
    # Before the files, whose route takes every path below.
    routes_explorer_token.router,
    routes_explorer.router,
)
# Generators of clients and viewers of the OpenAPI document group the routes by these.
ROUTER_TAGS: tuple[str, ...] = (
    "server",
    "graphs",
    "read",
    "browse",
    "history",
    "changes",
    "tags",
    "write",
    "maintenance",
    "stored queries",
    "agents",
    "explorer",
    "explorer",
)


def build_app(service: Service, connections: ConnectionLimit | None = None) -> RequestMiddleware:
    """Return the server's application, for any ASGI server; with `connections`, their limit is enforced."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if service.fleet is not None:
            app.state.relay.close()
        service.close()

    # FastAPI's own pages are off: the OpenAPI document is built from our types, and served to actors with a token only.
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        dependencies=[Depends(check_query_names)],
    )
    app.state.service = service
    if service.fleet is not None:
        app.state.relay = Relay(service.fleet)
    for router, tag in zip(ROUTERS, ROUTER_TAGS, strict=True):
        app.include_router(router, tags=[tag], generate_unique_id_function=name_operation)
    app.add_exception_handler(OmnigraphError, refuse)
    app.add_exception_handler(RequestValidationError, _refuse_parameters)
    app.add_exception_handler(HTTPException, _refuse_path)
    app.add_exception_handler(ClientDisconnect, _ignore_disconnect)
    app.add_exception_handler(HandedOverError, _hand_over)
    app.add_exception_handler(Exception, refuse)
    return RequestMiddleware(DirectRoutes(app, ROUTERS), service, connections)


async def _refuse_parameters(request: Request, error: Exception) -> Response:
    """Respond to invalid parameters of a path or query string, without quoting their values."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this type only
    first = error.errors()[0]
    location = ".".join(str(part) for part in first["loc"])
    return await refuse(request, BadRequestError(location, first["msg"]))


async def _hand_over(request: Request, _: Exception) -> Response:
    return await relay_long(request)


async def _ignore_disconnect(request: Request, _: Exception) -> Response:
    return respond_disconnected(request)


async def _refuse_path(request: Request, error: Exception) -> Response:
    """Respond to a path or method that no route has."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this type only
    match error.status_code:
        case 404:
            return await refuse(request, ResourceMissingError.route_not_found())
        case 405:
            response = await refuse(request, BadRequestError.method_not_allowed())
            # Starlette knows the methods of the path.
            response.headers.update(error.headers or {})
            return response
        case _:
            return await refuse(request, BadRequestError("request", error.detail))
