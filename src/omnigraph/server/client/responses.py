"""Decode a server's JSON into the result classes of an embedded graph, unless `decode_struct` does.

Results that have more fields than their JSON form are wrapped in a `RemoteDocument` or `RemoteSnapshot` instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from omnigraph.commit.manifest_types import Commit, Pin
from omnigraph.commit.sidecar import BrokenSidecar, Sidecar
from omnigraph.json_struct import decode_struct
from omnigraph.ops.operations import Operations
from omnigraph.ops.repair_plan import Certainty, LostStep, Remedy, TableRepairPlan
from omnigraph.ops.repair_result import RepairResult, TableRepair
from omnigraph.ops.schema_apply import SchemaResult
from omnigraph.schema.migration_steps import MigrationPlan, Step

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
        return decode_struct(Commit, self._document["commit"])

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
    return decode_struct(MigrationPlan, document, steps=tuple(_decode_step(step) for step in document["steps"]))


def _decode_step(document: Mapping[str, Any]) -> Step:
    is_hard = not document.get("soft", True)
    return decode_struct(Step, document, table=document.get("table"), facts=document["details"], is_hard=is_hard)


def decode_schema_result(document: Mapping[str, Any]) -> SchemaResult:
    """Decode the result of a schema change."""
    held_by = tuple(document.get("held_by", ()))
    return decode_struct(SchemaResult, document, plan=decode_plan(document), held_by=held_by)


def _rename_location(document: Mapping[str, Any]) -> Document:
    # The JSON form calls the path of a table its location.
    return {"path" if name == "location" else name: value for name, value in document.items()}


def decode_operations(document: Mapping[str, Any]) -> Operations:
    """Decode the operations in progress; fields that the JSON form does not have are empty."""
    dead = frozenset(item["id"] for item in document["pending"] if item["state"] == "dead")
    # A sidecar's stored state is never `dead`: `Operations` derives that from the ids in `dead`.
    stored = ({**item, "state": "running"} if item["id"] in dead else item for item in document["pending"])
    pending = tuple(Sidecar(**item, manifest_path="", base_seq=0) for item in stored)
    return Operations(pending, tuple(BrokenSidecar(**item) for item in document["broken"]), dead)


def decode_repair(document: Mapping[str, Any], uri: str) -> RepairResult:
    """Decode the preview of a repair; `uri` is the graph's address for this client."""
    return decode_struct(
        RepairResult,
        document,
        uri=uri,
        tables=tuple(_decode_table(table) for table in document["tables"]),
        # Versions travel as text.
        moved_heads={key: int(version) for key, version in document["moved_heads"].items()},
    )


def _decode_table(document: Mapping[str, Any]) -> TableRepair:
    key = document["table_key"]
    path = document["place"]
    target = None
    # Versions travel as text.
    if document["to_version"] is not None:
        target = Pin(table_key=key, path=path, version=int(document["to_version"]), rows=document["rows_after"])
    plan = TableRepairPlan(
        pin=Pin(table_key=key, path=path, version=int(document["from_version"]), rows=document["rows_before"]),
        remedy=Remedy(document["remedy"]),
        certainty=Certainty(document["certainty"]),
        reasons=tuple(document["reasons"]),
        target=target,
        dropped_indexes=tuple(document["dropped_indexes"]),
        lost=tuple(decode_struct(LostStep, step) for step in document["lost"]),
        lost_rows=document["lost_rows"],
    )
    return decode_struct(TableRepair, document, plan=plan)
