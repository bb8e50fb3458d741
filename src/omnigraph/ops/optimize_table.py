"""Optimize one table: plan compaction and index builds on one head, stage them, and publish them in one commit."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.group_commit import PublishResult
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, lay_out, publish
from omnigraph.engine.search.recall import measure_and_store
from omnigraph.engine.tables.index_advisor import RecommendedIndex, list_looked_up, recommend_indexes
from omnigraph.errors import OmnigraphError
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.indexes import find_matching_index, map_types
from omnigraph.ops.maintenance_worker import OptimizeWorker, UpkeepFiles
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.schema.catalog import Metric
from omnigraph.storage.blobs import measure_blobs
from omnigraph.storage.compaction import SegmentBuild, list_unused_files, map_fragment_segments, stage_rewrite
from omnigraph.storage.compaction_planner import (
    find_fragments_to_weigh,
    is_in_tail,
    plan_rewrite_groups,
    plan_tail_groups,
)
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.index_staging import (
    SegmentCoverage,
    SegmentPlan,
    StoredIndex,
    list_stored_indexes,
    plan_segments,
    stage_segments,
)
from omnigraph.storage.lance_table import LanceTable, is_blob, read_ahead, write_key_page
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.vector_search import list_vector_indexes
from omnigraph.telemetry import log

OPERATION = "optimize"
NOTHING_TO_DO = "nothing to do"
DRY_RUN_DUE = "worth doing; this was a dry run"


class TableUpkeep(JsonStruct, frozen=True, kw_only=True):
    """The result of optimizing one table; `skipped` is the reason if nothing was done, `error` if it failed."""

    json_keys = (
        "table_key fragments_removed fragments_added indexes_built indexes_pending committed=is_committed commit_id "
        "manifest_version skipped error"
    )

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    indexes_built: tuple[str, ...] = ()
    """Names of indexes that got a new segment or lost useless ones."""
    indexes_pending: tuple[str, ...] = ()
    """Names of indexes that could not be built or extended yet: the rows have no, or too few, values to train on."""
    commit_id: str | None = None
    manifest_version: int | None = None
    skipped: str | None = None
    error: str | None = None

    @property
    def is_committed(self) -> bool:
        """Whether a commit was made."""
        return self.commit_id is not None

    @property
    def is_due(self) -> bool:
        """Whether a dry run found something worth doing."""
        return self.skipped == DRY_RUN_DUE


def _never_stop() -> None:
    """Do nothing: the default of a call that is never stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepCall:
    """Who optimizes, and which indexes to build."""

    actor: str
    message: str | None = None
    all_indexes: bool = False
    """Whether to build also declared indexes that no query consults."""
    operation: str = OPERATION
    is_tail: bool = False
    """Whether to compact only the newest small fragments, and to complete only indexes that exist."""
    max_fragments: int = sys.maxsize
    """The maximum number of fragments of a tail that are compacted."""
    check: Callable[[], None] = _never_stop
    """Called before each step until the commit is published; an error that it raises ends the work."""


@dataclass(frozen=True, slots=True)
class _IndexWork:
    """The segments to build and to replace in one index."""

    recommended: RecommendedIndex
    name: str
    plan: SegmentPlan
    stored: StoredIndex | None
    outdated: tuple[StoredIndex, ...] = ()
    """Indexes of the same vectors with another kind or metric, which a search might use instead."""

    @property
    def replaced(self) -> tuple[str, ...]:
        """The segments to remove, as text."""
        segments = () if self.stored is None else self.stored.segments
        worn = (segment.text for segment in segments if segment.uuid in self.plan.replaced)
        return (*worn, *(segment.text for index in self.outdated for segment in index.segments))


