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

from omnigraph.commit.task_journal import TaskNote, clear
from omnigraph.ops.maintenance_worker import Built, LocalHands, UpkeepFiles, UpkeepStoppedError
from omnigraph.ops.session import Session
from omnigraph.options import UpkeepOptions
from omnigraph.spark.session.error_translation import carrying
from omnigraph.spark.session.graph_location import Place
from omnigraph.spark.session.handshake import Body, map_tasks
from omnigraph.spark.session.job_monitor import JobProgress, run_job
from omnigraph.spark.session.spark_session import session as spark_session
from omnigraph.storage.compaction import Rewritten, files_of
from omnigraph.storage.index_staging import segment_files
from omnigraph.storage.lance_table import Table
from omnigraph.storage.upkeep import SegmentBuild, build, compact, watched

LEAST_ROWS = 1_000_000
"""With fewer rows, starting tasks takes longer than the work."""
_IN_PARTS = ("BTREE", "BITMAP")
"""Kinds of indexes that are built in parts, side by side."""
_RESULT = "payload string"
_SCHEMA = pa.schema([pa.field("payload", pa.string())])

Piece: TypeAlias = tuple[int, ...] | SegmentBuild
"""Fragments to write anew, or a segment to build."""


def hands(session: Session, master: str | None) -> "SparkHands":
    """Executors of the active Spark session, or of a new one on `master`."""
    return SparkHands(spark_session(master), Place.of(session), session.runtime.options.upkeep)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """What every task is told: the table, and the phase of the operation in which it may write."""

    place: Place
    path: str
    version: str
    """As text: versions exceed what the JVM calls a long."""
    operation_id: str
    phase: int
    options: UpkeepOptions

    def done(self, number: int, piece: Piece) -> str:
        """Do a piece of work here, noting its files; what came of it, as text."""
        table = self.place.table(self.path, int(self.version))
        note = TaskNote(table.handles.store, self.operation_id, self.phase, number)
        note.begin()
        with watched(table, note):
            if isinstance(piece, SegmentBuild):
                text = build(table, piece)
                note.made(segment_files(self.path, text))
                return text
            group = compact(table, piece, self.options, note.made)
            note.made(files_of(table, group))
            return json.dumps({"old": group.old, "new": group.new})


@dataclass(frozen=True, slots=True)
class SparkHands:
    """Executors for what is large, and this process for the rest."""

    spark: SparkSession
    place: Place
    options: UpkeepOptions
    least_rows: int = LEAST_ROWS
    _is_over: threading.Event = field(default_factory=threading.Event)

    def compact(self, table: Table, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> list[Rewritten]:
        """See Hands."""
        if _rows(table, {number for group in groups for number in group}) < self.least_rows:
            return self._here().compact(table, groups, files)
        found = map(json.loads, self._run(table, groups, files, phase=1, doing="compact"))
        done = [Rewritten(tuple(one["old"]), tuple(one["new"])) for one in found]
        return sorted(done, key=lambda group: group.old)

    def build(self, table: Table, builds: Iterable[SegmentBuild], files: UpkeepFiles) -> Built:
        """See Hands."""
        asked = list(builds)
        shared = [one for one in asked if one.kind in _IN_PARTS and _rows(table, one.fragments) >= self.least_rows]
        found = dict(self._here().build(table, [one for one in asked if one not in shared], files))
        parts = [part for one in shared for part in self._parts(table, one)]
        for text in self._run(table, parts, files, phase=2, doing="index"):
            name = json.loads(text)["name"]
            found[name] = (*(found.get(name) or ()), text)
        return found

    def stop(self) -> None:
        """See Hands."""
        self._is_over.set()

    def _here(self) -> LocalHands:
        return LocalHands(self.options, self._is_over)

    def _parts(self, table: Table, one: SegmentBuild) -> Iterator[SegmentBuild]:
        """The same in parts of about as many rows each, so that the cores have something to do."""
        rows = {fragment.number: fragment.rows - fragment.deleted for fragment in table.fragments()}
        most = min(self.spark.sparkContext.defaultParallelism, max(self.options.index_segments // 2, 1))
        share = -(-_rows(table, one.fragments) // most)
        held: list[int] = []
        for number in one.fragments:
            if held and sum(rows[other] for other in held) + rows[number] > share:
                yield replace(one, fragments=tuple(held))
                held = []
            held.append(number)
        yield replace(one, fragments=tuple(held))

    def _run(self, table: Table, pieces: Sequence[Piece], files: UpkeepFiles, *, phase: int, doing: str) -> list[str]:
        """Have every piece done by some executor. Files of tasks that failed or came twice are gone by the end."""
        if not pieces:
            return []
        site = _Site(
            place=self.place,
            path=table.path,
            version=str(table.version),
            operation_id=files.lease.operation_id,
            phase=phase,
            options=self.options,
        )
        files.lease.enter(phase)
        store = table.handles.store
        frame = map_tasks(self.spark.range(0, len(pieces), 1, len(pieces)), _body(site, pieces), _RESULT)
        try:
            rows = run_job(
                self.spark, frame.collect, description=f"omnigraph optimize: {doing} {table.path}", tell=self._tell
            )
        except BaseException:
            files.lease.enter(0)
            clear(store, site.operation_id, phase=phase)
            raise
        found = [str(row["payload"]) for row in rows]
        kept = [file for text in found for file in _files(table, text)]
        files.made(kept)
        files.lease.enter(0)
        clear(store, site.operation_id, phase=phase, kept=set(kept))
        return found

    def _tell(self, progress: JobProgress) -> None:
        del progress
        if self._is_over.is_set():
            raise UpkeepStoppedError


def _body(site: _Site, pieces: Sequence[Piece]) -> Body:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            for batch in batches:
                texts = [site.done(number, pieces[number]) for number in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=_SCHEMA)

    return run


def _files(table: Table, text: str) -> tuple[str, ...]:
    found = json.loads(text)
    if "uuid" in found:
        return segment_files(table.path, text)
    return files_of(table, Rewritten(tuple(found["old"]), tuple(found["new"])))


def _rows(table: Table, fragments: Iterable[int]) -> int:
    wanted = set(fragments)
    return sum(one.rows - one.deleted for one in table.fragments() if one.number in wanted)
