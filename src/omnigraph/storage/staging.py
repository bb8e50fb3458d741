"""Stage writes: write files, and describe their effect on a table. Readers see it only in a published version.

A staged write has two parts. The fragments that it *adds* fit any version of the table. The deletion files with which
it *removes* replaced or deleted rows fit only the version they were computed on, its `base`. So restaging a write on
another version reuses the fragments unchanged, and computes the deletions again from the row ids.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, write_fragments
from lance.progress import FragmentWriteProgress

from omnigraph.errors import CorruptError, Kind, OmnigraphError
from omnigraph.storage.carried_rows import encode_carried
from omnigraph.storage.cas_table_errors import OutdatedError
from omnigraph.storage.checksum_stamping import stamp_fragment
from omnigraph.storage.fragment_list import build_fragment_json, decode_json, encode_json
from omnigraph.storage.io_counters import attribute_requests, translate_store_errors
from omnigraph.storage.key_cache import is_small
from omnigraph.storage.key_lookup import MAX_KEYS_PER_PASS, RowLocations, find_existing
from omnigraph.storage.lance_table import LanceTable, is_blob, verify
from omnigraph.storage.layout import format_deletion_name, format_detached_name
from omnigraph.storage.local_encoding import encode_rows
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.row_deletion import delete_rows, remove_files
from omnigraph.storage.row_writer import learn_row, write_row
from omnigraph.storage.table_cache import VerifyLevel
from omnigraph.storage.watch import Watch
from omnigraph.storage.written_rows import iter_staged_batches
from omnigraph.telemetry import log as telemetry_log

ID = "id"
MAX_FRAGMENT_ROWS = 1_048_576
# An update verifies the files of the rows it replaces up to this total size, once per process: 5 ms of a core. Without
# a limit, the cost of a write of one row would follow the size of the table.
MAX_VERIFIED_BYTES = 64 * 1024 * 1024


class WriteKind(Enum):
    """The effect of a staged write on its table."""

    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"
    OVERWRITE = "overwrite"
    INDEX = "index"
    REWRITE = "rewrite"
    SCHEMA = "schema"


# The kinds of writes that leave all rows unchanged but those that they name.
ROW_CHANGES = frozenset({WriteKind.APPEND, WriteKind.UPSERT, WriteKind.DELETE})


class DuplicateRowError(OmnigraphError):
    """Two rows of one staged write have the same id."""

    kind = Kind.INVALID
    code = "duplicate_row"
    path: str
    row_id: str
    message = "two rows for {path} have the id `{row_id}`; give each id once"


# The base of a write whose deletions are computed in its turn.
UNPLACED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWrite:
    """A staged write of one table, as plain data."""

    change: WriteKind
    path: str
    base: int
    """The version that `updated` and `removed` were computed on, or `UNPLACED`."""
    written: tuple[str, ...] = ()
    """New fragments, as Lance's JSON."""
    written_rows: int = 0
    blobs: tuple[str, ...] = ()
    """Blob files of the new fragments, relative to the root: Lance's JSON does not name them."""
    keys: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    """The ids whose committed rows are replaced or deleted, as text."""
    is_keyed_by_rows: bool = False
    """Whether the ids of the new rows determine which rows are replaced: there are too many to hold as `keys`."""
    updated: tuple[str, ...] = ()
    """Fragments of `base` with new deletion files, as Lance's JSON."""
    removed: tuple[int, ...] = ()
    """Fragments of `base` that lose all rows."""
    taken_rows: int = 0
    """The number of rows of `base` that are removed."""
    base_rows: int = 0
    indexes: tuple[str, ...] = ()
    """New index segments, as JSON (see `index_staging`)."""
    replaced_indexes: tuple[str, ...] = ()
    """Segments that the new ones replace."""
    rewrites: tuple[str, ...] = ()
    """Groups of fragments and their replacements with the same rows, as JSON (see `compaction`)."""
    origin: int = 0
    """The version that the groups were read from, whatever `base` is by now."""
    preview: int = 0
    """An unpublished version: `origin` with the groups replaced, from which the new fragments are read or indexed."""
    fields: tuple[str, ...] = ()
    """The table's new fields as Lance serializes them, in hexadecimal (see `schema_staging`)."""
    fragments: tuple[str, ...] = ()
    """All fragments with the files of new columns, as Lance's JSON."""

    @property
    def is_placed(self) -> bool:
        """Whether it can be applied as it is to the version that it was staged on."""
        return self.base != UNPLACED

    @property
    def rows_after(self) -> int:
        """The number of rows in the table after this is applied to `base`."""
        retained = 0 if self.change is WriteKind.OVERWRITE else self.base_rows - self.taken_rows
        return retained + self.written_rows

    @property
    def has_effect(self) -> bool:
        """Whether applying this changes the table at all."""
        is_maintenance = self.indexes or self.replaced_indexes or self.rewrites
        # Overwriting with no rows has an effect too: the table is empty afterwards.
        is_replacement = self.change is WriteKind.OVERWRITE or self.fields
        return bool(self.written or self.taken_rows or is_maintenance or is_replacement)

    @property
    def files(self) -> tuple[str, ...]:
        """All files that this write created, relative to the root: to flush them, or to remove them if it fails."""
        groups = [decode_json(text) for text in self.rewrites]
        written = [
            *map(decode_json, self.written),
            *(fragment for group in groups for fragment in group["written"]),
        ]
        data = [f"{self.path}/data/{file['path']}" for fragment in written for file in fragment["files"]]
        # Deletions that arrive during a compaction are carried over, so its new fragments may have deletion files too.
        compacted = [fragment for group in groups for fragment in group["new"]]
        with_deletions = [*map(decode_json, self.updated), *filter(_has_deletions, compacted)]
        deletions = [f"{self.path}/{format_deletion_name(fragment)}" for fragment in with_deletions]
        segments = [decode_json(text) for text in self.indexes]
        indexes = [
            f"{self.path}/_indices/{segment['uuid']}/{file}" for segment in segments for file, _ in segment["files"]
        ]
        previews = [f"{self.path}/{format_detached_name(self.preview)}"] if self.preview else []
        return (*data, *self.blobs, *deletions, *indexes, *previews)

    def to_json(self) -> dict[str, object]:
        """Return the JSON form; versions are text because they exceed 2^63."""
        return {
            "change": self.change.value,
            "path": self.path,
            "base": str(self.base),
            "written": list(self.written),
            "written_rows": self.written_rows,
            "blobs": list(self.blobs),
            "keys": self.keys.to_pylist(),
            "is_keyed_by_rows": self.is_keyed_by_rows,
            "updated": list(self.updated),
            "removed": list(self.removed),
            "taken_rows": self.taken_rows,
            "base_rows": self.base_rows,
            "indexes": list(self.indexes),
            "replaced_indexes": list(self.replaced_indexes),
            "rewrites": list(self.rewrites),
            "fields": list(self.fields),
            "fragments": list(self.fragments),
            "origin": str(self.origin),
            "preview": str(self.preview),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "StagedWrite":
        """Decode the result of `to_json`.

        Raises:
            CorruptError: A field is missing, unknown or of another type.
        """
        expected = set(cls.__dataclass_fields__)
        if set(data) != expected:
            raise CorruptError.staged_write_unreadable(f"its fields are {sorted(data)}")
        try:
            return cls(
                change=WriteKind(data["change"]),
                path=_decode_text(data["path"]),
                base=int(_decode_text(data["base"])),
                written=_decode_texts(data["written"]),
                written_rows=_decode_count(data["written_rows"]),
                blobs=_decode_texts(data["blobs"]),
                keys=pa.array(_decode_texts(data["keys"]), pa.string()),
                is_keyed_by_rows=data["is_keyed_by_rows"] is True,
                updated=_decode_texts(data["updated"]),
                removed=tuple(_decode_count(n) for n in _decode_list(data["removed"])),
                taken_rows=_decode_count(data["taken_rows"]),
                base_rows=_decode_count(data["base_rows"]),
                indexes=_decode_texts(data["indexes"]),
                replaced_indexes=_decode_texts(data["replaced_indexes"]),
                rewrites=_decode_texts(data["rewrites"]),
                fields=_decode_texts(data["fields"]),
                fragments=_decode_texts(data["fragments"]),
                origin=int(_decode_text(data["origin"])),
                preview=int(_decode_text(data["preview"])),
            )
        except ValueError as error:
            raise CorruptError.staged_write_unreadable(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStream:
    """Rows that are read while they are written, so that they are never all in memory.

    Each call of `batches` starts from the first row; its errors reach the caller unchanged. `keys` are the ids among
    the rows that replace committed rows.
    """

    batches: Callable[[], Iterator[pa.RecordBatch]]
    keys: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    located: RowLocations | None = None
    """The addresses of the rows of all `keys`, if the caller has them; used only for the version they belong to."""


class WriteObserver(Protocol):
    """An observer that gets the names of files, relative to the root, as they are written, for recovery."""

    def on_begin(self, files: Sequence[str]) -> None:
        """Record files that are being written under temporary names."""
        ...

    def on_complete(self, files: Sequence[str]) -> None:
        """Record files that are complete."""
        ...


class NullObserver:
    """A WriteObserver that records nothing."""

    def on_begin(self, files: Sequence[str]) -> None:
        """See WriteObserver."""

    def on_complete(self, files: Sequence[str]) -> None:
        """See WriteObserver."""


NULL_OBSERVER = NullObserver()


def stage_append(table: LanceTable, rows: pa.Table | RowStream, observer: WriteObserver = NULL_OBSERVER) -> StagedWrite:
    """Stage new rows. The caller has checked that their ids are new; they are not checked here."""
    return _stage(table, WriteKind.APPEND, rows=rows, observer=observer)


def stage_upsert(
    table: LanceTable,
    rows: pa.Table | RowStream,
    observer: WriteObserver = NULL_OBSERVER,
    located: RowLocations | None = None,
    deleted: Sequence[str] = (),
    *,
    awaits_turn: bool = False,
) -> StagedWrite:
    """Stage rows that replace those with the same ids, or are new, and the removal of the rows with `deleted` ids.

    `located` has the addresses of the replaced and deleted rows, if the caller has looked them up. The ids of a stream
    are not checked for duplicates; the caller has done that. With `awaits_turn`, deletions are left to
    `restage_in_place` where the rows are located.

    Raises:
        DuplicateRowError: Two rows of a table have the same id.
    """
    if isinstance(rows, RowStream):
        # The keys of a stream are only those that replace a row, so each has an address.
        assert rows.located is None or len(rows.located.addresses) == len(rows.keys)  # noqa: S101 - each has one
        stream_located = located if rows.located is None else rows.located
        keys = _add_keys(rows.keys, deleted)
        return _stage(table, WriteKind.UPSERT, rows=rows, keys=keys, located=stream_located, observer=observer)
    ids = _combine_chunks(rows.column(ID))
    counts = ids.value_counts()
    repeated = counts.field(0).filter(pc.greater(counts.field(1), 1))
    if len(repeated):
        raise DuplicateRowError(table.path, repeated[0].as_py())
    keys = _add_keys(ids, deleted)
    return _stage(
        table,
        WriteKind.UPSERT,
        rows=rows,
        keys=keys,
        located=located,
        observer=observer,
        awaits_turn=awaits_turn,
    )


def _add_keys(keys: pa.Array, deleted: Sequence[str]) -> pa.Array:
    return pa.concat_arrays([keys, pa.array(list(deleted), pa.string())]) if deleted else keys


def stage_delete(
    table: LanceTable,
    ids: Sequence[str] | pa.Array,
    located: RowLocations | None = None,
    *,
    awaits_turn: bool = False,
) -> StagedWrite:
    """Stage the removal of the rows with these ids; unknown ids are ignored. The rest is as in `stage_upsert`."""
    keys = ids.unique() if isinstance(ids, pa.Array) else pa.array(sorted(set(ids)), pa.string())
    return _stage(table, WriteKind.DELETE, keys=keys, located=located, awaits_turn=awaits_turn)


def stage_overwrite(
    table: LanceTable, rows: pa.Table | RowStream, observer: WriteObserver = NULL_OBSERVER
) -> StagedWrite:
    """Stage rows, possibly none, that replace all rows of the table."""
    return _stage(table, WriteKind.OVERWRITE, rows=rows, observer=observer)


def stage_fragments(
    table: LanceTable, change: WriteKind, fragments: Sequence[str], rows: int, keys: Sequence[str] = ()
) -> StagedWrite:
    """Stage fragments that another process, such as a Spark executor, has written already."""
    staged = StagedWrite(
        change=change,
        path=table.path,
        base=table.version,
        written=tuple(fragments),
        written_rows=rows,
        blobs=list_blob_files(table, fragments),
        keys=pa.array(keys, pa.string()),
        base_rows=table.count(),
    )
    return _add_deletions(staged, table)


def stage_replacement(
    table: LanceTable,
    fragments: Sequence[str],
    rows: int,
    updated: Sequence[str],
    removed: Sequence[int],
    taken_rows: int,
) -> StagedWrite:
    """Stage an upsert whose fragments and deletions other processes, such as Spark executors, have written already."""
    return StagedWrite(
        change=WriteKind.UPSERT,
        path=table.path,
        base=table.version,
        written=tuple(fragments),
        written_rows=rows,
        blobs=list_blob_files(table, fragments),
        is_keyed_by_rows=True,
        updated=tuple(updated),
        removed=tuple(removed),
        taken_rows=taken_rows,
        base_rows=table.count(),
    )


def restage(staged: StagedWrite, table: LanceTable) -> StagedWrite:
    """Return the same write on another version: fragments are reused, deletions are computed again.

    Not for maintenance: see `compaction.rebase_staged`.

    Raises:
        OutdatedError: It is a change of columns, which names all files of one version.
    """
    if staged.fields:
        raise OutdatedError.columns_outdated(staged.path)
    rebased = replace(staged, base=table.version, base_rows=table.count(), updated=(), removed=(), taken_rows=0)
    return _add_deletions(rebased, table)


def restage_in_place(staged: StagedWrite, table: LanceTable, located: RowLocations | None) -> StagedWrite:
    """Return the same write on another version, in which the rows that it replaces are at the same addresses.

    `located` has these addresses; without it they are looked up.
    """
    rebased = replace(staged, base=table.version, base_rows=table.count(), updated=(), removed=(), taken_rows=0)
    if not staged.taken_rows:
        return rebased
    return _add_deletions(rebased, table, None if located is None else replace(located, version=table.version))


def _stage(
    table: LanceTable,
    change: WriteKind,
    rows: pa.Table | RowStream | None = None,
    keys: pa.Array | None = None,
    located: RowLocations | None = None,
    observer: WriteObserver = NULL_OBSERVER,
    *,
    awaits_turn: bool = False,
) -> StagedWrite:
    written = () if rows is None else write_rows(table, rows, observer)
    staged = StagedWrite(
        change=change,
        path=table.path,
        base=table.version,
        written=written,
        written_rows=sum(decode_json(text)["physical_rows"] for text in written),
        blobs=list_blob_files(table, written),
        keys=pa.array([], pa.string()) if keys is None else keys,
        base_rows=table.count(),
    )
    if awaits_turn and located is not None and located.is_of(table) and len(located.addresses):
        return replace(staged, base=UNPLACED, taken_rows=len(located.addresses))
    try:
        return _add_deletions(staged, table, located)
    except BaseException:  # the caller does not know these files yet
        remove_files(table, staged.files)
        raise


def write_rows(table: LanceTable, rows: pa.Table | RowStream, observer: WriteObserver) -> tuple[str, ...]:
    """Write rows into new fragments that no version has yet, and return these as Lance's JSON."""
    store = table.handles.store
    schema = table.handles.read_facts(table.path, table.version).schema
    source = _BatchSource(rows, _move_blobs_last(schema), table.watch)
    if source.is_empty:
        return ()
    if isinstance(rows, pa.Table) and rows.num_rows == 1 and not any(map(is_blob, schema)):
        written = write_row(table, source.stored, observer.on_complete)
        if written is not None:
            _note_written(table, decode_json(written), rows)
            return (written,)
    dataset = table.handles.open(table.path, table.version)
    if store.local is None and isinstance(rows, pa.Table) and is_small(rows) and not any(map(is_blob, schema)):
        try:
            return (_upload_rows(table, source.stored, rows),)
        except OSError as error:
            telemetry_log.info("rows of %s are not encoded on the local disk: %s", table.path, error)
    progress = _WriteProgress(table, observer)
    with attribute_requests(store.runtime.telemetry, "table"), translate_store_errors(f"write rows of {table.path}"):
        try:
            fragments = write_fragments(
                source.open_reader(),
                dataset,
                mode="append",
                max_rows_per_file=MAX_FRAGMENT_ROWS,
                storage_options=store.lance_options,
                # A table that is in memory is written before its progress could matter.
                progress=progress if isinstance(rows, RowStream) else None,
            )
        except Exception as error:
            # Lance reduces an exception of our own code, even an interrupt, to its text; raise the original.
            failure = source.failure or progress.failure
            if failure is not None:
                raise failure from error
            raise
    stamped = [
        stamp_fragment(store, table.path, build_fragment_json(fragment), observer.on_complete) for fragment in fragments
    ]
    if isinstance(rows, pa.Table) and len(stamped) == 1:
        _note_written(table, stamped[0], rows)
        if store.local is not None:
            key = f"{table.path}/data/{stamped[0]['files'][0]['path']}"
            learn_row(table, source.stored, stamped[0], lambda: store.objects.get(key).data)
    return tuple(map(encode_json, stamped))


def _upload_rows(table: LanceTable, stored: pa.Table, rows: pa.Table) -> str:
    """Write a few rows to an object store in the background, and return their fragment as Lance's JSON."""
    fragment, data = encode_rows(table.handles.get_twin(table.path, table.version), stored)
    learn_row(table, stored, fragment, lambda: data)
    table.handles.store.write_file(f"{table.path}/data/{fragment['files'][0]['path']}", data)
    _note_written(table, fragment, rows)
    return encode_json(fragment)


def _note_written(table: LanceTable, fragment: Mapping[str, Any], rows: pa.Table) -> None:
    files = tuple(file["path"] for file in fragment["files"])
    handles = table.handles
    numbers = handles.read_facts(table.path, table.version).numbers
    handles.carried.note_written(files[0], encode_carried(files, rows, numbers))
    if handles.keys is not None:
        handles.keys.note_written(table, files, rows)


class _BatchSource:
    """A single pass over rows in the form that Lance stores."""

    def __init__(self, rows: pa.Table | RowStream, schema: pa.Schema, watch: Watch | None) -> None:
        self._schema = schema
        self._rows = rows
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self.failure: BaseException | None = None
        if isinstance(rows, RowStream):
            # The first batch is read ahead: an empty stream must not write a fragment.
            self._batches = _check_between_batches((batch for batch in rows.batches() if batch.num_rows), watch)
            self._first = next(self._batches, None)
            self.is_empty = self._first is None
        else:
            self.is_empty = not rows.num_rows

    @cached_property
    def stored(self) -> pa.Table:
        """The rows of a table in the form that Lance stores."""
        assert isinstance(self._rows, pa.Table)  # noqa: S101 - a stream is not held
        return self._rows if self._rows.schema == self._schema else as_stored(self._rows, self._schema)

    def open_reader(self) -> pa.Table | pa.RecordBatchReader:
        """Return the rows as `write_fragments` accepts them."""
        if isinstance(self._rows, pa.Table):
            return self.stored
        return pa.RecordBatchReader.from_batches(self._schema, self._iter_stored())

    def _iter_stored(self) -> Iterator[pa.RecordBatch]:
        batch, self._first = self._first, None
        try:
            while batch is not None:
                yield from as_stored(pa.Table.from_batches([batch]), self._schema).to_batches()
                batch = next(self._batches, None)
        except BaseException as error:
            self.failure = error
            raise


def _check_between_batches(batches: Iterator[pa.RecordBatch], watch: Watch | None) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, and check the deadline before each."""
    for batch in batches:
        if watch is not None:
            watch.check()
        yield batch


class _WriteProgress(FragmentWriteProgress):
    """Report the files of each fragment to an observer, except for the last one, which the result contains."""

    def __init__(self, table: LanceTable, observer: WriteObserver) -> None:
        self._table = table
        self._observer = observer
        self.failure: BaseException | None = None

    def begin(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        """Report the open file, which has only a temporary name yet."""
        del fragment, kwargs
        with self._record_failure():
            self._observer.on_begin(list_open_files(self._table))

    def complete(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        """Report the file under its final name."""
        del kwargs
        with self._record_failure():
            files = [f"{self._table.path}/data/{file.path}" for file in fragment.files]
            self._observer.on_complete([*files, *list_blob_files(self._table, [encode_json(fragment.to_json())])])

    @contextmanager
    def _record_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise


_DESCRIPTOR_DIRECTORY = Path("/proc/self/fd")


def list_open_files(table: LanceTable) -> list[str]:
    """Return the temporary files that this process is writing for a table; empty except on Linux with a local disk."""
    # Lance does not reveal the temporary name of a file. On an object store, an aborted upload leaves no object.
    store = table.handles.store
    if not store.location.is_local or not _DESCRIPTOR_DIRECTORY.is_dir():
        return []
    directory = Path(store.resolve_uri(table.path)) / "data"
    files = []
    for descriptor in _DESCRIPTOR_DIRECTORY.iterdir():
        try:
            path = descriptor.readlink()
        except OSError:
            continue  # closed in the meantime
        if path.parent == directory and path.name.startswith(".tmp"):
            files.append(f"{table.path}/data/{path.name}")
    return files


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined


def as_stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the form that Lance stores: bytes become blobs, other columns are cast."""
    blobs = [field for field in schema if is_blob(field) and rows.schema.field(field.name).type == pa.large_binary()]
    for blob in blobs:
        position = rows.schema.get_field_index(blob.name)
        rows = rows.set_column(position, blob, lance.blob_array(rows.column(position).to_pylist()))
    return rows.select(schema.names).cast(schema) if rows.schema != schema else rows


def _move_blobs_last(schema: pa.Schema) -> pa.Schema:
    """Return the schema of data files, with blob columns after all others."""
    # The reader of a single file (`iter_staged_batches`) returns wrong columns after a blob: it counts the hidden
    # children of a blob as columns. Tables find their columns by field id, so their order in files does not matter.
    return pa.schema([*(field for field in schema if not is_blob(field)), *filter(is_blob, schema)], schema.metadata)


def list_blob_files(table: LanceTable, written: Sequence[str]) -> tuple[str, ...]:
    """Return the blob files of fragments, which Lance writes into a directory named after each data file."""
    if not written or not any(is_blob(field) for field in table.schema):
        return ()
    names = [file["path"] for text in written for file in decode_json(text)["files"]]
    objects = table.handles.store.objects
    return tuple(
        info.key for name in names for info in objects.list_under(f"{table.path}/data/{name.removesuffix('.lance')}")
    )


def _add_deletions(staged: StagedWrite, table: LanceTable, located: RowLocations | None = None) -> StagedWrite:
    if staged.is_keyed_by_rows:
        addresses = np.sort(_find_replaced_rows(staged, table))
    elif not len(staged.keys):
        return staged
    elif located is None or not located.is_of(table):
        addresses = np.sort(find_existing(table, lambda: staged.keys, len(staged.keys)).get_addresses())
    else:
        addresses = np.sort(located.addresses)
    # Without replaced rows this is skipped: listing the fragments takes 8 µs for each.
    if staged.change is WriteKind.UPSERT and len(addresses):
        _verify_replaced(table, addresses)
    updated, removed = delete_rows(table, addresses)
    return replace(staged, updated=updated, removed=removed, taken_rows=len(addresses))


def _verify_replaced(table: LanceTable, addresses: Addresses) -> None:
    """Verify the fragments of replaced rows, from which an update copies unchanged values, unless they are too large.

    The new files get their own checksums, so damage that is copied into them can't be detected later.
    """
    numbers = set(np.unique(addresses >> np.uint64(32)).tolist())
    fragments = [fragment for fragment in table.list_fragments() if fragment.number in numbers]
    verifier = table.handles.store.verifier
    blob_bytes = sum(verifier.measure_blobs(table.path, name) for fragment in fragments for name in fragment.files)
    if sum(fragment.nbytes for fragment in fragments) + blob_bytes <= MAX_VERIFIED_BYTES:
        verify(table, VerifyLevel.WHOLE, only=numbers)


def _find_replaced_rows(staged: StagedWrite, table: LanceTable) -> Addresses:
    """Return the addresses of the rows that new ones replace, looked up by the ids of the new rows."""
    addresses = [np.empty(0, np.uint64)]
    pending: list[pa.Array] = []
    store = table.handles.store
    batches = (batch for text in staged.written for batch in iter_staged_batches(store, staged.path, text, [ID]))
    # In passes, because all ids may not fit into memory: that is why the write has no `keys`.
    for batch in batches:
        pending.append(batch.column(0))
        if sum(map(len, pending)) >= MAX_KEYS_PER_PASS:
            addresses.append(_find_addresses(table, pending))
            pending = []
    return np.concatenate([*addresses, _find_addresses(table, pending)])


def _find_addresses(table: LanceTable, id_chunks: Sequence[pa.Array]) -> Addresses:
    ids = pa.chunked_array(id_chunks, pa.string()).combine_chunks()
    return find_existing(table, lambda: ids, len(ids)).get_addresses()


def _has_deletions(fragment: Mapping[str, object]) -> bool:
    return fragment.get("deletion_file") is not None


def _decode_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {value!r}")  # noqa: TRY004 - one error type for decoding
    return value


def _decode_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"expected a count, found {value!r}")
    return value


def _decode_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, found {value!r}")  # noqa: TRY004 - one error type for decoding
    return value


def _decode_texts(value: object) -> tuple[str, ...]:
    return tuple(_decode_text(item) for item in _decode_list(value))
