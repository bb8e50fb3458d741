"""One table, once: what pays is planned on one head, done invisibly, and published in one commit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import ArmedWrite, PublishResult, abandon, arm, lay_out, publish
from omnigraph.engine.tables.index_advisor import RecommendedIndex, recommend_indexes
from omnigraph.ops.indexes import find_matching_index, map_types
from omnigraph.ops.maintenance_worker import OptimizeWorker, UpkeepFiles
from omnigraph.ops.session import Session
from omnigraph.storage.blobs import measure_blobs
from omnigraph.storage.compaction import SegmentBuild, list_unused_files, map_fragment_segments, stage_rewrite
from omnigraph.storage.compaction_planner import find_fragments_to_weigh, plan_rewrite_groups
from omnigraph.storage.index_staging import (
    SegmentCoverage,
    SegmentPlan,
    StoredIndex,
    list_stored_indexes,
    plan_segments,
    stage_segments,
)
from omnigraph.storage.lance_table import LanceTable, is_blob
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.staging import StagedWrite
from omnigraph.telemetry import log

OPERATION = "optimize"
NOTHING_TO_DO = "nothing to do"
DRY_RUN_DUE = "worth doing; this was a dry run"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep:
    """What was done to one table; `skipped` says why nothing was, `error` what went wrong."""

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    indexes_built: tuple[str, ...] = ()
    """Names of indexes that got a segment, or lost those that were of no use."""
    indexes_pending: tuple[str, ...] = ()
    """Names of indexes whose rows have nothing yet to learn from."""
    commit_id: str | None = None
    manifest_version: int | None = None
    skipped: str | None = None
    error: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether a dry run found something worth doing."""
        return self.skipped == DRY_RUN_DUE

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "table_key": self.table_key,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "indexes_built": list(self.indexes_built),
            "indexes_pending": list(self.indexes_pending),
            "committed": self.commit_id is not None,
            "commit_id": self.commit_id,
            "manifest_version": self.manifest_version,
            "skipped": self.skipped,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepCall:
    """Who asks for it, and for which indexes."""

    actor: str
    message: str | None = None
    all_indexes: bool = False
    """Also those that are declared and that no query asks."""


@dataclass(frozen=True, slots=True)
class _IndexWork:
    """What is to be done to one index."""

    wanted: RecommendedIndex
    name: str
    plan: SegmentPlan
    stored: StoredIndex | None

    @property
    def replaced(self) -> tuple[str, ...]:
        """The segments that go, as text."""
        segments = () if self.stored is None else self.stored.segments
        return tuple(one.text for one in segments if one.uuid in self.plan.replaced)


