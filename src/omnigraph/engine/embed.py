"""Texts as vectors: what a provider is, and what must fit before one is asked."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import VectorOf


class NoProviderError(OmnigraphError):
    """A text must become a vector, but no provider is configured."""

    kind = Kind.USAGE
    code = "no_embedding_provider"

    def __init__(self, property: str, instead: str | None = None) -> None:
        super().__init__(property, instead)
        self.property, self.instead = property, instead

    def __str__(self) -> str:
        other_way = f", or {self.instead}" if self.instead else ""
        return (
            f"a text must become a vector of `{self.property}`, but no embedding provider is configured: set"
            f" OMNIGRAPH_EMBED_PROVIDER to `openai` or `hash`{other_way}"
        )


class ProviderSettingsError(OmnigraphError):
    """A provider is chosen, but its settings don't do."""

    kind = Kind.USAGE
    code = "embedding_settings"

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(provider, reason)
        self.provider, self.reason = provider, reason

    def __str__(self) -> str:
        return f"the embedding provider `{self.provider}` can't be used: {self.reason}"


class ModelDiffersError(OmnigraphError):
    """A vector is declared to be computed by another model than the provider's."""

    kind = Kind.INVALID
    code = "embedding_model_differs"

    def __init__(self, property: str, declared: str, model: str) -> None:
        super().__init__(property, declared, model)
        self.property, self.declared, self.model = property, declared, model

    def __str__(self) -> str:
        return (
            f"`{self.property}` is computed by the model `{self.declared}` (@embed), but the provider's is"
            f" `{self.model}`: vectors of two models don't compare; set OMNIGRAPH_EMBED_MODEL, or change the schema"
        )


class VectorSizeError(OmnigraphError):
    """A provider makes vectors of another size than the property has."""

    kind = Kind.INVALID
    code = "embedding_size_differs"

    def __init__(self, property: str, size: int, model: str, given: int) -> None:
        super().__init__(property, size, model, given)
        self.property, self.size, self.model, self.given = property, size, model, given

    def __str__(self) -> str:
        return (
            f"`{self.property}` is a Vector({self.size}), but the model `{self.model}` makes vectors of {self.given}"
            " numbers: choose another model, or declare that size"
        )


class ProviderRefusedError(OmnigraphError):
    """The provider understood the request and does not want to answer it: a wrong key, model or text."""

    kind = Kind.INVALID
    code = "embedding_refused"

    def __init__(self, provider: str, status: int, reason: str) -> None:
        super().__init__(provider, status, reason)
        self.provider, self.status, self.reason = provider, status, reason

    def __str__(self) -> str:
        return f"the embedding provider `{self.provider}` refused (HTTP {self.status}): {self.reason}"


class ProviderFailedError(OmnigraphError):
    """The provider did not answer, or not with what was asked for, however often it was tried."""

    kind = Kind.UNAVAILABLE
    code = "embedding_failed"

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(provider, reason)
        self.provider, self.reason = provider, reason

    def __str__(self) -> str:
        return f"the embedding provider `{self.provider}` failed: {self.reason}; try again later"


class Provider(Protocol):
    """Computes vectors. Equal texts get equal vectors, as far as it depends on us; safe from several threads."""

    @property
    def name(self) -> str:
        """How it is configured and shown."""
        ...

    @property
    def model(self) -> str:
        """What computes: only vectors of one model compare."""
        ...

    @property
    def dimension(self) -> int | None:
        """The only size it makes; None when it is not known before, or any."""
        ...

    def embed(self, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        """A row for each text: of that size, or of its own when it has no other.

        Raises:
            ProviderRefusedError, ProviderFailedError: There is no answer.
        """
        ...


def check_fits(provider: Provider, prop: Property) -> int:
    """The size of a Vector property, when the provider can compute it.

    Raises:
        ModelDiffersError: `@embed` names another model.
        VectorSizeError: The provider makes vectors of another size only.
    """
    assert isinstance(prop.type, VectorOf)  # noqa: S101 - the binder and `@embed` allow nothing else
    declared = None if prop.embedding is None else prop.embedding.model
    if declared is not None and declared != provider.model:
        raise ModelDiffersError(prop.name, declared, provider.model)
    if provider.dimension not in (None, prop.type.size):
        raise VectorSizeError(prop.name, prop.type.size, provider.model, provider.dimension or 0)
    return prop.type.size


def embed_texts(provider: Provider, prop: Property, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of these texts for a property, a row each.

    Raises:
        ModelDiffersError, VectorSizeError: The provider does not fit the property.
        ProviderRefusedError, ProviderFailedError: There is no answer, or one that is no vector.
    """
    size = check_fits(provider, prop)
    if not texts:
        return np.empty((0, size), np.float32)
    found = provider.embed(texts, size)
    if found.shape[1] != size:
        raise VectorSizeError(prop.name, size, provider.model, found.shape[1])
    if found.shape[0] != len(texts) or not np.isfinite(found).all():
        raise ProviderFailedError(provider.name, "its answer holds numbers that are none, or too few vectors")
    return found
