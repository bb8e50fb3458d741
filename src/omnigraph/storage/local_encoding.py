"""Encode and decode small data files of an object store on the local disk.

Lance uploads a file while it writes it, and its writer waits for the answer. A chain of writes, each of which depends
on the one before, would wait for each of them in turn. And it reads a file in parts: one of 100 KB by five requests,
each of which waits for the one before.
"""

import atexit
import shutil
import tempfile
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance import LanceDataset
from lance.fragment import write_fragments

from omnigraph.storage.fragment_list import build_fragment_json
from omnigraph.storage.layout import LANCE_STORAGE_VERSION
from omnigraph.storage.protobuf import iter_parts, join_parts
from omnigraph.storage.version_codec import FRAGMENTS, INDEX_SECTION, decode_version

# What a file of up to 1 MiB may take when it is decoded: a small file may have many equal long texts.
MAX_DECODED_BYTES = 64 * 1024 * 1024
_BATCH_ROWS = 2_048

_lock = threading.Lock()
# Removed when the process ends. It is empty: a file is removed once it is read.
_directories: list[str] = []


class LargeFileError(ValueError):
    """The rows of a small file take too much memory to be decoded at once."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"the rows of {name} take more than {limit:,} bytes of memory")


def create_twin(dataset: LanceDataset) -> LanceDataset:
    """Return an empty table on the local disk with the columns of a table, and Lance's numbers of them.

    It exists in memory only: a handle of it is enough to write files.

    Raises:
        OSError: There is no directory for temporary files.
    """
    manifest = bytes(dataset._ds.serialized_manifest())  # noqa: SLF001 - there is no public way
    parts = [part for part in iter_parts(manifest) if part[0] not in {FRAGMENTS, INDEX_SECTION}]
    return LanceDataset(_get_directory(), int(dataset.version), serialized_manifest=join_parts(parts))


def decode_file(dataset: LanceDataset, name: str, fragment: int, data: bytes, columns: Sequence[str]) -> pa.Table:
    """Return columns of a fragment of a table, deleted rows too, from the content of its one data file.

    Raises:
        OSError: There is no directory for temporary files.
        UnknownFormatError: The version has another form.
        LargeFileError: The rows take too much memory to be held at once.
    """
    # A directory of its own, as two threads may decode the same file.
    with tempfile.TemporaryDirectory(dir=_get_directory(), ignore_cleanup_errors=True) as directory:
        path = Path(directory, "data", name)
        path.parent.mkdir()
        path.write_bytes(data)
        content = decode_version(bytes(dataset._ds.serialized_manifest()))  # noqa: SLF001 - there is no public way
        manifest = content.isolate(fragment).encode_manifest(datetime.now(UTC))
        alone = LanceDataset(directory, int(dataset.version), serialized_manifest=manifest)
        scanner = alone.scanner(columns=list(columns), batch_size=_BATCH_ROWS, batch_readahead=1)
        batches = []
        room = MAX_DECODED_BYTES
        for batch in scanner.to_batches():
            room -= batch.nbytes
            if room < 0:
                raise LargeFileError(name, MAX_DECODED_BYTES)
            batches.append(batch)
        return pa.Table.from_batches(batches, scanner.projected_schema)


def _get_directory() -> str:
    with _lock:
        if not _directories:
            _directories.append(tempfile.mkdtemp(prefix="omnigraph-"))
            # Not a `TemporaryDirectory`, which warns when it is left to the end of the process.
            atexit.register(shutil.rmtree, _directories[0], ignore_errors=True)
        # One for all: Lance gives each file a name of its own, and a long-lived process has many versions.
        return _directories[0]


def encode_rows(twin: LanceDataset, rows: pa.Table) -> tuple[dict[str, Any], bytes]:
    """Return rows as a fragment in the JSON form of Lance, and the content of its one file."""
    (fragment,) = write_fragments(rows, twin, mode="append", data_storage_version=LANCE_STORAGE_VERSION)
    described = build_fragment_json(fragment)
    (file,) = described["files"]
    path = Path(twin.uri) / "data" / file["path"]
    data = path.read_bytes()
    path.unlink()
    return described, data
