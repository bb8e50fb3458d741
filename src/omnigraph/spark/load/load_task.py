"""What a task of a Spark load does: it reads one split and writes its rows, or hands some of them to the driver.

The same split gives the same rows, in the same order, with the same ids, whoever reads it and however often. So a row
is known by its split, its type and its ordinal among the split's rows of that type.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from omnigraph.engine.bulk.load_checks import reject_broken_rows
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_files import TypedTable, read_typed
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.faults import Faults, NoFaults
from omnigraph.schema.arrow import ID
from omnigraph.spark.load.driver_buffer import ScratchWriter
from omnigraph.spark.load.fragment_writers import FragmentWriters
from omnigraph.spark.load.input_splits import read_split
from omnigraph.spark.load.key_hashes import RowSelector, WantedKeys, find_roles, hash_keys
from omnigraph.spark.load.load_spec import FrameSource, LoadSpec, Worker, check_parts
from omnigraph.spark.load.row_chunks import RollingChunkWriter, RowChunk, take_rows
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.handshake import TaskBody
from omnigraph.storage.columnar_sets import Positions

RESULT_SCHEMA = "payload binary"
_PAYLOAD = pa.schema([pa.field("payload", pa.binary())])

LeftOut: TypeAlias = Mapping[int, Mapping[str, bytes]]
"""By split and type, the ordinals of rows that are not written, packed as 64-bit integers."""


class RejectedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was refused while it was read; its line counts from the split's start."""

    line: int
    type: str | None
    property: str | None
    value: str | None
    reason: str
    unit: str
    rule: str
    text: bytes


class TypeResult(msgspec.Struct, kw_only=True):
    """What a task did with the rows of one type."""

    rows: int = 0
    made: int = 0
    """How many of them have an id that was made for them."""
    checksum: int = 0
    """The sum of the hashes of all ids: equal when the split is read again, or it is not the same input any more."""
    fragments: list[str] = msgspec.field(default_factory=list)
    pieces: list[RowChunk] = msgspec.field(default_factory=list)
    """The rows that are handed over."""


class SplitResult(msgspec.Struct, kw_only=True):
    """What a task tells the driver."""

    split: int
    lines: int = 0
    types: dict[str, TypeResult] = msgspec.field(default_factory=dict)
    rejects: int = 0
    rejected: str | None = None
    """The key of what was refused."""
    export: str | None = None
    """What the metadata at the start of an input says."""


