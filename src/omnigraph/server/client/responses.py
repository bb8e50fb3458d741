"""A server's JSON as the values that the embedded graph gives; where those hold more than travels, as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from omnigraph.commit.manifest_types import Commit, Pin, PinChange
from omnigraph.commit.purges import Purge
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind
from omnigraph.ops.branch import Branch
from omnigraph.ops.load_call import LoadResult, TypeCounts
from omnigraph.ops.merge_result import MergeOutcome, MergeResult, TableMerge
from omnigraph.ops.mutate import MutationResult
from omnigraph.ops.schema_apply import SchemaResult
from omnigraph.schema.migration_steps import MigrationPlan, Step, StepKind

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RemoteDocument:
    """What a server said, by name as attributes: `plan.steps`, `plan.is_safe`. `to_json` is all of it."""

    _document: Document

    def to_json(self) -> Document:
        """What every door shows."""
        return {name: value for name, value in self._document.items() if name != "text"}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - JSON
        plain = name.removeprefix("is_")
        if name.startswith("__") or plain not in self._document:
            raise AttributeError(name)
        return self._document[plain]

    def __str__(self) -> str:
        return str(self._document.get("text", self._document))


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """One state of a branch, as far as every door shows it; see `Snapshot`."""

    _document: Document

    @property
    def branch(self) -> str:
        """The branch."""
        return str(self._document["branch"])

    @property
    def commit(self) -> Commit:
        """The commit this is the state of."""
        return decode_commit(self._document["commit"])

    @property
    def manifest_version(self) -> int:
        """The version of the branch's manifest."""
        return int(self._document["manifest_version"])

    @property
    def pins(self) -> dict[str, Pin]:
        """The visible tables."""
        names = {one.name for one in fields(Pin)}
        tables = (
            {name: value for name, value in _rename_location(one).items() if name in names}
            for one in self._document["tables"]
        )
        pins = (Pin(**{**one, "version": int(one["version"])}) for one in tables)
        return {pin.table_key: pin for pin in pins}

    def to_json(self) -> Document:
        """What every door shows."""
        return {name: value for name, value in self._document.items() if name != "commit"}


def decode_plan(said: Mapping[str, Any]) -> MigrationPlan:
    """The steps from one schema to another."""
    return MigrationPlan(tuple(_decode_step(one) for one in said["steps"]), tuple(said["notes"]))


def _decode_step(said: Mapping[str, Any]) -> Step:
    return Step(
        kind=StepKind(said["step"]),
        type=said["type"],
        table=said.get("table"),
        message=said["message"],
        property_name=said["property"],
        facts=said["details"],
        code=said["code"],
        validates=said["validates"],
        is_hard=not said.get("soft", True),
    )


def decode_schema_result(said: Mapping[str, Any]) -> SchemaResult:
    """What a change of the schema did."""
    return SchemaResult(
        branch=said["target"]["branch"],
        commit_id=said["commit_id"],
        plan=decode_plan(said),
        held_by=tuple(said.get("held_by", ())),
    )


def decode_mutation(said: Mapping[str, Any]) -> MutationResult:
    """What a mutation did."""
    return MutationResult(
        query_name=said["query_name"],
        branch=said["target"]["branch"],
        commit_id=said["commit_id"],
        affected_nodes=said["affected_nodes"],
        affected_edges=said["affected_edges"],
    )


def decode_load(said: Mapping[str, Any]) -> LoadResult:
    """What a load did."""
    return LoadResult(
        mode=LoadMode(said["mode"]),
        branch=said["target"]["branch"],
        commit_id=said["commit_id"],
        nodes={name: TypeCounts(**one) for name, one in said["nodes"].items()},
        edges={name: TypeCounts(**one) for name, one in said["edges"].items()},
        rejected=said["rejected"],
        quarantine=said["quarantine"],
        is_dry_run=said["dry_run"],
    )


def decode_branch(said: Mapping[str, Any]) -> Branch:
    """A branch."""
    return Branch(**said)


def decode_commit(said: Mapping[str, Any]) -> Commit:
    """A commit, as far as every door shows it."""
    own = frozenset(Commit.__struct_fields__) - {"changes", "purged"}
    known = {name: value for name, value in said.items() if name in own}
    return Commit(
        **known,
        changes=tuple(PinChange(**_rename_location(one)) for one in said["changes"]),
        purged=tuple(Purge(**_rename_location(one)) for one in said.get("purged", ())),
    )


def _rename_location(said: Mapping[str, Any]) -> Document:
    return {"path" if name == "location" else name: value for name, value in said.items()}


def decode_merge(said: Mapping[str, Any]) -> MergeResult:
    """What a merge did, or would do."""
    conflicts = said["conflicts"]
    return MergeResult(
        outcome=MergeOutcome(said["outcome"]),
        source=said["source"],
        into=said["into"],
        source_commit=said["source_commit"],
        base_commit=said["base_commit"],
        commit_id=said["commit_id"],
        is_dry_run=said["dry_run"],
        tables=tuple(TableMerge(**one) for one in said["tables"]),
        conflicts=tuple(Conflict(**{**one, "kind": ConflictKind(one["kind"])}) for one in conflicts["shown"]),
        conflict_counts=dict(conflicts["kinds"]),
        restored_edges=dict(said["restored_edges"]),
    )
