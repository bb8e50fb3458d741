"""A topology as bytes and back, so that the next process need not make it. Whatever is damaged is as good as absent."""

import json
import zlib
from typing import Any

import numpy as np

from omnigraph.engine.tables.adjacency import Adjacency, Ints
from omnigraph.engine.tables.positions import Layout
from omnigraph.engine.tables.topology import Layouts, Topology
from omnigraph.storage.dataset import Fragment
from omnigraph.telemetry import log

_TAG = b"omnigraph derived topology 1\n"
_ALIGN = 64
_LISTS = ("out", "into")
_ARRAYS = ("starts", "targets", "edges")
_TYPES: dict[str, np.dtype[np.int32] | np.dtype[np.int64]] = {"<i4": np.dtype("<i4"), "<i8": np.dtype("<i8")}


class _DamagedError(Exception):
    """Something in the bytes is not as it was written."""


def encode_topology(topology: Topology) -> list[memoryview | bytes]:
    """The layouts that it is of, and both of its lists; each part has a checksum of its own."""
    described: list[dict[str, object]] = []
    bodies: list[memoryview | bytes] = []
    offset = 0
    for name, made in zip(_LISTS, (topology.out(), topology.into()), strict=True):
        for part, array in zip(_ARRAYS, made.arrays, strict=True):
            data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            body = data.data.cast("B") if data.size else memoryview(b"")
            place = {"list": name, "part": part, "type": data.dtype.str, "at": offset, "count": data.size}
            described.append({**place, "crc": zlib.crc32(body)})
            padding = -len(body) % _ALIGN
            bodies += [body, bytes(padding)]
            offset += len(body) + padding
    layouts = topology.layouts
    header = json.dumps(
        {
            "layouts": [_layout_json(layout) for layout in (layouts.edges, layouts.sources, layouts.targets)],
            "arrays": described,
            "simple": len(topology.out_set().targets) == len(topology.out().targets),
            "size": offset,
        }
    ).encode()
    start = _TAG + len(header).to_bytes(8, "little") + zlib.crc32(header).to_bytes(8, "little")
    return [start, header, bytes(-(len(start) + len(header)) % _ALIGN), *bodies]


def decode_topology(data: memoryview) -> Topology | None:
    """The topology that was written, or None when any of what is needed for it is damaged.

    `into` is looked at when it is first asked for, and made anew when that is damaged.
    """
    try:
        header, body = _opened(data)
        layouts = Layouts(*(_layout_from_json(layout) for layout in header["layouts"]))
        stored = _Stored(header["arrays"], body, layouts, is_simple=header["simple"] is True)
        out = stored.read("out")
    except _DamagedError as error:
        log.warning("a derived topology is damaged (%s) and is made again", error)
        return None
    except (KeyError, TypeError, ValueError) as error:
        log.warning("a derived topology can't be read (%r) and is made again", error)
        return None
    return Topology(layouts, None, lists={"out": out}, stored=stored)


class _Stored:
    """The lists in the bytes, checked when they are asked for."""

    def __init__(self, arrays: list[dict[str, Any]], body: memoryview, layouts: Layouts, *, is_simple: bool) -> None:
        self._arrays = {(array["list"], array["part"]): array for array in arrays}
        self._body, self._layouts, self._is_simple = body, layouts, is_simple
        self._read: dict[str, Adjacency] = {}

    def __call__(self, name: str) -> Adjacency | None:
        """A list, or None when there is none that is sound."""
        whole = name.removesuffix("_set")
        if whole != name and not self._is_simple:
            return None
        try:
            found = self._read.get(whole) or self.read(whole)
        except (_DamagedError, KeyError, TypeError, ValueError) as error:
            log.warning("a derived list is damaged (%r) and is made again", error)
            return None
        return found if whole == name else Adjacency(found.starts, found.targets, None)

    def read(self, name: str) -> Adjacency:
        """A list; _DamagedError when it is not what was written."""
        starts, targets, edges = (self._array(name, part) for part in _ARRAYS)
        sizes = self._layouts.sizes if name == "out" else self._layouts.sizes[::-1]
        if len(starts) != sizes[0] + 1 or len(targets) != len(edges) or int(starts[-1]) != len(targets):
            raise _DamagedError(f"the sizes of `{name}` don't fit")
        found = self._read[name] = Adjacency(starts.astype(np.int64, copy=False), targets, edges)
        return found

    def _array(self, name: str, part: str) -> Ints:
        described = self._arrays[name, part]
        dtype = _TYPES[described["type"]]
        start, count = int(described["at"]), int(described["count"])
        data = self._body[start : start + count * dtype.itemsize]
        if start < 0 or len(data) != count * dtype.itemsize or zlib.crc32(data) != described["crc"]:
            raise _DamagedError(f"`{part}` of `{name}` has another checksum")
        return np.frombuffer(data, dtype)


def _opened(data: memoryview) -> tuple[dict[str, Any], memoryview]:
    """The header and what is behind it."""
    begin = len(_TAG) + 16
    if bytes(data[: len(_TAG)]) != _TAG:
        raise _DamagedError("it is of another format")
    length, checksum = (int.from_bytes(data[at : at + 8], "little") for at in (len(_TAG), len(_TAG) + 8))
    header = bytes(data[begin : begin + length])
    if len(header) != length or zlib.crc32(header) != checksum:
        raise _DamagedError("its header has another checksum")
    found = json.loads(header)
    start = begin + length
    start += -start % _ALIGN
    if len(data) != start + found["size"]:
        raise _DamagedError("it has another size")
    return found, data[start:]


def _layout_json(layout: Layout) -> list[list[object]]:
    return [[f.number, f.rows, f.deleted, list(f.files), f.deletions, f.nbytes] for f in layout.fragments]


def _layout_from_json(data: list[list[Any]]) -> Layout:
    return Layout(
        tuple(
            Fragment(number, rows, deleted, tuple(files), deletions, nbytes)
            for number, rows, deleted, files, deletions, nbytes in data
        )
    )
