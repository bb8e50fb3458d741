"""Encode derived data as bytes: a tag, a JSON header with its checksum, and aligned parts."""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# Parts start at multiples of this number of bytes.
ALIGN = 64
# The header field that lists the data files which the content was derived from. Cleanup reads it.
FILES_FIELD = "files"
# One small read covers the header of anything derived from up to about a thousand files.
_FIRST_BYTES = 64 * 1024
# A header lists files and fragments: of a million fragments it has some hundred megabytes. A damaged length must not
# reserve more.
_MAX_HEADER_BYTES = 2**29

Body = memoryview | bytes


class DerivedDataError(Exception):
    """The bytes differ from what was written."""


def align_bodies(bodies: Iterable[Body]) -> tuple[list[Body], list[int], int]:
    """Return the parts with padding between them, the offset of each, and the total size."""
    padded: list[Body] = []
    starts: list[int] = []
    size = 0
    for body in bodies:
        padding = -len(body) % ALIGN
        starts.append(size)
        padded += [body, bytes(padding)]
        size += len(body) + padding
    return padded, starts, size


def encode_derived(
    tag: bytes, header: Mapping[str, object], files: Iterable[str], bodies: list[Body], size: int
) -> list[Body]:
    """Return the chunks to write, in order; `tag` names the format, `files` are those the content was derived from."""
    text = json.dumps({**header, FILES_FIELD: sorted(files), "size": size}).encode()
    start = tag + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(8, "little")
    return [start, text, bytes(-(len(start) + len(text)) % ALIGN), *bodies]


def decode_derived(tag: bytes, data: memoryview) -> tuple[dict[str, Any], memoryview]:
    """Return the header, and the bytes of the parts after it.

    Raises:
        DerivedDataError: They are not what was written.
    """
    begin = len(tag) + 16
    if bytes(data[: len(tag)]) != tag:
        raise DerivedDataError("it has another format")
    length, checksum = (int.from_bytes(data[at : at + 8], "little") for at in (len(tag), len(tag) + 8))
    text = bytes(data[begin : begin + length])
    if len(text) != length or zlib.crc32(text) != checksum:
        raise DerivedDataError("its header does not match its checksum")
    header = json.loads(text)
    start = begin + length
    start += -start % ALIGN
    # A truncated object has an intact header.
    if len(data) != start + header["size"]:
        raise DerivedDataError("its size differs from the one in its header")
    return header, data[start:]


def read_part(body: memoryview, start: int, length: int, checksum: int, name: str) -> memoryview:
    """Return one part of the body.

    Raises:
        DerivedDataError: It is not what was written.
    """
    part = body[start : start + length]
    if start < 0 or len(part) != length or zlib.crc32(part) != checksum:
        raise DerivedDataError(f"{name} does not match its checksum")
    return part


def read_files(read_start: Callable[[int], bytes]) -> frozenset[str] | None:
    """Read which data files an object was derived from, whatever its format; None if it does not say.

    `read_start` returns at most this number of bytes from the start of the object.
    """
    try:
        return frozenset(read_header(None, read_start)[0][FILES_FIELD])
    except (DerivedDataError, KeyError, TypeError):
        return None


def read_header(tag: bytes | None, read_start: Callable[[int], bytes]) -> tuple[dict[str, Any], int]:
    """Read the header of an object, of any format if `tag` is None, and where its parts begin.

    `read_start` returns at most this number of bytes from the start of the object.

    Raises:
        DerivedDataError: It is not what was written.
    """
    data = read_start(_FIRST_BYTES)
    # Tags of all formats end with a line break, so that the header is found without knowing the format.
    tag_end = data.find(b"\n") + 1
    begin = tag_end + 16
    if not tag_end or len(data) < begin or (tag is not None and data[:tag_end] != tag):
        raise DerivedDataError("it has another format")
    length, checksum = (int.from_bytes(data[at : at + 8], "little") for at in (tag_end, tag_end + 8))
    if length > _MAX_HEADER_BYTES:
        raise DerivedDataError("its header is too long")
    text = (data if begin + length <= len(data) else read_start(begin + length))[begin : begin + length]
    if len(text) != length or zlib.crc32(text) != checksum:
        raise DerivedDataError("its header does not match its checksum")
    try:
        header = json.loads(text)
    except ValueError as error:
        raise DerivedDataError("its header can't be read") from error
    if not isinstance(header, dict):
        raise DerivedDataError("its header has another form")
    start = begin + length
    return header, start + -start % ALIGN
