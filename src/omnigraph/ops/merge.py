"""Merge a branch into another by a three-way merge of rows and properties, in one commit with two parents."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from msgspec import json as msgspec_json
from msgspec import structs

from omnigraph.backoff import wait_for_retry
from omnigraph.commit.commit_plan import AdoptedTable, CommitPlan
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_horizon import CommitCollectedError
from omnigraph.commit.idempotency import find_earlier_commit
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MAIN, Commit, Manifest, Pin, SchemaRecord, Snapshot, TableRecord
from omnigraph.commit.merge_base import Ancestry, BranchDivergence, MergeBaseGoneError, Tip
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, publish, reshape
from omnigraph.commit.purges import DataDroppedError
from omnigraph.commit.requirements import TableUnchanged
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.engine.merging.conflicts import Conflicts
from omnigraph.engine.merging.constraint_check import build_candidate, check_constraints_of_merge
from omnigraph.engine.merging.criss_cross_base import CrissCrossBase, MergeBase
from omnigraph.engine.merging.resolutions import read_choices, read_states
from omnigraph.engine.merging.resolved_rows import edit_merged_rows
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
from omnigraph.errors import BadArgumentError
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.merge_result import MergeConflictsError, MergeOutcome, MergeResult, Strategy, TableMerge
from omnigraph.ops.retry import MAX_ATTEMPTS
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.ops.write_tables import TableWrite, stage_writes
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.key_lookup import RowLocations
from omnigraph.storage.schema_staging import stage_columns
from omnigraph.storage.staging import RowStream
from omnigraph.storage.table_cache import TableCache

OPERATION = "merge"
# Limits of the search for the bases of merge bases: nested criss-cross merges, and bases of one merge. Beyond them, a
# difference between bases stays unresolved and becomes a conflict; equal rows are still merged.
MAX_CRISS_CROSS_DEPTH = 8
MAX_BASES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCall:
    """The arguments of a merge."""

    source: str
    into: str = MAIN
    strategy: Strategy | None = None
    actor: str = "anonymous"
    message: str | None = None
    idempotency_key: str | None = None
    is_dry_run: bool = False
    resolutions: Sequence[Mapping[str, Any]] | None = None
    """What is decided about each conflict, for the heads of both sides that it names."""
    lists_all: bool = False
    """Whether the result lists all conflicts, not only the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestChange:
    """A merge without conflicts, as the change of the target's manifest to publish."""

    adopted: Mapping[str, AdoptedTable]
    renamed: Mapping[str, str]
    dropped: tuple[str, ...]
    schema: SchemaRecord | None
    """The merged schema, if it differs from the target's."""
    tables: Sequence[MergedTable] = ()
    """The tables whose rows or columns change."""
    starts: SnapshotTables
    """The table versions that rows are written to."""
    restored: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """By key, the location of a table and the number of its edges that are kept with nodes one side deleted."""

    @property
    def is_empty(self) -> bool:
        """Whether the target stays unchanged."""
        return not (self.adopted or self.renamed or self.dropped or self.tables or self.schema)


def merge(session: Session, call: MergeCall) -> MergeResult:
    """Apply to a branch the changes that another branch has made since their merge base.

    The source is merged as it is when the call begins, whatever is written to it later. If the target is written to in
    the meantime, the merge is repeated. Merging again what was merged does nothing. A dry run returns conflicts. With
    the idempotency key of an earlier merge, its commit is returned, and the target is left as it is.

    Raises:
        MergeConflictsError: The branches conflict, or their merged state breaks the schema. Nothing is published.
        KeyReusedError: The actor's idempotency key belongs to another request.
        BadArgumentError: A branch can't be merged into itself.
        BranchMissingError, BranchGoneError: One of the branches does not exist, or was deleted.
        MergeBaseGoneError, DataDroppedError: The merge base can't be read: its commits were collected, or data of
            it was permanently dropped.
        ConflictError: In the meantime the target's schema was changed, one of its tables was overwritten, or another
            merge was published; or other writers kept writing the same tables.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The session's budget ran out; nothing was changed.
    """
    session.allow(Action.READ, call.source)
    # Conflicts quote rows of the target too.
    session.allow(Action.READ, call.into)
    session.allow(Action.BRANCH_MERGE, call.into, signed=call.actor)
    if call.source == call.into:
        raise BadArgumentError("into", f"`{call.into}`", "it is the branch to merge; name another one")
    if not call.is_dry_run:
        session.check_writable()
        check_signature(call.actor, call.message, call.idempotency_key)
    done = _merge_until_published(session, call)
    if done.conflict_total and not call.is_dry_run:
        raise MergeConflictsError(done)
    return done


