"""Staged writes: files that exist, and a description of what they will change. Invisible until a version is made.

A staged write has two parts. What it *writes* (new fragments) fits any version of the table. What it *takes away*
(deletion files for replaced or deleted rows) fits only the version it was computed on, its `base`. So moving a
staged write to another version reuses the first part as it is and computes the second one anew from the row ids.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Protocol

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, write_fragments
from lance.progress import FragmentWriteProgress

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.checksum_stamping import stamp_deletions, stamp_fragment
from omnigraph.storage.io_counters import attribute_requests, translate_store_errors
from omnigraph.storage.key_lookup import MAX_KEYS_PER_PASS, RowLocations, find_existing
from omnigraph.storage.lance_table import LanceTable, is_blob, verify
from omnigraph.storage.layout import format_deletion_name, format_detached_name
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.table_cache import VerifyLevel, translate_rewrite_errors
from omnigraph.storage.watch import Watch
from omnigraph.storage.written_rows import iter_staged_batches

ID = "id"
MAX_FRAGMENT_ROWS = 1_048_576
MAX_VERIFIED_BYTES = 64 * 1024 * 1024
"""An update verifies the files that its rows come from up to this size, once in a process: 5 ms of a core. Beyond it, a
write of one row would cost what the table costs."""


class WriteKind(Enum):
    """What a staged write does to its table."""

    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"
    OVERWRITE = "overwrite"
    INDEX = "index"
    REWRITE = "rewrite"
    SCHEMA = "schema"


class StagedDecodeError(OmnigraphError):
    """The JSON of a staged write is not one."""

    kind = Kind.CORRUPT
    code = "staged_write_unreadable"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"a staged write can't be read: {self.reason}"


class DuplicateRowError(OmnigraphError):
    """Two rows of one staged write have the same id."""

    kind = Kind.INVALID
    code = "duplicate_row"

    def __init__(self, path: str, row_id: str) -> None:
        super().__init__(path, row_id)
        self.path, self.row_id = path, row_id

    def __str__(self) -> str:
        return f"two rows for {self.path} have the id `{self.row_id}`; give each id once"


class OutdatedColumnsError(OmnigraphError):
    """Columns were changed of a version that is not the table's newest any more: stage the change again."""

    kind = Kind.CONFLICT
    code = "columns_outdated"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"the columns of {self.path} were to be changed, and its files were rewritten meanwhile: retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWrite:
    """One table's staged write, as plain data."""

    change: WriteKind
    path: str
    base: int
    """The version that `updated` and `removed` were computed on."""
    written: tuple[str, ...] = ()
    """New fragments, as Lance's JSON."""
    written_rows: int = 0
    blobs: tuple[str, ...] = ()
    """Files of large binary values beside the new fragments, relative to the root: Lance's JSON does not name them."""
    keys: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    """The ids whose committed rows are replaced or deleted, as text."""
    is_keyed_by_rows: bool = False
    """Whether the new rows say by their own ids which ones they replace: there are too many to hold as `keys`."""
    updated: tuple[str, ...] = ()
    """Fragments of `base` with new deletion files, as Lance's JSON."""
    removed: tuple[int, ...] = ()
    """Fragments of `base` that lose all rows."""
    taken_rows: int = 0
    """How many rows of `base` go."""
    base_rows: int = 0
    indexes: tuple[str, ...] = ()
    """New index segments, as JSON (see `index_staging`)."""
    replaced_indexes: tuple[str, ...] = ()
    """Segments that the new ones take the place of."""
    rewrites: tuple[str, ...] = ()
    """Groups of fragments that others take the place of, with the same rows, as JSON (see `rewriting`)."""
    origin: int = 0
    """The version that the groups were read from, whatever `base` is by now."""
    preview: int = 0
    """A version that is never published: `origin` with the groups in place, for who has to read or index them."""
    fields: tuple[str, ...] = ()
    """The fields that the table's columns shall be, as Lance writes them, in hexadecimal (see `schema_staging`)."""
    fragments: tuple[str, ...] = ()
    """All fragments with the files of new columns, as Lance's JSON."""

    @property
    def rows_after(self) -> int:
        """How many rows the table has once this is applied to `base`."""
        kept = 0 if self.change is WriteKind.OVERWRITE else self.base_rows - self.taken_rows
        return kept + self.written_rows

    @property
    def has_effect(self) -> bool:
        """Whether applying this changes the table at all."""
        maintenance = self.indexes or self.replaced_indexes or self.rewrites
        replaced = self.change is WriteKind.OVERWRITE or self.fields
        return bool(self.written or self.taken_rows or maintenance or replaced)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file this write made, relative to the root: what to flush, and what to reclaim when it dies."""
        groups = [json.loads(text) for text in self.rewrites]
        written = [*map(json.loads, self.written), *(fragment for group in groups for fragment in group["written"])]
        data = [f"{self.path}/data/{file['path']}" for fragment in written for file in fragment["files"]]
        placed = [fragment for group in groups for fragment in group["new"]]
        lessened = [*map(json.loads, self.updated), *(one for one in placed if _has_deletions(one))]
        deletions = [f"{self.path}/{format_deletion_name(fragment)}" for fragment in lessened]
        segments = [json.loads(text) for text in self.indexes]
        indexes = [f"{self.path}/_indices/{one['uuid']}/{file}" for one in segments for file, _ in one["files"]]
        previews = [f"{self.path}/{format_detached_name(self.preview)}"] if self.preview else []
        return (*data, *self.blobs, *deletions, *indexes, *previews)

    def to_json(self) -> dict[str, object]:
        """Plain JSON; versions are text because they exceed 2^63."""
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
        """The inverse of `to_json`; anything else is StagedDecodeError."""
        expected = set(cls.__dataclass_fields__)
        if set(data) != expected:
            raise StagedDecodeError(f"its fields are {sorted(data)}")
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
            raise StagedDecodeError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStream:
    """Rows that are read while they are written, so that they are never all in memory.

    `batches` gives them from the start each time; what it raises is raised again as it is. `keys` are the ids among
    them whose committed rows they replace.
    """

    batches: Callable[[], Iterator[pa.RecordBatch]]
    keys: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    located: RowLocations | None = None
    """Where the rows of `keys` lie, if the caller has looked for all: it is used for the version that it is of."""


class WriteObserver(Protocol):
    """Is told of files, relative to the root, as they are written: so that they are found if this process dies."""

    def on_begin(self, files: Sequence[str]) -> None:
        """These are being written; they lose these names when they are complete."""
        ...

    def on_complete(self, files: Sequence[str]) -> None:
        """These are complete."""
        ...


class NullObserver:
    """Nobody wants to know."""

    def on_begin(self, files: Sequence[str]) -> None:
        """See Witness."""

    def on_complete(self, files: Sequence[str]) -> None:
        """See Witness."""


NULL_OBSERVER = NullObserver()


def stage_append(table: LanceTable, rows: pa.Table | RowStream, observer: WriteObserver = NULL_OBSERVER) -> StagedWrite:
    """New rows. The caller has checked that their ids are new; nothing here looks."""
    return _stage(table, WriteKind.APPEND, rows=rows, observer=observer)


def stage_upsert(
    table: LanceTable,
    rows: pa.Table | RowStream,
    observer: WriteObserver = NULL_OBSERVER,
    located: RowLocations | None = None,
) -> StagedWrite:
    """Rows that replace those of the same id, or are new; `located` is where those lie, if the caller has looked.

    Duplicate ids are DuplicateRowError; of a stream the caller has checked that there are none.
    """
    if isinstance(rows, RowStream):
        # Of a stream, `keys` are only those that replace a row.
        assert rows.located is None or len(rows.located.addresses) == len(rows.keys)  # noqa: S101 - each has one
        known = located if rows.located is None else rows.located
        return _stage(table, WriteKind.UPSERT, rows=rows, keys=rows.keys, located=known, observer=observer)
    ids = _combine_chunks(rows.column(ID))
    counts = ids.value_counts()
    repeated = counts.field(0).filter(pc.greater(counts.field(1), 1))
    if len(repeated):
        raise DuplicateRowError(table.path, repeated[0].as_py())
    return _stage(table, WriteKind.UPSERT, rows=rows, keys=ids, located=located, observer=observer)


def stage_delete(table: LanceTable, ids: Sequence[str] | pa.Array, located: RowLocations | None = None) -> StagedWrite:
    """The rows with these ids go; ids that no row has are ignored. `located` as of an upsert."""
    keys = ids.unique() if isinstance(ids, pa.Array) else pa.array(sorted(set(ids)), pa.string())
    return _stage(table, WriteKind.DELETE, keys=keys, located=located)


def stage_overwrite(
    table: LanceTable, rows: pa.Table | RowStream, observer: WriteObserver = NULL_OBSERVER
) -> StagedWrite:
    """These rows replace all others; none is fine."""
    return _stage(table, WriteKind.OVERWRITE, rows=rows, observer=observer)


def stage_fragments(
    table: LanceTable, change: WriteKind, fragments: Sequence[str], rows: int, keys: Sequence[str] = ()
) -> StagedWrite:
    """A staged write of fragments that somebody else (an executor) has written already."""
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
    """A staged upsert, all of which somebody else (executors) has done already: fragments and deletions of `table`."""
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
    """The same write on another version: written fragments are reused, deletions are computed anew.

    Maintenance has its own way to move: see `rewriting.carried`. OutdatedColumnsError for a change of columns, which
    is of all files of one version.
    """
    if staged.fields:
        raise OutdatedColumnsError(staged.path)
    moved = replace(staged, base=table.version, base_rows=table.count(), updated=(), removed=(), taken_rows=0)
    return _add_deletions(moved, table)


def list_deletion_files(table: LanceTable, updated: Sequence[str]) -> list[str]:
    """The deletion files of fragments, as Lance's JSON has them, relative to the root."""
    return [f"{table.path}/{format_deletion_name(json.loads(text))}" for text in updated]


