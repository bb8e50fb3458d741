"""Detect damage: whether the files that a table version names exist, have their size, and can be read.

Nothing here relies on a cache: callers open the store again before an inspection.
"""

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.file import LanceFileReader

from omnigraph.errors import OmnigraphError
from omnigraph.storage import filters
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.checksums import parse_blob_checksum
from omnigraph.storage.foreign_blobs import find_foreign_uris
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.index_staging import list_stored_indexes
from omnigraph.storage.io_counters import attribute_requests, convert_store_error, extract_reason, is_unreachable
from omnigraph.storage.lance_table import ADDRESS, LanceTable, find_malformed_deletions, is_blob
from omnigraph.storage.layout import build_version_key, format_deletion_name, parse_version_number
from omnigraph.storage.object_store import ForeignFileError, ObjectInfo, StoreDeniedError, StoreUnavailableError
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.table_cache import PANIC, PinnedDataset, PinUnreadableError
from omnigraph.storage.verification import raise_mismatch
from omnigraph.storage.version_files import PinnedFiles, list_version_files

_FIRST_VERSION = 1
# More than a vector index has, so that a search probes all of its partitions.
_MAX_PARTITIONS = 65_536
# Kinds of blobs that are stored in files beside the data file: several in one file, or one in its own.
_EXTERNAL_BLOB_KINDS = (1, 2)


@contextmanager
def translate_damage(subject: str) -> Iterator[None]:
    """Translate whatever Lance raises over stored data into DamagedError.

    A store that does not answer says nothing about the data: such an error stays a StoreUnavailableError.
    """
    try:
        yield
    except PinUnreadableError as error:
        raise DamagedError(subject, error.reason) from error
    except ForeignFileError as error:
        raise DamagedError(error.key, f"it is {error.what}") from error
    except StoreUnavailableError as error:
        if isinstance(error, StoreDeniedError) or is_unreachable(error):
            raise
        raise DamagedError(subject, error.reason) from error
    except OmnigraphError:
        raise
    except Exception as error:
        # Any exception: damaged bytes may decode to anything, and Arrow, NumPy or Python may fail over it.
        if is_unreachable(error):
            raise convert_store_error(f"read {subject}", error) from error
        raise DamagedError(subject, extract_reason(error) or type(error).__name__) from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        if is_unreachable(error):
            raise convert_store_error(f"read {subject}", error) from error
        raise DamagedError(subject, extract_reason(RuntimeError(str(error)))) from error


class FileFaultKind(Enum):
    """The kind of damage of a file that a version needs."""

    MISSING = "missing"
    SIZE = "size"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    """A damaged or missing file that a version needs."""

    kind: FileFaultKind
    place: str
    """The file, relative to the root."""
    reason: str
    index: str | None = None
    """The index that the file belongs to, whose loss costs no row; None for other files."""


class TableListing:
    """The objects below the directory of a table: the size of each file, and the total size of each directory."""

    def __init__(self, path: str, objects: Iterable[ObjectInfo] = ()) -> None:
        self.path = path
        self.objects = tuple(objects)
        self.sizes = {info.key: info.size for info in self.objects}
        self.directories: Counter[str] = Counter()
        for key, size in self.sizes.items():
            self.directories[key.rpartition("/")[0]] += size

    def find_moved_head(self) -> int | None:
        """Return the newest ordinary version if another tool has created some; omnigraph creates only the first."""
        prefix = f"{self.path}/_versions/"
        numbers = (parse_version_number(key) for key in self.sizes if key.startswith(prefix))
        newest = max(numbers, default=_FIRST_VERSION)
        return newest if newest > _FIRST_VERSION else None


def list_table(store: GraphStorage, path: str) -> TableListing:
    """List the objects of one table, with one request."""
    return TableListing(path, store.objects.list_under(path))


def list_tables_below(store: GraphStorage, directory: str) -> dict[str, TableListing]:
    """List the objects of all tables in a directory such as `nodes`, with one request, by table path."""
    objects_by_path: dict[str, list[ObjectInfo]] = {}
    for info in store.objects.list_under(directory):
        objects_by_path.setdefault("/".join(info.key.split("/", 2)[:2]), []).append(info)
    return {path: TableListing(path, objects) for path, objects in objects_by_path.items()}


@dataclass(frozen=True, slots=True)
class VersionInspection:
    """The files of a version, and which of them are damaged. A version that can't be opened has no files."""

    parts: PinnedFiles
    faults: tuple[FileFault, ...] = ()

    @property
    def is_readable(self) -> bool:
        """Whether all its rows exist, judging by the files; indexes do not count."""
        return all(fault.index is not None for fault in self.faults)


