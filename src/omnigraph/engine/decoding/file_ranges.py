"""Ranges of a file that several processes read in parallel; together they give the rows of the whole file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from omnigraph.engine.decoding.input_files import CHUNK_BYTES, read_file_chunks, translate_file_errors
from omnigraph.engine.decoding.json_lines import BYTE_ORDER_MARK
from omnigraph.storage.s3_input_files import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A half-open range: bytes of a text, row groups of Parquet, stripes of ORC.

    A line belongs to the range in which it starts. For CSV both bounds are starts of records.
    """

    start: int
    end: int


def read_line_chunks(path: InputFile, part: FilePart | None) -> Iterator[bytes]:
    """Yield the whole lines of a part in chunks; without a part, of the file."""
    if part is None:
        yield from read_file_chunks(path)
        return
    name = str(path)
    with translate_file_errors(name):
        file = path.open("rb")
    with file:
        with translate_file_errors(name):
            start, end = _find_line_start(file, part.start), _find_line_start(file, part.end)
            file.seek(start)
            mark = file.read(len(BYTE_ORDER_MARK)) if 0 < start < end else b""
        if mark == BYTE_ORDER_MARK:
            yield mark  # the reader takes one away, which in the middle of the file is part of the line
        yield from _read_between(file, name, start, end)


def read_byte_chunks(path: InputFile, part: FilePart) -> Iterator[bytes]:
    """Yield exactly the bytes of a part, in chunks."""
    with translate_file_errors(str(path)):
        file = path.open("rb")
    with file:
        yield from _read_between(file, str(path), part.start, part.end)


def _read_between(file: BinaryIO, name: str, start: int, end: int) -> Iterator[bytes]:
    with translate_file_errors(name):
        file.seek(start)
    left = end - start
    while left > 0:
        with translate_file_errors(name):
            chunk = file.read(min(CHUNK_BYTES, left))
        if not chunk:
            return
        left -= len(chunk)
        yield chunk


def _find_line_start(file: BinaryIO, place: int) -> int:
    """Find the first line start at or after an offset; the end of the file if there is none."""
    if place == 0:
        return 0
    place -= 1  # if a line ends here, the next one starts at the place itself
    file.seek(place)
    while chunk := file.read(CHUNK_BYTES):
        found = chunk.find(b"\n")
        if found >= 0:
            return place + found + 1
        place += len(chunk)
    return place
