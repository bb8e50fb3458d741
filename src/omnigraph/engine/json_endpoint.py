"""Post JSON to a model's HTTP server: retried with back-off while it is busy, within the deadline of a query."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

import msgspec

from omnigraph.backoff import compute_wait
from omnigraph.clock import Clock
from omnigraph.engine.query_budget import Budget
from omnigraph.struct_decoder import get_decoder

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

MAX_ATTEMPTS = 5
# Exponential back-off in seconds; a server's Retry-After is capped by the maximum too.
_FIRST_WAIT, _MAX_WAIT = 0.5, 60.0
# A timeout of 0 would make the socket non-blocking instead of failing at the deadline.
_MIN_TIMEOUT = 0.001
# Statuses after which the same request may succeed later.
_RETRY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
# Characters of a server's error message that are shown.
_MAX_MESSAGE_CHARS = 300
# Hosts to which a key may be sent without TLS.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _ErrorDetail(msgspec.Struct):
    message: str = ""


class _ErrorReply(msgspec.Struct):
    error: _ErrorDetail | str = ""


class _Busy(Exception):  # noqa: N818 - not an error yet: the request is retried
    """The server can't answer now; `wait` is its Retry-After in seconds, if it sent one."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


@dataclass(frozen=True, slots=True)
class EndpointErrors:
    """The errors that a provider reports: of its settings, of a request that is refused, and of a server that fails."""

    settings: Callable[[str], Exception]
    refused: Callable[[int, str], Exception]
    failed: Callable[[str], Exception]


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Where a server is, its key, and the variables that set both."""

    url: str
    key: str | None
    timeout_seconds: float
    url_variable: str
    key_variable: str


class JsonEndpoint:
    """A server that is posted JSON, and retried with back-off while it is busy or unreachable.

    With a `budget`, waits and timeouts end at its deadline. Errors never contain the key.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        errors: EndpointErrors,
        clock: Clock,
        jitter: Callable[[float], float],
        budget: Budget | None = None,
    ) -> None:
        self._url = urlsplit(settings.url.rstrip("/"))
        self._key = (settings.key or "").strip()
        self._timeout = settings.timeout_seconds
        self._errors = errors
        self._clock = clock
        self._jitter = jitter
        self._budget = budget
        # The key becomes part of a header, and http.client would reject a line break with an error that shows the key.
        if not all("!" <= char <= "~" for char in self._key):
            reason = f"its key contains a character that is not printable ASCII: check {settings.key_variable}"
            raise errors.settings(reason)
        _check_url(self._url, settings.url_variable, errors, has_key=bool(self._key))

    def post(self, path: str, content: object) -> bytes:
        """Return the content of the response to a value, which is posted as JSON below the address of the server."""
        body = msgspec.json.encode(content)
        for attempt in range(MAX_ATTEMPTS):
            try:
                return self._request(path, body)
            except _Busy as busy:
                if attempt == MAX_ATTEMPTS - 1:
                    raise self._errors.failed(f"{busy.reason}, after {MAX_ATTEMPTS} attempts") from None
                wait = compute_wait(self._jitter, attempt, first=_FIRST_WAIT, limit=_MAX_WAIT)
                self._sleep(min(busy.wait if busy.wait is not None else wait, _MAX_WAIT))
        raise AssertionError  # the last attempt returns or raises

    def _sleep(self, seconds: float) -> None:
        if self._budget is None:
            self._clock.sleep(seconds)
        else:
            self._budget.sleep(seconds)

    def _request(self, path: str, body: bytes) -> bytes:
        from http.client import HTTPException  # noqa: PLC0415 - few processes call a server, but all import this module

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        connection = self._connect()
        try:
            connection.request("POST", f"{self._url.path}{path}", body, headers)
            # Closed even if the budget ends it in the middle: it holds the socket that `connection` gave up.
            with connection.getresponse() as response:
                content = self._read(response)
        except (OSError, HTTPException) as error:
            raise _Busy(f"no answer from {self._url.hostname} ({type(error).__name__})") from error
        finally:
            connection.close()
        self._check_status(response, content)
        if len(content) > _MAX_RESPONSE_BYTES:
            raise self._errors.failed(f"its response has more than {_MAX_RESPONSE_BYTES:,} bytes")
        return content

    def _read(self, response: "HTTPResponse") -> bytes:
        """Return the content; the timeout of a socket is one of silence, so a server that trickles would outlast it."""
        content = bytearray()
        while len(content) <= _MAX_RESPONSE_BYTES and (chunk := response.read1(_CHUNK_BYTES)):
            content += chunk
            if self._budget is not None:
                self._budget.check()
        return bytes(content)

    def _connect(self) -> "HTTPConnection":
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 - as above

        host, port, timeout = self._url.hostname or "", self._url.port, self._timeout
        if self._budget is not None:
            self._budget.check()
            timeout = max(min(timeout, self._budget.seconds_left), _MIN_TIMEOUT)
        if self._url.scheme == "https":
            return HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        return HTTPConnection(host, port, timeout=timeout)

    def _check_status(self, response: "HTTPResponse", content: bytes) -> None:
        if response.status in _RETRY_STATUSES:
            raise _Busy(
                f"HTTP {response.status}: {self._format_problem(content)}",
                _parse_retry_after(response.getheader("Retry-After")),
            )
        # Redirects are not followed either: the key is sent to the configured host and no other.
        if response.status != 200:
            raise self._errors.refused(response.status, self._format_problem(content))

    def _format_problem(self, content: bytes) -> str:
        """Return the server's error message on one line, with the key masked if the message contains it."""
        try:
            error = get_decoder(_ErrorReply).decode(content).error
            text = error if isinstance(error, str) else error.message
        except msgspec.DecodeError:
            text = content.decode("utf-8", "replace")
        if self._key:
            text = text.replace(self._key, "…")
        return " ".join(text.split())[:_MAX_MESSAGE_CHARS] or "no reason given"


def _check_url(url: SplitResult, variable: str, errors: EndpointErrors, *, has_key: bool) -> None:
    shown = f"{url.scheme}://{url.hostname or ''}"
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
        raise errors.settings(f"{variable} must be a URL such as https://host/v1, without a name and password")
    if url.scheme == "http" and has_key and url.hostname not in _LOOPBACK:
        raise errors.settings(f"a key is not sent to {shown} in the clear: use https")


def _parse_retry_after(header: str | None) -> float | None:
    """Parse a Retry-After header in seconds; return None for a date or an invalid value."""
    try:
        seconds = float(header) if header else None
    except ValueError:
        return None
    return seconds if seconds is not None and seconds >= 0 else None
