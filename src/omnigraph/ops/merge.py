"""Merge a branch into another: three-way, by id and property, in one commit with two parents or not at all."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from omnigraph.commit.commit_plan import AdoptedTable, CommitPlan, Move
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_horizon import CommitCollectedError
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MAIN, Commit, Manifest, Pin, SchemaRecord, Snapshot, TableRecord
from omnigraph.commit.merge_base import Ancestry, BranchDivergence, MergeBaseGoneError, Tip
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, publish, reshape
from omnigraph.commit.purges import DataDroppedError, MergeBaseDroppedError
from omnigraph.commit.requirements import TableUnchanged
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.engine.merging.conflicts import Conflicts
from omnigraph.engine.merging.constraint_check import check_constraints_of_merge
from omnigraph.engine.merging.criss_cross_base import CrissCrossBase, MergeBase
from omnigraph.engine.merging.schema_agreement import (
    BaseSchema,
    SchemaAgreement,
    SchemaConflicts,
    Side,
    agree_on_criss_cross_schema,
    agree_on_schema,
)
from omnigraph.engine.merging.table_merge import MergedTable, MergeInputs, build_merged_snapshot, merge_tables
from omnigraph.engine.view import View
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.merge_result import MergeConflictsError, MergeOutcome, MergeResult, Strategy, TableMerge
from omnigraph.ops.retry import MAX_ATTEMPTS
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, stage_writes
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.key_lookup import RowLocations
from omnigraph.storage.schema_staging import stage_columns
from omnigraph.storage.staging import RowStream

OPERATION = "merge"
MAX_CRISS_CROSS_DEPTH = 8
"""How many crosswise merges, each of which came from the one before, are gone back through."""
MAX_BASES = 16
"""To how many bases it is found out what one more has in common with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCall:
    """A merge as it was asked for."""

    source: str
    into: str = MAIN
    strategy: Strategy | None = None
    actor: str = "anonymous"
    message: str | None = None
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _ManifestChange:
    """A merge that can be published, as the change of the target's manifest that it is."""

    adopted: Mapping[str, AdoptedTable]
    renamed: Mapping[str, str]
    dropped: tuple[str, ...]
    schema: SchemaRecord | None
    """The schema that comes with it, if it is another one."""
    tables: Sequence[MergedTable] = ()
    """The tables to which rows are brought, or whose columns change."""
    starts: SnapshotTables
    """The versions that rows are brought to."""
    restored: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """By key, where a table is and how many edges of it stay with nodes that one side deleted."""

    @property
    def is_empty(self) -> bool:
        """Whether the target is left as it is."""
        return not (self.adopted or self.renamed or self.dropped or self.tables or self.schema)


def merge(session: Session, call: MergeCall) -> MergeResult:
    """Bring to a branch what another one has done since the two parted.

    What is merged is the source as it is now, whatever is written to it meanwhile. When the target is written to
    meanwhile, the merge is made again. Merging again what was merged does nothing. A dry run returns conflicts.

    Raises:
        MergeConflictsError: The two don't agree, or break the schema together. Nothing is published.
        BadArgumentError: A branch can't be merged into itself.
        BranchMissingError, BranchGoneError: One of the two is not there, or not any more.
        MergeBaseGoneError, MergeBaseDroppedError: What the two have in common can't be told any more: its commits are
            gone, or data of it was dropped for good.
        ConflictError: Meanwhile the target's schema was changed, a table of it was overwritten, or something else
            was merged into it; or others kept writing the same tables.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The session's budget ran out; nothing was changed.
    """
    session.allow(Action.READ, call.source)
    session.allow(Action.BRANCH_MERGE, call.into, signed=call.actor)
    if call.source == call.into:
        raise BadArgumentError("into", f"`{call.into}`", "it is the branch to merge; name another one")
    if not call.is_dry_run:
        session.check_writable()
        check_signature(call.actor, call.message, None)
    done = _merge_until_published(session, call)
    if done.conflict_total and not call.is_dry_run:
        raise MergeConflictsError(done)
    return done


