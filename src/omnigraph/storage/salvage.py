"""What is left of a table when some of its files are gone: all fragments but those that need them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.storage.integrity_check import (
    DecodeResults,
    FileFault,
    TableListing,
    find_blob_faults,
    find_column_faults,
)
from omnigraph.storage.lance_table import Fragment, LanceTable
from omnigraph.storage.staging import StagedWrite, WriteKind
from omnigraph.storage.table_cache import TableCache


class PartialTable(LanceTable):
    """A version of a table without some of its fragments, for what is read in order."""

    def __init__(self, handles: TableCache, path: str, version: int, lost: Iterable[int]) -> None:
        super().__init__(handles, path, version)
        self._lost = frozenset(lost)

    def list_fragments(self) -> tuple[Fragment, ...]:
        """Return the pieces that are left."""
        return tuple(one for one in super().list_fragments() if one.number not in self._lost)

    def count(self, where: str | None = None) -> int:
        """Return how many rows are left; not how many match, which nothing asks of what is left."""
        assert where is None  # noqa: S101 - see above
        return count_rows(self.list_fragments())

    def iter_batches(self, columns: Sequence[str] | None = None, *args: Any, **how: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - handed on as they are
        """Read the rows that are left."""
        numbers = [one.number for one in self.list_fragments()]
        wanted = how.pop("fragments", None)
        chosen = numbers if wanted is None else [one for one in wanted if one not in self._lost]
        return super().iter_batches(columns, *args, fragments=chosen, **how) if chosen else iter(())

    def take(self, positions: Sequence[int] | pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows at these positions among those that are left: by a scan, so ask for few."""
        rows = pa.Table.from_batches(list(self.iter_batches(columns)))
        return rows.take(positions if isinstance(positions, pa.Array) else pa.array(positions, pa.int64()))


def count_rows(fragments: Iterable[Fragment]) -> int:
    """Return how many rows live in some fragments."""
    return sum(one.rows - one.deleted for one in fragments)


def find_lost_fragments(
    table: LanceTable,
    listing: TableListing,
    faults: Iterable[FileFault],
    known: DecodeResults,
    check_cancelled: Callable[[], None],
) -> frozenset[int] | None:
    """Return the fragments that need a file that is damaged; None when something else than a fragment is.

    The rest is read whole: every column of every row, and what its large values point to.
    """
    fragments = table.list_fragments()
    lost: set[int] = set()
    for fault in faults:
        owners = [one.number for one in fragments if fault.place in _build_fragment_keys(table, one)]
        if not owners:
            return None
        lost.update(owners)
    for fragment in fragments:
        others = [one.number for one in fragments if one is not fragment]
        alone = PartialTable(table.handles, table.path, table.version, others)
        if fragment.number not in lost and find_column_faults(alone, known, check_cancelled):
            lost.add(fragment.number)
    rest = PartialTable(table.handles, table.path, table.version, lost)
    for fault in find_blob_faults(rest, listing):
        lost.update(one.number for one in fragments if fault.place in _build_fragment_keys(table, one))
    return frozenset(lost)


class _FragmentKeys:
    """The keys of a fragment's files, with all below the directories of blobs beside them."""

    def __init__(self, files: Iterable[str], directories: Iterable[str]) -> None:
        self._files, self._directories = frozenset(files), frozenset(directories)

    def __contains__(self, key: str) -> bool:
        return key in self._files or key in self._directories or key.rpartition("/")[0] in self._directories


def _build_fragment_keys(table: LanceTable, fragment: Fragment) -> _FragmentKeys:
    data = [f"{table.path}/data/{name}" for name in fragment.files]
    deletions = [] if fragment.deletions is None else [f"{table.path}/_deletions/{fragment.deletions}"]
    return _FragmentKeys([*data, *deletions], [name.removesuffix(".lance") for name in data])


def stage_removal(table: LanceTable, lost: Iterable[int]) -> StagedWrite:
    """Stage a version without some fragments; nothing of them is read or written."""
    numbers = frozenset(lost)
    fragments = table.list_fragments()
    gone = [one for one in fragments if one.number in numbers]
    return StagedWrite(
        change=WriteKind.DELETE,
        path=table.path,
        base=table.version,
        removed=tuple(one.number for one in gone),
        taken_rows=count_rows(gone),
        base_rows=count_rows(fragments),
    )
