"""Judge texts through a server with the HTTP interface that Cohere, Jina and vLLM share: `POST {url}/rerank`."""

from collections.abc import Callable, Sequence

import msgspec

from omnigraph.clock import Clock
from omnigraph.engine.embed import EmbeddingError, ProviderFailedError
from omnigraph.engine.json_endpoint import EndpointErrors, EndpointSettings, JsonEndpoint
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import SettingsError
from omnigraph.options import RerankOptions
from omnigraph.struct_decoder import get_decoder

_URL, _KEY, _MODEL = "OMNIGRAPH_RERANK_URL", "OMNIGRAPH_RERANK_KEY", "OMNIGRAPH_RERANK_MODEL"


class _RerankItem(msgspec.Struct):
    index: int
    relevance_score: float


class _RerankReply(msgspec.Struct):
    results: list[_RerankItem]


class HttpReranker:
    """A reranker that sends the query and all texts in one request; see `JsonEndpoint` for retries and deadlines."""

    name = "http"

    def __init__(
        self, options: RerankOptions, clock: Clock, jitter: Callable[[float], float], budget: Budget | None = None
    ) -> None:
        errors = EndpointErrors(
            settings=lambda reason: SettingsError.reranker_settings(self.name, reason),
            refused=lambda status, reason: EmbeddingError.rerank_refused(self.name, status, reason),
            failed=lambda reason: ProviderFailedError.rerank_failed(self.name, reason),
        )
        if not options.url or not options.model:
            reason = f"name its server with {_URL} and its model with {_MODEL}"
            raise SettingsError.reranker_settings(self.name, reason)
        settings = EndpointSettings(options.url, options.key, options.timeout_seconds, _URL, _KEY)
        self._endpoint = JsonEndpoint(settings, errors, clock, jitter, budget)
        self._model = options.model

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the relevance of each text that the model gives."""
        # All of them: which rows stay is decided by the limit of the query.
        request = {"model": self._model, "query": query, "documents": list(texts), "top_n": len(texts)}
        content = self._endpoint.post("/rerank", request)
        try:
            items = get_decoder(_RerankReply).decode(content).results
        except msgspec.DecodeError as error:
            raise ProviderFailedError.rerank_failed(self.name, f"its response can't be decoded ({error})") from error
        # Servers answer by relevance. If one were missing or there twice, texts would get scores of others.
        items.sort(key=lambda item: item.index)
        if [item.index for item in items] != list(range(len(texts))):
            raise ProviderFailedError.rerank_failed(self.name, f"it judged {len(items)} texts of {len(texts)}")
        return [item.relevance_score for item in items]