def _stage(
    table: LanceTable,
    change: WriteKind,
    rows: pa.Table | RowStream | None = None,
    keys: pa.Array | None = None,
    located: RowLocations | None = None,
    observer: WriteObserver = NULL_OBSERVER,
) -> StagedWrite:
    written = () if rows is None else write_rows(table, rows, observer)
    staged = StagedWrite(
        change=change,
        path=table.path,
        base=table.version,
        written=written,
        written_rows=sum(json.loads(text)["physical_rows"] for text in written),
        blobs=list_blob_files(table, written),
        keys=pa.array([], pa.string()) if keys is None else keys,
        base_rows=table.count(),
    )
    try:
        return _add_deletions(staged, table, located)
    except BaseException:  # the caller does not know these files yet
        remove_files(table, staged.files)
        raise


def remove_files(table: LanceTable, files: Iterable[str]) -> None:
    """Remove files of a write that comes to nothing. What the store does not remove now, a cleanup finds."""
    for file in files:
        with suppress(StoreUnavailableError):
            table.handles.store.objects.delete(file)


def write_rows(table: LanceTable, rows: pa.Table | RowStream, observer: WriteObserver) -> tuple[str, ...]:
    """Files of these rows, invisible: the fragments, as Lance's JSON."""
    store = table.handles.store
    dataset = table.handles.open(table.path, table.version)
    source = _BatchSource(rows, _move_blobs_last(dataset.schema), table.watch)
    if source.is_empty:
        return ()
    noting = _WriteProgress(table, observer)
    with attribute_requests(store.runtime.telemetry, "table"), translate_store_errors(f"write rows of {table.path}"):
        try:
            fragments = write_fragments(
                source.open_reader(),
                dataset,
                mode="append",
                max_rows_per_file=MAX_FRAGMENT_ROWS,
                storage_options=store.lance_options,
                progress=noting if isinstance(rows, RowStream) else None,  # a table is over before anybody asks
            )
        except Exception as error:
            failure = source.failure or noting.failure
            if failure is not None:
                raise failure from error  # Lance makes text of what our own code has raised, also of an interrupt
            raise
    stamped = [stamp_fragment(store, table.path, fragment.to_json(), observer.on_complete) for fragment in fragments]
    return tuple(map(json.dumps, stamped))


