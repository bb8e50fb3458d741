"""Return a branch to an earlier state, or to one of another branch, in a new commit. No row is read."""

from dataclasses import dataclass

from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.publisher import publish
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.merge import build_manifest_change, build_table_results
from omnigraph.ops.merge_result import TableMerge
from omnigraph.ops.revision import locate_state
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.policy import Action

OPERATION = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetCall:
    """The arguments of a reset."""

    to: str
    """A state: a commit id, a tag, a branch, or `branch@time`."""
    branch: str = MAIN
    actor: str = "anonymous"
    message: str | None = None
    is_dry_run: bool = False


class ResetResult(JsonStruct, frozen=True, kw_only=True):
    """The result of a reset or its dry run. `commit_id` is None if the branch had that state already."""

    json_keys = "branch to_commit commit_id dry_run=is_dry_run schema_changed=is_schema_changed tables"

    branch: str
    to_commit: str
    commit_id: str | None = None
    is_dry_run: bool = False
    is_schema_changed: bool = False
    tables: tuple[TableMerge, ...] = ()


def reset(session: Session, call: ResetCall) -> ResetResult:
    """Give a branch the rows and the schema of another state, in a new commit whose parent is the old head.

    History stays: the commits after that state can be read, reverted and returned to.

    Raises:
        BranchMissingError, CommitMissingError, CommitCollectedError: There is no such state, or it was collected.
        DataDroppedError: Data of that state was dropped permanently.
        ConflictError: Another writer committed in the meantime.
    """
    session.allow(Action.READ, call.branch)
    session.allow(Action.RESET, call.branch, signed=call.actor)
    if not call.is_dry_run:
        session.check_writable()
        check_signature(call.actor, call.message, None)
    target = session.checkout(call.branch)
    head = target.head()
    _, state = locate_state(target, call.to)
    session.allow(Action.READ, state.branch)
    manifest = state.manifest
    # `pin` refuses a table whose data was dropped permanently.
    tables = {key: (manifest.tables[key], state.pin(key)) for key in manifest.pins}
    change = build_manifest_change(
        head.snapshot.manifest, tables, manifest.schema, (), open_whole_tables(target, state)
    )
    commit_id = None
    if not change.is_empty and not call.is_dry_run:
        plan = CommitPlan(
            base=head,
            operation=OPERATION,
            actor=call.actor,
            message=call.message,
            adopted=change.adopted,
            renamed_tables=change.renamed,
            dropped_tables=change.dropped,
            schema=change.schema,
            refers_to=state.commit.id,
            if_commit=head.snapshot.commit.id,
            # It pins versions that only past commits pin, which a cleanup in the meantime may have collected.
            outlives_cleanup=False,
            watch=target.watch,
        )
        commit_id = publish(target.log, target.handles, plan, None).commit.id
    return ResetResult(
        branch=call.branch,
        to_commit=state.commit.id,
        commit_id=commit_id,
        is_dry_run=call.is_dry_run,
        is_schema_changed=change.schema is not None,
        tables=build_table_results(head.snapshot.manifest, change),
    )
