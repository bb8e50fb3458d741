"""Which provider the settings name."""

from collections.abc import Sequence
from typing import TypeAlias

from omnigraph.engine.embed import NoProviderError, Provider, embed_texts
from omnigraph.engine.embedders.hashing import HashProvider
from omnigraph.engine.embedders.openai_http import OpenAIProvider
from omnigraph.engine.execution_context import Embed
from omnigraph.engine.query_budget import Budget
from omnigraph.options import EmbedProvider
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import Embedding, Property
from omnigraph.schema.types import ValueType

_EmbedKey: TypeAlias = tuple[str, ValueType, Embedding | None]


def create_provider(runtime: Runtime, budget: Budget | None = None) -> Provider | None:
    """The provider, or None when none is configured; ProviderSettingsError when its settings don't do."""
    options = runtime.options.embedding
    if options.provider is EmbedProvider.HASH:
        return HashProvider()
    if options.provider is EmbedProvider.OPENAI:
        return OpenAIProvider(options, runtime.clock, runtime.ids.jitter, budget)
    return None


def build_query_embedder(runtime: Runtime, budget: Budget) -> Embed:
    """What turns the texts of one query into vectors, each once, within its time.

    The provider is looked for when it is needed.
    """
    known: dict[_EmbedKey, Sequence[float]] = {}

    def embed(text: str, prop: Property) -> Sequence[float]:
        key = (text, prop.type, prop.embedding)
        if key not in known:
            provider = create_provider(runtime, budget)
            if provider is None:
                raise NoProviderError(prop.name, "give a vector")
            known[key] = embed_texts(provider, prop, [text])[0].tolist()
        return known[key]

    return embed
