"""Read ranges of a derived object: its parts are checked page by page, so that a reader needs no more than it asks for.

The object is encoded as `derived_format` says. After its parts follow the checksums of their pages, which have their
own checksum in the header.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.tables.derived_format import (
    ALIGN,
    Body,
    DerivedDataError,
    align_bodies,
    encode_derived,
    read_header,
)

# A word's postings in a million texts take a page or two; the checksums of 500 MB of pages take 128 KB.
PAGE_BYTES = 16_384
# Pages are read together with unneeded ones between them if these are at most so many.
_MAX_GAP_PAGES = 4

RangeReader = Callable[[int, int], bytes | None]
"""Returns at most some bytes of an object from an offset on; None if it is missing."""


def encode_paged(
    tag: bytes, header: Mapping[str, object], files: Iterable[str], parts: Mapping[str, Body]
) -> list[Body]:
    """Return the chunks to write: `header`, and the parts with checksums of their pages."""
    bodies, starts, size = align_bodies(parts.values())
    # Checksums of whole parts would make the first search read everything. Those of pages follow the parts, not the
    # header: that one is JSON, and is read by everybody who looks up the files of an object.
    body = memoryview(b"".join(bodies))
    checksums = np.array([zlib.crc32(body[at : at + PAGE_BYTES]) for at in range(0, size, PAGE_BYTES)], "<u4").tobytes()
    described = {
        **header,
        "parts": {name: [start, len(part)] for (name, part), start in zip(parts.items(), starts, strict=True)},
        "pages": [size, len(checksums), zlib.crc32(checksums)],
    }
    padding = bytes(-len(checksums) % ALIGN)
    return encode_derived(tag, described, files, [body, checksums, padding], size + len(checksums) + len(padding))


class PagedObject:
    """An open derived object. Its header was checked; every range is checked when it is read."""

    def __init__(self, header: dict[str, Any], start: int, checksums: NDArray[np.uint32], read: RangeReader) -> None:
        self.header = header
        self._start = start
        self._checksums = checksums
        self._read = read
        self._size = int(header["pages"][0])

    @property
    def nbytes(self) -> int:
        """Approximate memory of the header and the checksums."""
        return 8_192 + 64 * len(self.header["files"]) + int(self._checksums.nbytes)

    @property
    def stored_bytes(self) -> int:
        """The size of the object."""
        return self._start + self._size + 4 * len(self._checksums)

    def locate(self, part: str) -> tuple[int, int]:
        """Return where a part begins, and its length.

        Raises:
            DerivedDataError: There is no such part.
        """
        try:
            start, length = self.header["parts"][part]
        except (KeyError, TypeError, ValueError) as error:
            message = f"it has no `{part}`"
            raise DerivedDataError(message) from error
        if not 0 <= start <= start + length <= self._size:
            message = f"`{part}` is outside of it"
            raise DerivedDataError(message)
        return start, length

    def read_part(self, part: str) -> memoryview:
        """Return a whole part.

        Raises:
            DerivedDataError: It is missing or damaged.
        """
        return self.read_range(part, 0, self.locate(part)[1])

    def read_range(self, part: str, at: int, length: int) -> memoryview:
        """Return some bytes of a part, counted from its begin.

        Raises:
            DerivedDataError: They are missing or damaged.
        """
        start, size = self.locate(part)
        if not 0 <= at <= at + length <= size:
            message = f"`{part}` has no such range"
            raise DerivedDataError(message)
        if not length:
            return memoryview(b"")
        first, last = (start + at) // PAGE_BYTES, (start + at + length - 1) // PAGE_BYTES
        # Pages are counted over all parts, so the first one may begin with the end of another part.
        skipped = start + at - first * PAGE_BYTES
        return memoryview(self._read_pages(first, last))[skipped : skipped + length]

    def take(self, part: str, dtype: np.dtype[Any], at: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of an array at these ascending indices, reading only the pages that have them.

        Raises:
            DerivedDataError: They are missing or damaged.
        """
        start, size = self.locate(part)
        if not len(at):
            return np.empty(0, dtype)
        if at[0] < 0 or (at[-1] + 1) * dtype.itemsize > size:
            message = f"`{part}` has no such range"
            raise DerivedDataError(message)
        # Values are aligned, so none crosses from one page into the next.
        places = start + at * dtype.itemsize
        pages = places // PAGE_BYTES
        needed = pages[np.flatnonzero(np.diff(pages, prepend=-1))]
        # The value before the first makes that one begin a run, whichever page it is.
        run_starts = np.flatnonzero(np.diff(needed, prepend=-1 - _MAX_GAP_PAGES) > _MAX_GAP_PAGES)
        run_ends = np.append(run_starts[1:], len(needed)) - 1
        firsts, lasts = needed[run_starts], needed[run_ends]
        chunks = [self._read_pages(*run) for run in zip(firsts.tolist(), lasts.tolist(), strict=True)]
        data = np.frombuffer(b"".join(chunks), dtype)
        # The bytes before each run of pages that were not read.
        sizes = (lasts - firsts + 1) * PAGE_BYTES
        skipped = firsts * PAGE_BYTES - (np.cumsum(sizes) - sizes)
        run = np.searchsorted(firsts, pages, side="right") - 1
        values: NDArray[Any] = data[(places - skipped[run]) // dtype.itemsize]
        return values

    def _read_pages(self, first: int, last: int) -> bytes:
        start = first * PAGE_BYTES
        # The last page ends with the parts; the checksums follow it.
        length = min((last + 1) * PAGE_BYTES, self._size) - start
        data = self._read(self._start + start, length)
        if data is None or len(data) != length:
            message = "it is missing or too short"
            raise DerivedDataError(message)
        view = memoryview(data)
        for page in range(first, last + 1):
            at = (page - first) * PAGE_BYTES
            if zlib.crc32(view[at : at + PAGE_BYTES]) != self._checksums[page]:
                message = f"page {page} does not match its checksum"
                raise DerivedDataError(message)
        return data


def open_paged(tag: bytes, read: RangeReader) -> PagedObject:
    """Open an object by its header and the checksums of its pages, by two reads.

    Raises:
        DerivedDataError: It is missing, damaged or of another format.
    """
    header, start = read_header(tag, lambda size: read(0, size) or b"")
    try:
        size, length, checksum = map(int, header["pages"])
        is_consistent = length == 4 * -(-size // PAGE_BYTES)
    except (KeyError, TypeError, ValueError) as error:
        message = "its header has another form"
        raise DerivedDataError(message) from error
    data = (read(start + size, length) or b"") if length else b""
    if not is_consistent or len(data) != length or zlib.crc32(data) != checksum:
        message = "the checksums of its pages are damaged"
        raise DerivedDataError(message)
    return PagedObject(header, start, np.frombuffer(data, "<u4"), read)