def inspect_version(table: LanceTable, listing: TableListing) -> VersionInspection:
    """Open a version, and find the files that it names that are missing or have another size.

    A version whose file does not match its checksum is not opened. A missing transaction file is no fault: no reader
    needs it after the commit.

    Raises:
        UnknownPartError: The version has parts whose location is not known.
    """
    version_key = build_version_key(table.path, table.version)
    try:
        with translate_damage(version_key):
            raise_mismatch(table.handles.store.verifier.find_version_mismatch(table.path, table.version), DamagedError)
            dataset = table.handles.open(table.path, table.version)
            parts = list_version_files(dataset, table.path)
            sizes = _read_data_sizes(dataset, table.path)
            segments = [(index.name, segment) for index in list_stored_indexes(table) for segment in index.segments]
    except DamagedError as error:
        is_there = version_key in listing.sizes
        kind = FileFaultKind.UNREADABLE if is_there else FileFaultKind.MISSING
        reason = error.reason if is_there else "it is missing"
        return VersionInspection(PinnedFiles(), (FileFault(kind=kind, place=version_key, reason=reason),))
    faults: list[FileFault] = []
    for file in sorted(parts.files):
        if f"{table.path}/_transactions/" not in file:
            faults += _iter_size_faults(file, listing.sizes.get(file), sizes.get(file))
    for directory in sorted(parts.directories):
        # A data file whose name carries a checksum of blobs must have blobs beside it.
        has_blobs = "/data/" in directory and parse_blob_checksum(f"{directory}.lance") is not None
        if has_blobs and directory not in listing.directories:
            faults.append(FileFault(kind=FileFaultKind.MISSING, place=directory, reason="its blobs are missing"))
    for name, segment in segments:
        directory = f"{table.path}/_indices/{segment.uuid}"
        faults += _iter_size_faults(directory, listing.directories.get(directory), segment.nbytes or None, name)
    return VersionInspection(parts, tuple(faults))


def find_file_fault(store: GraphStorage, key: str, index: str | None = None) -> FileFault | None:
    """Compare a file, or a directory of blobs or of an index, with its checksum, before anything decodes it."""
    try:
        with translate_damage(key), _translate_bad_sectors(store, key):
            raise_mismatch(store.verifier.find_mismatch(key), DamagedError)
    except DamagedError as error:
        return FileFault(kind=FileFaultKind.UNREADABLE, place=error.place, reason=error.reason, index=index)
    return None


