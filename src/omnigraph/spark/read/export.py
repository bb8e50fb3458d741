"""Export a graph on executors: the same rows in the same order as `ops.export`, in several files.

Graph JSONL becomes a directory whose files, concatenated by name, equal the file that one process writes. Parquet has a
directory of files for each file of one process. A load accepts both. Executors write the files, so they must all see
the target directory.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.jsonl_encoding import iter_json_lines
from omnigraph.engine.writing.blobs import iter_stored_by_id, list_blob_properties
from omnigraph.ops.export import (
    Exported,
    ExportFormat,
    ExportProgress,
    ExportTargetError,
    build_parquet_name,
    iter_chunks,
    locate_target,
    select_types,
    wrap_file_errors,
)
from omnigraph.ops.session import Session
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.read.spark_types import from_spark_batch
from omnigraph.spark.read.table_scan import PART, TableScan, plan_scan
from omnigraph.spark.session.connect import count_parallel_tasks
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.handshake import TaskBody, map_tasks
from omnigraph.spark.session.job_monitor import JobProgress, run_job

ROWS_PER_FILE = 1_000_000
# Fewer rows don't justify another task, even if cores are idle.
MIN_ROWS_PER_FILE = 50_000
BLOB_ROWS_PER_FILE = 20_000
# The number of ids that are sampled per file to find cuts of about equal size.
_SAMPLES_PER_FILE = 200
# The names of exported files: a directory that holds any other file is not replaced.
_FILE_NAME = re.compile(r"(\d{3}-\w+|part)-\d{5}\.(jsonl|parquet)")
_RESULT_DDL = "part int, rows long"
_RESULT_SCHEMA = pa.schema([pa.field("part", pa.int32()), pa.field("rows", pa.int64())])

# Reads a type's rows; a column `PART` has the number of each row's part when the ids are cut at the given ones.
Frames: TypeAlias = Callable[[AnyType, tuple[str, ...]], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFiles:
    """The files of one type, named by `stem` and five digits, in a directory that is renamed when complete."""

    directory: str
    stem: str
    type: AnyType
    format: ExportFormat

    def get_path(self, part: int) -> Path:
        """Return the path of a part's file."""
        return Path(self.directory) / f"{self.stem}-{part:05}.{self.format.value}"

    def write(self, part: int, batches: Iterator[pa.RecordBatch]) -> int:
        """Write stored rows to the file of a part atomically, and return their number.

        Two attempts of a task write equal files, so either may replace the other.
        """
        schema = build_arrow_schema(self.type)
        path = self.get_path(part)
        # Hidden, and with the process id: two attempts of a task may run at the same time.
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        rows = 0
        with wrap_file_errors(str(path)):
            try:
                with unfinished.open("wb") as file:
                    if self.format is ExportFormat.PARQUET:
                        with pa_parquet.ParquetWriter(file, schema) as writer:
                            for batch in batches:
                                writer.write_batch(batch)
                                rows += batch.num_rows
                    else:
                        for batch in batches:
                            table = pa.Table.from_batches([batch])
                            file.writelines(iter_chunks(iter_json_lines(self.type, table)))
                            rows += batch.num_rows
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
        return rows


def export_on_spark(
    session: Session,
    snapshot: Snapshot,
    spark: SparkSession,
    frames: Frames,
    target: str | os.PathLike[str],
    *,
    format: ExportFormat,
    types: Sequence[str] | None = None,
    progress: Callable[[ExportProgress], None] | None = None,
) -> Exported:
    """Write the rows of a snapshot into a directory: JSONL in one atomic step, Parquet in one for each type.

    Raises:
        TypeMissingError: The schema of that snapshot has no such type.
        ExportTargetError: The target can't be written, holds other files, or executors don't see it.
    """
    location = locate_target(target)
    if not location.is_local:
        reason = (
            "a complete export is renamed into place, which a bucket can't do; name a directory that all executors see,"
            " or use the engine `local`, with which this process writes"
        )
        raise ExportTargetError(f"`{os.fspath(target)}`", reason)
    directory = Path(location.path)
    selected = select_types(session.load_catalog(snapshot), types)
    export = _SparkExport(session, snapshot, spark, frames, _ProgressReporter(progress, selected, snapshot))
    rows: dict[str, int] = {}
    if format is ExportFormat.PARQUET:
        for type_ in selected:
            with _AtomicDirectory(session, directory / build_parquet_name(type_)) as hidden:
                files = TypeFiles(directory=str(hidden), stem="part", type=type_, format=format)
                rows[type_.name] = export.write(files)
                if not rows[type_.name]:
                    # A Parquet file without rows still has the schema of the type.
                    files.write(0, iter(()))
    else:
        with _AtomicDirectory(session, directory) as hidden:
            for number, type_ in enumerate(selected):
                files = TypeFiles(directory=str(hidden), stem=f"{number:03}-{type_.name}", type=type_, format=format)
                rows[type_.name] = export.write(files)
                if type_ is selected[-1] and not any(rows.values()):
                    files.write(0, iter(()))  # a load rejects a directory without files
    return Exported(commit_id=snapshot.commit.id, format=format, rows=rows)


