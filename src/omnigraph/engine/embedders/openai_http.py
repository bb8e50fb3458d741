"""Embed texts through a server with OpenAI's HTTP interface: `POST {url}/embeddings`."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from omnigraph.clock import Clock
from omnigraph.engine.embed import EmbeddingError, ProviderFailedError
from omnigraph.engine.json_endpoint import EndpointErrors, EndpointSettings, JsonEndpoint
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import SettingsError
from omnigraph.options import OPENAI_URL, EmbedOptions
from omnigraph.struct_decoder import get_decoder

_URL, _KEY, _MODEL = "OMNIGRAPH_EMBED_URL", "OMNIGRAPH_EMBED_KEY", "OMNIGRAPH_EMBED_MODEL"
# Limits of a request; servers limit their inputs too.
_MAX_BATCH_TEXTS = 128
_MAX_BATCH_CHARS = 200_000


class _EmbeddingItem(msgspec.Struct):
    index: int
    embedding: list[float]


class _Reply(msgspec.Struct):
    data: list[_EmbeddingItem]


class OpenAIProvider:
    """A provider that sends texts in batches; see `JsonEndpoint` for retries, deadlines and keys."""

    name = "openai"
    dimension = None

    def __init__(
        self, options: EmbedOptions, clock: Clock, jitter: Callable[[float], float], budget: Budget | None = None
    ) -> None:
        errors = EndpointErrors(
            settings=lambda reason: SettingsError.embedding_settings(self.name, reason),
            refused=lambda status, reason: EmbeddingError.embedding_refused(self.name, status, reason),
            failed=lambda reason: ProviderFailedError(self.name, reason),
        )
        settings = EndpointSettings(options.url or OPENAI_URL, options.key, options.timeout_seconds, _URL, _KEY)
        self._endpoint = JsonEndpoint(settings, errors, clock, jitter, budget)
        if not options.model:
            raise SettingsError.embedding_settings(self.name, f"name its model with {_MODEL}")
        self.model = options.model

    def embed(self, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        """Return one vector per text, of the size that the model has."""
        del size
        return np.concatenate([self._embed_batch(batch) for batch in _split_batches(texts)])

    def _embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        request = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        content = self._endpoint.post("/embeddings", request)
        try:
            items = get_decoder(_Reply).decode(content).data
        except msgspec.DecodeError as error:
            raise ProviderFailedError(self.name, f"its response can't be decoded ({error})") from error
        items.sort(key=lambda item: item.index)
        if [item.index for item in items] != list(range(len(texts))) or len({len(i.embedding) for i in items}) != 1:
            reason = f"it gave {len(items)} vectors for {len(texts)} texts, or vectors of different sizes"
            raise ProviderFailedError(self.name, reason)
        # Values beyond single precision become infinite, and the caller rejects them.
        with np.errstate(over="ignore"):
            return np.array([item.embedding for item in items], np.float32)


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
