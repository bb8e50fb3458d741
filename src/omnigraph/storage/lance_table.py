"""Read one pinned, immutable version of a Lance table: scans, lookups, counts, index coverage."""

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
from omnigraph.storage.carried_rows import CarriedRows, decode_carried
from omnigraph.storage.checksums import parse_deletion_checksum
from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.data_file_reader import DataFileReader, open_data_file
from omnigraph.storage.deletion_vectors import DeletionsError, decode_deletions, invert_offsets
from omnigraph.storage.foreign_blobs import check_blobs
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.storage.row_addresses import RowAddressMap
from omnigraph.storage.string_hash_index import StringHashIndex
from omnigraph.storage.table_cache import PinUnreadableError, TableCache, VerifyLevel, translate_read_errors
from omnigraph.storage.take_rows import take_rows
from omnigraph.storage.verification import SMALL_BYTES, Mismatch
from omnigraph.storage.watch import Watch
from omnigraph.storage.whole_files import fetch_rows

# The column that `with_address` adds: `fragment << 32 | offset`, where offsets count deleted rows too.
ADDRESS = "_rowaddr"
# Lance's stable row ids: a row keeps its id when it is moved, and loses it when it is written again.
ROW_NUMBER = "_rowid"
# With more keys one scan of the column is cheaper than a pushed-down IN list, and Lance gets no huge filter.
MAX_PUSHED_KEYS = 4_096
_FRAGMENT_SHIFT, _OFFSET_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)
# Batches of one column that are decoded concurrently; on few cores Lance's default decodes one at a time.
BATCH_READAHEAD = 4
# For smaller fragments reading the deletion file does not pay off: Lance has it in memory already, or reads it anyway.
MIN_DELETION_FILE_ROWS = 100_000
_UNLIMITED_ROWS = 1 << 63
# The kinds of indexes that Lance asks for the rows with a value.
_EQUALITY_INDEXES = ("BTREE", "BITMAP")


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """The part of a table that one index covers."""

    name: str
    columns: tuple[str, ...]
    kind: str
    covered_fragments: int
    fragments: int
    segments: tuple[str, ...] = field(default=(), compare=False)
    """The UUIDs of its segments, whose files never change."""
    numbers: frozenset[int] = field(default=frozenset(), compare=False)
    """The numbers of the fragments it covers."""

    @property
    def is_complete(self) -> bool:
        """Whether the index covers every fragment."""
        return self.covered_fragments == self.fragments


@dataclass(frozen=True, slots=True)
class IoCounts:
    """The requests and bytes with which this process has read tables so far."""

    requests: int
    nbytes: int


def read_io_counts() -> IoCounts:
    """Return Lance's counters now; the difference of two results is what a step has read if nothing else runs."""
    return IoCounts(int(lance.iops_counter()), int(lance.bytes_read_counter()))


# A table with a watch takes this number of rows by position between two checks of the deadline and the memory limit.
TAKE_CHUNK_ROWS = 65_536
_TYPE_MARK, _BLOB = b"omnigraph:type", b"Blob"


def is_blob(field: pa.Field) -> bool:
    """Return whether a column holds large binary values, of which a scan returns descriptions instead of bytes."""
    return (field.metadata or {}).get(_TYPE_MARK) == _BLOB


