"""What a write leaves out of a row that exists stays as it is: the one rule of upserts, by mutations and by loads."""

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
    """Which columns the pending rows of a type leave out, until they are filled with what the rows have there."""

    def __init__(self, type_: AnyType, committed: RowAddressCache) -> None:
        self._type, self._committed = type_, committed
        self._parts: list[tuple[int, Collection[str]]] = []
        """How many rows were put together, and what they leave out; in the order in which they were put."""
        self._read: dict[str, bool] = {}
        """The ids whose committed rows were looked for, and whether there was one."""

    def note(self, rows: int, omitted: Collection[str]) -> None:
        """Note that so many rows were put, and which columns they leave out."""
        self._parts.append((rows, omitted))

    def fill(self, rows: pa.Table) -> pa.Table:
        """Return the rows, of which the last are those that were noted since, with what they keep.

        One that leaves something out has the only row of its id among the noted ones. It keeps the values of the row
        of its id before these, else of the committed one; when there is neither, its own values stay.
        """
        parts, self._parts = self._parts, []
        names = [name for name in rows.schema.names if any(name in omitted for _, omitted in parts)]
        if not names:
            return rows
        sizes = [count for count, _ in parts]
        earlier = np.zeros(rows.num_rows - sum(sizes), np.bool_)
        gaps = {
            name: np.concatenate([earlier, np.repeat([name in omitted for _, omitted in parts], sizes)])
            for name in names
        }
        has_gap = np.logical_or.reduce(list(gaps.values()))
        ids = concat_chunks(rows.column(ID))
        whole = rows.filter(pa.array(~has_gap)).select([ID, *list_columns_to_read(self._type, gaps)])
        before = self._find_before(whole, ids.filter(pa.array(has_gap)))
        places = find_positions(ids, before.column(ID))
        exists = places >= 0
        asked = np.flatnonzero(has_gap & exists)
        kept = {name: mask & exists for name, mask in gaps.items()}
        return fill_omitted(self._type, rows, kept, asked, before.take(pa.array(places[asked])))

    def build_read_set(self) -> list[Requirement]:
        """Return what must stay so for the filled rows to be right: each row that was read, and each absence."""
        key = self._type.table_key
        found = sorted(row_id for row_id, is_there in self._read.items() if is_there)
        absent = sorted(row_id for row_id, is_there in self._read.items() if not is_there)
        requirements: list[Requirement] = []
        if found:
            requirements.append(RowsUnchanged(table_key=key, ids=found))
        if absent:
            requirements.append(IdsAbsent(table_key=key, ids=absent))
        return requirements

    def _find_before(self, pending: pa.Table, ids: pa.Array) -> pa.Table:
        """Return the rows of these ids as they were before: pending ones, else committed ones."""
        mine = pending.filter(pa.array(is_among(pending.column(ID), ids)))
        asked = ids.filter(pa.array(~is_among(ids, mine.column(ID))))
        if not len(asked):
            return mine
        found = self._committed.fetch_rows(asked, pending.schema.names, with_address=True)
        self._read |= dict.fromkeys(asked.to_pylist(), False) | dict.fromkeys(found.column(ID).to_pylist(), True)
        committed = reference_blobs(self._type, found).select(pending.schema.names).cast(pending.schema)
        return pa.concat_tables([mine, committed])


def fill_omitted(
    type_: AnyType, rows: pa.Table, omitted: Mapping[str, Mask], asked: Positions, before: pa.Table
) -> pa.Table:
    """Return the rows with the stored values of what they omit.

    `omitted` says by column which rows leave it out and exist; `asked` are the rows that leave out anything, ascending,
    and `before` has for each of them what is stored: the omitted columns, and the texts of omitted vectors. A vector
    that was computed from a text is not taken along when the row has another text now.
    """
    for name, mask in omitted.items():
        rows = _replace(rows, name, np.flatnonzero(mask), before.column(name), asked)
    vectors = [p.name for p in type_.properties if p.embedding is not None and p.name in omitted]
    if vectors:
        kept = {name: pa.array(omitted[name][asked]) for name in vectors}
        after = clear_stale_vectors(type_, before, rows.take(pa.array(asked)), kept)
        for name in vectors:
            rows = _replace(rows, name, asked, after.column(name), asked)
    return rows


def list_columns_to_read(type_: AnyType, omitted: Mapping[str, Mask]) -> list[str]:
    """Return the columns of stored rows that `fill_omitted` needs."""
    sources = (p.embedding.source for p in type_.properties if p.embedding is not None and p.name in omitted)
    return list(dict.fromkeys([*omitted, *sources]))


def _replace(rows: pa.Table, name: str, places: Positions, values: Column, asked: Positions) -> pa.Table:
    """Return the rows with those of the values, which belong to the rows `asked`, that belong to `places`."""
    at = rows.schema.get_field_index(name)
    own = concat_chunks(rows.column(at))
    source = np.arange(len(own))
    source[places] = len(own) + np.searchsorted(asked, places)
    # A `take` from both rather than `if_else`: it takes columns of any type, vectors and references too.
    both = pa.concat_arrays([own, concat_chunks(values).cast(own.type)])
    return rows.set_column(at, rows.schema.field(at), both.take(pa.array(source)))
