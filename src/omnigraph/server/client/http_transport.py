"""Talking to a server: connections that are kept, answers that are read as they come, errors as what they are."""

import json
import select
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from omnigraph.config.server import LOOPBACK
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.server.client.errors import decode_error
from omnigraph.server.http.request_bodies import JSON, encode_json

CHUNK_BYTES = 256 * 1024
_MAX_IDLE_CONNECTIONS = 8

Body = bytes | Iterator[bytes] | None


class BadServerUrlError(OmnigraphError):
    """An address that no server can have, or to which a token would go in the clear."""

    kind = Kind.USAGE
    code = "bad_server_url"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url, self.reason = url, reason

    def __str__(self) -> str:
        return f"can't ask `{self.url}`: {self.reason}"


class ServerUnreachableError(OmnigraphError):
    """The server did not answer, or stopped in the middle. What a write asked for may have been done if `is_sent`."""

    kind = Kind.UNAVAILABLE
    code = "server_unreachable"

    def __init__(self, url: str, reason: str, is_sent: bool = True) -> None:
        super().__init__(url, reason, is_sent)
        self.url, self.reason, self.is_sent = url, reason, is_sent

    def __str__(self) -> str:
        if not self.is_sent:
            return (
                f"{self.url} can't be reached ({self.reason}), and nothing was sent: check the address, and whether"
                " `omnigraph serve` is running there"
            )
        return (
            f"{self.url} does not answer ({self.reason}); a write may have been done all the same: an idempotency key"
            " makes it safe to send it again"
        )


class Transport:
    """Requests to one server, from any number of threads; each has a connection of its own while it lasts."""

    def __init__(self, url: str, token: str | None, *, seconds: float, allow_plain_http: bool) -> None:
        """BadServerUrlError when that is no address of a server, or a token would travel in the clear."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise BadServerUrlError(url, "write http://host:port or https://host")
        if parts.username or parts.password:
            raise BadServerUrlError(parts._replace(netloc=parts.hostname).geturl(), "it takes a token, no password")
        is_plain = parts.scheme == "http" and parts.hostname not in LOOPBACK
        if token is not None and is_plain and not allow_plain_http:
            raise BadServerUrlError(url, "everybody on the way could read the token: use https")
        self.url = url.rstrip("/")
        self._host, self._port, self._is_tls = parts.hostname, parts.port, parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._token, self._seconds = token, seconds
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []

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
    ) -> Any:  # noqa: ANN401 - JSON
        """The JSON of an answer; `body` is what is sent as JSON, unless it is bytes, or some at a time."""
        with self.stream(method, path, body, query=query, sources=sources, seconds=seconds) as response:
            data = self._read(response)
        return json.loads(data)

    @contextmanager
    def stream(
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
    ) -> Iterator[HTTPResponse]:
        """An answer that is fine, to be read inside; any other is raised as the error that it tells of.

        `part` are the bytes that are wanted of it. `seconds` is how long the server may be silent, if not as usual.
        """
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{self._base}{path}{'?' + urlencode(given, doseq=True) if given else ''}"
        headers = {"Accept": accept}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if byte_range is not None:
            headers["Range"] = f"bytes={byte_range.start}-{byte_range.stop - 1}"
        connection = self._acquire(self._seconds if seconds is None else seconds)
        is_done = False
        try:
            response = self._send(connection, method, target, _encode_payload(body), headers)
            if response.status >= 400:
                data = self._read(response)
                is_done = True
                raise decode_error(data, response.status, sources or {})
            yield response
            is_done = response.isclosed()
        finally:
            if is_done:
                self._release(connection)
            else:
                connection.close()

    def iter_chunks(self, response: HTTPResponse) -> Iterator[bytes]:
        """The bytes of an answer, as they come; ServerUnreachableError when it breaks off before its end."""
        while piece := self._read(response, CHUNK_BYTES):
            yield piece

    def close(self) -> None:
        """Close what is kept open."""
        with self._lock:
            kept, self._idle = self._idle, []
        for connection in kept:
            connection.close()

    def _send(
        self, connection: HTTPConnection, method: str, target: str, body: Body, headers: dict[str, str]
    ) -> HTTPResponse:
        if connection.sock is None:
            try:
                connection.connect()
            except OSError as error:
                raise ServerUnreachableError(self.url, str(error) or type(error).__name__, is_sent=False) from error
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have refused before all of it was sent
                connection.request(method, target, body, headers)
            return connection.getresponse()
        except (OSError, HTTPException) as error:
            raise ServerUnreachableError(self.url, str(error) or type(error).__name__) from error

    def _read(self, response: HTTPResponse, size: int | None = None) -> bytes:
        try:
            return response.read() if size is None else response.read(size)
        except (OSError, HTTPException) as error:
            raise ServerUnreachableError(self.url, f"the answer broke off: {type(error).__name__}") from error

    def _acquire(self, seconds: float) -> HTTPConnection:
        """One that is kept and still open, or a new one; it may be silent for so long."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                connection.sock.settimeout(seconds)
                return connection
            connection.close()  # the server has closed it, or says something that nobody asked for
        if self._is_tls:
            return HTTPSConnection(self._host, self._port, timeout=seconds, context=ssl.create_default_context())
        return HTTPConnection(self._host, self._port, timeout=seconds)

    def _release(self, connection: HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < _MAX_IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()


def quote_path(*parts: str) -> str:
    """A path of parts, whatever is in them."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _encode_payload(body: object) -> Body:
    if body is None or isinstance(body, bytes | Iterator):
        return body
    return encode_json(body)
