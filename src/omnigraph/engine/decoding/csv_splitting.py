"""Where a CSV can be cut, so that each part holds whole records; and a part with the header before it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraph.engine.decoding.csv_quoting import QuoteChecker
from omnigraph.engine.decoding.file_ranges import FilePart, read_byte_chunks
from omnigraph.engine.decoding.input_files import read_file_chunks
from omnigraph.engine.decoding.json_lines import BYTE_ORDER_MARK
from omnigraph.storage.s3_input_files import InputFile

_LINE_FEED, _QUOTE = b'\n"'


def read_csv_chunks(path: InputFile, part: FilePart | None) -> Iterator[bytes]:
    """The bytes of a part with the header before them, some at a time; of the file, if there is no part."""
    if part is None:
        yield from read_file_chunks(path)
        return
    if part.start:
        yield read_header(path)
    yield from read_byte_chunks(path, part)


def find_csv_cuts(path: InputFile, target: int) -> list[int]:
    """Where records start, about `target` bytes from one to the next; none behind the last.

    The file is read once: a line feed ends a record only outside of quotes, and whether that is so is known only to
    whoever has seen all quotes before it.

    Raises:
        FileDamagedError: Quotes are not where they belong.
    """
    header = read_header(path)
    if not header.endswith(b"\n") or b"\r" in header.removesuffix(b"\n").removesuffix(b"\r"):
        return []  # lines end with a carriage return alone, maybe: what is header and what is not is for one reader
    check = QuoteChecker(str(path))
    found: list[int] = []
    wanted = max(target, len(header) + 1)
    place = 0
    for number, chunk in enumerate(read_file_chunks(path)):
        is_open = check.is_open
        # The mark before the first quote is none of its cell.
        check.feed(chunk.removeprefix(BYTE_ORDER_MARK) if number == 0 else chunk)
        end = place + len(chunk)
        if wanted <= end:
            starts = place + _find_record_starts(chunk, is_open=is_open)
            while wanted <= end:
                at = int(np.searchsorted(starts, wanted))
                if at == len(starts):
                    break
                found.append(int(starts[at]))
                wanted = found[-1] + target
        place = end
    check.finish()
    return [cut for cut in found if cut < place]


def read_header(path: InputFile) -> bytes:
    """Everything up to the end of the first record that is not blank; the first chunk, if it does not end there."""
    text = next(read_file_chunks(path), b"")
    begin = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
    for end in _find_record_starts(text, is_open=False).tolist():
        if text[begin:end].strip(b"\r\n"):
            return text[:end]
        begin = end
    return text


def _find_record_starts(chunk: bytes, *, is_open: bool) -> npt.NDArray[np.int64]:
    """Behind which line feeds of a text a record starts; `is_open`: the text starts inside of quotes."""
    values = np.frombuffer(chunk, np.uint8)
    feeds = np.flatnonzero(values == _LINE_FEED)
    quotes = np.flatnonzero(values == _QUOTE)
    if len(quotes) or is_open:
        feeds = feeds[(np.searchsorted(quotes, feeds) + is_open) % 2 == 0]
    return feeds + 1
