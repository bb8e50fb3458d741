"""LRU caches of decoded schemas and of parsed, bound and rewritten queries."""

import threading
from collections import OrderedDict
from typing import TypeAlias

from omnigraph.commit.manifest_types import SchemaRecord
from omnigraph.errors import LimitError
from omnigraph.lang.source import Source
from omnigraph.ops.select_query import choose_query
from omnigraph.query.bind import bind_query
from omnigraph.query.logical_plan import BoundQuery
from omnigraph.query.rules import rewrite
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_codec import decode_catalog

MAX_QUERIES = 256
# Limits the total length of the cached query texts. A bound query takes a multiple of its text's size.
MAX_TEXT_BYTES = 2 * 1024 * 1024
MAX_CATALOGS = 16


_Key: TypeAlias = tuple[str, str | None, str]
"""The text, the name of the query, the id of the schema."""


class CatalogCache:
    """An LRU cache of catalogs by schema id. Thread-safe.

    A schema yields the same catalog object each time, so that other caches can use its types as keys.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catalogs: OrderedDict[str, Catalog] = OrderedDict()

    def get_or_decode(self, schema: SchemaRecord) -> Catalog:
        """Return the cached catalog of a schema, or decode and cache it."""
        # Decoding stays under the lock: two threads must not make two catalog objects of one schema.
        with self._lock:
            catalog = self._catalogs.get(schema.id)
            if catalog is None:
                catalog = self._catalogs[schema.id] = decode_catalog(schema.catalog.encode())
            self._catalogs.move_to_end(schema.id)
            if len(self._catalogs) > MAX_CATALOGS:
                self._catalogs.popitem(last=False)
            return catalog


class QueryCache:
    """An LRU cache of bound queries by text, name and schema. Thread-safe.

    A text of more than `max_characters` characters is rejected.
    """

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._lock = threading.Lock()
        self._bound: OrderedDict[_Key, BoundQuery] = OrderedDict()
        self._nbytes = 0

    def get_or_prepare(self, source: Source, name: str | None, schema_id: str, catalog: Catalog) -> BoundQuery:
        """Return the query of that name, or the only one of a text, ready to be planned.

        Raises:
            LimitError: The text is longer than the limit.
            SourceError: It has mistakes.
            MissingError, BadArgumentError: It is not clear which query is meant.
        """
        key = (source.text, name, schema_id)
        with self._lock:
            cached = self._bound.get(key)
            if cached is not None:
                self._bound.move_to_end(key)
                return cached
        # Binding runs without the lock, so that other queries need not wait for it.
        if len(source.text) > self._max_characters:
            raise LimitError.text_too_large(source.name, self._max_characters)
        prepared = prepare(source, name, catalog)
        self._store(key, prepared)
        return prepared

    def _store(self, key: _Key, prepared: BoundQuery) -> None:
        with self._lock:
            if key not in self._bound:
                self._nbytes += len(key[0])
            self._bound[key] = prepared
            while len(self._bound) > MAX_QUERIES or self._nbytes > MAX_TEXT_BYTES:
                dropped, _ = self._bound.popitem(last=False)
                self._nbytes -= len(dropped[0])


def prepare(source: Source, name: str | None, catalog: Catalog) -> BoundQuery:
    """Parse, bind and rewrite a query without a cache; raises what `QueryCache.get_or_prepare` raises."""
    chosen = choose_query(source, name)
    bound = bind_query(chosen, catalog).require(source)
    assert bound is not None  # noqa: S101 - `require` raises if binding failed
    return rewrite(bound)
