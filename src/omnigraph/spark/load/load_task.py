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

from omnigraph.engine.bulk.row_rules import keeping_rules
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_files import TypedTable, read_typed
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.faults import Faults, NoFaults
from omnigraph.schema.arrow import ID
from omnigraph.spark.load.driver_buffer import Keeper
from omnigraph.spark.load.fragment_writers import TypeWriters
from omnigraph.spark.load.input_splits import split_rows
from omnigraph.spark.load.key_hashes import Chosen, Wanted, key_hashes, roles_of
from omnigraph.spark.load.load_spec import FrameSource, LoadSpec, Worker, check_parts
from omnigraph.spark.load.row_chunks import Piece, PieceRoll, chosen_rows
from omnigraph.spark.session.error_translation import carrying
from omnigraph.spark.session.handshake import Body
from omnigraph.storage.columnar_sets import Positions

RESULT = "payload binary"
_PAYLOAD = pa.schema([pa.field("payload", pa.binary())])

LeftOut: TypeAlias = Mapping[int, Mapping[str, bytes]]
"""By split and type, the ordinals of rows that are not written, packed as 64-bit integers."""


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was refused while it was read; its line counts from the split's start."""

    line: int
    type: str | None
    property: str | None
    value: str | None
    reason: str
    unit: str
    rule: str
    text: bytes


class TypeDone(msgspec.Struct, kw_only=True):
    """What a task did with the rows of one type."""

    rows: int = 0
    made: int = 0
    """How many of them have an id that was made for them."""
    checksum: int = 0
    """The sum of the hashes of all ids: equal when the split is read again, or it is not the same input any more."""
    fragments: list[str] = msgspec.field(default_factory=list)
    pieces: list[Piece] = msgspec.field(default_factory=list)
    """The rows that are handed over."""


class Done(msgspec.Struct, kw_only=True):
    """What a task tells the driver."""

    split: int
    lines: int = 0
    types: dict[str, TypeDone] = msgspec.field(default_factory=dict)
    rejects: int = 0
    rejected: str | None = None
    """The key of what was refused."""
    export: str | None = None
    """What the metadata at the start of an input says."""


_encode = msgspec.msgpack.Encoder().encode
decode_done = msgspec.msgpack.Decoder(Done).decode
_encode_rejected = msgspec.json.Encoder().encode
decode_rejected = msgspec.json.Decoder(Rejected).decode_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Writes the rows of splits: of all types or `only` of some, without those that are left out."""

    left_out: LeftOut = field(default_factory=dict)
    only: Mapping[int, frozenset[str]] | None = None

    def is_about(self, split: int) -> bool:
        """Whether anything of a split is written."""
        return self.only is None or split in self.only

    def done(self, worker: Worker, phase: int, split: int, rows: "_Rows") -> "Done":
        """The rows of one split."""
        return _staged(worker, phase, split, rows, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandingOver:
    """Hands the rows of splits to others: those that are wanted, or all, where asked `with_ids` hashed."""

    wanted: Wanted | None
    with_ids: bool = False

    def is_about(self, split: int) -> bool:
        """Any of them may have wanted rows."""
        del split
        return True

    def done(self, worker: Worker, phase: int, split: int, rows: "_Rows") -> "Done":
        """The rows of one split."""
        return _handed_over(worker, phase, split, rows, self)


Work: TypeAlias = Staging | HandingOver


def worked_on(
    spec: LoadSpec, phase: int, numbers: Iterable[int], work: Work, held: dict[str, bytes] | None = None
) -> Iterator["Done"]:
    """Work on splits of files. A driver that does it for itself gives where to hold what it hands over."""
    worker = spec.worker(held)
    for number in numbers:
        yield work.done(worker, phase, number, _rows_of(worker, number))


def split_body(spec: LoadSpec, phase: int, numbers: Sequence[int], work: Work) -> Body:
    """Work on splits of files, which come as places in `numbers`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            for batch in batches:
                chosen = [numbers[place] for place in batch.column(0).to_pylist()]
                yield from map(_told, worked_on(spec, phase, chosen, work))

    return run


