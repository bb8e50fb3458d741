"""The input of a load on Spark: its splits and DataFrame partitions, the spec for tasks, and the results of tasks."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import ArmedWrite, abandon, arm
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.rejected_records import UnreadableRecords
from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.engine.decoding.record_error import ColumnError
from omnigraph.engine.decoding.typed_files import TypedTable, read_typed
from omnigraph.ops.load import OPERATION
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_inputs import InputSource, LoadInput, expand_inputs, resolve_type
from omnigraph.ops.load_local import choose_unit, is_repeatable
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.load.input_splits import (
    TARGET_BYTES,
    Split,
    count_lines_before,
    make_path_absolute,
    pack_splits,
    plan_splits,
    spool_inputs,
)
from omnigraph.spark.load.load_spec import (
    FIRST_FRAME_SPLIT,
    MAX_FRAMES,
    SPLITS_PER_FRAME,
    FrameSource,
    LoadSpec,
    build_spec,
    check_parts,
)
from omnigraph.spark.load.load_task import SplitResult
from omnigraph.spark.load.recheck import FetchedRows
from omnigraph.spark.load.reject_log import SplitRejects, take_rejects
from omnigraph.spark.load.row_chunks import read_chunk
from omnigraph.spark.load.split_check import SplitVerdict
from omnigraph.spark.load.split_planning import plan_in_tasks
from omnigraph.spark.load.task_phases import Phases
from omnigraph.spark.read.spark_types import to_spark_arrow_schema
from omnigraph.spark.session.connect import count_parallel_tasks
from omnigraph.spark.session.error_translation import surface_errors


class SparkInput:
    """The input of a load, read by the schema of one state. Call `begin`, run tasks, then `take_over` their results."""

    def __init__(self, session: Session, call: LoadCall, head: Head, *, split_bytes: int = TARGET_BYTES) -> None:
        self._session = session
        self._head = head
        self._split_bytes = split_bytes
        self.catalog = session.load_catalog(head.snapshot)
        self.schema_id = head.snapshot.manifest.schema.id
        is_partial = call.mode is LoadMode.MERGE
        self.frames = [*_iter_frames(session, call, head)]
        files = tuple(source for source in call.input.typed if not isinstance(source.data, DataFrame))
        self.call = replace(call, input=LoadInput(graph=call.input.graph, typed=files))
        self.sources = expand_inputs(
            self.call.input,
            self.catalog,
            is_partial=is_partial,
            blobs=session.blob_sources,
            storage=session.runtime.options.storage,
        )
        self._names = [source.name for source in self.sources]
        self._units = [choose_unit(source) for source in self.sources]
        # By split: the number of its input, and the lines of its input before it.
        self.files: dict[int, int] = {}
        self._before: dict[int, int] = {}
        # The objects of splits that the driver has read itself, by key.
        self.buffer: dict[str, bytes] = {}
        self.export: str | None = None
        self._scratch = TempDirectory("omnigraph-load-")
        self._spec: LoadSpec | None = None

    @property
    def inputs(self) -> InputNames:
        """The names of all files and, once they are known, of all partitions of DataFrames."""
        return InputNames(tuple(self._names), tuple(self._units))

    @property
    def is_repeatable(self) -> bool:
        """Whether all of the input can be read again."""
        return is_repeatable(self.sources)

    @property
    def spec(self) -> LoadSpec:
        """The spec that every task gets."""
        assert self._spec is not None  # noqa: S101 - `begin` comes first
        return self._spec

    @property
    def named_types(self) -> list[str]:
        """The types that the input names, whether or not it has rows of them."""
        names = [source.type.name for source in self.sources if source.type is not None]
        names += [frame.type for frame, _ in self.frames]
        return list(dict.fromkeys(names))

    def get_type(self, name: str) -> AnyType:
        """Return the type of rows that were read."""
        type_ = self.catalog.find_type(name)
        assert type_ is not None  # noqa: S101 - it was read by this catalog
        return type_

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes of all files."""
        return sum(split.size for split in self.spec.splits)

    def find_name(self, split: int) -> str:
        """Return the name of a split's input, for messages."""
        return self._names[self.files[split]]

    def find_pack(self, split: int) -> range:
        """Return the splits that are staged together with a split; a partition of a DataFrame is staged alone."""
        if split >= FIRST_FRAME_SPLIT:
            return range(split, split + 1)
        packs = self.spec.packs
        return packs[bisect_right(packs, split, key=lambda pack: pack.start) - 1]

    def find_origin(self, split: int) -> tuple[int, int]:
        """Return the number of a split's input, and the number of its lines before the split."""
        return self.files[split], self._before[split]

    def begin(self, *, keeps_staged: bool, spark: SparkSession | None = None) -> tuple[ArmedWrite, Phases]:
        """Plan the splits, for the cores of Spark, and announce the load before any file is written."""
        session, call = self._session, self.call
        inputs, splits, packs = self._plan(spark)
        armed = arm(session.log, self._head, operation=OPERATION, actor=call.actor, keeps_staged=keeps_staged)
        try:
            phases = Phases(session.store, armed)
            self._spec = replace(
                self._create_spec(phases.operation_id),
                inputs=tuple(inputs),
                units=tuple(self._units),
                splits=tuple(splits),
                packs=tuple(packs),
                frames=tuple(frame for frame, _ in self.frames),
            )
        except BaseException as error:  # an interrupt too: no file was written yet
            abandon(session.log, armed, (), error)
            raise
        return armed, phases

    def _plan(self, spark: SparkSession | None) -> tuple[list[InputSource], list[Split], list[range]]:
        """Return the inputs as tasks read them, their splits, and the packs of these."""
        inputs = spool_inputs(self.sources, self._scratch.directory)
        # Planned with paths as they were given, because errors of planning quote them.
        planned = None if spark is None else plan_in_tasks(spark, inputs, target_bytes=self._split_bytes)
        splits = plan_splits(inputs, target_bytes=self._split_bytes, planned=planned)
        inputs = [make_path_absolute(source) for source in inputs]
        cores = 1 if spark is None else count_parallel_tasks(spark)
        packs = pack_splits(splits, target_bytes=self._split_bytes, cores=cores)
        check_parts("the files", len(splits), FIRST_FRAME_SPLIT)
        check_parts("the DataFrames", len(self.frames), MAX_FRAMES)
        return inputs, splits, packs

    def _create_spec(self, operation_id: str) -> LoadSpec:
        """Return the spec without inputs."""
        call = self.call
        return build_spec(
            self._session,
            self._head,
            operation_id,
            keeps_left_out=call.mode is LoadMode.MERGE or call.on_error is not None,
            keeps_rejected=call.on_error is not None,
        )

    def take_over(self, results: Sequence[SplitResult], rejects: UnreadableRecords) -> set[str]:
        """Locate the splits in their inputs, add rejected records to `rejects`, and return the types of these."""
        by_split = {result.split: result for result in results}
        splits = self.spec.splits
        self._before = count_lines_before(splits, {split.number: by_split[split.number].lines for split in splits})
        self.files = {split.number: split.input for split in splits}
        # Each partition of a DataFrame is an input of its own, numbered after the files.
        del self._names[len(self.sources) :], self._units[len(self.sources) :]
        for number in sorted(split for split in by_split if split >= FIRST_FRAME_SPLIT):
            frame, _ = self.frames[(number - FIRST_FRAME_SPLIT) // SPLITS_PER_FRAME]
            self.files[number], self._before[number] = len(self._names), 0
            self._names.append(frame.format_name(number - frame.first_split))
            self._units.append("row")
        exports = (result.export for _, result in sorted(by_split.items()) if result.export is not None)
        self.export = next(exports, None)
        # Reversed, so that of two inputs with the same name the first one counts.
        rejects.numbers = {name: number for number, name in reversed(list(enumerate(self._names)))}
        unreadable: set[str] = set()
        for number in sorted(by_split):
            if by_split[number].rejects.count:
                self._take_rejects(number, [by_split[number].rejects], rejects)
                type_ = self.sources[self.files[number]].type if number < FIRST_FRAME_SPLIT else None
                unreadable |= set() if type_ is None else {type_.name}
        rejects.close()
        return unreadable | rejects.types.keys()

    def take_verdicts(
        self, results: Mapping[int, SplitResult], verdicts: Mapping[int, SplitVerdict], rejects: UnreadableRecords
    ) -> None:
        """Add to `rejects` all records that were rejected while they were read, or checked by themselves."""
        rejects.numbers = {name: number for number, name in reversed(list(enumerate(self._names)))}
        for number in sorted(results):
            parts = [results[number].rejects]
            if number in verdicts:
                parts.append(verdicts[number].rejects)
            self._take_rejects(number, parts, rejects)
        rejects.close()

    def _take_rejects(self, split: int, parts: Sequence[SplitRejects], rejects: UnreadableRecords) -> None:
        take_rejects(parts, self.find_name(split), self._before[split], rejects, self._read_scratch)

    def iter_fetched(self, results: Sequence[SplitResult]) -> Iterator[tuple[str, FetchedRows]]:
        """Yield the rows that tasks have handed over, with the name of their type, in the order of the input."""
        for result in sorted(results, key=lambda result: result.split):
            split = result.split
            for name, type_result in result.types.items():
                for chunk in type_result.chunks:
                    data = self._read_scratch(chunk.key)
                    for rows in read_chunk(self.get_type(name), data, self._before[split]):
                        yield name, FetchedRows(split, self.files[split], rows)

    def _read_scratch(self, key: str) -> bytes:
        # An object in the buffer is read once, so its memory is freed.
        return self.buffer.pop(key) if key in self.buffer else self._session.store.objects.get(key).data

    def close(self) -> None:
        """Remove the spooled files."""
        self._scratch.close()


def _iter_frames(session: Session, call: LoadCall, head: Head) -> Iterator[tuple[FrameSource, DataFrame]]:
    catalog = session.load_catalog(head.snapshot)
    typed = [source for source in call.input.typed if isinstance(source.data, DataFrame)]
    for number, source in enumerate(typed):
        type_ = resolve_type(source, catalog)
        frame = FrameSource(
            number=number,
            type=type_.name,
            is_edge=source.is_edge,
            columns=dict(source.columns),
            is_partial=call.mode is LoadMode.MERGE,
        )
        assert isinstance(source.data, DataFrame)  # noqa: S101 - filtered above
        check_columns(session, frame, type_, source.data)
        yield frame, source.data


def check_columns(session: Session, source: FrameSource, type_: AnyType, frame: DataFrame) -> None:
    """Check, before a job starts, that rows of the type can be built from the columns of a DataFrame.

    Raises:
        ColumnError: A column is unknown or has a wrong type, or the key has none.
    """
    name = f"<{'edges' if source.is_edge else 'nodes'} {type_.name}>"
    with surface_errors():
        schema = to_spark_arrow_schema(frame.schema)
    empty = TypedTable(
        type=type_,
        columns=source.columns,
        is_partial=source.is_partial,
        blobs=session.blob_sources,
        data=schema.empty_table(),
        label=name,
    )
    # Reading an empty table checks its columns as in any other load.
    for _ in read_typed(empty, session.runtime.ids):
        pass
    located = empty.locate_columns(schema.names)
    for key in type_.key:
        p = type_.find_property(key)
        if p is not None and p.is_required and key not in located:
            raise ColumnError(name, type_.name, key, f"there is no column `{key}`, which is the key")
