"""Create the reranker that the settings name."""

from collections.abc import Sequence

import numpy as np

from omnigraph.engine.embed import EmbeddingError, ProviderFailedError
from omnigraph.engine.execution_context import RerankTexts
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.rerank import Reranker
from omnigraph.engine.rerankers.http import HttpReranker
from omnigraph.engine.rerankers.overlap import OverlapReranker
from omnigraph.errors import SettingsError
from omnigraph.options import RerankProvider
from omnigraph.runtime import Runtime


def create_reranker(runtime: Runtime, budget: Budget | None = None) -> Reranker | None:
    """Create the configured reranker; return None if there is none.

    Raises:
        SettingsError: Its settings are incomplete or invalid.
    """
    options = runtime.options.reranking
    if options.provider is RerankProvider.OVERLAP:
        return OverlapReranker()
    if options.provider is RerankProvider.HTTP:
        return HttpReranker(options, runtime.clock, runtime.ids.jitter, budget)
    return None


def build_query_reranker(runtime: Runtime, budget: Budget) -> RerankTexts:
    """Return the judge of the texts of one query: within its budget, the same texts once, and no more than allowed."""
    most = runtime.options.reranking.max_texts
    # A query may compute the same rank in several places. They must agree, and a service may vary.
    cache: dict[tuple[str, tuple[str, ...]], Sequence[float]] = {}

    def rerank(query: str, texts: Sequence[str]) -> Sequence[float]:
        key = (query, tuple(texts))
        if key not in cache:
            wanted = len(texts) + sum(len(sent) for _, sent in cache)
            if wanted > most:
                raise EmbeddingError.rerank_too_many(wanted, most)
            # Created here, so that a query that reranks nothing needs no valid settings.
            reranker = create_reranker(runtime, budget)
            if reranker is None:
                raise SettingsError.no_reranker()
            scores = reranker.rerank(query, texts)
            # A NaN has no place in an order, and would make the result depend on how rows are sorted.
            if not np.isfinite(scores).all():
                raise ProviderFailedError.rerank_failed(reranker.name, "its response has scores that are not numbers")
            cache[key] = scores
        return cache[key]

    return RerankTexts(rerank, most)
