"""Checksums of files, and the names that carry them.

On local disk the name of a file that a write makes says what the file holds, so that it can be checked by whoever knows
its name, without a list to keep, to find or to lose. Lance chooses the names; we rename a file once it is complete and
before any version names it:

    data/{Lance's name}-x{xxh3}.lance             with blobs beside it: -x{xxh3}-b{xxh3 of the blobs}
    _deletions/{fragment}-{2^62 + xxh3}-{id}.bin  62 bits of it, where Lance writes the version that was read
    _indices/{uuid}/                              a UUID of version 8, 62 bits of which are of all files below it

Lance itself uses read versions below 2^62 or from 2^63 on (detached ones), and UUIDs of version 4, so a name that
carries a checksum is never mistaken for one that does not. On an object store nothing can be renamed, and nothing is.
"""

import os
import re
import stat
import uuid
from collections.abc import Iterable

import xxhash

_CHUNK_BYTES = 1 << 20
"""Read at a time; larger chunks were no faster (0.07 CPU seconds for a GB in the page cache, with 256 KiB to 8 MiB)."""
_LOW_BITS = (1 << 62) - 1
_MARK = 1 << 62
_DATA_NAME = re.compile(r"-x([0-9a-f]{16})(?:-b([0-9a-f]{16}))?\.lance\Z")
_DELETION_NAME = re.compile(r"_deletions/\d+-(\d+)-\d+\.(?:arrow|bin)\Z")
_UUID_VERSION = 8
_UNIT_DEPTH = 4
"""`nodes/{table}/data/{blobs}/…`, `nodes/{table}/_indices/{uuid}/…`: a file with more parts is one of a directory."""


def compute_checksum(data: bytes | memoryview) -> int:
    """Return the xxh3 of some bytes, 64 bits."""
    return xxhash.xxh3_64_intdigest(data)


def format_checksum(data: bytes) -> str:
    """Return the checksum of some bytes as 16 hexadecimal digits."""
    return f"{compute_checksum(data):016x}"


def checksum_file(path: str, *, follow_links: bool = False) -> tuple[int, int]:
    """Return the size and the checksum of a plain file.

    Raises:
        OSError: It can't be read, or is a link, a pipe or a device.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"`{path}` is no plain file")
        if status.st_size <= _CHUNK_BYTES:
            data = os.read(descriptor, _CHUNK_BYTES + 1)
            return len(data), compute_checksum(data)
        hasher, size = xxhash.xxh3_64(), 0
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            hasher.update(chunk)
            size += len(chunk)
        return size, hasher.intdigest()
    finally:
        os.close(descriptor)


def checksum_directory(path: str, *, follow_links: bool = False) -> tuple[int, int]:
    """Return the total size of a directory's files, and one checksum over their names, sizes and checksums.

    Raises:
        OSError: It, or a file of it, can't be read.
    """
    return combine_checksums(
        (name, *checksum_file(f"{path}/{name}", follow_links=follow_links)) for name in list_names(path)
    )


def list_names(path: str, prefix: str = "") -> list[str]:
    """Return the names of all files below a directory, relative to it, sorted."""
    names: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                names += list_names(entry.path, f"{prefix}{entry.name}/")
            else:
                names.append(f"{prefix}{entry.name}")
    return sorted(names)


def combine_checksums(files: Iterable[tuple[str, int, int]]) -> tuple[int, int]:
    """Return the total size of files, and one checksum over their names, sizes and checksums, in this order."""
    listed = list(files)
    text = "\n".join(f"{name} {size} {found:016x}" for name, size, found in listed)
    return sum(size for _, size, _ in listed), compute_checksum(text.encode())


# --- names -------------------------------------------------------------------------------------------------


def name_data_file(name: str, found: int, blobs: int | None) -> str:
    """Return the name of a data file that carries its checksum, and that of the blobs beside it if there are any."""
    suffix = "" if blobs is None else f"-b{blobs:016x}"
    return f"{name.removesuffix('.lance')}-x{found:016x}{suffix}.lance"


def parse_data_checksum(name: str) -> int | None:
    """Return the checksum that the name of a data file carries; None for a name that carries none."""
    match = _DATA_NAME.search(name)
    return None if match is None else int(match[1], 16)


def parse_blob_checksum(name: str) -> int | None:
    """Return the checksum of the blobs beside a data file, by that file's name; None where it carries none."""
    match = _DATA_NAME.search(name)
    return None if match is None or match[2] is None else int(match[2], 16)


def mark_read_version(found: int) -> int:
    """Return what stands in a deletion file's name, in place of the version that was read, for its checksum."""
    return _MARK | found & _LOW_BITS


def parse_deletion_checksum(key: str) -> int | None:
    """Return the 62 bits of a checksum that the name of a deletion file carries; None where it carries none."""
    match = _DELETION_NAME.search(key)
    number = 0 if match is None else int(match[1])
    return number & _LOW_BITS if number >> 62 == 1 else None


def mark_uuid(text: str, found: int) -> str:
    """Return a UUID of version 8 with 62 bits of a checksum; the rest is that of another UUID."""
    random = uuid.UUID(text).int
    kept = random & ~((0xF << 76) | (1 << 64) - 1)
    return str(uuid.UUID(int=kept | _UUID_VERSION << 76 | 0b10 << 62 | found & _LOW_BITS))


def parse_uuid_checksum(text: str) -> int | None:
    """Return the 62 bits of a checksum that an index segment's UUID carries; None where it carries none."""
    number = uuid.UUID(text)
    return number.int & _LOW_BITS if number.version == _UUID_VERSION else None


def parse_checksum(key: str) -> int | None:
    """Return the checksum that a name carries: of a data file, a deletion file, or a directory of blobs or an index."""
    if "/_deletions/" in key:
        return parse_deletion_checksum(key)
    if "/_indices/" in key:
        return parse_uuid_checksum(key.rpartition("/")[2])
    if "/data/" not in key:
        return None
    return parse_data_checksum(key) if key.endswith(".lance") else parse_blob_checksum(f"{key}.lance")


def find_checksum_unit(key: str) -> str:
    """Return what has the checksum that covers a file: itself, or the directory of blobs or of an index above it."""
    parts = key.split("/")
    return "/".join(parts[:4]) if len(parts) > _UNIT_DEPTH and parts[2] in ("data", "_indices") else key


def is_same(found: int, recorded: int) -> bool:
    """Return whether a checksum is the recorded one, which may be only 62 bits of it."""
    return found == recorded or found & _LOW_BITS == recorded