def _merge_until_published(session: Session, call: MergeCall) -> MergeResult:
    """Merge again from the new state as long as others write tables that the result depends on, a few times."""
    source, target = session.checkout(call.source), session.checkout(call.into)
    newest = source.head()
    theirs = Tip(source.log, newest)  # its log only now: the name may have been used anew
    runtime = session.runtime
    for number in range(1, MAX_ATTEMPTS):
        head = target.head()
        try:
            return _MergeAttempt(target, head, theirs, call).run()
        except ConflictError:
            between = target.log.read_since(target.head(), head.snapshot.commit.seq)
            if any(_is_blocking(commit, theirs.commit.id) for commit in between):
                raise
            runtime.clock.sleep(runtime.ids.jitter(runtime.options.backoff_seconds * 2**number))
    return _MergeAttempt(target, target.head(), theirs, call).run()


def _is_blocking(commit: Commit, source_id: str) -> bool:
    """Whether a commit is one after which somebody should look again before merging."""
    is_other_merge = commit.merged_parent is not None and commit.merged_parent != source_id
    is_overwrite = any("overwrite" in counts for counts in (commit.summary or {}).values())
    return is_other_merge or is_overwrite or commit.schema_after is not None


class _MergeAttempt:
    """One try, on one state of the target."""

    def __init__(self, target: Session, head: Head, theirs: Tip, call: MergeCall) -> None:
        self.session, self.head, self.theirs, self.call = target, head, theirs, call
        self.ancestry = Ancestry(Tip(target.log, head), theirs)
        self.divergence: BranchDivergence = self.ancestry.find_divergence()

    def run(self) -> MergeResult:
        base_id = self.divergence.base_id
        if base_id == self.theirs.commit.id:
            return self._build_result(MergeOutcome.ALREADY_UP_TO_DATE)
        if base_id == self.head.snapshot.commit.id:
            return self._fast_forward()
        schema, crossed = self._merge_schemas()
        conflicts = Conflicts()
        if isinstance(schema, SchemaConflicts):
            conflicts.add(schema.conflicts[0].kind, schema.conflicts, len(schema.conflicts))
            return self._build_result(MergeOutcome.CONFLICTS, conflicts=conflicts)
        sides = self._build_inputs(schema, crossed)
        try:
            tables = merge_tables(sides, conflicts)
            check_constraints_of_merge(sides, tables, self.session.handles, conflicts)
        except DataDroppedError as error:
            branches = self.call.source, self.call.into
            raise MergeBaseDroppedError(
                *branches, error.table_key, error.what, error.branch, error.commit_id
            ) from error
        if conflicts.total:
            return self._build_result(MergeOutcome.CONFLICTS, conflicts=conflicts)
        drawn = self._plan_change(sides, tables, schema.record)
        plan = CommitPlan(
            base=self.head,
            operation=OPERATION,
            actor=self.call.actor,
            requirements=self._build_requirements(drawn, sides.ours.catalog),
        )
        return self._publish(MergeOutcome.MERGED, drawn, plan)

    def _fast_forward(self) -> MergeResult:
        """The target had nothing of its own: it gets the source's pins, and its schema."""
        manifest = self.theirs.head.snapshot.manifest
        tables = {key: (manifest.tables[key], pin) for key, pin in manifest.pins.items()}
        starts = self.session.open_tables(self.theirs.head.snapshot)
        drawn = _build_manifest_change(self.head.snapshot.manifest, tables, manifest.schema, (), starts)
        if drawn.is_empty and self.divergence.theirs is not None and len(self.divergence.theirs) == 1:
            # The source's one commit is a fast forward to this very state: as a base, both are as good. With more than
            # one, something was done and taken back, which others may have merged: that has to be remembered.
            return self._build_result(MergeOutcome.ALREADY_UP_TO_DATE)
        head_id = self.head.snapshot.commit.id
        plan = CommitPlan(base=self.head, operation=OPERATION, actor=self.call.actor, if_commit=head_id)
        return self._publish(MergeOutcome.FAST_FORWARD, drawn, plan)

    def _merge_schemas(self) -> tuple[SchemaAgreement | SchemaConflicts, CrissCrossBase | None]:
        """The schema of the merged state; and all bases, where there are several."""
        ours, theirs = self._build_view(self.head.snapshot), self._build_view(self.theirs.head.snapshot)

        def agreed(bases: tuple[View, BaseSchema]) -> SchemaAgreement | SchemaConflicts:
            return agree_on_schema(bases, ours, theirs, self._names, self.session.runtime.ids.ulid)

        base_ids = (self.divergence.base_id, *self.divergence.other_bases)
        if len(base_ids) == 1:
            base = self._build_view(self.ancestry.read_state(base_ids[0]))
            return agreed((base, BaseSchema.from_view(base))), None
        ground = self._build_merge_base([self.ancestry.open_tip(one) for one in base_ids], MAX_CRISS_CROSS_DEPTH)
        if isinstance(ground, View):
            return agreed((ground, BaseSchema.from_view(ground))), None
        found = agree_on_criss_cross_schema(ground, agreed)
        return found, ground if isinstance(found, SchemaConflicts) else ground.map_views(found.renumber)

    def _build_view(self, snapshot: Snapshot) -> View:
        return View(self.session.load_catalog(snapshot), self.session.open_tables(snapshot))

    def _build_merge_base(self, bases: Sequence[Tip], depth: int) -> MergeBase:
        """Several bases as one: each is joined to those before it, with what they have grown from in their turn."""
        ground: MergeBase = self._build_view(bases[0].snapshot)
        for number, tip in enumerate(bases[1:], start=1):
            below: dict[str, Tip] = {}
            try:
                for other in bases[:number] if depth and number < MAX_BASES else ():
                    below.update(_find_bases(Ancestry(other, tip)))
            except (MergeBaseGoneError, CommitCollectedError, CommitMissingError):
                below = {}  # it can't be told any more: so what the bases don't agree about stays unknown
            if tip.commit.id not in below:
                deeper = [below[one] for one in sorted(below, reverse=True)]
                ground = CrissCrossBase(
                    ground,
                    self._build_view(tip.snapshot),
                    self._build_merge_base(deeper, depth - 1) if deeper else None,
                )
        return ground

    @property
    def _names(self) -> Mapping[Side, str]:
        return {"ours": self.call.into, "theirs": self.call.source}

    def _build_inputs(self, schema: SchemaAgreement, crossed: CrissCrossBase | None) -> MergeInputs:
        strategy: Side | None = None
        if self.call.strategy is not None:
            strategy = "ours" if self.call.strategy is Strategy.OURS else "theirs"
        return MergeInputs(
            base=schema.base,
            ours=schema.ours,
            theirs=schema.theirs,
            names=self._names,
            touched={
                "ours": _find_written_paths(self.divergence.ours),
                "theirs": _find_written_paths(self.divergence.theirs),
            },
            catalog=schema.catalog,
            strategy=strategy,
            criss_cross=crossed,
            watch=self.session.watch,
        )

    def _plan_change(self, sides: MergeInputs, tables: Sequence[MergedTable], schema: SchemaRecord) -> _ManifestChange:
        records = {side: sides.get_view(side).snapshot.manifest.tables for side in ("ours", "theirs")}
        wanted = {
            one.key: (
                _build_table_record(records[one.side][one.pin.table_key], one.type),
                replace(one.pin, table_key=one.key),
            )
            for one in tables
        }
        starts = self.session.open_tables(build_merged_snapshot(sides, tables))
        written = [one for one in tables if one.has_rows or one.columns is not None]
        drawn = _build_manifest_change(self.head.snapshot.manifest, wanted, schema, written, starts)
        return replace(drawn, restored={one.key: (one.pin.path, one.restored) for one in tables if one.restored})

    def _build_requirements(self, drawn: _ManifestChange, catalog: Catalog) -> tuple[TableUnchanged, ...]:
        """The target's tables that the result depends on: those that change, and the other ends of their edges.

        With another schema all of them: its rules were checked against every row.
        """
        if drawn.schema is not None:
            return tuple(TableUnchanged(table_key=key) for key in sorted(self.head.snapshot.pins))
        touched = {*drawn.adopted, *(table.pin.table_key for table in drawn.tables), *drawn.renamed, *drawn.dropped}
        related = set(touched)
        for edge in catalog.edges.values():
            around = {edge.table_key, *(catalog.nodes[name].table_key for name in (edge.source, edge.target))}
            if around & touched:
                related |= around
        pins = self.head.snapshot.pins
        return tuple(TableUnchanged(table_key=key) for key in sorted(related) if key in pins)

    def _publish(self, outcome: MergeOutcome, drawn: _ManifestChange, plan: CommitPlan) -> MergeResult:
        tables = _build_table_results(self.head.snapshot.manifest, drawn)
        if self.call.is_dry_run:
            return self._build_result(outcome, tables=tables, restored=drawn.restored)
        session, head = self.session, self.head
        armed: ArmedWrite | None = None
        made: tuple[str, ...] = ()
        if drawn.tables:
            armed = arm(session.log, head, operation=OPERATION, actor=self.call.actor)
            drawn, made = self._reshape_tables(drawn, armed)
        pins = drawn.starts.snapshot.pins
        writes = [_build_write(table, pins[table.key]) for table in drawn.tables if table.has_rows]
        moves = self._stage(drawn.starts, writes, armed, made)
        plan = replace(
            plan,
            message=self.call.message,
            moves=moves,
            adopted=drawn.adopted,
            adopted_files=made,
            renamed_tables=drawn.renamed,
            dropped_tables=drawn.dropped,
            schema=drawn.schema,
            merged_parent=self.theirs.commit.id,
            merged_from=self.ancestry.build_merged_from(),
            summary={path: {"restored": count} for path, count in drawn.restored.values()} or None,
            epoch=self.theirs.head.snapshot.manifest.gc_horizon.epoch,
            watch=session.watch,
        )
        done = publish(session.log, session.handles, plan, armed)
        return self._build_result(outcome, commit_id=done.commit.id, tables=tables, restored=drawn.restored)

    def _reshape_tables(self, drawn: _ManifestChange, armed: ArmedWrite) -> tuple[_ManifestChange, tuple[str, ...]]:
        """The same with versions that have the merged state's columns, and the files of these versions."""
        handles, snapshot = self.session.handles, drawn.starts.snapshot
        adopted, pins, made = dict(drawn.adopted), dict(snapshot.pins), list[str]()

        def note(files: Sequence[str]) -> None:
            made.extend(files)
            armed.lease.add_files(files)
            self.session.check_cancelled()

        try:
            for table in drawn.tables:
                if table.columns is not None:
                    key = table.key
                    version, files = reshape(handles, stage_columns(drawn.starts.open_table(key), table.columns, note))
                    note(files)
                    pins[key] = replace(pins[key], version=version, branch=self.session.log.branch)
                    record = adopted[key].record if key in adopted else self._build_record(table)
                    adopted[key] = AdoptedTable(record=record, pin=pins[key])
        except BaseException as error:  # an interrupt too: nothing can be visible yet, so everything may go
            abandon(self.session.log, armed, made, error)
            raise
        manifest = replace(snapshot.manifest, pins=pins)
        starts = self.session.open_tables(replace(snapshot, manifest=manifest))
        return replace(drawn, adopted=adopted, starts=starts), tuple(made)

    def _build_record(self, table: MergedTable) -> TableRecord:
        """The registered table of one that is the target's own."""
        return _build_table_record(self.head.snapshot.manifest.tables[table.pin.table_key], table.type)

    def _stage(
        self, starts: SnapshotTables, writes: Sequence[TableWrite], armed: ArmedWrite | None, made: Sequence[str]
    ) -> tuple[Move, ...]:
        try:
            return stage_writes(self.session, starts, writes, armed)
        except BaseException:  # as above; the writes have removed their own files
            abandon(self.session.log, None, made)
            raise

    def _build_result(
        self,
        outcome: MergeOutcome,
        *,
        commit_id: str | None = None,
        tables: tuple[TableMerge, ...] = (),
        restored: Mapping[str, tuple[str, int]] | None = None,
        conflicts: Conflicts | None = None,
    ) -> MergeResult:
        found = conflicts or Conflicts()
        return MergeResult(
            outcome=outcome,
            source=self.call.source,
            into=self.call.into,
            source_commit=self.theirs.commit.id,
            base_commit=self.divergence.base_id,
            commit_id=commit_id,
            is_dry_run=self.call.is_dry_run,
            tables=tables,
            conflicts=tuple(found.listed),
            conflict_counts={kind.value: count for kind, count in found.counts.items()},
            restored_edges={key: count for key, (_, count) in (restored or {}).items()},
        )


