"""Looking for damage: whether what a version of a table names is there, has its size, and can be read.

Nothing here trusts a cache: whoever inspects opens the store anew.
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
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.index_staging import list_stored_indexes
from omnigraph.storage.io_counters import attribute_requests, convert_store_error, extract_reason, is_unreachable
from omnigraph.storage.lance_table import ADDRESS, Fragment, LanceTable, find_malformed_deletions, is_blob
from omnigraph.storage.layout import build_version_key, format_deletion_name, parse_version_number
from omnigraph.storage.object_store import ForeignFileError, ObjectInfo, StoreDeniedError, StoreUnavailableError
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.table_cache import PANIC, PinnedDataset, PinUnreadableError
from omnigraph.storage.verification import Mismatch
from omnigraph.storage.version_files import PinnedFiles, list_version_files

_FIRST_VERSION = 1
_MAX_PARTITIONS = 65_536
"""More parts than an index of vectors has."""
_EXTERNAL_BLOB_KINDS = (1, 2)
"""The kinds of large values that lie in files beside the data file: several in one, or one by itself."""


@contextmanager
def translate_damage(place: str) -> Iterator[None]:
    """Turn whatever Lance raises over something that is stored into DamagedError.

    A store that does not answer says nothing about what is stored: that stays a StoreUnavailableError.
    """
    try:
        yield
    except PinUnreadableError as error:
        raise DamagedError(place, error.reason) from error
    except ForeignFileError as error:
        raise DamagedError(error.key, f"it is {error.what}") from error
    except StoreUnavailableError as error:
        if isinstance(error, StoreDeniedError) or is_unreachable(error):
            raise
        raise DamagedError(place, error.reason) from error
    except OmnigraphError:
        raise
    except Exception as error:
        # Whatever it is: what is decoded may say anything, and what stumbles over it may be Arrow, NumPy or Python.
        if is_unreachable(error):
            raise convert_store_error(f"read {place}", error) from error
        raise DamagedError(place, extract_reason(error) or type(error).__name__) from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        if is_unreachable(error):
            raise convert_store_error(f"read {place}", error) from error
        raise DamagedError(place, extract_reason(RuntimeError(str(error)))) from error


class FileFaultKind(Enum):
    """What is wrong with something that a version needs."""

    MISSING = "missing"
    SIZE = "size"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    """Something that a version needs and that is not as it should be."""

    kind: FileFaultKind
    place: str
    """The file, relative to the root."""
    reason: str
    index: str | None = None
    """The index that the file belongs to: without it no row is lost. None for every other file."""


class TableListing:
    """What there is below the directory of a table: the size of every file, and of every directory's own files."""

    def __init__(self, path: str, objects: Iterable[ObjectInfo] = ()) -> None:
        self.path, self.objects = path, tuple(objects)
        self.sizes = {info.key: info.size for info in self.objects}
        self.directories: Counter[str] = Counter()
        for key, size in self.sizes.items():
            self.directories[key.rpartition("/")[0]] += size

    def find_moved_head(self) -> int | None:
        """The newest ordinary version of the table, when somebody else has made some; we only ever make the first."""
        prefix = f"{self.path}/_versions/"
        newest = max(
            (parse_version_number(key) for key in self.sizes if key.startswith(prefix)), default=_FIRST_VERSION
        )
        return newest if newest > _FIRST_VERSION else None


def list_table(store: GraphStorage, path: str) -> TableListing:
    """What is below one table, by one list."""
    return TableListing(path, store.objects.list_under(path))


def list_tables_below(store: GraphStorage, place: str) -> dict[str, TableListing]:
    """What is below every table in a directory such as `nodes`, by one list; tables by their paths."""
    found: dict[str, list[ObjectInfo]] = {}
    for info in store.objects.list_under(place):
        found.setdefault("/".join(info.key.split("/", 2)[:2]), []).append(info)
    return {path: TableListing(path, objects) for path, objects in found.items()}


