"""The words of a column as bytes and back, so that the next process need not analyse it again.

Whatever is damaged, or was analysed by other rules, is as good as absent.
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
    DamagedError,
    align_bodies,
    decode_derived,
    encode_derived,
    read_part,
)
from omnigraph.telemetry import log

_TAG = f"omnigraph derived words 2, unicode {unicodedata.unidata_version}, stemmer {Stemmer.version()}\n".encode()
"""Names the format, and whatever a word depends on."""
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
    """All runs, which have their indexes; each part has a checksum of its own."""
    contents: list[dict[str, Body]] = []
    for run in runs:
        index = run.index
        assert index is not None  # noqa: S101 - what is kept has its index
        arrays = {name: _to_bytes(np.ascontiguousarray(getattr(index, name), dtype)) for name, dtype in _ARRAYS.items()}
        contents.append({**arrays, **{name: "\n".join(getattr(index, name)).encode() for name in _TEXTS}})
    bodies, places, size = align_bodies(body for parts in contents for body in parts.values())
    at = iter(places)
    described = [
        {
            "fragments": run.fragments,
            "rows": run.rows,
            "parts": {name: [next(at), len(body), zlib.crc32(body)] for name, body in parts.items()},
        }
        for run, parts in zip(runs, contents, strict=True)
    ]
    files = {file for run in runs for fragment in run.fragments for file in fragment}
    return encode_derived(_TAG, {"runs": described}, files, bodies, size)


def _to_bytes(array: np.ndarray[Any, np.dtype[Any]]) -> Body:
    return array.data.cast("B") if array.size else b""


def decode_words(data: memoryview) -> tuple[FragmentRun, ...]:
    """The runs that were written; none when any of it is damaged or of another kind."""
    try:
        header, body = decode_derived(_TAG, data)
        return tuple(_decode_run(described, body) for described in header["runs"])
    except (DamagedError, KeyError, TypeError, ValueError) as error:
        log.warning("derived words can't be used (%s) and are made again", error)
        return ()


def _decode_run(described: dict[str, Any], body: memoryview) -> FragmentRun:
    parts = {
        name: read_part(body, int(at), int(length), int(checksum), f"`{name}`")
        for name, (at, length, checksum) in described["parts"].items()
    }
    words, tokens = (tuple(str(parts[name], "utf-8").split("\n")) if len(parts[name]) else () for name in _TEXTS)
    arrays: dict[str, Any] = {name: np.frombuffer(parts[name], dtype) for name, dtype in _ARRAYS.items()}
    index = InvertedIndex(words=words, tokens={token: place for place, token in enumerate(tokens)}, **arrays)
    fragments = tuple(tuple(files) for files in described["fragments"])
    return FragmentRun(fragments, int(described["rows"]), index)
