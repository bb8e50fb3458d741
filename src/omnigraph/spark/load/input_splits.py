"""Split the input of a load, so that each split is read by one task: bytes of text, row groups, stripes, batches.

Together the splits of an input give exactly its records and errors, in the same words. Lines and rows count from the
start of a split; the number of lines before it is known when all splits have been read.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pa_parquet
from pyspark import TaskContext

from omnigraph.engine.decoding.csv_splitting import find_csv_cuts
from omnigraph.engine.decoding.file_ranges import FilePart, read_line_chunks
from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.input_files import (
    COMPRESSED,
    LINE_ENDINGS,
    FileDamagedError,
    find_ending,
    translate_file_errors,
)
from omnigraph.engine.decoding.json_lines import iter_chunks
from omnigraph.engine.decoding.record_error import RecordError, Reject
from omnigraph.engine.decoding.typed_files import TypedFile, TypedTable, open_arrow_file, open_stream, read_typed
from omnigraph.engine.decoding.typed_jsonl import read_typed_lines
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.errors import FileDeniedError, FileMissingError, FileUnreadableError, MissingError
from omnigraph.ids import Ids
from omnigraph.locations import parse_scheme
from omnigraph.ops.load_inputs import GraphLines, InputSource
from omnigraph.spark.load.stored_chunks import StoredChunks
from omnigraph.spark.session.master import is_own_machine
from omnigraph.spark.spark_errors import SparkUsageError
from omnigraph.storage.s3_input_files import InputFile, RemoteFile

TARGET_BYTES = 64 * 1024 * 1024
# On many cores, small inputs are packed to no less than this share of the target: the start of a task and its fragment
# cost about as much as reading a few megabytes.
_MIN_PACK_SHARE = 8
# The metadata of smaller columnar files is not read to plan their splits: even if rows take this many times as many
# bytes as their files, such a file is one split.
_MAX_EXPANSION = 8
# The end of a split that is all of its input.
WHOLE = -1
Range: TypeAlias = tuple[int, int, int]
"""The start and the end of a split, and its approximate number of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of an input: bytes of text, row groups of Parquet, stripes of ORC, batches of Arrow; or `WHOLE`.

    `number` counts all splits of a load, in the order of the inputs and of their records. `size` is its approximate
    number of bytes.
    """

    number: int
    input: int
    start: int
    end: int
    size: int = 0

    @property
    def part(self) -> FilePart | None:
        """The range of the file, or None for all of it."""
        return None if self.end == WHOLE else FilePart(start=self.start, end=self.end)


# --- on the driver -----------------------------------------------------------------------------------


def spool_inputs(inputs: Sequence[InputSource], directory: Path) -> list[InputSource]:
    """Return the same inputs, with streams and tables written to files of a directory that all tasks can read.

    A stream is read here, once and to its end. The names of inputs in messages do not change.
    """
    return [_spool_input(source, directory / f"{number:05}") for number, source in enumerate(inputs)]


def make_path_absolute(source: InputSource) -> InputSource:
    """Return the same input for processes with another working directory. Its name in messages does not change."""
    match source.source:
        case GraphLines(data=Path() as path) as lines:
            return replace(source, source=replace(lines, data=path.absolute()))
        case TypedFile(path=Path() as path) as file:
            return replace(source, source=replace(file, path=path.absolute(), label=source.name))
        case _:
            return source


def check_reachable(inputs: Sequence[InputSource], master: str) -> None:
    """Check that tasks on that master can read what is spooled for them.

    Raises:
        SparkUsageError: An input has to be spooled on this machine, and Spark runs on others.
    """
    if is_own_machine(master):
        return
    for source in inputs:
        if isinstance(source.source, TypedTable) or (
            isinstance(source.source, GraphLines) and not isinstance(source.source.data, InputFile)
        ):
            raise SparkUsageError.stream_elsewhere(source.name, master)


def plan_splits(
    inputs: Sequence[InputSource],
    *,
    target_bytes: int = TARGET_BYTES,
    planned: Mapping[int, Sequence[Range]] | None = None,
) -> list[Split]:
    """Plan splits of about `target_bytes`. Every input has at least one, so that its columns are checked.

    Compressed text can't be cut, nor can a CSV whose lines end in carriage returns alone; such an input is one split.
    The ranges of some inputs, by number, may have been `planned` in tasks.

    Raises:
        FileMissingError, FileDeniedError, FileUnreadableError: A file can't be read.
        FileDamagedError: A file does not have the format of its name: quotes of a CSV, metadata of Parquet.
    """
    splits: list[Split] = []
    for number, source in enumerate(inputs):
        ranges = (planned or {}).get(number)
        for start, end, size in plan_ranges(source, target_bytes) if ranges is None else ranges:
            splits.append(Split(number=len(splits), input=number, start=start, end=end, size=size))
    return splits


def pack_splits(splits: Sequence[Split], *, target_bytes: int, cores: int) -> list[range]:
    """Return consecutive splits in packs of up to `target_bytes`: a task reads a pack, and stages its rows together.

    Packs are smaller if there would be fewer than cores. A split that is larger than the target is a pack of its own.
    """
    smallest = max(target_bytes // _MIN_PACK_SHARE, 1)
    target = min(max(sum(split.size for split in splits) // max(cores, 1), smallest), max(target_bytes, 1))
    if not splits:
        return []
    return [range(start, end) for start, end, _ in _group_neighbours([split.size for split in splits], target)]


def count_lines_before(splits: Sequence[Split], lines: Mapping[int, int]) -> dict[int, int]:
    """Return, by the number of each split, the lines of its input before it; `lines` has the lines of each split."""
    before: dict[int, int] = {}
    total: dict[int, int] = {}
    for split in splits:
        before[split.number] = total.get(split.input, 0)
        total[split.input] = before[split.number] + lines[split.number]
    return before


def has_to_be_read(source: InputSource, target_bytes: int) -> bool:
    """Return whether planning reads the file: all of a large CSV, or the metadata of Parquet and ORC."""
    file, size = source.source, source.size or 0
    if not isinstance(file, TypedFile) or find_ending(file.path) in LINE_ENDINGS:
        return False
    if find_ending(file.path) == ".csv":
        return size > target_bytes and not _is_compressed(file.path)
    return size * _MAX_EXPANSION > target_bytes


def plan_ranges(source: InputSource, target_bytes: int) -> Iterator[Range]:
    """Yield the ranges of an input, of about `target_bytes`. Raises what `plan_splits` raises."""
    target = max(target_bytes, 1)
    match source.source:
        case GraphLines(data=(Path() | RemoteFile()) as path):
            yield from _split_bytes(path, source.size or 0, target)
        case TypedFile(path=path) if find_ending(path) in LINE_ENDINGS:
            yield from _split_bytes(path, source.size or 0, target)
        case TypedFile(path=path) if find_ending(path) == ".csv":
            size = source.size or 0
            # A line break may be inside of quotes, so finding the cuts takes a pass over the file.
            cuts = find_csv_cuts(path, target) if has_to_be_read(source, target) else []
            yield from _iter_ranges([0, *cuts, size]) if cuts else [(0, WHOLE, size)]
        case TypedFile() if not has_to_be_read(source, target):
            yield 0, WHOLE, source.size or 0
        case TypedFile(path=path) if find_ending(path) == ".parquet":
            yield from _group_neighbours(_read_group_sizes(path), target)
        case TypedFile(path=path):
            yield from _group_neighbours(_read_stripe_sizes(path, source.size or 0), target)
        case TypedTable(data=SpooledTable() as table):
            yield from _group_neighbours(table.read_sizes(), target)
        case _:
            raise _build_not_spooled_error(source)


def _split_bytes(path: InputFile, size: int, target: int) -> Iterable[tuple[int, int, int]]:
    count = -(-size // target)
    if count <= 1 or _is_compressed(path):
        return [(0, WHOLE, size)]
    # Cuts may be inside of a line: `read_line_chunks` gives each line to exactly one split.
    return _iter_ranges([size * number // count for number in range(count + 1)])


def _iter_ranges(offsets: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    for start, end in pairwise(offsets):
        yield start, end, end - start


def _group_neighbours(sizes: Sequence[int], target: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of consecutive items with at most `target` bytes together; a single item may be larger."""
    if not sizes:
        yield 0, WHOLE, 0
    start = total = 0
    for number, size in enumerate(sizes):
        if number > start and total + size > target:
            yield start, number, total
            start, total = number, 0
        total += size
    if sizes:
        yield start, len(sizes), total


