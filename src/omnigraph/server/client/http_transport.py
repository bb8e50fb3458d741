"""The HTTP transport of the client: a connection pool, streamed responses, and decoding of error responses."""

import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from omnigraph.config.server import LOOPBACK
from omnigraph.errors import BadArgumentError, Kind, OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.server.client.errors import decode_error
from omnigraph.server.client.retries import MAX_RETRIES, RetryPlan
from omnigraph.server.http.request_bodies import JSON, encode_json

# Bodies of files are sent, and streamed responses are read, in chunks of this size.
CHUNK_BYTES = 256 * 1024
# More threads than this may send requests at the same time; further connections are closed after use.
MAX_IDLE_CONNECTIONS = 8

Body = bytes | Iterator[bytes] | None


class ServerUnreachableError(OmnigraphError):
    """The server did not respond, or the response broke off. If `is_sent`, a write may have been committed."""

    kind = Kind.UNAVAILABLE
    code = "server_unreachable"
    url: str
    reason: str
    is_sent: bool = True

    def __str__(self) -> str:
        if not self.is_sent:
            return (
                f"{self.url} can't be reached ({self.reason}), and nothing was sent: check the address, and that"
                " `omnigraph serve` is running there"
            )
        return (
            f"{self.url} does not respond ({self.reason}); a write may have been committed nevertheless: with an"
            " idempotency key it is safe to send it again"
        )


