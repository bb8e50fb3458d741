"""Expand the sources of a load, files, directories, patterns, streams and Arrow data, into inputs in a fixed order.

A directory selects every file below it, a pattern every file that it matches; both in the order of their names, and
without names that start with `.` or `_`, which other tools write for themselves. The same applies to `s3://`, where a
prefix is a directory. Names such as `year=2026` of directories below hold values of the files' rows.
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.input_files import (
    TYPED_ENDINGS,
    FileFormatError,
    find_ending,
    read_file_chunks,
    translate_file_errors,
)
from omnigraph.engine.decoding.json_lines import iter_chunks
from omnigraph.engine.decoding.partition_values import parse_partition
from omnigraph.engine.decoding.record_error import Reject, refuse
from omnigraph.engine.decoding.typed_files import ArrowStream, TypedFile, TypedTable, read_typed
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.errors import BadArgumentError, FileMissingError, MissingError
from omnigraph.ids import Ids
from omnigraph.lang.spelling import find_closest
from omnigraph.locations import parse_scheme, resolve_local_path
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources
from omnigraph.storage.s3_input_files import InputFile, RemoteFile, find_remote_files

PathLike: TypeAlias = str | os.PathLike[str]

_PATTERN_SIGNS = frozenset("*?[")
# Formats with columns of one type, which can't contain graph JSONL.
_TYPED_ONLY_ENDINGS = frozenset({".parquet", ".csv", ".orc"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSource:
    """Graph JSONL: a path, directory or pattern, or bytes that are read once and called `name` in messages.

    `unit` is the word for the number of a line: in bytes made of another format, each line may be a row of that.
    """

    data: PathLike | BinaryIO | Iterable[bytes]
    name: str = "<stream>"
    unit: str = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedSource:
    """Rows of one type: paths, directories or patterns, or Arrow data.

    `columns` maps a property, `id`, `from` or `to` to its column, where their names differ.
    """

    type: str
    is_edge: bool
    data: PathLike | tuple[PathLike, ...] | ArrowStream
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadInput:
    """All sources of a load."""

    graph: tuple[GraphSource, ...] = ()
    typed: tuple[TypedSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLines:
    """An input of graph JSONL: a file, or bytes that are read once."""

    name: str
    data: InputFile | BinaryIO | Iterable[bytes]
    catalog: Catalog
    is_partial: bool
    blobs: BlobSources
    unit: str = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSource:
    """A file, stream or table of a load. `type` is None for graph JSONL; `size` is in bytes, or None if unknown."""

    name: str
    type: AnyType | None
    size: int | None
    source: GraphLines | TypedFile | TypedTable

    def read_rows(
        self,
        ids: Ids,
        *,
        reject: Reject = refuse,
        read: Callable[[int], None] | None = None,
        describe: Callable[[str], None] | None = None,
    ) -> Iterator[TypedRows]:
        """Yield the rows in windows; invalid records go to `reject`, in the order of their lines.

        For graph JSONL, `read` is called with the number of bytes of each chunk, and `describe` with the metadata.
        """
        match self.source:
            case GraphLines() as lines:
                return _read_graph_rows(lines, ids, reject, read, describe)
            case TypedFile() | TypedTable() as typed:
                return read_typed(typed, ids, reject=reject)


def expand_inputs(
    load_input: LoadInput,
    catalog: Catalog,
    *,
    is_partial: bool = False,
    blobs: BlobSources = NO_SOURCES,
    storage: Mapping[str, str] | None = None,
) -> tuple[InputSource, ...]:
    """Return all inputs in the order of the sources, the files of a directory or pattern by name. Reads no file yet.

    `is_partial` as in `RowOrigin`: for a merge, a record may omit properties that the existing row has. `blobs` are the
    allowed locations of Blob URIs. `storage` are the settings for `s3://`; without them, such addresses are rejected.

    Raises:
        FileMissingError: A path does not exist.
        MissingError: A directory or pattern selects no file.
        FileFormatError: A file name has an unknown ending.
        TypeMissingError: The schema has no type of that name.
        BadArgumentError: Rows of a node type are given as edges, or the other way round; a file is named twice; an
            address can't be read from.
        StoreDeniedError, StoreUnavailableError: A bucket can't be listed.
    """
    inputs: list[InputSource] = []
    for source in load_input.graph:
        inputs += _expand_graph(source, catalog, storage, is_partial=is_partial, blobs=blobs)
    for typed in load_input.typed:
        inputs += _expand_typed(typed, resolve_type(typed, catalog), storage, is_partial=is_partial, blobs=blobs)
    # After expansion: a file may also come twice by a directory and a pattern.
    _check_distinct(inputs)
    return tuple(inputs)


def count_bytes(load_input: LoadInput, storage: Mapping[str, str] | None = None) -> int | None:
    """Return the size of all files, or None if a source is not a file. Raises what `expand_inputs` raises for paths."""
    paths: list[PathLike] = []
    for data in (*(source.data for source in load_input.graph), *(source.data for source in load_input.typed)):
        # Streams and tables don't know their size.
        if isinstance(data, str | os.PathLike):
            paths.append(data)
        elif isinstance(data, tuple):
            paths += data
        else:
            return None
    return sum(_measure_size(file) for path in paths for file in list_files(path, storage))


def is_rereadable(load_input: LoadInput, storage: Mapping[str, str] | None = None) -> bool:
    """Return whether all sources are regular files, which a second load can read again."""
    contents: list[object] = [source.data for source in load_input.graph]
    contents += [source.data for source in load_input.typed]
    paths = [path for data in contents for path in (data if isinstance(data, tuple) else (data,))]
    return all(
        isinstance(path, str | os.PathLike)
        and all(isinstance(file, RemoteFile) or file.is_file() for file in list_files(path, storage))
        for path in paths
    )


def parse_maps(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Parse texts such as `Person.name=full_name` into columns by type and property."""
    maps: dict[str, dict[str, str]] = {}
    for text in texts:
        target, sign, column = text.partition("=")
        type_name, dot, name = target.partition(".")
        if not (sign and dot and type_name and name and column):
            raise BadArgumentError.bad_input_name(text, "Type.property=column")
        columns = maps.setdefault(type_name, {})
        if columns.get(name, column) != column:
            raise BadArgumentError.bad_input_name(
                text, f"Type.property=column, each property once (`{columns[name]}` came before)"
            )
        columns[name] = column
    return maps


