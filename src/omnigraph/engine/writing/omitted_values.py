"""Fill the columns that an upsert omits with the values of the row that exists, for mutations and for loads."""

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import IdsAbsent, Requirement, RowsUnchanged
from omnigraph.engine.writing.blobs import reference_blobs
from omnigraph.engine.writing.stale_embeddings import clear_stale_vectors
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Column, Mask, Positions, concat_chunks, find_positions, is_among
from omnigraph.storage.key_lookup import RowAddressCache


class OmittedValues:
    """The columns that the pending rows of a type omit, until they are filled from the rows that exist."""

    def __init__(self, type_: AnyType, committed: RowAddressCache) -> None:
        self._type = type_
        self._committed = committed
        # One entry per `put`, in order: the number of rows and the columns that they omit.
        self._parts: list[tuple[int, Collection[str]]] = []
        # The ids whose committed rows were looked up, and whether there was one: the read set of the upsert.
        self._read: dict[str, bool] = {}

    def note(self, rows: int, omitted: Collection[str]) -> None:
        """Record that a number of rows was put, and which columns they omit."""
        self._parts.append((rows, omitted))

    def fill(self, rows: pa.Table) -> pa.Table:
        """Return the rows with omitted columns filled; the last rows are those noted since the previous call.

        A row with omitted columns is the only noted row of its id. It takes the values of the earlier pending row of
        its id, else of the committed row; if there is neither, its own values (defaults) stay.
        """
        parts, self._parts = self._parts, []
        names = [name for name in rows.schema.names if any(name in omitted for _, omitted in parts)]
        if not names:
            return rows
        sizes = [count for count, _ in parts]
        # Rows before the noted ones were filled by an earlier call.
        earlier = np.zeros(rows.num_rows - sum(sizes), np.bool_)
        gaps = {
            name: np.concatenate([earlier, np.repeat([name in omitted for _, omitted in parts], sizes)])
            for name in names
        }
        has_gap = np.logical_or.reduce(list(gaps.values()))
        ids = concat_chunks(rows.column(ID))
        whole = rows.filter(pa.array(~has_gap)).select([ID, *list_columns_to_read(self._type, gaps)])
        before = self._find_before(whole, ids.filter(pa.array(has_gap)))
        positions = find_positions(ids, before.column(ID))
        exists = positions >= 0
        incomplete = np.flatnonzero(has_gap & exists)
        omitted_values = {name: mask & exists for name, mask in gaps.items()}
        return fill_omitted(self._type, rows, omitted_values, incomplete, before.take(pa.array(positions[incomplete])))

    def build_read_set(self) -> list[Requirement]:
        """Return the requirements of the filled rows: each row that was read is unchanged, each missing one absent."""
        key = self._type.table_key
        present = sorted(row_id for row_id, exists in self._read.items() if exists)
        absent = sorted(row_id for row_id, exists in self._read.items() if not exists)
        requirements: list[Requirement] = []
        if present:
            requirements.append(RowsUnchanged(table_key=key, ids=present))
        if absent:
            requirements.append(IdsAbsent(table_key=key, ids=absent))
        return requirements

    def _find_before(self, pending: pa.Table, ids: pa.Array) -> pa.Table:
        """Return the rows of these ids as they were before: pending ones, else committed ones."""
        earlier = pending.filter(pa.array(is_among(pending.column(ID), ids)))
        missing = ids.filter(pa.array(~is_among(ids, earlier.column(ID))))
        if not len(missing):
            return earlier
        rows = self._committed.fetch_rows(missing, pending.schema.names, with_address=True)
        self._read |= dict.fromkeys(missing.to_pylist(), False) | dict.fromkeys(rows.column(ID).to_pylist(), True)
        committed = reference_blobs(self._type, rows).select(pending.schema.names).cast(pending.schema)
        return pa.concat_tables([earlier, committed])


def fill_omitted(
    type_: AnyType, rows: pa.Table, omitted: Mapping[str, Mask], incomplete: Positions, before: pa.Table
) -> pa.Table:
    """Return the rows with omitted columns filled from the stored rows.

    `omitted` marks by column the existing rows that omit it; `incomplete` are the positions, ascending, of rows that
    omit any column. `before` has one stored row for each of these, with the columns of `list_columns_to_read`. A vector
    computed from a text is not kept if the row now has another text.
    """
    for name, mask in omitted.items():
        rows = _replace(rows, name, np.flatnonzero(mask), before.column(name), incomplete)
    vectors = [p.name for p in type_.properties if p.embedding is not None and p.name in omitted]
    if vectors:
        is_omitted = {name: pa.array(omitted[name][incomplete]) for name in vectors}
        after = clear_stale_vectors(type_, before, rows.take(pa.array(incomplete)), is_omitted)
        for name in vectors:
            rows = _replace(rows, name, incomplete, after.column(name), incomplete)
    return rows


def list_columns_to_read(type_: AnyType, omitted: Mapping[str, Mask]) -> list[str]:
    """Return the columns of stored rows that `fill_omitted` needs."""
    # Whether an omitted vector is stale shows from the text it was computed from, which the record may well contain.
    sources = (p.embedding.source for p in type_.properties if p.embedding is not None and p.name in omitted)
    return list(dict.fromkeys([*omitted, *sources]))


def _replace(rows: pa.Table, name: str, positions: Positions, values: Column, incomplete: Positions) -> pa.Table:
    """Return the rows with a column replaced at `positions`; `values` has one value per row in `incomplete`."""
    index = rows.schema.get_field_index(name)
    column = concat_chunks(rows.column(index))
    source = np.arange(len(column))
    source[positions] = len(column) + np.searchsorted(incomplete, positions)
    # A `take` from both columns instead of `if_else`: it works for any type, vectors and references too.
    both = pa.concat_arrays([column, concat_chunks(values).cast(column.type)])
    return rows.set_column(index, rows.schema.field(index), both.take(pa.array(source)))
