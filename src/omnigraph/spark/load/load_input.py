"""The input of a load on Spark: its splits and partitions, what tasks are told, and what they tell back."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import ArmedWrite, abandon, arm
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.rejected_records import UnreadableRecords
from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.engine.decoding.record_error import ColumnError, RecordError
from omnigraph.engine.decoding.typed_files import TypedTable, read_typed
from omnigraph.faults import ArmedFaults, Faults, NoFaults
from omnigraph.ops.load import OPERATION
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_inputs import InputSource, LoadInput, expand_inputs, resolve_type
from omnigraph.ops.load_local import choose_unit, is_repeatable
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.catalog_codec import encode_catalog
from omnigraph.spark.load.input_splits import (
    TARGET_BYTES,
    Split,
    count_lines_before,
    make_path_absolute,
    plan_splits,
    spool_inputs,
)
from omnigraph.spark.load.load_spec import JOB_BITS, MAX_FRAMES, SPLITS_PER_SOURCE, FrameSource, LoadSpec, check_parts
from omnigraph.spark.load.load_task import SplitResult, decode_rejected
from omnigraph.spark.load.recheck import FetchedRows
from omnigraph.spark.load.row_chunks import read_chunk
from omnigraph.spark.load.task_phases import Phases
from omnigraph.spark.read.spark_types import to_spark_arrow_schema
from omnigraph.spark.session.error_translation import surface_errors


class SparkInput:
    """What a load reads, by the schema of a state. `begin` it, let tasks work, and `take_over` what they say."""

    def __init__(self, session: Session, call: LoadCall, head: Head, *, split_bytes: int = TARGET_BYTES) -> None:
        self._session, self._head, self._split_bytes = session, head, split_bytes
        self.catalog = session.load_catalog(head.snapshot)
        self.schema_id = head.snapshot.manifest.schema.id
        is_partial = call.mode is LoadMode.MERGE
        self.frames = [*_iter_frames(session, call, head)]
        files = tuple(one for one in call.input.typed if not isinstance(one.data, DataFrame))
        self.call = replace(call, input=LoadInput(graph=call.input.graph, typed=files))
        self.sources = expand_inputs(
            self.call.input,
            self.catalog,
            is_partial=is_partial,
            blobs=session.blob_sources,
            storage=session.runtime.options.storage,
        )
        self._names = [one.name for one in self.sources]
        self._units = [choose_unit(one) for one in self.sources]
        self.files: dict[int, int] = {}
        """By split, the number of its input."""
        self._before: dict[int, int] = {}
        """By split, the lines that its input has before it."""
        self.buffer: dict[str, bytes] = {}
        """What the driver has read by itself and handed over, by key."""
        self.export: str | None = None
        """See Records."""
        self._scratch = TempDirectory("omnigraph-load-")
        self._spec: LoadSpec | None = None

    @property
    def inputs(self) -> InputNames:
        """Every file, and once they are known, every partition of a DataFrame."""
        return InputNames(tuple(self._names), tuple(self._units))

    @property
    def is_repeatable(self) -> bool:
        """Whether all of it can be read again."""
        return is_repeatable(self.sources)

    @property
    def spec(self) -> LoadSpec:
        """What tasks are told."""
        assert self._spec is not None  # noqa: S101 - `begin` comes first
        return self._spec

    @property
    def named_types(self) -> list[str]:
        """The types that the input names, whether or not it has rows of them."""
        files = [one.type.name for one in self.sources if one.type is not None]
        return list(dict.fromkeys([*files, *(source.type for source, _ in self.frames)]))

    def get_type(self, name: str) -> AnyType:
        """A type that rows were read of."""
        found = self.catalog.find_type(name)
        assert found is not None  # noqa: S101 - it was read by this very catalog
        return found

    @property
    def nbytes(self) -> int:
        """About how many bytes the files have."""
        return sum(split.size for split in self.spec.splits)

    def find_name(self, split: int) -> str:
        """What messages call the input of a split."""
        return self._names[self.files[split]]

    def find_origin(self, split: int) -> tuple[int, int]:
        """The number of a split's input, and how many lines that has before it."""
        return self.files[split], self._before[split]

    def begin(self, *, keeps_staged: bool) -> tuple[ArmedWrite, Phases]:
        """Find the splits, and announce the load before anything is written."""
        session, call = self._session, self.call
        inputs = spool_inputs(self.sources, self._scratch.directory)
        splits = plan_splits(inputs, target_bytes=self._split_bytes)
        inputs = [make_path_absolute(one) for one in inputs]
        check_parts("the files", len(splits))
        check_parts("the DataFrames", len(self.frames), MAX_FRAMES)
        armed = arm(session.log, self._head, operation=OPERATION, actor=call.actor, keeps_staged=keeps_staged)
        try:
            phases = Phases(session.store, armed)
            self._spec = self._build_spec(phases.operation_id, inputs, splits)
        except BaseException as error:  # an interrupt too: nothing was written yet
            abandon(session.log, armed, (), error)
            raise
        return armed, phases

    def _build_spec(self, operation_id: str, inputs: Sequence[InputSource], splits: Sequence[Split]) -> LoadSpec:
        """What every task is told."""
        session, call = self._session, self.call
        now = int(session.runtime.clock.now().timestamp() * 1000)
        return LoadSpec(
            uri=session.uri,
            storage=tuple(sorted((session.store.lance_options or {}).items())),
            operation_id=operation_id,
            catalog=encode_catalog(self.catalog),
            pins={key: (pin.path, str(pin.version)) for key, pin in self._head.snapshot.pins.items()},
            blobs=session.blob_sources,
            inputs=tuple(inputs),
            units=tuple(self._units),
            splits=tuple(splits),
            keeps_left_out=call.mode is LoadMode.MERGE or call.on_error is not None,
            seed=secrets.randbits(64),
            first_id=(now << JOB_BITS | secrets.randbits(JOB_BITS)) << (80 - JOB_BITS),
            faults=_select_task_faults(session.runtime.faults),
        )

    def take_over(self, done: Sequence[SplitResult], rejects: UnreadableRecords) -> set[str]:
        """Where the splits lie in their inputs, and what was refused; the types that records were refused of."""
        by_split = {one.split: one for one in done}
        splits = self.spec.splits
        self._before = count_lines_before(splits, {split.number: by_split[split.number].lines for split in splits})
        self.files = {split.number: split.input for split in splits}
        del self._names[len(self.sources) :], self._units[len(self.sources) :]
        for number in sorted(split for split in by_split if split >= SPLITS_PER_SOURCE):
            source, _ = self.frames[number // SPLITS_PER_SOURCE - 1]
            self.files[number], self._before[number] = len(self._names), 0
            self._names.append(source.format_name(number - source.first_split))
            self._units.append("row")
        self.export = next((one.export for _, one in sorted(by_split.items()) if one.export is not None), None)
        rejects.numbers = {name: number for number, name in reversed(list(enumerate(self._names)))}
        unreadable: set[str] = set()
        for number in sorted(by_split):
            if by_split[number].rejected is not None:
                self._take_rejects(by_split[number], rejects)
                type_ = self.sources[self.files[number]].type if number < SPLITS_PER_SOURCE else None
                unreadable |= set() if type_ is None else {type_.name}
        rejects.close()
        return unreadable | rejects.types.keys()

    def _take_rejects(self, done: SplitResult, rejects: UnreadableRecords) -> None:
        assert done.rejected is not None  # noqa: S101 - asked by the one caller
        name, before = self.find_name(done.split), self._before[done.split]
        for one in decode_rejected(self._read_scratch(done.rejected)):
            error = RecordError(name, one.line + before, one.type, one.property, one.value, one.reason, one.unit)
            rejects.add(error, one.text, one.rule)

    def iter_fetched(self, done: Sequence[SplitResult]) -> Iterator[tuple[str, FetchedRows]]:
        """The rows that tasks have handed over, by the name of their type, in the order of the input."""
        for one in sorted(done, key=lambda one: one.split):
            for name, told in one.types.items():
                for piece in told.pieces:
                    for rows in read_chunk(self.get_type(name), self._read_scratch(piece.key), self._before[one.split]):
                        yield name, FetchedRows(one.split, self.files[one.split], rows)

    def _read_scratch(self, key: str) -> bytes:
        """What a task has kept, and nobody needs again if it is held here."""
        return self.buffer.pop(key) if key in self.buffer else self._session.store.objects.get(key).data

    def close(self) -> None:
        """Remove what was spooled."""
        self._scratch.close()


def _select_task_faults(faults: Faults) -> Faults:
    """Faults that can be sent to another process; what else a test does on the driver stays there."""
    return faults if isinstance(faults, ArmedFaults) else NoFaults()


def _iter_frames(session: Session, call: LoadCall, head: Head) -> Iterator[tuple[FrameSource, DataFrame]]:
    catalog = session.load_catalog(head.snapshot)
    given = [one for one in call.input.typed if isinstance(one.data, DataFrame)]
    for number, one in enumerate(given):
        type_ = resolve_type(one, catalog)
        source = FrameSource(
            number=number,
            type=type_.name,
            is_edge=one.is_edge,
            columns=dict(one.columns),
            is_partial=call.mode is LoadMode.MERGE,
        )
        assert isinstance(one.data, DataFrame)  # noqa: S101 - chosen above
        check_columns(session, source, type_, one.data)
        yield source, one.data


def check_columns(session: Session, source: FrameSource, type_: AnyType, frame: DataFrame) -> None:
    """ColumnError, before a job starts, for columns of which no row of the type can be made."""
    name = f"<{'edges' if source.is_edge else 'nodes'} {type_.name}>"
    with surface_errors():
        schema = to_spark_arrow_schema(frame.schema)
    nothing = TypedTable(
        type=type_,
        columns=source.columns,
        is_partial=source.is_partial,
        blobs=session.blob_sources,
        data=schema.empty_table(),
        label=name,
    )
    for _ in read_typed(nothing, session.runtime.ids):
        pass
    placed = nothing.locate_columns(schema.names)
    for key in type_.key:
        p = type_.find_property(key)
        if p is not None and p.is_required and key not in placed:
            raise ColumnError(name, type_.name, key, f"there is no column `{key}`, which is the key")