def _merge_until_published(session: Session, call: MergeCall) -> MergeResult:
    """Merge, and repeat from the new head if another writer changed tables that the result depends on."""
    source, target = session.checkout(call.source), session.checkout(call.into)
    newest = source.head()
    # `head` may have replaced the log, if the name belongs to a new branch: read the log only now.
    theirs = Tip(source.log, newest)
    return run_until_published(
        target,
        lambda head: MergeAttempt(target, head, theirs, call).run(),
        source_id=theirs.commit.id,
        is_for_one_state=call.resolutions is not None,
    )


def run_until_published(
    target: Session,
    attempt: Callable[[Head], MergeResult],
    *,
    source_id: str | None = None,
    is_for_one_state: bool = False,
) -> MergeResult:
    """Run an attempt on the newest state of a branch, and again if another writer interfered.

    `source_id` is the commit that is merged: that another writer merges it too is no reason to stop. Resolutions hold
    for one state only, so that an attempt with these is not repeated.
    """
    if is_for_one_state:
        return attempt(target.head())
    for number in range(1, MAX_ATTEMPTS):
        head = target.head()
        try:
            return attempt(head)
        except ConflictError:
            # Ordinary writes are merged with; after a commit that changes what the merge means, the caller decides.
            commits = target.log.read_since(target.head(), head.snapshot.commit.seq)
            if any(_is_blocking(commit, source_id) for commit in commits):
                raise
            wait_for_retry(target.runtime, number)
    return attempt(target.head())


def _is_blocking(commit: Commit, source_id: str | None) -> bool:
    """Return whether a commit changes what the merge means, so that it must not be repeated automatically."""
    is_other_merge = commit.merged_parent is not None and commit.merged_parent != source_id
    is_overwrite = any("overwrite" in counts for counts in (commit.summary or {}).values())
    return is_other_merge or is_overwrite or commit.schema_after is not None


