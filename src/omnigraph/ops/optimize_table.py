"""One table, once: what pays is planned on one head, done invisibly, and published in one commit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import Armed, Committed, abandon, arm, lay_out, publish
from omnigraph.engine.tables.index_advisor import WantedIndex, wanted_indexes
from omnigraph.ops.indexes import matching_index, types_of
from omnigraph.ops.maintenance_worker import Hands, UpkeepFiles
from omnigraph.ops.session import Session
from omnigraph.storage.blobs import blob_bytes
from omnigraph.storage.compaction import sorts_of, stage_rewrite, unused_files
from omnigraph.storage.compaction_planner import fragments_to_weigh, groups_to_rewrite
from omnigraph.storage.index_staging import StoredIndex, stage_segments, stored_indexes
from omnigraph.storage.lance_table import Table, is_blob
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.segment_plan import Covered, SegmentPlan, plan_segments
from omnigraph.storage.staging import Staged
from omnigraph.storage.upkeep import SegmentBuild
from omnigraph.telemetry import log

OPERATION = "optimize"
NOTHING = "nothing to do"
ONLY_LOOKED = "worth doing; this was a dry run"


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
        return self.skipped == ONLY_LOOKED

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

    wanted: WantedIndex
    name: str
    plan: SegmentPlan
    stored: StoredIndex | None

    @property
    def replaced(self) -> tuple[str, ...]:
        """The segments that go, as text."""
        segments = () if self.stored is None else self.stored.segments
        return tuple(one.text for one in segments if one.uuid in self.plan.replaced)


class Attempt:
    """One attempt at one table, from one head. ConflictError or an Outdated… error: plan it again."""

    def __init__(self, session: Session, head: Head, table_key: str, call: UpkeepCall, hands: Hands) -> None:
        self._session, self._head, self._key, self._call, self._hands = session, head, table_key, call, hands
        self._options = session.runtime.options.upkeep
        self._table = session.tables(head.snapshot).table(table_key)
        self._type = types_of(session.catalog(head.snapshot))[table_key]

    def run(self) -> TableUpkeep:
        """Do what pays. Where nothing does, nothing is written: it costs a look at what the version lists."""
        groups = self._groups()
        if not groups and not any(self._index_work(self._table)):
            return TableUpkeep(table_key=self._key, skipped=NOTHING)
        armed = arm(self._session.log, self._head, operation=OPERATION, actor=self._call.actor)
        files = UpkeepFiles(armed.lease)
        try:
            staged, report = self._staged(groups, files)
        except BaseException as error:  # an interrupt too: nothing can be visible yet, so everything may go
            abandon(self._session.log, armed, files.made_so_far, error)
            raise
        if not staged.has_effect:
            abandon(self._session.log, armed, files.made_so_far)
            return replace(report, skipped=NOTHING)
        done = self._published(staged, armed)
        return replace(report, commit_id=done.commit.id, manifest_version=done.commit.manifest_version)

    def preview(self) -> TableUpkeep:
        """What `run` would do now, as far as it can be told without doing it. Writes nothing."""
        groups = self._groups()
        work = tuple(one.name for one in self._index_work(self._table))
        if not groups and not work:
            return TableUpkeep(table_key=self._key, skipped=NOTHING)
        return TableUpkeep(
            table_key=self._key,
            fragments_removed=sum(len(group) for group in groups),
            fragments_added=len(groups),
            indexes_built=work,
            skipped=ONLY_LOOKED,
        )

    def _groups(self) -> tuple[tuple[int, ...], ...]:
        """The fragments that are worth writing anew, by what the version lists, and how large blobs are."""
        fragments, sorts = self._table.fragments(), sorts_of(stored_indexes(self._table))
        if not any(is_blob(field) for field in self._table.schema):
            return groups_to_rewrite(fragments, self._options, sorts)
        chosen = fragments_to_weigh(fragments, self._options, sorts)
        weighed = [one for one in fragments if one.number in chosen]
        return groups_to_rewrite(weighed, self._options, sorts, blob_bytes(self._table, chosen))

    # --- the work -----------------------------------------------------------------------------------

    def _staged(self, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> tuple[Staged, TableUpkeep]:
        """Everything written, nothing visible. Indexes are built of the table as the rewriting leaves it."""
        report = TableUpkeep(table_key=self._key)
        table, rewriting = self._table, None
        if groups:
            results = self._hands.compact(table, groups, files)
            rewriting = stage_rewrite(table, results)
            self._session.runtime.faults.reach("upkeep.compacted")
            rewriting = lay_out(self._session.handles, rewriting)
            files.made(rewriting.files)
            table = Table(self._session.handles, table.path, rewriting.preview)
            report = replace(
                report,
                fragments_removed=sum(len(one.old) for one in results),
                fragments_added=sum(len(one.new) for one in results),
            )
        work = list(self._index_work(table))
        built = self._hands.build(table, [_build(one) for one in work if one.plan.build], files)
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

    def _published(self, staged: Staged, armed: Armed) -> Committed:
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
            for file in unused_files(staged, Table(self._session.handles, pin.path, pin.version)):
                self._session.store.objects.delete(file)
        except StoreUnavailableError as error:
            log.warning("files that %s does not use were not removed: %s", self._key, error)
        return done

    # --- indexes --------------------------------------------------------------------------------------

    def _index_work(self, table: Table) -> Iterator[_IndexWork]:
        """What is to be done to the indexes of a version; nothing to those that are complete."""
        rows = {one.number: one.rows - one.deleted for one in table.fragments()}
        stored = stored_indexes(table)
        lost = self._lost_rows(stored, rows)
        names = {index.name for index in stored}
        for wanted in wanted_indexes(self._type):
            found = matching_index(wanted, stored)
            if found is None and not self._pays(wanted, sum(rows.values())):
                continue
            segments = () if found is None else found.segments
            covered = [Covered(one.uuid, one.fragments, lost.get(one.uuid, 0)) for one in segments]
            plan = plan_segments(rows, covered, self._options.index_segments)
            if not plan.is_empty:
                name = found.name if found is not None else _free_name(wanted, names)
                names.add(name)
                yield _IndexWork(wanted, name, plan, found)

    def _pays(self, wanted: WantedIndex, rows: int) -> bool:
        """Whether an index that is not there is worth building."""
        if wanted.is_consulted:
            return rows >= max(self._options.index_rows, 1)
        return self._call.all_indexes and rows > 0

    def _lost_rows(self, stored: Sequence[StoredIndex], rows: Mapping[int, int]) -> dict[str, int]:
        """By segment, how many rows it covers less than before the rewriting; they are still in its files."""
        before = {one.number: one.rows - one.deleted for one in self._table.fragments()}
        if before.keys() == rows.keys():
            return {}
        known = {one.uuid: one for index in stored_indexes(self._table) for one in index.segments}
        left = {one.uuid: sum(rows.get(number, 0) for number in one.fragments) for i in stored for one in i.segments}
        return {
            uuid: sum(before.get(number, 0) for number in known[uuid].fragments) - count
            for uuid, count in left.items()
            if uuid in known
        }


def _build(work: _IndexWork) -> SegmentBuild:
    return SegmentBuild(name=work.name, column=work.wanted.column, kind=work.wanted.kind, fragments=work.plan.build)


def _free_name(wanted: WantedIndex, names: set[str]) -> str:
    """The name of a new index; that of a column that was renamed since may be taken."""
    name = first = f"{wanted.column}_{wanted.kind.lower()}"
    number = 1
    while name in names:
        number += 1
        name = f"{first}_{number}"
    return name
