"""The tasks of a Spark load: each reads one split, and stages its rows or hands some of them to the driver.

Every read of a split gives the same rows, in the same order, with the same ids, in any process. So a row is identified
by its split, its type and its ordinal among the split's rows of that type.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from omnigraph.commit.task_journal import TaskJournal
from omnigraph.engine.bulk.load_checks import reject_broken_rows
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.engine.decoding.typed_files import TypedTable, read_typed
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.faults import Faults, NoFaults
from omnigraph.schema.arrow import ID
from omnigraph.spark.load.driver_buffer import ScratchWriter
from omnigraph.spark.load.fragment_writers import FragmentWriters
from omnigraph.spark.load.input_splits import read_split
from omnigraph.spark.load.key_hashes import RowSelector, WantedKeys, find_roles, hash_ids, hash_keys
from omnigraph.spark.load.left_out_rows import LeftOut
from omnigraph.spark.load.load_spec import FrameSource, LoadSpec, Worker, check_parts
from omnigraph.spark.load.reject_log import RejectLog, SplitRejects
from omnigraph.spark.load.repeated_rows import build_listed, encode_rows, read_hashes
from omnigraph.spark.load.row_chunks import RollingChunkWriter, RowChunk, take_rows
from omnigraph.spark.load.separate_keys import SeparateKeys, list_missing_ends
from omnigraph.spark.load.split_check import SeparateRules, SplitVerdict, check_split
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.handshake import TaskBody
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.columnar_sets import Positions

RESULT_SCHEMA = "payload binary"
_PAYLOAD = pa.schema([pa.field("payload", pa.binary())])


class TypeResult(msgspec.Struct, kw_only=True):
    """The result of a task for the rows of one type in one split."""

    rows: int = 0
    generated: int = 0
    """The number of rows with a generated id."""
    checksum: int = 0
    """A checksum of all keys; it differs if the split gives other rows when it is read again."""
    fragments: list[str] = msgspec.field(default_factory=list)
    """The fragments of all rows of the type in the pack, at its first split that has such rows."""
    chunks: list[RowChunk] = msgspec.field(default_factory=list)
    """The rows that are handed over."""
    missing: dict[str, bytes] = msgspec.field(default_factory=dict)
    """By node type, the packed hashes of ids that handed-over edges name and no node has."""


class SplitResult(msgspec.Struct, kw_only=True):
    """The result of a task for one split."""

    split: int
    lines: int = 0
    types: dict[str, TypeResult] = msgspec.field(default_factory=dict)
    rejects: SplitRejects = msgspec.field(default_factory=SplitRejects)
    export: str | None = None
    """The metadata at the start of an input."""
    verdict: SplitVerdict | None = None
    """The rows that were checked by themselves."""


encode_result = msgspec.msgpack.Encoder().encode
decode_result = msgspec.msgpack.Decoder(SplitResult).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """Stage the rows of splits, of all types or `only` some, without those that are left out."""

    left_out: LeftOut = field(default_factory=dict)
    only: Mapping[int, frozenset[str]] | None = None

    def includes(self, split: int) -> bool:
        """Return whether any rows of a split are written."""
        return self.only is None or split in self.only

    def run(self, worker: Worker, phase: int, splits: "Sequence[_OpenSplit]") -> "Iterable[SplitResult]":
        """Stage the rows of the splits of a pack."""
        return _stage_pack(worker, phase, splits, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverWork:
    """Hand over the rows of splits in chunks: the requested ones, or all; `with_ids` adds the hashes of their ids."""

    wanted: WantedKeys | None
    with_ids: bool = False
    separate: SeparateKeys | None = None
    """Keys by which the missing ends of handed-over edges are reported."""
    left_out: LeftOut = field(default_factory=dict)
    """Rows that are rejected already."""

    def includes(self, split: int) -> bool:
        """Return True: any split may have requested rows."""
        del split
        return True

    def run(self, worker: Worker, phase: int, splits: "Sequence[_OpenSplit]") -> "Iterable[SplitResult]":
        """Hand over the rows of splits."""
        for split, rows in splits:
            yield _hand_over_split(worker, phase, split, rows, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckWork:
    """Check the rows of splits whose suspicious keys no other row of the load has."""

    rules: SeparateRules

    def includes(self, split: int) -> bool:
        """Return True: any split may have such rows."""
        del split
        return True

    def run(self, worker: Worker, phase: int, splits: "Sequence[_OpenSplit]") -> "Iterable[SplitResult]":
        """Check the rows of splits."""
        for split, rows in splits:
            yield _check_split(worker, phase, split, rows, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListWork:
    """List the rows of splits whose ids may be repeated."""

    repeated: SeparateKeys

    def includes(self, split: int) -> bool:
        """Return True: any split may have such rows."""
        del split
        return True

    def run(self, worker: Worker, phase: int, splits: "Sequence[_OpenSplit]") -> "Iterable[SplitResult]":
        """List the rows of splits."""
        for split, rows in splits:
            yield _list_split(worker, phase, split, rows, self.repeated)


Work: TypeAlias = StageWork | HandOverWork | CheckWork | ListWork


def run_splits(
    spec: LoadSpec, phase: int, packs: Iterable[Sequence[int]], work: Work, buffer: dict[str, bytes] | None = None
) -> Iterator["SplitResult"]:
    """Yield the results of packs of splits of files; a driver that reads them itself passes a `buffer` for objects."""
    worker = spec.create_worker(buffer)
    for pack in packs:
        yield from work.run(worker, phase, [(number, _open_split(worker, number)) for number in pack])


def build_split_task(spec: LoadSpec, phase: int, packs: Sequence[Sequence[int]], work: Work) -> TaskBody:
    """Build the task for packs of splits of files; its input are indices into `packs`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                task_packs = [packs[index] for index in batch.column(0).to_pylist()]
                yield from map(_encode_batch, run_splits(spec, phase, task_packs, work))

    return run