class LanceTable:
    """One version of a table. Reads check the `watch`, if there is one, after every batch."""

    def __init__(self, handles: TableCache, path: str, version: int, watch: Watch | None = None) -> None:
        self.handles = handles
        self.path = path
        self.version = version
        self.watch = watch
        # What identifies the rows of this version in keys of caches.
        self.cache_version: int | str = version
        self._address_map: RowAddressMap | None = None
        self._data_files: dict[int, DataFileReader | None] = {}

    def __repr__(self) -> str:
        return f"Table({self.path!r}, {self.version})"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.handles.read_facts(self.path, self.version).schema

    def count(self, where: str | None = None) -> int:
        """Return the number of rows, or of matching rows; without a filter this needs no request."""
        rows = None if where is not None else self.handles.created_rows.get((self.path, self.version))
        if rows is not None:
            return rows
        fragments = None if where is not None else self.handles.get_fragments(self.path, self.version)
        if fragments is not None:
            return sum(fragment.rows - fragment.deleted for fragment in fragments)
        dataset = self.handles.open(self.path, self.version)
        with self.guard_read(where, reads_files=where is not None):
            return int(dataset.count_rows(filter=where))

    def count_values(self, column: str, fragments: Sequence[int]) -> int:
        """Return the number of rows in these fragments whose column is not null."""
        dataset = self.handles.open(self.path, self.version)
        # As text, because Lance does not accept an expression over vectors.
        has_value = f"`{column}` is not null"
        with self.guard_read(has_value):
            scanner = dataset.scanner(
                columns=[], filter=has_value, fragments=_select_fragments(self, fragments), with_row_id=True
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
        """Return the matching rows. Lance evaluates the filter, which may also use row addresses and row ids."""
        dataset = self.handles.open(self.path, self.version)
        with self.guard_read(where):
            reader = dataset.scanner(
                columns=None if columns is None else list(columns),
                filter=where,
                limit=limit,
                with_row_address=with_address,
            ).to_reader()
            if self.watch is None:
                return reader.read_all()
            batches, nbytes = [], 0
            for batch in reader:
                nbytes += batch.nbytes
                _check_watch(self, nbytes)
                batches.append(batch)
            return pa.Table.from_batches(batches, reader.schema)

    def iter_batches(  # noqa: PLR0913 - options of a scan, by keyword except for the first two
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        ahead: int | None = None,
        io_bytes: int | None = None,
        with_blobs: bool = False,
        with_address: bool = False,
        fragments: Sequence[int] | None = None,
        within: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of these fragments, or of all, in the order of their positions.

        `within` selects a range of the matching rows. A batch has at most `batch_rows` rows and about `batch_bytes`
        bytes, but at least a row; `ahead` batches are decoded concurrently, and up to `io_bytes` are read before they
        are needed. A blob is returned as its description, or with `with_blobs` as its bytes.
        """
        dataset = self.handles.open(self.path, self.version)
        if with_blobs:
            # Lance reads whatever URI a row names, so all descriptions are checked before the first byte is read.
            check_fragment_blobs(self, columns, fragments)
        with self.guard_read(where):
            # Not `to_batches` of the dataset itself: it accepts any argument, and ignores `fragments`.
            for batch in dataset.scanner(
                columns=None if columns is None else list(columns),
                filter=where,
                fragments=None if fragments is None else _select_fragments(self, fragments),
                offset=None if within is None else within.start,
                limit=None if within is None else len(within),
                batch_size=batch_rows,
                batch_size_bytes=batch_bytes,
                batch_readahead=ahead,
                io_buffer_size=io_bytes,
                with_row_address=with_address,
                blob_handling="all_binary" if with_blobs else None,
            ).to_batches():
                _check_watch(self)
                yield batch

    def take(self, positions: Sequence[int] | pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows at these positions among the live rows, in the order of the positions."""
        indices = positions if isinstance(positions, pa.Array) else pa.array(positions, pa.int64())
        if self.watch is None or len(indices) <= TAKE_CHUNK_ROWS:
            _check_watch(self)
            return self._take_rows(indices, columns)
        chunks, nbytes = [], 0
        for start in range(0, len(indices), TAKE_CHUNK_ROWS):
            chunks.append(self._take_rows(indices.slice(start, TAKE_CHUNK_ROWS), columns))
            nbytes += chunks[-1].nbytes
            _check_watch(self, nbytes)
        return pa.concat_tables(chunks)

    def _take_rows(self, indices: pa.Array, columns: Sequence[str] | None) -> pa.Table:
        dataset = self.handles.open(self.path, self.version)
        names = dataset.schema.names if columns is None else list(columns)
        with self.guard_read():
            # Lance's own `take` is slow in fragments with deleted rows; see `take_rows`.
            if any(fragment.deleted for fragment in self.list_fragments()):
                described = [name for name in names if name == ADDRESS or is_blob(dataset.schema.field(name))]
                positions = np.asarray(indices.to_numpy(), np.int64)
                rows = take_rows(dataset, positions, names, described, self.get_address_map(), self.open_data_file)
                if rows is not None:
                    return rows
            return dataset.take(indices, columns=names)

    def take_with_blobs(self, positions: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return the rows at these positions among the live rows, in that order, with the bytes of each blob."""
        dataset = self.handles.open(self.path, self.version)
        blobs = [name for name in columns if is_blob(dataset.schema.field(name))]
        plain = [name for name in columns if name not in blobs]
        values_by_column = {} if not plain else dict(zip(plain, self.take(positions, plain).columns, strict=True))
        for name in blobs:
            check_blobs(self.handles.store, self.path, name, self.take(positions, [name]).column(name))
            addresses = pa.array(self.get_address_map().to_addresses(np.asarray(positions, np.int64)))
            with self.guard_read():
                values = dataset.read_blobs(name, addresses=addresses, preserve_order=True)
            values_by_column[name] = pa.array([value for _, value in values], pa.large_binary())
        return pa.table({name: values_by_column[name] for name in columns})

    def find_rows(
        self, column: str, keys: Sequence[str] | pa.Array, columns: Sequence[str], *, with_address: bool = False
    ) -> pa.Table:
        """Return the rows whose `column` is one of `keys`, in any order.

        An index is asked for the fragments that it covers. Of small files that no index covers, the keys are cached if
        there is room for them, else these files are scanned.
        """
        distinct = keys.unique().drop_null() if isinstance(keys, pa.Array) else pa.array(sorted(set(keys)), pa.string())
        if not len(distinct):
            return self.scan(columns, limit=0, with_address=with_address)
        if len(distinct) <= MAX_PUSHED_KEYS:
            return _find_few(self, column, distinct, columns, with_address=with_address)
        dataset = self.handles.open(self.path, self.version)
        names = list(dict.fromkeys([*columns, column]))
        matches, nbytes = [], 0
        # Built once: Arrow's `is_in` would hash all keys again for every batch.
        index = StringHashIndex(distinct) if pa.types.is_string(distinct.type) else None
        with self.guard_read():
            for batch in dataset.to_batches(columns=names, with_row_address=with_address):
                values = batch.column(column)
                if index is None:
                    is_key = pc.is_in(values, value_set=distinct)
                else:
                    is_key = pa.array(index.find_positions(values) >= 0)
                matching = batch.filter(is_key)
                _check_watch(self, nbytes)
                if matching.num_rows:
                    nbytes += matching.nbytes
                    matches.append(matching)
        selected = [*columns, ADDRESS] if with_address else list(columns)
        schema = matches[0].schema if matches else self.scan(names, limit=0, with_address=with_address).schema
        return pa.Table.from_batches(matches, schema).select(selected)

    def list_fragments(self) -> tuple[Fragment, ...]:
        """Return the fragments of this version, in order; needs no request."""
        return self.handles.list_fragments(self.path, self.version)

    def get_address_map(self) -> RowAddressMap:
        """Return the map between positions and addresses.

        It needs no request until a row is looked up in a fragment with deleted rows.
        """
        if self._address_map is None:
            fragments = self.list_fragments()
            numbers = [fragment.number for fragment in fragments]
            live_rows = [fragment.rows - fragment.deleted for fragment in fragments]
            deleted = [fragment.deleted for fragment in fragments]
            # A method of another LanceTable: one of this object would be a reference cycle, and keep both in memory.
            read_offsets = LanceTable(self.handles, self.path, self.version).read_deleted_offsets
            self._address_map = RowAddressMap(numbers, live_rows, deleted, read_offsets)
        return self._address_map

    def find_field_number(self, column: str) -> int:
        """Return Lance's field id of a column: it survives renames, and no other column ever gets it."""
        return self.handles.read_facts(self.path, self.version).numbers[column]

    def iter_written_rows(self, columns: Sequence[str], fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of these fragments in batches, in their order, including the values of deleted rows."""
        # Several files are read at the same time by Lance.
        dataset = self.handles.open(self.path, self.version)
        if len(fragments) == 1:
            # As `guard_read` does: names of files on an object store have a checksum only if they were encoded here.
            verify(self)
            rows = fetch_rows(self.handles.store, self.path, dataset, fragments[0], columns)
            if rows is not None:
                yield from rows.to_batches()
                return
        # Lance returns deleted rows only together with row ids, which cost it no read.
        scanner = dataset.scanner(
            columns=list(columns),
            fragments=_select_fragments(self, fragments),
            include_deleted_rows=True,
            with_row_id=True,
            batch_readahead=BATCH_READAHEAD,
        )
        with self.guard_read():
            yield from scanner.to_batches()

    def list_carried(self) -> dict[tuple[str, ...], CarriedRows]:
        """Return the rows that the file of this version carries, by the files that they are a copy of."""
        decoded = map(decode_carried, self.handles.carried.get_read(self.path, self.version).values())
        return {rows.files: rows for rows in decoded if rows is not None}

    def read_deleted_offsets(self, fragments: Sequence[int]) -> list[Positions]:
        """Return the ascending offsets of the deleted rows of each of these fragments.

        For large fragments on a local disk the cost follows the number of deleted rows: their deletion files are
        decoded. For others Lance scans the addresses of live rows, without a request for a file that it has cached.
        """
        verify(self)
        with_deletions = [fragment for fragment in _select_fragments(self, fragments) if fragment.num_deletions]
        # On an object store a deletion file costs a request that Lance may have made already.
        min_rows = MIN_DELETION_FILE_ROWS if self.handles.store.location.is_local else _UNLIMITED_ROWS
        large = [fragment.metadata for fragment in with_deletions if fragment.physical_rows >= min_rows]
        small = [fragment for fragment in with_deletions if fragment.physical_rows < min_rows]
        offsets = {number: np.empty(0, np.int64) for number in fragments}
        for metadata in large:
            offsets[metadata.id] = _decode_deletion_file(self, metadata)
        if small:
            batches = self.iter_batches([], fragments=[fragment.fragment_id for fragment in small], with_address=True)
            live = np.concatenate([np.asarray(batch.column(ADDRESS).to_numpy(), np.uint64) for batch in batches])
            for fragment in small:
                live_offsets = live[live >> _FRAGMENT_SHIFT == fragment.fragment_id] & _OFFSET_MASK
                offsets[fragment.fragment_id] = invert_offsets(live_offsets.astype(np.int64), fragment.physical_rows)
        return [offsets[number] for number in fragments]

    def open_data_file(self, fragment: int) -> DataFileReader | None:
        """Return a reader of all rows of a fragment, deleted ones too, or None if its file can't be read directly."""
        dataset = self.handles.open(self.path, self.version)
        if fragment not in self._data_files:
            guard = partial(translate_read_errors, self.path, self.version, self.handles.explain)
            # A data file holds only the descriptions of blobs, so tables with blobs are read through Lance.
            is_possible = not any(map(is_blob, dataset.schema))
            reader = open_data_file(self.handles.store, self.path, dataset, fragment, guard) if is_possible else None
            self._data_files[fragment] = reader
        return self._data_files[fragment]

    def measure_index_coverage(self) -> tuple[IndexCoverage, ...]:
        """Return all indexes of this version by name, each with the number of fragments it covers."""
        is_known = self.handles.read_facts(self.path, self.version).indexes is not None
        with self.guard_read(reads_files=not is_known):
            indexes = self.handles.list_indexes(self.path, self.version)
        # Not of a handle: a version that was just created has none yet, and opening one takes 0.3 ms.
        fragments = frozenset(fragment.number for fragment in self.list_fragments()) if indexes else frozenset()
        coverages = []
        for index in indexes:
            # A segment may still list fragments that this version no longer has.
            covered = fragments & index.fragments
            coverages.append(
                IndexCoverage(
                    index.name, index.columns, index.kind, len(covered), len(fragments), index.segments, covered
                )
            )
        return tuple(coverages)

    @contextmanager
    def guard_read(
        self, where: str | None = None, *, with_indexes: bool = False, reads_files: bool = True
    ) -> Iterator[None]:
        """Verify files before a read, count its requests, and translate its errors."""
        if reads_files:
            self.handles.store.wait_for_uploads(self.path)
        # A scan with a filter may read index files.
        has_indexes = with_indexes or where is not None
        verify(self, VerifyLevel.ROWS | VerifyLevel.INDEXES if has_indexes else VerifyLevel.ROWS)
        errors = translate_read_errors(self.path, self.version, self.handles.explain)
        try:
            with attribute_requests(self.handles.store.runtime.telemetry, "table"), errors:
                yield
        except OmnigraphError:
            raise
        except Exception as error:
            # A damaged file that is too large to be verified before the read may be the cause.
            verify(self, VerifyLevel.WHOLE, cause=error)
            raise


def verify(
    table: LanceTable,
    level: int = VerifyLevel.ROWS,
    *,
    cause: Exception | None = None,
    only: Collection[int] | None = None,
) -> None:
    """Compare the files that rows are read from with their checksums, each once per process.

    Large files are skipped unless the level or the settings require all of them. `only` limits the check to these
    fragments.

    Raises:
        PinUnreadableError: A file does not match. `cause` is the error that reading it raised, if any.
    """
    handles = table.handles
    if handles.store.verifier.is_eager:
        level |= VerifyLevel.WHOLE
    verified = handles.get_verified_level(table.path, table.version)
    if not handles.is_verifying or verified & level == level or verified & VerifyLevel.WHOLE:
        return
    limit = None if level & VerifyLevel.WHOLE else SMALL_BYTES
    # On an object store every comparison is a request, so ordinary reads skip it unless the settings ask for it.
    if limit is not None and not handles.store.verifier.is_verifying_reads:
        return
    # Those that are stored, also where a table leaves out some of their rows.
    stored = handles.list_fragments(table.path, table.version)
    fragments = [fragment for fragment in stored if only is None or fragment.number in only]
    checks: list[Iterator[Mismatch]] = []
    if not verified & VerifyLevel.ROWS or limit is None:
        checks.append(find_row_mismatches(table, fragments, limit))
    if only is None and (level & ~verified & VerifyLevel.INDEXES or limit is None):
        checks.append(find_index_mismatches(table, limit))
    with handles.translate_verify_errors(table.path), translate_read_errors(table.path, table.version):
        mismatch = next(chain.from_iterable(checks), None)
    if mismatch is not None:
        error = PinUnreadableError(table.path, table.version, f"{mismatch.key}: {mismatch.reason}")
        raise handles.explain(error) from cause
    # After a check of some fragments, nothing is known about the version as a whole.
    if only is None:
        handles.mark_verified(table.path, table.version, level | VerifyLevel.ROWS)


def verify_rows(table: LanceTable, positions: Positions) -> None:
    """Verify all files of the fragments that hold the rows at these positions, before they are written again.

    The new files get their own checksums, so damage that is copied into them can't be detected later.
    """
    address_map = table.get_address_map()
    indices = np.unique(address_map.find_fragments(positions)).tolist()
    verify(table, VerifyLevel.WHOLE, only={address_map.numbers[index] for index in indices})


def find_row_mismatches(table: LanceTable, fragments: Iterable[Fragment], limit: int | None) -> Iterator[Mismatch]:
    """Yield the files of fragments up to `limit` bytes that do not match their checksums; None means no limit.

    Missing files are skipped: the read that needs them reports them.

    Raises:
        OSError: A file can't be read.
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
    """Yield the index segments up to `limit` bytes that do not match their checksums; None means no limit."""
    verifier = table.handles.store.verifier
    for index in table.handles.open(table.path, table.version).describe_indices():
        for segment in index.segments:
            if limit is None or (segment.size_bytes or 0) <= limit:
                yield from _iter_present(verifier.find_mismatch(f"{table.path}/_indices/{segment.uuid}"))


def _iter_present(mismatch: Mismatch | None) -> Iterator[Mismatch]:
    if mismatch is not None:
        yield mismatch


def find_malformed_deletions(table: LanceTable, fragment: Fragment) -> Mismatch | None:
    """Return a mismatch if a deletion file without a checksum in its name can't be decoded; on local disk only.

    It runs before Lance decodes the file: one wrong bit in it makes Lance reserve petabytes, which ends the process.
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


def _select_fragments(table: LanceTable, fragments: Sequence[int]) -> list[lance.LanceFragment]:
    dataset = table.handles.open(table.path, table.version)
    # Not from `get_fragments`: it takes 0.8 ms for a thousand fragments, also if only one is needed.
    selected = {number: dataset.get_fragment(number) for number in fragments}
    return [_require_fragment(number, selected[number]) for number in fragments]


def _require_fragment(number: int, fragment: lance.LanceFragment | None) -> lance.LanceFragment:
    if fragment is None:
        raise KeyError(number)
    return fragment


def _find_few(
    table: LanceTable, column: str, keys: pa.Array, columns: Sequence[str], *, with_address: bool
) -> pa.Table:
    """Find rows by a few keys: in the cache of keys where possible, else by a filter."""
    schema = table.schema
    cache = table.handles.keys
    cached = None
    if cache is not None and set(columns) <= {*schema.names, ROW_NUMBER}:
        cached = cache.find(table, schema.field(column), keys, _find_covered_fragments(table, column))
    if cache is None or cached is None:
        return table.scan(columns, filters.build_in_list(column, keys), with_address=with_address)
    selected = [*columns, ADDRESS] if with_address else list(columns)
    known = {column: cached.values, ADDRESS: pa.array(cached.addresses)}
    if cached.ids is not None:
        known[ID] = cached.ids
    unread = cached.addresses
    if known.keys() >= set(selected):
        unread = unread[:0]
    else:
        known.clear()
        if ROW_NUMBER not in columns:
            fields = [schema.field(name) for name in columns]
            loaded = [] if any(map(is_blob, fields)) else fields
            # One request reads the whole file.
            if loaded and table.handles.store.local is None:
                loaded = [field for field in schema if not is_blob(field)]
            known, taken, unread = cache.take_rows(table, unread, fields, loaded)
            known[ADDRESS] = pa.array(taken)
    # Other values are read, but only from the fragments that have a row.
    fragments = [*cached.uncached, *np.unique(unread >> np.uint64(32)).tolist()]
    batches = []
    if fragments:
        where = filters.build_in_list(column, keys)
        batches = list(table.iter_batches(columns, where, with_address=with_address, fragments=fragments))
    if batches:
        parts = [pa.Table.from_batches(batches)]
    elif any(is_blob(schema.field(name)) for name in columns if name != ROW_NUMBER) or ROW_NUMBER in columns:
        parts = [table.scan(columns, limit=0, with_address=with_address)]
    else:
        # Without a scan, which takes 0.4 ms to plan: most lookups of new keys end here.
        parts = [_select_fields(schema, selected).empty_table()]
    if known.keys() >= set(selected):
        parts.append(pa.Table.from_arrays([known[name] for name in selected], schema=parts[0].schema))
    rows = pa.concat_tables(parts)
    _check_watch(table, rows.nbytes)
    return rows


def read_ahead(table: LanceTable, fragments: Collection[int]) -> None:
    """Read what lookups will need of new fragments, before the version is published.

    After a compaction each writer would read them: 64 threads that update rows, and the one that publishes for all of
    them, stood still for up to six seconds on an object store.
    """
    cache = table.handles.keys
    if cache is None:
        return
    schema = table.schema
    for name in cache.list_columns(table.path):
        if name in schema.names:
            cache.read_keys(table, schema.field(name), _find_covered_fragments(table, name))
    cache.read_rows(table, [field for field in schema if not is_blob(field)], fragments)


def write_key_page(table: LanceTable, columns: Sequence[str]) -> None:
    """Keep the keys of files that no index covers where a new process reads them all at once."""
    cache = table.handles.keys
    if cache is not None:
        fields = [table.schema.field(name) for name in columns if name in table.schema.names]
        cache.write_page(table, fields, lambda name: _find_covered_fragments(table, name))


def _select_fields(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of a scan of some columns, of which one may be the address."""
    return pa.schema([pa.field(ADDRESS, pa.uint64()) if name == ADDRESS else schema.field(name) for name in columns])


def _find_covered_fragments(table: LanceTable, column: str) -> frozenset[int]:
    """Return the fragments in which an index finds the rows with a value of this column."""
    indexes = [index for index in table.measure_index_coverage() if index.columns == (column,)]
    return frozenset[int]().union(*(index.numbers for index in indexes if index.kind.upper() in _EQUALITY_INDEXES))


def _check_watch(table: LanceTable, nbytes: int = 0) -> None:
    """Check with the table's watch, if there is one, that reading may continue with `nbytes` of rows in memory."""
    if table.watch is not None:
        table.watch.check()
        table.watch.check_size(nbytes, f"reading rows of {table.path}")


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


def count_small_fragments(handles: TableCache, path: str, version: int, rows: int) -> int:
    """Return the number of fragments of a version with fewer rows than given; needs no request."""
    # Not Lance's own list, which takes 8 µs for each fragment: with 300 of them, a fifth of the time of a group.
    return sum(fragment.rows < rows for fragment in handles.list_fragments(path, version))


def check_blobs_at(table: LanceTable, column: str, addresses: Sequence[int]) -> None:
    """Check that the blobs of the rows at these addresses are in the graph, or where the settings allow them.

    Raises:
        ForeignBlobError: A blob is elsewhere.
    """
    positions = table.get_address_map().to_positions(np.asarray(addresses, np.uint64))
    check_blobs(table.handles.store, table.path, column, table.take(pa.array(positions), [column]).column(column))


def check_fragment_blobs(table: LanceTable, columns: Sequence[str] | None, fragments: Sequence[int] | None) -> None:
    """Check the blobs of all rows of some fragments as `check_blobs_at` does, by a scan of their small descriptions."""
    blobs = [field.name for field in table.schema if is_blob(field) and (columns is None or field.name in columns)]
    for batch in table.iter_batches(blobs, fragments=fragments) if blobs else ():
        for name in blobs:
            check_blobs(table.handles.store, table.path, name, batch.column(name))


ID = "id"
# Consecutive generated ids share their first characters: LZ4 writes them in less than half of the time that Lance's own
# choice takes, to three quarters of the size, and they are read faster too.
_GENERATED_ID_MARK = b"omnigraph:made"


def build_physical_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema as Lance stores it: `id` is the (unenforced) primary key, blob columns are Lance blobs."""
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
