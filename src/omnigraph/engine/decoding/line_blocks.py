"""Blocks of lines: found by numpy, stored as one buffer with offsets, never as a list of lines."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.decoding.json_lines import BYTE_ORDER_MARK, is_skipped

LinePositions = npt.NDArray[np.int64]
"""Positions of bytes or lines, or numbers of lines."""

PADDING = 512
"""The number of bytes after the last line that may be read, so that 8-byte words are compared without bounds checks."""

_LINE_FEED, _RETURN, _OPENS, _CLOSES = b"\n\r{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Successive lines of a text; line `i` is `data[offsets[i]:offsets[i + 1]]` with its line feed.

    `first` is the number of line 0, counted from 1. `too_long` are the numbers of lines that were dropped, and `chosen`
    the positions of lines with records: neither too long, nor blank, nor comments.
    """

    data: bytes
    offsets: LinePositions
    first: int
    chosen: LinePositions
    too_long: tuple[int, ...] = ()

    def get_line(self, position: int) -> bytes:
        """Return one line without its line feed."""
        return self.data[self.offsets[position] : self.offsets[position + 1] - 1]

    def get_line_by_number(self, number: int) -> bytes:
        """Return the line with this number."""
        return self.get_line(number - self.first)

    def to_numbers(self, positions: LinePositions) -> LinePositions:
        """Return the numbers of the lines at these positions."""
        return positions + self.first

    def find_whole(self, positions: LinePositions) -> LinePositions:
        """Find the lines that start with `{` and end with `}`, ignoring a carriage return."""
        values = np.frombuffer(self.data, np.uint8)
        ends = self.offsets[positions + 1] - 2  # before the line feed; of an empty line, the byte before it
        last = values[ends]
        last = np.where(last == _RETURN, values[np.maximum(ends - 1, 0)], last)
        whole: LinePositions = positions[(last == _CLOSES) & (values[self.offsets[positions]] == _OPENS)]
        return whole

    def select(self, positions: LinePositions) -> "LineBlock":
        """Return a block of these lines only, consecutive; their numbers are lost."""
        first, last = int(positions[0]), int(positions[-1]) + 1
        if last - first == len(positions):
            return replace(self, offsets=self.offsets[first : last + 1])
        chosen = self.to_array().take(pa.array(positions))
        offsets = np.frombuffer(chosen.buffers()[1], np.int64, len(chosen) + 1)
        return replace(self, data=chosen.buffers()[2].to_pybytes(), offsets=offsets)

    def to_buffer(self) -> pa.Buffer:
        """Return all lines as one buffer."""
        start, end = int(self.offsets[0]), int(self.offsets[-1])
        return pa.py_buffer(self.data).slice(start, end - start)

    def count(self, text: bytes) -> int:
        """Count the occurrences of a text."""
        return self.data.count(text, int(self.offsets[0]), int(self.offsets[-1]))

    def to_array(self) -> pa.Array:
        """Return all lines, each with its line feed, as one array over the same bytes."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self.offsets) - 1, buffers, null_count=0)


def read_line_blocks(chunks: Iterable[bytes], *, limit: int, rows: int, size: int) -> Iterator[LineBlock]:
    """Read all lines, in blocks of at most `rows` lines and about `size` bytes.

    A line of more than `limit` bytes is never in memory as a whole. A byte order mark at the start is not part of the
    first line, and the last line may lack its line feed.
    """
    number = 1
    held: list[bytes] = []  # of the line whose end has not come yet
    held_size = 0
    for slab in _join_chunks(chunks, rows, size):
        cut = slab.rfind(b"\n") + 1
        if not cut:
            held_size += len(slab)
            held = [] if held_size > limit else [*held, slab]
            continue
        start = 0
        too_long: tuple[int, ...] = ()
        if held_size > limit:
            start, too_long = slab.find(b"\n") + 1, (number,)
            number += 1
        body = b"".join((*held, slab[start:cut], bytes(PADDING)))
        yield from (blocks := _split(body, number, limit, rows, too_long))
        number = blocks[-1].first + len(blocks[-1].offsets) - 1
        held, held_size = [slab[cut:]], len(slab) - cut


def _join_chunks(chunks: Iterable[bytes], rows: int, size: int) -> Iterator[bytes]:
    """Join the bytes into larger chunks of at most `rows` lines or `size` bytes.

    The last chunk ends with a line feed, whether or not the text does.
    """
    parts: list[bytes] = []
    held = lines = 0
    for chunk in chunks:
        if held >= size or lines >= rows:  # only now, when it is known that there is more
            yield b"".join(parts)
            parts, held, lines = [], 0, 0
        if chunk:
            parts.append(chunk)
            held += len(chunk)
            lines += chunk.count(b"\n")
    if held:
        yield b"".join(parts if parts[-1].endswith(b"\n") else (*parts, b"\n"))


def _split(body: bytes, number: int, limit: int, rows: int, too_long: tuple[int, ...]) -> list[LineBlock]:
    ends = np.flatnonzero(np.frombuffer(body, np.uint8, len(body) - PADDING) == _LINE_FEED) + 1
    offsets = np.concatenate((np.zeros(1, np.int64), ends))
    if number == 1 and not too_long and body.startswith(BYTE_ORDER_MARK):
        offsets[0] = len(BYTE_ORDER_MARK)
    count = len(ends)
    parts = max(1, -(-count // rows))
    bounds = [count * part // parts for part in range(parts + 1)]
    blocks = [_build_block(body, offsets[first : last + 1], number + first, limit) for first, last in pairwise(bounds)]
    return [replace(blocks[0], too_long=(*too_long, *blocks[0].too_long)), *blocks[1:]]


def _build_block(body: bytes, offsets: LinePositions, first: int, limit: int) -> LineBlock:
    values = np.frombuffer(body, np.uint8)
    is_record = values[offsets[:-1]] == _OPENS
    is_too_long = np.diff(offsets) - 1 > limit
    for position in np.flatnonzero(~is_record & ~is_too_long):
        is_record[position] = not is_skipped(body[offsets[position] : offsets[position + 1] - 1])
    return LineBlock(
        data=body,
        offsets=offsets,
        first=first,
        chosen=np.flatnonzero(is_record & ~is_too_long),
        too_long=tuple((np.flatnonzero(is_too_long) + first).tolist()),
    )
