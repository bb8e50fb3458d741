"""Read the rows of any file: CSV in any dialect, JSON, JSON lines, Parquet, ORC, Arrow, SQLite and DuckDB."""

import json
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.ipc as pa_ipc
import pyarrow.orc as pa_orc
import pyarrow.parquet as pa_parquet

from omnigraph.engine.decoding.input_files import (
    COMPRESSED,
    FileDamagedError,
    FileFormatError,
    open_input,
    translate_file_errors,
)
from omnigraph.engine.decoding.typed_source import ArrowStream
from omnigraph.engine.importing.csv_dialect import Cell, guess_delimiter, read_records
from omnigraph.errors import BadArgumentError, BadFileError

Row: TypeAlias = tuple[int, tuple[Any, ...]]
"""The line or number of a record, and its values in the order of the columns: cells of a CSV, else typed values."""

CSV_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
JSON_ENDINGS = (".json",)
LINE_ENDINGS = (".jsonl", ".ndjson")
ARROW_ENDINGS = (".parquet", ".orc", ".arrow", ".feather")
SQLITE_ENDINGS = (".sqlite", ".sqlite3", ".db")
DUCKDB_ENDINGS = (".duckdb", ".ddb")
GRAPHML_ENDINGS = (".graphml",)
TABLE_ENDINGS = (*CSV_ENDINGS, *JSON_ENDINGS, *LINE_ENDINGS, *ARROW_ENDINGS, *SQLITE_ENDINGS, *DUCKDB_ENDINGS)
FILE_ENDINGS = (*TABLE_ENDINGS, *GRAPHML_ENDINGS)
FORMATS = {
    "csv": ".csv",
    "tsv": ".tsv",
    "json": ".json",
    "jsonl": ".jsonl",
    "parquet": ".parquet",
    "orc": ".orc",
    "arrow": ".arrow",
    "sqlite": ".sqlite",
    "duckdb": ".duckdb",
    "graphml": ".graphml",
    "node-link": ".node-link",
    "apoc-json": ".apoc-json",
    "neo4j-csv": ".neo4j-csv",
}
"""The formats by name, with the ending that stands for each; names of files have only the first ten."""
STDIN_NAME = "<stdin>"
# Rows that a database or an Arrow file hands over at a time.
BATCH_ROWS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """How a CSV file is written; None is guessed from its header or its name."""

    delimiter: str | None = None
    encoding: str = "utf-8"
    has_header: bool = True

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise BadArgumentError("delimiter", f"`{self.delimiter}`", "it must be one character, such as ; or a tab")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise BadArgumentError(
                "encoding", f"`{self.encoding}`", "it must be the name of one, such as utf-8 or latin-1"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """A column of a database's table whose values are keys of another table."""

    column: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A file, or a table of a database: its columns, and how its rows are read, as often as needed."""

    path: Path
    table: str | None = None
    columns: tuple[str, ...]
    unit: str = "row"
    """What the number of a row counts: `line` for lines as editors count them, `element` or `row`."""
    read: Callable[[], Iterator[Row]]
    is_text: bool = False
    """Whether values are cells of text, whose types are not known."""
    dialect: CsvDialect = field(default_factory=CsvDialect)
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    is_graph: bool = False
    """Whether it is the nodes or edges of a graph: its foreign keys, and no other columns, are edges."""
    title: str | None = None
    """What its type is called after, unless it is after the table or file."""
    notes: tuple[str, ...] = ()
    """What a reader of its schema should know."""
    parts: tuple["SourceTable", ...] = ()
    """The tables of several files that it consists of, if it does."""

    @property
    def name(self) -> str:
        """How messages call it."""
        # Standard input is kept in a file of this name, in a directory that says nothing to anybody.
        if self.path.name == STDIN_NAME:
            return STDIN_NAME if self.table is None else f"{STDIN_NAME} ({self.table})"
        return str(self.path) if self.table is None else f"{self.path} ({self.table})"


def find_table_ending(path: Path) -> str:
    """Return the extension that decides the format, in lower case; texts may also be compressed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    ending = suffixes[-1] if suffixes else ""
    inner = suffixes[-2] if ending in COMPRESSED and len(suffixes) > 1 else ""
    return inner if inner in (*CSV_ENDINGS, *JSON_ENDINGS, *LINE_ENDINGS, *GRAPHML_ENDINGS) else ending


def open_tables(path: Path, dialect: CsvDialect, format_: str | None = None) -> list[SourceTable]:
    """Return the tables of a file: one, or those of a database. `format_` is an ending to read it as, such as `.csv`.

    Raises:
        FileFormatError: The format is not known.
        FileMissingError, FileDeniedError, FileDamagedError: The file can't be read.
    """
    ending = format_ or find_table_ending(path)
    if ending not in TABLE_ENDINGS:
        raise FileFormatError(str(path), f"it ends in none of {', '.join(FILE_ENDINGS)}")
    with translate_file_errors(str(path)):
        if not path.is_file():
            path.open("rb").close()  # raises what is the matter
    if ending in CSV_ENDINGS:
        return [_open_csv(path, _complete_dialect(path, ending, dialect))]
    if ending in (*JSON_ENDINGS, *LINE_ENDINGS):
        return [_open_json(path, is_lines=ending in LINE_ENDINGS)]
    if ending in ARROW_ENDINGS:
        return [_open_arrow(path, ending)]
    return _open_database(path, _SqliteReader if ending in SQLITE_ENDINGS else _DuckdbReader)


# --- CSV ---------------------------------------------------------------------------------------------


def _complete_dialect(path: Path, ending: str, dialect: CsvDialect) -> CsvDialect:
    if dialect.delimiter is not None:
        return dialect
    if ending in (".tsv", ".tab"):
        return CsvDialect(delimiter="\t", encoding=dialect.encoding, has_header=dialect.has_header)
    with _open_text(path, dialect) as lines:
        header = next(iter(lines), "")
    return CsvDialect(delimiter=guess_delimiter(header), encoding=dialect.encoding, has_header=dialect.has_header)


@contextmanager
def _open_text(path: Path, dialect: CsvDialect) -> Generator[Iterable[str]]:
    """Open a text file line by line; the lines keep their breaks."""
    with translate_file_errors(str(path)), open_input(path) as file:
        # `newline=""` keeps line breaks as they are, which may be part of a cell.
        try:
            yield TextIOWrapper(file, encoding=dialect.encoding, newline="")
        except UnicodeError as error:
            reason = _describe_encoding(path, dialect.encoding)
            raise FileDamagedError(str(path), reason) from error


def _describe_encoding(path: Path, encoding: str) -> str:
    """Describe where a text file has bytes that its encoding does not have."""
    with open_input(path) as file:
        for number, line in enumerate(file, start=1):
            # Both marks of the order of bytes, with which other encodings than UTF-8 start.
            if number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
                return f"it is not {encoding}; name its encoding: --encoding utf-16"
            try:
                line.decode(encoding)
            except UnicodeError:
                return f"line {number} is not {encoding}; name its encoding, such as --encoding latin-1"
    return f"it is not {encoding}; name its encoding, such as --encoding latin-1"


def _open_csv(path: Path, dialect: CsvDialect) -> SourceTable:
    delimiter = dialect.delimiter or ","
    with _open_text(path, dialect) as lines:
        first = next(read_records(lines, delimiter, str(path)), None)
    if first is None:
        raise FileDamagedError(str(path), "it is empty: a CSV file begins with the names of its columns")
    names = tuple(cell.text for cell in first.cells)
    columns = names if dialect.has_header else tuple(f"column{number}" for number in range(1, len(names) + 1))
    _check_columns(path, columns)
    first_line = "header" if dialect.has_header else "first line"

    def read() -> Iterator[Row]:
        with _open_text(path, dialect) as lines:
            records = read_records(lines, delimiter, str(path))
            if dialect.has_header:
                next(records, None)
            for record in records:
                if len(record.cells) != len(columns):
                    reason = (
                        f"line {record.line} has {len(record.cells)} cells, and the {first_line} has {len(columns)};"
                        f" a cell with a `{delimiter}` in it stands in quotes"
                    )
                    raise FileDamagedError(str(path), reason)
                yield record.line, record.cells

    return SourceTable(path=path, columns=columns, read=read, unit="line", is_text=True, dialect=dialect)


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    twice = next((name for number, name in enumerate(columns) if name in columns[:number]), None)
    if twice is not None:
        raise FileDamagedError(str(path), f"its header has the column `{twice}` twice; rename one")


# --- JSON --------------------------------------------------------------------------------------------


def _open_json(path: Path, *, is_lines: bool) -> SourceTable:
    columns: dict[str, None] = {}
    for _, record in _read_objects(path, is_lines=is_lines):
        columns.update(dict.fromkeys(record))
    names = tuple(columns)

    def read() -> Iterator[Row]:
        for line, record in _read_objects(path, is_lines=is_lines):
            yield line, tuple(record.get(name) for name in names)

    return SourceTable(path=path, columns=names, read=read, unit="line" if is_lines else "element")


def _read_objects(path: Path, *, is_lines: bool) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of JSON lines, of an array, or of an object of objects, whose keys become `key`."""
    with translate_file_errors(str(path)), open_input(path) as file:
        if is_lines:
            for line, text in enumerate(file, start=1):
                if text.strip():
                    yield line, _require_object(path, f"line {line}", parse_json(path, text, line))
            return
        document = parse_json(path, file.read(), None)
    if isinstance(document, dict) and document and all(isinstance(value, dict) for value in document.values()):
        document = [{"key": key, **value} for key, value in document.items()]
    elif isinstance(document, dict):
        document = [document]
    if not isinstance(document, list):
        raise FileDamagedError(str(path), "it holds no array or object of objects")
    for number, value in enumerate(document, start=1):
        yield number, _require_object(path, f"element {number}", value)


def parse_json(path: Path, text: bytes, line: int | None) -> Any:  # noqa: ANN401 - any JSON
    """Return what a text means, which is a line of a file if it has a number.

    Raises:
        FileDamagedError: It is not JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno if line is None else line}, column {error.colno}"
        raise FileDamagedError(str(path), f"{place}: it is not JSON: {error.msg}") from error
    except ValueError as error:
        raise FileDamagedError(str(path), f"{'' if line is None else f'line {line}: '}{error}") from error