@contextmanager
def _translate_bad_sectors(store: GraphStorage, key: str) -> Iterator[None]:
    """Translate a read error of a local disk into damage: the disk answers, and other files can be read."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO or not store.location.is_local:
            raise
        raise DamagedError(key, "the disk can't read it") from error


def find_checksum_faults(table: LanceTable, limit: int | None) -> list[FileFault]:
    """Return the files of a version that do not match their checksums, of those up to a size, or of all.

    Deletion files without a checksum are decoded, as before every read: Lance crashes over some damaged ones.
    """
    verifier = table.handles.store.verifier
    keys: dict[str, str | None] = {}
    for fragment in table.list_fragments():
        if fragment.deletions is not None:
            keys[f"{table.path}/_deletions/{fragment.deletions}"] = None
        for name in fragment.files:
            key = f"{table.path}/data/{name}"
            if limit is None or fragment.nbytes <= limit:
                keys[key] = None
            if limit is None or verifier.measure_blobs(table.path, name) <= limit:
                keys[key.removesuffix(".lance")] = None
    for index in list_stored_indexes(table):
        for segment in index.segments:
            if limit is None or segment.nbytes <= limit:
                keys[f"{table.path}/_indices/{segment.uuid}"] = index.name
    checks = (find_file_fault(table.handles.store, key, index) for key, index in keys.items())
    faults = [fault for fault in checks if fault is not None]
    reported = {fault.place for fault in faults}
    # After the checksums: a deletion file without one counts as verified once it could be decoded.
    for fragment in table.list_fragments():
        mismatch = None if fragment.deletions is None else find_malformed_deletions(table, fragment)
        if mismatch is not None and mismatch.key not in reported:
            faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=mismatch.key, reason=mismatch.reason))
    return faults


def _read_data_sizes(dataset: PinnedDataset, path: str) -> dict[str, int | None]:
    files = [file for fragment in dataset.get_fragments() for file in fragment.metadata.files]
    return {f"{path}/data/{file.path}": file.file_size_bytes for file in files}


def _iter_size_faults(
    key: str, size: int | None, expected: int | None, index: str | None = None
) -> Iterator[FileFault]:
    if size is None:
        yield FileFault(kind=FileFaultKind.MISSING, place=key, reason="it is missing", index=index)
    # No file of a version is empty, even if its size was not recorded.
    elif not size or (expected is not None and size != expected):
        should = "" if expected is None else f", and should have {expected:,}"
        yield FileFault(kind=FileFaultKind.SIZE, place=key, reason=f"it has {size:,} bytes{should}", index=index)


def find_footer_faults(table: LanceTable) -> list[FileFault]:
    """Return the data files whose footer can't be read or has another row count than the version: two requests each.

    Call it only for files that exist and are not empty.
    """
    store = table.handles.store
    dataset = table.handles.open(table.path, table.version)
    faults = []
    for fragment in dataset.get_fragments():
        for file in fragment.metadata.files:
            key = f"{table.path}/data/{file.path}"
            try:
                with translate_damage(key), attribute_requests(store.runtime.telemetry, "table"):
                    rows = (
                        LanceFileReader(store.resolve_uri(key), storage_options=store.lance_options).metadata().num_rows
                    )
            except DamagedError as error:
                faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=key, reason=error.reason))
                continue
            if rows != fragment.metadata.physical_rows:
                reason = f"it has {rows:,} rows, and should have {fragment.metadata.physical_rows:,}"
                faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=key, reason=reason))
    return faults


def find_deletion_faults(table: LanceTable) -> list[FileFault]:
    """Return the deletion files that can't be read, or delete another number of rows than the version states."""
    dataset = table.handles.open(table.path, table.version)
    faults = []
    for fragment in table.list_fragments():
        if fragment.deletions is None:
            continue
        metadata = next(stored.metadata for stored in dataset.get_fragments() if stored.fragment_id == fragment.number)
        key = f"{table.path}/{format_deletion_name(metadata.to_json())}"
        try:
            with translate_damage(key):
                # Addresses alone: no column has to be read to apply the deletions.
                batches = table.iter_batches([], fragments=[fragment.number], with_address=True)
                live_rows = sum(map(len, batches))
        except DamagedError as error:
            faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=key, reason=error.reason))
            continue
        if live_rows != fragment.rows - fragment.deleted:
            reason = f"it leaves {live_rows:,} rows, and should leave {fragment.rows - fragment.deleted:,}"
            faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=key, reason=reason))
    return faults


# Why the columns of a fragment can't be read, or None if they can; by table, fragment and field numbers.
DecodeResults: TypeAlias = dict[tuple[str, Fragment, tuple[int, ...]], str | None]


def find_column_faults(
    table: LanceTable, results: DecodeResults, check_cancelled: Callable[[], None] = lambda: None
) -> list[FileFault]:
    """Return the fragments of which some column can't be read; of blobs only the pointers are read.

    Every row is read, in batches, except of fragments that `results` already has: versions share most fragments.
    `check_cancelled` is called with each batch, and may raise to stop.
    """
    numbers = tuple(map(table.find_field_number, table.schema.names))
    faults = []
    for fragment in table.list_fragments():
        # The fragment with its deletions: values that only deleted rows need are not read.
        key = (table.path, fragment, numbers)
        if key not in results:
            results[key] = _find_decode_error(table, fragment, check_cancelled)
        reason = results[key]
        if reason is not None:
            # With several files, the error does not tell which one is damaged.
            damaged = f"{table.path}/data/{fragment.files[0]}" if len(fragment.files) == 1 else table.path
            faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=damaged, reason=reason))
    return faults


def _find_decode_error(table: LanceTable, fragment: Fragment, check_cancelled: Callable[[], None]) -> str | None:
    try:
        with translate_damage(table.path):
            for _ in table.iter_batches(fragments=[fragment.number]):
                check_cancelled()  # reading is the check: Lance validates what it decodes, texts too
    except DamagedError as error:
        return error.reason
    return None


def find_blob_faults(table: LanceTable, listing: TableListing) -> list[FileFault]:
    """Return the blob files that rows point to and that are missing or too short: one scan of the pointers.

    Small blobs are in the data files themselves.
    """
    dataset = table.handles.open(table.path, table.version)
    faults = []
    for column in [field.name for field in table.schema if is_blob(field)]:
        number = table.find_field_number(column)
        directories = {
            fragment.fragment_id: file.path.removesuffix(".lance")
            for fragment in dataset.get_fragments()
            for file in fragment.metadata.files
            if number in file.fields
        }
        faults += _find_foreign_blobs(table, column)
        for (fragment, blob_id), end in sorted(_measure_blob_files(table, column).items()):
            # Lance names the file by the bits of its number, the lowest first.
            key = f"{table.path}/data/{directories[fragment]}/{f'{blob_id:032b}'[::-1]}.blob"
            size = listing.sizes.get(key)
            if size is None:
                faults.append(FileFault(kind=FileFaultKind.MISSING, place=key, reason="it is missing"))
            elif size < end:
                reason = f"it has {size:,} bytes, and should have {end:,}"
                faults.append(FileFault(kind=FileFaultKind.SIZE, place=key, reason=reason))
    return faults