def build_frame_task(spec: LoadSpec, phase: int, source: FrameSource, work: Work) -> TaskBody:
    """Build the task for the partitions of a DataFrame."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            split, rows = _open_frame(worker, source, batches)
            if work.includes(split):
                yield from map(_encode_batch, work.run(worker, phase, [(split, rows)]))

    return run


# --- reading -----------------------------------------------------------------------------------------


class _AcceptedRows:
    """The good rows of a split, a window at a time; bad records are added to `rejects`."""

    def __init__(self, name: str, unit: str) -> None:
        self._name, self._unit = name, unit
        self.rejects = RejectLog()
        self.export: str | None = None
        self._windows: Iterator[TypedRows] = iter(())
        self._count_lines: Callable[[], int] = lambda: 0

    def read_from(self, windows: Iterator[TypedRows], count_lines: Callable[[], int]) -> "_AcceptedRows":
        """Set the source of the rows, and return self; `count_lines` is called after the last window."""
        self._windows, self._count_lines = windows, count_lines
        return self

    @property
    def inputs(self) -> InputNames:
        """The name of the split's input, for messages."""
        return InputNames((self._name,), (self._unit,))

    @property
    def lines(self) -> int:
        """The number of lines in the split; complete after all rows have been read."""
        return self._count_lines()

    def __iter__(self) -> Iterator[TypedRows]:
        for window in self._windows:
            accepted = reject_broken_rows(window, self._name, self._unit, self.rejects.add)
            if accepted.rows.num_rows:
                yield accepted

    def describe(self, export: str) -> None:
        """Store the metadata at the start of an input."""
        self.export = export


_OpenSplit: TypeAlias = tuple[int, _AcceptedRows]


def _open_split(worker: Worker, number: int) -> _AcceptedRows:
    spec = worker.spec
    split = spec.splits[number]
    source = spec.inputs[split.input]
    rows = _AcceptedRows(source.name, spec.units[split.input])
    windows = read_split(source, split, worker.create_ids(number), reject=rows.rejects.add, describe=rows.describe)
    return rows.read_from(iter(windows), lambda: windows.lines)


def _open_frame(worker: Worker, source: FrameSource, batches: Iterator[pa.RecordBatch]) -> tuple[int, _AcceptedRows]:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - partitions of a DataFrame are read by tasks only
    partition = context.partitionId()
    name = source.format_name(partition)
    check_parts(name, partition + 1)
    split = source.first_split + partition
    rows = _AcceptedRows(name, "row")
    # The first batch has the schema; a partition without batches has no rows.
    first = next(batches, None)
    if first is None:
        return split, rows
    counter = _BatchCounter(first, batches)
    table = TypedTable(
        type=worker.get_type(source.type),
        columns=source.columns,
        is_partial=source.is_partial,
        blobs=worker.spec.blobs,
        data=pa.RecordBatchReader.from_batches(first.schema, counter),
        label=name,
    )
    return split, _read_table(worker, split, rows, table, counter)


