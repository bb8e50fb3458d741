"""Files that hold one type: Parquet, CSV, or JSONL with one object of properties a line; columns by name.

The columns are the properties, `id`, and for an edge `from` and `to` (or `src` and `dst`). A file that lacks a column
leaves that property out. In CSV a cell of a String or enum is its text, and every other cell is the JSON form of its
type (`true`, `12`, `0.5`, `[1, 2]`; dates and blobs without quotes). An empty cell is null for a nullable property that
is no String, and the empty string for a String: CSV has no null of text.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from omnigraph.engine.arrow_columns import cell_text, filled_from_arrow, texts_of
from omnigraph.engine.json_lines import BYTE_ORDER_MARK, BadJsonError, chunks_of, decode_object, is_skipped, lines_of
from omnigraph.engine.record_error import ColumnError, RecordError, Reject, refuse
from omnigraph.engine.records import MAX_LINE_BYTES, MAX_LINE_BYTES_WITH_BLOBS, WINDOW_BYTES, PendingRecords
from omnigraph.engine.typed_rows import (
    ABSENT,
    FROM,
    SHOWN_AS,
    TO,
    Filled,
    Origin,
    ReadRows,
    Rejected,
    TypedRows,
    absent_column,
    filled_from_json,
    finish,
)
from omnigraph.errors import (
    FileDeniedError,
    FileMissingError,
    FileUnreadableError,
    Kind,
    NotAFileError,
    OmnigraphError,
)
from omnigraph.ids import Ids
from omnigraph.lang.suggest import closest
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, EdgeType, Property
from omnigraph.schema.misfit import shown
from omnigraph.schema.types import Scalar, is_text

BATCH_ROWS = 65_536
BATCH_ROWS_WITH_BLOBS = 256
CSV_BLOCK_BYTES = 8 * 1024 * 1024

_TEXT_FORMS = frozenset({Scalar.DATE, Scalar.DATETIME, Scalar.BLOB})
"""Types other than text whose JSON form is a string."""

_decode_cell = msgspec.json.Decoder().decode


class FileFormatError(OmnigraphError):
    """The ending of a file's name is none that can be loaded."""

    kind = Kind.USAGE
    code = "file_format"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"`{self.path}` can't be loaded by its name: it ends in none of {', '.join(_READERS)}"


class FileDamagedError(OmnigraphError):
    """A file is not of the format that its name says, or breaks off."""

    kind = Kind.INVALID
    code = "file_damaged"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"`{self.path}` can't be read as what its name says: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedFile:
    """One file of one type. `columns` maps a property, `id`, `from` or `to` to the column that holds it."""

    path: Path
    type: AnyType
    columns: Mapping[str, str]
    is_partial: bool = False

    @property
    def batch_rows(self) -> int:
        """How many rows are held at once."""
        return BATCH_ROWS_WITH_BLOBS if self.has_blobs else BATCH_ROWS

    @property
    def has_blobs(self) -> bool:
        """Whether a row may be large."""
        return any(p.type is Scalar.BLOB for p in self.type.properties)

    def origin(self, unit: str) -> Origin:
        """For messages."""
        return Origin(file=str(self.path), unit=unit, is_partial=self.is_partial)

    def targets(self) -> dict[str, str]:
        """Each name that a column may have, and what it holds."""
        own = (ID, FROM, TO) if isinstance(self.type, EdgeType) else (ID,)
        known = dict.fromkeys((*own, *self.type.by_name))
        for target in self.columns:
            if SHOWN_AS.get(target, target) not in known:
                reason = f"unknown property {shown(target)} of `{self.type.name}`{_hint(target, known)}"
                raise ColumnError(str(self.path), self.type.name, target, reason)
        mapped = {SHOWN_AS.get(target, target): column for target, column in self.columns.items()}
        names = {mapped.get(target, target): target for target in known}
        if isinstance(self.type, EdgeType):
            for stored, shown_name in SHOWN_AS.items():
                if shown_name not in mapped:
                    names.setdefault(stored, shown_name)
        return names

    def placed(self, columns: list[str]) -> dict[str, int]:
        """What the file has, and in which column; ColumnError for a column that is unknown, double or missing."""
        names = self.targets()
        found: dict[str, int] = {}
        for position, column in enumerate(columns):
            target = names.get(column)
            if target is None:
                reason = f"unknown column {shown(column)} for `{self.type.name}`{_hint(column, names)}"
                raise ColumnError(str(self.path), self.type.name, column, reason)
            if target in found:
                raise ColumnError(str(self.path), self.type.name, column, f"two columns hold `{target}`")
            found[target] = position
        for target, column in self.columns.items():
            if SHOWN_AS.get(target, target) not in found:
                reason = f"there is no column {shown(column)}, which should hold `{target}`{_hint(column, columns)}"
                raise ColumnError(str(self.path), self.type.name, column, reason)
        if isinstance(self.type, EdgeType):
            for end in (FROM, TO):
                if end not in found:
                    reason = f"an edge needs the column `{end}`, the id of a node"
                    raise ColumnError(str(self.path), self.type.name, end, reason)
        return found


