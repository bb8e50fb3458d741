"""What differs between two versions of a table: found by files, so that it costs what was changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.storage.columnar_sets import is_among
from omnigraph.storage.lance_table import Fragment, LanceTable

ID = "id"


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """Rows that lie only in the newer version, and rows that lie only in the older one.

    A row that was moved or rewritten is in both.
    """

    added: pa.Table
    removed: pa.Table

    def find_lost_ids(self) -> pa.Array:
        """The ids that no row has any more."""
        ids = self.removed.column(ID).combine_chunks()
        return ids.filter(pa.array(~is_among(ids, self.added.column(ID))))


def diff_versions(before: LanceTable, after: LanceTable, columns: Sequence[str]) -> VersionDiff:
    """What differs, with these columns and the id."""
    names = list(dict.fromkeys([ID, *columns]))
    old = {one.files: one for one in before.list_fragments()}
    new = {one.files: one for one in after.list_fragments()}
    come = [*_iter_rows(after, [one for files, one in new.items() if files not in old], names)]
    gone = [*_iter_rows(before, [one for files, one in old.items() if files not in new], names)]
    for files, one in old.items():
        other = new.get(files)
        if other is not None and other.deletions != one.deletions:
            gone += _read_rows_missing_in(before, one, after, other, names)
            come += _read_rows_missing_in(after, other, before, one, names)
    schema = pa.schema([after.schema.field(name) for name in names])
    return VersionDiff(_build_table(come, schema), _build_table(gone, schema))


def _iter_rows(table: LanceTable, fragments: Sequence[Fragment], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if fragments:
        yield from table.iter_batches(names, fragments=[one.number for one in fragments])


def _read_rows_missing_in(
    table: LanceTable, fragment: Fragment, other: LanceTable, there: Fragment, names: Sequence[str]
) -> list[pa.RecordBatch]:
    """The rows of a fragment that the other version of it has deleted."""
    own, others = table.read_deleted_offsets([fragment.number])[0], other.read_deleted_offsets([there.number])[0]
    offsets = np.setdiff1d(others, own, assume_unique=True).astype(np.uint64)
    if not len(offsets):
        return []
    addresses = np.uint64(fragment.number) << np.uint64(32) | offsets
    return list(table.take(pa.array(table.get_address_map().to_positions(addresses)), names).to_batches())


def _build_table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    plain = pa.schema([pa.field(one.name, one.type) for one in schema])
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(one.columns, schema=plain) for one in batches], plain)
