"""Export a snapshot as one stream, of graph JSONL or for other programs, or as Parquet files, in bounded memory."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.graph_encoding import GraphEncoder, GraphmlEncoder, NodeLinkEncoder, check_ends
from omnigraph.engine.jsonl_encoding import iter_json_lines
from omnigraph.engine.writing.blobs import iter_stored_by_id, list_blob_properties
from omnigraph.errors import BadArgumentError, Kind, OmnigraphError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.locations import Location, locate, parse_scheme, resolve_local_path
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType, Catalog, NodeType
from omnigraph.schema.types import VectorOf
from omnigraph.storage.lance_table import LanceTable, verify
from omnigraph.storage.s3_object_store import S3ObjectStore
from omnigraph.storage.table_cache import VerifyLevel

# A batch has at most this number of rows, and of vector components: 4 Mi floats are 16 MiB.
BATCH_ROWS = 8_192
BATCH_FLOATS = 4 * 1024 * 1024
# Lines of JSON are written in chunks of about this size.
CHUNK_BYTES = 1024 * 1024


class ExportFormat(Enum):
    """The file format of an export."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    GRAPHML = "graphml"
    NODE_LINK = "node-link"


class ExportTargetError(OmnigraphError):
    """The target of an export can't be written to."""

    kind = Kind.INVALID
    code = "export_target"
    target: str
    reason: str
    message = "can't export to {target}: {reason}"


class Exported(JsonStruct, frozen=True, kw_only=True):
    """The result of an export: the exported commit, and the number of rows by type."""

    commit_id: str
    format: ExportFormat
    rows: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportProgress:
    """The progress of an export: the current type, and the number of rows written of all types."""

    type: str
    rows: int
    total_rows: int


def export_graph(
    session: Session,
    snapshot: Snapshot,
    target: str | os.PathLike[str] | BinaryIO,
    *,
    format: ExportFormat = ExportFormat.JSONL,
    types: Sequence[str] | None = None,
    progress: Callable[[ExportProgress], None] | None = None,
) -> Exported:
    """Write the rows of a snapshot: node types then edge types in declared order, the rows of each by id.

    A file appears when it is complete, or not at all; a stream that was passed in keeps what was written to it.

    Raises:
        TypeMissingError: The snapshot has no type of that name.
        ExportTargetError: The target can't be written to.
        PinUnreadableError: A file of a table is damaged.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The session's budget ran out.
    """
    session.allow(Action.EXPORT, snapshot.branch, hides_rows=True)
    selected = select_types(session.load_catalog(snapshot), types)
    tables = session.open_tables(snapshot)
    counts = _ExportCounter(selected, sum(tables.open_table(type_.table_key).count() for type_ in selected), progress)
    if format in (ExportFormat.GRAPHML, ExportFormat.NODE_LINK):
        check_ends(selected)
    if format is ExportFormat.PARQUET:
        if not isinstance(target, str | os.PathLike):
            raise ExportTargetError("a stream", "Parquet is a file for each type; name a directory")
        _export_parquet(session, snapshot, counts, os.fspath(target))
    elif isinstance(target, str | os.PathLike):
        with _open_output(session, locate_target(target), os.fspath(target)) as file:
            _export_stream(session, snapshot, counts, format, file)
    else:
        _export_stream(session, snapshot, counts, format, target)
    return Exported(commit_id=snapshot.commit.id, format=format, rows=counts.written)


class _ExportCounter:
    """The types to write, and the number of rows written of each."""

    def __init__(self, types: Sequence[AnyType], total: int, progress: Callable[[ExportProgress], None] | None) -> None:
        self.types = types
        self.written = dict.fromkeys((type_.name for type_ in types), 0)
        self._total, self._progress = total, progress

    def add(self, type_: AnyType, rows: int) -> None:
        """Add to the rows of a type, and report progress."""
        self.written[type_.name] += rows
        if self._progress is not None:
            done = sum(self.written.values())
            self._progress(ExportProgress(type=type_.name, rows=done, total_rows=self._total))


def select_types(catalog: Catalog, names: Sequence[str] | None) -> list[AnyType]:
    """Return the types of these names, or all: node types then edge types, in declared order.

    Raises:
        TypeMissingError: The schema has no type of that name.
    """
    all_types = list(catalog.types)
    if names is None:
        return all_types
    selected: set[str] = set()
    for name in names:
        type_ = catalog.find_type(name) or catalog.find_edge(name)
        if type_ is None:
            raise TypeMissingError(name, find_closest(name, [candidate.name for candidate in all_types]))
        selected.add(type_.name)
    return [type_ for type_ in all_types if type_.name in selected]


# --- rows, by id -----------------------------------------------------------------------------------


