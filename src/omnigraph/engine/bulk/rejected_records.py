"""Records that a load leaves out: counted, and kept with their reasons so that they can be mended and loaded again.

`rejected.jsonl` is graph JSONL, in the order of the load's files and their lines. `reasons.jsonl` has an object for
each of its lines, in the same order.
"""

import heapq
import mmap
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_errors import InputNames, Problem, Rejections, build_problem
from omnigraph.engine.bulk.row_spool import FILE, LINE, SpooledType, build_left_out_name
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.jsonl_encoding import iter_json_lines
from omnigraph.engine.writing.violations import MAX_REPORTED_PROBLEMS
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType

REJECTED, REASONS = "rejected.jsonl", "reasons.jsonl"
_CHUNK_ROWS = 4_096

_encode = msgspec.json.Encoder().encode


class QuarantineError(OmnigraphError):
    """Rejected records can't be kept where they should be."""

    kind = Kind.INVALID
    code = "quarantine_failed"

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        return f"rejected records can't be kept in `{self.directory}`: {self.reason}"


@dataclass(slots=True)
class _RecordPositions:
    """Of records in the order in which they were written: where they come from, and how long their texts are."""

    files: "array[int]" = field(default_factory=lambda: array("q"))
    lines: "array[int]" = field(default_factory=lambda: array("q"))
    texts: "array[int]" = field(default_factory=lambda: array("q"))
    reasons: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, file: int, line: int, text: int, reason: int) -> None:
        """One more."""
        self.files.append(file)
        self.lines.append(line)
        self.texts.append(text)
        self.reasons.append(reason)

    def copy(self) -> "_RecordPositions":
        """The same, for others to add to."""
        return _RecordPositions(self.files[:], self.lines[:], self.texts[:], self.reasons[:])

    def find_order(self) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
        """Which comes first by file and line, which then, …; None when they are in that order."""
        if not self.files:
            return None
        order = np.lexsort((np.frombuffer(self.lines, np.int64), np.frombuffer(self.files, np.int64)))
        return None if bool((np.diff(order) > 0).all()) else order


@dataclass(slots=True)
class UnreadableRecords:
    """The records that were refused while they were read. With a directory, their texts are kept there for now."""

    directory: Path | None
    numbers: Mapping[str, int]
    """The number of each input by its name."""
    count: int = 0
    types: dict[str, int] = field(default_factory=dict)
    """How many of them were of a known type."""
    _first: list[tuple[int, int, int, Problem]] = field(default_factory=list)
    _files: list[BinaryIO] = field(default_factory=list)
    _positions: _RecordPositions = field(default_factory=_RecordPositions)

    @property
    def positions(self) -> _RecordPositions:
        """Those of the kept ones so far, which whoever asks may add to."""
        return self._positions.copy()

    def add(self, error: RecordError, text: bytes, rule: str = "record") -> None:
        """One more record, and its text as it came."""
        problem = _build_problem(error, rule)
        self.count += 1
        if error.type is not None:
            self.types[error.type] = self.types.get(error.type, 0) + 1
        # The smallest by file and line are told: a heap of the largest first keeps them.
        place = (-self.numbers.get(error.file, 0), -error.line, -self.count, problem)
        if len(self._first) < MAX_REPORTED_PROBLEMS:
            heapq.heappush(self._first, place)
        elif place > self._first[0]:
            heapq.heapreplace(self._first, place)
        if self.directory is not None:
            self._write(text, problem)

    def list_first(self) -> list[tuple[tuple[int, int], Problem]]:
        """The first problems by file and line, each with its place."""
        return [((-file, -line), problem) for file, line, _, problem in sorted(self._first, reverse=True)]

    def close(self) -> None:
        """No more records come."""
        for file in self._files:
            file.close()
        self._files = []

    def list_files(self) -> list[Path]:
        """The two files so far; none when nothing was refused."""
        return (
            [] if self.directory is None or not self.count else [self.directory / name for name in (REJECTED, REASONS)]
        )

    def _write(self, text: bytes, problem: Problem) -> None:
        assert self.directory is not None  # noqa: S101 - asked by the one caller
        try:
            if not self._files:
                self._files = [(self.directory / name).open("ab") for name in (REJECTED, REASONS)]
            rejected, reasons = self._files
            length = rejected.write(text.rstrip(b"\r\n") + b"\n")
            told = reasons.write(_encode(problem.to_json()) + b"\n")
            self._positions.add(self.numbers.get(problem.file or "", 0), problem.line or 0, length, told)
        except OSError as error:
            raise QuarantineError(str(self.directory), error.strerror or str(error)) from error


