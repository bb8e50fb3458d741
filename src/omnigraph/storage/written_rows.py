"""Read staged rows, which belong to no version yet, back from their files."""

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
from lance.file import LanceFileReader

from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.io_counters import translate_store_errors

READ_BATCH_ROWS = 65_536


def iter_staged_batches(
    store: GraphStorage, path: str, fragment: str, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a staged fragment of the table at `path`, with its rows in the order they were written.

    Blob columns can't be read: the file has only their descriptions. They must come after all other columns in the
    file, or the others are read wrong (see `staging`).
    """
    for file in json.loads(fragment)["files"]:
        with translate_store_errors(f"read rows of {path}"):
            reader = LanceFileReader(
                f"{store.resolve_uri(path)}/data/{file['path']}",
                storage_options=store.lance_options,
                columns=list(columns),
            )
            yield from reader.read_all(batch_size=READ_BATCH_ROWS).to_batches()
