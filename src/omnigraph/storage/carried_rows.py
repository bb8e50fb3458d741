"""Carry the rows of tiny new files in the file of a table version, so that a new process reads none of these files.

Each write makes a tiny data file, and a process that has just started needs the keys of all that no index covers: one
request for each. The file of the version is read anyway. So it also contains these rows, between the list of indexes
and the manifest, where Lance looks for nothing. They are a copy: a reader that finds none, or damaged ones, reads the
data files. So are the keys of files that compactions wrote since the page of the table was written.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, cast

import msgspec
import pyarrow as pa

from omnigraph.concurrency import create_lock
from omnigraph.lru_cache import ByteCache, LruCache

# A file with more rows, or of which less than this many bytes can't tell, is read when its keys are needed.
MAX_CARRIED_ROWS: Final = 8
MAX_ENTRY_BYTES: Final = 1_024
# Longer texts are seldom keys; the file is read for them.
_MAX_TEXT_BYTES: Final = 256
# The keys of compacted files together, compressed, in bytes; and one byte for each row of the table.
MAX_KEYS_BYTES: Final = 8 * 1024
_MAX_KEYS: Final = 2_048
# Damaged keys must not take more memory when they are decompressed.
_MAX_DECODED_BYTES: Final = 2**20
# Of all files together, the newest: a tail has about 50 files, with some 150 bytes each.
MAX_CARRIED_FILES: Final = 128
MAX_CARRIED_BYTES: Final = 16 * 1024 + MAX_KEYS_BYTES
# Of one table; its branches have versions of their own.
_MAX_VERSIONS: Final = 32
# What an entry takes in memory beside its rows, which versions of one table share.
_BYTES_PER_ENTRY: Final = 100
# The rows of some hundred files, which the next version carries: those of a group of writers.
_MAX_WRITTEN_BYTES: Final = 256 * 1024

# At the end of the section: its size, its checksum, and a mark.
_TRAILER: Final = struct.Struct("<2I8s")
_MARK: Final = b"OGROWS\x001"
# The first byte of compressed keys, which no encoded list has.
_COMPRESSED: Final = b"\x78"
_INSTANT: Final = pa.timestamp("us", "UTC")
# The types of columns that are carried, and the plain ones that their values are encoded as.
_PLAIN_TYPES: Final[Mapping[pa.DataType, pa.DataType]] = {
    **{type_: type_ for type_ in (pa.utf8(), pa.bool_(), pa.int32(), pa.int64(), pa.uint32(), pa.uint64())},
    pa.float32(): pa.float32(),
    pa.float64(): pa.float64(),
    pa.date32(): pa.int32(),
    _INSTANT: pa.int64(),
}

# Encoded rows by the number of their fragment, in its order.
Carried = Mapping[int, bytes]
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder()


class CarriedCache:
    """The encoded rows of versions that were read or created, and of files that were just written. Thread-safe."""

    versions: ByteCache | None = None
    """The cache of what versions carry, under the memory limit of the graph; None until there is one."""

    def __init__(self) -> None:
        self._written: LruCache[str, bytes] = LruCache(_MAX_WRITTEN_BYTES)
        self._lock = create_lock()

    def get_read(self, path: str, version: int) -> Carried:
        """Return what the file of a version carries, if it was opened or created here; needs no request."""
        known = self._get_versions(path).get(version)
        return {} if known is None else known[0]

    def put_read(self, path: str, version: int, carried: Carried) -> None:
        """Keep what the file of a version carries, instead of that of the oldest version that is kept of its table."""
        if self.versions is None or not carried:
            return
        nbytes = sum(map(len, carried.values())) + _BYTES_PER_ENTRY * len(carried)
        with self._lock:
            known = self._get_versions(path)
            newest = {version: (carried, nbytes), **dict(islice(known.items(), _MAX_VERSIONS - 1))}
            self.versions.put(("carried", path), newest, sum(size for _, size in newest.values()))

    def _get_versions(self, path: str) -> Mapping[int, tuple[Carried, int]]:
        known = None if self.versions is None else self.versions.get(("carried", path))
        return cast("Mapping[int, tuple[Carried, int]] | None", known) or {}

    def note_written(self, name: str, rows: bytes | None) -> None:
        """Keep the rows of a file that was just written, for the version that will carry them."""
        if rows is not None:
            self._written.put(name, rows, len(rows))

    def get_written(self, name: str) -> bytes | None:
        """Return the rows of a file that this process has just written."""
        return self._written.get(name)


@dataclass(frozen=True, slots=True)
class CarriedRows:
    """The rows of the files of one fragment."""

    files: tuple[str, ...]
    rows: int
    columns: Mapping[int, Sequence[Any]]
    """The values of columns by Lance's number of each; columns of other types, and of long texts, are missing."""

    def get_column(self, number: int, type_: pa.DataType) -> pa.Array | None:
        """Return the values of a column, None if they are not carried."""
        values = self.columns.get(number)
        if values is None or len(values) != self.rows or not _is_carried(type_):
            return None
        try:
            return pa.array(values, _PLAIN_TYPES[type_]).cast(type_)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return None  # the column had another type when the file was written


