"""What every request passes before a route sees it: its host, its token, its size, its time."""

import asyncio
import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnigraph.config.server import LOOPBACK
from omnigraph.engine.query_budget import QueryCancelledError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.policy import Actor
from omnigraph.server.http.error_responses import RETRY_SECONDS, build_error_body, find_status
from omnigraph.server.http.request_bodies import JSON, encode_json
from omnigraph.server.http_errors import (
    BadRequestError,
    BodyTooLargeError,
    BodyTooSlowError,
    HostRefusedError,
    OriginRefusedError,
    ServerStoppingError,
    UnauthenticatedError,
)
from omnigraph.server.logs import FIELDS, build_failure_fields, log
from omnigraph.server.service import Exchange, Service, get_exchange, get_service

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What anybody may ask, also of a server that stops."""
_LOAD_PATH = re.compile(r"/graphs/[^/]+/load")
_CLOSING_STATUSES = frozenset({408, 413})
"""After these, the rest of a body may still be on its way."""


class ClientTooSlowError(Exception):
    """A client does not take its answer: the connection is cut."""


class RequestMiddleware:
    """The outermost layer of the server."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        runtime = self._service.runtime
        exchange = Exchange(id=runtime.ids.ulid(), method=scope["method"], began=runtime.clock.monotonic())
        scope.setdefault("state", {})["exchange"] = exchange
        sending = _TimedSend(send, exchange, self._service.limits.send_seconds)
        try:
            await self._dispatch(scope, receive, sending, exchange)
        except ClientTooSlowError:
            exchange.code = "client_too_slow"
        except Exception as error:  # noqa: BLE001 - the one place where what nobody foresaw becomes an answer
            await self._respond_error(error, scope, receive, sending, exchange)
        finally:
            self._record(scope, exchange)

    async def _dispatch(self, scope: Scope, receive: Receive, send: "_TimedSend", exchange: Exchange) -> None:
        headers = Headers(scope=scope)
        self._check_host(headers)
        if scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        if self._service.is_draining:
            raise ServerStoppingError
        exchange.actor = self._authenticate(headers, exchange.actor)
        limit = self._service.limits.body_bytes
        if _LOAD_PATH.fullmatch(scope["path"]):
            limit = self._service.limits.load_bytes
        _check_declared_size(headers, limit)
        receiving = _LimitedReceive(receive, limit, self._service.limits.body_seconds)
        with self._service.admission.admit_request(exchange.actor.name):
            await self._app(scope, receiving, send)

    def _check_host(self, headers: Headers) -> None:
        config = self._service.config
        allowed = set(config.allowed_hosts)
        if not allowed and config.is_loopback:
            allowed = {*LOOPBACK, "[::1]"}  # a page of a browser can make any name lead here, but not this header
        host = headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if allowed and name.lower() not in allowed:
            raise HostRefusedError
        origin = headers.get("origin")
        if origin is not None and _parse_origin_host(origin) not in {*allowed, _strip_brackets(name)}:
            raise OriginRefusedError  # a page of somebody else's, in a browser that can reach this server

    def _authenticate(self, headers: Headers, anybody: Actor) -> Actor:
        tokens = self._service.tokens
        if tokens is None:
            return anybody
        found = tokens.authenticate(headers.get("authorization"))
        if found is None:
            raise UnauthenticatedError
        return found

    async def _respond_error(
        self, error: Exception, scope: Scope, receive: Receive, send: "_TimedSend", exchange: Exchange
    ) -> None:
        if send.has_begun:
            # Too late for an answer: the connection is cut, so that nobody takes half of one for the whole.
            if exchange.code is None:
                exchange.code = _get_code(error)
                _log_failure(error, exchange)
            return
        response = build_error_response(error, exchange, self._service)
        await response(scope, receive, send)

    def _record(self, scope: Scope, exchange: Exchange) -> None:
        exchange.route = getattr(scope.get("route"), "path", "-")
        seconds = self._service.runtime.clock.monotonic() - exchange.began
        metrics = self._service.metrics
        metrics.count(
            "omnigraph_requests_total", route=exchange.route, method=exchange.method, status=str(exchange.status)
        )
        metrics.observe("omnigraph_request_seconds", seconds, route=exchange.route)
        fields = {**exchange.to_log_fields(), "ms": round(seconds * 1e3, 3)}
        log.info("request", extra={FIELDS: fields})


