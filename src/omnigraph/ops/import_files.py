"""Read files as they are: infer a schema from them, and turn them into graph JSONL that a load takes."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from omnigraph.engine.decoding.input_files import FileFormatError
from omnigraph.engine.decoding.typed_source import ArrowStream
from omnigraph.engine.importing.graph_files import open_sources
from omnigraph.engine.importing.graph_records import encode_rows
from omnigraph.engine.importing.infer_schema import InferredSchema
from omnigraph.engine.importing.infer_schema import infer_schema as infer_from_tables
from omnigraph.engine.importing.mapping import (
    SourceMapping,
    ValueForms,
    check_mapping,
    format_mapping,
    parse_mapping,
    select_mappings,
)
from omnigraph.engine.importing.source_tables import FORMATS, CsvDialect, SourceTable, open_frame
from omnigraph.errors import BadArgumentError, MissingError
from omnigraph.lang.source import Source
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog import AnyType, Catalog

__all__ = ["FileOptions", "InferredSchema", "RecordStream", "format_mapping", "infer_schema", "read_files"]

PathLike = str | os.PathLike[str]
TypedPlaces: TypeAlias = Mapping[str, Sequence[PathLike] | ArrowStream]
"""The files of a type, or its rows: a table of Arrow, pandas or polars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """How files are written. `null`, `true`, `false` and the formats are about cells of CSV files.

    `input_format` is for files whose names don't say it: `csv`, `tsv`, `json`, `jsonl`, `parquet`, `orc`, `arrow`,
    `sqlite`, `duckdb`; for graphs `graphml`, `node-link`, `apoc-json` and `neo4j-csv`.
    """

    input_format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    header: bool = True
    null: Sequence[str] = ("",)
    true: Sequence[str] = ("true",)
    false: Sequence[str] = ("false",)
    decimal: str = "."
    thousands: str = ""
    date_format: str | None = None
    datetime_format: str | None = None

    def __post_init__(self) -> None:
        if self.input_format is not None and self.input_format not in FORMATS:
            raise BadArgumentError("input_format", f"`{self.input_format}`", f"it must be one of {', '.join(FORMATS)}")

    @property
    def ending(self) -> str | None:
        """The ending of names that stands for `input_format`."""
        return None if self.input_format is None else FORMATS[self.input_format]

    @property
    def dialect(self) -> CsvDialect:
        """The dialect of CSV files."""
        return CsvDialect(delimiter=self.delimiter, encoding=self.encoding, has_header=self.header)

    @property
    def forms(self) -> ValueForms:
        """The forms of values in cells."""
        return ValueForms(
            nulls=tuple(self.null),
            trues=tuple(self.true),
            falses=tuple(self.false),
            decimal=self.decimal,
            thousands=self.thousands,
            date_format=self.date_format,
            datetime_format=self.datetime_format,
        )