class MergeAttempt:
    """An attempt to merge into one state of the target."""

    operation = OPERATION
    is_partial = False
    """Whether only rows that `theirs` changed are compared, see `MergeInputs`."""

    def __init__(self, target: Session, head: Head, theirs: Tip, call: MergeCall) -> None:
        self.session = target
        self.head = head
        self.theirs = theirs
        self.call = call
        self.ancestry = Ancestry(Tip(target.log, head), theirs)
        self.divergence: BranchDivergence = self.ancestry.find_divergence()

    def run(self) -> MergeResult:
        """Merge and publish; with conflicts, return them."""
        repeated = self.find_repeated()
        if repeated is not None:
            return repeated
        base_id = self.base_id
        check_states(self)
        if base_id == self.theirs.commit.id:
            return self.build_result(MergeOutcome.ALREADY_UP_TO_DATE)
        if base_id == self.head.snapshot.commit.id:
            return self._fast_forward()
        return self.merge_states()

    def find_repeated(self) -> MergeResult | None:
        """Return the result of this very request, if it made its commit before; None if it did not."""
        key = None if self.call.is_dry_run else self.call.idempotency_key
        actor, request = self.call.actor, self.request
        log, head = self.session.log, self.head
        earlier = find_earlier_commit(log, head, operation=self.operation, actor=actor, key=key, request=request)
        if earlier is None:
            return None
        # The target contains what was asked for. The state before that commit is the one that was merged into.
        result = self.build_result(MergeOutcome.ALREADY_UP_TO_DATE, commit_id=earlier.id)
        return structs.replace(result, into_commit=earlier.parent or earlier.id)

    @property
    def request(self) -> str | None:
        """The digest of what was asked for, which a key is for; None without a key."""
        if self.call.idempotency_key is None:
            return None
        strategy = None if self.call.strategy is None else self.call.strategy.value
        asked = (self.call.source, strategy, self.call.resolutions)
        return blake2b(msgspec_json.encode(asked, enc_hook=repr, order="deterministic"), digest_size=16).hexdigest()

    def merge_states(self) -> MergeResult:
        """Merge the three states table by table and publish the result; with conflicts, return them."""
        schema, criss_cross = self.merge_schemas()
        conflicts = Conflicts(limit=sys.maxsize) if self.call.lists_all else Conflicts()
        if isinstance(schema, SchemaConflicts):
            conflicts.add(schema.conflicts[0].kind, schema.conflicts, len(schema.conflicts))
            return self.build_result(MergeOutcome.CONFLICTS, conflicts=conflicts)
        inputs = self._build_inputs(schema, criss_cross)
        try:
            if self.call.resolutions is not None:
                inputs = _choose(inputs, self.session.handles, self.call.resolutions)
            tables = _merge_and_check(inputs, self.session.handles, conflicts)
        except DataDroppedError as error:
            branches = self.call.source, self.call.into
            raise DataDroppedError.merge_base_dropped(
                *branches, error.table_key, error.what, error.branch, error.commit_id
            ) from error
        if conflicts.total:
            return self.build_result(MergeOutcome.CONFLICTS, conflicts=conflicts)
        change = self._plan_change(inputs, tables, schema.record)
        if self.is_partial and change.is_empty:
            # A merge records that it happened even then; a revert or a cherry-pick has nothing to record.
            return self.build_result(MergeOutcome.ALREADY_UP_TO_DATE)
        self.check_change(change)
        plan = CommitPlan(
            base=self.head,
            operation=self.operation,
            actor=self.call.actor,
            requirements=self._build_requirements(change, inputs.ours.catalog),
        )
        return self._publish(MergeOutcome.MERGED, change, plan)

    def _fast_forward(self) -> MergeResult:
        """Set the target, which has no commit since the base, to the tables and schema of the source."""
        manifest = self.theirs.head.snapshot.manifest
        tables = {key: (manifest.tables[key], pin) for key, pin in manifest.pins.items()}
        starts = open_whole_tables(self.session, self.theirs.head.snapshot)
        change = build_manifest_change(self.head.snapshot.manifest, tables, manifest.schema, (), starts)
        if change.is_empty and self.divergence.theirs is not None and len(self.divergence.theirs) == 1:
            # The source's one commit is a fast-forward to this very state, so either commit serves as a later base.
            # With several commits, changes were made and reverted; other branches may have merged them in between, so
            # this merge must be recorded.
            return self.build_result(MergeOutcome.ALREADY_UP_TO_DATE)
        head_id = self.head.snapshot.commit.id
        plan = CommitPlan(base=self.head, operation=OPERATION, actor=self.call.actor, if_commit=head_id)
        return self._publish(MergeOutcome.FAST_FORWARD, change, plan)

    def merge_schemas(self) -> tuple[SchemaAgreement | SchemaConflicts, CrissCrossBase | None]:
        """Return the merged schema or its conflicts, and the criss-cross base if there are several bases."""
        agree = self.build_agreement
        base_ids = (self.divergence.base_id, *self.divergence.other_bases)
        if len(base_ids) == 1:
            base = self.build_view(self.ancestry.read_state(base_ids[0]))
            return agree((base, BaseSchema.from_view(base))), None
        tips = [self.ancestry.open_tip(base_id) for base_id in base_ids]
        merge_base = self._build_merge_base(tips, MAX_CRISS_CROSS_DEPTH)
        if isinstance(merge_base, View):
            return agree((merge_base, BaseSchema.from_view(merge_base))), None
        agreement = agree_on_criss_cross_schema(merge_base, agree)
        if isinstance(agreement, SchemaConflicts):
            return agreement, merge_base
        return agreement, merge_base.map_views(agreement.renumber)

    def build_agreement(self, bases: tuple[View, BaseSchema]) -> SchemaAgreement | SchemaConflicts:
        """Merge the schemas of both sides, from a base and its schema."""
        ours, theirs = self.build_view(self.head.snapshot), self.build_view(self.their_state)
        return agree_on_schema(bases, ours, theirs, self._names, self.session.runtime.ids.ulid)

    @property
    def base_id(self) -> str:
        """The commit that both sides are compared with; the first of several."""
        return self.divergence.base_id

    @property
    def their_state(self) -> Snapshot:
        """The state whose changes are applied."""
        return self.theirs.head.snapshot

    def build_view(self, snapshot: Snapshot) -> View:
        """Return a state with its catalog."""
        return View(self.session.load_catalog(snapshot), open_whole_tables(self.session, snapshot))

    def _build_merge_base(self, bases: Sequence[Tip], depth: int) -> MergeBase:
        """Combine several bases into one: each is merged with those before it, over their own common bases.

        `depth` limits the recursion.
        """
        merge_base: MergeBase = self.build_view(bases[0].snapshot)
        for number, tip in enumerate(bases[1:], start=1):
            common: dict[str, Tip] = {}
            try:
                for other in bases[:number] if depth and number < MAX_BASES else ():
                    common.update(_find_bases(Ancestry(other, tip)))
            except (MergeBaseGoneError, CommitCollectedError, CommitMissingError):
                # Their base was collected: a difference between the bases stays unresolved.
                common = {}
            # A base that is an ancestor of an earlier one adds nothing.
            if tip.commit.id not in common:
                deeper_tips = [common[commit_id] for commit_id in sorted(common, reverse=True)]
                merge_base = CrissCrossBase(
                    merge_base,
                    self.build_view(tip.snapshot),
                    self._build_merge_base(deeper_tips, depth - 1) if deeper_tips else None,
                )
        return merge_base

    @property
    def _names(self) -> Mapping[Side, str]:
        return {"ours": self.call.into, "theirs": self.call.source}

    def _build_inputs(self, schema: SchemaAgreement, criss_cross: CrissCrossBase | None) -> MergeInputs:
        strategy: Side | None = None
        if self.call.strategy is not None:
            strategy = "ours" if self.call.strategy is Strategy.OURS else "theirs"
        return MergeInputs(
            base=schema.base,
            ours=schema.ours,
            theirs=schema.theirs,
            names=self._names,
            touched=self.find_written_paths(),
            catalog=schema.catalog,
            strategy=strategy,
            criss_cross=criss_cross,
            is_partial=self.is_partial,
            watch=self.session.watch,
        )

    def find_written_paths(self) -> Mapping[Side, Collection[str] | None]:
        """Return for each side the locations of the tables whose rows it changed; None if any table may be."""
        return {
            "ours": find_written_paths(self.divergence.ours),
            "theirs": find_written_paths(self.divergence.theirs),
        }

    def check_change(self, change: ManifestChange) -> None:
        """Check whether the caller may publish this change. A merge was checked before it began."""

    def _plan_change(self, inputs: MergeInputs, tables: Sequence[MergedTable], schema: SchemaRecord) -> ManifestChange:
        records = {side: inputs.get_view(side).snapshot.manifest.tables for side in ("ours", "theirs")}
        result_tables = {
            table.key: (
                _build_table_record(records[table.side][table.pin.table_key], table.type),
                replace(table.pin, table_key=table.key),
            )
            for table in tables
        }
        starts = open_whole_tables(self.session, build_merged_snapshot(inputs, tables))
        written = [table for table in tables if table.has_rows or table.columns is not None]
        change = build_manifest_change(self.head.snapshot.manifest, result_tables, schema, written, starts)
        restored = {table.key: (table.pin.path, table.restored) for table in tables if table.restored}
        return replace(change, restored=restored)

    def _build_requirements(self, change: ManifestChange, catalog: Catalog) -> tuple[TableUnchanged, ...]:
        """Require that the target's tables that the result depends on are unchanged at the commit.

        These are the changed tables, and for each edge type among them or at one of them also its own table and those
        of both node types. With a new schema, all tables: its rules were checked against every row.
        """
        if change.schema is not None:
            return tuple(TableUnchanged(table_key=key) for key in sorted(self.head.snapshot.pins))
        touched = {*change.adopted, *(table.pin.table_key for table in change.tables), *change.renamed, *change.dropped}
        related = set(touched)
        for edge in catalog.edges.values():
            around = {edge.table_key, *(catalog.nodes[name].table_key for name in (edge.source, edge.target))}
            if around & touched:
                related |= around
        pins = self.head.snapshot.pins
        return tuple(TableUnchanged(table_key=key) for key in sorted(related) if key in pins)

    def _publish(self, outcome: MergeOutcome, change: ManifestChange, plan: CommitPlan) -> MergeResult:
        tables = build_table_results(self.head.snapshot.manifest, change)
        if self.call.is_dry_run:
            return self.build_result(outcome, tables=tables, restored=change.restored)
        session, head = self.session, self.head
        # Adopting tables and renaming writes no file, so there is nothing to announce for recovery.
        armed: ArmedWrite | None = None
        new_files: tuple[str, ...] = ()
        if change.tables:
            armed = arm(session.log, head, operation=self.operation, actor=self.call.actor)
            change, new_files = self._reshape_tables(change, armed)
        pins = change.starts.snapshot.pins
        writes = [_build_write(table, pins[table.key]) for table in change.tables if table.has_rows]
        try:
            moves = stage_writes(session, change.starts, writes, armed)
        except BaseException:
            # `stage_writes` has removed its own files; nothing is visible yet, so the others can be removed as well.
            abandon(session.log, None, new_files)
            raise
        plan = replace(
            plan,
            message=self.call.message,
            idempotency_key=self.call.idempotency_key,
            request=self.request,
            moves=moves,
            adopted=change.adopted,
            adopted_files=new_files,
            renamed_tables=change.renamed,
            dropped_tables=change.dropped,
            schema=change.schema,
            # Read by `find_written_paths` of later merges.
            summary={path: {"restored": count} for path, count in change.restored.values()} or None,
            watch=session.watch,
        )
        done = publish(session.log, session.handles, self.link_commits(plan), armed)
        return self.build_result(outcome, commit_id=done.commit.id, tables=tables, restored=change.restored)

    def link_commits(self, plan: CommitPlan) -> CommitPlan:
        """Return the plan with the references of the new commit to others."""
        return replace(
            plan,
            merged_parent=self.theirs.commit.id,
            merged_from=self.ancestry.build_merged_from(),
            epoch=self.their_state.manifest.gc_horizon.epoch,
        )

    def _reshape_tables(self, change: ManifestChange, armed: ArmedWrite) -> tuple[ManifestChange, tuple[str, ...]]:
        """Return the change with table versions that have the merged columns, and the files of these versions."""
        handles, snapshot = self.session.handles, change.starts.snapshot
        adopted = dict(change.adopted)
        pins = dict(snapshot.pins)
        new_files: list[str] = []

        def record_files(files: Sequence[str]) -> None:
            new_files.extend(files)
            armed.lease.add_files(files)
            self.session.check_cancelled()

        try:
            for table in change.tables:
                if table.columns is not None:
                    key = table.key
                    staged = stage_columns(change.starts.open_table(key), table.columns, record_files)
                    version, files = reshape(handles, staged)
                    record_files(files)
                    pins[key] = replace(pins[key], version=version, branch=self.session.log.branch)
                    if key in adopted:
                        record = adopted[key].record
                    else:
                        record = _build_table_record(
                            self.head.snapshot.manifest.tables[table.pin.table_key], table.type
                        )
                    adopted[key] = AdoptedTable(record=record, pin=pins[key])
        except BaseException as error:
            # Also on an interrupt: nothing is visible yet, so all files can be removed.
            abandon(self.session.log, armed, new_files, error)
            raise
        manifest = replace(snapshot.manifest, pins=pins)
        starts = open_whole_tables(self.session, replace(snapshot, manifest=manifest))
        return replace(change, adopted=adopted, starts=starts), tuple(new_files)

    def build_result(
        self,
        outcome: MergeOutcome,
        *,
        commit_id: str | None = None,
        tables: tuple[TableMerge, ...] = (),
        restored: Mapping[str, tuple[str, int]] | None = None,
        conflicts: Conflicts | None = None,
    ) -> MergeResult:
        """Return the result of this attempt."""
        reported = conflicts or Conflicts()
        return MergeResult(
            outcome=outcome,
            source=self.call.source,
            into=self.call.into,
            source_commit=self.their_state.commit.id,
            into_commit=self.head.snapshot.commit.id,
            base_commit=self.base_id,
            commit_id=commit_id,
            is_dry_run=self.call.is_dry_run,
            tables=tables,
            conflicts=tuple(reported.listed),
            conflict_counts={kind.value: count for kind, count in reported.counts.items()},
            restored_edges={key: count for key, (_, count) in (restored or {}).items() if key.startswith("edge:")},
        )


