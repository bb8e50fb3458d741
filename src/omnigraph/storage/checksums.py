"""Compute checksums of files, and read and write names that carry them.

On local disk the name of each file that a write creates carries the checksum of its content, so the file can be
verified by its name alone, without a list that has to be kept, found and protected. Lance chooses the names; we rename
a file once it is complete and before any version names it:

    data/{Lance's name}-x{xxh3}.lance             with blobs beside it: -x{xxh3}-b{xxh3 of the blobs}
    _deletions/{fragment}-{2^62 + xxh3}-{id}.bin  62 bits of it, where Lance writes the version that was read
    _indices/{uuid}/                              a UUID of version 8, 62 bits of which are of all files below it

Lance itself uses read versions below 2^62 or from 2^63 on (detached ones), and UUIDs of version 4, so a name that
carries a checksum is never mistaken for one that does not. On an object store files can't be renamed, and keep the
names that Lance chose.
"""

import os
import re
import stat
import uuid
from collections.abc import Iterable

import xxhash

# Bytes per read. Larger chunks were no faster: 0.07 CPU seconds per GB in the page cache with 256 KiB to 8 MiB.
_CHUNK_BYTES = 1 << 20
_LOW_BITS = (1 << 62) - 1
# Marks a read version as a checksum, see above.
_MARK = 1 << 62
_DATA_NAME = re.compile(r"-x([0-9a-f]{16})(?:-b([0-9a-f]{16}))?\.lance\Z")
_DELETION_NAME = re.compile(r"_deletions/\d+-(\d+)-\d+\.(?:arrow|bin)\Z")
_UUID_VERSION = 8
# `nodes/{table}/data/{blobs}/…`, `nodes/{table}/_indices/{uuid}/…`: a longer key is a file of a directory.
_UNIT_DEPTH = 4


def compute_checksum(data: bytes | memoryview) -> int:
    """Return the 64-bit xxh3 of some bytes."""
    return xxhash.xxh3_64_intdigest(data)


def format_checksum(data: bytes) -> str:
    """Return the checksum of some bytes as 16 hexadecimal digits."""
    return f"{compute_checksum(data):016x}"


def checksum_file(path: str, *, follow_links: bool = False) -> tuple[int, int]:
    """Return the size and the checksum of a regular file.

    Raises:
        OSError: It can't be read, or is a link, a pipe or a device.
    """
    # O_NONBLOCK: opening a pipe must not wait for a writer. It has no effect on regular files.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"`{path}` is not a regular file")
        if status.st_size <= _CHUNK_BYTES:
            data = os.read(descriptor, _CHUNK_BYTES + 1)
            return len(data), compute_checksum(data)
        hasher = xxhash.xxh3_64()
        size = 0
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            hasher.update(chunk)
            size += len(chunk)
        return size, hasher.intdigest()
    finally:
        os.close(descriptor)


def checksum_directory(path: str, *, follow_links: bool = False) -> tuple[int, int]:
    """Return the total size of a directory's files, and one checksum over their names, sizes and checksums.

    Raises:
        OSError: The directory or one of its files can't be read.
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
    entries = list(files)
    text = "\n".join(f"{name} {size} {checksum:016x}" for name, size, checksum in entries)
    return sum(size for _, size, _ in entries), compute_checksum(text.encode())


# --- names -------------------------------------------------------------------------------------------------


def name_data_file(name: str, checksum: int, blob_checksum: int | None) -> str:
    """Return the name of a data file with its checksum, and with that of the blobs beside it if there are any."""
    suffix = "" if blob_checksum is None else f"-b{blob_checksum:016x}"
    return f"{name.removesuffix('.lance')}-x{checksum:016x}{suffix}.lance"


def parse_data_checksum(name: str) -> int | None:
    """Return the checksum in the name of a data file, or None without one."""
    match = _DATA_NAME.search(name)
    return None if match is None else int(match[1], 16)


def parse_blob_checksum(name: str) -> int | None:
    """Return the checksum of the blobs beside a data file from that file's name, or None without one."""
    match = _DATA_NAME.search(name)
    return None if match is None or match[2] is None else int(match[2], 16)


def mark_read_version(checksum: int) -> int:
    """Return the number that carries a checksum in place of the read version in the name of a deletion file."""
    return _MARK | checksum & _LOW_BITS


def parse_deletion_checksum(key: str) -> int | None:
    """Return the 62 bits of a checksum in the name of a deletion file, or None without one."""
    match = _DELETION_NAME.search(key)
    number = 0 if match is None else int(match[1])
    return number & _LOW_BITS if number >> 62 == 1 else None


def mark_uuid(text: str, checksum: int) -> str:
    """Return a version-8 UUID that carries 62 bits of a checksum; its other bits come from `text`, a UUID."""
    random = uuid.UUID(text).int
    # Keep all but the version (4 bits) and the lower half, which has the variant (2 bits) and the checksum.
    upper_bits = random & ~((0xF << 76) | (1 << 64) - 1)
    return str(uuid.UUID(int=upper_bits | _UUID_VERSION << 76 | 0b10 << 62 | checksum & _LOW_BITS))


def parse_uuid_checksum(text: str) -> int | None:
    """Return the 62 bits of a checksum in the UUID of an index segment, or None without one."""
    number = uuid.UUID(text)
    return number.int & _LOW_BITS if number.version == _UUID_VERSION else None


def parse_checksum(key: str) -> int | None:
    """Return the checksum in a key: of a data file, a deletion file, or a directory of blobs or an index."""
    if "/_deletions/" in key:
        return parse_deletion_checksum(key)
    if "/_indices/" in key:
        return parse_uuid_checksum(key.rpartition("/")[2])
    if "/data/" not in key:
        return None
    return parse_data_checksum(key) if key.endswith(".lance") else parse_blob_checksum(f"{key}.lance")


def find_checksum_unit(key: str) -> str:
    """Return the key whose checksum covers a file: the file, or the directory of blobs or of an index above it."""
    parts = key.split("/")
    return "/".join(parts[:4]) if len(parts) > _UNIT_DEPTH and parts[2] in ("data", "_indices") else key


def is_same(checksum: int, recorded: int) -> bool:
    """Return whether a checksum equals the recorded one, which may have only 62 bits."""
    return checksum == recorded or checksum & _LOW_BITS == recorded
