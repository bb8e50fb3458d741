"""Decode a server's JSON into the result classes of an embedded graph.

Results that have more fields than their JSON form are wrapped in a `RemoteDocument` or `RemoteSnapshot` instead.
"""

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
    """A JSON response with its fields as attributes: `plan.steps`, `plan.is_safe`."""

    _document: Document

    def to_json(self) -> Document:
        """Return the JSON form, without the text that `str` returns."""
        return {name: value for name, value in self._document.items() if name != "text"}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - JSON
        # `is_safe` of a result class is `safe` in its JSON form. Dunder names are hooks of Python, never fields.
        key = name.removeprefix("is_")
        if name.startswith("__") or key not in self._document:
            raise AttributeError(name)
        return self._document[key]

    def __str__(self) -> str:
        return str(self._document.get("text", self._document))


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """The JSON form of one state of a branch; see `Snapshot`."""

    _document: Document

    @property
    def branch(self) -> str:
        """The name of the branch."""
        return str(self._document["branch"])

    @property
    def commit(self) -> Commit:
        """The commit whose state this is."""
        return decode_commit(self._document["commit"])

    @property
    def manifest_version(self) -> int:
        """The version of the branch's manifest."""
        return int(self._document["manifest_version"])

    @property
    def pins(self) -> dict[str, Pin]:
        """The visible tables, by key."""
        names = {field.name for field in fields(Pin)}
        pins: dict[str, Pin] = {}
        for table in self._document["tables"]:
            values = {name: value for name, value in _rename_location(table).items() if name in names}
            # Versions travel as text.
            pin = Pin(**{**values, "version": int(values["version"])})
            pins[pin.table_key] = pin
        return pins

    def to_json(self) -> Document:
        """Return the JSON form of a snapshot."""
        # The commit is sent beside the JSON form, for the property above.
        return {name: value for name, value in self._document.items() if name != "commit"}


def decode_plan(document: Mapping[str, Any]) -> MigrationPlan:
    """Decode the steps from one schema to another."""
    return MigrationPlan(tuple(_decode_step(step) for step in document["steps"]), tuple(document["notes"]))


def _decode_step(document: Mapping[str, Any]) -> Step:
    return Step(
        kind=StepKind(document["step"]),
        type=document["type"],
        table=document.get("table"),
        message=document["message"],
        property_name=document["property"],
        facts=document["details"],
        code=document["code"],
        validates=document["validates"],
        is_hard=not document.get("soft", True),
    )


def decode_schema_result(document: Mapping[str, Any]) -> SchemaResult:
    """Decode the result of a schema change."""
    return SchemaResult(
        branch=document["target"]["branch"],
        commit_id=document["commit_id"],
        plan=decode_plan(document),
        held_by=tuple(document.get("held_by", ())),
    )


def decode_mutation(document: Mapping[str, Any]) -> MutationResult:
    """Decode the result of a mutation."""
    return MutationResult(
        query_name=document["query_name"],
        branch=document["target"]["branch"],
        commit_id=document["commit_id"],
        affected_nodes=document["affected_nodes"],
        affected_edges=document["affected_edges"],
    )


def decode_load(document: Mapping[str, Any]) -> LoadResult:
    """Decode the result of a load."""
    return LoadResult(
        mode=LoadMode(document["mode"]),
        branch=document["target"]["branch"],
        commit_id=document["commit_id"],
        nodes={name: TypeCounts(**counts) for name, counts in document["nodes"].items()},
        edges={name: TypeCounts(**counts) for name, counts in document["edges"].items()},
        rejected=document["rejected"],
        quarantine=document["quarantine"],
        is_dry_run=document["dry_run"],
    )


def decode_branch(document: Mapping[str, Any]) -> Branch:
    """Decode a branch."""
    return Branch(**document)


def decode_commit(document: Mapping[str, Any]) -> Commit:
    """Decode a commit; fields that its JSON form does not have keep their defaults."""
    scalar_names = frozenset(Commit.__struct_fields__) - {"changes", "purged"}
    # The JSON form has derived fields too, such as `collected`: they are dropped.
    scalars = {name: value for name, value in document.items() if name in scalar_names}
    return Commit(
        **scalars,
        changes=tuple(PinChange(**_rename_location(change)) for change in document["changes"]),
        purged=tuple(Purge(**_rename_location(purge)) for purge in document.get("purged", ())),
    )


def _rename_location(document: Mapping[str, Any]) -> Document:
    # The JSON form calls the path of a table its location.
    return {"path" if name == "location" else name: value for name, value in document.items()}


def decode_merge(document: Mapping[str, Any]) -> MergeResult:
    """Decode the result of a merge, or of its dry run."""
    conflicts = document["conflicts"]
    return MergeResult(
        outcome=MergeOutcome(document["outcome"]),
        source=document["source"],
        into=document["into"],
        source_commit=document["source_commit"],
        base_commit=document["base_commit"],
        commit_id=document["commit_id"],
        is_dry_run=document["dry_run"],
        tables=tuple(TableMerge(**table) for table in document["tables"]),
        conflicts=tuple(Conflict(**{**item, "kind": ConflictKind(item["kind"])}) for item in conflicts["shown"]),
        conflict_counts=dict(conflicts["kinds"]),
        restored_edges=dict(document["restored_edges"]),
    )
