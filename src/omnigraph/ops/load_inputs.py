"""What a load is given: files, directories, patterns, streams and Arrow data, expanded into inputs in a fixed order.

A directory stands for every file below it that can be loaded, a pattern for every file that it matches; both by name,
and without names that start with `.` or `_`, which other tools write for themselves. The same holds for `s3://`, where
a prefix is a directory.
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.input_files import (
    TYPED_ENDINGS,
    FileFormatError,
    find_ending,
    read_file_chunks,
    translate_file_errors,
)
from omnigraph.engine.decoding.json_lines import iter_chunks
from omnigraph.engine.decoding.record_error import Reject, refuse
from omnigraph.engine.decoding.typed_files import ArrowStream, TypedFile, TypedTable, read_typed
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.errors import FileMissingError, Kind, OmnigraphError
from omnigraph.ids import Ids
from omnigraph.lang.spelling import find_closest
from omnigraph.locations import parse_scheme, resolve_local_path
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources
from omnigraph.storage.s3_input_files import InputFile, RemoteFile, find_remote_files

PathLike: TypeAlias = str | os.PathLike[str]

_PATTERN_SIGNS = frozenset("*?[")
_TYPED_ONLY_ENDINGS = frozenset({".parquet", ".csv", ".orc"})


class NoInputError(OmnigraphError):
    """A directory or pattern stands for no file at all; `reason` says why."""

    kind = Kind.NOT_FOUND
    code = "no_input"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"`{self.path}` names nothing to load: {self.reason}"


class InputTwiceError(OmnigraphError):
    """One file is named twice, so its records would be loaded twice, or as two types."""

    kind = Kind.USAGE
    code = "input_twice"

    def __init__(self, path: str, first: str) -> None:
        super().__init__(path, first)
        self.path, self.first = path, first

    def __str__(self) -> str:
        again = "" if self.first == self.path else f" (it is the same file as `{self.first}`)"
        return f"`{self.path}` is named twice{again}; name every file once"


class BadInputNameError(OmnigraphError):
    """A text such as `Person=people.csv` or `Person.name=full_name` is not of its form."""

    kind = Kind.USAGE
    code = "bad_input_name"

    def __init__(self, text: str, form: str) -> None:
        super().__init__(text, form)
        self.text, self.form = text, form

    def __str__(self) -> str:
        return f"`{self.text}` is not of the form `{self.form}`"


class InputElsewhereError(OmnigraphError):
    """An input is named by an address that a load can't read from."""

    kind = Kind.USAGE
    code = "input_elsewhere"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return (
            f"`{self.address}` is no path: a load reads files of this machine, or that it shares with Spark's, and"
            " where the graph itself is opened, `s3://bucket/key`."
            " Copy it to one, mount the store, or let Spark read it: `graph.spark.load(nodes={...: spark.read...})`"
        )


