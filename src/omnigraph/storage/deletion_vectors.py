"""Which rows of a fragment are deleted, as Lance's deletion files say it.

Lance itself tells only the addresses of all rows that live, which costs a pass over the table. A deletion file is as
large as what was deleted: an Arrow file of offsets where these are few, else a Roaring bitmap in its portable form.
"""

import numpy as np
import pyarrow as pa

from omnigraph.storage.columnar_sets import Positions

_RUN_COOKIE, _NO_RUN_COOKIE = 12_347, 12_346
_MIN_CONTAINERS_WITH_OFFSETS = 4
"""A bitmap that has runs tells where its parts begin only from so many parts on."""
_MAX_ARRAY_VALUES = 4_096
_BITMAP_BYTES = 8_192
"""A part has at most 65,536 numbers: up to so many are a list, more are bits."""


class DeletionsError(ValueError):
    """The bytes are no deletion file, or not all of one."""


def decode_deletions(data: bytes, count: int, rows: int, *, is_bitmap: bool) -> Positions:
    """The offsets of the deleted rows of a fragment, ascending: there must be so many, of so many rows."""
    try:
        found = _decode_bitmap(data, count) if is_bitmap else _decode_arrow(data)
    except DeletionsError:
        raise
    except (ValueError, IndexError, OSError, pa.ArrowException) as error:
        raise DeletionsError(str(error)) from error
    _check_count(len(found), count)
    if len(found) and (found[0] < 0 or found[-1] >= rows or bool((found[1:] <= found[:-1]).any())):
        raise DeletionsError(f"it does not list rows of the {rows:,} that there are, each once")
    return found


def _check_count(found: int, count: int) -> None:
    if found != count:
        raise DeletionsError(f"it has {found:,} rows, and should have {count:,}")


def to_offsets(deleted: Positions, living: Positions) -> Positions:
    """Places that were counted over the living rows of a fragment, as offsets in it."""
    before = deleted - np.arange(len(deleted))  # how many rows live before each that is deleted
    return np.asarray(living + np.searchsorted(before, living, side="right"), np.int64)


def to_live_positions(deleted: Positions, offsets: Positions) -> Positions:
    """The inverse, for rows that live."""
    return np.asarray(offsets - np.searchsorted(deleted, offsets), np.int64)


def invert_offsets(offsets: Positions, rows: int) -> Positions:
    """All other offsets of so many rows: by the deleted ones those that live, by those that live the deleted ones."""
    is_other = np.ones(rows, np.bool_)
    is_other[offsets] = False
    return np.flatnonzero(is_other)


def _decode_arrow(data: bytes) -> Positions:
    with pa.ipc.open_file(pa.BufferReader(data)) as file:
        column = file.read_all().column(0)
    if column.type != pa.uint32() or column.null_count:
        raise DeletionsError(f"it holds {column.type}, and not offsets")
    return np.sort(np.asarray(column.to_numpy(), np.int64))


def _decode_bitmap(data: bytes, rows: int) -> Positions:
    cookie = _read_uint32(data, 0)
    has_runs = cookie & 0xFFFF == _RUN_COOKIE
    if not has_runs and cookie != _NO_RUN_COOKIE:
        raise DeletionsError("it does not begin as a bitmap does")
    count = (cookie >> 16) + 1 if has_runs else _read_uint32(data, 4)
    at = 4 if has_runs else 8
    is_run = np.zeros(count, np.bool_)
    if has_runs:
        size = -(-count // 8)
        is_run = np.unpackbits(_read_array(data, at, size, "u1"), bitorder="little")[:count].astype(np.bool_)
        at += size
    heads = _read_array(data, at, 2 * count, "<u2").astype(np.int64)
    at += 4 * count
    if not has_runs or count >= _MIN_CONTAINERS_WITH_OFFSETS:
        at += 4 * count  # where each part begins, which is behind the one before
    _check_count(int((heads[1::2] + 1).sum()), rows)  # before anything is made of it
    found = [np.empty(0, np.int64)]
    for high, size, is_of_runs in zip(heads[::2], heads[1::2] + 1, is_run, strict=True):
        if is_of_runs:
            runs = _read_array(data, at + 2, 2 * int(_read_array(data, at, 1, "<u2")[0]), "<u2").astype(np.int64)
            if int((runs[1::2] + 1).sum()) != size:
                raise DeletionsError(f"runs have other rows than the {size:,} that they should")
            part = np.concatenate([np.arange(first, first + more + 1) for first, more in runs.reshape(-1, 2).tolist()])
            at += 2 + 2 * len(runs)
        elif size <= _MAX_ARRAY_VALUES:
            part = _read_array(data, at, int(size), "<u2").astype(np.int64)
            at += 2 * int(size)
        else:
            part = np.flatnonzero(np.unpackbits(_read_array(data, at, _BITMAP_BYTES, "u1"), bitorder="little"))
            at += _BITMAP_BYTES
        if len(part) != size:
            raise DeletionsError(f"a part has {len(part):,} rows, and should have {size:,}")
        found.append(part + (high << 16))
    return np.concatenate(found)


def _read_uint32(data: bytes, at: int) -> int:
    return int(_read_array(data, at, 1, "<u4")[0])


def _read_array(data: bytes, at: int, count: int, kind: str) -> np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]:
    return np.frombuffer(data, kind, count, at)
