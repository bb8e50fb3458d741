"""Vectors from a server that speaks OpenAI's HTTP interface: `POST {url}/embeddings`."""

import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

import msgspec
import numpy as np
from numpy.typing import NDArray

from omnigraph.clock import Clock
from omnigraph.engine.embed import ProviderFailedError, ProviderRefusedError, ProviderSettingsError
from omnigraph.engine.query_budget import Budget
from omnigraph.options import OPENAI_URL, EmbedOptions

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

MAX_ATTEMPTS = 5
_FIRST_WAIT, _MAX_WAIT = 0.5, 60.0
_MIN_TIMEOUT = 0.001
"""Of none, a socket would not wait at all, which is something else."""
_RETRY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed later."""
_MAX_BATCH_TEXTS, _MAX_BATCH_LETTERS = 128, 200_000
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_MAX_MESSAGE_LETTERS = 300
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


class _Busy(Exception):  # noqa: N818 - not an error yet: it is tried again
    """The server can't answer now; `wait` is when it said to come back, in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


class OpenAIProvider:
    """Asks in batches, and again, ever later, while the server is busy or out of reach. The key is never shown.

    With a `budget`, for no longer than that has.
    """

    name = "openai"
    dimension = None

    def __init__(
        self, options: EmbedOptions, clock: Clock, jitter: Callable[[float], float], budget: Budget | None = None
    ) -> None:
        self._url = urlsplit((options.url or OPENAI_URL).rstrip("/"))
        self._key, self._timeout = (options.key or "").strip(), options.timeout_seconds
        self._clock, self._jitter, self._budget = clock, jitter, budget
        if not all("!" <= letter <= "~" for letter in self._key):
            raise ProviderSettingsError(self.name, "its key has a letter that no key has: check OMNIGRAPH_EMBED_KEY")
        if not options.model:
            raise ProviderSettingsError(self.name, "name its model with OMNIGRAPH_EMBED_MODEL")
        self.model = options.model
        _check_url(self._url, has_key=bool(self._key))

    def embed(self, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        """A row for each text, of the model's own size."""
        del size
        return np.concatenate([self._request_with_retries(batch) for batch in _split_batches(texts)])

    def _request_with_retries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        wait = _FIRST_WAIT
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return self._request(texts)
            except _Busy as busy:
                if attempt == MAX_ATTEMPTS:
                    raise ProviderFailedError(self.name, f"{busy.reason}, after {MAX_ATTEMPTS} attempts") from None
                self._sleep(min(busy.wait if busy.wait is not None else self._jitter(wait), _MAX_WAIT))
                wait *= 2
        raise AssertionError  # the last attempt returns or raises

    def _sleep(self, seconds: float) -> None:
        if self._budget is None:
            self._clock.sleep(seconds)
        else:
            self._budget.sleep(seconds)

    def _request(self, texts: Sequence[str]) -> NDArray[np.float32]:
        from http.client import HTTPException  # noqa: PLC0415 - few processes ask a server, and all import this module

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
        if response.status != 200:  # a redirect too: the key goes to the host that was named, and to no other
            raise ProviderRefusedError(self.name, response.status, self._format_problem(content))
        try:
            items = msgspec.json.decode(content, type=_Reply).data
        except msgspec.DecodeError as error:
            raise ProviderFailedError(self.name, f"its answer can't be read ({error})") from error
        items.sort(key=lambda item: item.index)
        if [item.index for item in items] != list(range(count)) or len({len(item.embedding) for item in items}) != 1:
            raise ProviderFailedError(self.name, f"it gave {len(items)} vectors for {count} texts, or of several sizes")
        with np.errstate(over="ignore"):  # what is no number in single precision is refused by who asked
            return np.array([item.embedding for item in items], np.float32)

    def _format_problem(self, content: bytes) -> str:
        """What the server says about a problem, without the key if it repeats that."""
        try:
            found = msgspec.json.decode(content, type=_ErrorReply).error
            text = found if isinstance(found, str) else found.message
        except msgspec.DecodeError:
            text = content.decode("utf-8", "replace")
        if self._key:
            text = text.replace(self._key, "…")
        return " ".join(text.split())[:_MAX_MESSAGE_LETTERS] or "no reason given"


def _check_url(url: SplitResult, *, has_key: bool) -> None:
    shown = f"{url.scheme}://{url.hostname or ''}"
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
        reason = "OMNIGRAPH_EMBED_URL is an address like https://host/v1, without a name and password"
        raise ProviderSettingsError(OpenAIProvider.name, reason)
    if url.scheme == "http" and has_key and url.hostname not in _LOOPBACK:
        raise ProviderSettingsError(OpenAIProvider.name, f"a key is not sent to {shown} in the clear: use https")


def _split_batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """So few at a time that servers take them."""
    start, letters = 0, 0
    for place, text in enumerate(texts):
        if place > start and (place - start == _MAX_BATCH_TEXTS or letters + len(text) > _MAX_BATCH_LETTERS):
            yield texts[start:place]
            start, letters = place, 0
        letters += len(text)
    yield texts[start:]


def _parse_retry_after(header: str | None) -> float | None:
    """When to come back, as far as it is said in seconds."""
    try:
        found = float(header) if header else None
    except ValueError:
        return None
    return found if found is not None and found >= 0 else None
