"""The middleware of every request: checks of host, token, size and time, and error responses, metrics and log."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnigraph.config.server import LOOPBACK
from omnigraph.engine.query_budget import QueryCancelledError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.server.http.connections import ConnectionLimit
from omnigraph.server.http.error_responses import RETRY_SECONDS, build_error_body, find_status, is_server_error
from omnigraph.server.http.relay_client import BrokenResponseError
from omnigraph.server.http.relay_server import RelayedSend
from omnigraph.server.http.request_bodies import JSON, encode_json
from omnigraph.server.http.routes_explorer import is_explorer_path
from omnigraph.server.http.timed_await import TimedAwait
from omnigraph.server.http_errors import (
    BadRequestError,
    RequestLimitError,
    ServerUnavailableError,
    UnauthenticatedError,
)
from omnigraph.server.logs import FIELDS, build_failure_fields, log, log_request
from omnigraph.server.service import Exchange, Service, get_exchange, get_service

# Paths that need no token, and that also work while the server is shutting down.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_LOAD_PATH = re.compile(r"/graphs/[^/]+/load")
# Other methods share one label in the metrics: a client may send any text as its method.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Statuses after which the rest of a body may still arrive, so that the connection can't be reused.
_CLOSING_STATUSES = frozenset({408, 413})
# For how long a body that is too large is read on, and dropped, before the connection is closed.
_LINGER_SECONDS = 10.0


class ClientTooSlowError(Exception):
    """A client does not receive its response in time: the connection is closed."""


class RequestMiddleware:
    """The outermost ASGI layer of the server: every request gets a response, a log line and an entry in the metrics."""

    def __init__(self, app: ASGIApp, service: Service, connections: ConnectionLimit | None = None) -> None:
        self._app, self._service = app, service
        self._connections = connections
        config = service.config
        self._allowed_hosts = frozenset(config.allowed_hosts)
        if not self._allowed_hosts and config.is_loopback:
            # DNS rebinding: a page in a browser can make any name resolve to this machine, but can't forge this header.
            self._allowed_hosts = LOOPBACK | {"[::1]"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; any error becomes a response."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # The server has no WebSockets.
            await send({"type": "websocket.close", "code": 1000})
            return
        runtime = self._service.runtime
        # Behind a Unix socket there is no client address.
        client = scope["client"][0] if scope.get("client") else None
        exchange = Exchange(
            id=runtime.ids.ulid(), method=scope["method"], began=runtime.clock.monotonic(), client=client
        )
        scope.setdefault("state", {})["exchange"] = exchange
        sending = _TimedSend(send, receive, exchange, self._service.limits.send_seconds)
        try:
            await self._dispatch(scope, receive, sending, exchange)
        except ClientTooSlowError:
            exchange.code = "client_too_slow"
        except BrokenResponseError:
            exchange.code = "worker_lost"
        except Exception as error:  # noqa: BLE001 - the one place where unforeseen errors become responses
            await self._respond_error(error, scope, receive, sending, exchange)
        finally:
            self._record(scope, exchange)

    async def answer_relayed(self, scope: Scope, receive: Receive, send: RelayedSend, exchange: Exchange) -> None:
        """Answer a request that another worker was asked, which checks its size and host, counts and logs it."""
        exchange.began = self._service.runtime.clock.monotonic()
        try:
            # Not trusted: what comes through the socket has the rights of its token.
            self._authenticate(_read_headers(scope), exchange)
            with self._service.admission.admit_relayed(exchange.actor.name):
                await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - as in `__call__`
            await self._respond_error(error, scope, receive, send, exchange)

    async def _dispatch(self, scope: Scope, receive: Receive, send: "_TimedSend", exchange: Exchange) -> None:
        # The cheap checks come first: no byte of the body is read before the token and the declared size are checked.
        headers = _read_headers(scope)
        self._check_host(headers)
        if scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        if self._service.is_draining:
            raise ServerUnavailableError.server_stopping()
        if self._connections is not None and self._connections.is_exceeded:
            raise ServerUnavailableError.server_busy()
        if not is_explorer_path(scope["path"]):
            self._authenticate(headers, exchange)
        elif scope["method"] != "POST":
            # Files from memory: they count towards nobody's requests.
            await self._app(scope, receive, send)
            return
        limit = self._service.limits.body_bytes
        if _LOAD_PATH.fullmatch(scope["path"]):
            limit = self._service.limits.load_bytes
        _check_declared_size(headers, limit, exchange)
        receiving = _LimitedReceive(receive, limit, self._service.limits.body_seconds, exchange)
        with self._service.admission.admit_request(exchange.actor.name):
            if self._service.traces is None:
                await self._app(scope, receiving, send)
                return
            # Only from here on: a stranger can neither fill the collector nor name a trace.
            with self._service.traces.trace_request(exchange, headers):
                try:
                    await self._app(scope, receiving, send)
                finally:
                    exchange.route = _find_route(scope)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        allowed = self._allowed_hosts
        host = headers.get("host", "")
        # An IPv6 address without a port ends with a bracket, and its colons separate no port.
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if allowed and name.lower() not in allowed:
            raise BadRequestError.host_refused()
        # Browsers send `Origin` with requests of a page; a page of another site must not use the user's network access.
        origin = headers.get("origin")
        if origin is None or _is_same_origin(origin, host):
            return
        # Only names that the settings list count with any port: on loopback, other ports are other programs' pages.
        if _parse_origin_host(origin) not in self._service.config.allowed_hosts:
            raise BadRequestError.origin_refused()

    def _authenticate(self, headers: Mapping[str, str], exchange: Exchange) -> None:
        tokens = self._service.tokens
        if tokens is not None:
            header = headers.get("authorization")
            actor = tokens.authenticate(header)
            if actor is None:
                exchange.rejected = tokens.explain_rejection(header)
                raise UnauthenticatedError
            exchange.actor = actor
        exchange.is_authenticated = True

    async def _respond_error(
        self, error: Exception, scope: Scope, receive: Receive, send: "_TimedSend | RelayedSend", exchange: Exchange
    ) -> None:
        if send.has_begun:
            # Too late for another response: the connection is closed, so that a client can't take half of one as whole.
            if exchange.code is None:
                exchange.code = _get_code(error)
                _log_failure(error, exchange)
            return
        response = build_error_response(error, exchange, self._service)
        await response(scope, receive, send)

    def _record(self, scope: Scope, exchange: Exchange) -> None:
        # The route's pattern, not the path: metrics must not get a label per branch or commit.
        exchange.route = _find_route(scope)
        seconds = self._service.runtime.clock.monotonic() - exchange.began
        metrics = self._service.metrics
        method = exchange.method if exchange.method in _METHODS else "other"
        metrics.count("omnigraph_requests_total", route=exchange.route, method=method, status=str(exchange.status))
        metrics.observe("omnigraph_request_seconds", seconds, route=exchange.route)
        fields = {**exchange.to_log_fields(), "ms": round(seconds * 1e3, 3)}
        log_request(fields)


class _LimitedReceive:
    """An ASGI `receive` that limits the size of a body and the time in which it has to arrive."""

    def __init__(self, receive: Receive, limit: int, seconds: float, exchange: Exchange) -> None:
        self._receive = receive
        self._exchange = exchange
        self._limit = limit
        self._seconds = seconds
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._size = 0
        self._is_complete = False

    async def __call__(self) -> Message:
        # After the body, only a disconnect can follow, for which there is no deadline.
        if self._is_complete:
            return await self._receive()
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            message = await TimedAwait(self._receive(), max(left, 0.001))
        except TimeoutError:
            raise RequestLimitError.body_too_slow(self._seconds) from None
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            self._exchange.has_more_body = message.get("more_body", False)
            raise RequestLimitError.body_too_large(self._limit)
        self._is_complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message


class _TimedSend:
    """An ASGI `send` that adds the common headers, and limits the time in which a client has to receive a chunk."""

    def __init__(self, send: Send, receive: Receive, exchange: Exchange, seconds: float) -> None:
        self._send = send
        self._receive = receive
        self._exchange = exchange
        self._seconds = seconds
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            self._exchange.status = message["status"]
            # Appended, as responses do not set them: a search for each name took 10 µs.
            message["headers"] = [
                *message["headers"],
                (b"x-request-id", self._exchange.id.encode()),
                (b"x-content-type-options", b"nosniff"),
            ]
            # Only the files of the explorer may be kept.
            if not any(name == b"cache-control" for name, _ in message["headers"]):
                message["headers"].append((b"cache-control", b"no-store"))
        elif self._exchange.has_more_body and not message.get("more_body", False):
            await self._pass_on({**message, "more_body": True})
            await self._drop_body()
            message = {"type": "http.response.body"}
        await self._pass_on(message)

    async def _pass_on(self, message: Message) -> None:
        try:
            await TimedAwait(self._send(message), self._seconds)
        except TimeoutError:
            raise ClientTooSlowError from None

    async def _drop_body(self) -> None:
        """Read what a client still sends, for a while: closing before resets its connection, and loses the response."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while (await self._receive()).get("more_body", False):
                    pass