class CallHandle:
    """The requests of one call, which another thread can end. A call runs with its handle in `CURRENT_CALL`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: set[HTTPConnection] = set()
        self.is_aborted = False
        """Whether its requests were ended, so that none begins again."""

    def begin(self, connection: HTTPConnection) -> None:
        """Add a connection before a request is sent over it."""
        with self._lock:
            self._connections.add(connection)

    def end(self, connection: HTTPConnection) -> None:
        """Remove a connection that is no longer in use."""
        with self._lock:
            self._connections.discard(connection)

    def abort(self) -> None:
        """Close the connections in use; the server notices, and cancels what it reads for them."""
        with self._lock:
            self.is_aborted = True
            connections = list(self._connections)
        for connection in connections:
            _shut_down(connection)


CURRENT_CALL: ContextVar[CallHandle | None] = ContextVar("omnigraph_call", default=None)


class Transport:
    """A pool of connections to one server. Thread-safe: each request has its own connection while it runs."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        seconds: float,
        allow_plain_http: bool,
        retries: int = MAX_RETRIES,
        max_idle: int = MAX_IDLE_CONNECTIONS,
    ) -> None:
        """Check the URL; connections are opened by the first requests.

        Raises:
            BadArgumentError: The URL is not a valid server address, or the token would be sent unencrypted.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise BadArgumentError.bad_server_url(url, "write http://host:port or https://host")
        if parts.username or parts.password:
            # The message must not contain the password.
            raise BadArgumentError.bad_server_url(
                parts._replace(netloc=parts.hostname).geturl(), "pass a token, not a password"
            )
        is_plain = parts.scheme == "http" and parts.hostname not in LOOPBACK
        if token is not None and is_plain and not allow_plain_http:
            raise BadArgumentError.bad_server_url(url, "the token would be sent unencrypted: use https")
        self.url = url.rstrip("/")
        self._host = parts.hostname
        self._port = parts.port
        self._is_tls = parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._token = token
        self._seconds = seconds
        self._retries = retries
        self._max_idle = max_idle
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []
        # With the number of closes before each began: a connection of before the last one is not kept.
        self._active: dict[HTTPConnection, int] = {}
        self._closes = 0
        # A request that began before the latest of them is not sent again.
        self._aborts = 0

    def __repr__(self) -> str:
        return f"Transport({self.url!r})"

    def request_json(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        sources: Mapping[str, Source] | None = None,
        seconds: float | None = None,
        is_repeatable: bool = False,
    ) -> Any:  # noqa: ANN401 - JSON
        """Send a request and return its JSON. A `body` of bytes, or an iterator of bytes, is sent unchanged."""
        with self.stream(
            method, path, body, query=query, sources=sources, seconds=seconds, is_repeatable=is_repeatable
        ) as response:
            data = self.read(response)
        return json.loads(data)

    @contextmanager
    def stream(  # noqa: PLR0913 - the parts of a request, each by name
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        accept: str = JSON,
        byte_range: range | None = None,
        sources: Mapping[str, Source] | None = None,
        seconds: float | None = None,
        is_repeatable: bool = False,
    ) -> Iterator[HTTPResponse]:
        """Send a request, and open its response for reading inside the `with` block.

        An error response is raised as the error it contains. `sources` are the texts that were sent, for errors with
        positions in them. `byte_range` requests a part of the resource. `seconds` is how long the server may be
        silent; None takes the default of the transport. `is_repeatable` says that the request has the same effect if
        it is sent twice, as every GET has: it is a read, or has an idempotency key.

        Raises:
            ServerUnreachableError: The server does not respond, or the response broke off.
        """
        query_params = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{self._base}{path}{'?' + urlencode(query_params, doseq=True) if query_params else ''}"
        headers = {"Accept": accept}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if byte_range is not None:
            headers["Range"] = f"bytes={byte_range.start}-{byte_range.stop - 1}"
        payload = _encode_payload(body)
        connection, response = self._open(
            method,
            target,
            payload,
            headers,
            sources or {},
            self._seconds if seconds is None else seconds,
            RetryPlan(self._retries, is_repeatable=is_repeatable or method == "GET", has_whole_body=_is_whole(payload)),
        )
        is_done = False
        try:
            yield response
            is_done = response.isclosed()
        finally:
            closes = self._deactivate(connection)
            # Unread bytes of this response would be taken for the next one: only a finished connection is reused.
            if is_done:
                self._release(connection, closes)
            else:
                connection.close()

    def _open(
        self,
        method: str,
        target: str,
        payload: Body,
        headers: dict[str, str],
        sources: Mapping[str, Source],
        seconds: float,
        plan: RetryPlan,
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Send a request until it succeeds or must not be sent again, and return its connection and response.

        The connection is an active one, from before the request is sent.
        """
        aborts = self._aborts
        call = CURRENT_CALL.get()

        def is_ended() -> bool:
            return self._aborts != aborts or (call is not None and call.is_aborted)

        while True:
            connection = self._acquire(seconds)
            self._activate(connection)
            failure: OmnigraphError
            try:
                response = self._send(connection, method, target, payload, headers)
                if response.status < 400:
                    return connection, response
                data = self.read(response)
            except BaseException as error:
                self._deactivate(connection)
                connection.close()
                if not isinstance(error, ServerUnreachableError) or is_ended():
                    raise
                failure = error
                plan.wait_after_outage(error, is_sent=error.is_sent)
            else:
                self._release(connection, self._deactivate(connection))
                failure = decode_error(data, response.status, sources)
                plan.wait_after_response(failure, response.getheader("Retry-After"))
            # What the caller ended while it waited must not begin again.
            if is_ended():
                raise failure

    def _activate(self, connection: HTTPConnection) -> None:
        call = CURRENT_CALL.get()
        if call is not None:
            call.begin(connection)
        with self._lock:
            self._active[connection] = self._closes

    def _deactivate(self, connection: HTTPConnection) -> int:
        """Count a connection as no longer in use; return the number of closes before it began."""
        call = CURRENT_CALL.get()
        if call is not None:
            call.end(connection)
        with self._lock:
            return self._active.pop(connection, -1)

    def iter_chunks(self, response: HTTPResponse) -> Iterator[bytes]:
        """Yield the bytes of a response as they arrive.

        Raises:
            ServerUnreachableError: The response broke off.
        """
        while chunk := self.read(response, CHUNK_BYTES):
            yield chunk

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            self._closes += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def abort(self) -> None:
        """Close all requests in flight; the server notices, and cancels what it reads for them."""
        with self._lock:
            self._aborts += 1
            active = list(self._active)
        for connection in active:
            _shut_down(connection)

    def _send(
        self, connection: HTTPConnection, method: str, target: str, body: Body, headers: dict[str, str]
    ) -> HTTPResponse:
        if connection.sock is None:
            try:
                connection.connect()
            except OSError as error:
                raise ServerUnreachableError(self.url, str(error) or type(error).__name__, is_sent=False) from error
        try:
            # The server may reject a request and close before the whole body was sent; its response is then readable.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body, headers)
            return connection.getresponse()
        except (OSError, HTTPException) as error:
            raise ServerUnreachableError(self.url, str(error) or type(error).__name__) from error

    def read(self, response: HTTPResponse, size: int | None = None) -> bytes:
        """Return at most `size` bytes of a response, or all that is left; none at its end.

        Raises:
            ServerUnreachableError: The response broke off.
        """
        try:
            return response.read() if size is None else response.read(size)
        except (OSError, HTTPException) as error:
            raise ServerUnreachableError(self.url, f"the response broke off: {type(error).__name__}") from error

    def _acquire(self, seconds: float) -> HTTPConnection:
        """Return an idle connection that is still open, or a new one, with `seconds` as its timeout."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            # An idle socket that is readable was closed by the server, or has bytes that belong to no request.
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                connection.sock.settimeout(seconds)
                return connection
            connection.close()
        if self._is_tls:
            return HTTPSConnection(self._host, self._port, timeout=seconds, context=ssl.create_default_context())
        return HTTPConnection(self._host, self._port, timeout=seconds)

    def _release(self, connection: HTTPConnection, closes: int) -> None:
        with self._lock:
            if connection.sock is not None and closes == self._closes and len(self._idle) < self._max_idle:
                self._idle.append(connection)
                return
        connection.close()


def _shut_down(connection: HTTPConnection) -> None:
    if connection.sock is not None:
        # Closing alone would not wake the thread that waits for the response.
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def quote_path(*parts: str) -> str:
    """Build a URL path of segments, each percent-encoded in full."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _is_whole(payload: Body) -> bool:
    """Return whether a body can be sent again; an iterator is used up by the first time."""
    return payload is None or isinstance(payload, bytes)


def _encode_payload(body: object) -> Body:
    if body is None or isinstance(body, bytes | Iterator):
        return body
    return encode_json(body)