def read_typed_file(file: TypedFile, ids: Ids, *, reject: Reject = refuse) -> Iterator[TypedRows]:
    """The rows of a file, by the ending of its name, a batch at a time; bad rows go to `reject` in their order.

    Raises:
        FileFormatError: The name's ending is not known.
        ColumnError: A column is unknown, there twice, missing, or of a type that no value of the property has.
        RecordError: A row is bad, and `reject` is the default.
        FileDamagedError: The file is not of the format that its name says.
    """
    read = _READERS.get(file.path.suffix.lower())
    if read is None:
        raise FileFormatError(str(file.path))
    for rows, rejected in _file_errors(file, read(file, ids)):
        for error, text in rejected:
            reject(error, text)
        if rows.rows.num_rows:
            yield rows


_Part: TypeAlias = tuple[TypedRows, list[Rejected]]


def _file_errors(file: TypedFile, parts: Iterator[_Part]) -> Iterator[_Part]:
    path = str(file.path)
    try:
        yield from parts
    except FileNotFoundError as error:
        raise FileMissingError(path) from error
    except IsADirectoryError as error:
        raise NotAFileError(path) from error
    except PermissionError as error:
        raise FileDeniedError(path, "read") from error
    except OSError as error:
        raise FileUnreadableError(path, error.strerror or str(error)) from error
    except pa.ArrowException as error:
        raise FileDamagedError(path, str(error)) from error


def _read_jsonl(file: TypedFile, ids: Ids) -> Iterator[_Part]:
    with file.path.open("rb") as source:
        yield from _jsonl_parts(file, ids, source)


def _jsonl_parts(file: TypedFile, ids: Ids, source: BinaryIO) -> Iterator[_Part]:
    names = file.targets()
    origin = file.origin("line")
    limit = MAX_LINE_BYTES_WITH_BLOBS if file.has_blobs else MAX_LINE_BYTES
    known = frozenset(file.type.by_name)
    pending, rejected, held = PendingRecords(file.type, known), list[Rejected](), 0

    def flushed() -> _Part:
        rows, wrong = pending.finish(origin, ids)
        return rows, sorted([*rejected, *wrong], key=lambda one: one[0].line)

    for number, line in lines_of(chunks_of(source), limit):
        text = b"" if line is None else line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if line is not None and is_skipped(text):
            continue
        if len(pending.data) + len(rejected) >= BATCH_ROWS or held >= WINDOW_BYTES:
            yield flushed()
            pending, rejected, held = PendingRecords(file.type, known), [], 0
        held += len(text)
        try:
            if line is None:
                raise BadJsonError(f"the line has more than {limit} bytes, the most for a record")  # noqa: TRY301 - as the others
            record = decode_object(text)
            data = _by_target(file, names, record)
        except BadJsonError as error:
            rejected.append((RecordError(origin.file, number, file.type.name, None, None, str(error)), text))
            continue
        read = pending.read
        read.lines.append(number)
        read.texts.append(text)
        read.ids.append(data.pop(ID, ABSENT))
        if isinstance(file.type, EdgeType):
            read.sources.append(data.pop(FROM, ABSENT))
            read.targets.append(data.pop(TO, ABSENT))
        pending.data.append(data)
    yield flushed()


