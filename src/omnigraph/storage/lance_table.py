"""A table at its pin: scans, look-ups, counts, index coverage. Immutable, so every answer is of one version."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import OmnigraphError
from omnigraph.storage import filters
from omnigraph.storage.checksums import parse_deletion_checksum
from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.data_file_reader import DataFileReader, open_data_file
from omnigraph.storage.deletion_vectors import DeletionsError, decode_deletions, invert_offsets
from omnigraph.storage.foreign_blobs import check_blobs
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.storage.row_addresses import RowAddressMap
from omnigraph.storage.string_hash_index import StringHashIndex
from omnigraph.storage.table_cache import PinUnreadableError, TableCache, VerifyLevel, translate_read_errors
from omnigraph.storage.take_rows import take_rows
from omnigraph.storage.verification import SMALL_BYTES, Mismatch
from omnigraph.storage.watch import Watch

ADDRESS = "_rowaddr"
"""The column that `with_address` adds: `fragment << 32 | offset`, offsets counted over deleted rows too."""
ROW_NUMBER = "_rowid"
"""The column of the numbers that rows keep when they are moved, and lose when they are written anew."""
MAX_PUSHED_KEYS = 4_096
"""Beyond so many keys one scan of the column is cheaper than a pushed `in`, and Lance is not handed a huge filter."""
_NUMBER, _OFFSET = np.uint64(32), np.uint64(0xFFFF_FFFF)
BATCH_READAHEAD = 4
"""Of one column, so many batches are made at a time. Where a machine has few cores, Lance itself makes one by one."""
MIN_DELETION_FILE_ROWS, _UNLIMITED_ROWS = 100_000, 1 << 63
"""A fragment of fewer rows is not worth reading its deletion file: Lance has it already, or reads it anyway."""


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """How much of a table one index covers."""

    name: str
    columns: tuple[str, ...]
    kind: str
    covered_fragments: int
    fragments: int
    segments: tuple[str, ...] = field(default=(), compare=False)
    """The uuids of its parts: files that never change."""

    @property
    def is_complete(self) -> bool:
        """Whether no row is outside of the index."""
        return self.covered_fragments == self.fragments


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a table as its version lists it. Rows keep their offsets in it for ever; deleted ones leave holes."""

    number: int
    """What Lance calls it in a row's address; another version may give the number to other rows."""
    rows: int
    """How many rows were written, deleted ones too."""
    deleted: int
    files: tuple[str, ...]
    """The names of its data files, unique for ever: equal files hold equal rows."""
    deletions: str | None
    """The name of its deletion file, unique for ever; None when every row lives."""
    nbytes: int
    """The size of its data files, 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class IoCounts:
    """What this process has read of tables so far: requests and bytes."""

    requests: int
    nbytes: int


def read_io_counts() -> IoCounts:
    """The counts now; a difference says what a step has read, as long as it runs alone."""
    return IoCounts(int(lance.iops_counter()), int(lance.bytes_read_counter()))


TAKE_CHUNK_ROWS = 65_536
"""So many rows are fetched by their positions between two looks at a watch."""
_TYPE_MARK, _BLOB = b"omnigraph:type", b"Blob"


def is_blob(field: pa.Field) -> bool:
    """Whether a column holds large binary values; a scan shows where they lie, not what they are."""
    return (field.metadata or {}).get(_TYPE_MARK) == _BLOB


class LanceTable:
    """One table at one version. With a `watch`, it is asked for every batch that is read, and how much is held."""

    def __init__(self, handles: TableCache, path: str, version: int, watch: Watch | None = None) -> None:
        self.handles, self.path, self.version = handles, path, version
        self.watch = watch
        self._fragments: tuple[Fragment, ...] | None = None
        self._address_map: RowAddressMap | None = None
        self._data_files: dict[int, DataFileReader | None] = {}

    def __repr__(self) -> str:
        return f"Table({self.path!r}, {self.version})"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.handles.open(self.path, self.version).schema

    def count(self, where: str | None = None) -> int:
        """How many rows there are, or match; without a filter this needs no request."""
        dataset = self.handles.open(self.path, self.version)
        with self._guard_read(where):
            return int(dataset.count_rows(filter=where))

    def count_values(self, column: str, fragments: Sequence[int]) -> int:
        """How many rows of these fragments have a value in a column."""
        dataset = self.handles.open(self.path, self.version)
        has_value = f"`{column}` is not null"  # as text, because Lance does not take an expression over vectors
        with self._guard_read(has_value):
            scanner = dataset.scanner(
                columns=[], filter=has_value, fragments=self._select_fragments(fragments), with_row_id=True
            )
            return int(scanner.count_rows())

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        *,
        with_address: bool = False,
    ) -> pa.Table:
        """The matching rows, filter pushed into Lance; it may be of an address, or of a row's number."""
        dataset = self.handles.open(self.path, self.version)
        with self._guard_read(where):
            reader = dataset.scanner(
                columns=None if columns is None else list(columns),
                filter=where,
                limit=limit,
                with_row_address=with_address,
            ).to_reader()
            if self.watch is None:
                return reader.read_all()
            parts, held = [], 0
            for batch in reader:
                held += batch.nbytes
                _check_watch(self, held)
                parts.append(batch)
            return pa.Table.from_batches(parts, reader.schema)

    def iter_batches(  # noqa: PLR0913 - what is read, and how, all by name but the first two
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        batch_rows: int | None = None,
        ahead: int | None = None,
        io_bytes: int | None = None,
        with_blobs: bool = False,
        with_address: bool = False,
        fragments: Sequence[int] | None = None,
        within: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The matching rows, of these fragments or of all, streamed in the order of their positions.

        Of these, `within` are the only places that count. At most `batch_rows` come at once, and so many batches are
        made `ahead` at a time, by all cores; `io_bytes` is how much may be read before it is needed. A blob is its
        description, or `with_blobs` its bytes.
        """
        dataset = self.handles.open(self.path, self.version)
        if with_blobs:
            check_fragment_blobs(self, columns, fragments)
        with self._guard_read(where):
            # Not `to_batches` of the dataset itself: it takes any argument, and does nothing with `fragments`.
            for batch in dataset.scanner(
                columns=None if columns is None else list(columns),
                filter=where,
                fragments=None if fragments is None else self._select_fragments(fragments),
                offset=None if within is None else within.start,
                limit=None if within is None else len(within),
                batch_size=batch_rows,
                batch_readahead=ahead,
                io_buffer_size=io_bytes,
                with_row_address=with_address,
                blob_handling="all_binary" if with_blobs else None,
            ).to_batches():
                _check_watch(self)
                yield batch

    def take(self, positions: Sequence[int] | pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at these positions among those that live, in that order."""
        wanted = positions if isinstance(positions, pa.Array) else pa.array(positions, pa.int64())
        if self.watch is None or len(wanted) <= TAKE_CHUNK_ROWS:
            _check_watch(self)
            return self._take_rows(wanted, columns)
        parts, held = [], 0
        for start in range(0, len(wanted), TAKE_CHUNK_ROWS):
            parts.append(self._take_rows(wanted.slice(start, TAKE_CHUNK_ROWS), columns))
            held += parts[-1].nbytes
            _check_watch(self, held)
        return pa.concat_tables(parts)

    def _take_rows(self, wanted: pa.Array, columns: Sequence[str] | None) -> pa.Table:
        dataset = self.handles.open(self.path, self.version)
        names = dataset.schema.names if columns is None else list(columns)
        with self._guard_read():
            if any(fragment.deleted for fragment in self.list_fragments()):
                described = [name for name in names if name == ADDRESS or is_blob(dataset.schema.field(name))]
                asked = np.asarray(wanted.to_numpy(), np.int64)
                found = take_rows(dataset, asked, names, described, self.get_address_map(), self.open_data_file)
                if found is not None:
                    return found
            return dataset.take(wanted, columns=names)

    def take_with_blobs(self, positions: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """The rows at these positions among those that live, in that order, each blob as its bytes."""
        dataset = self.handles.open(self.path, self.version)
        blobs = [name for name in columns if is_blob(dataset.schema.field(name))]
        others = [name for name in columns if name not in blobs]
        found = {} if not others else dict(zip(others, self.take(positions, others).columns, strict=True))
        for name in blobs:
            check_blobs(self.handles.store, self.path, name, self.take(positions, [name]).column(name))
            addresses = pa.array(self.get_address_map().to_addresses(np.asarray(positions, np.int64)))
            with self._guard_read():
                values = dataset.read_blobs(name, addresses=addresses, preserve_order=True)
            found[name] = pa.array([value for _, value in values], pa.large_binary())
        return pa.table({name: found[name] for name in columns})

    def find_rows(
        self, column: str, keys: Sequence[str] | pa.Array, columns: Sequence[str], *, with_address: bool = False
    ) -> pa.Table:
        """The rows whose `column` is one of `keys`: by index where one covers, else by one scan of the column."""
        wanted = keys.unique().drop_null() if isinstance(keys, pa.Array) else pa.array(sorted(set(keys)), pa.string())
        if not len(wanted):
            return self.scan(columns, limit=0, with_address=with_address)
        if len(wanted) <= MAX_PUSHED_KEYS:
            return self.scan(columns, filters.build_in_list(column, wanted), with_address=with_address)
        dataset = self.handles.open(self.path, self.version)
        names = list(dict.fromkeys([*columns, column]))
        parts, held = [], 0
        # Made once: Arrow's own `is_in` would hash all keys again for every batch.
        texts = StringHashIndex(wanted) if pa.types.is_string(wanted.type) else None
        with self._guard_read():
            for batch in dataset.to_batches(columns=names, with_row_address=with_address):
                values = batch.column(column)
                is_wanted = (
                    pc.is_in(values, value_set=wanted) if texts is None else pa.array(texts.find_positions(values) >= 0)
                )
                kept = batch.filter(is_wanted)
                _check_watch(self, held)
                if kept.num_rows:
                    held += kept.nbytes
                    parts.append(kept)
        shown = [*columns, ADDRESS] if with_address else list(columns)
        schema = parts[0].schema if parts else self.scan(names, limit=0, with_address=with_address).schema
        return pa.Table.from_batches(parts, schema).select(shown)

    def list_fragments(self) -> tuple[Fragment, ...]:
        """The pieces of this version, in order; needs no request."""
        if self._fragments is None:
            dataset = self.handles.open(self.path, self.version)
            self._fragments = tuple(_describe_fragment(fragment.metadata) for fragment in dataset.get_fragments())
        return self._fragments

    def get_address_map(self) -> RowAddressMap:
        """Where its rows lie; needs no request until rows are looked for in a fragment that has deleted ones."""
        if self._address_map is None:
            fragments = self.list_fragments()
            living = [one.rows - one.deleted for one in fragments]
            numbers, deleted = [one.number for one in fragments], [one.deleted for one in fragments]
            # Of a table of its own: nothing that it holds may hold this one, or both would stay for a while.
            offsets = LanceTable(self.handles, self.path, self.version).read_deleted_offsets
            self._address_map = RowAddressMap(numbers, living, deleted, offsets)
        return self._address_map

    def find_field_number(self, column: str) -> int:
        """The number of a column, which it keeps when it is renamed and which no other column gets."""
        field = self.handles.open(self.path, self.version).lance_schema.field(column)
        if field is None:
            raise KeyError(column)
        return int(field.id())

    def iter_written_rows(self, column: str, fragments: Sequence[int]) -> Iterator[pa.Array]:
        """A column of these fragments in their order, with the values of deleted rows, in batches."""
        dataset = self.handles.open(self.path, self.version)
        # Lance shows deleted rows only beside row ids, which it does not have to read.
        scanner = dataset.scanner(
            columns=[column],
            fragments=self._select_fragments(fragments),
            include_deleted_rows=True,
            with_row_id=True,
            batch_readahead=BATCH_READAHEAD,
        )
        with self._guard_read():
            for batch in scanner.to_batches():
                yield batch.column(column)

    def read_deleted_offsets(self, fragments: Sequence[int]) -> list[Positions]:
        """For each of these fragments the offsets of its deleted rows, ascending; it costs what was deleted.

        Of small ones, and on an object store, Lance tells the addresses of the rows that live: it needs no request for
        what it knows already.
        """
        verify(self)
        holed = [one for one in self._select_fragments(fragments) if one.num_deletions]
        least = MIN_DELETION_FILE_ROWS if self.handles.store.location.is_local else _UNLIMITED_ROWS
        large = [one.metadata for one in holed if one.physical_rows >= least]
        small = [one for one in holed if one.physical_rows < least]
        found = {number: np.empty(0, np.int64) for number in fragments}
        for one in large:
            found[one.id] = _decode_deletion_file(self, one)
        if small:
            batches = self.iter_batches([], fragments=[one.fragment_id for one in small], with_address=True)
            living = np.concatenate([np.asarray(batch.column(ADDRESS).to_numpy(), np.uint64) for batch in batches])
            for one in small:
                own = living[living >> _NUMBER == one.fragment_id] & _OFFSET
                found[one.fragment_id] = invert_offsets(own.astype(np.int64), one.physical_rows)
        return [found[number] for number in fragments]

    def open_data_file(self, fragment: int) -> DataFileReader | None:
        """The rows of a fragment with those that were deleted, where its file can be read by itself."""
        dataset = self.handles.open(self.path, self.version)
        if fragment not in self._data_files:
            reading = partial(translate_read_errors, self.path, self.version, self.handles.explain)
            is_possible = not any(map(is_blob, dataset.schema))
            found = open_data_file(self.handles.store, self.path, dataset, fragment, reading) if is_possible else None
            self._data_files[fragment] = found
        return self._data_files[fragment]

    def _select_fragments(self, fragments: Sequence[int]) -> list[lance.LanceFragment]:
        dataset = self.handles.open(self.path, self.version)
        by_number = {fragment.fragment_id: fragment for fragment in dataset.get_fragments()}
        return [by_number[number] for number in fragments]

    def measure_index_coverage(self) -> tuple[IndexCoverage, ...]:
        """Every index of this version, and how many fragments it covers."""
        dataset = self.handles.open(self.path, self.version)
        with self._guard_read():
            fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
            indexes = dataset.describe_indices()
        found = []
        for index in indexes:
            covered = {number for segment in index.segments for number in segment.fragment_ids} & fragments
            columns = tuple(index.field_names)
            segments = tuple(sorted(str(segment.uuid) for segment in index.segments))
            found.append(IndexCoverage(index.name, columns, index.index_type, len(covered), len(fragments), segments))
        return tuple(sorted(found, key=lambda index: index.name))

    @contextmanager
    def _guard_read(self, where: str | None = None) -> Iterator[None]:
        verify(self, VerifyLevel.ROWS if where is None else VerifyLevel.ROWS | VerifyLevel.INDEXES)
        errors = translate_read_errors(self.path, self.version, self.handles.explain)
        try:
            with attribute_requests(self.handles.store.runtime.telemetry, "table"), errors:
                yield
        except OmnigraphError:
            raise
        except Exception as error:
            # Files that are too large to be verified at every read may be to blame.
            verify(self, VerifyLevel.WHOLE, cause=error)
            raise


def verify(
    table: LanceTable,
    level: int = VerifyLevel.ROWS,
    *,
    cause: Exception | None = None,
    only: Collection[int] | None = None,
) -> None:
    """Compare the files that rows are read from with their checksums, each once in a process.

    Large ones are left out unless the level, or the settings, want all. `only` are the fragments that are read.

    Raises:
        PinUnreadableError: A file does not match; `cause` is what reading it raised.
    """
    handles = table.handles
    if handles.store.verifier.is_eager:
        level |= VerifyLevel.WHOLE
    known = handles.get_verified_level(table.path, table.version)
    if not handles.is_verifying or known & level == level or known & VerifyLevel.WHOLE:
        return
    limit = None if level & VerifyLevel.WHOLE else SMALL_BYTES
    if limit is not None and not handles.store.verifier.is_verifying_reads:
        return
    fragments = [one for one in table.list_fragments() if only is None or one.number in only]
    found: list[Iterator[Mismatch]] = []
    if not known & VerifyLevel.ROWS or limit is None:
        found.append(find_row_mismatches(table, fragments, limit))
    if only is None and (level & ~known & VerifyLevel.INDEXES or limit is None):
        found.append(find_index_mismatches(table, limit))
    with handles.translate_verify_errors(table.path), translate_read_errors(table.path, table.version):
        mismatch = next(chain.from_iterable(found), None)
    if mismatch is not None:
        error = PinUnreadableError(table.path, table.version, f"{mismatch.key}: {mismatch.reason}")
        raise handles.explain(error) from cause
    if only is None:
        handles.mark_verified(table.path, table.version, level | VerifyLevel.ROWS)


def verify_rows(table: LanceTable, positions: Positions) -> None:
    """Verify the fragments that hold the rows at these positions, whole: for those who write the rows anew.

    What they write gets a checksum of its own, so damage must be found before or never.
    """
    places = table.get_address_map()
    held = np.unique(places.find_fragments(positions)).tolist()
    verify(table, VerifyLevel.WHOLE, only={places.numbers[place] for place in held})


def find_row_mismatches(table: LanceTable, fragments: Iterable[Fragment], limit: int | None) -> Iterator[Mismatch]:
    """Yield the files of fragments that do not match their checksums, of those that are no larger than a limit.

    Raises:
        OSError: A file can't be read. One that is gone is left to who reads it.
    """
    verifier, path = table.handles.store.verifier, table.path
    for fragment in fragments:
        if fragment.deletions is not None:
            yield from _iter_present(verifier.find_mismatch(f"{path}/_deletions/{fragment.deletions}"))
            yield from _iter_present(find_malformed_deletions(table, fragment))
        if limit is None or fragment.nbytes <= limit:
            for name in fragment.files:
                yield from _iter_present(verifier.find_data_mismatch(path, name))
        for name in fragment.files:
            if limit is None or verifier.measure_blobs(path, name) <= limit:
                yield from _iter_present(verifier.find_mismatch(f"{path}/data/{name.removesuffix('.lance')}"))


def find_index_mismatches(table: LanceTable, limit: int | None) -> Iterator[Mismatch]:
    """Yield the index segments that do not match their checksums, of those that are no larger than a limit."""
    verifier = table.handles.store.verifier
    for index in table.handles.open(table.path, table.version).describe_indices():
        for segment in index.segments:
            if limit is None or (segment.size_bytes or 0) <= limit:
                yield from _iter_present(verifier.find_mismatch(f"{table.path}/_indices/{segment.uuid}"))


def _iter_present(mismatch: Mismatch | None) -> Iterator[Mismatch]:
    if mismatch is not None:
        yield mismatch


def find_malformed_deletions(table: LanceTable, fragment: Fragment) -> Mismatch | None:
    """Decode a deletion file whose name carries no checksum, on local disk, before Lance does.

    One wrong bit in such a file makes Lance reserve petabytes, which ends the process.
    """
    store, file = table.handles.store, f"_deletions/{fragment.deletions}"
    key = f"{table.path}/{file}"
    if store.local is None or parse_deletion_checksum(file) is not None or store.verifier.is_trusted(key):
        return None
    try:
        data = store.local.get_derived(key)
        decode_deletions(bytes(data), fragment.deleted, fragment.rows, is_bitmap=file.endswith(".bin"))
    except ObjectMissingError:
        return None
    except DeletionsError as error:
        return Mismatch(key, str(error))
    store.verifier.trust([key])
    return None


def _check_watch(table: LanceTable, held: int = 0) -> None:
    """Ask a table's watch, if there is one, whether reading may continue with so many bytes of rows in memory."""
    if table.watch is not None:
        table.watch.check()
        table.watch.check_size(held, f"reading rows of {table.path}")


def _decode_deletion_file(table: LanceTable, metadata: lance.FragmentMetadata) -> Positions:
    file = metadata.deletion_file
    if file is None:
        return np.empty(0, np.int64)
    try:
        data = table.handles.store.objects.get(f"{table.path}/{file.path(metadata.id)}").data
        is_bitmap = file.file_type == "bitmap"
        return decode_deletions(data, metadata.num_deletions, metadata.physical_rows, is_bitmap=is_bitmap)
    except (ObjectMissingError, DeletionsError) as error:
        reason = f"{file.path(metadata.id)}: {error}"
        raise table.handles.explain(PinUnreadableError(table.path, table.version, reason)) from error


def _describe_fragment(metadata: lance.FragmentMetadata) -> Fragment:
    deletion = metadata.deletion_file
    name = None
    if deletion is not None:
        suffix = "bin" if deletion.file_type == "bitmap" else "arrow"
        name = f"{metadata.id}-{deletion.read_version}-{deletion.id}.{suffix}"
    return Fragment(
        number=metadata.id,
        rows=metadata.physical_rows,
        deleted=metadata.num_deletions,
        # Not `file.path`: that makes a class of its own for each text, which costs more than all the rest.
        files=tuple(str(vars(file).get("_path") or file.path) for file in metadata.files),
        deletions=name,
        nbytes=sum(file.file_size_bytes or 0 for file in metadata.files),
    )


def check_blobs_at(table: LanceTable, column: str, addresses: Sequence[int]) -> None:
    """Check that the blobs of the rows at these addresses lie in the graph, or where the settings allow it.

    Raises:
        ForeignBlobError: One does not.
    """
    positions = table.get_address_map().to_positions(np.asarray(addresses, np.uint64))
    check_blobs(table.handles.store, table.path, column, table.take(pa.array(positions), [column]).column(column))


def check_fragment_blobs(table: LanceTable, columns: Sequence[str] | None, fragments: Sequence[int] | None) -> None:
    """As `check_blobs_at`, for all rows of some fragments: a pass over pointers, which are small beside blobs."""
    blobs = [field.name for field in table.schema if is_blob(field) and (columns is None or field.name in columns)]
    for batch in table.iter_batches(blobs, fragments=fragments) if blobs else ():
        for name in blobs:
            check_blobs(table.handles.store, table.path, name, batch.column(name))


ID = "id"
_GENERATED_ID_MARK = b"omnigraph:made"
"""Ids that were made begin alike, one behind the other: LZ4 writes them in less than half of the time that Lance's own
choice takes, to three quarters of the size, and they are read faster too."""


def build_physical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as Lance stores it: `id` is the (unenforced) primary key, blob columns are Lance blobs."""
    fields = []
    for column in schema:
        metadata = dict(column.metadata or {})
        if is_blob(column):
            fields.append(lance.blob_field(column.name, nullable=column.nullable).with_metadata(metadata))
        elif column.name == ID:
            if _GENERATED_ID_MARK in metadata:
                metadata[b"lance-encoding:compression"] = b"lz4"
            fields.append(column.with_metadata({**metadata, b"lance-schema:unenforced-primary-key": b"true"}))
        else:
            fields.append(column)
    return pa.schema(fields, schema.metadata)