class _AtomicDirectory:
    """A hidden directory that is renamed to its final name when complete, and replaces an earlier export."""

    def __init__(self, session: Session, final: Path) -> None:
        self._final = final
        self._hidden = final.with_name(f".{final.name}.{session.runtime.ids.ulid()}")

    def __enter__(self) -> Path:
        with wrap_file_errors(str(self._final)):
            if self._final.is_dir():
                names = [path.name for path in self._final.iterdir()]
                unknown = [name for name in names if not _FILE_NAME.fullmatch(name)]
                if unknown:
                    reason = f"it holds `{min(unknown)}`, which no export wrote; name another directory"
                    raise ExportTargetError(f"`{self._final}`", reason)
            self._hidden.mkdir(parents=True)
        return self._hidden

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with wrap_file_errors(str(self._final)):
                    self._replace()
        finally:
            shutil.rmtree(self._hidden, ignore_errors=True)

    def _replace(self) -> None:
        if self._final.is_dir():
            # A directory can't be renamed over one with files in it, so the old one is moved away first.
            old = self._hidden.with_name(f"{self._hidden.name}.old")
            self._final.rename(old)
            self._hidden.rename(self._final)
            shutil.rmtree(old, ignore_errors=True)
            return
        self._final.unlink(missing_ok=True)
        self._hidden.rename(self._final)


class _ProgressReporter:
    """The progress of an export over all types, reported to the caller."""

    def __init__(
        self, progress: Callable[[ExportProgress], None] | None, types: Sequence[AnyType], snapshot: Snapshot
    ) -> None:
        self._progress = progress
        self._total = sum(snapshot.pin(type_.table_key).rows for type_ in types)
        self._done = 0

    def build_callback(self, type_: AnyType, rows: int) -> Callable[[JobProgress], None]:
        """Return a callback for the job that writes the `rows` rows of a type."""

        def report(job: JobProgress) -> None:
            self._report(type_, self._done + int(rows * job.share))

        return report

    def add(self, type_: AnyType, rows: int) -> None:
        """Add rows that have been written, and report them."""
        self._done += rows
        self._report(type_, self._done)

    def _report(self, type_: AnyType, rows: int) -> None:
        if self._progress is not None:
            self._progress(ExportProgress(type=type_.name, rows=rows, total_rows=self._total))


@dataclass(frozen=True, slots=True)
class _SparkExport:
    session: Session
    snapshot: Snapshot
    spark: SparkSession
    frames: Frames
    progress: _ProgressReporter

    def write(self, files: TypeFiles) -> int:
        """Write all files of a type, and return the number of their rows."""
        type_ = files.type
        rows = self.snapshot.pin(type_.table_key).rows
        if not rows:
            return 0
        scan = plan_scan(self.session, self.snapshot, type_)
        if list_blob_properties(type_):
            frame = self._plan_blob_parts(scan, files, rows)
        else:
            frame = self._plan_sorted_parts(scan, files, rows)
        description = f"omnigraph export: {type_.name}"
        results = run_job(
            self.spark, frame.collect, description=description, on_progress=self.progress.build_callback(type_, rows)
        )
        self._check_files(files, results)
        self.progress.add(type_, rows)
        return sum(row["rows"] for row in results)

    def _plan_sorted_parts(self, scan: TableScan, files: TypeFiles, rows: int) -> DataFrame:
        """Plan a shuffle that sends rows to the part of their id and sorts them there."""
        count = self._count_files(rows, ROWS_PER_FILE)
        cuts = _find_cuts(scan, rows, count)
        frame = self.frames(scan.type, cuts)
        # Partition n gets exactly the rows of part n, so its number names the file.
        partitioned = frame.repartitionById(len(cuts) + 1, PART).sortWithinPartitions(ID)
        return map_tasks(partitioned, _build_sorted_task(files), _RESULT_DDL)

    def _plan_blob_parts(self, scan: TableScan, files: TypeFiles, rows: int) -> DataFrame:
        """Plan tasks that each read a range of the sorted ids with their values: blobs are too large to shuffle."""
        count = self._count_files(rows, BLOB_ROWS_PER_FILE)
        ends = [rows * part // count for part in range(count + 1)]
        return map_tasks(self.spark.range(0, count, 1, count), _build_blob_task(scan, files, ends), _RESULT_DDL)

    def _count_files(self, rows: int, rows_per_file: int) -> int:
        files = max(-(-rows // rows_per_file), count_parallel_tasks(self.spark))
        return max(1, min(files, rows // min(MIN_ROWS_PER_FILE, rows_per_file)))

    def _check_files(self, files: TypeFiles, results: Sequence[Row]) -> None:
        for row in results:
            # An executor on another machine may have written to a local disk of its own.
            if not files.get_path(row["part"]).exists():
                reason = (
                    "files that executors wrote are missing here; name a directory that this machine shares with them"
                )
                raise ExportTargetError(f"`{Path(files.directory).parent}`", reason)


def _find_cuts(scan: TableScan, rows: int, count: int) -> tuple[str, ...]:
    """Return ids that cut a table into about `count` parts of similar size, by a sample."""
    if count < 2:
        return ()
    # Evenly spaced rows, not random ones: the same snapshot is cut at the same ids.
    positions = np.unique(np.linspace(0, rows - 1, _SAMPLES_PER_FILE * count).astype(np.int64))
    sample = np.sort(scan.open_table().take(pa.array(positions), [ID])[ID].to_numpy(zero_copy_only=False))
    cuts = [str(sample[len(sample) * part // count]) for part in range(1, count)]
    return tuple(dict.fromkeys(cuts))


def _build_sorted_task(files: TypeFiles) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            context = TaskContext.get()
            assert context is not None  # noqa: S101 - this is a task
            schema = build_arrow_schema(files.type)
            rows = files.write(context.partitionId(), (from_spark_batch(batch, schema) for batch in batches))
            yield _build_result(context.partitionId(), rows)

    return run


def _build_blob_task(scan: TableScan, files: TypeFiles, ends: Sequence[int]) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                for part in batch.column(0).to_pylist():
                    within = range(ends[part], ends[part + 1])
                    yield _build_result(
                        part, files.write(part, iter_stored_by_id(scan.type, scan.open_table(), within))
                    )

    return run


def _build_result(part: int, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"part": part, "rows": rows}], schema=_RESULT_SCHEMA)
