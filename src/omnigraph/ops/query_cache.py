"""LRU caches of decoded schemas and of parsed, bound and rewritten queries."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from omnigraph.commit.manifest_types import SchemaRecord
from omnigraph.errors import LimitError
from omnigraph.lang.query_ast import Query
from omnigraph.lang.source import Source
from omnigraph.lru_cache import LruCache
from omnigraph.ops.select_query import choose_query
from omnigraph.query.bind import bind_query
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.mutation_plan import BoundQuery
from omnigraph.query.rules import rewrite
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_codec import decode_catalog

MAX_QUERIES = 256
# Limits the total length of the cached query texts. A bound query takes a multiple of its text's size.
MAX_TEXT_BYTES = 2 * 1024 * 1024
MAX_CATALOGS = 16


_Key: TypeAlias = tuple[str, str | None, str]
"""The text, the name of the query, the id of the schema."""


def _allow() -> None:
    """Let a caller without a budget continue."""


class PreparedText(NamedTuple):
    """A text of another language, ready to be planned, with notes about it."""

    read: ReadQuery
    notes: tuple[str, ...]


class CatalogCache:
    """An LRU cache of catalogs by schema id. Thread-safe.

    A schema yields the same catalog object each time, so that other caches can use its types as keys.
    """

    def __init__(self) -> None:
        self._catalogs: LruCache[str, Catalog] = LruCache(MAX_CATALOGS)

    def get_or_decode(self, schema: SchemaRecord) -> Catalog:
        """Return the cached catalog of a schema, or decode and cache it."""
        return self._catalogs.get_or_build(schema.id, lambda: decode_catalog(schema.catalog.encode()))


class QueryCache:
    """An LRU cache of bound queries by text, name and schema. Thread-safe.

    A text of more than `max_characters` characters is rejected.
    """

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._bound: LruCache[_Key, BoundQuery] = LruCache(MAX_TEXT_BYTES)
        self._texts: LruCache[_Key, PreparedText] = LruCache(MAX_TEXT_BYTES)
        self._chosen: LruCache[tuple[str, str | None], Query] = LruCache(MAX_TEXT_BYTES)

    def get_or_prepare(
        self, source: Source, name: str | None, schema_id: str, catalog: Catalog, check: Callable[[], None] = _allow
    ) -> BoundQuery:
        """Return the query of that name, or the only one of a text, ready to be planned.

        Raises:
            LimitError: The text is longer than the limit.
            SourceError: It has mistakes.
            MissingError, BadArgumentError: It is not clear which query is meant.
            OmnigraphError: What `check` raises, which is called between the steps.
        """
        key = (source.text, name, schema_id)
        cached = self._bound.get(key)
        if cached is not None:
            return cached
        # Two threads may bind the same query at the same time, so that other queries need not wait for it.
        if len(source.text) > self._max_characters:
            raise LimitError.text_too_large(source.name, self._max_characters)
        prepared = prepare(source, name, catalog, check)
        self._bound.put(key, prepared, _measure_text(source))
        return prepared

    def get_or_build(self, key: _Key, source: Source, build: Callable[[], PreparedText]) -> PreparedText:
        """Return the text of another language that is kept under a key, or what `build` makes of it."""
        prepared = self._texts.get(key)
        if prepared is None:
            prepared = build()
            self._texts.put(key, prepared, _measure_text(source))
        return prepared

    def get_or_choose(self, source: Source, name: str | None) -> Query:
        """Return the syntax tree of the query of that name, or of the only one, whatever the length of the text.

        Raises:
            SourceError, MissingError, BadArgumentError: As for `get_or_prepare`.
        """
        key = (source.text, name)
        chosen = self._chosen.get(key)
        if chosen is None:
            chosen = choose_query(source, name)
            self._chosen.put(key, chosen, _measure_text(source))
        return chosen

    def get_or_bind(
        self, chosen: Query, source: Source, name: str | None, schema_id: str, catalog: Catalog
    ) -> BoundQuery:
        """Return a query that `get_or_choose` has returned, bound and rewritten.

        Raises:
            SourceError: It has mistakes.
        """
        key = (source.text, name, schema_id)
        bound = self._bound.get(key)
        if bound is None:
            bound = bind_chosen(chosen, source, catalog)
            self._bound.put(key, bound, _measure_text(source))
        return bound


def _measure_text(source: Source) -> int:
    # The least size of an entry limits the number of entries.
    return max(len(source.text), MAX_TEXT_BYTES // MAX_QUERIES)


def prepare(source: Source, name: str | None, catalog: Catalog, check: Callable[[], None] = _allow) -> BoundQuery:
    """Parse, bind and rewrite a query without a cache; raises what `QueryCache.get_or_prepare` raises."""
    chosen = choose_query(source, name)
    check()
    return bind_chosen(chosen, source, catalog, check)


def bind_chosen(chosen: Query, source: Source, catalog: Catalog, check: Callable[[], None] = _allow) -> BoundQuery:
    """Bind and rewrite a query of a text."""
    bound = bind_query(chosen, catalog).require(source)
    assert bound is not None  # noqa: S101 - `require` raises if binding failed
    check()
    return rewrite(bound)
