"""Decode and encode deletion vectors: which rows of a fragment are deleted, in Lance's deletion files.

Lance itself only returns the addresses of all live rows, which costs a pass over the table. A deletion file is as large
as its deletions: an Arrow file of offsets if these are few, else a Roaring bitmap in its portable format.
"""

import numpy as np
import pyarrow as pa

from omnigraph.storage.columnar_sets import Positions

# Constants of the portable Roaring format.
_RUN_COOKIE = 12_347
_NO_RUN_COOKIE = 12_346
# A bitmap with run containers has a table of offsets only from this number of containers on.
_MIN_CONTAINERS_WITH_OFFSETS = 4
# A container covers 65,536 numbers: up to this many are stored as an array, more as a bitmap.
_MAX_ARRAY_VALUES = 4_096
_BITMAP_BYTES = 8_192


# Lance writes more offsets than this as a bitmap.
MAX_ARRAY_OFFSETS = 4_096
_ARROW_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


class DeletionsError(ValueError):
    """The bytes are not a complete deletion file."""


def decode_deletions(data: bytes, count: int, rows: int, *, is_bitmap: bool) -> Positions:
    """Return the offsets of the deleted rows of a fragment, ascending.

    Raises:
        DeletionsError: The data can't be decoded, or does not delete `count` distinct rows of `rows`.
    """
    try:
        offsets = _decode_bitmap(data, count) if is_bitmap else _decode_arrow(data)
    except DeletionsError:
        raise
    except (ValueError, IndexError, OSError, pa.ArrowException) as error:
        raise DeletionsError(str(error)) from error
    _check_count(len(offsets), count)
    if len(offsets) and (offsets[0] < 0 or offsets[-1] >= rows or bool((offsets[1:] <= offsets[:-1]).any())):
        raise DeletionsError(f"it does not list distinct rows of the {rows:,} in the fragment")
    return offsets


def encode_deletions(offsets: Positions) -> bytes:
    """Return the deletion file of a fragment without the rows at these offsets, as an array."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _ARROW_SCHEMA) as file:
        file.write_batch(pa.record_batch([pa.array(offsets.astype(np.uint32))], schema=_ARROW_SCHEMA))
    return bytes(sink.getvalue())


def _check_count(actual: int, expected: int) -> None:
    if actual != expected:
        raise DeletionsError(f"it has {actual:,} rows, and should have {expected:,}")


def to_offsets(deleted: Positions, live_positions: Positions) -> Positions:
    """Convert positions among the live rows of a fragment to offsets in it."""
    live_before = deleted - np.arange(len(deleted))  # the number of live rows before each deleted row
    return np.asarray(live_positions + np.searchsorted(live_before, live_positions, side="right"), np.int64)


def to_live_positions(deleted: Positions, offsets: Positions) -> Positions:
    """Convert offsets of live rows to positions among the live rows; the inverse of `to_offsets`."""
    return np.asarray(offsets - np.searchsorted(deleted, offsets), np.int64)


def invert_offsets(offsets: Positions, rows: int) -> Positions:
    """Return all other offsets of a fragment: the live ones for the deleted ones, and vice versa."""
    is_other = np.ones(rows, np.bool_)
    is_other[offsets] = False
    return np.flatnonzero(is_other)


def _decode_arrow(data: bytes) -> Positions:
    with pa.ipc.open_file(pa.BufferReader(data)) as file:
        column = file.read_all().column(0)
    if column.type != pa.uint32() or column.null_count:
        raise DeletionsError(f"it contains {column.type} instead of offsets")
    return np.sort(np.asarray(column.to_numpy(), np.int64))


def _decode_bitmap(data: bytes, rows: int) -> Positions:
    cookie = _read_uint32(data, 0)
    has_runs = cookie & 0xFFFF == _RUN_COOKIE
    if not has_runs and cookie != _NO_RUN_COOKIE:
        raise DeletionsError("it does not start with the header of a bitmap")
    count = (cookie >> 16) + 1 if has_runs else _read_uint32(data, 4)
    at = 4 if has_runs else 8
    is_run = np.zeros(count, np.bool_)
    if has_runs:
        size = -(-count // 8)
        is_run = np.unpackbits(_read_array(data, at, size, "u1"), bitorder="little")[:count].astype(np.bool_)
        at += size
    headers = _read_array(data, at, 2 * count, "<u2").astype(np.int64)
    at += 4 * count
    if not has_runs or count >= _MIN_CONTAINERS_WITH_OFFSETS:
        at += 4 * count  # the table of offsets is skipped: containers follow each other
    _check_count(int((headers[1::2] + 1).sum()), rows)  # before memory is allocated for damaged sizes
    parts = [np.empty(0, np.int64)]
    for high, size, is_of_runs in zip(headers[::2], headers[1::2] + 1, is_run, strict=True):
        if is_of_runs:
            runs = _read_array(data, at + 2, 2 * int(_read_array(data, at, 1, "<u2")[0]), "<u2").astype(np.int64)
            if int((runs[1::2] + 1).sum()) != size:
                raise DeletionsError(f"its runs do not have {size:,} rows")
            part = np.concatenate([np.arange(first, first + more + 1) for first, more in runs.reshape(-1, 2).tolist()])
            at += 2 + 2 * len(runs)
        elif size <= _MAX_ARRAY_VALUES:
            part = _read_array(data, at, int(size), "<u2").astype(np.int64)
            at += 2 * int(size)
        else:
            part = np.flatnonzero(np.unpackbits(_read_array(data, at, _BITMAP_BYTES, "u1"), bitorder="little"))
            at += _BITMAP_BYTES
        if len(part) != size:
            raise DeletionsError(f"a container has {len(part):,} rows, and should have {size:,}")
        parts.append(part + (high << 16))
    return np.concatenate(parts)


def _read_uint32(data: bytes, at: int) -> int:
    return int(_read_array(data, at, 1, "<u4")[0])


def _read_array(data: bytes, at: int, count: int, kind: str) -> np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]:
    return np.frombuffer(data, kind, count, at)