_encode = msgspec.msgpack.Encoder().encode
decode_result = msgspec.msgpack.Decoder(SplitResult).decode
_encode_rejected = msgspec.json.Encoder().encode
decode_rejected = msgspec.json.Decoder(RejectedRecord).decode_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """Writes the rows of splits: of all types or `only` of some, without those that are left out."""

    left_out: LeftOut = field(default_factory=dict)
    only: Mapping[int, frozenset[str]] | None = None

    def is_about(self, split: int) -> bool:
        """Whether anything of a split is written."""
        return self.only is None or split in self.only

    def run(self, worker: Worker, phase: int, split: int, rows: "_AcceptedRows") -> "SplitResult":
        """The rows of one split."""
        return _stage_split(worker, phase, split, rows, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverWork:
    """Hands the rows of splits to others: those that are wanted, or all, where asked `with_ids` hashed."""

    wanted: WantedKeys | None
    with_ids: bool = False

    def is_about(self, split: int) -> bool:
        """Any of them may have wanted rows."""
        del split
        return True

    def run(self, worker: Worker, phase: int, split: int, rows: "_AcceptedRows") -> "SplitResult":
        """The rows of one split."""
        return _hand_over_split(worker, phase, split, rows, self)


Work: TypeAlias = StageWork | HandOverWork


def run_splits(
    spec: LoadSpec, phase: int, numbers: Iterable[int], work: Work, held: dict[str, bytes] | None = None
) -> Iterator["SplitResult"]:
    """Work on splits of files. A driver that does it for itself gives where to hold what it hands over."""
    worker = spec.create_worker(held)
    for number in numbers:
        yield work.run(worker, phase, number, _open_split(worker, number))


def build_split_task(spec: LoadSpec, phase: int, numbers: Sequence[int], work: Work) -> TaskBody:
    """Work on splits of files, which come as places in `numbers`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                chosen = [numbers[place] for place in batch.column(0).to_pylist()]
                yield from map(_encode_batch, run_splits(spec, phase, chosen, work))

    return run


def build_frame_task(spec: LoadSpec, phase: int, source: FrameSource, work: Work) -> TaskBody:
    """Work on the partitions of a DataFrame."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            split, rows = _open_frame(worker, source, batches)
            if work.is_about(split):
                yield _encode_batch(work.run(worker, phase, split, rows))

    return run


# --- reading -----------------------------------------------------------------------------------------


class _AcceptedRows:
    """The good rows of a split, a window at a time; the others are kept as what was rejected."""

    def __init__(self, name: str, unit: str) -> None:
        self._name, self._unit = name, unit
        self.rejects = 0
        self.rejected = io.BytesIO()
        """Those, as lines."""
        self.export: str | None = None
        """What the metadata at the start of an input says."""
        self._windows: Iterator[TypedRows] = iter(())
        self._lines: Callable[[], int] = lambda: 0

    def read_from(self, windows: Iterator[TypedRows], lines: Callable[[], int]) -> "_AcceptedRows":
        """Where the rows come from; `lines` is asked behind the last."""
        self._windows, self._lines = windows, lines
        return self

    @property
    def lines(self) -> int:
        """How many lines there were, once all rows have been taken."""
        return self._lines()

    def __iter__(self) -> Iterator[TypedRows]:
        for window in self._windows:
            kept = reject_broken_rows(window, self._name, self._unit, self.reject)
            if kept.rows.num_rows:
                yield kept

    def describe(self, export: str) -> None:
        """Take what an input says of itself."""
        self.export = export

    def reject(self, error: RecordError, text: bytes, rule: str = "record") -> None:
        """One more bad record."""
        one = RejectedRecord(
            line=error.line,
            type=error.type,
            property=error.property,
            value=error.value,
            reason=error.reason,
            unit=error.unit,
            rule=rule,
            text=text,
        )
        self.rejects += 1
        self.rejected.write(_encode_rejected(one) + b"\n")


def _open_split(worker: Worker, number: int) -> _AcceptedRows:
    spec = worker.spec
    split = spec.splits[number]
    one = spec.inputs[split.input]
    rows = _AcceptedRows(one.name, spec.units[split.input])
    found = read_split(one, split, worker.create_ids(number), reject=rows.reject, describe=rows.describe)
    return rows.read_from(iter(found), lambda: found.lines)


def _open_frame(worker: Worker, source: FrameSource, batches: Iterator[pa.RecordBatch]) -> tuple[int, _AcceptedRows]:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - partitions of a DataFrame are read by tasks only
    partition = context.partitionId()
    check_parts(source.format_name(partition), partition + 1)
    split = source.first_split + partition
    rows = _AcceptedRows(source.format_name(partition), "row")
    first = next(batches, None)
    if first is None:
        return split, rows
    counted = _BatchCounter(first, batches)
    table = TypedTable(
        type=worker.get_type(source.type),
        columns=source.columns,
        is_partial=source.is_partial,
        blobs=worker.spec.blobs,
        data=pa.RecordBatchReader.from_batches(first.schema, counted),
        label=source.format_name(partition),
    )
    return split, rows.read_from(read_typed(table, worker.create_ids(split), reject=rows.reject), lambda: counted.rows)


class _BatchCounter:
    """Batches, and how many rows they had."""

    def __init__(self, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> None:
        self._first, self._others = first, others
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.rows += self._first.num_rows
        yield self._first
        for batch in self._others:
            self.rows += batch.num_rows
            yield batch


# --- writing -----------------------------------------------------------------------------------------


def _stage_split(worker: Worker, phase: int, split: int, rows: _AcceptedRows, work: StageWork) -> SplitResult:
    note = worker.begin_note(phase, split)
    _select_faults(worker).reach("task.begun")
    done = SplitResult(split=split)
    without = {name: np.frombuffer(packed, np.int64) for name, packed in work.left_out.get(split, {}).items()}
    writers = FragmentWriters(worker, note)
    try:
        for window in rows:
            name = window.type.name
            ordinals = _count_rows(worker, done, window)
            if work.only is not None and name not in work.only[split]:
                continue
            if name in without:
                window = take_rows(window, np.flatnonzero(~np.isin(ordinals, without[name])))  # noqa: PLW2901 - less of the same
            writers.add(window.type, window.rows)
        for name, fragments in writers.finish().items():
            done.types[name].fragments = fragments
    except BaseException:
        writers.abort()
        raise
    _select_faults(worker).reach("task.staged")
    return _finalize(note, done, rows)


def _hand_over_split(worker: Worker, phase: int, split: int, rows: _AcceptedRows, work: HandOverWork) -> SplitResult:
    note = worker.open_scratch(phase, split)
    _select_faults(worker).reach("task.begun")
    done = SplitResult(split=split)
    pieces = RollingChunkWriter(note.keep, worker.spec.seed if work.with_ids else None)
    chosen = None if work.wanted is None else RowSelector(work.wanted, worker.spec.seed)
    for window in rows:
        ordinals = _count_rows(worker, done, window, is_repeatable=chosen is not None)
        if chosen is not None:
            at = chosen.select(window.type, window.rows)
            if not len(at):
                continue
            window, ordinals = take_rows(window, at), ordinals[at]  # noqa: PLW2901 - less of the same
        pieces.add(window, ordinals)
    for name, kept in pieces.finish().items():
        done.types[name].pieces = kept
    _select_faults(worker).reach("task.staged")
    return _finalize(note, done, rows)


def _count_rows(worker: Worker, done: SplitResult, window: TypedRows, *, is_repeatable: bool = True) -> Positions:
    """Count the rows of a window; their ordinals. What is never read again needs no checksum."""
    told = done.types.setdefault(window.type.name, TypeResult())
    ordinals = np.arange(told.rows, told.rows + window.rows.num_rows, dtype=np.int64)
    told.rows += window.rows.num_rows
    told.made += window.left_out[ID].true_count if ID in window.left_out else 0
    if not is_repeatable:
        return ordinals
    for number, columns in enumerate(find_roles(window.type).values()):
        hashes, held = hash_keys(window.rows, columns, worker.spec.seed)
        places = (ordinals if held is None else ordinals[held]).astype(np.uint64)
        # By place, so that the same rows in another order are not the same: rows are found again by their ordinals.
        total = int((hashes * (2 * places + 1)).sum(dtype=np.uint64))
        told.checksum = (told.checksum + (2 * number + 1) * total) % 2**64
    return ordinals


def _finalize(note: ScratchWriter, done: SplitResult, rows: _AcceptedRows) -> SplitResult:
    done.lines, done.rejects, done.export = rows.lines, rows.rejects, rows.export
    if rows.rejects:
        done.rejected = note.keep("rejected", rows.rejected.getvalue())
    return done


def _encode_batch(done: SplitResult) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([_encode(done)], pa.binary())], schema=_PAYLOAD)


def _select_faults(worker: Worker) -> Faults:
    """Those of a task's first try: what a test breaks there is not broken when the task is tried again."""
    context = TaskContext.get()
    return worker.spec.faults if context is None or context.attemptNumber() == 0 else NoFaults()