def _read_table(
    worker: Worker, split: int, rows: _AcceptedRows, table: TypedTable, counter: "_BatchCounter"
) -> _AcceptedRows:
    ids = worker.create_ids(split)
    return rows.read_from(read_typed(table, ids, reject=rows.rejects.add), lambda: counter.rows)


def stage_batches(
    worker: Worker, journal: TaskJournal, split: int, table: TypedTable, batches: Iterator[pa.RecordBatch]
) -> SplitResult:
    """Stage the rows of batches as those of a split; `table` says how they are read, and is empty."""
    result = SplitResult(split=split)
    first = next(batches, None)
    if first is None:
        return result
    counter = _BatchCounter(first, batches)
    data = pa.RecordBatchReader.from_batches(first.schema, counter)
    rows = _read_table(worker, split, _AcceptedRows(table.name, "row"), replace(table, data=data), counter)
    writers = FragmentWriters(worker, journal)
    try:
        result = _stage_split(worker, writers, split, rows, StageWork())
        for name, fragments in writers.finish().items():
            result.types[name].fragments = fragments
    except BaseException:
        writers.abort()
        raise
    return result


class _BatchCounter:
    """An iterator of batches that counts their rows."""

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


def _stage_pack(worker: Worker, phase: int, splits: Sequence[_OpenSplit], work: StageWork) -> list[SplitResult]:
    journal = worker.begin_journal(phase, splits[0][0])
    _select_faults(worker).reach("task.begun")
    writers = FragmentWriters(worker, journal)
    results: list[SplitResult] = []
    try:
        for split, rows in splits:
            _begin_rejects(worker, rows, journal, split, is_first=work.only is None)
            results.append(_stage_split(worker, writers, split, rows, work))
        for name, fragments in writers.finish().items():
            first = next(result for result in results if name in result.types)
            first.types[name].fragments = fragments
    except BaseException:
        writers.abort()
        raise
    _select_faults(worker).reach("task.staged")
    return results


def _stage_split(
    worker: Worker, writers: FragmentWriters, split: int, rows: _AcceptedRows, work: StageWork
) -> SplitResult:
    result = SplitResult(split=split)
    without = {name: left_out.read(worker) for name, left_out in work.left_out.get(split, {}).items()}
    for window in rows:
        name = window.type.name
        # Before the filters: the checksum and the ordinals are about all rows of the split.
        ordinals = _count_rows(worker, result, window)
        if work.only is not None and name not in work.only.get(split, ()):
            continue
        if name in without:
            window = take_rows(window, np.flatnonzero(~np.isin(ordinals, without[name])))  # noqa: PLW2901 - less of the same
        writers.add(window.type, window.rows)
    return _finalize(result, rows)


def _hand_over_split(worker: Worker, phase: int, split: int, rows: _AcceptedRows, work: HandOverWork) -> SplitResult:
    scratch = worker.open_scratch(phase, split)
    _begin_rejects(worker, rows, scratch, split, is_first=work.wanted is None)
    _select_faults(worker).reach("task.begun")
    result = SplitResult(split=split)
    writer = RollingChunkWriter(scratch.keep, worker.spec.seed if work.with_ids else None)
    selector = None if work.wanted is None else RowSelector(work.wanted, worker.spec.seed)
    ends: dict[str, list[Hashes]] = {}
    without = {name: left_out.read(worker) for name, left_out in work.left_out.get(split, {}).items()}
    for window in rows:
        # Without a selector all rows are handed over, and the split is not read again.
        ordinals = _count_rows(worker, result, window, is_repeatable=selector is not None)
        if selector is not None:
            at = selector.select(window.type, window.rows)
            if window.type.name in without:
                at = at[~np.isin(ordinals[at], without[window.type.name])]
            if not len(at):
                continue
            window, ordinals = take_rows(window, at), ordinals[at]  # noqa: PLW2901 - less of the same
        writer.add(window, ordinals)
        if work.separate is not None:
            for column in list_missing_ends(worker.catalog, window.type.name):
                key = f"{window.type.name}/{column}"
                ends.setdefault(key, []).append(hash_ids(window.rows.column(column), worker.spec.seed))
    for name, chunks in writer.finish().items():
        result.types[name].chunks = chunks
    if work.separate is not None:
        _report_missing(worker, result, work.separate, ends)
    _select_faults(worker).reach("task.staged")
    return _finalize(result, rows)