@dataclass(frozen=True, slots=True)
class VersionInspection:
    """What a version is made of, and what of it is not as it should be. One that can't be opened is of nothing."""

    parts: PinnedFiles
    faults: tuple[FileFault, ...] = ()

    @property
    def is_readable(self) -> bool:
        """Whether all its rows are there, as far as files tell; an index is no row."""
        return all(fault.index is not None for fault in self.faults)


def inspect_version(table: LanceTable, listing: TableListing) -> VersionInspection:
    """Whether a version opens, and which of the files that it names are missing or of another size.

    A version whose file does not match its checksum is not opened. The file of its transaction is not missed: nobody
    reads it any more.

    Raises:
        UnknownPartError: The version has parts of which it is not known where they are.
    """
    own = build_version_key(table.path, table.version)
    try:
        with translate_damage(own):
            _raise_mismatch(table.handles.store.verifier.find_version_mismatch(table.path, table.version))
            dataset = table.handles.open(table.path, table.version)
            parts = list_version_files(dataset, table.path)
            sizes = _read_data_sizes(dataset, table.path)
            segments = [(index.name, segment) for index in list_stored_indexes(table) for segment in index.segments]
    except DamagedError as error:
        is_there = own in listing.sizes
        kind, reason = (
            (FileFaultKind.UNREADABLE, error.reason) if is_there else (FileFaultKind.MISSING, "it is missing")
        )
        return VersionInspection(PinnedFiles(), (FileFault(kind=kind, place=own, reason=reason),))
    faults: list[FileFault] = []
    for file in sorted(parts.files):
        if f"{table.path}/_transactions/" not in file:
            faults += _iter_size_faults(file, listing.sizes.get(file), sizes.get(file))
    for place in sorted(parts.directories):
        if "/data/" in place and parse_blob_checksum(f"{place}.lance") is not None and place not in listing.directories:
            faults.append(FileFault(kind=FileFaultKind.MISSING, place=place, reason="its blobs are missing"))
    for name, segment in segments:
        place = f"{table.path}/_indices/{segment.uuid}"
        faults += _iter_size_faults(place, listing.directories.get(place), segment.nbytes or None, name)
    return VersionInspection(parts, tuple(faults))


def _raise_mismatch(mismatch: Mismatch | None) -> None:
    if mismatch is not None:
        raise DamagedError(mismatch.key, mismatch.reason)


def find_file_fault(store: GraphStorage, key: str, index: str | None = None) -> FileFault | None:
    """Compare a file, or a directory of blobs or of an index, with its checksum: before anything decodes it."""
    try:
        with translate_damage(key), _translate_bad_sectors(store, key):
            _raise_mismatch(store.verifier.find_mismatch(key))
    except DamagedError as error:
        return FileFault(kind=FileFaultKind.UNREADABLE, place=error.place, reason=error.reason, index=index)
    return None


@contextmanager
def _translate_bad_sectors(store: GraphStorage, key: str) -> Iterator[None]:
    """Take a file that a local disk does not give back for damaged: the disk answers, and other files can be read."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO or not store.location.is_local:
            raise
        raise DamagedError(key, "the disk can't read it") from error


def find_checksum_faults(table: LanceTable, limit: int | None) -> list[FileFault]:
    """Return the files of a version that do not match their checksums, of those up to a size, or of all.

    Deletion files without a checksum are decoded, as before every read: Lance does not survive some that are damaged.
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
    looks = (find_file_fault(table.handles.store, key, index) for key, index in keys.items())
    faults = [fault for fault in looks if fault is not None]
    # Not before: what can be decoded is taken as whole where nothing else is known of it.
    malformed = (find_malformed_deletions(table, one) for one in table.list_fragments() if one.deletions is not None)
    known = {fault.place for fault in faults}
    return [
        *faults,
        *(
            FileFault(kind=FileFaultKind.UNREADABLE, place=one.key, reason=one.reason)
            for one in malformed
            if one is not None and one.key not in known
        ),
    ]


def _read_data_sizes(dataset: PinnedDataset, path: str) -> dict[str, int | None]:
    files = [file for fragment in dataset.get_fragments() for file in fragment.metadata.files]
    return {f"{path}/data/{file.path}": file.file_size_bytes for file in files}


