"""Number the rows of a table version by position: dense integers over all rows ever written to its fragments.

Appends and deletes leave all other positions unchanged: a deleted row leaves a hole, and new fragments follow the
others (decision 14).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.storage.arrow_buffers import read_numbers
from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.storage.fragment_list import Fragment

# A Lance row address is the fragment number in the high 32 bits, and the row's offset in the low ones.
_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Layout:
    """The fragments of one table version, in order, and the first position of each."""

    fragments: tuple[Fragment, ...]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first position of each fragment, and after the last one the size."""
        return np.concatenate(([0], np.cumsum([f.rows for f in self.fragments], dtype=np.int64))).astype(np.int64)

    @cached_property
    def size(self) -> int:
        """The number of positions, including holes."""
        return int(self.starts[-1])

    @cached_property
    def count(self) -> int:
        """The number of live rows."""
        return self.size - sum(f.deleted for f in self.fragments)

    @cached_property
    def content(self) -> str:
        """A digest of the written files: versions that share it have the same values at the same positions."""
        return _compute_digest("\n".join(f"{f.rows} {' '.join(f.files)}" for f in self.fragments))

    @cached_property
    def state(self) -> str:
        """A digest of written and deleted rows: versions that share it have the same live rows."""
        return _compute_digest("\n".join([self.content, *(f.deletions or "" for f in self.fragments)]))

    @property
    def has_holes(self) -> bool:
        """Whether any row was deleted."""
        return self.count < self.size

    @cached_property
    def _by_number(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        numbers = np.array([f.number for f in self.fragments], np.uint64)
        order = np.argsort(numbers)
        return numbers[order], self.starts[:-1][order]

    def find_positions(self, addresses: pa.ChunkedArray | pa.Array) -> NDArray[np.int64]:
        """Convert Lance row addresses to positions."""
        return self.find_addresses(read_numbers(concat_chunks(addresses)))

    def find_addresses(self, raw: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Convert Lance row addresses, as numbers, to positions."""
        fragments, starts = self._by_number
        indexes = np.searchsorted(fragments, raw >> _OFFSET_BITS)
        return starts[indexes] + (raw & _OFFSET_MASK).astype(np.int64)

    def match_runs(self, older: "Layout") -> list["RowRun"]:
        """Return the runs that this version's rows consist of: rows of an older version, or new fragments."""
        # Fragments are matched by their files: equal files have equal rows.
        older_rows = {f.files: (int(start), f.rows) for f, start in zip(older.fragments, older.starts, strict=False)}
        runs: list[RowRun] = []
        for fragment in self.fragments:
            start, rows = older_rows.get(fragment.files, (-1, 0))
            if start < 0 or rows != fragment.rows:
                _append_run(runs, RowRun(None, fragment.rows, (fragment.number,)))
            else:
                _append_run(runs, RowRun(start, fragment.rows))
        return runs


def _compute_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class RowRun:
    """A run of rows: from position `start` of an older version, or of new fragments if that is None."""

    start: int | None
    rows: int
    fragments: tuple[int, ...] = ()


def _append_run(runs: list[RowRun], run: RowRun) -> None:
    """Append a run, merged with the last one if they are contiguous."""
    last = runs[-1] if runs else None
    if last is None or (last.start is None) != (run.start is None):
        runs.append(run)
    elif last.start is None:
        runs[-1] = RowRun(None, last.rows + run.rows, last.fragments + run.fragments)
    elif last.start + last.rows == run.start:
        runs[-1] = RowRun(last.start, last.rows + run.rows)
    else:
        runs.append(run)


def pack_bitmap(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Pack a mask into an Arrow bitmap."""
    return np.packbits(mask, bitorder="little")


def mask_values(values: pa.Array, bits: NDArray[np.uint8]) -> pa.Array:
    """Return the same values, null where a bit is not set; all buffers but the validity bitmap are shared."""
    if not len(values):
        return values
    if values.offset:
        # Bits are counted from the start of the buffers, so an offset is removed by a copy.
        values = pa.concat_arrays([values, values.slice(0, 0)])
    if values.null_count:
        bits = bits & np.frombuffer(values.buffers()[0], np.uint8, len(bits))
    buffers = [pa.py_buffer(bits), *_get_value_buffers(values)]
    return pa.Array.from_buffers(values.type, len(values), buffers, children=_get_children(values))


def _get_value_buffers(values: pa.Array) -> Sequence[pa.Buffer | None]:
    """Return the buffers of a column after its validity bitmap, without those of nested columns."""
    type_ = values.type
    if pa.types.is_fixed_size_list(type_) or pa.types.is_struct(type_):
        return ()
    # Of a list only the offsets are its own.
    if pa.types.is_list(type_):
        return [values.buffers()[1]]
    return list(values.buffers()[1:])


def _get_children(values: pa.Array) -> list[pa.Array] | None:
    type_ = values.type
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        return [values.values]
    if pa.types.is_struct(type_):
        return [values.field(number) for number in range(type_.num_fields)]
    return None
