"""MCP over HTTP: stateless responses, produced by the protocol's own library."""

from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from omnigraph.server.mcp.calls import Caller
from omnigraph.server.mcp.server import Context, McpServer
from omnigraph.server.service import get_service

_GRAPH_KEY = "agent_graph"


def _build_caller(context: Context) -> Caller:
    request = context.request
    assert isinstance(request, Request)  # noqa: S101 - this transport attaches it
    return Caller(service=get_service(request), request=request, graph_id=request.scope["state"][_GRAPH_KEY])


_MCP_SERVER = McpServer(_build_caller)


class McpResponse(Response):
    """The response to one MCP request.

    Stateless: without sessions, nothing can outlive a token that was revoked, or be continued with another one.
    """

    def __init__(self, request: Request, graph: str, body: bytes) -> None:
        super().__init__()
        self._body = body
        request.scope["state"][_GRAPH_KEY] = graph

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the library produce the response. Middleware has checked host, token and size already."""
        # The size of the body is checked by the server's own limits; the library must not reject it by a smaller one.
        manager = StreamableHTTPSessionManager(
            _MCP_SERVER.server, json_response=True, stateless=True, max_request_body_size=max(1, len(self._body))
        )
        async with manager.run():
            await manager.handle_request(scope, _ReplayedBody(self._body, receive), send)


class _ReplayedBody:
    """An ASGI `receive` that replays a body that was read already, then continues with the client's messages."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message: dict[str, Any] | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        return await self._receive() if message is None else message