def _find_bases(ancestry: Ancestry) -> dict[str, Tip]:
    """The bases of two states, by their commits."""
    found = ancestry.find_divergence()
    return {one: ancestry.open_tip(one) for one in (found.base_id, *found.other_bases)}


def _find_written_paths(commits: Collection[Commit] | None) -> frozenset[str] | None:
    """The locations of the tables that these commits changed; maintenance changes nothing. None: any may be.

    A merge that restored edges may have left their table at the version that it had. As against the merged branch,
    which had deleted them and may be the base now, that is a change.
    """
    if commits is None:
        return None
    news = [one for one in commits if not one.is_maintenance]
    restored = [path for one in news if one.operation == OPERATION for path in one.summary or ()]
    return frozenset([*restored, *(change.path for one in news for change in one.changes)])


def _build_table_record(record: TableRecord, type_: AnyType) -> TableRecord:
    """A table as that of the merged state's type, which may have got another name or identity."""
    return structs.replace(record, table_key=type_.table_key, identity=type_.identity)


def _build_manifest_change(
    ours: Manifest,
    wanted: Mapping[str, tuple[TableRecord, Pin]],
    schema: SchemaRecord,
    tables: Sequence[MergedTable],
    starts: SnapshotTables,
) -> _ManifestChange:
    """What has to be done to the target's tables so that they are the wanted ones; a table is known by its location."""
    keys = {pin.path: key for key, pin in ours.pins.items()}
    renamed = {keys[pin.path]: key for key, (_, pin) in wanted.items() if pin.path in keys and keys[pin.path] != key}
    return _ManifestChange(
        adopted={
            key: AdoptedTable(record=record, pin=pin)
            for key, (record, pin) in wanted.items()
            if ours.pins.get(key) != pin
        },
        renamed=renamed,
        dropped=tuple(key for key in ours.pins if key not in wanted and key not in renamed),
        schema=None if schema.id == ours.schema.id else schema,
        tables=tables,
        starts=starts,
    )


