"""Schemas that are decoded, and queries that are parsed, bound and rewritten already: asking again costs little."""

import threading
from collections import OrderedDict
from typing import TypeAlias

from omnigraph.commit.manifest_types import SchemaRecord
from omnigraph.errors import TextTooLargeError
from omnigraph.lang.source import Source
from omnigraph.ops.select_query import choose_query
from omnigraph.query.bind import bind_query
from omnigraph.query.logical_plan import BoundQuery
from omnigraph.query.rules import rewrite
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_codec import decode_catalog

MAX_QUERIES = 256
MAX_TEXT_BYTES = 2 * 1024 * 1024
"""The most of all texts that are remembered; what is made of a text takes a multiple of it."""
MAX_CATALOGS = 16


_Key: TypeAlias = tuple[str, str | None, str]
"""The text, the name of the query, the schema's id."""


class CatalogCache:
    """The catalogs of the last schemas, each one object: what is kept by type is found again. Safe from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catalogs: OrderedDict[str, Catalog] = OrderedDict()

    def get_or_decode(self, schema: SchemaRecord) -> Catalog:
        """The catalog of an accepted schema."""
        with self._lock:
            found = self._catalogs.get(schema.id)
            if found is None:
                found = self._catalogs[schema.id] = decode_catalog(schema.catalog.encode())
            self._catalogs.move_to_end(schema.id)
            if len(self._catalogs) > MAX_CATALOGS:
                self._catalogs.popitem(last=False)
            return found


class QueryCache:
    """Bound queries by text, name and schema; the least recently used ones go first. Safe from several threads.

    A text of more than `longest` characters is none that anybody wrote.
    """

    def __init__(self, longest: int) -> None:
        self._max_characters = longest
        self._lock = threading.Lock()
        self._bound: OrderedDict[_Key, BoundQuery] = OrderedDict()
        self._nbytes = 0

    def get_or_prepare(self, source: Source, name: str | None, schema_id: str, catalog: Catalog) -> BoundQuery:
        """The query of that name, or the only one of a text, ready to be planned.

        Raises:
            TextTooLargeError: The text is longer than any query is.
            SourceError: It has mistakes.
            QueryMissingError, QueryAmbiguousError: It is not clear which query is meant.
        """
        key = (source.text, name, schema_id)
        with self._lock:
            found = self._bound.get(key)
            if found is not None:
                self._bound.move_to_end(key)
                return found
        if len(source.text) > self._max_characters:
            raise TextTooLargeError(source.name, self._max_characters)
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
    """As `QueryCache.get`, made anew."""
    chosen = choose_query(source, name)
    bound = bind_query(chosen, catalog).require(source)
    assert bound is not None  # noqa: S101 - without a mistake there is a query
    return rewrite(bound)