def check_states(attempt: MergeAttempt) -> None:
    """Check that resolutions were made for the very states of an attempt.

    Raises:
        ConflictError: A branch has moved on, so that there may be other conflicts.
    """
    if attempt.call.resolutions is None:
        return
    head_id = attempt.head.snapshot.commit.id
    actual = {"base": attempt.base_id, "ours": head_id, "theirs": attempt.their_state.commit.id}
    for name, commit_id in read_states(attempt.call.resolutions).items():
        if commit_id != actual[name]:
            reason = f"the resolutions are for other states, `{name}` has moved on"
            raise ConflictError("graph_head", commit_id, actual[name], reason)


def _merge_and_check(inputs: MergeInputs, handles: TableCache, conflicts: Conflicts) -> Sequence[MergedTable]:
    """Return the merged tables, and add to `conflicts` what the sides disagree about or break together."""
    tables: Sequence[MergedTable] = merge_tables(inputs, conflicts)
    candidate = build_candidate(inputs, tables, handles)
    if inputs.choices:
        tables = edit_merged_rows(inputs, tables, candidate)
    check_constraints_of_merge(inputs, tables, candidate, conflicts)
    return tables


def _choose(inputs: MergeInputs, handles: TableCache, resolutions: Sequence[Mapping[str, Any]]) -> MergeInputs:
    """Return the inputs with what was decided about their conflicts.

    Raises:
        BadArgumentError: The resolutions don't fit the conflicts.
    """
    conflicts = Conflicts(limit=sys.maxsize)
    _merge_and_check(inputs, handles, conflicts)
    return inputs.with_choices(read_choices(resolutions, conflicts.listed, inputs.catalog))


