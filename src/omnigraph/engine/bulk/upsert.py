"""Build the stored rows of a load; in a merge, properties that a record leaves out come from the committed row."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_batch import LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import LoadError, Problem
from omnigraph.engine.bulk.row_spool import build_left_out_name
from omnigraph.engine.constraints.values import find_broken_values
from omnigraph.engine.constraints.violations import MAX_REPORTED_PROBLEMS
from omnigraph.engine.decoding.prefetch import prefetch
from omnigraph.engine.writing.blob_claims import are_same_blobs, build_row_claims
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.engine.writing.omitted_values import fill_omitted, list_columns_to_read
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.values import format_value
from omnigraph.storage.columnar_sets import Mask, Positions, are_equal, concat_chunks, to_mask
from omnigraph.storage.lance_table import ADDRESS


@dataclass(frozen=True, slots=True)
class _UpsertChunk:
    """Consecutive rows of a merge: the position of the first, their columns, and masks of left-out properties."""

    start: int
    batch: pa.RecordBatch
    left_out: Mapping[str, Mask]

    def slice_mask(self, mask: Mask) -> Mask:
        """Return this chunk's part of a mask over all rows."""
        return mask[self.start : self.start + self.batch.num_rows]


def iter_merged_batches(rows: TypeBatch, is_written: Mask) -> Iterator[pa.RecordBatch]:
    """Yield the rows to write as complete rows, batch by batch; a blob that a row keeps is a claim."""
    batches = _iter_whole_rows(rows, is_written)
    # Batches are prefetched in a thread, except where blobs can make a single batch large.
    return batches if list_blob_properties(rows.type) else prefetch(batches)


def _iter_whole_rows(rows: TypeBatch, is_written: Mask) -> Generator[pa.RecordBatch]:
    if rows.mode is not LoadMode.MERGE or rows.existing is None or not rows.exists.any():
        start = 0
        for batch in rows.spooled.read_batches(build_arrow_schema(rows.type).names):
            mask = is_written[start : start + batch.num_rows]
            start += batch.num_rows
            if mask.any():
                yield batch if mask.all() else batch.filter(pa.array(mask))
        return
    for chunk in _iter_chunks(rows):
        mask = chunk.slice_mask(is_written)
        if mask.any():
            merged = _merge_chunk(rows, chunk, mask & chunk.slice_mask(rows.exists))
            if merged is not chunk.batch:
                _check_sizes(rows, merged)
            yield merged if mask.all() else merged.filter(pa.array(mask))


def find_unchanged(rows: TypeBatch) -> None:
    """Mark the rows that equal the committed ones, which need not be written again."""
    if rows.existing is None or not rows.exists.any():
        return
    fields = [field for field in build_arrow_schema(rows.type) if field.name != ID]
    narrow = [field.name for field in fields if pa.types.is_primitive(field.type)]
    wide = [field.name for field in fields if field.name not in narrow]
    # Texts, vectors and blobs are read only for rows whose numbers are all equal. Without known positions, each round
    # would look up all ids again, so there is one.
    rounds = [narrow, wide] if rows.existing.is_located else [[*narrow, *wide]]
    for chunk in _iter_chunks(rows):
        candidates = np.flatnonzero(chunk.slice_mask(rows.exists) & ~chunk.slice_mask(rows.is_excluded))
        for names in rounds:
            candidates = candidates[_compare_columns(rows, chunk, candidates, names)]
        rows.is_unchanged[chunk.start + candidates] = True


def _compare_columns(rows: TypeBatch, chunk: _UpsertChunk, compared: Positions, names: Sequence[str]) -> Mask:
    """Return for each compared row whether its record equals the committed row in these columns, or leaves them out."""
    is_same = np.ones(len(compared), np.bool_)
    present = [name for name in names if not (name in chunk.left_out and chunk.left_out[name][compared].all())]
    if rows.existing is None or not len(compared) or not present:
        return is_same
    blobs = set(present).intersection(list_blob_properties(rows.type))
    before = rows.existing.fetch(rows.existing.at[chunk.start + compared], [*present, ADDRESS] if blobs else present)
    for name in present:
        new = chunk.batch.column(name).take(pa.array(compared))
        committed = concat_chunks(before.column(name))
        if name in blobs:
            is_equal = are_same_blobs(rows.table, name, new, committed, concat_chunks(before.column(ADDRESS)))
        else:
            is_equal = are_equal(new, committed.cast(new.type))
        if name in chunk.left_out:
            is_equal |= chunk.left_out[name][compared]
        is_same &= is_equal
    return is_same


def _iter_chunks(rows: TypeBatch) -> Iterator[_UpsertChunk]:
    names = build_arrow_schema(rows.type).names
    # An existing row keeps its id in any case.
    incomplete = [name for name in names if name != ID and name in rows.spooled.left_out]
    start = 0
    for batch in rows.spooled.read_batches([*names, *map(build_left_out_name, incomplete)]):
        left_out = {name: to_mask(batch.column(build_left_out_name(name))) for name in incomplete}
        yield _UpsertChunk(start, batch.select(names), left_out)
        start += batch.num_rows


def _merge_chunk(rows: TypeBatch, chunk: _UpsertChunk, exists: Mask) -> pa.RecordBatch:
    """Return the chunk's rows; those that exist get left-out properties from the committed rows."""
    gaps = {name: mask & exists for name, mask in chunk.left_out.items() if (mask & exists).any()}
    if not gaps or rows.existing is None:
        return chunk.batch
    incomplete = np.flatnonzero(np.logical_or.reduce(list(gaps.values())))
    blobs = set(list_blob_properties(rows.type))
    names = [*list_columns_to_read(rows.type, gaps), *([ADDRESS] if blobs else [])]
    before = rows.existing.fetch(rows.existing.at[chunk.start + incomplete], names)
    for name in blobs.intersection(gaps):
        claims = build_row_claims(concat_chunks(before.column(name)), concat_chunks(before.column(ADDRESS)))
        before = before.set_column(before.schema.get_field_index(name), name, claims)
    filled = fill_omitted(rows.type, pa.Table.from_batches([chunk.batch]), gaps, incomplete, before)
    return filled.combine_chunks().to_batches()[0]


def _check_sizes(rows: TypeBatch, merged: pa.RecordBatch) -> None:
    """Check the size of merged rows.

    A record and the values that its row keeps may each be within the limit, and exceed it together.

    Raises:
        LoadError: A merged row is too large.
    """
    values = find_broken_values(rows.type, pa.Table.from_batches([merged]))
    broken = [value for value in values if value.rule == "size"]
    if broken:
        problems = [
            Problem(
                rule=value.rule,
                file=None,
                line=None,
                unit="row",
                type=rows.type.name,
                property=value.property,
                value=format_value(value.value, is_typed=True),
                message=value.message,
            )
            for value in broken[:MAX_REPORTED_PROBLEMS]
        ]
        raise LoadError(problems, len(broken))
