"""Create the embedding provider that the settings name."""

from collections.abc import Sequence
from typing import TypeAlias

from omnigraph.engine.embed import Provider, embed_texts
from omnigraph.engine.embedders.hashing import HashProvider
from omnigraph.engine.embedders.openai_http import OpenAIProvider
from omnigraph.engine.execution_context import Embed
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import SettingsError
from omnigraph.options import EmbedProvider
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import Embedding, Property
from omnigraph.schema.types import ValueType

_EmbedKey: TypeAlias = tuple[str, ValueType, Embedding | None]


def create_provider(runtime: Runtime, budget: Budget | None = None) -> Provider | None:
    """Create the configured provider; return None if there is none.

    Raises:
        SettingsError: Its settings are incomplete or invalid.
    """
    options = runtime.options.embedding
    if options.provider is EmbedProvider.HASH:
        return HashProvider()
    if options.provider is EmbedProvider.OPENAI:
        return OpenAIProvider(options, runtime.clock, runtime.ids.jitter, budget)
    return None


def build_query_embedder(runtime: Runtime, budget: Budget) -> Embed:
    """Return a function that embeds the texts of one query within its budget, each text once."""
    cache: dict[_EmbedKey, Sequence[float]] = {}

    def embed(text: str, prop: Property) -> Sequence[float]:
        key = (text, prop.type, prop.embedding)
        if key not in cache:
            # Created here, so that a query that embeds nothing needs no valid settings.
            provider = create_provider(runtime, budget)
            if provider is None:
                raise SettingsError.no_embedding_provider(prop.name, "give a vector")
            cache[key] = embed_texts(provider, prop, [text])[0].tolist()
        return cache[key]

    return embed