def iter_ordered_rows(table: LanceTable, type_: AnyType) -> Iterator[pa.Table]:
    """Yield all rows of a table by id, in batches; only the ids are in memory together.

    A table stored in this order is streamed; otherwise the rows are looked up in order. All files are compared with
    their checksums first, whatever their size: an export may become the only copy.

    Raises:
        PinUnreadableError: A file does not match its checksum.
    """
    # Indexes are not read by an export, so only the fragments are verified.
    verify(table, VerifyLevel.WHOLE, only={fragment.number for fragment in table.list_fragments()})
    schema = build_arrow_schema(type_)
    # Blobs decide the size of such a batch, not the number of rows.
    if list_blob_properties(type_):
        yield from (pa.Table.from_batches([batch]) for batch in iter_stored_by_id(type_, table))
        return
    batch_rows = _choose_batch_rows(type_)
    ids = table.scan([ID])[ID]
    if _is_sorted(ids):
        for batch in table.iter_batches(schema.names, batch_rows=batch_rows):
            yield pa.Table.from_batches([batch]).select(schema.names)
        return
    # Positions take 8 bytes a row; the rows themselves are fetched batch by batch.
    positions = pc.sort_indices(ids)
    for start in range(0, len(positions), batch_rows):
        yield table.take(positions.slice(start, batch_rows), schema.names)


def _is_sorted(ids: pa.ChunkedArray) -> bool:
    if len(ids) < 2:
        return True
    whole = ids.combine_chunks()
    return bool(pc.all(pc.less_equal(whole.slice(0, len(whole) - 1), whole.slice(1))).as_py())


def _choose_batch_rows(type_: AnyType) -> int:
    """Return the number of rows that keeps a batch in the tens of megabytes."""
    floats = sum(p.type.size for p in type_.properties if isinstance(p.type, VectorOf))
    return min(BATCH_ROWS, BATCH_FLOATS // floats) if floats else BATCH_ROWS


# --- the formats --------------------------------------------------------------------------------------


def _export_stream(
    session: Session, snapshot: Snapshot, counts: _ExportCounter, format: ExportFormat, out: BinaryIO
) -> None:
    tables = session.open_tables(snapshot)
    encoder: GraphEncoder | None = None
    if format is not ExportFormat.JSONL:
        encoder = GraphmlEncoder(counts.types) if format is ExportFormat.GRAPHML else NodeLinkEncoder(counts.types)
        out.write(encoder.begin())
    for type_ in counts.types:
        for rows in iter_ordered_rows(tables.open_table(type_.table_key), type_):
            session.check_cancelled()
            lines = iter_json_lines(type_, rows) if encoder is None else encoder.encode(type_, rows)
            out.writelines(iter_chunks(lines))
            counts.add(type_, rows.num_rows)
    if encoder is not None:
        out.write(encoder.end())


def iter_chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in chunks large enough for a write."""
    parts: list[bytes] = []
    buffered = 0
    for line in lines:
        parts.append(line)
        buffered += len(line)
        if buffered >= CHUNK_BYTES:
            # A single line with a large blob is not copied once more.
            yield b"".join(parts) if len(parts) > 1 else parts[0]
            parts, buffered = [], 0
    if parts:
        yield b"".join(parts)


def _export_parquet(session: Session, snapshot: Snapshot, counts: _ExportCounter, directory: str) -> None:
    tables = session.open_tables(snapshot)
    location = locate_target(directory)
    for type_ in counts.types:
        name = build_parquet_name(type_)
        schema = build_arrow_schema(type_)
        with (
            _open_output(session, location.join(name), f"{directory.rstrip('/')}/{name}") as file,
            pa_parquet.ParquetWriter(file, schema) as writer,
        ):
            for rows in iter_ordered_rows(tables.open_table(type_.table_key), type_):
                session.check_cancelled()
                writer.write_table(rows.cast(schema))
                counts.add(type_, rows.num_rows)


def build_parquet_name(type_: AnyType) -> str:
    """Return where a type's rows go below the target: `nodes/Person.parquet`, `edges/Knows.parquet`."""
    return f"{'nodes' if isinstance(type_, NodeType) else 'edges'}/{type_.name}.parquet"


# --- targets -------------------------------------------------------------------------------------------


def locate_target(target: str | os.PathLike[str]) -> Location:
    """Return the location that an export writes to.

    Raises:
        ExportTargetError: The address is not one that can be written to.
    """
    text = os.fspath(target)
    try:
        return locate(text) if parse_scheme(text) is not None else Location(str(resolve_local_path(text).absolute()))
    except BadArgumentError as error:
        _, reason = error.args
        raise ExportTargetError(f"`{text}`", reason) from error


@contextmanager
def _open_output(session: Session, location: Location, name: str) -> Iterator[BinaryIO]:
    """Open a file or object for writing; it appears when it is complete, or not at all."""
    if location.bucket is None:
        with wrap_file_errors(name), _open_replacement(session, Path(location.path), name) as file:
            yield file
    else:
        # An upload in parts becomes an object when it is completed, so no temporary key is needed.
        with S3ObjectStore(location.bucket, "", session.runtime.options.storage).open_writer(location.path) as file:
            yield file


@contextmanager
def _open_replacement(session: Session, path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a temporary file that is renamed to `path` when it is complete."""
    if path.is_dir():
        raise ExportTargetError(f"`{name}`", "it is a directory; name a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same directory, so that the rename stays on one file system; hidden, so that loads ignore it.
    unfinished = path.with_name(f".{path.name}.{session.runtime.ids.ulid()}")
    try:
        with unfinished.open("xb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def wrap_file_errors(name: str) -> Iterator[None]:
    """Convert errors of the file system to ExportTargetError."""
    try:
        yield
    except OSError as error:
        raise ExportTargetError(f"`{name}`", error.strerror or str(error)) from error
