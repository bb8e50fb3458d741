"""MCP over HTTP: the answer to one request, made by the protocol's own library."""

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
    """Answers a request of MCP. Nothing outlives it: there are no sessions, whose owners could change."""

    def __init__(self, request: Request, graph: str, body: bytes) -> None:
        super().__init__()
        self._request, self._body = request, body
        request.scope["state"][_GRAPH_KEY] = graph

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the library answer. Host, token and size were looked at before."""
        manager = StreamableHTTPSessionManager(
            _MCP_SERVER.server, json_response=True, stateless=True, max_request_body_size=max(1, len(self._body))
        )
        async with manager.run():
            await manager.handle_request(scope, _ReplayedBody(self._body, receive), send)


class _ReplayedBody:
    """A body that was read already, and then whatever else there is to hear from the client."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message: dict[str, Any] | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        return await self._receive() if message is None else message