class OptimizeAttempt:
    """One attempt to optimize one table from one head; after a ConflictError or Outdated… error, make a new one."""

    def __init__(self, session: Session, head: Head, table_key: str, call: UpkeepCall, worker: OptimizeWorker) -> None:
        self._session = session
        self._head = head
        self._key = table_key
        self._call = call
        self._worker = worker
        self._options = session.runtime.options.upkeep
        self._table = open_whole_tables(session, head.snapshot).open_table(table_key)
        self._type = map_types(session.load_catalog(head.snapshot))[table_key]

    def run(self) -> TableUpkeep:
        """Do what pays off, and publish it.

        If nothing pays off, nothing is written, and only the fragments and indexes of the version are listed.
        """
        groups = self._choose_groups()
        # Indexes are planned again after compaction; here it only matters whether there is any work. They alone are no
        # reason to compact a tail.
        if not groups and (self._call.is_tail or not any(self._plan_index_work(self._table))):
            # Whoever built an index may have been killed before its recall was measured.
            self._measure_recall(self._table)
            return TableUpkeep(table_key=self._key, skipped=NOTHING_TO_DO)
        armed = arm(self._session.log, self._head, operation=self._call.operation, actor=self._call.actor)
        files = UpkeepFiles(armed.lease)
        try:
            self._call.check()
            staged, report = self._stage(groups, files)
            self._call.check()
        # Interrupts too: nothing is visible yet, so all files may be removed.
        except BaseException as error:
            abandon(self._session.log, armed, files.written, error)
            raise
        if not staged.has_effect:
            abandon(self._session.log, armed, files.written)
            return msgspec.structs.replace(report, skipped=NOTHING_TO_DO)
        done = self._publish(staged, armed)
        return msgspec.structs.replace(report, commit_id=done.commit.id, manifest_version=done.commit.manifest_version)

    def preview(self) -> TableUpkeep:
        """Return what `run` would do now, without writing anything.

        Indexes are planned on the table before compaction, so `run` may build others.
        """
        groups = self._choose_groups()
        index_names = tuple(work.name for work in self._plan_index_work(self._table))
        if not groups and not index_names:
            return TableUpkeep(table_key=self._key, skipped=NOTHING_TO_DO)
        return TableUpkeep(
            table_key=self._key,
            fragments_removed=sum(len(group) for group in groups),
            fragments_added=len(groups),
            indexes_built=index_names,
            skipped=DRY_RUN_DUE,
        )

    def _choose_groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the groups of fragments to rewrite, by their listed sizes and the sizes of their blobs."""
        fragments = self._table.list_fragments()
        segments = map_fragment_segments(list_stored_indexes(self._table))
        if self._call.is_tail:
            return self._choose_tail_groups(fragments, segments)
        if not any(is_blob(field) for field in self._table.schema):
            return plan_rewrite_groups(fragments, self._options, segments)
        # Measuring blobs costs a listing per data file, so only fragments that may be rewritten are measured.
        measured = find_fragments_to_weigh(fragments, self._options, segments)
        candidates = [fragment for fragment in fragments if fragment.number in measured]
        return plan_rewrite_groups(candidates, self._options, segments, measure_blobs(self._table, measured))

    def _choose_tail_groups(
        self, fragments: Sequence[Fragment], segments: Mapping[int, frozenset[str]]
    ) -> tuple[tuple[int, ...], ...]:
        """Return the groups of small fragments to compact; empty while there are few of them."""
        blob_bytes: Mapping[int, int] = {}
        if any(is_blob(field) for field in self._table.schema):
            tail = {fragment.number for fragment in fragments if is_in_tail(fragment, self._options)}
            if len(tail) > self._options.tail_fragments:
                blob_bytes = measure_blobs(self._table, tail)
        groups = plan_tail_groups(fragments, self._options, segments, blob_bytes)
        if sum(map(len, groups)) <= self._call.max_fragments:
            return groups
        # The newest: they are the smallest, and the rest is done by the next writers.
        return (max(groups, key=len)[-self._call.max_fragments :],)

    # --- the work -----------------------------------------------------------------------------------

    def _stage(self, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> tuple[StagedWrite, TableUpkeep]:
        """Write all files without making them visible. Indexes are built over the compacted table."""
        report = TableUpkeep(table_key=self._key)
        table = self._table
        rewrite = None
        if groups:
            results = self._worker.compact(table, groups, files)
            rewrite = stage_rewrite(table, results)
            self._session.runtime.faults.reach("upkeep.compacted")
            # A detached version of the compacted table, which no manifest names, lets Lance build indexes over it.
            rewrite = lay_out(self._session.handles, rewrite)
            files.on_complete(rewrite.files)
            table = LanceTable(self._session.handles, table.path, rewrite.preview)
            if self._call.is_tail:
                before = {fragment.number for fragment in self._table.list_fragments()}
                read_ahead(table, {fragment.number for fragment in table.list_fragments()} - before)
            report = msgspec.structs.replace(
                report,
                fragments_removed=sum(len(result.old) for result in results),
                fragments_added=sum(len(result.new) for result in results),
            )
        index_work = list(self._plan_index_work(table))
        built = self._worker.build(table, [_describe_build(work) for work in index_work if work.plan.build], files)
        self._session.runtime.faults.reach("upkeep.indexed")
        pending = {name for name, segments in built.items() if segments is None}
        new = tuple(text for segments in built.values() for text in segments or ())
        # An index that could not be built keeps its old segments.
        old = tuple(text for work in index_work if work.name not in pending for text in work.replaced)
        report = msgspec.structs.replace(
            report,
            indexes_built=tuple(work.name for work in index_work if work.name not in pending),
            indexes_pending=tuple(sorted(pending)),
        )
        if rewrite is not None:
            return replace(rewrite, indexes=new, replaced_indexes=old), report
        return stage_segments(table, new, old), report

    def _publish(self, staged: StagedWrite, armed: ArmedWrite) -> PublishResult:
        plan = CommitPlan(
            base=self._head,
            operation=self._call.operation,
            actor=self._call.actor,
            message=self._call.message,
            moves=(Move(table_key=self._key, staged=staged),),
        )
        done = publish(self._session.log, self._session.handles, plan, armed)
        pin = done.head.snapshot.pin(self._key)
        # The commit is done: a store that fails now only leaves files for cleanup.
        try:
            for file in list_unused_files(staged, LanceTable(self._session.handles, pin.path, pin.version)):
                self._session.store.objects.delete(file)
        except StoreUnavailableError as error:
            log.warning("files that %s does not use were not removed: %s", self._key, error)
        published = LanceTable(self._session.handles, pin.path, pin.version)
        if self._call.is_tail:
            write_key_page(published, list_looked_up(self._type))
        self._measure_recall(published)
        return done

    def _measure_recall(self, table: LanceTable) -> None:
        """Measure the vector indexes that queries use; readers are exact until that is done."""
        columns = [index.column for index in recommend_indexes(self._type) if index.metric and index.is_consulted]
        if self._call.is_tail or not columns:
            return
        for column in columns:
            for index in list_vector_indexes(table, column):
                try:
                    measure_and_store(self._session.reads, table, column, index, self._worker.check_stopped)
                # The commit is done: the next call or reader measures it.
                except OmnigraphError as error:
                    log.warning("the recall of %s was not measured: %s", index.name, error)
        self._session.reads.wait_for_workers()

    # --- indexes --------------------------------------------------------------------------------------

    def _plan_index_work(self, table: LanceTable) -> Iterator[_IndexWork]:
        """Yield the work to do on the indexes of a version; complete indexes need none."""
        rows = _count_live_rows(table)
        stored_indexes = list_stored_indexes(table)
        lost = self._count_lost_rows(stored_indexes, rows)
        names = {index.name for index in stored_indexes}
        for recommended in recommend_indexes(self._type):
            stored = find_matching_index(recommended, stored_indexes)
            # An index that exists is always completed, also in a table too small for a new one.
            if stored is None and not self._is_worth_building(recommended, sum(rows.values())):
                continue
            segments = () if stored is None else stored.segments
            covered = [
                SegmentCoverage(segment.uuid, segment.fragments, lost.get(segment.uuid, 0)) for segment in segments
            ]
            plan = plan_segments(rows, covered, self._options.index_segments)
            if self._call.is_tail and self._exceeds_tail(plan, rows):
                # Without merging segments, only the rows that the index lacks are added.
                plan = plan_segments(rows, covered, sys.maxsize)
                # An index stays correct without the rows that it lacks: they are scanned until `optimize` adds them.
                if self._exceeds_tail(plan, rows):
                    continue
            outdated = () if self._call.is_tail else _find_outdated(recommended, stored_indexes)
            if not plan.is_empty or outdated:
                name = stored.name if stored is not None else _choose_free_name(recommended, names)
                names.add(name)
                yield _IndexWork(recommended, name, plan, stored, outdated)

    def _exceeds_tail(self, plan: SegmentPlan, rows: Mapping[int, int]) -> bool:
        return sum(rows[number] for number in plan.build) > self._options.tail_result_rows

    def _is_worth_building(self, recommended: RecommendedIndex, rows: int) -> bool:
        """Return whether an index that does not exist yet is worth building."""
        if self._call.is_tail:
            return False
        if recommended.is_consulted:
            return rows >= max(self._options.index_rows, 1)
        return self._call.all_indexes and rows > 0

    def _count_lost_rows(self, stored: Sequence[StoredIndex], rows: Mapping[int, int]) -> dict[str, int]:
        """Return, by segment, how many fewer rows it covers after compaction; they are still in its files."""
        before = _count_live_rows(self._table)
        # The same fragments: nothing was compacted.
        if before.keys() == rows.keys():
            return {}
        old = {segment.uuid: segment for index in list_stored_indexes(self._table) for segment in index.segments}
        lost = {}
        for segment in (segment for index in stored for segment in index.segments):
            if segment.uuid in old:
                covered = sum(before.get(number, 0) for number in old[segment.uuid].fragments)
                lost[segment.uuid] = covered - sum(rows.get(number, 0) for number in segment.fragments)
        return lost


def _count_live_rows(table: LanceTable) -> dict[int, int]:
    """Return the number of live rows of each fragment."""
    return {fragment.number: fragment.rows - fragment.deleted for fragment in table.list_fragments()}


def _describe_build(work: _IndexWork) -> SegmentBuild:
    index = work.recommended
    return SegmentBuild(
        name=work.name,
        column=index.column,
        kind=index.kind,
        fragments=work.plan.build,
        metric=index.metric or Metric.COSINE.value,
    )


def _find_outdated(recommended: RecommendedIndex, stored: Sequence[StoredIndex]) -> tuple[StoredIndex, ...]:
    """Return vector indexes of the column that differ from a declared one: Lance would choose between them."""
    if recommended.metric is None or not recommended.is_consulted:
        return ()
    of_column = (index for index in stored if index.columns == (recommended.column,) and index.metric is not None)
    return tuple(index for index in of_column if (index.kind, index.metric) != (recommended.kind, recommended.metric))


def _choose_free_name(recommended: RecommendedIndex, names: set[str]) -> str:
    """Return a free name for a new index; the index of a column that was renamed since may have the obvious one."""
    name = first = f"{recommended.column}_{recommended.kind.lower()}"
    number = 1
    while name in names:
        number += 1
        name = f"{first}_{number}"
    return name
