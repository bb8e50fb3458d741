"""Look up the earlier schemas of a branch by their ids."""

from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.commit.manifest_log import Head, ManifestLog, find_schema
from omnigraph.lru_cache import LruCache
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_codec import decode_catalog

MAX_CATALOGS = 16


class SchemaHistory:
    """An LRU cache of the schemas in a branch's journal."""

    def __init__(self, log: ManifestLog) -> None:
        self._log = log
        self._catalogs: LruCache[str, Catalog] = LruCache(MAX_CATALOGS)

    def load_catalog(self, head: Head, schema_id: str) -> Catalog:
        """Return the catalog of a schema in the history of a state.

        Raises:
            ManifestCorruptError: The journal does not have the schema.
        """
        catalog = self._catalogs.get(schema_id)
        if catalog is None:
            record = find_schema(self._log, head, schema_id)
            if record is None:
                raise ManifestCorruptError(f"the schema `{schema_id}` of a past state is not in the journal")
            catalog = decode_catalog(record.catalog.encode())
            self._catalogs.put(schema_id, catalog)
        return catalog