class _BatchSource:
    """Rows as Lance takes them, read once."""

    def __init__(self, rows: pa.Table | RowStream, schema: pa.Schema, watch: Watch | None) -> None:
        self._schema = schema
        self._rows = rows
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self.failure: BaseException | None = None
        if isinstance(rows, RowStream):
            self._batches = _check_between_batches((batch for batch in rows.batches() if batch.num_rows), watch)
            self._first = next(self._batches, None)
            self.is_empty = self._first is None
        else:
            self.is_empty = not rows.num_rows

    def open_reader(self) -> pa.Table | pa.RecordBatchReader:
        """What `write_fragments` is handed."""
        if isinstance(self._rows, pa.Table):
            return self._rows if self._rows.schema == self._schema else as_stored(self._rows, self._schema)
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
    """Yield the same batches, each after a look at the deadline."""
    for batch in batches:
        if watch is not None:
            watch.check()
        yield batch


class _WriteProgress(FragmentWriteProgress):
    """Tells the files of each fragment when it is complete, but for the last one, which the result tells."""

    def __init__(self, table: LanceTable, witness: WriteObserver) -> None:
        self._table, self._observer = table, witness
        self.failure: BaseException | None = None

    def begin(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        """The file is open, and has no name of its own yet."""
        del fragment, kwargs
        with self._record_failure():
            self._observer.on_begin(list_open_files(self._table))

    def complete(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        """The file has its name."""
        del kwargs
        with self._record_failure():
            files = [f"{self._table.path}/data/{file.path}" for file in fragment.files]
            self._observer.on_complete([*files, *list_blob_files(self._table, [json.dumps(fragment.to_json())])])

    @contextmanager
    def _record_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise


_DESCRIPTOR_DIRECTORY = Path("/proc/self/fd")


def list_open_files(table: LanceTable) -> list[str]:
    """The files that this process is writing for a table, where the system can tell: on Linux, on a local disk.

    Lance writes a file under a name that it tells nobody. An object store keeps nothing of an upload that broke off.
    """
    store = table.handles.store
    if not store.location.is_local or not _DESCRIPTOR_DIRECTORY.is_dir():
        return []
    directory = Path(store.resolve_uri(table.path)) / "data"
    found = []
    for descriptor in _DESCRIPTOR_DIRECTORY.iterdir():
        try:
            path = descriptor.readlink()
        except OSError:
            continue  # closed meanwhile
        if path.parent == directory and path.name.startswith(".tmp"):
            found.append(f"{table.path}/data/{path.name}")
    return found


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined


def as_stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows as Lance takes them: bytes become blobs, the rest is cast."""
    blobs = [one for one in schema if is_blob(one) and rows.schema.field(one.name).type == pa.large_binary()]
    for one in blobs:
        position = rows.schema.get_field_index(one.name)
        rows = rows.set_column(position, one, lance.blob_array(rows.column(position).to_pylist()))
    return rows.select(schema.names).cast(schema) if rows.schema != schema else rows


def _move_blobs_last(schema: pa.Schema) -> pa.Schema:
    """The columns as files have them: who reads a file by itself (`iter_staged_batches`) gets wrong ones behind a blob.

    Lance counts the hidden parts of a blob there, which are no columns. Tables find their columns by number.
    """
    return pa.schema([*(one for one in schema if not is_blob(one)), *filter(is_blob, schema)], schema.metadata)


def list_blob_files(table: LanceTable, written: Sequence[str]) -> tuple[str, ...]:
    """Lance puts the large values of a data file into a directory of its name."""
    if not written or not any(is_blob(field) for field in table.schema):
        return ()
    names = [file["path"] for text in written for file in json.loads(text)["files"]]
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
    if staged.change is WriteKind.UPSERT and len(addresses):  # to describe all fragments takes 8 µs for each
        _verify_carried(table, addresses)
    updated, removed = delete_rows(table, addresses)
    return replace(staged, updated=updated, removed=removed, taken_rows=len(addresses))


def _verify_carried(table: LanceTable, addresses: Addresses) -> None:
    """Verify the fragments of replaced rows, whose other values an update carries over, where they are small enough.

    What is written anew gets a checksum of its own: then nothing finds the damage any more.
    """
    numbers = set(np.unique(addresses >> np.uint64(32)).tolist())
    fragments = [one for one in table.list_fragments() if one.number in numbers]
    verifier = table.handles.store.verifier
    blobs = sum(verifier.measure_blobs(table.path, name) for one in fragments for name in one.files)
    if sum(one.nbytes for one in fragments) + blobs <= MAX_VERIFIED_BYTES:
        verify(table, VerifyLevel.WHOLE, only=numbers)


def _find_replaced_rows(staged: StagedWrite, table: LanceTable) -> Addresses:
    """Where the rows lie that the new ones replace: found by the new ones' ids, some millions at a time."""
    found = [np.empty(0, np.uint64)]
    held: list[pa.Array] = []
    store = table.handles.store
    batches = (one for text in staged.written for one in iter_staged_batches(store, staged.path, text, [ID]))
    for batch in batches:
        held.append(batch.column(0))
        if sum(map(len, held)) >= MAX_KEYS_PER_PASS:
            found.append(_find_addresses(table, held))
            held = []
    return np.concatenate([*found, _find_addresses(table, held)])


def _find_addresses(table: LanceTable, parts: Sequence[pa.Array]) -> Addresses:
    ids = pa.chunked_array(parts, pa.string()).combine_chunks()
    return find_existing(table, lambda: ids, len(ids)).get_addresses()


def delete_rows(table: LanceTable, addresses: Addresses) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The rows at these addresses, ascending, are deleted from their fragments, invisibly.

    The fragments with new deletion files, as Lance's JSON, and the numbers of those that lose all rows.
    """
    verify(table)
    numbers, starts = np.unique(addresses >> np.uint64(32), return_index=True)
    offsets = np.split((addresses & np.uint64(0xFFFFFFFF)).astype(np.int64), starts[1:])
    dataset = table.handles.open(table.path, table.version)
    updated: list[str] = []
    removed: list[int] = []
    errors = translate_rewrite_errors(f"delete rows of {table.path}", table.path, table.version, table.handles.explain)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), errors:
        try:
            for number, local in zip(numbers.tolist(), offsets, strict=False):
                if table.watch is not None:
                    table.watch.check()
                fragment = dataset.get_fragment(number)
                assert fragment is not None  # noqa: S101 - the address came from this very version
                metadata: FragmentMetadata | None = fragment.delete_rows(local.tolist())
                if metadata is None:
                    removed.append(number)
                else:
                    updated.append(json.dumps(stamp_deletions(table.handles.store, table.path, metadata.to_json())))
        except BaseException:
            remove_files(table, list_deletion_files(table, updated))
            raise
    return tuple(updated), tuple(removed)


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