def _is_compressed(path: InputFile) -> bool:
    return path.name.lower().endswith(COMPRESSED)


def _read_group_sizes(path: InputFile) -> list[int]:
    with translate_file_errors(str(path)):
        metadata = pa_parquet.read_metadata(open_arrow_file(path))
        return [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]


def _read_stripe_sizes(path: InputFile, size: int) -> list[int]:
    with translate_file_errors(str(path)), path.open("rb", buffering=0) as file:
        stripes = pa_orc.ORCFile(file).nstripes
    # ORCFile has the number of stripes only, not their sizes.
    return [size // stripes] * stripes if stripes else []


# --- spooled tables ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledTable:
    """A range of batches in an Arrow file; can be read repeatedly, and pickled."""

    path: Path
    start: int = 0
    end: int = WHOLE

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a stream of the batches."""
        file = pa.ipc.open_file(pa.memory_map(str(self.path)))
        numbers = range(self.start, file.num_record_batches if self.end == WHOLE else self.end)
        reader = pa.RecordBatchReader.from_batches(file.schema, (file.get_batch(number) for number in numbers))
        return reader.__arrow_c_stream__(requested_schema)

    def read_sizes(self) -> list[int]:
        """Return the number of bytes of each batch in the file."""
        with pa.ipc.open_file(pa.memory_map(str(self.path))) as file:
            return [file.get_batch(number).nbytes for number in range(file.num_record_batches)]


def _spool_input(source: InputSource, path: Path) -> InputSource:
    match source.source:
        case GraphLines(data=data) as lines if not isinstance(data, InputFile):
            with path.open("xb") as file:
                for chunk in iter_chunks(data):
                    file.write(chunk)
            return replace(source, source=replace(lines, data=path), size=path.stat().st_size)
        case TypedTable(data=data) as table if not isinstance(data, SpooledTable):
            reader = open_stream(table)
            with pa.ipc.new_file(str(path), reader.schema) as file:
                # Splits consist of whole batches, so large batches are cut.
                for batch in reader:
                    for start in range(0, batch.num_rows, table.batch_rows):
                        file.write_batch(batch.slice(start, table.batch_rows))
            return replace(source, source=replace(table, data=SpooledTable(path=path)), size=path.stat().st_size)
        case _:
            return source


# --- on an executor ----------------------------------------------------------------------------------


def read_split(
    source: InputSource, split: Split, ids: Ids, *, reject: Reject, describe: Callable[[str], None] | None = None
) -> "SplitRows":
    """Return the rows of one split. Bad records go to `reject`, in the order of their lines.

    Lines count from 1 at the start of the split. `describe` gets the metadata at the start of an input. Iteration
    raises the errors of reading the whole input.
    """
    return SplitRows(source, split, ids, reject, describe)


@contextmanager
def name_input(name: str) -> Iterator[None]:
    """Let errors name the input as the user wrote it, not the absolute path or the spooled file that tasks read."""
    try:
        yield
    except FileMissingError as error:
        # A file that is missing on S3 is missing for all machines.
        if TaskContext.get() is None or parse_scheme(error.path) is not None:
            raise FileMissingError(name) from error
        raise MissingError.input_not_on_executor(name, error.path, socket.gethostname()) from error
    except (FileDeniedError, FileUnreadableError, FileDamagedError) as error:
        raise type(error)(name, *error.args[1:]) from error


class SplitRows:
    """The rows of one split, a window at a time; can be iterated once.

    `lines` is the number of lines or rows in the split, good, bad and blank; complete after the last window.
    """

    def __init__(
        self, source: InputSource, split: Split, ids: Ids, reject: Reject, describe: Callable[[str], None] | None = None
    ) -> None:
        self._source = source
        self._split = split
        self._ids = ids
        self._on_reject = reject
        self._describe = describe
        self.lines = 0
        self._is_line_open = False

    def __iter__(self) -> Iterator[TypedRows]:
        with name_input(self._source.name):
            yield from self._read()

    def _read(self) -> Iterator[TypedRows]:
        part = self._split.part
        match self._source.source:
            case GraphLines(data=(Path() | RemoteFile()) as path) as graph:
                yield from self._read_graph(graph, read_line_chunks(path, part))
            case TypedFile(path=path) as file if find_ending(path) in LINE_ENDINGS:
                yield from self._read_lines(file, read_line_chunks(path, part))
            case TypedFile() as file:
                yield from self._read_numbered(replace(file, part=part))
            case TypedTable(data=(SpooledTable() | StoredChunks()) as table) as typed:
                batches = replace(table, start=self._split.start, end=self._split.end)
                yield from self._read_numbered(replace(typed, data=batches))
            case _:
                raise _build_not_spooled_error(self._source)

    def _read_graph(self, graph: GraphLines, chunks: Iterable[bytes]) -> Iterator[TypedRows]:
        yield from read_graph_records(
            self._count_lines(chunks),
            graph.catalog,
            self._ids,
            name=graph.name,
            unit=graph.unit,
            is_partial=graph.is_partial,
            blobs=graph.blobs,
            reject=self._on_reject,
            is_start=self._split.start == 0,
            describe=self._describe,
        )
        self.lines += self._is_line_open

    def _read_lines(self, file: TypedFile, chunks: Iterable[bytes]) -> Iterator[TypedRows]:
        for rows, rejected in read_typed_lines(file, self._ids, chunks=self._count_lines(chunks)):
            for error, text in rejected:
                self._on_reject(error, text)
            if rows.rows.num_rows:
                yield rows
        self.lines += self._is_line_open

    def _count_lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.lines += chunk.count(b"\n")
            # The last line of a file may lack its line break: callers count it at the end.
            self._is_line_open = not chunk.endswith(b"\n")
            yield chunk

    def _read_numbered(self, source: TypedFile | TypedTable) -> Iterator[TypedRows]:
        # Every record is accepted or rejected, so the highest number is that of the last one; lines may follow it.
        for rows in read_typed(source, self._ids, reject=self._reject, count_lines=self._set_lines):
            self.lines = max(self.lines, rows.lines[-1].as_py())
            yield rows

    def _set_lines(self, lines: int) -> None:
        self.lines = lines

    def _reject(self, error: RecordError, text: bytes) -> None:
        self.lines = max(self.lines, error.line)
        self._on_reject(error, text)


def _build_not_spooled_error(source: InputSource) -> TypeError:
    return TypeError(f"`{source.name}` is read once: it has to be spooled before it can be split")
