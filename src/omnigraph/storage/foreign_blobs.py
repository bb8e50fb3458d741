"""Blobs that lie outside of the graph: a row of a Lance file may name any URI, and Lance reads whatever that is.

This software copies what a Blob value names, and never writes such a row. One that is there comes from another tool, or
from somebody who wants to see a file of this machine. So it is read only where the settings allow it.
"""

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.blob_sources import BlobSourceError, BlobSources
from omnigraph.storage.graph_storage import GraphStorage


class ForeignBlobError(OmnigraphError):
    """A row names a blob outside of the graph, at a place that the settings do not allow."""

    kind = Kind.DENIED
    code = "foreign_blob"

    def __init__(self, path: str, column: str, uri: str) -> None:
        super().__init__(path, column, uri)
        self.path, self.column, self.uri = path, column, uri

    def __str__(self) -> str:
        return (
            f"a row of {self.path} names `{self.uri}` as its `{self.column}`, outside of the graph. omnigraph writes no"
            " such row, and read nothing there: allow the place by OMNIGRAPH_BLOB_SOURCES, or delete the row"
        )


def check_blobs(store: GraphStorage, path: str, column: str, pointers: pa.Array | pa.ChunkedArray) -> None:
    """Check the pointers of a blob column before Lance resolves them.

    Raises:
        ForeignBlobError: One names a place that the settings do not allow.
    """
    for uri in find_foreign_uris(pointers):
        options = store.runtime.options
        try:
            BlobSources(options.blob_sources, limit=options.blob_bytes, storage=options.storage).check(uri)
        except BlobSourceError:
            raise ForeignBlobError(path, column, uri) from None


def find_foreign_uris(pointers: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return the URIs that pointers name, each once. A pointer into the graph names none."""
    uris = pc.struct_field(pointers, "blob_uri")
    named = uris.filter(pc.greater(pc.binary_length(uris), 0))
    return sorted(pc.unique(named).to_pylist())
