"""Embed texts as vectors: the protocol of embedding providers, their errors, and checks of model and size."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omnigraph.errors import Kind, OmnigraphError, variant
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import VectorOf


class EmbeddingError(OmnigraphError):
    """A provider can't embed or judge a text: change the text, the schema or the model."""

    kind = Kind.INVALID

    @variant
    def embedding_model_differs(self, property: str, declared: str, model: str) -> str:
        """Report that a vector is declared to be computed by another model than the provider's."""
        return (
            f"`{property}` is computed by the model `{declared}` (@embed), but the provider's is"
            f" `{model}`: vectors of two models don't compare; set OMNIGRAPH_EMBED_MODEL, or change the schema"
        )

    @variant
    def embedding_size_differs(self, property: str, size: int, model: str, given: int) -> str:
        """Report that a provider returns vectors of another size than the property has."""
        return (
            f"`{property}` is a Vector({size}), but the model `{model}` makes vectors of {given}"
            " numbers: choose another model, or declare that size"
        )

    @variant
    def embedding_refused(self, provider: str, status: int, reason: str) -> str:
        """Report that the provider rejected the request: a wrong key, model or text. Trying again does not help."""
        return f"the embedding provider `{provider}` refused (HTTP {status}): {reason}"

    @variant
    def rerank_refused(self, provider: str, status: int, reason: str) -> str:
        """Report that the reranker rejected the request: a wrong key, model or text. Trying again does not help."""
        return f"the reranker `{provider}` refused (HTTP {status}): {reason}"

    @variant
    def rerank_too_many(self, wanted: int, most: int) -> str:
        """Report that a query wants more texts to be judged than it may send to the reranker."""
        return (
            f"`rerank` would judge {wanted:,} texts, and a query may send {most:,}: lower `limit` and `offset`,"
            " or set OMNIGRAPH_RERANK_TEXTS"
        )


class ProviderFailedError(OmnigraphError):
    """The provider did not respond, or not with usable vectors or scores, also after retries."""

    kind = Kind.UNAVAILABLE
    code = "embedding_failed"
    provider: str
    reason: str
    message = "the embedding provider `{provider}` failed: {reason}; try again later"

    @variant
    def rerank_failed(self, provider: str, reason: str) -> str:
        """Report that the reranker did not respond, or not with usable scores, also after retries."""
        return f"the reranker `{provider}` failed: {reason}; try again later"


class Provider(Protocol):
    """A source of embedding vectors. Thread-safe; equal texts get equal vectors unless the service itself varies."""

    @property
    def name(self) -> str:
        """The name used in settings and messages."""
        ...

    @property
    def model(self) -> str:
        """The model; only vectors of the same model can be compared."""
        ...

    @property
    def dimension(self) -> int | None:
        """The only vector size it supports; None if it supports several, or if the size is not known beforehand."""
        ...

    def embed(self, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        """Return one row per text: of the requested size, or of the model's own if it supports no other.

        Raises:
            EmbeddingError, ProviderFailedError: The provider returned no vectors.
        """
        ...


def check_fits(provider: Provider, prop: Property) -> int:
    """Check that a provider can embed a Vector property, and return the size of its vectors.

    Raises:
        EmbeddingError: `@embed` names another model, or the provider supports only another size.
    """
    assert isinstance(prop.type, VectorOf)  # noqa: S101 - the binder and `@embed` allow nothing else
    declared = None if prop.embedding is None else prop.embedding.model
    if declared is not None and declared != provider.model:
        raise EmbeddingError.embedding_model_differs(prop.name, declared, provider.model)
    if provider.dimension not in (None, prop.type.size):
        raise EmbeddingError.embedding_size_differs(prop.name, prop.type.size, provider.model, provider.dimension or 0)
    return prop.type.size


def embed_texts(provider: Provider, prop: Property, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of these texts for a property, one row per text.

    Raises:
        EmbeddingError, ProviderFailedError: The provider does not fit the property, or returned no usable vectors.
    """
    # Checked before the request: vectors of another model or size can't be stored.
    size = check_fits(provider, prop)
    if not texts:
        return np.empty((0, size), np.float32)
    vectors = provider.embed(texts, size)
    # `dimension` may be None, so the size is only certain once vectors have arrived.
    if vectors.shape[1] != size:
        raise EmbeddingError.embedding_size_differs(prop.name, size, provider.model, vectors.shape[1])
    # Stored vectors have finite numbers only: a deep check reports others as broken rule `finite`.
    if vectors.shape[0] != len(texts) or not np.isfinite(vectors).all():
        raise ProviderFailedError(provider.name, "its response has values that are not numbers, or too few vectors")
    return vectors
