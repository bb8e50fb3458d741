"""A short way to routes that take nothing but a path and a body, which the busy ones do.

FastAPI compares a path with the routes one after the other and resolves the parameters of each request: 0.3 ms for
our fifty routes, more than a point read takes. A route without other parameters is called directly.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omnigraph.server.http.middleware import respond_disconnected
from omnigraph.server.http.relaying import relay_long
from omnigraph.server.service import HandedOverError

# Longer parts of a path are left to FastAPI, which refuses them with its own message.
_MAX_PART_CHARACTERS = 63

_Endpoint = Callable[..., Awaitable[Response]]


class DirectRoutes:
    """An ASGI application that calls some routes of another directly, and leaves it all other requests."""

    def __init__(self, app: FastAPI, routers: Iterable[APIRouter]) -> None:
        self._app = app
        # By method, fixed part and number of parts: `POST /graphs/{graph}/queries/{name}` is ("POST", "queries", 5).
        self._routes: dict[tuple[str, str, int], tuple[APIRoute, tuple[str, ...]]] = {}
        for router in routers:
            for route in router.routes:
                if isinstance(route, APIRoute):
                    self._add(route)

    def _add(self, route: APIRoute) -> None:
        parts = route.path.split("/")
        parameters = [part for part in parts if part.startswith("{")]
        dependant = route.dependant
        others = (*dependant.query_params, *dependant.header_params, *dependant.cookie_params, *dependant.body_params)
        is_plain = parts[:3] == ["", "graphs", "{graph}"] and len(parts) - len(parameters) == 3
        if others or not is_plain or any(":" in part for part in parameters):
            return
        for method in route.methods or ():
            self._routes[method, parts[3], len(parts)] = (route, tuple(name[1:-1] for name in parameters[1:]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and not scope["query_string"]:
            parts = scope["path"].split("/")
            if len(parts) > 3 and parts[1] == "graphs" and parts[0] == "":
                found = self._routes.get((scope["method"], parts[3], len(parts)))
                arguments = (parts[2], *parts[4:])
                if found is not None and all(0 < len(part) <= _MAX_PART_CHARACTERS for part in arguments):
                    await self._call(*found, arguments, scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _call(
        self,
        route: APIRoute,
        names: tuple[str, ...],
        arguments: tuple[str, ...],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        scope["route"] = route
        scope["app"] = self._app
        endpoint: _Endpoint = route.endpoint
        path: dict[str, Any] = dict(zip(names, arguments[1:], strict=True))
        request = Request(scope, receive, send)
        try:
            response = await endpoint(request, graph=arguments[0], **path)
        except ClientDisconnect:
            response = respond_disconnected(request)
        except HandedOverError:
            response = await relay_long(request)
        await response(scope, receive, send)