def _iter_size_faults(
    place: str, found: int | None, expected: int | None, index: str | None = None
) -> Iterator[FileFault]:
    if found is None:
        yield FileFault(kind=FileFaultKind.MISSING, place=place, reason="it is missing", index=index)
    elif not found or (expected is not None and found != expected):
        should = "" if expected is None else f", and should have {expected:,}"
        yield FileFault(kind=FileFaultKind.SIZE, place=place, reason=f"it has {found:,} bytes{should}", index=index)


def find_footer_faults(table: LanceTable) -> list[FileFault]:
    """The data files whose ends can't be read, or say another number of rows than the version: two requests for each.

    To be asked only of files that are there and not empty.
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
    """The deletion files that can't be read, or delete another number of rows than the version says."""
    dataset = table.handles.open(table.path, table.version)
    faults = []
    for fragment in table.list_fragments():
        if fragment.deletions is None:
            continue
        metadata = next(one.metadata for one in dataset.get_fragments() if one.fragment_id == fragment.number)
        key = f"{table.path}/{format_deletion_name(metadata.to_json())}"
        try:
            with translate_damage(key):
                living = sum(len(one) for one in table.iter_batches([], fragments=[fragment.number], with_address=True))
        except DamagedError as error:
            faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=key, reason=error.reason))
            continue
        if living != fragment.rows - fragment.deleted:
            reason = f"it leaves {living:,} rows, and should leave {fragment.rows - fragment.deleted:,}"
            faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=key, reason=reason))
    return faults


DecodeResults: TypeAlias = dict[tuple[str, Fragment, tuple[int, ...]], str | None]
"""Why the columns of a fragment can't be read, or None where they can: by table, fragment and numbers of columns."""


def find_column_faults(
    table: LanceTable, known: DecodeResults, check_cancelled: Callable[[], None] = lambda: None
) -> list[FileFault]:
    """The fragments of which a value of any column can't be read; of large values only the pointers are.

    Every row is read, batch by batch, but of fragments of which `known` tells already: versions share most of theirs.
    `check_cancelled` is asked with each batch, and ends it by what it raises.
    """
    numbers = tuple(map(table.find_field_number, table.schema.names))
    faults = []
    for fragment in table.list_fragments():
        key = (table.path, fragment, numbers)  # with its deletions: what only deleted rows need is not read
        if key not in known:
            known[key] = _find_decode_error(table, fragment, check_cancelled)
        reason = known[key]
        if reason is not None:
            place = f"{table.path}/data/{fragment.files[0]}" if len(fragment.files) == 1 else table.path
            faults.append(FileFault(kind=FileFaultKind.UNREADABLE, place=place, reason=reason))
    return faults


def _find_decode_error(table: LanceTable, fragment: Fragment, check_cancelled: Callable[[], None]) -> str | None:
    try:
        with translate_damage(table.path):
            for _ in table.iter_batches(fragments=[fragment.number]):
                check_cancelled()  # and no more: Lance sees to it that what it decodes is what it should be, texts too
    except DamagedError as error:
        return error.reason
    return None


def find_blob_faults(table: LanceTable, listing: TableListing) -> list[FileFault]:
    """The files of large values that rows point into, and that are missing or end too early: one scan of the pointers.

    Small values lie in the data files themselves.
    """
    dataset = table.handles.open(table.path, table.version)
    faults = []
    for column in [one.name for one in table.schema if is_blob(one)]:
        number = table.find_field_number(column)
        homes = {
            one.fragment_id: file.path.removesuffix(".lance")
            for one in dataset.get_fragments()
            for file in one.metadata.files
            if number in file.fields
        }
        faults += _find_foreign_blobs(table, column)
        for (fragment, blob_id), end in sorted(_measure_blob_files(table, column).items()):
            # Lance names the file by the bits of its number, the lowest first.
            place = f"{table.path}/data/{homes[fragment]}/{f'{blob_id:032b}'[::-1]}.blob"
            found = listing.sizes.get(place)
            if found is None:
                faults.append(FileFault(kind=FileFaultKind.MISSING, place=place, reason="it is missing"))
            elif found < end:
                reason = f"it has {found:,} bytes, and should have {end:,}"
                faults.append(FileFault(kind=FileFaultKind.SIZE, place=place, reason=reason))
    return faults