class RecordStream:
    """Graph JSONL made of a file while it is read; a load takes it as a binary file. It can be read once."""

    def __init__(self, name: str, chunks: Iterator[bytes], unit: str = "line") -> None:
        self.name = name
        # What its lines are in the file: `line`, `row` or `element`.
        self.unit = unit
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`; all if it is negative."""
        if size < 0:
            rest, self._rest = self._rest + b"".join(self._chunks), b""
            return rest
        if not self._rest:
            self._rest = next(self._chunks, b"")
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def infer_schema(
    files: Iterable[PathLike],
    *,
    nodes: TypedPlaces | None = None,
    edges: TypedPlaces | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    enums: bool = False,
    options: FileOptions | None = None,
) -> InferredSchema:
    """Infer a schema from all rows of some files, and the mapping with which the same files load.

    `nodes` and `edges` name the types of files: `{"Person": ["people.csv"]}`, or of tables in memory: `{"Person":
    frame}`, which the mapping calls `<Person>`. `keys` are the columns of keys that are not to be guessed: `{"Person":
    ["email"]}`. Every guess is a comment of the schema. Files of graphs become a type
    for each set of labels, and for each pair of ends of a relationship's type; `findings` counts them.

    Raises:
        FileFormatError, FileMissingError, FileDamagedError: A file can't be read.
        BadArgumentError: A file is said to hold edges, and its ends can't be found; columns are no key; no file at all.
    """
    options = options or FileOptions()
    forms = options.forms
    types: dict[str, str] = {}
    edge_types: dict[str, str] = {}
    paths = [path for file in files for path in list_paths(file)]
    frames: list[SourceTable] = []
    for given, target in ((nodes, types), (edges, edge_types)):
        for name, places in (given or {}).items():
            if isinstance(places, ArrowStream):
                frames.append(open_frame(f"<{name}>", places))
                target[f"<{name}>"] = name
                continue
            for path in (path for place in places for path in list_paths(place)):
                target[str(path)] = name
                paths.append(path)
    if not paths and not frames:
        raise BadArgumentError("files", "left out", "name the files to read")
    names = {path: name for path in paths for name in (types.get(str(path)) or edge_types.get(str(path)),) if name}
    opened = open_sources(paths, lambda _: options.dialect, options.ending, names)
    tables = [table for tables in opened.values() for table in tables] + frames
    inferred = infer_from_tables(tables, forms, nodes=types, edges=edge_types, keys=keys or {}, has_enums=enums)
    return replace(inferred, headers=tuple(str(path) for path, found in opened.items() if not found))


def read_files(  # noqa: PLR0913 - all but the files and the schema by name
    files: Iterable[PathLike],
    schema: str | Source,
    *,
    mapping: str | Source | None = None,
    mapping_base: PathLike = ".",
    nodes: TypedPlaces | None = None,
    edges: TypedPlaces | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    options: FileOptions | None = None,
) -> list[RecordStream]:
    """Return files as graph JSONL, which `Graph.load` takes as its data. All are checked before any is read.

    Args:
        files: Files whose types `mapping` or their names say: `Person.csv` is of the type Person.
        schema: The schema of the graph.
        mapping: The text of a mapping, as `infer_schema` makes one. Its files are relative to `mapping_base`.
        mapping_base: A directory.
        nodes: Files by node type, or tables in memory.
        edges: The same by edge type.
        columns: The column of a property, where their names differ: `{"Person.name": "full_name"}`.
        ignore: Columns that are left out.
        options: How the files are written, where the mapping does not say it.

    Raises:
        BadArgumentError: The mapping does not fit the schema or a header; all problems are listed.
        FileFormatError, FileMissingError, FileDamagedError: A file can't be read.
    """
    options = options or FileOptions()
    catalog = load_schema(schema if isinstance(schema, Source) else Source(schema, "schema.pg"))
    text = Source(mapping, "mapping") if isinstance(mapping, str) else mapping
    given = [] if text is None else parse_mapping(text.text, text.name)
    base = Path(mapping_base)
    named: list[tuple[Path | SourceTable, str | None, bool]] = []
    for is_edge, by_type in ((False, nodes), (True, edges)):
        for type_name, places in (by_type or {}).items():
            if isinstance(places, ArrowStream):
                named.append((open_frame(f"<{type_name}>", places), type_name, is_edge))
            else:
                named += [(path, type_name, is_edge) for place in places for path in list_paths(place)]
    typed = {path for path, _, _ in named}
    named += [(path, None, False) for file in files for path in list_paths(file) if path not in typed]
    paths = [place for place, _, _ in named if isinstance(place, Path)]
    names = {place: name for place, name, _ in named if isinstance(place, Path) and name is not None}
    opened = open_sources(paths, lambda path: _find_dialect(path, given, base, options), options.ending, names)
    prepared: list[tuple[SourceTable, SourceMapping, AnyType]] = []
    for place, name, is_edge in named:
        for table in [place] if isinstance(place, SourceTable) else opened[place]:
            # A frame has no other name than its type, by which a mapping calls it; a graph has several.
            is_mapped = name is None or isinstance(place, SourceTable) or table.is_graph
            mappings = select_mappings(given, table, base) if is_mapped else []
            if not mappings and name is not None and not table.is_graph:
                mappings = [_name_source(table, name, options, is_edge=is_edge)]
            for source in mappings or [_guess_source(table, catalog, options)]:
                complete = _with_columns(source, table, columns or {}, ignore)
                prepared.append((table, complete, check_mapping(complete, table, catalog)))
    _check_ignored(ignore, [table for table, _, _ in prepared])
    return [
        RecordStream(table.name, encode_rows(table, source, type_), table.unit) for table, source, type_ in prepared
    ]


def _check_ignored(ignore: Sequence[str], tables: Sequence[SourceTable]) -> None:
    columns = dict.fromkeys(column for table in tables for column in table.columns)
    for name in ignore:
        if name not in columns:
            near = find_closest(name, columns)
            hint = f"; did you mean `{near}`?" if near else ""
            raise BadArgumentError("ignore", f"`{name}`", f"no file has a column of this name{hint}")


def list_paths(place: PathLike) -> list[Path]:
    """Return the files that a path or a pattern names, by name.

    Raises:
        MissingError: A pattern names none.
    """
    path = Path(place)
    if path.exists() or not any(sign in str(place) for sign in "*?["):
        return [path]
    found = sorted(Path(match) for match in glob.glob(str(place), recursive=True))  # noqa: PTH207 - also absolute ones
    if not found:
        raise MissingError.no_input(str(place), "no file matches the pattern")
    return [match for match in found if match.is_file()]


def _find_dialect(path: Path, given: Sequence[SourceMapping], base: Path, options: FileOptions) -> CsvDialect:
    """Return how a file is written: as its mapping says, else as the options do."""
    probe = SourceTable(path=path, columns=(), read=lambda: iter(()))
    matching = select_mappings(given, probe, base)
    return matching[0].dialect if matching else options.dialect


def _name_source(table: SourceTable, name: str, options: FileOptions, *, is_edge: bool) -> SourceMapping:
    return SourceMapping(
        file=str(table.path),
        table=table.table,
        type=name,
        is_edge=is_edge,
        forms=options.forms,
        dialect=options.dialect,
    )


def _guess_source(table: SourceTable, catalog: Catalog, options: FileOptions) -> SourceMapping:
    """Return the mapping of a file that is called like its type, in any case."""
    stem = table.title or table.table or table.path.name.partition(".")[0]
    by_name = {name.lower(): name for name in (*catalog.nodes, *catalog.edges)}
    # Labels and relationships have names such as ACTED_IN.
    name = by_name.get("".join(filter(str.isalnum, stem.lower())) if table.is_graph else stem.lower())
    if name is None:
        named = "" if table.is_graph else f"name its type, as in `--node Person={table.path}`, or "
        raise FileFormatError(table.name, f"no type is called `{stem}`; {named}give a --mapping")
    source = _name_source(table, name, options, is_edge=name in catalog.edges)
    node = catalog.nodes.get(name)
    # The id of a node is its key, if that is one property.
    is_key = table.is_graph and node is not None and len(node.key) == 1 and node.key[0] not in table.columns
    return replace(source, columns={table.primary_key[0]: node.key[0]}) if is_key and node is not None else source


def _with_columns(
    source: SourceMapping, table: SourceTable, columns: Mapping[str, str], ignore: Sequence[str]
) -> SourceMapping:
    own = {column: name.partition(".")[2] for name, column in columns.items() if name.partition(".")[0] == source.type}
    ignored = dict.fromkeys(column for column in ignore if column in table.columns)
    return replace(source, columns={**source.columns, **ignored, **own}) if own or ignored else source
