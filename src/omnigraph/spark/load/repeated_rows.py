"""Find the rows of a load that have the id of an earlier row, where they are too many for the driver.

The tasks that read the splits list the ids that may be repeated. One shuffle brings equal ids together, where they are
compared exactly. A second one brings the repeats of a split together, with the place of the first row of each. So the
driver gets their numbers and the keys of objects; a task that reads a split rejects them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.schema.arrow import ID
from omnigraph.spark.load.key_shuffle import assign_buckets, build_key_batch
from omnigraph.spark.load.left_out_rows import LeftOutRows
from omnigraph.spark.load.load_spec import Worker
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.columnar_sets import Positions, find_duplicates

STORED_DDL = "type string, split long, stored string, count long"
_STORED_SCHEMA = pa.schema(
    [
        pa.field("type", pa.string()),
        pa.field("split", pa.int64()),
        pa.field("stored", pa.string()),
        pa.field("count", pa.int64()),
    ]
)
# Columns beside the id: its hash; the split of a row, its ordinal and its line there; those of the first row of its id.
_HASH, _SPLIT, _ORDINAL, _LINE = "hash", "split", "ordinal", "line"
_FIRST_SPLIT, _FIRST_LINE = "first split", "first line"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedIds:
    """The key of an object with ids of one type and split, and the number of lines of their input before the split."""

    type: str
    split: int
    key: str
    lines_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRows:
    """The key of an object with the rows of one type and split that have the id of an earlier row, and their number."""

    key: str
    count: int

    @property
    def left_out(self) -> LeftOutRows:
        """The rows, to be left out; their ordinals are at the start of the object."""
        return LeftOutRows(key=self.key, stored=self.count)

    def read(self, worker: Worker) -> "RowRepeats":
        """Return the rows."""
        ordinals, splits, lines = np.frombuffer(worker.read_object(self.key), np.int64).reshape(3, -1)
        return RowRepeats(ordinals, splits, lines)


@dataclass(frozen=True, slots=True)
class RowRepeats:
    """Rows by their ordinals, ascending, and for each the split and the line of the first row of its id."""

    ordinals: Positions
    first_splits: Positions
    first_lines: Positions


def build_listed(ids: pa.ChunkedArray, hashes: Hashes, ordinals: Positions, lines: pa.Array) -> pa.Table:
    """Return rows for an object of `ListedIds`."""
    return pa.table({ID: ids, _HASH: hashes, _ORDINAL: ordinals, _LINE: lines})


def read_hashes(rows: pa.Table) -> Hashes:
    """Return the hashes of listed ids."""
    return np.asarray(rows.column(_HASH).to_numpy(), np.uint64)


def iter_listed_ids(worker: Worker, listed: ListedIds, buckets: int) -> Iterator[pa.RecordBatch]:
    """Yield the ids of an object by bucket."""
    rows = _decode(worker.read_object(listed.key))
    lines = rows.column(_LINE).to_numpy() + listed.lines_before
    rows = rows.set_column(rows.schema.get_field_index(_LINE), _LINE, pa.array(lines, pa.int64()))
    rows = rows.append_column(_SPLIT, pa.array(np.full(rows.num_rows, listed.split, np.int64)))
    yield _pack_rows(listed.type, rows, assign_buckets(read_hashes(rows), buckets).astype(np.int64))


def find_repeats(batches: Iterator[pa.RecordBatch], groups: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a bucket that have the id of an earlier one, by the group of their split."""
    for name, rows in _collect_rows(batches):
        # By position, which is the order of the input.
        ordered = rows.sort_by([(_SPLIT, "ascending"), (_ORDINAL, "ascending")]).combine_chunks()
        later, first = find_duplicates([ordered.column(ID)])
        if not len(later):
            continue
        firsts = ordered.take(pa.array(first))
        repeats = ordered.take(pa.array(later)).select([_SPLIT, _ORDINAL])
        repeats = repeats.append_column(_FIRST_SPLIT, firsts.column(_SPLIT))
        repeats = repeats.append_column(_FIRST_LINE, firsts.column(_LINE))
        yield _pack_rows(name, repeats, repeats.column(_SPLIT).to_numpy() % groups)


def store_repeats(worker: Worker, phase: int, task: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Store the repeats of each split of a group in an object, and yield the keys."""
    journal = worker.begin_journal(phase, task)
    for name, rows in _collect_rows(batches):
        ordered = rows.sort_by([(_SPLIT, "ascending"), (_ORDINAL, "ascending")])
        columns = [ordered.column(column).to_numpy() for column in (_ORDINAL, _FIRST_SPLIT, _FIRST_LINE)]
        data = np.stack(columns)
        splits, starts = np.unique(ordered.column(_SPLIT).to_numpy(), return_index=True)
        for split, part in zip(splits.tolist(), np.split(data, starts[1:], axis=1), strict=True):
            key = journal.keep(f"{name}-{split}.repeats", part.tobytes())
            arrays = [pa.array([name]), pa.array([split]), pa.array([key]), pa.array([part.shape[1]])]
            yield pa.RecordBatch.from_arrays(arrays, schema=_STORED_SCHEMA)


def _pack_rows(name: str, rows: pa.Table, numbers: Positions) -> pa.RecordBatch:
    """Return one record per number, with the rows that have it."""
    order = np.argsort(numbers, kind="stable")
    used, starts = np.unique(numbers[order], return_index=True)
    ordered = rows.take(pa.array(order))
    ends = [*starts[1:].tolist(), len(order)]
    parts = [encode_rows(ordered.slice(start, end - start)) for start, end in zip(starts.tolist(), ends, strict=True)]
    return build_key_batch(used.tolist(), name, parts)


def _collect_rows(batches: Iterator[pa.RecordBatch]) -> Sequence[tuple[str, pa.Table]]:
    parts: dict[str, list[pa.Table]] = {}
    for batch in batches:
        for name, payload in zip(batch.column("role").to_pylist(), batch.column("payload"), strict=True):
            parts.setdefault(name, []).append(_decode(payload.as_buffer()))
    return [(name, pa.concat_tables(tables)) for name, tables in parts.items()]


def encode_rows(rows: pa.Table) -> bytes:
    """Return rows as the data of an object."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _decode(data: bytes | pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