# --- graph JSONL -------------------------------------------------------------------------------------


def _expand_graph(
    source: GraphSource, catalog: Catalog, storage: Mapping[str, str] | None, *, is_partial: bool, blobs: BlobSources
) -> Iterator[InputSource]:
    if not isinstance(source.data, str | os.PathLike):
        lines = GraphLines(
            name=source.name,
            data=source.data,
            catalog=catalog,
            is_partial=is_partial,
            blobs=blobs,
            unit=source.unit,
        )
        yield InputSource(name=source.name, type=None, size=None, source=lines)
        return
    for path, partition in find_files(source.data, storage):
        if partition:
            reason = f"`{next(iter(partition))}=` names a column of one type; name the type, as in `--node Person=PATH`"
            raise MissingError.no_input(str(source.data), reason)
        if find_ending(path) in _TYPED_ONLY_ENDINGS:
            raise FileFormatError(str(path), "it holds rows of one type: name the type, as in `--node Person=PATH`")
        lines = GraphLines(name=str(path), data=path, catalog=catalog, is_partial=is_partial, blobs=blobs)
        yield InputSource(name=str(path), type=None, size=_measure_size(path), source=lines)


def _read_graph_rows(
    lines: GraphLines,
    ids: Ids,
    reject: Reject,
    read: Callable[[int], None] | None,
    describe: Callable[[str], None] | None,
) -> Iterator[TypedRows]:
    chunks = read_file_chunks(lines.data) if isinstance(lines.data, InputFile) else iter_chunks(lines.data)
    return read_graph_records(
        chunks if read is None else _report_bytes(chunks, read),
        lines.catalog,
        ids,
        name=lines.name,
        unit=lines.unit,
        is_partial=lines.is_partial,
        blobs=lines.blobs,
        reject=reject,
        describe=describe,
    )