def _build_write(table: MergedTable, start: Pin) -> TableWrite:
    """The rows that are brought to a table, and the ids that go."""
    rows, brought, keys = table.rows, table.blobs, table.replaced
    assert rows is not None and brought is not None and keys is not None  # noqa: PT018, S101 - only such are written
    located = None
    if table.addresses is not None:
        located = RowLocations(path=start.path, version=start.version, addresses=table.addresses)
    stream = RowStream(batches=lambda: brought.iter_stored(rows.put), keys=keys, located=located)
    return TableWrite(table_key=table.key, upsert=stream)


def _build_table_results(ours: Manifest, drawn: _ManifestChange) -> tuple[TableMerge, ...]:
    """What becomes of each table that does not stay as it is."""
    before = {drawn.renamed.get(key, key): pin.rows for key, pin in ours.pins.items()}
    found = [
        TableMerge(
            table=one.key,
            how="merged" if one.has_rows else "reshaped",
            rows_before=before.get(one.key, 0),
            rows_after=one.pin.rows + one.inserted - one.deleted,
            inserted=one.inserted,
            updated=one.updated,
            deleted=one.deleted,
        )
        for one in drawn.tables
    ]
    merged = {one.table for one in found}
    found += [
        TableMerge(table=key, how="adopted", rows_before=before.get(key, 0), rows_after=one.pin.rows)
        for key, one in drawn.adopted.items()
        if key not in merged
    ]
    found += [
        TableMerge(table=key, how="dropped", rows_before=ours.pins[key].rows, rows_after=0) for key in drawn.dropped
    ]
    return tuple(sorted(found, key=lambda one: one.table))
