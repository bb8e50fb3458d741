"""Maintenance on Spark: fragments are compacted and scalar indexes built by executors; the rest is the driver's.

A piece of work is a group of fragments to write anew, or to build a segment of. Full-text and vector indexes are built
by the driver, in one segment: they are dear to build in parts and to search side by side. So is what is small.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.commit.task_journal import TaskJournal, clear
from omnigraph.ops.maintenance_worker import Built, LocalOptimizeWorker, UpkeepFiles, UpkeepStoppedError
from omnigraph.ops.session import Session
from omnigraph.options import UpkeepOptions
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import TaskBody, map_tasks
from omnigraph.spark.session.job_monitor import JobProgress, run_job
from omnigraph.spark.session.spark_session import session as spark_session
from omnigraph.storage.compaction import (
    CompactedGroup,
    SegmentBuild,
    build_index_segment,
    compact,
    list_group_files,
    report_open_files,
)
from omnigraph.storage.index_staging import list_segment_files
from omnigraph.storage.lance_table import LanceTable

MIN_ROWS = 1_000_000
"""With fewer rows, starting tasks takes longer than the work."""
_SPLITTABLE_KINDS = ("BTREE", "BITMAP")
"""Kinds of indexes that are built in parts, side by side."""
_RESULT = "payload string"
_SCHEMA = pa.schema([pa.field("payload", pa.string())])

WorkItem: TypeAlias = tuple[int, ...] | SegmentBuild
"""Fragments to write anew, or a segment to build."""


def create_worker(session: Session, master: str | None) -> "SparkMaintenanceWorker":
    """Executors of the active Spark session, or of a new one on `master`."""
    return SparkMaintenanceWorker(
        spark_session(master), GraphLocation.from_session(session), session.runtime.options.upkeep
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskContext:
    """What every task is told: the table, and the phase of the operation in which it may write."""

    location: GraphLocation
    path: str
    version: str
    """As text: versions exceed what the JVM calls a long."""
    operation_id: str
    phase: int
    options: UpkeepOptions

    def run(self, number: int, piece: WorkItem) -> str:
        """Do a piece of work here, noting its files; what came of it, as text."""
        table = self.location.open_table(self.path, int(self.version))
        note = TaskJournal(table.handles.store, self.operation_id, self.phase, number)
        note.begin()
        with report_open_files(table, note):
            if isinstance(piece, SegmentBuild):
                text = build_index_segment(table, piece)
                note.on_complete(list_segment_files(self.path, text))
                return text
            group = compact(table, piece, self.options, note.on_complete)
            note.on_complete(list_group_files(table, group))
            return json.dumps({"old": group.old, "new": group.new})


@dataclass(frozen=True, slots=True)
class SparkMaintenanceWorker:
    """Executors for what is large, and this process for the rest."""

    spark: SparkSession
    location: GraphLocation
    options: UpkeepOptions
    min_rows: int = MIN_ROWS
    _is_over: threading.Event = field(default_factory=threading.Event)

    def compact(self, table: LanceTable, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> list[CompactedGroup]:
        """See Hands."""
        if _count_rows(table, {number for group in groups for number in group}) < self.min_rows:
            return self._create_local_worker().compact(table, groups, files)
        found = map(json.loads, self._run(table, groups, files, phase=1, doing="compact"))
        done = [CompactedGroup(tuple(one["old"]), tuple(one["new"])) for one in found]
        return sorted(done, key=lambda group: group.old)

    def build(self, table: LanceTable, builds: Iterable[SegmentBuild], files: UpkeepFiles) -> Built:
        """See Hands."""
        asked = list(builds)
        shared = [
            one for one in asked if one.kind in _SPLITTABLE_KINDS and _count_rows(table, one.fragments) >= self.min_rows
        ]
        found = dict(self._create_local_worker().build(table, [one for one in asked if one not in shared], files))
        parts = [part for one in shared for part in self._split_build(table, one)]
        for text in self._run(table, parts, files, phase=2, doing="index"):
            name = json.loads(text)["name"]
            found[name] = (*(found.get(name) or ()), text)
        return found

    def stop(self) -> None:
        """See Hands."""
        self._is_over.set()

    def _create_local_worker(self) -> LocalOptimizeWorker:
        return LocalOptimizeWorker(self.options, self._is_over)

    def _split_build(self, table: LanceTable, one: SegmentBuild) -> Iterator[SegmentBuild]:
        """The same in parts of about as many rows each, so that the cores have something to do."""
        rows = {fragment.number: fragment.rows - fragment.deleted for fragment in table.list_fragments()}
        most = min(self.spark.sparkContext.defaultParallelism, max(self.options.index_segments // 2, 1))
        share = -(-_count_rows(table, one.fragments) // most)
        held: list[int] = []
        for number in one.fragments:
            if held and sum(rows[other] for other in held) + rows[number] > share:
                yield replace(one, fragments=tuple(held))
                held = []
            held.append(number)
        yield replace(one, fragments=tuple(held))

    def _run(
        self, table: LanceTable, pieces: Sequence[WorkItem], files: UpkeepFiles, *, phase: int, doing: str
    ) -> list[str]:
        """Have every piece done by some executor. Files of tasks that failed or came twice are gone by the end."""
        if not pieces:
            return []
        site = _TaskContext(
            location=self.location,
            path=table.path,
            version=str(table.version),
            operation_id=files.lease.operation_id,
            phase=phase,
            options=self.options,
        )
        files.lease.enter_phase(phase)
        store = table.handles.store
        frame = map_tasks(self.spark.range(0, len(pieces), 1, len(pieces)), _build_task(site, pieces), _RESULT)
        try:
            rows = run_job(
                self.spark,
                frame.collect,
                description=f"omnigraph optimize: {doing} {table.path}",
                on_progress=self._check_stopped,
            )
        except BaseException:
            files.lease.enter_phase(0)
            clear(store, site.operation_id, phase=phase)
            raise
        found = [str(row["payload"]) for row in rows]
        kept = [file for text in found for file in _list_files(table, text)]
        files.on_complete(kept)
        files.lease.enter_phase(0)
        clear(store, site.operation_id, phase=phase, keep=set(kept))
        return found

    def _check_stopped(self, progress: JobProgress) -> None:
        del progress
        if self._is_over.is_set():
            raise UpkeepStoppedError


def _build_task(site: _TaskContext, pieces: Sequence[WorkItem]) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                texts = [site.run(number, pieces[number]) for number in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=_SCHEMA)

    return run


def _list_files(table: LanceTable, text: str) -> tuple[str, ...]:
    found = json.loads(text)
    if "uuid" in found:
        return list_segment_files(table.path, text)
    return list_group_files(table, CompactedGroup(tuple(found["old"]), tuple(found["new"])))


def _count_rows(table: LanceTable, fragments: Iterable[int]) -> int:
    wanted = set(fragments)
    return sum(one.rows - one.deleted for one in table.list_fragments() if one.number in wanted)