def _report_missing(
    worker: Worker, result: SplitResult, keys: SeparateKeys, ends: Mapping[str, Sequence[Hashes]]
) -> None:
    """Add the ends of handed-over edges that no node has."""
    for key, parts in ends.items():
        name, _, column = key.partition("/")
        hashes = np.unique(np.concatenate(parts))
        missing = hashes[keys.find_among(key, hashes, worker.read_object)].tobytes()
        node = list_missing_ends(worker.catalog, name)[column]
        result.types[name].missing[node] = result.types[name].missing.get(node, b"") + missing


def _check_split(worker: Worker, phase: int, split: int, rows: _AcceptedRows, work: CheckWork) -> SplitResult:
    scratch = worker.open_scratch(phase, split)
    rows.rejects.switch_off()
    _select_faults(worker).reach("task.begun")
    result = SplitResult(split=split)
    with Spool(keeps_left_out=worker.spec.keeps_left_out) as spool:
        for window in rows:
            _count_rows(worker, result, window)
            spool.add(0, window)
        spool.seal()
        result.verdict = check_split(worker, work.rules, split, spool, rows.inputs, scratch)
    return _finalize(result, rows)


def _list_split(worker: Worker, phase: int, split: int, rows: _AcceptedRows, repeated: SeparateKeys) -> SplitResult:
    scratch = worker.open_scratch(phase, split)
    rows.rejects.switch_off()
    _select_faults(worker).reach("task.begun")
    result = SplitResult(split=split)
    listed: dict[str, list[pa.Table]] = {}
    for window in rows:
        ordinals = _count_rows(worker, result, window)
        if f"{window.type.name}/{ID}" in repeated.roles:
            ids = window.rows.column(ID)
            table = build_listed(ids, hash_ids(ids, worker.spec.seed), ordinals, window.lines)
            listed.setdefault(window.type.name, []).append(table)
    for name, tables in listed.items():
        table = pa.concat_tables(tables)
        # All ids of the split at once, because the repeated ones are read from objects.
        at = np.flatnonzero(repeated.find_among(f"{name}/{ID}", read_hashes(table), worker.read_object))
        if len(at):
            data = encode_rows(table.take(pa.array(at)))
            chunk = RowChunk(key=scratch.keep(f"{name}.ids", data), rows=len(at), nbytes=len(data))
            result.types[name].chunks = [chunk]
    return _finalize(result, rows)


def _count_rows(worker: Worker, result: SplitResult, window: TypedRows, *, is_repeatable: bool = True) -> Positions:
    """Count the rows of a window, and return their ordinals. A split that is never read again needs no checksum."""
    type_result = result.types.setdefault(window.type.name, TypeResult())
    ordinals = np.arange(type_result.rows, type_result.rows + window.rows.num_rows, dtype=np.int64)
    type_result.rows += window.rows.num_rows
    type_result.generated += window.left_out[ID].true_count if ID in window.left_out else 0
    if not is_repeatable:
        return ordinals
    for number, columns in enumerate(find_roles(window.type).values()):
        hashes, complete = hash_keys(window.rows, columns, worker.spec.seed)
        factors = (ordinals if complete is None else ordinals[complete]).astype(np.uint64)
        # Weighted by ordinal, so that the same rows in another order differ: rows are located by their ordinals.
        # An odd factor is invertible modulo 2**64, so it loses no bits of a hash.
        total = int((hashes * (2 * factors + 1)).sum(dtype=np.uint64))
        type_result.checksum = (type_result.checksum + (2 * number + 1) * total) % 2**64
    return ordinals


def _begin_rejects(worker: Worker, rows: _AcceptedRows, scratch: ScratchWriter, split: int, *, is_first: bool) -> None:
    """Log rejected records when a split is read for the first time; store them if they are quarantined."""
    if not is_first:
        rows.rejects.switch_off()
    elif worker.spec.keeps_rejected:
        # Several splits of a pack share a journal.
        rows.rejects.keep_by(lambda name, data: scratch.keep(f"{split}.{name}", data))


def _finalize(result: SplitResult, rows: _AcceptedRows) -> SplitResult:
    result.lines = rows.lines
    result.export = rows.export
    result.rejects = rows.rejects.finish()
    return result


def encode_payload(data: bytes) -> pa.RecordBatch:
    """Return bytes as a batch of RESULT_SCHEMA."""
    return pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], schema=_PAYLOAD)


def _encode_batch(result: SplitResult) -> pa.RecordBatch:
    return encode_payload(encode_result(result))


def _select_faults(worker: Worker) -> Faults:
    """Return the faults of a test for the first attempt of a task; later attempts have none."""
    context = TaskContext.get()
    return worker.spec.faults if context is None or context.attemptNumber() == 0 else NoFaults()
