"""A topology as bytes and back, so that the next process need not make it. Whatever is damaged is as good as absent."""

import zlib
from typing import Any

import numpy as np

from omnigraph.engine.tables.csr import CsrAdjacency, Ints
from omnigraph.engine.tables.derived_format import Body, DamagedError, align_bodies, decode_derived, encode_derived
from omnigraph.engine.tables.derived_format import read_part as part_of
from omnigraph.engine.tables.row_layout import Layout
from omnigraph.engine.tables.topology import Topology, TopologyLayouts
from omnigraph.storage.lance_table import Fragment
from omnigraph.telemetry import log

_TAG = b"omnigraph derived topology 1\n"
_LISTS = ("out", "into")
_ARRAYS = ("starts", "targets", "edges")
_TYPES: dict[str, np.dtype[np.int32] | np.dtype[np.int64]] = {"<i4": np.dtype("<i4"), "<i8": np.dtype("<i8")}


def encode_topology(topology: Topology) -> list[Body]:
    """The layouts that it is of, and both of its lists; each part has a checksum of its own."""
    arrays = {
        (name, part): np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        for name, made in zip(_LISTS, (topology.get_out_csr(), topology.get_in_csr()), strict=True)
        for part, array in zip(_ARRAYS, made.arrays, strict=True)
    }
    contents = [array.data.cast("B") if array.size else memoryview(b"") for array in arrays.values()]
    bodies, places, size = align_bodies(contents)
    described = [
        {"list": name, "part": part, "type": array.dtype.str, "at": at, "count": array.size, "crc": zlib.crc32(body)}
        for ((name, part), array), at, body in zip(arrays.items(), places, contents, strict=True)
    ]
    layouts = topology.layouts
    header: dict[str, object] = {
        "layouts": [_encode_layout(layout) for layout in layouts.all],
        "arrays": described,
        "simple": len(topology.get_out_set_csr().targets) == len(topology.get_out_csr().targets),
    }
    fragments = (one for layout in topology.layouts.all for one in layout.fragments)
    return encode_derived(_TAG, header, {file for one in fragments for file in one.files}, bodies, size)


def decode_topology(data: memoryview) -> Topology | None:
    """The topology that was written, or None when any of what is needed for it is damaged.

    `into` is looked at when it is first asked for, and made anew when that is damaged.
    """
    try:
        header, body = decode_derived(_TAG, data)
        layouts = TopologyLayouts(*(_decode_layout(layout) for layout in header["layouts"]))
        stored = _StoredLists(header["arrays"], body, layouts, is_simple=header["simple"] is True)
        out = stored.read("out")
    except DamagedError as error:
        log.warning("a derived topology is damaged (%s) and is made again", error)
        return None
    except (KeyError, TypeError, ValueError) as error:
        log.warning("a derived topology can't be read (%r) and is made again", error)
        return None
    return Topology(layouts, None, lists={"out": out}, stored=stored)


class _StoredLists:
    """The lists in the bytes, checked when they are asked for."""

    def __init__(
        self, arrays: list[dict[str, Any]], body: memoryview, layouts: TopologyLayouts, *, is_simple: bool
    ) -> None:
        self._arrays = {(array["list"], array["part"]): array for array in arrays}
        self._body, self._layouts, self._is_simple = body, layouts, is_simple
        self._read: dict[str, CsrAdjacency] = {}

    def __call__(self, name: str) -> CsrAdjacency | None:
        """A list, or None when there is none that is sound."""
        whole = name.removesuffix("_set")
        if whole != name and not self._is_simple:
            return None
        try:
            found = self._read.get(whole) or self.read(whole)
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            log.warning("a derived list is damaged (%r) and is made again", error)
            return None
        return found if whole == name else CsrAdjacency(found.starts, found.targets, None)

    def read(self, name: str) -> CsrAdjacency:
        """A list; DamagedError when it is not what was written."""
        starts, targets, edges = (self._read_array(name, part) for part in _ARRAYS)
        sizes = self._layouts.sizes if name == "out" else self._layouts.sizes[::-1]
        if len(starts) != sizes[0] + 1 or len(targets) != len(edges) or int(starts[-1]) != len(targets):
            raise DamagedError(f"the sizes of `{name}` don't fit")
        found = self._read[name] = CsrAdjacency(starts.astype(np.int64, copy=False), targets, edges)
        return found

    def _read_array(self, name: str, part: str) -> Ints:
        described = self._arrays[name, part]
        dtype = _TYPES[described["type"]]
        start, length = int(described["at"]), int(described["count"]) * dtype.itemsize
        return np.frombuffer(part_of(self._body, start, length, described["crc"], f"`{part}` of `{name}`"), dtype)


def _encode_layout(layout: Layout) -> list[list[object]]:
    return [[f.number, f.rows, f.deleted, list(f.files), f.deletions, f.nbytes] for f in layout.fragments]


def _decode_layout(data: list[list[Any]]) -> Layout:
    return Layout(
        tuple(
            Fragment(number, rows, deleted, tuple(files), deletions, nbytes)
            for number, rows, deleted, files, deletions, nbytes in data
        )
    )
