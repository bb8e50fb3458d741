"""Read the large binary values of a table, in batches or as a stream, and measure their size on disk."""

import io
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import IO, cast

import lance
import pyarrow as pa

from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable, check_blobs_at
from omnigraph.storage.table_cache import translate_read_errors

# Buffer of a stream: one read of Lance per this many bytes.
_CHUNK_BYTES = 1 << 20
# Directories of an object store that are listed concurrently.
_MAX_CONCURRENT_LISTINGS = 16


def measure_blobs(table: LanceTable, fragments: Collection[int]) -> dict[int, int]:
    """Return the bytes that the blobs of fragments take in their own files, by fragment number.

    Small blobs are inside the data files and are counted there. Each data file costs one listing.
    """
    selected = [fragment for fragment in table.list_fragments() if fragment.number in fragments]
    objects = table.handles.store.objects

    def measure(fragment: Fragment) -> int:
        # Lance puts the blobs of `data/x.lance` into the directory `data/x`.
        directories = (f"{table.path}/data/{file.removesuffix('.lance')}" for file in fragment.files)
        return sum(info.size for directory in directories for info in objects.list_under(directory))

    is_local = table.handles.store.location.is_local
    with ThreadPoolExecutor(1 if is_local else _MAX_CONCURRENT_LISTINGS, thread_name_prefix="blob-sizes") as pool:
        return dict(zip((fragment.number for fragment in selected), pool.map(measure, selected), strict=True))


def read_blobs(table: LanceTable, column: str, addresses: Sequence[int]) -> list[bytes | None]:
    """Return the values of the rows at these addresses, in that order, with as few requests as possible."""
    if not addresses:
        return []
    check_blobs_at(table, column, addresses)
    dataset = table.handles.open(table.path, table.version)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), _translate_errors(table):
        values = dataset.read_blobs(column, addresses=pa.array(addresses, pa.uint64()), preserve_order=True)
    return [value for _, value in values]


def open_blob(table: LanceTable, column: str, address: int) -> IO[bytes] | None:
    """Return the value of the row at an address as a stream that reads on demand, or None for a null."""
    check_blobs_at(table, column, [address])
    dataset = table.handles.open(table.path, table.version)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), _translate_errors(table):
        (file,) = dataset.take_blobs(column, addresses=[address])
    return None if file is None else cast("IO[bytes]", io.BufferedReader(_BlobStream(table, file), _CHUNK_BYTES))


class _BlobStream(io.RawIOBase):
    """A seekable raw stream of one blob. Failures raise the same errors as any other read of the table."""

    def __init__(self, table: LanceTable, file: lance.BlobFile) -> None:
        super().__init__()
        self._table = table
        self._file = file

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the current position."""
        return self._file.tell()

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined] # of the stubs only
        """Fill a buffer and return the number of bytes read; fewer than requested only at the end."""
        with _translate_errors(self._table):
            return self._file.readinto(buffer)

    def close(self) -> None:
        """Close the stream and its file."""
        if not self.closed:
            self._file.close()
        super().close()


def _translate_errors(table: LanceTable) -> AbstractContextManager[None]:
    return translate_read_errors(table.path, table.version, table.handles.explain)
