"""Store the keys of the files of a table beside it, so that a new process reads one object instead of all these files.

A compaction of the tail writes the page of its table again. Keys belong to files, which never change: so a page is
right for every version, on any branch, however old it is. What it lacks is read from the files.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from omnigraph.engine.tables.derived_format import DerivedDataError, decode_derived, encode_derived, read_part
from omnigraph.storage.derived_cache import DerivedCache
from omnigraph.storage.key_cache import KeyedTable, KeyPage
from omnigraph.storage.layout import build_derived_key, build_version_key
from omnigraph.telemetry import log

KEYS = "keys"
_TAG = b"omnigraph derived keys 1\n"


def build_page_key(path: str) -> str:
    """Return the key of the page of the table at a path."""
    return build_derived_key(KEYS, [path])


class StoredKeyPages:
    """The pages among the derived objects of a graph. A damaged one counts as missing."""

    def __init__(self, derived: DerivedCache) -> None:
        self._derived = derived

    def read(self, path: str) -> KeyPage | None:
        """Return the page of a table, None if there is none."""
        data = self._derived.read(build_page_key(path))
        return None if data is None else _decode_page(data)

    def write(self, table: KeyedTable, page: KeyPage) -> None:
        """Replace the page of a table, unless the version that it was made of was removed in the meantime."""
        key = build_page_key(table.path)
        if self._derived.is_read_only:
            return
        is_stored = self._derived.write(key, _encode_page(page))
        # A cleanup removes versions, then their files, then what is derived from those: see `store_derived`.
        if is_stored and not self._derived.exists(build_version_key(table.path, table.version)):
            self._derived.remove(key)


def _encode_page(page: KeyPage) -> list[memoryview | bytes]:
    sink = pa.BufferOutputStream()
    rows = pa.table({str(number): values for number, values in page.columns.items()})
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    body = memoryview(sink.getvalue())
    header: dict[str, object] = {
        "groups": [list(files) for files in page.files],
        "counts": list(page.counts),
        "crc": zlib.crc32(body),
    }
    files = {name for group in page.files for name in group}
    return encode_derived(_TAG, header, files, [body], len(body))


def _decode_page(data: memoryview) -> KeyPage | None:
    try:
        header, body = decode_derived(_TAG, data)
        rows = pa.ipc.open_stream(read_part(body, 0, header["size"], header["crc"], "its keys")).read_all()
        counts = tuple(map(int, header["counts"]))
        files = tuple(tuple(group) for group in header["groups"])
        columns = {int(name): _take_column(rows, name) for name in rows.schema.names}
    except DerivedDataError as error:
        log.warning("a page of keys is damaged (%s); the files are read", error)
        return None
    except (KeyError, TypeError, ValueError, OSError) as error:
        log.warning("a page of keys can't be read (%r); the files are read", error)
        return None
    return KeyPage(files, counts, columns) if _is_consistent(files, counts, rows.num_rows) else None


def _is_consistent(files: Sequence[Any], counts: Sequence[int], rows: int) -> bool:
    return len(files) == len(counts) == len(set(files)) and sum(counts) == rows


def _take_column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
