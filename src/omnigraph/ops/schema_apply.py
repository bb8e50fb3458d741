"""Change the schema: plan the migration, check existing rows against it, and apply it in one atomic commit."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from omnigraph.backoff import wait_for_retry
from omnigraph.commit.commit_plan import CommitPlan, Move, NewTable
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import SchemaRecord, TableRecord
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, publish
from omnigraph.commit.requirements import TableUnchanged
from omnigraph.engine.constraints.violations import (
    MAX_REPORTED_PROBLEMS,
    ConstraintError,
    ConstraintViolation,
    quote_value,
)
from omnigraph.engine.migrating.constraint_check import check_rows, find_touched_tables
from omnigraph.engine.migrating.dropped_data import count_dropped
from omnigraph.engine.migrating.type_changes import CatalogChange, diff_catalogs
from omnigraph.engine.view import View
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.source import Source
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.retry import MAX_ATTEMPTS
from omnigraph.ops.schema_purge import describe_tag_losses, find_holders, find_purges, forget, purge_columns
from omnigraph.ops.session import Session, open_whole_tables, without_limits
from omnigraph.policy import Action, DeniedError
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog import AnyType, Catalog, NodeType
from omnigraph.schema.catalog_codec import compute_fingerprint, decode_catalog, encode_catalog
from omnigraph.schema.identity import assign_identities
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.migration_steps import (
    CONSTRAINT_VIOLATED,
    MigrationPlan,
    Step,
    StepKind,
    count_losses,
    mark_drops_hard,
)
from omnigraph.storage.cas_table_errors import OutdatedError, SwapLostError
from omnigraph.storage.layout import build_table_path
from omnigraph.storage.schema_staging import stage_columns

OPERATION = "schema_apply"
# New identities start at a random distance of up to 2^40 from the last one, so that two branches never choose the same
# (see docs/decisions/0030).
_MAX_IDENTITY_GAP = 2.0**40


class SchemaUnsupportedError(OmnigraphError):
    """The schema can't become the requested one: some changes have no migration."""

    kind = Kind.INVALID
    code = "schema_unsupported"

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__(tuple(steps))
        self.steps = tuple(steps)

    def facts(self) -> dict[str, object]:
        """Return the unsupported steps."""
        return {"steps": [step.to_json() for step in self.steps]}

    def __str__(self) -> str:
        lines = [f"{step.message} [{step.code}]" for step in self.steps]
        return "\n".join([*lines, "nothing was changed"])


class SchemaDropsDataError(OmnigraphError):
    """The requested schema drops a type with rows or a property with values, and the call does not allow that."""

    kind = Kind.INVALID
    code = "schema_drops_data"

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__(tuple(steps))
        self.steps = tuple(steps)

    def facts(self) -> dict[str, object]:
        """Return the steps that drop data."""
        return {"steps": [step.to_json() for step in self.steps]}

    def __str__(self) -> str:
        lines = [f"{step.message} [{step.code}]" for step in self.steps]
        return "\n".join([*lines, "this would drop data, and drops were not allowed: nothing was changed"])


class SchemaUnfitError(ConstraintError):
    """Existing rows violate constraints of the requested schema. `violations` are the first of `total`."""

    kind = Kind.INVALID
    code = "schema_unfit"

    def facts(self) -> dict[str, object]:
        """Return the listed violations and their total number."""
        return {**super().facts(), "diagnostic": CONSTRAINT_VIOLATED}

    def __str__(self) -> str:
        lines = [_describe_violation(violation) for violation in self.violations]
        if self.total > len(lines):
            lines.append(f"and {self.total - len(lines)} more")
        noun = "row breaks a rule" if self.total == 1 else "rows break rules"
        return "\n".join(
            [*lines, f"{self.total} {noun} of the new schema [{CONSTRAINT_VIOLATED}]: nothing was changed"]
        )


def _describe_violation(violation: ConstraintViolation) -> str:
    """Return the message of a violation, with the row's id if the message does not contain it."""
    # Unlike the rows of a mutation or a load, the caller does not have these rows at hand.
    if violation.id is None or quote_value(violation.id) in violation.message:
        return violation.message
    return f"{violation.message}, in {quote_value(violation.id)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaCall:
    """The arguments of a schema change."""

    source: Source
    actor: str
    message: str | None = None
    allows_drops: bool = False
    """Whether types with rows and properties with values may be dropped; earlier states keep them."""
    allows_data_loss: bool = False
    """Whether dropped types and properties lose their data permanently, in the branch's earlier states too."""


