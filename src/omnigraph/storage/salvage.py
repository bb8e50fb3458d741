"""Salvage a damaged table: find the fragments that are lost, and read or stage the table without them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.integrity_check import (
    DecodeResults,
    FileFault,
    TableListing,
    find_blob_faults,
    find_column_faults,
)
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.staging import StagedWrite, WriteKind
from omnigraph.storage.table_cache import TableCache


class PartialTable(LanceTable):
    """A version of a table without its lost fragments, for sequential reads."""

    def __init__(self, handles: TableCache, path: str, version: int, lost: Iterable[int]) -> None:
        super().__init__(handles, path, version)
        self._lost = frozenset(lost)

    def list_fragments(self) -> tuple[Fragment, ...]:
        """Return the fragments that are left."""
        return tuple(fragment for fragment in super().list_fragments() if fragment.number not in self._lost)

    def count(self, where: str | None = None) -> int:
        """Return the number of rows that are left; a filter is not supported, because no caller needs one."""
        assert where is None  # noqa: S101 - see the docstring
        return count_rows(self.list_fragments())

    def iter_batches(
        self,
        columns: Sequence[str] | None = None,
        *args: Any,  # noqa: ANN401 - passed on unchanged
        **options: Any,  # noqa: ANN401 - passed on unchanged
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are left."""
        numbers = [fragment.number for fragment in self.list_fragments()]
        requested = options.pop("fragments", None)
        if requested is not None:
            numbers = [number for number in requested if number not in self._lost]
        return super().iter_batches(columns, *args, fragments=numbers, **options) if numbers else iter(())

    def take(self, positions: Sequence[int] | pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows at these positions among those that are left, by a scan of all of them."""
        rows = pa.Table.from_batches(list(self.iter_batches(columns)))
        return rows.take(positions if isinstance(positions, pa.Array) else pa.array(positions, pa.int64()))


def count_rows(fragments: Iterable[Fragment]) -> int:
    """Return the number of live rows in some fragments."""
    return sum(fragment.rows - fragment.deleted for fragment in fragments)


def find_lost_fragments(
    table: LanceTable,
    listing: TableListing,
    faults: Iterable[FileFault],
    decoded: DecodeResults,
    check_cancelled: Callable[[], None],
) -> frozenset[int] | None:
    """Return the fragments that need a damaged file, or None if the damage is not confined to fragments.

    All other fragments are read completely: every column of every row, and the files of their blobs.
    """
    fragments = table.list_fragments()
    lost: set[int] = set()
    for fault in faults:
        owners = [fragment.number for fragment in fragments if fault.place in _build_fragment_keys(table, fragment)]
        if not owners:
            return None
        lost.update(owners)
    # Each fragment is read alone, so that an error can be attributed to it.
    for fragment in fragments:
        other_numbers = [other.number for other in fragments if other is not fragment]
        alone = PartialTable(table.handles, table.path, table.version, other_numbers)
        if fragment.number not in lost and find_column_faults(alone, decoded, check_cancelled):
            lost.add(fragment.number)
    # Blob descriptions are columns, so only fragments whose columns can be read are searched.
    rest = PartialTable(table.handles, table.path, table.version, lost)
    for fault in find_blob_faults(rest, listing):
        owners = [fragment.number for fragment in fragments if fault.place in _build_fragment_keys(table, fragment)]
        lost.update(owners)
    return frozenset(lost)


class _FragmentKeys:
    """The keys of a fragment's files, including everything in the directories of its blobs."""

    def __init__(self, files: Iterable[str], directories: Iterable[str]) -> None:
        self._files = frozenset(files)
        self._directories = frozenset(directories)

    def __contains__(self, key: str) -> bool:
        return key in self._files or key in self._directories or key.rpartition("/")[0] in self._directories


def _build_fragment_keys(table: LanceTable, fragment: Fragment) -> _FragmentKeys:
    data = [f"{table.path}/data/{name}" for name in fragment.files]
    deletions = [] if fragment.deletions is None else [f"{table.path}/_deletions/{fragment.deletions}"]
    # Lance puts the blobs of a data file into a directory of the same name without `.lance`.
    return _FragmentKeys([*data, *deletions], [name.removesuffix(".lance") for name in data])


def stage_removal(table: LanceTable, lost: Iterable[int]) -> StagedWrite:
    """Stage a version without some fragments; none of their files is read, and nothing is written."""
    numbers = frozenset(lost)
    fragments = table.list_fragments()
    removed = [fragment for fragment in fragments if fragment.number in numbers]
    return StagedWrite(
        change=WriteKind.DELETE,
        path=table.path,
        base=table.version,
        removed=tuple(fragment.number for fragment in removed),
        taken_rows=count_rows(removed),
        base_rows=count_rows(fragments),
    )