class OptimizeAttempt:
    """One attempt at one table, from one head. ConflictError or an Outdated… error: plan it again."""

    def __init__(self, session: Session, head: Head, table_key: str, call: UpkeepCall, hands: OptimizeWorker) -> None:
        self._session, self._head, self._key, self._call, self._worker = session, head, table_key, call, hands
        self._options = session.runtime.options.upkeep
        self._table = session.open_tables(head.snapshot).open_table(table_key)
        self._type = map_types(session.load_catalog(head.snapshot))[table_key]

    def run(self) -> TableUpkeep:
        """Do what pays. Where nothing does, nothing is written: it costs a look at what the version lists."""
        groups = self._choose_groups()
        if not groups and not any(self._plan_index_work(self._table)):
            return TableUpkeep(table_key=self._key, skipped=NOTHING_TO_DO)
        armed = arm(self._session.log, self._head, operation=OPERATION, actor=self._call.actor)
        files = UpkeepFiles(armed.lease)
        try:
            staged, report = self._stage(groups, files)
        except BaseException as error:  # an interrupt too: nothing can be visible yet, so everything may go
            abandon(self._session.log, armed, files.written, error)
            raise
        if not staged.has_effect:
            abandon(self._session.log, armed, files.written)
            return replace(report, skipped=NOTHING_TO_DO)
        done = self._publish(staged, armed)
        return replace(report, commit_id=done.commit.id, manifest_version=done.commit.manifest_version)

    def preview(self) -> TableUpkeep:
        """What `run` would do now, as far as it can be told without doing it. Writes nothing."""
        groups = self._choose_groups()
        work = tuple(one.name for one in self._plan_index_work(self._table))
        if not groups and not work:
            return TableUpkeep(table_key=self._key, skipped=NOTHING_TO_DO)
        return TableUpkeep(
            table_key=self._key,
            fragments_removed=sum(len(group) for group in groups),
            fragments_added=len(groups),
            indexes_built=work,
            skipped=DRY_RUN_DUE,
        )

    def _choose_groups(self) -> tuple[tuple[int, ...], ...]:
        """The fragments that are worth writing anew, by what the version lists, and how large blobs are."""
        fragments, sorts = self._table.list_fragments(), map_fragment_segments(list_stored_indexes(self._table))
        if not any(is_blob(field) for field in self._table.schema):
            return plan_rewrite_groups(fragments, self._options, sorts)
        chosen = find_fragments_to_weigh(fragments, self._options, sorts)
        weighed = [one for one in fragments if one.number in chosen]
        return plan_rewrite_groups(weighed, self._options, sorts, measure_blobs(self._table, chosen))

    # --- the work -----------------------------------------------------------------------------------

    def _stage(self, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> tuple[StagedWrite, TableUpkeep]:
        """Everything written, nothing visible. Indexes are built of the table as the rewriting leaves it."""
        report = TableUpkeep(table_key=self._key)
        table, rewriting = self._table, None
        if groups:
            results = self._worker.compact(table, groups, files)
            rewriting = stage_rewrite(table, results)
            self._session.runtime.faults.reach("upkeep.compacted")
            rewriting = lay_out(self._session.handles, rewriting)
            files.on_complete(rewriting.files)
            table = LanceTable(self._session.handles, table.path, rewriting.preview)
            report = replace(
                report,
                fragments_removed=sum(len(one.old) for one in results),
                fragments_added=sum(len(one.new) for one in results),
            )
        work = list(self._plan_index_work(table))
        built = self._worker.build(table, [_describe_build(one) for one in work if one.plan.build], files)
        self._session.runtime.faults.reach("upkeep.indexed")
        pending = {name for name, segments in built.items() if segments is None}
        new = tuple(text for segments in built.values() for text in segments or ())
        old = tuple(text for one in work if one.name not in pending for text in one.replaced)
        report = replace(
            report,
            indexes_built=tuple(one.name for one in work if one.name not in pending),
            indexes_pending=tuple(sorted(pending)),
        )
        if rewriting is not None:
            return replace(rewriting, indexes=new, replaced_indexes=old), report
        return stage_segments(table, new, old), report

    def _publish(self, staged: StagedWrite, armed: ArmedWrite) -> PublishResult:
        plan = CommitPlan(
            base=self._head,
            operation=OPERATION,
            actor=self._call.actor,
            message=self._call.message,
            moves=(Move(table_key=self._key, staged=staged),),
        )
        done = publish(self._session.log, self._session.handles, plan, armed)
        pin = done.head.snapshot.pin(self._key)
        try:
            for file in list_unused_files(staged, LanceTable(self._session.handles, pin.path, pin.version)):
                self._session.store.objects.delete(file)
        except StoreUnavailableError as error:
            log.warning("files that %s does not use were not removed: %s", self._key, error)
        return done

    # --- indexes --------------------------------------------------------------------------------------

    def _plan_index_work(self, table: LanceTable) -> Iterator[_IndexWork]:
        """What is to be done to the indexes of a version; nothing to those that are complete."""
        rows = {one.number: one.rows - one.deleted for one in table.list_fragments()}
        stored = list_stored_indexes(table)
        lost = self._count_lost_rows(stored, rows)
        names = {index.name for index in stored}
        for wanted in recommend_indexes(self._type):
            found = find_matching_index(wanted, stored)
            if found is None and not self._is_worth_building(wanted, sum(rows.values())):
                continue
            segments = () if found is None else found.segments
            covered = [SegmentCoverage(one.uuid, one.fragments, lost.get(one.uuid, 0)) for one in segments]
            plan = plan_segments(rows, covered, self._options.index_segments)
            if not plan.is_empty:
                name = found.name if found is not None else _choose_free_name(wanted, names)
                names.add(name)
                yield _IndexWork(wanted, name, plan, found)

    def _is_worth_building(self, wanted: RecommendedIndex, rows: int) -> bool:
        """Whether an index that is not there is worth building."""
        if wanted.is_consulted:
            return rows >= max(self._options.index_rows, 1)
        return self._call.all_indexes and rows > 0

    def _count_lost_rows(self, stored: Sequence[StoredIndex], rows: Mapping[int, int]) -> dict[str, int]:
        """By segment, how many rows it covers less than before the rewriting; they are still in its files."""
        before = {one.number: one.rows - one.deleted for one in self._table.list_fragments()}
        if before.keys() == rows.keys():
            return {}
        known = {one.uuid: one for index in list_stored_indexes(self._table) for one in index.segments}
        left = {one.uuid: sum(rows.get(number, 0) for number in one.fragments) for i in stored for one in i.segments}
        return {
            uuid: sum(before.get(number, 0) for number in known[uuid].fragments) - count
            for uuid, count in left.items()
            if uuid in known
        }


def _describe_build(work: _IndexWork) -> SegmentBuild:
    return SegmentBuild(name=work.name, column=work.wanted.column, kind=work.wanted.kind, fragments=work.plan.build)


def _choose_free_name(wanted: RecommendedIndex, names: set[str]) -> str:
    """The name of a new index; that of a column that was renamed since may be taken."""
    name = first = f"{wanted.column}_{wanted.kind.lower()}"
    number = 1
    while name in names:
        number += 1
        name = f"{first}_{number}"
    return name