class Quarantine:
    """Where the rejected records of a load go: prepared before the load is published, and settled behind it."""

    def __init__(self, directory: Path, inputs: Iterable[str]) -> None:
        self.directory = directory
        rejected = directory / REJECTED
        if directory.exists() and not directory.is_dir():
            raise QuarantineError(str(directory), "it is a file; name a directory")
        self._is_read = rejected.exists()
        if self._is_read and rejected.resolve() not in {Path(name).resolve() for name in inputs}:
            reason = f"it holds {REJECTED} of an earlier load; load or move that first, or name another directory"
            raise QuarantineError(str(directory), reason)
        self._is_made = False
        self._unfinished = _list_unfinished(directory)

    def prepare(self, read: UnreadableRecords, refusals: Rejections, inputs: InputNames) -> None:
        """Write down everything that was refused, under names that nobody looks at."""
        try:
            self._is_made |= not self.directory.exists()
            self.directory.mkdir(parents=True, exist_ok=True)
            places = read.positions
            with self._unfinished[REJECTED].open("wb") as rejected, self._unfinished[REASONS].open("wb") as reasons:
                for source, target in zip(read.list_files(), (rejected, reasons), strict=False):
                    _copy(source, target)
                for file, text, problem in _iter_rejected(refusals, inputs):
                    length = rejected.write(text)
                    told = reasons.write(_encode(problem.to_json()) + b"\n")
                    places.add(file, problem.line or 0, length, told)
            order = places.find_order()
            if order is not None:
                _reorder(self._unfinished[REJECTED], places.texts, order)
                _reorder(self._unfinished[REASONS], places.reasons, order)
        except OSError as error:
            raise QuarantineError(str(self.directory), error.strerror or str(error)) from error

    def settle(self, *, is_loaded: bool) -> str | None:
        """Give what was prepared its names; where it is now.

        When nothing was loaded and the load read what was there, that stays: it has the same records and more.
        """
        if self._is_read and not is_loaded:
            self.discard()
            return None
        _settle(self.directory)
        return str(self.directory)

    def discard(self) -> None:
        """The load did not happen: what it left out is still in its input."""
        for path in self._unfinished.values():
            with suppress(FileNotFoundError, NotADirectoryError):  # it was never made, and why was told already
                path.unlink()
        if self._is_made:
            with suppress(OSError):  # not empty: what was settled stays
                self.directory.rmdir()


def settle_published(directory: Path) -> None:
    """Settle what a load has prepared that was published, but whose process died right behind that; if there is any."""
    if all(path.is_file() for path in _list_unfinished(directory).values()):
        _settle(directory)


def _list_unfinished(directory: Path) -> dict[str, Path]:
    return {name: directory / f".{name}.new" for name in (REJECTED, REASONS)}


def _settle(directory: Path) -> None:
    try:
        for name, path in _list_unfinished(directory).items():
            path.replace(directory / name)
    except OSError as error:
        raise QuarantineError(str(directory), error.strerror or str(error)) from error


def encode_rows(type_: AnyType, rows: pa.Table, left_out: Mapping[str, pa.Array | pa.ChunkedArray]) -> list[bytes]:
    """Rows as graph JSONL, without what their records left out; each with its line feed."""
    lines = list(iter_json_lines(type_, rows))
    silent = {name: mask.to_pylist() for name, mask in left_out.items()}
    if not silent:
        return lines
    texts = []
    for number, line in enumerate(lines):
        record = msgspec.json.decode(line)
        record["data"] = {
            name: value for name, value in record["data"].items() if not (name in silent and silent[name][number])
        }
        if ID in silent and silent[ID][number]:
            record.pop(ID, None)  # it was made for this load, and would be made again
        texts.append(_encode(record) + b"\n")
    return texts


def _iter_rejected(refusals: Rejections, inputs: InputNames) -> Iterator[tuple[int, bytes, Problem]]:
    """Every refused row: the number of its file, its text and its problem; some rows at a time."""
    for spooled, found in refusals.group_by_type():
        for refusal in found:
            for start in range(0, len(refusal.rows), _CHUNK_ROWS):
                part = refusal.rows[start : start + _CHUNK_ROWS]
                texts, places = _read_spooled_texts(spooled, part)
                for number, (text, file, line) in enumerate(zip(texts, *places, strict=True)):
                    yield file, text, build_problem(inputs, file, line, spooled, refusal, start + number)


def _read_spooled_texts(
    spooled: SpooledType, rows: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[list[bytes], tuple[list[int], list[int]]]:
    names = build_arrow_schema(spooled.type).names
    silent = {
        name: build_left_out_name(name)
        for name in spooled.left_out
        if build_left_out_name(name) in spooled.schema.names
    }
    found = spooled.take(rows, [*names, FILE, LINE, *silent.values()])
    left_out = {name: found.column(column) for name, column in silent.items()}
    places = found.column(FILE).to_pylist(), found.column(LINE).to_pylist()
    return encode_rows(spooled.type, found.select(names), left_out), places


def _build_problem(error: RecordError, rule: str) -> Problem:
    about = ".".join(part for part in (error.type, error.property) if part)
    return Problem(
        rule=rule,
        file=error.file,
        line=error.line,
        unit=error.unit,
        type=error.type,
        property=error.property,
        value=error.value,
        message=f"`{about}`: {error.reason}" if about and rule == "record" else error.reason,
    )


def _copy(source: Path, target: BinaryIO) -> None:
    with source.open("rb") as file:
        while chunk := file.read(1 << 20):
            target.write(chunk)


def _reorder(path: Path, lengths: "array[int]", order: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    """Write the parts of a file, which are so long, in another order."""
    ends = np.cumsum(np.frombuffer(lengths, np.int64))
    starts = ends - np.frombuffer(lengths, np.int64)
    ordered = path.with_name(f"{path.name}.ordered")
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as parts,
            ordered.open("wb") as target,
        ):
            places = zip(starts[order].tolist(), ends[order].tolist(), strict=True)
            target.writelines(parts[start:end] for start, end in places)
        ordered.replace(path)
    finally:
        ordered.unlink(missing_ok=True)
