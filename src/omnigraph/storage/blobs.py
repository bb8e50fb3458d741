"""The large binary values of a table: many at once into memory, or one as a stream; and what they take on disk."""

import io
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import IO, cast

import lance
import pyarrow as pa

from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import Fragment, LanceTable, check_blobs_at
from omnigraph.storage.table_cache import translate_read_errors

_CHUNK_BYTES = 1 << 20
_MAX_CONCURRENT_LISTINGS = 16
"""How many directories of an object store are listed at the same time."""


def measure_blobs(table: LanceTable, fragments: Collection[int]) -> dict[int, int]:
    """By number, how much the blobs of these fragments take beside their data files: one listing for each of them.

    Small blobs lie in the data files, and are counted there.
    """
    chosen = [one for one in table.list_fragments() if one.number in fragments]
    objects = table.handles.store.objects

    def size(one: Fragment) -> int:
        places = (f"{table.path}/data/{file.removesuffix('.lance')}" for file in one.files)
        return sum(info.size for place in places for info in objects.list_under(place))

    is_local = table.handles.store.location.is_local
    with ThreadPoolExecutor(1 if is_local else _MAX_CONCURRENT_LISTINGS, thread_name_prefix="blob-sizes") as pool:
        return dict(zip((one.number for one in chosen), pool.map(size, chosen), strict=True))


def read_blobs(table: LanceTable, column: str, addresses: Sequence[int]) -> list[bytes | None]:
    """The values of the rows at these addresses, in that order, read by as few requests as will do."""
    if not addresses:
        return []
    check_blobs_at(table, column, addresses)
    dataset = table.handles.open(table.path, table.version)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), _translate_errors(table):
        found = dataset.read_blobs(column, addresses=pa.array(addresses, pa.uint64()), preserve_order=True)
    return [value for _, value in found]


def open_blob(table: LanceTable, column: str, address: int) -> IO[bytes] | None:
    """The value of the row at this address as a stream, which reads as it is asked; None for a null."""
    check_blobs_at(table, column, [address])
    dataset = table.handles.open(table.path, table.version)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), _translate_errors(table):
        (file,) = dataset.take_blobs(column, addresses=[address])
    return None if file is None else cast("IO[bytes]", io.BufferedReader(_BlobStream(table, file), _CHUNK_BYTES))


class _BlobStream(io.RawIOBase):
    """A value of one version of a table. What fails on the way is told as for any other read of the table."""

    def __init__(self, table: LanceTable, file: lance.BlobFile) -> None:
        super().__init__()
        self._table, self._file = table, file

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """As of any file."""
        return self._file.tell()

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined] # of the stubs only
        """As of any file; fewer bytes than asked for only at the end."""
        with _translate_errors(self._table):
            return self._file.readinto(buffer)

    def close(self) -> None:
        """As of any file."""
        if not self.closed:
            self._file.close()
        super().close()


def _translate_errors(table: LanceTable) -> AbstractContextManager[None]:
    return translate_read_errors(table.path, table.version, table.handles.explain)
