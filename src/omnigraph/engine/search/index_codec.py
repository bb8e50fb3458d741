"""Encode the full-text index of a column as bytes and back, so that the next process need not tokenize it again.

An index that is damaged, or was built by other rules, counts as missing.
"""

import unicodedata
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import Stemmer

from omnigraph.engine.search.inverted_index import FragmentRun, InvertedIndex
from omnigraph.engine.tables.derived_format import (
    Body,
    DerivedDataError,
    align_bodies,
    decode_derived,
    encode_derived,
    read_part,
)
from omnigraph.telemetry import log

# Names the format, and the versions that words depend on: an index of other versions must not be used.
_TAG = f"omnigraph derived words 2, unicode {unicodedata.unidata_version}, stemmer {Stemmer.version()}\n".encode()
# Fields of `InvertedIndex` and their stored types: little-endian, whatever the machine.
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


def encode_words(runs: Sequence[FragmentRun]) -> list[Body]:
    """Encode runs that have their indexes; each part has its own checksum."""
    contents: list[dict[str, Body]] = []
    for run in runs:
        index = run.index
        assert index is not None  # noqa: S101 - stored runs have their index
        arrays = {name: _to_bytes(np.ascontiguousarray(getattr(index, name), dtype)) for name, dtype in _ARRAYS.items()}
        # Words consist of letters, digits and marks, so a line break can separate them.
        texts = {name: "\n".join(getattr(index, name)).encode() for name in _TEXTS}
        contents.append({**arrays, **texts})
    bodies, offsets, size = align_bodies(body for parts in contents for body in parts.values())
    next_offset = iter(offsets)
    described = [
        {
            "fragments": run.fragments,
            "rows": run.rows,
            "parts": {name: [next(next_offset), len(body), zlib.crc32(body)] for name, body in parts.items()},
        }
        for run, parts in zip(runs, contents, strict=True)
    ]
    files = {file for run in runs for fragment in run.fragments for file in fragment}
    return encode_derived(_TAG, {"runs": described}, files, bodies, size)


def _to_bytes(array: np.ndarray[Any, np.dtype[Any]]) -> Body:
    return array.data.cast("B") if array.size else b""


def decode_words(data: memoryview) -> tuple[FragmentRun, ...]:
    """Decode the stored runs; returns none if any part is damaged or of another format."""
    try:
        header, body = decode_derived(_TAG, data)
        return tuple(_decode_run(described, body) for described in header["runs"])
    except (DerivedDataError, KeyError, TypeError, ValueError) as error:
        log.warning("the stored full-text index can't be used (%s) and is built again", error)
        return ()


def _decode_run(described: dict[str, Any], body: memoryview) -> FragmentRun:
    parts = {
        name: read_part(body, int(offset), int(length), int(checksum), f"`{name}`")
        for name, (offset, length, checksum) in described["parts"].items()
    }
    words, tokens = (tuple(str(parts[name], "utf-8").split("\n")) if len(parts[name]) else () for name in _TEXTS)
    arrays: dict[str, Any] = {name: np.frombuffer(parts[name], dtype) for name, dtype in _ARRAYS.items()}
    index = InvertedIndex(words=words, tokens={token: number for number, token in enumerate(tokens)}, **arrays)
    fragments = tuple(tuple(files) for files in described["fragments"])
    return FragmentRun(fragments, int(described["rows"]), index)
