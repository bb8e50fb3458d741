"""Maintenance on Spark: executors compact fragments and build indexes; the driver does the rest.

A work item is a group of fragments to rewrite, or to build an index segment of. Scalar indexes get several segments.
Of a vector index the driver trains a model by a sample, executors build parts by it, and the driver merges these into
one segment, which is as cheap to search as one that was built here. Full-text indexes and those with graphs can't be
merged cheaply, so the driver builds them. It also does work on few rows.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.commit.task_journal import NamingTimes, TaskJournal, clear
from omnigraph.ops.maintenance_worker import Built, LocalOptimizeWorker, UpkeepFiles, UpkeepStoppedError
from omnigraph.ops.session import Session
from omnigraph.options import UpkeepOptions
from omnigraph.spark.session.connect import count_parallel_tasks
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import TaskBody, map_tasks
from omnigraph.spark.session.job_monitor import run_job
from omnigraph.spark.session.spark_session import session as spark_session
from omnigraph.storage.compaction import (
    CompactedGroup,
    SegmentBuild,
    build_index_segment,
    compact,
    list_group_files,
    report_open_files,
)
from omnigraph.storage.index_staging import IndexUntrainableError, list_segment_files, merge_segments
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.vector_training import MERGEABLE_KINDS, train_model

# With fewer rows, starting tasks takes longer than the work.
MIN_ROWS = 1_000_000
# Kinds of indexes whose segments are built in parallel, and stay apart.
_SPLITTABLE_KINDS = ("BTREE", "BITMAP")
_RESULT = "payload string"
_SCHEMA = pa.schema([pa.field("payload", pa.string())])

# Fragments to rewrite, or a segment to build.
WorkItem: TypeAlias = tuple[int, ...] | SegmentBuild


def create_worker(session: Session, master: str | None) -> "SparkMaintenanceWorker":
    """Return a worker on the active Spark session, or on a new one with `master`."""
    return SparkMaintenanceWorker(
        spark_session(master), GraphLocation.from_session(session), session.runtime.options.upkeep
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskContext:
    """The input that all tasks share: the table, and the phase of the operation in which they may write."""

    location: GraphLocation
    path: str
    # As text: versions exceed a signed 64-bit integer of the JVM.
    version: str
    operation_id: str
    phase: int
    options: UpkeepOptions

    def run(self, number: int, item: WorkItem) -> str:
        """Process a work item in this task, journal its files, and return the result as JSON."""
        table = self.location.open_table(self.path, int(self.version))
        journal = TaskJournal(table.handles.store, self.operation_id, self.phase, number)
        # Before the first file: recovery finds the files of a dead task by its journal only.
        journal.begin()
        with report_open_files(table, journal):
            if isinstance(item, SegmentBuild):
                text = build_index_segment(table, item)
                journal.on_complete(list_segment_files(self.path, text))
                return text
            group = compact(table, item, self.options, journal.on_complete)
            journal.on_complete(list_group_files(table, group))
            return json.dumps({"old": group.old, "new": group.new})


@dataclass(frozen=True, slots=True)
class SparkMaintenanceWorker:
    """An `OptimizeWorker` that uses executors for work on many rows, and this process for the rest."""

    spark: SparkSession
    location: GraphLocation
    options: UpkeepOptions
    min_rows: int = MIN_ROWS
    _is_over: threading.Event = field(default_factory=threading.Event)

    def compact(self, table: LanceTable, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> list[CompactedGroup]:
        """Rewrite each group of fragments; see `OptimizeWorker`."""
        if _count_rows(table, {number for group in groups for number in group}) < self.min_rows:
            return self._create_local_worker().compact(table, groups, files)
        results = map(json.loads, self._run(table, groups, files, phase=1, doing="compact"))
        compacted = [CompactedGroup(tuple(result["old"]), tuple(result["new"])) for result in results]
        # Tasks finish in any order.
        return sorted(compacted, key=lambda group: group.old)

    def build(self, table: LanceTable, builds: Iterable[SegmentBuild], files: UpkeepFiles) -> Built:
        """Build the segments, large scalar ones in parallel; see `OptimizeWorker`."""
        local: list[SegmentBuild] = []
        parts: list[SegmentBuild] = []
        mergeable: set[str] = set()
        segments: dict[str, Sequence[str] | None] = {}
        for build in builds:
            if _count_rows(table, build.fragments) < self.min_rows:
                local.append(build)
            elif build.kind in _SPLITTABLE_KINDS:
                # At most half of the number of segments from which on some are merged again.
                parts += self._split_build(table, build, max(self.options.index_segments // 2, 1))
            elif build.kind in MERGEABLE_KINDS:
                try:
                    model = train_model(table, build.column, build.kind, build.metric, build.fragments)
                except IndexUntrainableError:
                    segments[build.name] = None
                    continue
                if model is None:
                    local.append(build)
                else:
                    mergeable.add(build.name)
                    parts += self._split_build(table, replace(build, model=model), len(build.fragments))
            else:
                local.append(build)
        segments |= self._create_local_worker().build(table, local, files)
        built: dict[str, list[str]] = {}
        for text in self._run(table, parts, files, phase=2, doing="index"):
            built.setdefault(json.loads(text)["name"], []).append(text)
        for name, texts in built.items():
            segments[name] = (self._merge(table, texts, files),) if name in mergeable and len(texts) > 1 else texts
        return segments

    def _merge(self, table: LanceTable, parts: Sequence[str], files: UpkeepFiles) -> str:
        """Merge parts of one model into a segment, and remove their files, which no version will name."""
        merged = merge_segments(table, parts)
        files.on_complete(list_segment_files(table.path, merged))
        for file in (file for part in parts for file in list_segment_files(table.path, part)):
            table.handles.store.objects.delete(file)
        return merged

    def stop(self) -> None:
        """Stop the work in progress; see `OptimizeWorker`."""
        self._is_over.set()

    def _create_local_worker(self) -> LocalOptimizeWorker:
        return LocalOptimizeWorker(self.options, self._is_over)

    def _split_build(self, table: LanceTable, build: SegmentBuild, most: int) -> Iterator[SegmentBuild]:
        """Split a build into at most so many segments of about equally many rows, so that several cores have work."""
        rows = {fragment.number: fragment.rows - fragment.deleted for fragment in table.list_fragments()}
        max_segments = min(count_parallel_tasks(self.spark), most)
        max_rows = -(-_count_rows(table, build.fragments) // max_segments)
        pending: list[int] = []
        for number in build.fragments:
            if pending and sum(rows[other] for other in pending) + rows[number] > max_rows:
                yield replace(build, fragments=tuple(pending))
                pending = []
            pending.append(number)
        yield replace(build, fragments=tuple(pending))

    def _run(
        self, table: LanceTable, items: Sequence[WorkItem], files: UpkeepFiles, *, phase: int, doing: str
    ) -> list[str]:
        """Process all items on executors; at the end, the files of failed and repeated tasks are removed."""
        if not items:
            return []
        context = _TaskContext(
            location=self.location,
            path=table.path,
            version=str(table.version),
            operation_id=files.lease.operation_id,
            phase=phase,
            options=self.options,
        )
        files.lease.enter_phase(phase)
        store = table.handles.store
        # One row in one partition for each item: its number.
        frame = map_tasks(self.spark.range(0, len(items), 1, len(items)), _build_task(context, items), _RESULT)
        try:
            rows = run_job(
                self.spark,
                frame.collect,
                description=f"omnigraph optimize: {doing} {table.path}",
                on_progress=lambda _: self.check_stopped(),
            )
        except BaseException:
            files.lease.enter_phase(0)
            clear(store, context.operation_id, phase=phase)
            raise
        texts = [str(row["payload"]) for row in rows]
        new_files = [file for text in texts for file in _list_files(table, text)]
        # The lease names the files before the phase ends: from then on no task's journal protects them.
        files.on_complete(new_files)
        files.lease.enter_phase(0)
        named: NamingTimes = {}
        clear(store, context.operation_id, phase=phase, keep=set(new_files), named=named)
        files.lease.learn_notes(named)
        return texts

    def check_stopped(self) -> None:
        """See `OptimizeWorker`."""
        if self._is_over.is_set():
            raise UpkeepStoppedError


def _build_task(context: _TaskContext, items: Sequence[WorkItem]) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                texts = [context.run(number, items[number]) for number in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=_SCHEMA)

    return run


def _list_files(table: LanceTable, text: str) -> tuple[str, ...]:
    result = json.loads(text)
    # Only the description of an index segment has a UUID.
    if "uuid" in result:
        return list_segment_files(table.path, text)
    return list_group_files(table, CompactedGroup(tuple(result["old"]), tuple(result["new"])))


def _count_rows(table: LanceTable, fragments: Iterable[int]) -> int:
    numbers = set(fragments)
    return sum(fragment.rows - fragment.deleted for fragment in table.list_fragments() if fragment.number in numbers)