def build_error_response(error: Exception, exchange: Exchange, service: Service) -> Response:
    """Return the response to an error, and record the error as `report_error` does."""
    status = find_status(error)
    body = report_error(error, exchange, service)
    headers = {}
    if status in RETRY_SECONDS:
        headers["Retry-After"] = str(RETRY_SECONDS[status])
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in _CLOSING_STATUSES or _get_code(error) == "server_stopping":
        headers["Connection"] = "close"
    return Response(encode_json(body), status, headers, media_type=JSON)


def report_error(error: Exception, exchange: Exchange, service: Service) -> dict[str, object]:
    """Record an error in the log and the metrics, and return its body, which is the same for HTTP and MCP."""
    status = find_status(error)
    exchange.code = _get_code(error)
    # The server's own refusals are no failures, and a query is cancelled when its client disconnects.
    is_expected = is_server_error(error) or isinstance(error, QueryCancelledError)
    if status == 500 or (status == 503 and not is_expected):
        _log_failure(error, exchange)
    if status in {408, 413, 429}:
        service.metrics.count("omnigraph_refusals_total", code=exchange.code)
    # Only for existing graphs: the name comes from the client, and metrics must not get a label per typo.
    if isinstance(error, OmnigraphError) and error.kind is Kind.CONFLICT and exchange.graph in service.registry.graphs:
        service.metrics.count("omnigraph_conflicts_total", graph=exchange.graph or "")
    return build_error_body(error, exchange.id, service.registry.redactions)


