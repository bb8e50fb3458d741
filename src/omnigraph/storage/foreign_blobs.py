"""Check blob pointers that lead outside of the graph: a row of a Lance file may name any URI, and Lance reads it.

This software copies the content of a Blob value and never writes such a row. An existing one comes from another tool,
or from an attempt to read a file of this machine. So it is read only if the settings allow its URI.
"""

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.blob_sources import BlobSourceError, BlobSources
from omnigraph.storage.graph_storage import GraphStorage


class ForeignBlobError(OmnigraphError):
    """A row names a blob outside of the graph, at a location that the settings do not allow."""

    kind = Kind.DENIED
    code = "foreign_blob"
    path: str
    column: str
    uri: str
    message = (
        "a row of {path} names `{uri}` as its `{column}`, outside of the graph. omnigraph never"
        " writes such a row, and did not read the URI: allow it with OMNIGRAPH_BLOB_SOURCES, or delete the row"
    )


def check_blobs(store: GraphStorage, path: str, column: str, pointers: pa.Array | pa.ChunkedArray) -> None:
    """Check the pointers of a blob column before Lance resolves them.

    Raises:
        ForeignBlobError: One names a location that the settings do not allow.
    """
    for uri in find_foreign_uris(pointers):
        options = store.runtime.options
        try:
            BlobSources(options.blob_sources, limit=options.blob_bytes, storage=options.storage).check(uri)
        except BlobSourceError:
            raise ForeignBlobError(path, column, uri) from None


def find_foreign_uris(pointers: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return the distinct URIs that pointers name, sorted. A pointer into the graph names none."""
    uris = pc.struct_field(pointers, "blob_uri")
    named = uris.filter(pc.greater(pc.binary_length(uris), 0))
    return sorted(pc.unique(named).to_pylist())
