"""Judge the relevance of texts for a query: the protocol of rerankers."""

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """A judge of relevance. Thread-safe; equal calls get equal scores unless the service itself varies."""

    @property
    def name(self) -> str:
        """The name used in settings and messages."""
        ...

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one score per text, a larger one for a more relevant text.

        Raises:
            EmbeddingError, ProviderFailedError: The reranker returned no scores.
        """
        ...
