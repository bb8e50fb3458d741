"""Build the manifest of a commit: the state before it, with new pins, tables and schema, and one more commit."""

from dataclasses import replace

from msgspec import structs

from omnigraph.commit.commit_clock import compute_commit_time
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.digests import add_digest
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import MAIN, Commit, Manifest, Pin, PinChange, TableRecord
from omnigraph.commit.version_builder import AppliedPlan, record_checksum


def build_next_manifest(log: ManifestLog, plan: CommitPlan, applied: AppliedPlan, commit_id: str) -> Manifest:
    """Build the manifest of this commit: the base's, with new pins, tables and schema, and one more commit."""
    snapshot = plan.base.snapshot
    old = snapshot.manifest
    dropped = {key: old.pins[key] for key in plan.dropped_tables}
    # A hard drop of a whole type removes its record too, a soft drop keeps the table under `dropped`.
    purged = {purge.table_key for purge in plan.purged if purge.property is None}
    renamed = plan.renamed_tables
    current_pins = {**old.pins, **applied.moved}
    pins = {key: pin for key, pin in current_pins.items() if key not in dropped and key not in renamed}
    pins |= {new: replace(current_pins[key], table_key=new) for key, new in renamed.items()}
    pins |= applied.created
    pins |= {key: applied.moved.get(key, adopted.pin) for key, adopted in plan.adopted.items()}
    tables = {key: table for key, table in old.tables.items() if key not in renamed and key not in purged}
    tables |= {new: structs.replace(old.tables[key], table_key=new) for key, new in renamed.items()}
    tables |= {table.record.table_key: table.record for table in applied.new_tables}
    tables |= {key: adopted.record for key, adopted in plan.adopted.items()}
    touched = dict.fromkeys((*applied.created, *applied.moved, *plan.adopted, *dropped, *renamed, *renamed.values()))
    for key in touched.keys() & pins.keys():
        pin = pins[key]
        pins[key] = replace(pin, sum=record_checksum(log.store, pin.path, pin.version, pin.rows))
    # `check --record` changes only what is recorded about a version, not the version.
    touched |= dict.fromkeys(key for key, pin in pins.items() if pin.path in plan.recorded)
    pins = {key: _add_recorded(plan, pin) for key, pin in pins.items()}
    changes = [_build_change(key, old, pins.get(key), tables.get(key)) for key in touched]
    commit = Commit(
        id=commit_id,
        parent=old.head,
        merged_parent=plan.merged_parent,
        merged_from=plan.merged_from,
        seq=snapshot.commit.seq + 1,
        branch=log.branch,
        actor=plan.actor,
        at=compute_commit_time(log.store, snapshot.commit),
        operation=plan.operation,
        message=plan.message,
        # All commits of a group are in the same version: the one after the version that it is swapped onto.
        manifest_version=plan.base.table.version + 1,
        changes=tuple(changes),
        schema_before=old.schema.id if plan.schema else None,
        schema_after=plan.schema.id if plan.schema else None,
        idempotency_key=plan.idempotency_key,
        request=plan.request,
        affected_nodes=plan.affected[0] if plan.affected else None,
        affected_edges=plan.affected[1] if plan.affected else None,
        summary=plan.summary,
        purged=plan.purged,
        refers_to=plan.refers_to,
    )
    commit = add_digest(commit, snapshot.commit, plan.schema or old.schema)
    hidden = {**old.dropped, **{key: pin for key, pin in dropped.items() if key not in purged}}
    return replace(
        old,
        schema=plan.schema or old.schema,
        old_schemas=(*old.old_schemas, old.schema) if plan.schema else old.old_schemas,
        tables=tables,
        pins=pins,
        dropped={key: _add_recorded(plan, pin) for key, pin in hidden.items() if key not in pins},
        head=commit_id,
        commits=(*old.commits, commit),
    )


def _add_recorded(plan: CommitPlan, pin: Pin) -> Pin:
    recorded = plan.recorded.get(pin.path)
    return pin if recorded is None else recorded.apply(pin)


def _build_change(table_key: str, old: Manifest, after: Pin | None, table: TableRecord | None) -> PinChange:
    """Build the record of a commit's change to one table key: its pin, and the table that the key names."""
    before = old.pins.get(table_key)
    old_table = old.tables.get(table_key)
    pin = after or before
    sum_before, lists = (before.sum, before.lists) if before else (None, ())
    if before and after and before.version == after.version:
        # The checksum of a version that does not change holds for the state before as well.
        sum_before, lists = after.sum, ()
    return PinChange(
        table_key=table_key,
        path=pin.path if pin else "",
        before=str(before.version) if before else None,
        after=str(after.version) if after else None,
        rows_before=before.rows if before else 0,
        rows_after=after.rows if after else 0,
        replaced=old_table if old_table != table else None,
        branch_before=before.branch if before else MAIN,
        sum_before=sum_before,
        sum_after=after.sum if after else None,
        lists_before=tuple(name for name in lists if after and name not in after.lists),
    )