def _require_object(path: Path, place: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FileDamagedError(str(path), f"{place} is no object")
    return value


# --- Arrow -------------------------------------------------------------------------------------------


def _open_arrow(path: Path, ending: str) -> SourceTable:
    with translate_file_errors(str(path)):
        names = tuple(next(_read_batches(path, ending)).schema.names)
    _check_columns(path, names)

    def read() -> Iterator[Row]:
        number = 0
        with translate_file_errors(str(path)):
            for batch in _read_batches(path, ending):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    number += 1
                    yield number, values

    return SourceTable(path=path, columns=names, read=read)


def open_frame(name: str, data: ArrowStream) -> SourceTable:
    """Return the table of a frame in memory, which messages and mappings call `name`.

    Raises:
        BadFileError: Arrow can't read it.
    """
    try:
        frame = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        raise BadFileError.table_unreadable(name, type(data).__name__, str(error)) from error
    names = tuple(frame.schema.names)
    _check_columns(Path(name), names)

    def read() -> Iterator[Row]:
        batches = frame.to_batches(max_chunksize=BATCH_ROWS)
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        return enumerate(rows, start=1)

    return SourceTable(path=Path(name), columns=names, read=read)


def _read_batches(path: Path, ending: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file; the first has no rows, so that there is always one."""
    if ending == ".parquet":
        with pa_parquet.ParquetFile(path) as parquet:
            yield _empty(parquet.schema_arrow)
            yield from parquet.iter_batches(batch_size=BATCH_ROWS)
        return
    if ending == ".orc":
        orc = pa_orc.ORCFile(path)
        yield _empty(orc.schema)
        for stripe in range(orc.nstripes):
            yield orc.read_stripe(stripe)
        return
    with pa.memory_map(str(path)) as mapped:
        try:
            reader = pa_ipc.open_file(mapped)
            batches: Iterable[pa.RecordBatch] = (
                reader.get_batch(number) for number in range(reader.num_record_batches)
            )
        except pa.ArrowInvalid:
            mapped.seek(0)
            reader = batches = pa_ipc.open_stream(mapped)
        yield _empty(reader.schema)
        yield from batches


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, column.type) for column in schema], schema=schema)


# --- databases ---------------------------------------------------------------------------------------


def _open_database(path: Path, reader_type: "type[_SqliteReader | _DuckdbReader]") -> list[SourceTable]:
    reader = reader_type(path)
    tables: list[SourceTable] = []
    for table in reader.list_tables():
        columns, primary_key = reader.describe(table)
        keys = reader.list_foreign_keys(table)

        def read(table: str = table, columns: tuple[str, ...] = columns) -> Iterator[Row]:
            return reader.read_rows(table, columns)

        tables.append(
            SourceTable(
                path=path,
                table=table,
                columns=columns,
                read=read,
                primary_key=primary_key,
                # In the order of the columns: the first is where an edge starts.
                foreign_keys=tuple(key for column in columns for key in keys if key.column == column),
            )
        )
    if not tables:
        raise FileDamagedError(str(path), "the database has no tables")
    return tables


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class _SqliteReader:
    """The tables of a SQLite file, read without writing anything beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _query(self, statement: str) -> Iterator[tuple[Any, ...]]:
        uri = f"{self._path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                yield from connection.execute(statement)
        except sqlite3.DatabaseError as error:
            raise FileDamagedError(str(self._path), str(error)) from error

    def list_tables(self) -> list[str]:
        """Return the names of the tables, in order."""
        statement = "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"
        return [name for (name,) in self._query(statement)]

    def describe(self, table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns of a table, and those of its primary key."""
        rows = list(self._query(f"pragma table_info({_quote(table)})"))
        # The number in the primary key, from 1 on; 0 for other columns.
        keys = sorted((row[5], row[1]) for row in rows if row[5])
        return tuple(row[1] for row in rows), tuple(name for _, name in keys)

    def list_foreign_keys(self, table: str) -> list[ForeignKey]:
        """Return the foreign keys of a table that are one column each."""
        rows = list(self._query(f"pragma foreign_key_list({_quote(table)})"))
        single = [row for row in rows if sum(other[0] == row[0] for other in rows) == 1]
        return [ForeignKey(column=row[3], table=row[2]) for row in single]

    def read_rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of a table in the order in which it stores them."""
        statement = f"select {', '.join(map(_quote, columns))} from {_quote(table)}"  # noqa: S608 - quoted names
        return enumerate(self._query(statement), start=1)


class _DuckdbReader:
    """The tables of a DuckDB file, opened read-only."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _query(self, statement: str) -> Iterator[tuple[Any, ...]]:
        import duckdb  # noqa: PLC0415 - heavy, and only files of this kind need it

        try:
            with closing(duckdb.connect(str(self._path), read_only=True)) as connection:
                cursor = connection.execute(statement)
                while rows := cursor.fetchmany(BATCH_ROWS):
                    yield from rows
        except duckdb.Error as error:
            raise FileDamagedError(str(self._path), str(error)) from error

    def list_tables(self) -> list[str]:
        """Return the names of the tables of the main schema, in order."""
        statement = "select table_name from duckdb_tables() where schema_name = 'main' order by table_name"
        return [name for (name,) in self._query(statement)]

    def describe(self, table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns of a table, and those of its primary key."""
        columns = tuple(row[0] for row in self._query(f"describe {_quote(table)}"))
        keys = [names for names, _ in self._list_constraints(table, "PRIMARY KEY")]
        return columns, tuple(keys[0]) if keys else ()

    def list_foreign_keys(self, table: str) -> list[ForeignKey]:
        """Return the foreign keys of a table that are one column each."""
        return [
            ForeignKey(column=names[0], table=other)
            for names, other in self._list_constraints(table, "FOREIGN KEY")
            if len(names) == 1 and other is not None
        ]

    def _list_constraints(self, table: str, kind: str) -> list[tuple[list[str], str | None]]:
        statement = (
            "select table_name, constraint_type, constraint_column_names, referenced_table from duckdb_constraints()"
        )
        return [(row[2], row[3]) for row in self._query(statement) if row[0] == table and row[1] == kind]

    def read_rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of a table in the order in which it stores them."""
        statement = f"select {', '.join(map(_quote, columns))} from {_quote(table)}"  # noqa: S608 - quoted names
        return enumerate(self._query(statement), start=1)


def is_null(value: object, nulls: Sequence[str]) -> bool:
    """Return whether a value is missing: None, or a cell without quotes whose text is one of `nulls`."""
    if isinstance(value, Cell):
        return not value.is_quoted and value.text in nulls
    return value is None
