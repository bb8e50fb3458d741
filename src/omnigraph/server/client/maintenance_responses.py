"""Decode a server's JSON about maintenance into the result classes of an embedded graph."""

from collections.abc import Mapping
from typing import Any

from omnigraph.commit.manifest_types import Pin
from omnigraph.commit.sidecar import BrokenSidecar, Sidecar
from omnigraph.ops.check import CheckResult
from omnigraph.ops.check_findings import Finding
from omnigraph.ops.cleanup import CleanupResult, SweptBranch, SweptTable
from omnigraph.ops.embed import EmbeddedProperty, EmbedResult
from omnigraph.ops.indexes import IndexReport, IndexState
from omnigraph.ops.operations import Operations
from omnigraph.ops.optimize import OptimizeResult
from omnigraph.ops.optimize_table import TableUpkeep
from omnigraph.ops.recoveries import Recovery, TableOutcome
from omnigraph.ops.repair_plan import Certainty, LostStep, Remedy, TableRepairPlan
from omnigraph.ops.repair_result import (
    FileRepair,
    HistoryRepair,
    ManifestRepair,
    RepairOutcome,
    RepairResult,
    TableRepair,
)
from omnigraph.ops.verify import VerifyResult

JsonObject = Mapping[str, Any]


def decode_index(document: JsonObject) -> IndexReport:
    """Decode an index."""
    return IndexReport(
        type_name=document["type"],
        column=document["property"],
        kind=document["kind"],
        state=IndexState(document["state"]),
        rows=document["rows"],
        covered=document["rows_covered"],
        name=document["name"],
        segments=document["segments"],
        nbytes=document["bytes"],
    )


def decode_operations(document: JsonObject) -> Operations:
    """Decode the operations in progress; fields that the JSON form does not have are empty."""
    dead = frozenset(item["id"] for item in document["pending"] if item["state"] == "dead")
    # A sidecar's stored state is never `dead`: `Operations` derives that from the ids in `dead`.
    stored = ({**item, "state": "running"} if item["id"] in dead else item for item in document["pending"])
    pending = tuple(Sidecar(**item, manifest_path="", base_seq=0) for item in stored)
    return Operations(pending, tuple(BrokenSidecar(**item) for item in document["broken"]), dead)


def decode_recovery(document: JsonObject) -> Recovery:
    """Decode what recovery did about one operation."""
    tables = tuple(TableOutcome(**table) for table in document["tables"])
    return Recovery(**{**document, "tables": tables})


def decode_embed(document: JsonObject) -> EmbedResult:
    """Decode the result of an embed."""
    same_fields = {name: document[name] for name in ("type", "provider", "model", "dry_run")}
    return EmbedResult(
        **same_fields,
        branch=document["target"]["branch"],
        properties=tuple(EmbeddedProperty(**item) for item in document["properties"]),
        commits=tuple(document["commits"]),
    )


def decode_optimize(document: JsonObject) -> OptimizeResult:
    """Decode the result of an optimize."""
    tables = []
    for table in document["tables"]:
        # `committed` is not a field of `TableUpkeep`: its JSON form derives it from the commit.
        same_fields = {name: value for name, value in table.items() if name != "committed"}
        lists = {name: tuple(table[name]) for name in ("indexes_built", "indexes_pending")}
        tables.append(TableUpkeep(**{**same_fields, **lists}))
    return OptimizeResult(branch=document["branch"], tables=tuple(tables))


def decode_cleanup(document: JsonObject) -> CleanupResult:
    """Decode the result of a cleanup."""
    return CleanupResult(
        is_preview=document["preview"],
        before=document["before"],
        epoch=document["epoch"],
        branches=tuple(SweptBranch(**branch) for branch in document["branches"]),
        tables=tuple(SweptTable(**table) for table in document["tables"]),
        unknown_files=tuple(document["unknown_files"]),
        versions_read=document["versions_read"],
    )


def decode_check(document: JsonObject, uri: str) -> CheckResult:
    """Decode the result of a check; `uri` is the graph's address for this client."""
    return CheckResult(
        uri=uri,
        branches=tuple(document["branches"]),
        findings=tuple(_decode_finding(finding) for finding in document["findings"]),
        commits=document["commits"],
        versions=document["versions"],
        files=document["files"],
        nbytes=document["bytes"],
        rows_read=document["rows_read"],
        verified=document["verified"],
        unrecorded=document["unrecorded"],
        recorded=document["recorded"],
    )


def decode_verify(document: JsonObject, uri: str) -> VerifyResult:
    """Decode the result of a verify; `uri` is the graph's address for this client."""
    return VerifyResult(**{**document, "uri": uri, "unproven": tuple(document["unproven"])})


def _decode_finding(document: JsonObject) -> Finding:
    return Finding(
        code=document["code"],
        thing=document["thing"],
        place=document["place"],
        message=document["message"],
        branches=tuple(document["branches"]),
        count=document["count"],
        nbytes=document["bytes"],
    )


def decode_repair(document: JsonObject, uri: str) -> RepairResult:
    """Decode the preview of a repair; `uri` is the graph's address for this client."""
    return RepairResult(
        uri=uri,
        is_confirmed=document["confirmed"],
        manifests=tuple(_decode_manifest(item) for item in document["manifests"]),
        tables=tuple(_decode_table(item) for item in document["tables"]),
        histories=tuple(_decode_history(item) for item in document["histories"]),
        files=tuple(_decode_file(item) for item in document["files"]),
        moved_heads={key: int(version) for key, version in document["moved_heads"].items()},
    )


def _decode_file(document: JsonObject) -> FileRepair:
    return FileRepair(
        owner=document["owner"],
        place=document["place"],
        reason=document["reason"],
        nbytes=document["bytes"],
        outcome=RepairOutcome(document["outcome"]),
        trouble=document["trouble"],
    )


# Derived from fields: `certainty` is a property of the classes, and the other two repeat it and `outcome`.
_DERIVED = frozenset({"certainty", "classification", "action"})


def _decode_manifest(document: JsonObject) -> ManifestRepair:
    # The JSON form calls `path` "place".
    same_fields = {name: value for name, value in document.items() if name not in (*_DERIVED, "place", "outcome")}
    return ManifestRepair(**same_fields, path=document["place"], outcome=RepairOutcome(document["outcome"]))


def _decode_history(document: JsonObject) -> HistoryRepair:
    same_fields = {name: value for name, value in document.items() if name not in (*_DERIVED, "outcome")}
    return HistoryRepair(**same_fields, outcome=RepairOutcome(document["outcome"]))


def _decode_table(document: JsonObject) -> TableRepair:
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
        lost=tuple(_decode_lost_step(step) for step in document["lost"]),
        lost_rows=document["lost_rows"],
    )
    return TableRepair(
        branch=document["branch"],
        plan=plan,
        outcome=RepairOutcome(document["outcome"]),
        commit_id=document["commit_id"],
        dangling=tuple(document["dangling"]),
    )


def _decode_lost_step(document: JsonObject) -> LostStep:
    # The JSON form calls `is_content` "changed_rows".
    same_fields = {name: value for name, value in document.items() if name != "changed_rows"}
    return LostStep(**same_fields, is_content=document["changed_rows"])
