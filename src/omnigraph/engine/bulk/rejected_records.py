"""Count the records that a load rejects, and quarantine them with their reasons, to be fixed and loaded again.

`rejected.jsonl` is graph JSONL, in the order of the load's files and their lines. `reasons.jsonl` has an object for
each of its lines, in the same order: its first problem, and the `others`, if there are any.
"""

import mmap
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_errors import InputNames, Problem, Rejections, build_problem
from omnigraph.engine.bulk.problem_groups import ProblemGroups
from omnigraph.engine.bulk.row_spool import FILE, LINE, SpooledType, build_left_out_name
from omnigraph.engine.decoding.record_error import RECORD_RULE, FurtherProblem, RecordError
from omnigraph.engine.jsonl_encoding import iter_json_lines
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Positions

REJECTED, REASONS = "rejected.jsonl", "reasons.jsonl"
_POSITIONS = "rejected.positions"
# Positions are appended to their file when so many numbers are in memory.
_BUFFERED_NUMBERS = 1 << 16
# A position after those of all records.
_END = (1 << 62, 0)
# Rejected rows read back from the spool and encoded at a time.
_CHUNK_ROWS = 4_096

_PositionTable: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int64]]
"""A row for each record: its input file and line, and the byte lengths of its text and its reason."""

_encode = msgspec.json.Encoder().encode


class QuarantineError(OmnigraphError):
    """Rejected records can't be written to the quarantine directory."""

    kind = Kind.INVALID
    code = "quarantine_failed"
    directory: str
    reason: str
    message = "rejected records can't be kept in `{directory}`: {reason}"


