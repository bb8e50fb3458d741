"""The words of a column as bytes and back, so that the next process need not analyse it again.

Whatever is damaged, or was analysed by other rules, is as good as absent.
"""

import json
import unicodedata
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import Stemmer

from omnigraph.engine.search.text_index import Run, TextIndex
from omnigraph.telemetry import log

_TAG = f"omnigraph derived words 1, unicode {unicodedata.unidata_version}, stemmer {Stemmer.version()}\n".encode()
"""Names the format, and whatever a word depends on."""
_ALIGN = 64
_ARRAYS = {
    "token_of": "<i4",
    "stream": "<i4",
    "starts": "<i8",
    "bounds": "<i8",
    "rows": "<i4",
    "times": "<i4",
    "has_text": "|b1",
}
_TEXTS = ("words", "tokens")


class _DamagedError(Exception):
    """Something in the bytes is not as it was written."""


def encode_words(runs: Sequence[Run]) -> list[memoryview | bytes]:
    """All runs, which have their indexes; each part has a checksum of its own."""
    bodies: list[memoryview | bytes] = []
    described: list[dict[str, object]] = []
    offset = 0
    for run in runs:
        index = run.index
        assert index is not None  # noqa: S101 - what is kept has its index
        parts: dict[str, memoryview | bytes] = {
            name: _bytes_of(np.ascontiguousarray(getattr(index, name), dtype)) for name, dtype in _ARRAYS.items()
        }
        parts |= {name: "\n".join(getattr(index, name)).encode() for name in _TEXTS}
        places: dict[str, list[int]] = {}
        for name, body in parts.items():
            places[name] = [offset, len(body), zlib.crc32(body)]
            bodies += [body, bytes(-len(body) % _ALIGN)]
            offset += len(body) + -len(body) % _ALIGN
        described.append({"fragments": run.fragments, "rows": run.rows, "parts": places})
    header = json.dumps({"runs": described, "size": offset}).encode()
    start = _TAG + len(header).to_bytes(8, "little") + zlib.crc32(header).to_bytes(8, "little")
    return [start, header, bytes(-(len(start) + len(header)) % _ALIGN), *bodies]


def _bytes_of(array: np.ndarray[Any, np.dtype[Any]]) -> memoryview | bytes:
    return array.data.cast("B") if array.size else b""


def decode_words(data: memoryview) -> tuple[Run, ...]:
    """The runs that were written; none when any of it is damaged or of another kind."""
    try:
        header, body = _opened(data)
        return tuple(_run(described, body) for described in header["runs"])
    except (_DamagedError, KeyError, TypeError, ValueError) as error:
        log.warning("derived words can't be used (%s) and are made again", error)
        return ()


def _opened(data: memoryview) -> tuple[dict[str, Any], memoryview]:
    begin = len(_TAG) + 16
    if bytes(data[: len(_TAG)]) != _TAG:
        raise _DamagedError("they are of another format")
    length, checksum = (int.from_bytes(data[at : at + 8], "little") for at in (len(_TAG), len(_TAG) + 8))
    header = bytes(data[begin : begin + length])
    if len(header) != length or zlib.crc32(header) != checksum:
        raise _DamagedError("the header has another checksum")
    found = json.loads(header)
    start = begin + length
    start += -start % _ALIGN
    if len(data) != start + found["size"]:
        raise _DamagedError("the size is another")
    return found, data[start:]


def _run(described: dict[str, Any], body: memoryview) -> Run:
    parts: dict[str, memoryview] = {}
    for name, (at, length, checksum) in described["parts"].items():
        parts[name] = body[at : at + length]
        if len(parts[name]) != length or zlib.crc32(parts[name]) != checksum:
            raise _DamagedError(f"`{name}` has another checksum")
    words, tokens = (tuple(str(parts[name], "utf-8").split("\n")) if len(parts[name]) else () for name in _TEXTS)
    arrays: dict[str, Any] = {name: np.frombuffer(parts[name], dtype) for name, dtype in _ARRAYS.items()}
    index = TextIndex(words=words, tokens={token: place for place, token in enumerate(tokens)}, **arrays)
    fragments = tuple(tuple(files) for files in described["fragments"])
    return Run(fragments, int(described["rows"]), index)
