"""Apply what a caller decided about conflicting rows, while two sides are merged. Pure: no table is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.decoding.json_columns import decode_json_column
from omnigraph.engine.merging.resolutions import BASE, VALUE, TypeChoices
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Column, Mask, concat_chunks


def set_values(type_: AnyType, rows: pa.Table, values: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return the rows with new values, a mapping by column for each; an embedding of a new text is cleared."""
    for column in dict.fromkeys(name for row in values for name in row):
        at = rows.schema.get_field_index(column)
        given = [row.get(column) for row in values]
        is_given = np.array([column in row for row in values], np.bool_)
        rows = rows.set_column(
            at, rows.schema.field(at), _choose(rows.column(at), _decode(type_, column, given), is_given)
        )
        for p in type_.properties:
            if p.embedding is not None and p.embedding.source == column and not any(p.name in row for row in values):
                rows = _clear(rows, p.name, is_given)
    return rows


def _decode(type_: AnyType, column: str, values: Sequence[object]) -> pa.Array:
    prop = type_.find_property(column)
    return pa.array(values, pa.string()) if prop is None else decode_json_column(prop.type, values).array


def _choose(first: pa.ChunkedArray, second: pa.Array, is_second: Mask) -> pa.Array:
    rows = np.arange(len(is_second))
    both = pa.concat_arrays([concat_chunks(first), second.cast(first.type)])
    return both.take(pa.array(np.where(is_second, rows + len(rows), rows)))


def _clear(rows: pa.Table, column: str, is_cleared: Mask) -> pa.Table:
    at = rows.schema.get_field_index(column)
    field = rows.schema.field(at)
    return rows.set_column(at, field, _choose(rows.column(at), pa.nulls(rows.num_rows, field.type), is_cleared))


@dataclass(frozen=True, slots=True)
class ChosenValues:
    """The decisions about the rows of one type, for a merge that starts from the table of the `kept` side."""

    type: AnyType
    choices: TypeChoices
    kept: str
    """`ours` or `theirs`."""

    def find_taken(self, name: str, ids: Column, clash: Mask) -> Mask:
        """Return which of the clashing rows take the other side's value of a column."""
        chosen = self.choices.properties.get(name, {})
        other = "theirs" if self.kept == "ours" else "ours"
        result = np.zeros(len(clash), np.bool_)
        rows = np.flatnonzero(clash)
        result[rows] = [chosen[row_id][0] == other for row_id in _list_ids(ids, rows)]
        return result

    def set_chosen(self, rows: pa.Table, base: pa.Table | None, clashes: Mapping[str, Mask]) -> tuple[pa.Table, Mask]:
        """Return merged rows with the chosen values that neither side has, and which rows got one."""
        is_set = np.zeros(rows.num_rows, np.bool_)
        for name, clash in clashes.items():
            chosen = self.choices.properties.get(name, {})
            at = np.flatnonzero(clash)
            takes = [chosen[row_id] for row_id in _list_ids(rows.column(ID), at)]
            from_base = at[[take == BASE for take, _ in takes]]
            if base is not None and len(from_base):
                mask = np.isin(np.arange(rows.num_rows), from_base)
                column = rows.schema.get_field_index(name)
                values = _choose(rows.column(column), concat_chunks(base.column(name)), mask)
                rows = self._clear_embeddings(rows.set_column(column, rows.schema.field(column), values), name, mask)
                is_set |= mask
            given = {int(row): value for row, (take, value) in zip(at, takes, strict=True) if take == VALUE}
            if given:
                documents = [{name: given[row]} if row in given else {} for row in range(rows.num_rows)]
                rows = set_values(self.type, rows, documents)
                is_set[list(given)] = True
        return rows, is_set

    def _clear_embeddings(self, rows: pa.Table, text: str, mask: Mask) -> pa.Table:
        """Clear the embeddings of a text that is neither side's; they are computed again later."""
        for p in self.type.properties:
            if p.embedding is not None and p.embedding.source == text:
                rows = _clear(rows, p.name, mask)
        return rows

    def find_staying(self, ids: Column, *, is_kept_deleted: bool) -> Mask:
        """Return which rows stay, of those that one side deleted and the other changed."""
        other = "theirs" if self.kept == "ours" else "ours"
        deleter = self.kept if is_kept_deleted else other
        takes = [self.choices.rows[row_id][0] for row_id in concat_chunks(ids).to_pylist()]
        return np.array([take != deleter for take in takes], np.bool_)

    def revise(self, after: pa.Table, before: pa.Table, changed: Mapping[str, Mask]) -> tuple[pa.Table, Mask]:
        """Return changed rows that stay, as they were decided to be, and which differ from what the side had."""
        takes = [self.choices.rows[row_id] for row_id in concat_chunks(after.column(ID)).to_pylist()]
        is_base = np.array([take == BASE for take, _ in takes], np.bool_)
        for at, field in enumerate(after.schema):
            if is_base.any() and changed[field.name][is_base].any():
                values = _choose(after.column(at), concat_chunks(before.column(field.name)), is_base)
                after = after.set_column(at, field, values)
        after = set_values(self.type, after, [values for _, values in takes])
        return after, is_base | np.array([take == VALUE for take, _ in takes], np.bool_)


def _list_ids(ids: Column, rows: np.ndarray) -> list[str]:
    found: list[str] = concat_chunks(ids).take(pa.array(rows)).to_pylist()
    return found
