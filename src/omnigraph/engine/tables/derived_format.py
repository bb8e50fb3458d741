"""How derived things are laid out as bytes: a tag, a header with its checksum, and the parts, aligned."""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

ALIGN = 64
FILES_FIELD = "files"
"""The field of the header that names every data file which the content was derived from."""
_FIRST_BYTES = 64 * 1024
"""One small read has the header of anything that was derived from up to about a thousand files."""

Body = memoryview | bytes


class DamagedError(Exception):
    """Something in the bytes is not as it was written."""


def align_bodies(bodies: Iterable[Body]) -> tuple[list[Body], list[int], int]:
    """The parts one behind the other with what aligns them, where each begins, and the size of all."""
    found: list[Body] = []
    places: list[int] = []
    size = 0
    for body in bodies:
        padding = -len(body) % ALIGN
        places.append(size)
        found += [body, bytes(padding)]
        size += len(body) + padding
    return found, places, size


def encode_derived(
    tag: bytes, header: Mapping[str, object], files: Iterable[str], bodies: list[Body], size: int
) -> list[Body]:
    """Everything that is written, in order; `tag` names the format, `files` whose content it was derived from."""
    text = json.dumps({**header, FILES_FIELD: sorted(files), "size": size}).encode()
    start = tag + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(8, "little")
    return [start, text, bytes(-(len(start) + len(text)) % ALIGN), *bodies]


def decode_derived(tag: bytes, data: memoryview) -> tuple[dict[str, Any], memoryview]:
    """The header and what is behind it; DamagedError when they are not what was written."""
    begin = len(tag) + 16
    if bytes(data[: len(tag)]) != tag:
        raise DamagedError("it is of another format")
    length, checksum = (int.from_bytes(data[at : at + 8], "little") for at in (len(tag), len(tag) + 8))
    text = bytes(data[begin : begin + length])
    if len(text) != length or zlib.crc32(text) != checksum:
        raise DamagedError("its header has another checksum")
    header = json.loads(text)
    start = begin + length
    start += -start % ALIGN
    if len(data) != start + header["size"]:
        raise DamagedError("it has another size")
    return header, data[start:]


def read_part(body: memoryview, start: int, length: int, checksum: int, name: str) -> memoryview:
    """One of the parts; DamagedError when it is not what was written."""
    found = body[start : start + length]
    if start < 0 or len(found) != length or zlib.crc32(found) != checksum:
        raise DamagedError(f"{name} has another checksum")
    return found


def read_files(read_start: Callable[[int], bytes]) -> frozenset[str] | None:
    """Read the names of the data files that something was derived from, whatever its format; None when it has none.

    `read_start` gives the first bytes of the object, at most so many.
    """
    data = read_start(_FIRST_BYTES)
    tag_end = data.find(b"\n") + 1
    begin = tag_end + 16
    if not tag_end or len(data) < begin:
        return None
    length, checksum = (int.from_bytes(data[at : at + 8], "little") for at in (tag_end, tag_end + 8))
    text = (data if begin + length <= len(data) else read_start(begin + length))[begin : begin + length]
    if zlib.crc32(text) != checksum:
        return None
    try:
        return frozenset(json.loads(text)[FILES_FIELD])
    except (KeyError, TypeError, ValueError):
        return None