def _find_foreign_blobs(table: LanceTable, column: str) -> list[FileFault]:
    """Return a fault for each place outside of the graph that rows name."""
    uris = {uri for batch in table.iter_batches([column]) for uri in find_foreign_uris(batch.column(column))}
    return [
        FileFault(
            kind=FileFaultKind.UNREADABLE, place=table.path, reason=f"`{column}` names `{uri}`, outside of the graph"
        )
        for uri in sorted(uris)
    ]


def _measure_blob_files(table: LanceTable, column: str) -> dict[tuple[int, int], int]:
    """How far rows point into each file of large values, by fragment and the number of the file."""
    ends: dict[tuple[int, int], int] = {}
    for batch in table.iter_batches([column], with_address=True):
        pointers = batch.column(column)
        kinds, ids, starts, sizes = (
            pc.fill_null(pc.struct_field(pointers, name), 0).to_numpy(zero_copy_only=False)
            for name in ("kind", "blob_id", "position", "size")
        )
        outside = np.isin(kinds, _EXTERNAL_BLOB_KINDS)
        fragments = batch.column(ADDRESS).to_numpy() >> np.uint64(32) << np.uint64(32)
        files, back = np.unique(fragments[outside] | ids[outside].astype(np.uint64), return_inverse=True)
        farthest = np.zeros(len(files), np.uint64)
        np.maximum.at(farthest, back, (starts + sizes)[outside])
        for file, end in zip(files.tolist(), farthest.tolist(), strict=True):
            key = (file >> 32, file & 0xFFFFFFFF)
            ends[key] = max(ends.get(key, 0), end)
    return ends


def find_by_index(table: LanceTable, column: str, values: pa.Array) -> tuple[Addresses, Addresses]:
    """Where the rows lie that hold one of the values, as the index says and as a scan of the column says."""
    return _find_both_ways(table, column, filters.build_in_list(column, values))


def find_by_label(table: LanceTable, column: str, label: pa.Scalar) -> tuple[Addresses, Addresses]:
    """The same of the rows whose lists hold a value."""
    return _find_both_ways(table, column, filters.build_list_contains(column, label))


def _find_both_ways(table: LanceTable, column: str, where: str) -> tuple[Addresses, Addresses]:
    found = [
        _scan_addresses(table, column, filter=where, use_scalar_index=is_asked)[ADDRESS].to_numpy()
        for is_asked in (True, False)
    ]
    return np.sort(found[0]), np.sort(found[1])


def find_by_word(table: LanceTable, column: str, word: str) -> Addresses:
    """Where the rows lie that an index of words finds for one."""
    found = _scan_addresses(table, column, full_text_query={"columns": [column], "query": word})
    return np.sort(found[ADDRESS].to_numpy())


def find_by_vector(table: LanceTable, column: str, vector: pa.Array, count: int) -> tuple[Addresses, np.ndarray]:
    """Where the nearest rows lie that an index of vectors finds in all its parts, and how far each is."""
    nearest = {"column": column, "q": vector, "k": count, "nprobes": _MAX_PARTITIONS}
    found = _scan_addresses(table, column, nearest=nearest)
    return found[ADDRESS].to_numpy(), found["_distance"].to_numpy()


def _scan_addresses(table: LanceTable, column: str, **how: object) -> pa.Table:
    dataset = table.handles.open(table.path, table.version)
    with (
        translate_damage(f"the index of `{column}` of {table.path}"),
        attribute_requests(table.handles.store.runtime.telemetry, "table"),
    ):
        return dataset.scanner(columns=[], with_row_address=True, **how).to_table()  # type: ignore[arg-type]  # by name


def load_index(table: LanceTable, name: str) -> None:
    """Read an index, or DamagedError."""
    dataset = table.handles.open(table.path, table.version)
    with (
        translate_damage(f"the index {name} of {table.path}"),
        attribute_requests(table.handles.store.runtime.telemetry, "table"),
    ):
        dataset.prewarm_index(name)