def _find_foreign_blobs(table: LanceTable, column: str) -> list[FileFault]:
    """Return a fault for each URI outside of the graph that rows name."""
    uris = {uri for batch in table.iter_batches([column]) for uri in find_foreign_uris(batch.column(column))}
    return [
        FileFault(
            kind=FileFaultKind.UNREADABLE, place=table.path, reason=f"`{column}` names `{uri}`, outside of the graph"
        )
        for uri in sorted(uris)
    ]


def _measure_blob_files(table: LanceTable, column: str) -> dict[tuple[int, int], int]:
    """Return the highest end offset that rows refer to in each blob file, by fragment and file number."""
    ends: dict[tuple[int, int], int] = {}
    for batch in table.iter_batches([column], with_address=True):
        pointers = batch.column(column)
        kinds, ids, starts, sizes = (
            pc.fill_null(pc.struct_field(pointers, name), 0).to_numpy(zero_copy_only=False)
            for name in ("kind", "blob_id", "position", "size")
        )
        is_external = np.isin(kinds, _EXTERNAL_BLOB_KINDS)
        # An address is `fragment << 32 | offset`: with the offset replaced by the file number, it identifies a file.
        fragments = batch.column(ADDRESS).to_numpy() >> np.uint64(32) << np.uint64(32)
        files, inverse = np.unique(fragments[is_external] | ids[is_external].astype(np.uint64), return_inverse=True)
        file_ends = np.zeros(len(files), np.uint64)
        np.maximum.at(file_ends, inverse, (starts + sizes)[is_external])
        for file, end in zip(files.tolist(), file_ends.tolist(), strict=True):
            key = (file >> 32, file & 0xFFFFFFFF)
            ends[key] = max(ends.get(key, 0), end)
    return ends


def find_by_index(table: LanceTable, column: str, values: pa.Array) -> tuple[Addresses, Addresses]:
    """Return the addresses of the rows with one of the values, by the index and by a scan of the column."""
    return _find_both_ways(table, column, filters.build_in_list(column, values))


def find_by_label(table: LanceTable, column: str, label: pa.Scalar) -> tuple[Addresses, Addresses]:
    """Return the addresses of the rows whose lists contain a value, by the index and by a scan."""
    return _find_both_ways(table, column, filters.build_list_contains(column, label))


def _find_both_ways(table: LanceTable, column: str, where: str) -> tuple[Addresses, Addresses]:
    indexed = _scan_addresses(table, column, filter=where, use_scalar_index=True)[ADDRESS]
    scanned = _scan_addresses(table, column, filter=where, use_scalar_index=False)[ADDRESS]
    return np.sort(indexed.to_numpy()), np.sort(scanned.to_numpy())


def find_by_word(table: LanceTable, column: str, word: str) -> Addresses:
    """Return the addresses of the rows that a full-text index finds for a word."""
    hits = _scan_addresses(table, column, full_text_query={"columns": [column], "query": word})
    return np.sort(hits[ADDRESS].to_numpy())


def find_by_vector(table: LanceTable, column: str, vector: pa.Array, count: int) -> tuple[Addresses, np.ndarray]:
    """Return the addresses of the nearest rows that a vector index finds in all its partitions, and their distances."""
    nearest = {"column": column, "q": vector, "k": count, "nprobes": _MAX_PARTITIONS}
    hits = _scan_addresses(table, column, nearest=nearest)
    return hits[ADDRESS].to_numpy(), hits["_distance"].to_numpy()


def _scan_addresses(table: LanceTable, column: str, **options: object) -> pa.Table:
    dataset = table.handles.open(table.path, table.version)
    with (
        translate_damage(f"the index of `{column}` of {table.path}"),
        attribute_requests(table.handles.store.runtime.telemetry, "table"),
    ):
        return dataset.scanner(columns=[], with_row_address=True, **options).to_table()  # type: ignore[arg-type]  # by name


def load_index(table: LanceTable, name: str) -> None:
    """Read an index completely.

    Raises:
        DamagedError: It can't be read.
    """
    dataset = table.handles.open(table.path, table.version)
    with (
        translate_damage(f"the index {name} of {table.path}"),
        attribute_requests(table.handles.store.runtime.telemetry, "table"),
    ):
        dataset.prewarm_index(name)
