"""The input of a load in splits, each read by one task: bytes of text, row groups, stripes, batches.

Together the splits of an input give exactly its records, and what is wrong with it, in the same words. Lines and rows
count from the start of a split; how many there were before it is known when all of them have been read.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

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
from omnigraph.errors import FileDeniedError, FileMissingError, FileUnreadableError, Kind, OmnigraphError
from omnigraph.ids import Ids
from omnigraph.locations import parse_scheme
from omnigraph.ops.load_inputs import GraphLines, InputSource
from omnigraph.spark.session.master import is_own_machine
from omnigraph.storage.s3_input_files import InputFile, RemoteFile

TARGET_BYTES = 64 * 1024 * 1024
WHOLE = -1
"""The end of a split that is all of its input."""


class StreamElsewhereError(OmnigraphError):
    """A stream or a table in memory is to be loaded by a Spark on other machines, which can't read what is here."""

    kind = Kind.USAGE
    code = "stream_elsewhere"

    def __init__(self, name: str, master: str) -> None:
        super().__init__(name, master)
        self.name, self.master = name, master

    def __str__(self) -> str:
        return (
            f"`{self.name}` is with this process only, and Spark on `{self.master}` can't read it; write it to a file"
            " that all of its machines can read"
        )


class InputNotOnExecutorError(OmnigraphError):
    """A file of a load is there on the driver, and an executor does not find it."""

    kind = Kind.NOT_FOUND
    code = "input_not_on_executor"

    def __init__(self, path: str, place: str, host: str) -> None:
        super().__init__(path, place, host)
        self.path, self.place, self.host = path, place, host

    def __str__(self) -> str:
        return (
            f"the executor on {self.host} did not find `{self.path}` at {self.place}, where the driver has it; put it"
            " where all machines of Spark see it, such as a shared directory or s3://"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of an input: bytes of text, row groups of Parquet, stripes of ORC, batches of Arrow; or `WHOLE`.

    `number` counts all splits of a load, in the order of the inputs and of their records. `size` is about how many
    bytes it has.
    """

    number: int
    input: int
    start: int
    end: int
    size: int = 0

    @property
    def part(self) -> FilePart | None:
        """None: all of it."""
        return None if self.end == WHOLE else FilePart(start=self.start, end=self.end)


# --- on the driver -----------------------------------------------------------------------------------


def spool_inputs(inputs: Sequence[InputSource], directory: Path) -> list[InputSource]:
    """The same inputs, with streams and tables written to files of a directory that all tasks can read.

    A stream is read here, once and to its end. What messages call it stays.
    """
    return [_spool_input(one, directory / f"{number:05}") for number, one in enumerate(inputs)]


def make_path_absolute(one: InputSource) -> InputSource:
    """Return the same input for processes with another working directory. What messages call it stays."""
    match one.source:
        case GraphLines(data=Path() as path) as lines:
            return replace(one, source=replace(lines, data=path.absolute()))
        case TypedFile(path=Path() as path) as file:
            return replace(one, source=replace(file, path=path.absolute(), label=one.name))
        case _:
            return one


def check_reachable(inputs: Sequence[InputSource], master: str) -> None:
    """StreamElsewhereError if tasks on that master could not read what is spooled for them."""
    if is_own_machine(master):
        return
    for one in inputs:
        if isinstance(one.source, TypedTable) or (
            isinstance(one.source, GraphLines) and not isinstance(one.source.data, InputFile)
        ):
            raise StreamElsewhereError(one.name, master)


def plan_splits(inputs: Sequence[InputSource], *, target_bytes: int = TARGET_BYTES) -> list[Split]:
    """Splits of about so many bytes. Every input has at least one, so that its columns are looked at.

    Compressed text can't be cut, nor can a CSV whose lines end in carriage returns alone; such an input is one split.

    Raises:
        FileMissingError, FileDeniedError, FileUnreadableError: A file can't be read.
        FileDamagedError: A file is not what its name says: quotes of a CSV, metadata of Parquet.
    """
    found: list[Split] = []
    for number, one in enumerate(inputs):
        for start, end, size in _plan_ranges(one, max(target_bytes, 1)):
            found.append(Split(number=len(found), input=number, start=start, end=end, size=size))
    return found


def count_lines_before(splits: Sequence[Split], lines: Mapping[int, int]) -> dict[int, int]:
    """For each split by its number, how many lines its input has before it; `lines` has the lines of each split."""
    before: dict[int, int] = {}
    total: dict[int, int] = {}
    for split in splits:
        before[split.number] = total.get(split.input, 0)
        total[split.input] = before[split.number] + lines[split.number]
    return before


def _plan_ranges(one: InputSource, target: int) -> Iterator[tuple[int, int, int]]:
    match one.source:
        case GraphLines(data=(Path() | RemoteFile()) as path):
            yield from _split_bytes(path, one.size or 0, target)
        case TypedFile(path=path) if find_ending(path) in LINE_ENDINGS:
            yield from _split_bytes(path, one.size or 0, target)
        case TypedFile(path=path) if find_ending(path) == ".csv":
            size = one.size or 0
            cuts = [] if size <= target or _is_compressed(path) else find_csv_cuts(path, target)
            yield from _iter_ranges([0, *cuts, size]) if cuts else [(0, WHOLE, size)]
        case TypedFile(path=path) if find_ending(path) == ".parquet":
            yield from _group_neighbours(_read_group_sizes(path), target)
        case TypedFile(path=path):
            yield from _group_neighbours(_read_stripe_sizes(path, one.size or 0), target)
        case TypedTable(data=SpooledTable() as table):
            yield from _group_neighbours(table.read_sizes(), target)
        case _:
            raise _build_not_spooled_error(one)


def _split_bytes(path: InputFile, size: int, target: int) -> Iterable[tuple[int, int, int]]:
    count = -(-size // target)
    if count <= 1 or _is_compressed(path):
        return [(0, WHOLE, size)]
    return _iter_ranges([size * number // count for number in range(count + 1)])


def _iter_ranges(places: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    for start, end in pairwise(places):
        yield start, end, end - start


def _group_neighbours(sizes: Sequence[int], target: int) -> Iterator[tuple[int, int, int]]:
    """Neighbours together, up to the target; one alone may be larger."""
    if not sizes:
        yield 0, WHOLE, 0
    start = held = 0
    for number, size in enumerate(sizes):
        if number > start and held + size > target:
            yield start, number, held
            start, held = number, 0
        held += size
    if sizes:
        yield start, len(sizes), held


def _is_compressed(path: InputFile) -> bool:
    return path.name.lower().endswith(COMPRESSED)


def _read_group_sizes(path: InputFile) -> list[int]:
    with translate_file_errors(str(path)):
        metadata = pa_parquet.read_metadata(open_arrow_file(path))
        return [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]


def _read_stripe_sizes(path: InputFile, size: int) -> list[int]:
    with translate_file_errors(str(path)), path.open("rb", buffering=0) as opened:
        stripes = pa_orc.ORCFile(opened).nstripes
    return [size // stripes] * stripes if stripes else []


# --- what is read once ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledTable:
    """Some batches of Arrow data in a file; it can be read again, and sent to another process."""

    path: Path
    start: int = 0
    end: int = WHOLE

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The batches."""
        file = pa.ipc.open_file(pa.memory_map(str(self.path)))
        numbers = range(self.start, file.num_record_batches if self.end == WHOLE else self.end)
        reader = pa.RecordBatchReader.from_batches(file.schema, (file.get_batch(number) for number in numbers))
        return reader.__arrow_c_stream__(requested_schema)

    def read_sizes(self) -> list[int]:
        """The bytes of each batch."""
        with pa.ipc.open_file(pa.memory_map(str(self.path))) as file:
            return [file.get_batch(number).nbytes for number in range(file.num_record_batches)]


def _spool_input(one: InputSource, path: Path) -> InputSource:
    match one.source:
        case GraphLines(data=data) as lines if not isinstance(data, InputFile):
            with path.open("xb") as file:
                for chunk in iter_chunks(data):
                    file.write(chunk)
            return replace(one, source=replace(lines, data=path), size=path.stat().st_size)
        case TypedTable(data=data) as table if not isinstance(data, SpooledTable):
            reader = open_stream(table)
            with pa.ipc.new_file(str(path), reader.schema) as file:
                for batch in reader:
                    for start in range(0, batch.num_rows, table.batch_rows):
                        file.write_batch(batch.slice(start, table.batch_rows))
            return replace(one, source=replace(table, data=SpooledTable(path=path)), size=path.stat().st_size)
        case _:
            return one


# --- on an executor ----------------------------------------------------------------------------------


def read_split(
    one: InputSource, split: Split, ids: Ids, *, reject: Reject, describe: Callable[[str], None] | None = None
) -> "SplitRows":
    """The rows of one split; bad records go to `reject`, in the order of their lines. Lines count from the split's 1.

    `describe` is called with what the metadata at the start of an input says.

    Raises:
        What reading the whole input raises.
    """
    return SplitRows(one, split, ids, reject, describe)


class SplitRows:
    """The rows of one split, a window at a time; to be taken once.

    `lines` is how many lines or rows the split has, good and bad and blank: known when all windows have been taken.
    """

    def __init__(
        self, one: InputSource, split: Split, ids: Ids, reject: Reject, describe: Callable[[str], None] | None = None
    ) -> None:
        self._one, self._split, self._ids, self._on_reject = one, split, ids, reject
        self._describe = describe
        self.lines = 0
        self._is_line_open = False

    def __iter__(self) -> Iterator[TypedRows]:
        try:
            yield from self._read()
        except FileMissingError as error:
            if TaskContext.get() is None or parse_scheme(error.path) is not None:  # on S3 it is gone for everybody
                raise FileMissingError(self._one.name) from error
            raise InputNotOnExecutorError(self._one.name, error.path, socket.gethostname()) from error
        except (FileDeniedError, FileUnreadableError, FileDamagedError) as error:
            raise type(error)(self._one.name, *error.args[1:]) from error

    def _read(self) -> Iterator[TypedRows]:
        part = self._split.part
        match self._one.source:
            case GraphLines(data=(Path() | RemoteFile()) as path) as graph:
                yield from self._read_graph(graph, read_line_chunks(path, part))
            case TypedFile(path=path) as file if find_ending(path) in LINE_ENDINGS:
                yield from self._read_lines(file, read_line_chunks(path, part))
            case TypedFile() as file:
                yield from self._read_numbered(replace(file, part=part))
            case TypedTable(data=SpooledTable() as table) as typed:
                chosen = replace(table, start=self._split.start, end=self._split.end)
                yield from self._read_numbered(replace(typed, data=chosen))
            case _:
                raise _build_not_spooled_error(self._one)

    def _read_graph(self, graph: GraphLines, chunks: Iterable[bytes]) -> Iterator[TypedRows]:
        yield from read_graph_records(
            self._count_lines(chunks),
            graph.catalog,
            self._ids,
            name=graph.name,
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
            self._is_line_open = not chunk.endswith(b"\n")
            yield chunk

    def _read_numbered(self, source: TypedFile | TypedTable) -> Iterator[TypedRows]:
        """Every record is among the rows or refused, so the highest number is that of the last one."""
        for rows in read_typed(source, self._ids, reject=self._reject):
            self.lines = max(self.lines, rows.lines[-1].as_py())
            yield rows

    def _reject(self, error: RecordError, text: bytes) -> None:
        self.lines = max(self.lines, error.line)
        self._on_reject(error, text)


def _build_not_spooled_error(one: InputSource) -> TypeError:
    return TypeError(f"`{one.name}` is read once: it has to be spooled before it can be split")
