"""Diff two versions of a table by their files, at a cost that follows the size of the change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.storage.columnar_sets import is_among
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import LanceTable

ID = "id"


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """The stored rows that only the newer version has, and those that only the older one has.

    A row that was moved or rewritten is in both.
    """

    added: pa.Table
    removed: pa.Table

    def find_lost_ids(self) -> pa.Array:
        """Return the ids that no row has any longer."""
        ids = self.removed.column(ID).combine_chunks()
        return ids.filter(pa.array(~is_among(ids, self.added.column(ID))))


def diff_versions(before: LanceTable, after: LanceTable, columns: Sequence[str]) -> VersionDiff:
    """Return the rows that differ between two versions, with these columns and the id."""
    names = list(dict.fromkeys([ID, *columns]))
    # By file names, because another version may give the number of a fragment to other rows.
    old = {fragment.files: fragment for fragment in before.list_fragments()}
    new = {fragment.files: fragment for fragment in after.list_fragments()}
    added = [*_iter_rows(after, [fragment for files, fragment in new.items() if files not in old], names)]
    removed = [*_iter_rows(before, [fragment for files, fragment in old.items() if files not in new], names)]
    for files, old_fragment in old.items():
        new_fragment = new.get(files)
        # In both directions, because each version may have deletions that the other one does not have.
        if new_fragment is not None and new_fragment.deletions != old_fragment.deletions:
            removed += _read_rows_missing_in(before, old_fragment, after, new_fragment, names)
            added += _read_rows_missing_in(after, new_fragment, before, old_fragment, names)
    schema = pa.schema([after.schema.field(name) for name in names])
    return VersionDiff(_build_table(added, schema), _build_table(removed, schema))


def _iter_rows(table: LanceTable, fragments: Sequence[Fragment], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if fragments:
        yield from table.iter_batches(names, fragments=[fragment.number for fragment in fragments])


def _read_rows_missing_in(
    table: LanceTable, fragment: Fragment, other: LanceTable, other_fragment: Fragment, names: Sequence[str]
) -> list[pa.RecordBatch]:
    """Return the live rows of a fragment that are deleted in the other version of the fragment."""
    deleted = table.read_deleted_offsets([fragment.number])[0]
    deleted_in_other = other.read_deleted_offsets([other_fragment.number])[0]
    offsets = np.setdiff1d(deleted_in_other, deleted, assume_unique=True).astype(np.uint64)
    if not len(offsets):
        return []
    addresses = np.uint64(fragment.number) << np.uint64(32) | offsets
    return list(table.take(pa.array(table.get_address_map().to_positions(addresses)), names).to_batches())


def _build_table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    # The metadata and nullability of columns may differ between the versions.
    plain = pa.schema([pa.field(field.name, field.type) for field in schema])
    plain_batches = [pa.RecordBatch.from_arrays(batch.columns, schema=plain) for batch in batches]
    return pa.Table.from_batches(plain_batches, plain)
