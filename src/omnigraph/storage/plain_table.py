"""Write a Lance table that is no part of a graph: several processes write its rows, and one makes it visible."""

import json
from collections.abc import Sequence

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.storage.layout import LANCE_STORAGE_VERSION


def write_plain_rows(uri: str, rows: pa.RecordBatchReader) -> list[str]:
    """Write rows into new fragments at an address, and return these as Lance's JSON; no table has them yet."""
    fragments = write_fragments(
        rows, uri, schema=rows.schema, mode="append", data_storage_version=LANCE_STORAGE_VERSION
    )
    return [json.dumps(fragment.to_json()) for fragment in fragments]


def create_plain_table(uri: str, schema: pa.Schema, fragments: Sequence[str]) -> None:
    """Make fragments the rows of a new table, in their order."""
    parts = [FragmentMetadata.from_json(fragment) for fragment in fragments]
    lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(schema, parts))


def list_data_files(fragment: str) -> list[str]:
    """Return the paths of a fragment's files, below the directory of its table."""
    return [f"data/{file['path']}" for file in json.loads(fragment)["files"]]
