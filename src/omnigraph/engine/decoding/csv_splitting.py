"""Splitting of CSV files at record boundaries, and reading of one part with the header before it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraph.engine.decoding.csv_quoting import QuoteChecker
from omnigraph.engine.decoding.file_ranges import FilePart, read_byte_chunks
from omnigraph.engine.decoding.input_files import read_file_chunks
from omnigraph.engine.decoding.json_lines import BYTE_ORDER_MARK
from omnigraph.storage.s3_input_files import InputFile

_LINE_FEED, _QUOTE, _RETURN = b'\n"\r'


def read_csv_chunks(path: InputFile, part: FilePart | None) -> Iterator[bytes]:
    """Yield the bytes of a part after the header in chunks; without a part, of the whole file."""
    if part is None:
        yield from read_file_chunks(path)
        return
    if part.start:
        yield read_header(path)
    yield from read_byte_chunks(path, part)


def find_csv_cuts(path: InputFile, target: int) -> list[int]:
    """Find offsets of records about `target` bytes apart; none after the last record.

    The file is read once: a line feed ends a record only outside quotes, which depends on all quotes before it.

    Raises:
        FileDamagedError: Quotes are misplaced.
    """
    header = read_header(path)
    if not header.endswith(b"\n") or b"\r" in header.removesuffix(b"\n").removesuffix(b"\r"):
        # Lines may end with a carriage return alone; then only one reader can tell where the header ends.
        return []
    check = QuoteChecker(str(path))
    cuts: list[int] = []
    next_cut = max(target, len(header) + 1)
    offset = 0
    for number, chunk in enumerate(read_file_chunks(path)):
        is_open = check.is_open
        # A byte order mark is not part of the first cell.
        check.feed(chunk.removeprefix(BYTE_ORDER_MARK) if number == 0 else chunk)
        end = offset + len(chunk)
        if next_cut <= end:
            starts = offset + _find_record_starts(chunk, is_open=is_open)
            while next_cut <= end:
                at = int(np.searchsorted(starts, next_cut))
                if at == len(starts):
                    break
                cuts.append(int(starts[at]))
                next_cut = cuts[-1] + target
        offset = end
    check.finish()
    return [cut for cut in cuts if cut < offset]


def read_header(path: InputFile) -> bytes:
    """Return the bytes up to the end of the first record that is not blank, or the first chunk if it is longer."""
    text = next(read_file_chunks(path), b"")
    begin = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
    for end in _find_record_starts(text, is_open=False).tolist():
        if text[begin:end].strip(b"\r\n"):
            return text[:end]
        begin = end
    return text


def _find_record_starts(chunk: bytes, *, is_open: bool) -> npt.NDArray[np.int64]:
    """Find the offsets after line feeds at which records start; with `is_open` the text starts inside quotes."""
    values = np.frombuffer(chunk, np.uint8)
    feeds = np.flatnonzero(values == _LINE_FEED)
    quotes = np.flatnonzero(values == _QUOTE)
    if len(quotes) or is_open:
        feeds = feeds[(np.searchsorted(quotes, feeds) + is_open) % 2 == 0]
    return feeds + 1


class RecordLines:
    """The lines on which the records of a CSV start, counted from 1 as editors do. Blank lines are no records.

    `feed` takes the bytes in order, `locate` gives the lines of records in order, the header being number 0. With
    `skipped`, so many lines before the second record don't count: those of a header that is put before a part.
    """

    def __init__(self, skipped: int = 0) -> None:
        self.breaks = -skipped
        # The bytes of a record that is not complete yet.
        self._rest = b""
        self._lines = np.empty(0, np.int64)
        self._first = 0

    def feed(self, chunk: bytes) -> None:
        """Find the records that end in the next bytes."""
        data = self._rest + chunk
        values = np.frombuffer(data, np.uint8)
        # A carriage return alone ends a line too; of the last byte it is not known yet.
        is_break = values == _LINE_FEED
        is_break[:-1] |= (values[:-1] == _RETURN) & (values[1:] != _LINE_FEED)
        breaks = np.flatnonzero(is_break)
        quotes = np.flatnonzero(values == _QUOTE)
        # A break after an odd number of quotes is inside of a cell; a doubled quote counts twice.
        ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0] + 1 if len(quotes) else breaks + 1
        if not len(ends):
            self._rest = data
            return
        starts = np.concatenate([[0], ends[:-1]])
        sizes = ends - starts
        is_blank = (sizes == 1) | ((sizes == 2) & (values[starts] == _RETURN))
        lines = self.breaks + np.searchsorted(breaks, starts) + 1
        self._lines = np.concatenate([self._lines, lines[~is_blank]])
        self.breaks += int(np.searchsorted(breaks, ends[-1]))
        self._rest = data[ends[-1] :]

    def locate(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the lines of records; those before the first of them are forgotten."""
        if len(numbers) and numbers[0] > self._first:
            self._lines = self._lines[numbers[0] - self._first :]
            self._first = int(numbers[0])
        return self._lines[numbers - self._first]