class _RecordPositions:
    """For each record in the order of writing: its input file and line, and the byte lengths of text and reason.

    They are written to a file, since a load of any size may consist of bad records.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._buffer = array("q")
        self._last = (-1, -1)
        self._is_ordered = True

    def add(self, file: int, line: int, text: int, reason: int) -> None:
        """Add a record."""
        self._is_ordered &= (file, line) >= self._last
        self._last = file, line
        self._buffer.extend((file, line, text, reason))
        if len(self._buffer) >= _BUFFERED_NUMBERS:
            self._flush()

    def is_ordered(self, file: int, line: int) -> bool:
        """Return whether all records are ordered by file and line, and none comes after this one."""
        return self._is_ordered and self._last <= (file, line)

    def read(self) -> _PositionTable:
        """Return all records as rows of four numbers."""
        self._flush()
        numbers = np.fromfile(self._path, np.int64) if self._path.exists() else np.empty(0, np.int64)
        return numbers.reshape(-1, 4)

    def _flush(self) -> None:
        if self._buffer:
            with self._path.open("ab") as file:
                self._buffer.tofile(file)
            self._buffer = array("q")


@dataclass(slots=True)
class UnreadableRecords:
    """The records that were rejected while they were decoded; with a directory, their texts are spooled there."""

    directory: Path | None
    numbers: Mapping[str, int]
    """The number of each input by its name."""
    count: int = 0
    types: dict[str, int] = field(default_factory=dict)
    """The number of records by type, for those whose type is known."""
    groups: ProblemGroups = field(default_factory=ProblemGroups)
    """All problems of these records."""
    _files: list[BinaryIO] = field(default_factory=list)
    _positions: _RecordPositions | None = None

    def add(self, error: RecordError, text: bytes, rule: str = RECORD_RULE) -> None:
        """Add a record and its original text."""
        self.count_record(error, rule)
        if self.directory is not None:
            self.spool(error, text, rule)

    def count_record(self, error: RecordError, rule: str = RECORD_RULE) -> None:
        """Count a record and its problems."""
        self.count += 1
        if error.type is not None:
            self.types[error.type] = self.types.get(error.type, 0) + 1
        for each in build_problems(error, rule):
            self.groups.add((self.numbers.get(error.file, 0), error.line), each)

    def close(self) -> None:
        """Close the files, once no more records follow."""
        for file in self._files:
            file.close()
        self._files = []

    def list_files(self) -> list[Path]:
        """Return the paths of the two spool files; none if no record was spooled."""
        if self._positions is None or self.directory is None:
            return []
        return [self.directory / name for name in (REJECTED, REASONS)]

    def read_positions(self) -> _PositionTable:
        """Return input file, line, and byte lengths of text and reason of each spooled record."""
        return np.empty((0, 4), np.int64) if self._positions is None else self._positions.read()

    def is_ordered(self, file: int, line: int) -> bool:
        """Return whether the spooled records are ordered by file and line, and none comes after this one."""
        return self._positions is None or self._positions.is_ordered(file, line)

    def spool(self, error: RecordError, text: bytes, rule: str = RECORD_RULE) -> None:
        """Write a record that was counted to the files of the directory."""
        assert self.directory is not None  # noqa: S101 - callers check it
        problem, *others = build_problems(error, rule)
        try:
            if not self._files:
                self._files = [(self.directory / name).open("ab") for name in (REJECTED, REASONS)]
                self._positions = self._positions or _RecordPositions(self.directory / _POSITIONS)
            rejected, reasons = self._files
            text_bytes = rejected.write(text.rstrip(b"\r\n") + b"\n")
            reason: dict[str, object] = problem.to_json()
            if others:
                reason["others"] = [other.to_json() for other in others]
            reason_bytes = reasons.write(_encode(reason) + b"\n")
            assert self._positions is not None  # noqa: S101 - set with the files
            self._positions.add(self.numbers.get(error.file, 0), error.line, text_bytes, reason_bytes)
        except OSError as failure:
            raise QuarantineError(str(self.directory), failure.strerror or str(failure)) from failure


class Quarantine:
    """The directory for rejected records of a load: prepared before the load is published, settled after it."""

    def __init__(self, directory: Path, inputs: Iterable[str]) -> None:
        self.directory = directory
        rejected = directory / REJECTED
        if directory.exists() and not directory.is_dir():
            raise QuarantineError(str(directory), "it is a file; name a directory")
        # A load may read the rejected records of an earlier one; else it must not overwrite them.
        self._is_read = rejected.exists()
        if self._is_read and rejected.resolve() not in {Path(name).resolve() for name in inputs}:
            reason = f"it holds {REJECTED} of an earlier load; load or move that first, or name another directory"
            raise QuarantineError(str(directory), reason)
        self._is_created = False
        self._unfinished = _list_unfinished(directory)

    def prepare(self, unreadable: UnreadableRecords, rejections: Rejections, inputs: InputNames) -> None:
        """Write all rejected records to files with temporary names, which `settle` renames."""
        try:
            self._is_created |= not self.directory.exists()
            self.directory.mkdir(parents=True, exist_ok=True)
            # Positions of this attempt's rows: a conflict repeats checks and `prepare`, but never the decoding.
            added = array("q")
            is_ordered = True
            with self._unfinished[REJECTED].open("wb") as rejected, self._unfinished[REASONS].open("wb") as reasons:
                for source, target in zip(unreadable.list_files(), (rejected, reasons), strict=False):
                    _copy(source, target)
                last = (-1, -1)
                for file, text, problem in iter_rejected(rejections, inputs):
                    text_bytes = rejected.write(text)
                    reason_bytes = reasons.write(_encode(problem.to_json()) + b"\n")
                    position = file, problem.line or 0
                    is_ordered &= position >= last if added else unreadable.is_ordered(*position)
                    last = position
                    added.extend((*position, text_bytes, reason_bytes))
            if not is_ordered or not unreadable.is_ordered(*_END):
                self._reorder(
                    np.concatenate([unreadable.read_positions(), np.frombuffer(added, np.int64).reshape(-1, 4)])
                )
        except OSError as error:
            raise QuarantineError(str(self.directory), error.strerror or str(error)) from error

    def _reorder(self, positions: _PositionTable) -> None:
        """Order the prepared files by file and line of the input."""
        order = np.lexsort((positions[:, 1], positions[:, 0]))
        _reorder(self._unfinished[REJECTED], positions[:, 2], order)
        _reorder(self._unfinished[REASONS], positions[:, 3], order)

    def settle(self, *, is_loaded: bool) -> str | None:
        """Rename the prepared files to their final names, and return the directory.

        If nothing was loaded and the input was the quarantined file itself, that file stays and None is returned: it
        contains the same records and more.
        """
        if self._is_read and not is_loaded:
            self.discard()
            return None
        _settle(self.directory)
        return str(self.directory)

    def discard(self) -> None:
        """Remove the prepared files of a load that did not happen; its input still has the records."""
        for path in self._unfinished.values():
            # The file may not exist: `prepare` failed, and has reported why.
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
        if self._is_created:
            # A directory that is not empty has files that were settled, and stays.
            with suppress(OSError):
                self.directory.rmdir()


def settle_published(directory: Path) -> None:
    """Settle the files, if any, that a published load has prepared but could not settle before its process died."""
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
    """Encode rows as lines of graph JSONL, without the properties that their records left out."""
    lines = list(iter_json_lines(type_, rows))
    is_left_out = {name: mask.to_pylist() for name, mask in left_out.items()}
    if not is_left_out:
        return lines
    texts = []
    for number, line in enumerate(lines):
        record = msgspec.json.decode(line)
        record["data"] = {
            name: value
            for name, value in record["data"].items()
            if not (name in is_left_out and is_left_out[name][number])
        }
        # A generated id is not part of the record: the next load generates another one.
        if ID in is_left_out and is_left_out[ID][number]:
            record.pop(ID, None)
        texts.append(_encode(record) + b"\n")
    return texts


def iter_rejected(rejections: Rejections, inputs: InputNames) -> Iterator[tuple[int, bytes, Problem]]:
    """Yield the number of the input file, the text and the problem of each rejected row, chunk by chunk."""
    for spooled, rejections_of_type in rejections.group_by_type():
        for rejection in rejections_of_type:
            for start in range(0, len(rejection.rows), _CHUNK_ROWS):
                chunk = rejection.rows[start : start + _CHUNK_ROWS]
                texts, origins = _read_spooled_texts(spooled, chunk)
                for number, (text, file, line) in enumerate(zip(texts, *origins, strict=True)):
                    yield file, text, build_problem(inputs, file, line, spooled, rejection, start + number)


def _read_spooled_texts(
    spooled: SpooledType, rows: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[list[bytes], tuple[list[int], list[int]]]:
    names = build_arrow_schema(spooled.type).names
    # Only some spools have the columns of left-out properties, see `Spool`.
    mask_columns = {
        name: build_left_out_name(name)
        for name in spooled.left_out
        if build_left_out_name(name) in spooled.schema.names
    }
    table = spooled.take(rows, [*names, FILE, LINE, *mask_columns.values()])
    left_out = {name: table.column(column) for name, column in mask_columns.items()}
    origins = table.column(FILE).to_pylist(), table.column(LINE).to_pylist()
    return encode_rows(spooled.type, table.select(names), left_out), origins


def build_problems(error: RecordError, rule: str) -> list[Problem]:
    """Return all problems of a record, the first one that it is rejected for."""
    return [_build_problem(error, rule), *(_build_further_problem(error, further) for further in error.list_more())]


def _build_problem(error: RecordError, rule: str) -> Problem:
    subject = ".".join(part for part in (error.type, error.property) if part)
    return Problem(
        rule=rule,
        file=error.file,
        line=error.line,
        unit=error.unit,
        type=error.type,
        property=error.property,
        value=error.value,
        message=f"`{subject}`: {error.reason}" if subject and rule == RECORD_RULE else error.reason,
    )


def _build_further_problem(error: RecordError, further: FurtherProblem) -> Problem:
    rule, property_, value, reason = further
    other = RecordError(error.file, error.line, error.type, property_, value, reason, error.unit)
    return _build_problem(other, rule)


def _copy(source: Path, target: BinaryIO) -> None:
    with source.open("rb") as file:
        while chunk := file.read(1 << 20):
            target.write(chunk)


def _reorder(path: Path, lengths: "np.ndarray[tuple[int], np.dtype[np.int64]]", order: Positions) -> None:
    """Rewrite a file with its records, of the given byte lengths, in another order."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    ordered = path.with_name(f"{path.name}.ordered")
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as records,
            ordered.open("wb") as target,
        ):
            # A part at a time: as Python's numbers, positions take ten times as much memory.
            for first in range(0, len(order), _CHUNK_ROWS):
                at = order[first : first + _CHUNK_ROWS]
                ranges = zip(starts[at].tolist(), ends[at].tolist(), strict=True)
                target.writelines(records[start:end] for start, end in ranges)
        ordered.replace(path)
    finally:
        ordered.unlink(missing_ok=True)