class _LimitedReceive:
    """A body that is neither longer nor slower than it may be."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self._receive, self._limit, self._seconds = receive, limit, seconds
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._size = 0
        self._is_complete = False

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(left, 0.001)):  # unlike wait_for, it never swallows a cancellation
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlowError(self._seconds) from None
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise BodyTooLargeError(self._limit)
        self._is_complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message


class _TimedSend:
    """An answer with the headers that every answer has, to a client that takes it in time."""

    def __init__(self, send: Send, exchange: Exchange, seconds: float) -> None:
        self._send, self._exchange, self._seconds = send, exchange, seconds
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            self._exchange.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._exchange.id
            headers["X-Content-Type-Options"] = "nosniff"
            headers["Cache-Control"] = "no-store"
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            raise ClientTooSlowError from None


def build_error_response(error: Exception, exchange: Exchange, service: Service) -> Response:
    """The answer that tells of an error; one that is nobody's fault but ours is logged, too."""
    status, body = find_status(error), report_error(error, exchange, service)
    headers = {}
    if status in RETRY_SECONDS:
        headers["Retry-After"] = str(RETRY_SECONDS[status])
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in _CLOSING_STATUSES or isinstance(error, ServerStoppingError):
        headers["Connection"] = "close"
    return Response(encode_json(body), status, headers, media_type=JSON)


def report_error(error: Exception, exchange: Exchange, service: Service) -> dict[str, object]:
    """What is told of an error, wherever it is told: it is in the log and in the counters from now on."""
    status = find_status(error)
    exchange.code = _get_code(error)
    is_expected = _is_server_error(error) or isinstance(error, QueryCancelledError)  # of one who went away
    if status == 500 or (status == 503 and not is_expected):
        _log_failure(error, exchange)
    if status in {408, 413, 429}:
        service.metrics.count("omnigraph_refusals_total", code=exchange.code)
    if isinstance(error, OmnigraphError) and error.kind is Kind.CONFLICT and exchange.graph in service.registry.graphs:
        service.metrics.count("omnigraph_conflicts_total", graph=exchange.graph or "")
    return build_error_body(error, exchange.id, service.registry.redactions)


async def refuse(request: Request, error: Exception) -> Response:
    """The same, as a handler of exceptions."""
    return build_error_response(error, get_exchange(request), get_service(request))


def _check_declared_size(headers: Headers, limit: int) -> None:
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequestError("Content-Encoding", "compressed bodies are not taken")
    declared = headers.get("content-length", "0")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise BodyTooLargeError(limit)


def _parse_origin_host(origin: str) -> str | None:
    """The host that an `Origin` names; None where there is none, as for a page from a file."""
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None


def _strip_brackets(name: str) -> str:
    return name.lower().removeprefix("[").removesuffix("]")


def _get_code(error: Exception) -> str:
    return error.code if isinstance(error, OmnigraphError) else "internal"


def _is_server_error(error: Exception) -> bool:
    return type(error).__module__.startswith("omnigraph.server.")


def _log_failure(error: Exception, exchange: Exchange) -> None:
    """Of an error of ours its message is logged: it tells of the machine. Of another one, only what and where."""
    fields = exchange.to_log_fields() | build_failure_fields(type(error), error.__traceback__)
    if isinstance(error, OmnigraphError):
        fields["reason"] = str(error)
    log.error("failure", extra={FIELDS: fields})