def encode_carried(files: Sequence[str], rows: pa.Table, numbers: Mapping[str, int]) -> bytes | None:
    """Return the encoded rows of a file, None if there are too many of them; `numbers` are those of the columns."""
    if not 0 < rows.num_rows <= MAX_CARRIED_ROWS:
        return None
    columns = _list_values((numbers[name], rows.column(name)) for name in rows.schema.names if name in numbers)
    data = _ENCODER.encode((list(files), rows.num_rows, columns))
    return data if len(data) <= MAX_ENTRY_BYTES else None


def encode_keys(files: Sequence[str], columns: Mapping[int, pa.Array]) -> bytes | None:
    """Return the encoded keys of a file that a compaction wrote, None if they are too many or too long."""
    rows = max(map(len, columns.values()), default=0)
    if not 0 < rows <= _MAX_KEYS:
        return None
    values = _list_values(columns.items())
    if len(values) != len(columns):
        return None
    data = zlib.compress(_ENCODER.encode((list(files), rows, values)), 1)
    return data if len(data) <= MAX_KEYS_BYTES else None


def _list_values(columns: Iterable[tuple[int, pa.Array]]) -> dict[int, list[Any]]:
    """Return the values of columns by their numbers, without columns of other types and of long texts."""
    kept_columns: dict[int, list[Any]] = {}
    for number, column in columns:
        # Also one that is null throughout: that a unique value is missing is worth knowing.
        if not _is_carried(column.type):
            continue
        values = column.cast(_PLAIN_TYPES[column.type]).to_pylist()
        if not any(isinstance(value, str) and len(value) > _MAX_TEXT_BYTES for value in values):
            kept_columns[number] = values
    return kept_columns


def decode_carried(data: bytes) -> CarriedRows | None:
    """Decode encoded rows or keys; None if they are damaged, or a later release has encoded them in another form."""
    try:
        if data[:1] == _COMPRESSED:
            stream = zlib.decompressobj()
            data = stream.decompress(data, _MAX_DECODED_BYTES)
            if not stream.eof:
                return None
        files, rows, columns = _DECODER.decode(data)
        return CarriedRows(tuple(files), int(rows), dict(columns))
    except (msgspec.MsgspecError, zlib.error, TypeError, ValueError):
        return None


def add_carried(carried: Carried, new: Mapping[int, bytes]) -> Carried:
    """Return encoded rows and those of newer fragments, without the oldest if they are too many."""
    merged = {**carried, **new}
    size = sum(map(len, merged.values()))
    for number in list(merged):
        if len(merged) <= MAX_CARRIED_FILES and size <= MAX_CARRIED_BYTES:
            break
        size -= len(merged.pop(number))
    return merged


def add_keys(carried: Carried, keys: Mapping[int, bytes | None], rows: int) -> Carried:
    """Return what a version with this number of rows carries after a compaction, which wrote files with these keys.

    If they are too many, with those of earlier compactions, none are carried: then the page of the table is written.
    That takes time in proportion to the rows of the table, so keys of a small table are not worth carrying.
    """
    compacted = {**{number: data for number, data in carried.items() if data[:1] == _COMPRESSED}, **keys}
    size = sum(len(data or b"") for data in compacted.values())
    is_kept = None not in compacted.values() and size <= min(MAX_KEYS_BYTES, rows)
    kept = {number: data for number, data in compacted.items() if data is not None and is_kept}
    return dict(
        sorted({**{number: data for number, data in carried.items() if number not in compacted}, **kept}.items())
    )


def encode_section(carried: Carried) -> bytes:
    """Return the section of a version file; no bytes for no rows."""
    if not carried:
        return b""
    body = _ENCODER.encode(list(carried.items()))
    return body + _TRAILER.pack(len(body), zlib.crc32(body), _MARK)


def decode_section(file: bytes, end: int) -> Carried:
    """Return what the section that ends at a position of a version file has; nothing if there is none or a bad one."""
    start = end - _TRAILER.size
    if start < 0:
        return {}
    size, checksum, mark = _TRAILER.unpack_from(file, start)
    body = file[max(start - size, 0) : start]
    if mark != _MARK or len(body) != size or zlib.crc32(body) != checksum:
        return {}
    try:
        return {int(number): bytes(data) for number, data in _DECODER.decode(body)}
    except (msgspec.MsgspecError, TypeError, ValueError):
        return {}


def _is_carried(type_: pa.DataType) -> bool:
    # Extension types, such as that of blobs, can't be hashed.
    return not isinstance(type_, pa.BaseExtensionType) and type_ in _PLAIN_TYPES