def _report_bytes(chunks: Iterable[bytes], read: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        read(len(chunk))
        yield chunk


# --- files of one type -------------------------------------------------------------------------------


def resolve_type(source: TypedSource, catalog: Catalog) -> AnyType:
    """Return the type of the rows of a source.

    Raises:
        BadArgumentError: A node type is given as edges, or the other way round.
        TypeMissingError: The schema has no type of that name.
    """
    candidates: Mapping[str, AnyType] = catalog.edges if source.is_edge else catalog.nodes
    # The name of an edge type is matched in any case, that of a node type exactly.
    type_ = catalog.find_edge(source.type) if source.is_edge else catalog.nodes.get(source.type)
    if type_ is None:
        if source.type in (catalog.nodes if source.is_edge else catalog.edges):
            raise BadArgumentError.type_kind(source.type, "edges" if source.is_edge else "nodes")
        raise TypeMissingError(source.type, find_closest(source.type, candidates))
    return type_


def _expand_typed(
    source: TypedSource, type_: AnyType, storage: Mapping[str, str] | None, *, is_partial: bool, blobs: BlobSources
) -> Iterator[InputSource]:
    if isinstance(source.data, ArrowStream):
        name = format_input(type_)
        table = TypedTable(
            label=name, data=source.data, type=type_, columns=source.columns, is_partial=is_partial, blobs=blobs
        )
        yield InputSource(name=name, type=type_, size=None, source=table)
        return
    paths = source.data if isinstance(source.data, tuple) else (source.data,)
    for path, partition in (each for location in paths for each in find_files(location, storage)):
        if find_ending(path) not in TYPED_ENDINGS:
            raise FileFormatError(str(path))
        file = TypedFile(
            path=path, type=type_, columns=source.columns, is_partial=is_partial, blobs=blobs, partition=partition
        )
        yield InputSource(name=str(path), type=type_, size=_measure_size(path), source=file)


def format_input(type_: AnyType) -> str:
    """Return the name of a table of rows, for messages."""
    return f"<{'edges' if isinstance(type_, EdgeType) else 'nodes'} {type_.name}>"


# --- paths -------------------------------------------------------------------------------------------


def list_files(address: PathLike, storage: Mapping[str, str] | None = None) -> Sequence[InputFile]:
    """Return the files that a path, directory or pattern selects. Raises what `expand_inputs` raises for paths."""
    return [selected.file for selected in find_files(address, storage)]


class SelectedFile(NamedTuple):
    """A file, and the values in the names of the directories between it and what was asked for."""

    file: InputFile
    partition: Mapping[str, str | None]


def find_files(address: PathLike, storage: Mapping[str, str] | None = None) -> Sequence[SelectedFile]:
    """Return the files as `list_files` does, with the values that the names of directories hold."""
    text = os.fspath(address)
    match parse_scheme(text):
        case None | "file":
            path = resolve_local_path(text)
        case "s3" | "az" if storage is not None:
            return _list_remote_files(text, storage)
        case _:
            raise BadArgumentError.input_elsewhere(text)
    text = str(path)
    with translate_file_errors(text):
        if path.is_dir():
            return _list_files_below(path)
        # Before patterns: a name with `[` may be that of a file.
        if path.exists():
            return [SelectedFile(path, {})]
        if not _PATTERN_SIGNS & set(text):
            raise FileMissingError(text)
        matched = sorted(Path(match) for match in glob.glob(text, recursive=True))  # noqa: PTH207 - also absolute patterns
        files = [file for match in matched if not _is_hidden(match.name) for file in _list_matched_files(match)]
    if not files:
        raise MissingError.no_input(text, "no file matches the pattern")
    # A pattern such as `**` matches a directory and the files below it. What it matches holds no values: so a pattern
    # leaves them out.
    return list({selected.file: selected for selected in files}.values())


def _list_remote_files(address: str, storage: Mapping[str, str]) -> list[SelectedFile]:
    """Return the objects that an address selects, by the same rules as for directories and patterns."""
    matches = find_remote_files(address, storage)
    if not matches and not _PATTERN_SIGNS & set(address):
        raise FileMissingError(address)
    visible = [match for match in matches if not any(map(_is_hidden, (match.matched or "", *match.remaining_names)))]
    if not visible:
        raise MissingError.no_input(address, "no object matches the pattern or is below it, apart from hidden ones")
    # Of names below the matched one the last is the object, those before it are directories.
    return [SelectedFile(match.file, _parse_partitions(match.remaining_names[:-1])) for match in visible]


def _parse_partitions(directories: Iterable[str]) -> dict[str, str | None]:
    return dict(pair for directory in directories if (pair := parse_partition(directory)) is not None)


def _list_matched_files(path: Path) -> list[SelectedFile]:
    return _list_files_below(path) if path.is_dir() else [SelectedFile(path, {})]


def _list_files_below(directory: Path, above: tuple[str, ...] = ()) -> list[SelectedFile]:
    files: list[SelectedFile] = []
    # By name, so that the order of the records, and of their problems, is the same in every run.
    for entry in sorted(directory.iterdir()):
        if _is_hidden(entry.name):
            continue
        if not entry.is_dir():
            files.append(SelectedFile(entry, _parse_partitions(above)))
        else:
            files += _list_files_below(entry, (*above, entry.name))
    if not files:
        raise MissingError.no_input(str(directory), "the directory holds no files")
    return files


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _measure_size(path: InputFile) -> int:
    if isinstance(path, RemoteFile):
        return path.size
    with translate_file_errors(str(path)):
        return path.stat().st_size


def _check_distinct(inputs: list[InputSource]) -> None:
    seen: dict[InputFile, str] = {}
    for item in inputs:
        path = item.source.data if isinstance(item.source, GraphLines) else getattr(item.source, "path", None)
        if not isinstance(path, InputFile):
            continue
        # Two paths may name the same file through links or `..`.
        file = path.resolve() if isinstance(path, Path) else path
        if file in seen:
            raise BadArgumentError.input_twice(item.name, seen[file])
        seen[file] = item.name