def respond_disconnected(request: Request) -> Response:
    """Record a client that disconnected while sending its body, in the log only."""
    # No client receives this response; its status is for the log and the metrics.
    get_exchange(request).code = "client_gone"
    return Response(status_code=408)


async def refuse(request: Request, error: Exception) -> Response:
    """Respond to an error, as an exception handler of Starlette."""
    return build_error_response(error, get_exchange(request), get_service(request))


def _find_route(scope: Scope) -> str:
    route: str = getattr(scope.get("route"), "path", "-")
    return route


def _read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers by name, the first of each: a search for one took 5 µs, and each request needs five."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _check_declared_size(headers: Mapping[str, str], limit: int, exchange: Exchange) -> None:
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequestError("Content-Encoding", "compressed bodies are not supported")
    # A length that is missing or no number is not an error here: `_LimitedReceive` counts the bytes that arrive.
    declared = headers.get("content-length", "0")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        # Who waits to be asked for the body sends none.
        exchange.has_more_body = "expect" not in headers
        raise RequestLimitError.body_too_large(limit)


def _parse_origin_host(origin: str) -> str | None:
    """Return the host of an `Origin` header, or None without one, as for a page from a file."""
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None


def _is_same_origin(origin: str, host: str) -> bool:
    """Return whether an `Origin` header names the host and port that the request was sent to."""
    default = _DEFAULT_PORTS.get(origin.partition(":")[0])
    try:
        page, server = [(url.hostname, url.port or default) for url in map(urlsplit, (origin, f"//{host}"))]
    except ValueError:
        # An address or port that is none.
        return False
    return page == server


def _get_code(error: Exception) -> str:
    return error.code if isinstance(error, OmnigraphError) else "internal"


def _log_failure(error: Exception, exchange: Exchange) -> None:
    """Log a failure with its location, and with its message if it is an `OmnigraphError`."""
    fields = exchange.to_log_fields() | build_failure_fields(type(error), error.__traceback__)
    # The message of any other error may quote the request.
    if isinstance(error, OmnigraphError):
        fields["reason"] = str(error)
    log.error("failure", extra={FIELDS: fields})
