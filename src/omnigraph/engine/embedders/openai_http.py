"""Embed texts through a server with OpenAI's HTTP interface: `POST {url}/embeddings`."""

import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

import msgspec
import numpy as np
from numpy.typing import NDArray

from omnigraph.backoff import compute_wait
from omnigraph.clock import Clock
from omnigraph.engine.embed import EmbeddingError, ProviderFailedError
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import SettingsError
from omnigraph.options import OPENAI_URL, EmbedOptions
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
# Limits of a request; servers limit their inputs too.
_MAX_BATCH_TEXTS = 128
_MAX_BATCH_CHARS = 200_000
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
# Characters of a server's error message that are shown.
_MAX_MESSAGE_CHARS = 300
# Hosts to which a key may be sent without TLS.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _EmbeddingItem(msgspec.Struct):
    index: int
    embedding: list[float]


class _Reply(msgspec.Struct):
    data: list[_EmbeddingItem]


class _ErrorDetail(msgspec.Struct):
    message: str = ""


class _ErrorReply(msgspec.Struct):
    error: _ErrorDetail | str = ""


class _Busy(Exception):  # noqa: N818 - not an error yet: the request is retried
    """The server can't answer now; `wait` is its Retry-After in seconds, if it sent one."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


class OpenAIProvider:
    """A provider that sends texts in batches, and retries with back-off while the server is busy or unreachable.

    With a `budget`, waits and timeouts end at its deadline. Errors never contain the key.
    """

    name = "openai"
    dimension = None

    def __init__(
        self, options: EmbedOptions, clock: Clock, jitter: Callable[[float], float], budget: Budget | None = None
    ) -> None:
        self._url = urlsplit((options.url or OPENAI_URL).rstrip("/"))
        self._key = (options.key or "").strip()
        self._timeout = options.timeout_seconds
        self._clock = clock
        self._jitter = jitter
        self._budget = budget
        # The key becomes part of a header, and http.client would reject a line break with an error that shows the key.
        if not all("!" <= char <= "~" for char in self._key):
            reason = "its key contains a character that is not printable ASCII: check OMNIGRAPH_EMBED_KEY"
            raise SettingsError.embedding_settings(self.name, reason)
        if not options.model:
            raise SettingsError.embedding_settings(self.name, "name its model with OMNIGRAPH_EMBED_MODEL")
        self.model = options.model
        _check_url(self._url, has_key=bool(self._key))

    def embed(self, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        """Return one vector per text, of the size that the model has."""
        del size
        return np.concatenate([self._request_with_retries(batch) for batch in _split_batches(texts)])

    def _request_with_retries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        for attempt in range(MAX_ATTEMPTS):
            try:
                return self._request(texts)
            except _Busy as busy:
                if attempt == MAX_ATTEMPTS - 1:
                    raise ProviderFailedError(self.name, f"{busy.reason}, after {MAX_ATTEMPTS} attempts") from None
                wait = compute_wait(self._jitter, attempt, first=_FIRST_WAIT, limit=_MAX_WAIT)
                self._sleep(min(busy.wait if busy.wait is not None else wait, _MAX_WAIT))
        raise AssertionError  # the last attempt returns or raises

    def _sleep(self, seconds: float) -> None:
        if self._budget is None:
            self._clock.sleep(seconds)
        else:
            self._budget.sleep(seconds)

    def _request(self, texts: Sequence[str]) -> NDArray[np.float32]:
        from http.client import HTTPException  # noqa: PLC0415 - few processes call a server, but all import this module

        body = msgspec.json.encode({"model": self.model, "input": list(texts), "encoding_format": "float"})
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        connection = self._connect()
        try:
            connection.request("POST", f"{self._url.path}/embeddings", body, headers)
            response = connection.getresponse()
            content = response.read(_MAX_RESPONSE_BYTES + 1)
        except (OSError, HTTPException) as error:
            raise _Busy(f"no answer from {self._url.hostname} ({type(error).__name__})") from error
        finally:
            connection.close()
        return self._decode_response(response, content, len(texts))

    def _connect(self) -> "HTTPConnection":
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 - as above

        host, port, timeout = self._url.hostname or "", self._url.port, self._timeout
        if self._budget is not None:
            self._budget.check()
            timeout = max(min(timeout, self._budget.seconds_left), _MIN_TIMEOUT)
        if self._url.scheme == "https":
            return HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        return HTTPConnection(host, port, timeout=timeout)

    def _decode_response(self, response: "HTTPResponse", content: bytes, count: int) -> NDArray[np.float32]:
        if response.status in _RETRY_STATUSES:
            raise _Busy(
                f"HTTP {response.status}: {self._format_problem(content)}",
                _parse_retry_after(response.getheader("Retry-After")),
            )
        # Redirects are not followed either: the key is sent to the configured host and no other.
        if response.status != 200:
            raise EmbeddingError.embedding_refused(self.name, response.status, self._format_problem(content))
        try:
            items = get_decoder(_Reply).decode(content).data
        except msgspec.DecodeError as error:
            raise ProviderFailedError(self.name, f"its response can't be decoded ({error})") from error
        items.sort(key=lambda item: item.index)
        if [item.index for item in items] != list(range(count)) or len({len(item.embedding) for item in items}) != 1:
            reason = f"it gave {len(items)} vectors for {count} texts, or vectors of different sizes"
            raise ProviderFailedError(self.name, reason)
        # Values beyond single precision become infinite, and the caller rejects them.
        with np.errstate(over="ignore"):
            return np.array([item.embedding for item in items], np.float32)

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


def _check_url(url: SplitResult, *, has_key: bool) -> None:
    shown = f"{url.scheme}://{url.hostname or ''}"
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
        reason = "OMNIGRAPH_EMBED_URL must be a URL such as https://host/v1, without a name and password"
        raise SettingsError.embedding_settings(OpenAIProvider.name, reason)
    if url.scheme == "http" and has_key and url.hostname not in _LOOPBACK:
        raise SettingsError.embedding_settings(
            OpenAIProvider.name, f"a key is not sent to {shown} in the clear: use https"
        )


def _split_batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split texts into batches within the limits of a request; a longer text is a batch alone."""
    start = chars = 0
    for position, text in enumerate(texts):
        is_full = position - start == _MAX_BATCH_TEXTS or chars + len(text) > _MAX_BATCH_CHARS
        if position > start and is_full:
            yield texts[start:position]
            start, chars = position, 0
        chars += len(text)
    yield texts[start:]


def _parse_retry_after(header: str | None) -> float | None:
    """Parse a Retry-After header in seconds; return None for a date or an invalid value."""
    try:
        seconds = float(header) if header else None
    except ValueError:
        return None
    return seconds if seconds is not None and seconds >= 0 else None