class TypeKindError(OmnigraphError):
    """Rows of a node type are given as edges, or the other way round; `given_as` is `nodes` or `edges`."""

    kind = Kind.USAGE
    code = "type_kind"

    def __init__(self, name: str, given_as: str) -> None:
        super().__init__(name, given_as)
        self.name, self.given_as = name, given_as

    def __str__(self) -> str:
        found, way_out = ("a node", "`nodes` (--node)") if self.given_as == "edges" else ("an edge", "`edges` (--edge)")
        return f"`{self.name}` is {found} type, and its rows are given as {self.given_as}; give them by {way_out}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSource:
    """Graph JSONL: a path (also a directory or pattern), or bytes that are read once; then `name` is for messages."""

    data: PathLike | BinaryIO | Iterable[bytes]
    name: str = "<stream>"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedSource:
    """Rows of one type: paths (also directories or patterns), or Arrow data.

    `columns` maps a property, `id`, `from` or `to` to the column that holds it, where their names differ.
    """

    type: str
    is_edge: bool
    data: PathLike | tuple[PathLike, ...] | ArrowStream
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadInput:
    """Everything that one load reads."""

    graph: tuple[GraphSource, ...] = ()
    typed: tuple[TypedSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLines:
    """One graph JSONL: a file, or bytes that are read once."""

    name: str
    data: InputFile | BinaryIO | Iterable[bytes]
    catalog: Catalog
    is_partial: bool
    blobs: BlobSources


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSource:
    """One file, stream or table of a load. `type` is None for graph JSONL; `size` is in bytes, where it is known."""

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
        """The rows, a window at a time; bad records go to `reject`, in the order of their lines.

        Of graph JSONL, `read` is told the bytes as they are taken from the file or stream, and `describe` what its
        metadata says.
        """
        match self.source:
            case GraphLines() as lines:
                return _read_graph_rows(lines, ids, reject, read, describe)
            case TypedFile() | TypedTable() as typed:
                return read_typed(typed, ids, reject=reject)


def expand_inputs(
    given: LoadInput,
    catalog: Catalog,
    *,
    is_partial: bool = False,
    blobs: BlobSources = NO_SOURCES,
    storage: Mapping[str, str] | None = None,
) -> tuple[InputSource, ...]:
    """Every input, in the order given, the files of a directory or pattern by name; nothing is read yet.

    `is_partial` as in `Origin`: for a merge, a record may leave out what the row that is there has. `blobs` are the
    places that a Blob's URI may lead to. `storage` are the settings by which `s3://` is reached; without it, it is not.

    Raises:
        FileMissingError: A path does not exist.
        NoInputError: A directory or pattern stands for no file.
        FileFormatError: The ending of a file's name is none that can be loaded.
        TypeMissingError: A type's name is not known.
        TypeKindError: Rows of a node type are given as edges, or the other way round.
        InputTwiceError: A file is named twice.
        InputElsewhereError: It is named by an address that is not read from.
        StoreDeniedError, StoreUnavailableError: A bucket can't be listed.
    """
    found: list[InputSource] = []
    for source in given.graph:
        found += _expand_graph(source, catalog, storage, is_partial=is_partial, blobs=blobs)
    for typed in given.typed:
        found += _expand_typed(typed, resolve_type(typed, catalog), storage, is_partial=is_partial, blobs=blobs)
    _check_distinct(found)
    return tuple(found)


def count_bytes(given: LoadInput, storage: Mapping[str, str] | None = None) -> int | None:
    """How many bytes its files have; None when part of it is no file. Raises what `expand_inputs` says of paths."""
    paths: list[PathLike] = []
    for data in (*(one.data for one in given.graph), *(one.data for one in given.typed)):
        if isinstance(data, str | os.PathLike):
            paths.append(data)
        elif isinstance(data, tuple):
            paths += data
        else:
            return None
    return sum(_measure_size(file) for path in paths for file in _list_files(path, storage))


def list_files(path: PathLike, storage: Mapping[str, str] | None = None) -> Sequence[InputFile]:
    """Return the files that a path, directory or pattern stands for. Raises what `expand_inputs` says of paths."""
    return _list_files(path, storage)


def is_rereadable(given: LoadInput, storage: Mapping[str, str] | None = None) -> bool:
    """Return whether a load reads files only, and none that is a pipe: a second load would read the same."""
    sources: list[object] = [*(one.data for one in given.graph), *(one.data for one in given.typed)]
    paths = [path for data in sources for path in (data if isinstance(data, tuple) else (data,))]
    return all(
        isinstance(path, str | os.PathLike)
        and all(isinstance(file, RemoteFile) or file.is_file() for file in list_files(path, storage))
        for path in paths
    )


def parse_maps(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """By type, which column holds which property: of texts `Person.name=full_name`."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        target, sign, column = text.partition("=")
        type_name, dot, name = target.partition(".")
        if not (sign and dot and type_name and name and column):
            raise BadInputNameError(text, "Type.property=column")
        columns = found.setdefault(type_name, {})
        if columns.get(name, column) != column:
            raise BadInputNameError(text, f"Type.property=column, each property once (`{columns[name]}` came before)")
        columns[name] = column
    return found


# --- graph JSONL -------------------------------------------------------------------------------------


def _expand_graph(
    source: GraphSource, catalog: Catalog, storage: Mapping[str, str] | None, *, is_partial: bool, blobs: BlobSources
) -> Iterator[InputSource]:
    if not isinstance(source.data, str | os.PathLike):
        lines = GraphLines(name=source.name, data=source.data, catalog=catalog, is_partial=is_partial, blobs=blobs)
        yield InputSource(name=source.name, type=None, size=None, source=lines)
        return
    for path in _list_files(source.data, storage):
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
    """The type that a source has rows of; TypeMissingError when there is none."""
    known: Mapping[str, AnyType] = catalog.edges if source.is_edge else catalog.nodes
    found = catalog.find_edge(source.type) if source.is_edge else catalog.nodes.get(source.type)
    if found is None:
        if source.type in (catalog.nodes if source.is_edge else catalog.edges):
            raise TypeKindError(source.type, "edges" if source.is_edge else "nodes")
        raise TypeMissingError(source.type, find_closest(source.type, known))
    return found


def _expand_typed(
    source: TypedSource, type_: AnyType, storage: Mapping[str, str] | None, *, is_partial: bool, blobs: BlobSources
) -> Iterator[InputSource]:
    if isinstance(source.data, ArrowStream):
        name = f"<{'edges' if source.is_edge else 'nodes'} {type_.name}>"
        table = TypedTable(
            label=name, data=source.data, type=type_, columns=source.columns, is_partial=is_partial, blobs=blobs
        )
        yield InputSource(name=name, type=type_, size=None, source=table)
        return
    paths = source.data if isinstance(source.data, tuple) else (source.data,)
    for path in (path for one in paths for path in _list_files(one, storage)):
        if find_ending(path) not in TYPED_ENDINGS:
            raise FileFormatError(str(path))
        file = TypedFile(path=path, type=type_, columns=source.columns, is_partial=is_partial, blobs=blobs)
        yield InputSource(name=str(path), type=type_, size=_measure_size(path), source=file)


# --- paths -------------------------------------------------------------------------------------------


def _list_files(given: PathLike, storage: Mapping[str, str] | None) -> Sequence[InputFile]:
    text = os.fspath(given)
    match parse_scheme(text):
        case None | "file":
            path = resolve_local_path(text)
        case "s3" if storage is not None:
            return _list_remote_files(text, storage)
        case _:
            raise InputElsewhereError(text)
    text = str(path)
    with translate_file_errors(text):
        if path.is_dir():
            return _list_files_below(path)
        if path.exists():
            return [path]
        if not _PATTERN_SIGNS & set(text):
            raise FileMissingError(text)
        matched = sorted(Path(one) for one in glob.glob(text, recursive=True))  # noqa: PTH207 - also absolute patterns
        found = [file for one in matched if not _is_hidden(one.name) for file in _list_matched_files(one)]
    if not found:
        raise NoInputError(text, "no file matches the pattern")
    return list(dict.fromkeys(found))


def _list_remote_files(address: str, storage: Mapping[str, str]) -> list[RemoteFile]:
    """The objects that an address stands for, by the rules of directories and patterns."""
    found = find_remote_files(address, storage)
    if not found and not _PATTERN_SIGNS & set(address):
        raise FileMissingError(address)
    kept = [one for one in found if not any(map(_is_hidden, (one.matched or "", *one.remaining_names)))]
    for one in kept:
        for name in one.remaining_names[:-1]:
            if "=" in name:
                raise NoInputError(address, _describe_partition(name))
    if not kept:
        raise NoInputError(address, "no object matches the pattern, or is below it, but for hidden ones")
    return [one.file for one in kept]


def _describe_partition(name: str) -> str:
    return f"`{name}` is a partition, whose column its files lack; write files that have all columns"


def _list_matched_files(path: Path) -> list[Path]:
    return _list_files_below(path) if path.is_dir() else [path]


def _list_files_below(directory: Path) -> list[Path]:
    found: list[Path] = []
    for entry in sorted(directory.iterdir()):
        if _is_hidden(entry.name):
            continue
        if not entry.is_dir():
            found.append(entry)
        elif "=" in entry.name:
            raise NoInputError(str(directory), _describe_partition(entry.name))
        else:
            found += _list_files_below(entry)
    if not found:
        raise NoInputError(str(directory), "the directory holds no files")
    return found


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _measure_size(path: InputFile) -> int:
    if isinstance(path, RemoteFile):
        return path.size
    with translate_file_errors(str(path)):
        return path.stat().st_size


def _check_distinct(inputs: list[InputSource]) -> None:
    seen: dict[InputFile, str] = {}
    for one in inputs:
        path = one.source.data if isinstance(one.source, GraphLines) else getattr(one.source, "path", None)
        if not isinstance(path, InputFile):
            continue
        place = path.resolve() if isinstance(path, Path) else path
        if place in seen:
            raise InputTwiceError(one.name, seen[place])
        seen[place] = one.name