def frame_body(spec: LoadSpec, phase: int, source: FrameSource, work: Work) -> Body:
    """Work on the partitions of a DataFrame."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            worker = spec.worker()
            split, rows = _frame_rows(worker, source, batches)
            if work.is_about(split):
                yield _told(work.done(worker, phase, split, rows))

    return run


# --- reading -----------------------------------------------------------------------------------------


class _Rows:
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

    def reads(self, windows: Iterator[TypedRows], lines: Callable[[], int]) -> "_Rows":
        """Where the rows come from; `lines` is asked behind the last."""
        self._windows, self._lines = windows, lines
        return self

    @property
    def lines(self) -> int:
        """How many lines there were, once all rows have been taken."""
        return self._lines()

    def __iter__(self) -> Iterator[TypedRows]:
        for window in self._windows:
            kept = keeping_rules(window, self._name, self._unit, self.reject)
            if kept.rows.num_rows:
                yield kept

    def describe(self, export: str) -> None:
        """Take what an input says of itself."""
        self.export = export

    def reject(self, error: RecordError, text: bytes, rule: str = "record") -> None:
        """One more bad record."""
        one = Rejected(
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


def _rows_of(worker: Worker, number: int) -> _Rows:
    spec = worker.spec
    split = spec.splits[number]
    one = spec.inputs[split.input]
    rows = _Rows(one.name, spec.units[split.input])
    found = split_rows(one, split, worker.ids(number), reject=rows.reject, describe=rows.describe)
    return rows.reads(iter(found), lambda: found.lines)


def _frame_rows(worker: Worker, source: FrameSource, batches: Iterator[pa.RecordBatch]) -> tuple[int, _Rows]:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - partitions of a DataFrame are read by tasks only
    partition = context.partitionId()
    check_parts(source.name_of(partition), partition + 1)
    split = source.first_split + partition
    rows = _Rows(source.name_of(partition), "row")
    first = next(batches, None)
    if first is None:
        return split, rows
    counted = _Counted(first, batches)
    table = TypedTable(
        type=worker.type(source.type),
        columns=source.columns,
        is_partial=source.is_partial,
        blobs=worker.spec.blobs,
        data=pa.RecordBatchReader.from_batches(first.schema, counted),
        called=source.name_of(partition),
    )
    return split, rows.reads(read_typed(table, worker.ids(split), reject=rows.reject), lambda: counted.rows)


class _Counted:
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


def _staged(worker: Worker, phase: int, split: int, rows: _Rows, work: Staging) -> Done:
    note = worker.note(phase, split)
    _faults(worker).reach("task.begun")
    done = Done(split=split)
    without = {name: np.frombuffer(packed, np.int64) for name, packed in work.left_out.get(split, {}).items()}
    writers = TypeWriters(worker, note)
    try:
        for window in rows:
            name = window.type.name
            ordinals = _counted(worker, done, window)
            if work.only is not None and name not in work.only[split]:
                continue
            if name in without:
                window = chosen_rows(window, np.flatnonzero(~np.isin(ordinals, without[name])))  # noqa: PLW2901 - less of the same
            writers.add(window.type, window.rows)
        for name, fragments in writers.finish().items():
            done.types[name].fragments = fragments
    except BaseException:
        writers.abort()
        raise
    _faults(worker).reach("task.staged")
    return _finished(note, done, rows)


def _handed_over(worker: Worker, phase: int, split: int, rows: _Rows, work: HandingOver) -> Done:
    note = worker.keeper(phase, split)
    _faults(worker).reach("task.begun")
    done = Done(split=split)
    pieces = PieceRoll(note.keep, worker.spec.seed if work.with_ids else None)
    chosen = None if work.wanted is None else Chosen(work.wanted, worker.spec.seed)
    for window in rows:
        ordinals = _counted(worker, done, window, is_repeatable=chosen is not None)
        if chosen is not None:
            at = chosen.of(window.type, window.rows)
            if not len(at):
                continue
            window, ordinals = chosen_rows(window, at), ordinals[at]  # noqa: PLW2901 - less of the same
        pieces.add(window, ordinals)
    for name, kept in pieces.finish().items():
        done.types[name].pieces = kept
    _faults(worker).reach("task.staged")
    return _finished(note, done, rows)


def _counted(worker: Worker, done: Done, window: TypedRows, *, is_repeatable: bool = True) -> Positions:
    """Count the rows of a window; their ordinals. What is never read again needs no checksum."""
    told = done.types.setdefault(window.type.name, TypeDone())
    ordinals = np.arange(told.rows, told.rows + window.rows.num_rows, dtype=np.int64)
    told.rows += window.rows.num_rows
    told.made += window.left_out[ID].true_count if ID in window.left_out else 0
    if not is_repeatable:
        return ordinals
    for number, columns in enumerate(roles_of(window.type).values()):
        hashes, held = key_hashes(window.rows, columns, worker.spec.seed)
        places = (ordinals if held is None else ordinals[held]).astype(np.uint64)
        # By place, so that the same rows in another order are not the same: rows are found again by their ordinals.
        total = int((hashes * (2 * places + 1)).sum(dtype=np.uint64))
        told.checksum = (told.checksum + (2 * number + 1) * total) % 2**64
    return ordinals


def _finished(note: Keeper, done: Done, rows: _Rows) -> Done:
    done.lines, done.rejects, done.export = rows.lines, rows.rejects, rows.export
    if rows.rejects:
        done.rejected = note.keep("rejected", rows.rejected.getvalue())
    return done


def _told(done: Done) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([_encode(done)], pa.binary())], schema=_PAYLOAD)


def _faults(worker: Worker) -> Faults:
    """Those of a task's first try: what a test breaks there is not broken when the task is tried again."""
    context = TaskContext.get()
    return worker.spec.faults if context is None or context.attemptNumber() == 0 else NoFaults()
