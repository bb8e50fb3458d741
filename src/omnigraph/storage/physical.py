"""A table's schema as Lance stores it."""

import lance
import pyarrow as pa

from omnigraph.storage.lance_table import is_blob

ID = "id"
_GENERATED_ID_MARK = b"omnigraph:made"
"""Ids that were made begin alike, one behind the other: LZ4 writes them in less than half of the time that Lance's own
choice takes, to three quarters of the size, and they are read faster too."""


def build_physical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as Lance stores it: `id` is the (unenforced) primary key, blob columns are Lance blobs."""
    fields = []
    for field in schema:
        metadata = dict(field.metadata or {})
        if is_blob(field):
            fields.append(lance.blob_field(field.name, nullable=field.nullable).with_metadata(metadata))
        elif field.name == ID:
            if _GENERATED_ID_MARK in metadata:
                metadata[b"lance-encoding:compression"] = b"lz4"
            fields.append(field.with_metadata({**metadata, b"lance-schema:unenforced-primary-key": b"true"}))
        else:
            fields.append(field)
    return pa.schema(fields, schema.metadata)