def _find_bases(ancestry: Ancestry) -> dict[str, Tip]:
    """Return the merge bases of two states, by commit id."""
    divergence = ancestry.find_divergence()
    return {commit_id: ancestry.open_tip(commit_id) for commit_id in (divergence.base_id, *divergence.other_bases)}


def find_written_paths(commits: Collection[Commit] | None) -> frozenset[str] | None:
    """Return the locations of the tables that these commits changed; None if any table may have changed.

    A merge that restored edges may have left their table at its version. Compared with the merged branch, which had
    deleted the edges and may be the base now, that is a change.
    """
    if commits is None:
        return None
    # Maintenance rewrites files, not rows.
    writes = [commit for commit in commits if not commit.is_maintenance]
    restored = [path for commit in writes if commit.operation == OPERATION for path in commit.summary or ()]
    return frozenset([*restored, *(change.path for commit in writes for change in commit.changes)])


def _build_table_record(record: TableRecord, type_: AnyType) -> TableRecord:
    """Return a table record with the name and identity that its type has in the merged state."""
    return structs.replace(record, table_key=type_.table_key, identity=type_.identity)


def build_manifest_change(
    ours: Manifest,
    result_tables: Mapping[str, tuple[TableRecord, Pin]],
    schema: SchemaRecord,
    tables: Sequence[MergedTable],
    starts: SnapshotTables,
) -> ManifestChange:
    """Return the change that turns the target's tables into the merged ones; a table is identified by its location."""
    keys = {pin.path: key for key, pin in ours.pins.items()}
    renamed = {
        keys[pin.path]: key for key, (_, pin) in result_tables.items() if pin.path in keys and keys[pin.path] != key
    }
    return ManifestChange(
        adopted={
            key: AdoptedTable(record=record, pin=pin)
            for key, (record, pin) in result_tables.items()
            if ours.pins.get(key) != pin
        },
        renamed=renamed,
        dropped=tuple(key for key in ours.pins if key not in result_tables and key not in renamed),
        schema=None if schema.id == ours.schema.id else schema,
        tables=tables,
        starts=starts,
    )


