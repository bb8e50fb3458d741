"""The rows of a load as they are stored. In a merge, what a record leaves out is what is there already."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_batch import LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import LoadError, Problem
from omnigraph.engine.bulk.row_spool import build_left_out_name
from omnigraph.engine.decoding.prefetch import prefetch
from omnigraph.engine.writing.blob_claims import are_same_blobs, build_row_claims
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.engine.writing.omitted_values import fill_omitted, list_columns_to_read
from omnigraph.engine.writing.value_rules import find_broken_values
from omnigraph.engine.writing.violations import MAX_REPORTED_PROBLEMS, format_row_value
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.storage.columnar_sets import Mask, Positions, are_equal, concat_chunks, to_mask
from omnigraph.storage.lance_table import ADDRESS


@dataclass(frozen=True, slots=True)
class _UpsertChunk:
    """Some rows of a merge: the first one's position, their columns, and where records left a property out."""

    start: int
    batch: pa.RecordBatch
    left_out: Mapping[str, Mask]

    def slice_mask(self, mask: Mask) -> Mask:
        """The part of a mask over all rows."""
        return mask[self.start : self.start + self.batch.num_rows]


def iter_merged_batches(rows: TypeBatch, is_written: Mask) -> Iterator[pa.RecordBatch]:
    """The rows to write, whole, a batch at a time; a blob that a row keeps is claimed.

    The next ones are read while somebody works on those before, unless a single row may be large.
    """
    found = _iter_whole_rows(rows, is_written)
    return found if list_blob_properties(rows.type) else prefetch(found)


def _iter_whole_rows(rows: TypeBatch, is_written: Mask) -> Generator[pa.RecordBatch]:
    if rows.mode is not LoadMode.MERGE or rows.existing is None or not rows.exists.any():
        start = 0
        for batch in rows.spooled.read_batches(build_arrow_schema(rows.type).names):
            chosen = is_written[start : start + batch.num_rows]
            start += batch.num_rows
            if chosen.any():
                yield batch if chosen.all() else batch.filter(pa.array(chosen))
        return
    for part in _iter_chunks(rows):
        chosen = part.slice_mask(is_written)
        if chosen.any():
            whole = _merge_chunk(rows, part, chosen & part.slice_mask(rows.exists))
            if whole is not part.batch:
                _check_sizes(rows, whole)
            yield whole if chosen.all() else whole.filter(pa.array(chosen))


def find_unchanged(rows: TypeBatch) -> None:
    """Mark the rows that say nothing but what is there: they need not be written again.

    Of many rows, texts, vectors and blobs are read only where numbers and the like do not tell them apart already.
    """
    if rows.existing is None or not rows.exists.any():
        return
    columns = [one for one in build_arrow_schema(rows.type) if one.name != ID]
    narrow = [one.name for one in columns if pa.types.is_primitive(one.type)]
    wide = [one.name for one in columns if one.name not in narrow]
    rounds = [narrow, wide] if rows.existing.is_located else [[*narrow, *wide]]
    for part in _iter_chunks(rows):
        asked = np.flatnonzero(part.slice_mask(rows.exists) & ~part.slice_mask(rows.is_excluded))
        for names in rounds:
            asked = asked[_compare_columns(rows, part, asked, names)]
        rows.is_unchanged[part.start + asked] = True


def _compare_columns(rows: TypeBatch, part: _UpsertChunk, asked: Positions, names: Sequence[str]) -> Mask:
    """For each of the rows `asked`, whether its record says in these columns what is there, or nothing."""
    is_same = np.ones(len(asked), np.bool_)
    given = [name for name in names if not (name in part.left_out and part.left_out[name][asked].all())]
    if rows.existing is None or not len(asked) or not given:
        return is_same
    blobs = set(given).intersection(list_blob_properties(rows.type))
    before = rows.existing.fetch(rows.existing.at[part.start + asked], [*given, ADDRESS] if blobs else given)
    for name in given:
        own, there = part.batch.column(name).take(pa.array(asked)), concat_chunks(before.column(name))
        if name in blobs:
            equal = are_same_blobs(rows.table, name, own, there, concat_chunks(before.column(ADDRESS)))
        else:
            equal = are_equal(own, there.cast(own.type))
        if name in part.left_out:
            equal |= part.left_out[name][asked]
        is_same &= equal
    return is_same


def _iter_chunks(rows: TypeBatch) -> Iterator[_UpsertChunk]:
    names = build_arrow_schema(rows.type).names
    silent = [name for name in names if name != ID and name in rows.spooled.left_out]
    start = 0
    for batch in rows.spooled.read_batches([*names, *map(build_left_out_name, silent)]):
        left_out = {name: to_mask(batch.column(build_left_out_name(name))) for name in silent}
        yield _UpsertChunk(start, batch.select(names), left_out)
        start += batch.num_rows


def _merge_chunk(rows: TypeBatch, part: _UpsertChunk, known: Mask) -> pa.RecordBatch:
    """The part's rows; those that are `known` get what their records left out from the committed rows."""
    gaps = {name: mask & known for name, mask in part.left_out.items() if (mask & known).any()}
    if not gaps or rows.existing is None:
        return part.batch
    asked = np.flatnonzero(np.logical_or.reduce(list(gaps.values())))
    blobs = set(list_blob_properties(rows.type))
    names = [*list_columns_to_read(rows.type, gaps), *([ADDRESS] if blobs else [])]
    before = rows.existing.fetch(rows.existing.at[part.start + asked], names)
    for name in blobs.intersection(gaps):
        claims = build_row_claims(concat_chunks(before.column(name)), concat_chunks(before.column(ADDRESS)))
        before = before.set_column(before.schema.get_field_index(name), name, claims)
    filled = fill_omitted(rows.type, pa.Table.from_batches([part.batch]), gaps, asked, before)
    return filled.combine_chunks().to_batches()[0]


def _check_sizes(rows: TypeBatch, merged: pa.RecordBatch) -> None:
    """What a record says and what its row keeps may each be fine, and too much together."""
    broken = [one for one in find_broken_values(rows.type, pa.Table.from_batches([merged])) if one.rule == "size"]
    if broken:
        problems = [
            Problem(
                rule=one.rule,
                file=None,
                line=None,
                unit="row",
                type=rows.type.name,
                property=one.property,
                value=format_row_value(one.value),
                message=one.message,
            )
            for one in broken[:MAX_REPORTED_PROBLEMS]
        ]
        raise LoadError(problems, len(broken))
