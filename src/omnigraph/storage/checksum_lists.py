"""Lists of checksums, for files whose names carry none: those of earlier releases, and all on an object store.

A list is an object `{table}/_checksums/{digest}` of lines `["data/….lance", size, "xxh3"]`, sorted by name. Its own
name is the digest of its content, so that whoever reads it can check it, and it never changes. Pins say which lists
there are of a table.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import xxhash

from omnigraph.storage.layout import CHECKSUM_LISTS

_Line = tuple[str, int, str]


class FileSum(NamedTuple):
    """The size of a file, and its checksum."""

    size: int
    checksum: int


class ListDamagedError(ValueError):
    """A list is not what its name says, or not there."""


def list_key(path: str, name: str) -> str:
    """Return the key of a list of a table."""
    return f"{path}/{CHECKSUM_LISTS}/{name}"


def encode_list(files: Mapping[str, FileSum]) -> tuple[str, bytes]:
    """Return the name and the content of a list of files, which are named relative to their table."""
    lines = [(name, one.size, f"{one.checksum:016x}") for name, one in sorted(files.items())]
    data = msgspec.json.Encoder().encode_lines(lines)
    return xxhash.xxh3_128_hexdigest(data), data


def decode_list(name: str, data: bytes) -> dict[str, FileSum]:
    """Return the files of a list.

    Raises:
        ListDamagedError: The content is not the one that the name is the digest of.
    """
    if xxhash.xxh3_128_hexdigest(data) != name:
        raise ListDamagedError("it does not match its checksum")
    try:
        lines = msgspec.json.Decoder(_Line).decode_lines(data)
        return {file: FileSum(size, int(found, 16)) for file, size, found in lines}
    except (msgspec.DecodeError, ValueError) as error:  # another release may have written it otherwise
        raise ListDamagedError(f"it can't be decoded: {error}") from error