def _build_write(table: MergedTable, start: Pin) -> TableWrite:
    """Return the write of the rows that a merge inserts, updates or deletes in a table."""
    rows, blobs, keys = table.rows, table.blobs, table.replaced
    assert rows is not None and blobs is not None and keys is not None  # noqa: PT018, S101 - `has_rows` was checked
    located = None
    if table.addresses is not None:
        located = RowLocations(path=start.path, version=start.version, addresses=table.addresses)
    stream = RowStream(batches=lambda: blobs.iter_stored(rows.put), keys=keys, located=located)
    return TableWrite(table_key=table.key, upsert=stream)


def build_table_results(ours: Manifest, change: ManifestChange) -> tuple[TableMerge, ...]:
    """Return the result of each table that changes, by table key."""
    before = {change.renamed.get(key, key): pin.rows for key, pin in ours.pins.items()}
    results = [
        TableMerge(
            table=table.key,
            how="merged" if table.has_rows else "reshaped",
            rows_before=before.get(table.key, 0),
            rows_after=table.pin.rows + table.inserted - table.deleted,
            inserted=table.inserted,
            updated=table.updated,
            deleted=table.deleted,
        )
        for table in change.tables
    ]
    merged = {result.table for result in results}
    results += [
        TableMerge(table=key, how="adopted", rows_before=before.get(key, 0), rows_after=adopted.pin.rows)
        for key, adopted in change.adopted.items()
        if key not in merged
    ]
    results += [
        TableMerge(table=key, how="dropped", rows_before=ours.pins[key].rows, rows_after=0) for key in change.dropped
    ]
    return tuple(sorted(results, key=lambda result: result.table))