class SchemaResult(JsonStruct, frozen=True, kw_only=True):
    """The result of a schema change; without steps there is no commit."""

    json_keys = (
        "target.branch=branch commit_id held_by?=shown_holders steps=plan.steps safe=plan.is_safe "
        "supported=plan.is_supported drops_values=plan.drops_values notes=plan.notes"
    )

    plan: MigrationPlan
    branch: str
    commit_id: str | None
    held_by: tuple[str, ...] = ()
    """Other branches that still have the data dropped permanently here: it stays on disk while they do."""

    @property
    def shown_holders(self) -> list[str] | None:
        """The branches in `held_by`; None if nothing was dropped permanently."""
        return list(self.held_by) if self.plan.loses_data else None


def plan_schema(session: Session, source: Source, *, allows_data_loss: bool = False) -> MigrationPlan:
    """Return the migration plan from the current schema to another; nothing is changed.

    Rows are not read, except to count the values of properties that would be dropped.
    """
    session.allow(Action.SCHEMA_APPLY)
    head = session.head()
    old = session.load_catalog(head.snapshot)
    new = load_schema(source)
    plan = plan_migration(old, new, _iter_earlier_catalogs(session, head))
    if allows_data_loss:
        plan = mark_drops_hard(plan)
    if not plan.drops_data or not plan.is_supported:
        return plan
    change = diff_catalogs(old, assign_identities(new, old, first=old.next_identity))
    plan = count_losses(plan, count_dropped(View(old, open_whole_tables(session, head.snapshot)), change))
    if not plan.loses_data:
        return plan
    return _add_notes(plan, describe_tag_losses(session, find_purges(head.snapshot, change)))


def _iter_earlier_catalogs(session: Session, head: Head) -> Iterator[Catalog]:
    """Yield the earlier schemas of a branch, newest first. Lazy: nothing is read before the first is requested."""
    return (decode_catalog(record.catalog.encode()) for record in session.log.iter_schemas(head))


def _add_notes(plan: MigrationPlan, notes: tuple[str, ...]) -> MigrationPlan:
    return msgspec.structs.replace(plan, notes=(*plan.notes, *notes))


def apply_schema(session: Session, call: SchemaCall) -> SchemaResult:
    """Apply a schema to a branch, and migrate its tables and rows.

    Dropped data stays in earlier snapshots, unless the call allows data loss: then its files are rewritten without it,
    and the branch's earlier states of such a table can no longer be read.

    Raises:
        SourceError: The text has mistakes.
        SchemaUnsupportedError: Some change has no migration.
        SchemaDropsDataError: Rows or values would be dropped, and the call allows no drops.
        SchemaUnfitError: Existing rows violate a new constraint.
        DeniedError: A renamed type would be seen by other actors.
        ConflictError: Another writer changed the schema in the meantime, or kept writing to the tables that change.
    """
    session.allow(Action.SCHEMA_APPLY, signed=call.actor)
    session.check_writable()
    check_signature(call.actor, call.message, None)
    head = session.head()
    base_schema_id = head.snapshot.manifest.schema.id
    for number in range(1, MAX_ATTEMPTS):
        try:
            return _attempt(session, call, head)
        except (ConflictError, OutdatedError, SwapLostError):
            # A writer of the same table was faster, maintenance moved one, or a new table's path was taken.
            wait_for_retry(session.runtime, number)
        head = session.head()
        schema_id = head.snapshot.manifest.schema.id
        # The caller's change was made for the earlier schema, and may be wrong for this one.
        if schema_id != base_schema_id:
            raise ConflictError("schema", base_schema_id, schema_id, "the schema was changed")
    return _attempt(session, call, head)


def _attempt(session: Session, call: SchemaCall, head: Head) -> SchemaResult:
    snapshot = head.snapshot
    old = session.load_catalog(snapshot)
    gap = int(session.runtime.ids.jitter(_MAX_IDENTITY_GAP))
    new = assign_identities(load_schema(call.source), old, first=old.next_identity + gap)
    plan = plan_migration(old, new, _iter_earlier_catalogs(session, head))
    if call.allows_data_loss:
        plan = mark_drops_hard(plan)
    if plan.is_empty:
        return SchemaResult(plan=plan, branch=snapshot.branch, commit_id=None)
    if not plan.is_supported:
        raise SchemaUnsupportedError([step for step in plan.steps if not step.is_supported])
    _check_renames(session, plan)
    change = diff_catalogs(old, new)
    view = View(old, open_whole_tables(session, snapshot))
    plan = count_losses(plan, count_dropped(view, change))
    if plan.drops_values and not (call.allows_drops or call.allows_data_loss):
        raise SchemaDropsDataError([step for step in plan.steps if step.lost])
    findings = check_rows(view, new, plan, change)
    if findings.violations:
        raise SchemaUnfitError(findings.violations[:MAX_REPORTED_PROBLEMS], len(findings.violations))
    purges = find_purges(snapshot, change) if call.allows_data_loss else ()
    plan = _add_notes(plan, describe_tag_losses(session, purges))
    touched = find_touched_tables(new, plan, change)
    commit_id = _publish(session, call, head, new, change, touched)
    # The commit is published: a deadline must not turn it into an error.
    session = without_limits(session)
    held_by = find_holders(session, {purge.path for purge in purges})
    return SchemaResult(plan=plan, branch=snapshot.branch, commit_id=commit_id, held_by=held_by)


