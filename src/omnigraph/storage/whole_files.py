"""Read small data files of an object store by one request each; Lance reads one of 100 KB in five parts, one by one."""

from collections.abc import Sequence

import pyarrow as pa
from lance import LanceDataset

from omnigraph.storage.checksums import compute_checksum, parse_data_checksum
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.key_cache import MAX_FETCHED_BYTES
from omnigraph.storage.local_encoding import decode_file
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.storage.table_cache import PANIC
from omnigraph.telemetry import log


def fetch_rows(
    store: GraphStorage, path: str, dataset: LanceDataset, number: int, columns: Sequence[str]
) -> pa.Table | None:
    """Return columns of a fragment, deleted rows too.

    None on a local disk, for a file that is large or does not match its checksum, and where decoding it here fails:
    then Lance reads it, and reports what is wrong.
    """
    fragment = None if store.local is not None else dataset.get_fragment(number)
    if fragment is None or len(fragment.metadata.files) != 1:
        return None
    (file,) = fragment.metadata.files
    if not 0 < (file.file_size_bytes or 0) <= MAX_FETCHED_BYTES:
        return None
    key = f"{path}/data/{file.path}"
    try:
        store.wait_for_uploads(path)
        data = store.read_file(key)
        recorded = parse_data_checksum(file.path)
        if recorded is not None and recorded != compute_checksum(data):
            return None
        rows = decode_file(dataset, file.path, number, data, columns)
    except (OSError, ValueError, RuntimeError, ObjectMissingError) as error:
        log.info("%s is read in parts: %s", key, error)
        return None
    except BaseException as error:
        # Of a damaged file, of which the name has no checksum.
        if type(error).__name__ != PANIC:
            raise
        log.info("%s is read in parts, because Lance failed on it: %s", key, error)
        return None
    if recorded is not None:
        store.verifier.trust([key])
    return rows
