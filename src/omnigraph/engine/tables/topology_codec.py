"""Encode a topology as bytes for the next process, and decode it; damaged bytes count as missing."""

import zlib
from typing import Any

import numpy as np

from omnigraph.engine.tables.csr import CsrAdjacency, Ints
from omnigraph.engine.tables.derived_format import (
    Body,
    DerivedDataError,
    align_bodies,
    decode_derived,
    encode_derived,
    read_part,
)
from omnigraph.engine.tables.row_layout import Layout
from omnigraph.engine.tables.topology import Topology, TopologyLayouts
from omnigraph.storage.fragment_list import Fragment
from omnigraph.telemetry import log

_TAG = b"omnigraph derived topology 1\n"
_LISTS = ("out", "into")
_ARRAYS = ("starts", "targets", "edges")
# Stored arrays are little-endian, of 32 or 64 bits.
_TYPES: dict[str, np.dtype[np.int32] | np.dtype[np.int64]] = {"<i4": np.dtype("<i4"), "<i8": np.dtype("<i8")}


def encode_topology(topology: Topology) -> list[Body]:
    """Encode the layouts of a topology and both of its adjacency lists, each array with its own checksum."""
    arrays = {
        (name, part): np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        for name, adjacency in zip(_LISTS, (topology.get_out_csr(), topology.get_in_csr()), strict=True)
        for part, array in zip(_ARRAYS, adjacency.arrays, strict=True)
    }
    contents = [array.data.cast("B") if array.size else memoryview(b"") for array in arrays.values()]
    bodies, starts, size = align_bodies(contents)
    descriptions = [
        {"list": name, "part": part, "type": array.dtype.str, "at": at, "count": array.size, "crc": zlib.crc32(body)}
        for ((name, part), array), at, body in zip(arrays.items(), starts, contents, strict=True)
    ]
    header: dict[str, object] = {
        "layouts": [_encode_layout(layout) for layout in topology.layouts.all],
        "arrays": descriptions,
        # Without parallel edges, the lists of sets have the same arrays and need not be stored.
        "simple": len(topology.get_out_set_csr().targets) == len(topology.get_out_csr().targets),
    }
    fragments = [fragment for layout in topology.layouts.all for fragment in layout.fragments]
    files = {file for fragment in fragments for file in fragment.files}
    return encode_derived(_TAG, header, files, bodies, size)


def decode_topology(data: memoryview) -> Topology | None:
    """Decode a topology; return None if the bytes that it needs are damaged.

    The list `into` is only checked when it is first used, and built again if it is damaged.
    """
    try:
        header, body = decode_derived(_TAG, data)
        layouts = TopologyLayouts(*(_decode_layout(layout) for layout in header["layouts"]))
        stored = _StoredLists(header["arrays"], body, layouts, is_simple=header["simple"] is True)
        out = stored.read("out")
    except DerivedDataError as error:
        log.warning("a derived topology is damaged (%s) and is built again", error)
        return None
    except (KeyError, TypeError, ValueError) as error:
        log.warning("a derived topology can't be read (%r) and is built again", error)
        return None
    # The ends of edges are derived from `out` when they are first needed.
    return Topology(layouts, None, lists={"out": out}, stored=stored)


class _StoredLists:
    """The adjacency lists in the bytes, checked on first use."""

    def __init__(
        self, arrays: list[dict[str, Any]], body: memoryview, layouts: TopologyLayouts, *, is_simple: bool
    ) -> None:
        self._arrays = {(array["list"], array["part"]): array for array in arrays}
        self._body = body
        self._layouts = layouts
        self._is_simple = is_simple
        self._read: dict[str, CsrAdjacency] = {}

    def __call__(self, name: str) -> CsrAdjacency | None:
        """Return a list, or None if it is not stored or damaged."""
        # Without parallel edges, `out_set` and `into_set` are `out` and `into` without edge positions.
        whole = name.removesuffix("_set")
        if whole != name and not self._is_simple:
            return None
        try:
            adjacency = self._read.get(whole) or self.read(whole)
        except (DerivedDataError, KeyError, TypeError, ValueError) as error:
            log.warning("a derived adjacency list is damaged (%r) and is built again", error)
            return None
        return adjacency if whole == name else CsrAdjacency(adjacency.starts, adjacency.targets, None)

    def read(self, name: str) -> CsrAdjacency:
        """Return a list.

        Raises:
            DerivedDataError: It is not what was written.
        """
        starts, targets, edges = (self._read_array(name, part) for part in _ARRAYS)
        sizes = self._layouts.sizes if name == "out" else self._layouts.sizes[::-1]
        if len(starts) != sizes[0] + 1 or len(targets) != len(edges) or int(starts[-1]) != len(targets):
            raise DerivedDataError(f"the sizes of `{name}` are inconsistent")
        adjacency = self._read[name] = CsrAdjacency(starts.astype(np.int64, copy=False), targets, edges)
        return adjacency

    def _read_array(self, name: str, part: str) -> Ints:
        description = self._arrays[name, part]
        dtype = _TYPES[description["type"]]
        start = int(description["at"])
        length = int(description["count"]) * dtype.itemsize
        return np.frombuffer(read_part(self._body, start, length, description["crc"], f"`{part}` of `{name}`"), dtype)


def _encode_layout(layout: Layout) -> list[list[object]]:
    return [[f.number, f.rows, f.deleted, list(f.files), f.deletions, f.nbytes] for f in layout.fragments]


def _decode_layout(data: list[list[Any]]) -> Layout:
    return Layout(
        tuple(
            Fragment(number, rows, deleted, tuple(files), deletions, nbytes)
            for number, rows, deleted, files, deletions, nbytes in data
        )
    )
