"""Blocks of lines: found by numpy, stored as one buffer with offsets, and copied in small slices to be decoded."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from omnigraph.engine.decoding.json_lines import BYTE_ORDER_MARK, is_skipped

LinePositions = npt.NDArray[np.int64]
"""Positions of bytes or lines, or numbers of lines."""

SLICE_BYTES = 1024 * 1024
"""The bytes of lines whose values are Python objects at the same time, which take several times that memory.

200,000 lines of 67 MB took 1.7 s of a core with slices of 1 MB and 2.1 s with 4 MB, whose values leave the caches. With
100 types in one file, smaller slices have too few rows of each: 1.4 s instead of 1.0 s.
"""

_LINE_FEED, _OPENS, _COLON, _QUOTE, _BACKSLASH, _SPACE = b'\n{:"\\ '


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

    def split(self, size: int = SLICE_BYTES) -> Iterator["LineSlice"]:
        """Yield the chosen lines in slices of about `size` bytes."""
        starts = self.offsets[self.chosen]
        cuts = np.searchsorted(starts, np.arange(self.offsets[0] + size, self.offsets[-1], size))
        for positions in np.split(self.chosen, np.unique(cuts)):
            if len(positions):
                yield self._build_slice(positions)

    def _build_slice(self, positions: LinePositions) -> "LineSlice":
        bounds = zip(self.offsets[positions].tolist(), (self.offsets[positions + 1] - 1).tolist(), strict=True)
        first = int(positions[0])
        keys = count_keys(self.data, self.offsets[first : int(positions[-1]) + 2])
        return LineSlice(
            lines=[self.data[start:end] for start, end in bounds],
            numbers=positions + self.first,
            keys=keys[positions - first],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSlice:
    """Some lines of a block without their line feeds, with their numbers and counts of keys, see `count_keys`."""

    lines: list[bytes]
    numbers: LinePositions
    keys: LinePositions


def count_keys(data: bytes, offsets: LinePositions) -> LinePositions:
    """Count the keys of each line that is a JSON object, those of inner objects too.

    A count is never too small. It is too large if a text has blanks, or a backslash and a quote, before a colon.
    """
    values = np.frombuffer(data, np.uint8)
    start, end = offsets[[0, -1]]
    colons = np.flatnonzero(values[start:end] == _COLON) + start
    last = np.maximum(colons - 1, 0)
    last -= (values[last] <= _SPACE) & (last > 0)
    before, second = (values[np.maximum(last - back, 0)] for back in (1, 2))
    # A quote after a single backslash is inside of a text. An even number of backslashes does not escape it.
    is_end = (values[last] == _QUOTE) & ((before != _BACKSLASH) | (second == _BACKSLASH))
    is_blank = values[last] <= _SPACE
    return np.diff(np.searchsorted(colons[is_end | is_blank], offsets))


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
        body = b"".join((*held, slab[start:cut]))
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
    ends = np.flatnonzero(np.frombuffer(body, np.uint8) == _LINE_FEED) + 1
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
