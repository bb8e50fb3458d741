"""Rows of a table version by their positions: dense integers over everything that was ever written to its fragments.

An append or a delete shifts nobody: a deleted row leaves a hole, and new fragments stand behind the others.
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
from omnigraph.storage.lance_table import Fragment

_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Layout:
    """The fragments of one table version, in order, and where each one starts."""

    fragments: tuple[Fragment, ...]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first position of each fragment, and the size behind the last."""
        return np.concatenate(([0], np.cumsum([f.rows for f in self.fragments], dtype=np.int64))).astype(np.int64)

    @cached_property
    def size(self) -> int:
        """How many positions there are, holes too."""
        return int(self.starts[-1])

    @cached_property
    def count(self) -> int:
        """How many rows live."""
        return self.size - sum(f.deleted for f in self.fragments)

    @cached_property
    def content(self) -> str:
        """A digest of what was written: versions that share it have the same values at the same positions."""
        return _compute_digest("\n".join(f"{f.rows} {' '.join(f.files)}" for f in self.fragments))

    @cached_property
    def state(self) -> str:
        """A digest of what was written and deleted: versions that share it have the same rows."""
        return _compute_digest("\n".join([self.content, *(f.deletions or "" for f in self.fragments)]))

    @property
    def has_holes(self) -> bool:
        """Whether a row was deleted."""
        return self.count < self.size

    @cached_property
    def _by_number(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        numbers = np.array([f.number for f in self.fragments], np.uint64)
        order = np.argsort(numbers)
        return numbers[order], self.starts[:-1][order]

    def find_positions(self, addresses: pa.ChunkedArray | pa.Array) -> NDArray[np.int64]:
        """The positions of rows by Lance's addresses."""
        raw = read_numbers(concat_chunks(addresses))
        fragments, starts = self._by_number
        places = np.searchsorted(fragments, raw >> _OFFSET_BITS)
        return starts[places] + (raw & _OFFSET_MASK).astype(np.int64)

    def match_runs(self, older: "Layout") -> list["RowRun"]:
        """How this version's rows are made of an older one's and of fragments that it did not have."""
        known = {f.files: (int(start), f.rows) for f, start in zip(older.fragments, older.starts, strict=False)}
        pieces: list[RowRun] = []
        for fragment in self.fragments:
            start, rows = known.get(fragment.files, (-1, 0))
            if start < 0 or rows != fragment.rows:
                _append_run(pieces, RowRun(None, fragment.rows, (fragment.number,)))
            else:
                _append_run(pieces, RowRun(start, fragment.rows))
        return pieces


def _compute_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class RowRun:
    """A run of rows: from `start` of the older version, or of new fragments."""

    start: int | None
    rows: int
    fragments: tuple[int, ...] = ()


def _append_run(pieces: list[RowRun], piece: RowRun) -> None:
    """Add a piece, as part of the last one where the two are one run."""
    last = pieces[-1] if pieces else None
    if last is None or (last.start is None) != (piece.start is None):
        pieces.append(piece)
    elif last.start is None:
        pieces[-1] = RowRun(None, last.rows + piece.rows, last.fragments + piece.fragments)
    elif last.start + last.rows == piece.start:
        pieces[-1] = RowRun(last.start, last.rows + piece.rows)
    else:
        pieces.append(piece)


def pack_bitmap(living: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Truths as Arrow packs them."""
    return np.packbits(living, bitorder="little")


def mask_values(values: pa.Array, bits: NDArray[np.uint8]) -> pa.Array:
    """The same values, null where a bit is not set; only the bitmap of nulls is new."""
    if not len(values):
        return values
    if values.offset:
        values = pa.concat_arrays([values, values.slice(0, 0)])
    if values.null_count:
        bits = bits & np.frombuffer(values.buffers()[0], np.uint8, len(bits))
    buffers = [pa.py_buffer(bits), *_get_own_buffers(values)]
    return pa.Array.from_buffers(values.type, len(values), buffers, children=_get_children(values))


def _get_own_buffers(values: pa.Array) -> Sequence[pa.Buffer | None]:
    """The buffers of a column itself, behind its bitmap of nulls; those of nested columns are theirs."""
    type_ = values.type
    if pa.types.is_fixed_size_list(type_) or pa.types.is_struct(type_):
        return ()
    if pa.types.is_list(type_):
        return [values.buffers()[1]]
    return list(values.buffers()[1:])


def _get_children(values: pa.Array) -> list[pa.Array] | None:
    type_ = values.type
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        return [values.values]
    if pa.types.is_struct(type_):
        return [values.field(place) for place in range(type_.num_fields)]
    return None