def _check_renames(session: Session, plan: MigrationPlan) -> None:
    """Check that no type gets a name under which rules about rows show other rows of it.

    Raises:
        DeniedError: One does.
    """
    policy = session.runtime.policy
    for step in plan.steps if policy is not None else ():
        if step.kind is StepKind.RENAME_TYPE and step.previous is not None:
            assert policy is not None  # noqa: S101 - as above
            if policy.names_type(step.previous) != policy.names_type(step.type):
                raise DeniedError.rules_name_type(step.previous, step.type)


def _publish(
    session: Session, call: SchemaCall, head: Head, new: Catalog, change: CatalogChange, touched: Collection[str]
) -> str:
    runtime = session.runtime
    record = SchemaRecord(
        id=runtime.ids.ulid(),
        source=call.source.text,
        catalog=encode_catalog(new).decode(),
        fingerprint=compute_fingerprint(new),
        same=head.snapshot.manifest.schema.same,
    )
    new_tables = tuple(_build_new_tables(session, head, change.added))
    purges = find_purges(head.snapshot, change) if call.allows_data_loss else ()
    armed = arm(session.log, head, operation=OPERATION, actor=call.actor)
    moves = _stage_moves(session, head, change, armed, {purge.table_key for purge in purges})
    plan = CommitPlan(
        base=head,
        operation=OPERATION,
        actor=call.actor,
        message=call.message,
        schema=record,
        moves=moves,
        requirements=tuple(TableUnchanged(table_key=key) for key in sorted(touched)),
        new_tables=new_tables,
        dropped_tables=tuple(type_.table_key for type_ in change.dropped),
        renamed_tables={
            type_change.old.table_key: type_change.new.table_key
            for type_change in change.lasting
            if type_change.is_renamed
        },
        purged=purges,
        watch=session.watch,
    )
    commit_id = publish(session.log, session.handles, plan, armed).commit.id
    forget(without_limits(session), head.snapshot, purges, moves)
    return commit_id


def _stage_moves(
    session: Session, head: Head, change: CatalogChange, armed: ArmedWrite, purged_keys: Collection[str]
) -> tuple[Move, ...]:
    """Stage the column changes of all tables, under their current keys; purged tables get new files."""
    tables = open_whole_tables(session, head.snapshot)
    moves: list[Move] = []
    staged_files: list[str] = []

    def on_files(files: Sequence[str]) -> None:
        """Record new files in the sidecar, so that recovery can remove them if this process dies."""
        staged_files.extend(files)
        armed.lease.add_files(files)
        session.check_cancelled()

    try:
        for type_change in change.lasting:
            session.check_cancelled()
            if type_change.has_column_changes:
                key = type_change.old.table_key
                staged = stage_columns(tables.open_table(key), type_change.build_new_columns(), on_files)
                if key in purged_keys:
                    staged = purge_columns(session, staged, on_files)
                moves.append(Move(table_key=key, staged=staged))
    # Interrupts too: nothing is visible yet, so all files may be removed.
    except BaseException as error:
        abandon(session.log, armed, staged_files, error)
        raise
    return tuple(moves)


def _build_new_tables(session: Session, head: Head, added: Sequence[AnyType]) -> Iterator[NewTable]:
    """Yield the tables of new types, at paths never used before."""
    records = head.snapshot.manifest.tables
    for type_ in added:
        kind = "node" if isinstance(type_, NodeType) else "edge"
        record = records.get(type_.table_key)
        incarnation = 1 if record is None else record.incarnation + 1
        # An older type of that name, perhaps on another branch, may still have its files there.
        while session.store.objects.list_under(build_table_path(kind, type_.name, incarnation)):
            incarnation += 1
        path = build_table_path(kind, type_.name, incarnation)
        record = TableRecord(table_key=type_.table_key, path=path, identity=type_.identity, incarnation=incarnation)
        yield NewTable(record=record, schema=build_arrow_schema(type_))