def _by_target(file: TypedFile, names: Mapping[str, str], record: dict[str, object]) -> dict[str, object]:
    data: dict[str, object] = {}
    for name, value in record.items():
        target = names.get(name)
        if target is None:
            raise BadJsonError(f"unknown property {shown(name)} of `{file.type.name}`{_hint(name, names)}")
        if target in data:
            raise BadJsonError(f"`{target}` is there twice")
        data[target] = value
    return data


def _read_csv(file: TypedFile, ids: Ids) -> Iterator[_Part]:
    blocks = pa_csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False)
    parsing = pa_csv.ParseOptions(newlines_in_values=True)
    with file.path.open("rb") as source:
        if not source.read(1):
            raise ColumnError(str(file.path), file.type.name, "", "the file is empty: its first line names the columns")
    with pa_csv.open_csv(file.path, blocks, parsing) as header:
        columns = list(header.schema.names)
    placed = file.placed(columns)
    converting = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.utf8()), strings_can_be_null=False, check_utf8=True
    )
    start = 1
    with pa_csv.open_csv(file.path, blocks, parsing, converting) as batches:
        for batch in batches:
            yield _table_part(file, ids, batch, placed, start, _from_cells)
            start += batch.num_rows


def _from_cells(p: Property, cells: pa.Array) -> Filled:
    """A property's column of CSV cells."""
    values: list[object] = cells.to_pylist()
    if is_text(p.type):
        return filled_from_json(p, values)
    if p.nullable:
        values = [None if value == "" else value for value in values]
    if p.type not in _TEXT_FORMS:
        try:
            decoded = [_decode_cell(value) if isinstance(value, str) else value for value in values]
        except (msgspec.DecodeError, RecursionError):
            decoded = [_cell(value) for value in values]
        # A cell that says null is no value of any type: it stays text, which is refused by name.
        values = [value if one is None else one for one, value in zip(decoded, values, strict=True)]
    return filled_from_json(p, values)


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return _decode_cell(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _read_parquet(file: TypedFile, ids: Ids) -> Iterator[_Part]:
    with pa_parquet.ParquetFile(file.path) as source:
        placed = file.placed(list(source.schema_arrow.names))
        start = 1
        for batch in source.iter_batches(batch_size=file.batch_rows):

            def from_arrow(p: Property, column: pa.Array) -> Filled:
                return filled_from_arrow(p, column, str(file.path), file.type.name)

            yield _table_part(file, ids, batch, placed, start, from_arrow)
            start += batch.num_rows


def _table_part(
    file: TypedFile,
    ids: Ids,
    batch: pa.RecordBatch,
    placed: Mapping[str, int],
    start: int,
    fill: Callable[[Property, pa.Array], Filled],
) -> _Part:
    rows = batch.num_rows

    def texts(target: str) -> list[object]:
        if target not in placed:
            return [ABSENT] * rows
        return texts_of(batch.column(placed[target]), str(file.path), file.type.name, target)

    read = ReadRows(lines=list(range(start, start + rows)), texts=[b""] * rows, ids=texts(ID))
    if isinstance(file.type, EdgeType):
        read.sources, read.targets = texts(FROM), texts(TO)
    for p in file.type.properties:
        if p.name in placed:
            read.columns[p.name] = fill(p, batch.column(placed[p.name]))
        else:
            read.columns[p.name] = absent_column(p, rows)
    finished, rejected = finish(file.type, read, file.origin("row"), ids.ulid)
    return finished, [(error, _text_of(batch, error.line - start)) for error, _ in rejected]


def _text_of(batch: pa.RecordBatch, row: int) -> bytes:
    """A row as text, its values clipped, for whoever keeps bad records."""
    cells = zip(batch.schema.names, batch.columns, strict=True)
    return ", ".join(f"{name}={cell_text(column.slice(row, 1))}" for name, column in cells).encode()


def _hint(word: str, known: Mapping[str, object] | list[str]) -> str:
    near = closest(word, known)
    return f"; did you mean `{near}`?" if near else ""


_READERS: dict[str, Callable[[TypedFile, Ids], Iterator[_Part]]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
}
