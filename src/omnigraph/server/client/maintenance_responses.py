"""A server's JSON about maintenance, as the values that the embedded graph gives."""

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


def decode_index(said: JsonObject) -> IndexReport:
    """An index."""
    return IndexReport(
        type_name=said["type"],
        column=said["property"],
        kind=said["kind"],
        state=IndexState(said["state"]),
        rows=said["rows"],
        covered=said["rows_covered"],
        name=said["name"],
        segments=said["segments"],
        nbytes=said["bytes"],
    )


def decode_operations(said: JsonObject) -> Operations:
    """What is under way, as far as every door shows it."""
    dead = frozenset(one["id"] for one in said["pending"] if one["state"] == "dead")
    known = ({**one, "state": "running"} if one["id"] in dead else one for one in said["pending"])
    pending = tuple(Sidecar(**one, manifest_path="", base_seq=0) for one in known)
    return Operations(pending, tuple(BrokenSidecar(**one) for one in said["broken"]), dead)


def decode_recovery(said: JsonObject) -> Recovery:
    """An operation that was settled."""
    return Recovery(**{**said, "tables": tuple(TableOutcome(**one) for one in said["tables"])})


def decode_embed(said: JsonObject) -> EmbedResult:
    """Which vectors were computed."""
    known = {name: said[name] for name in ("type", "provider", "model", "dry_run")}
    return EmbedResult(
        **known,
        branch=said["target"]["branch"],
        properties=tuple(EmbeddedProperty(**one) for one in said["properties"]),
        commits=tuple(said["commits"]),
    )


def decode_optimize(said: JsonObject) -> OptimizeResult:
    """What was done to tables."""
    tables = []
    for one in said["tables"]:
        known = {name: value for name, value in one.items() if name != "committed"}
        lists = {name: tuple(one[name]) for name in ("indexes_built", "indexes_pending")}
        tables.append(TableUpkeep(**{**known, **lists}))
    return OptimizeResult(branch=said["branch"], tables=tuple(tables))


def decode_cleanup(said: JsonObject) -> CleanupResult:
    """What was kept and removed."""
    return CleanupResult(
        is_preview=said["preview"],
        before=said["before"],
        epoch=said["epoch"],
        branches=tuple(SweptBranch(**one) for one in said["branches"]),
        tables=tuple(SweptTable(**one) for one in said["tables"]),
        unknown_files=tuple(said["unknown_files"]),
        versions_read=said["versions_read"],
    )


def decode_check(said: JsonObject, uri: str) -> CheckResult:
    """What a check found."""
    return CheckResult(
        uri=uri,
        branches=tuple(said["branches"]),
        findings=tuple(_decode_finding(one) for one in said["findings"]),
        commits=said["commits"],
        versions=said["versions"],
        files=said["files"],
        nbytes=said["bytes"],
        rows_read=said["rows_read"],
        verified=said["verified"],
        unrecorded=said["unrecorded"],
        recorded=said["recorded"],
    )


def decode_verify(said: JsonObject, uri: str) -> VerifyResult:
    """Return what was proved."""
    return VerifyResult(**{**said, "uri": uri, "unproven": tuple(said["unproven"])})


def _decode_finding(said: JsonObject) -> Finding:
    return Finding(
        code=said["code"],
        thing=said["thing"],
        place=said["place"],
        message=said["message"],
        branches=tuple(said["branches"]),
        count=said["count"],
        nbytes=said["bytes"],
    )


def decode_repair(said: JsonObject, uri: str) -> RepairResult:
    """What could be repaired."""
    return RepairResult(
        uri=uri,
        is_confirmed=said["confirmed"],
        manifests=tuple(_decode_manifest(one) for one in said["manifests"]),
        tables=tuple(_decode_table(one) for one in said["tables"]),
        histories=tuple(_decode_history(one) for one in said["histories"]),
        files=tuple(_decode_file(one) for one in said["files"]),
        moved_heads={key: int(version) for key, version in said["moved_heads"].items()},
    )


def _decode_file(said: JsonObject) -> FileRepair:
    return FileRepair(
        owner=said["owner"],
        place=said["place"],
        reason=said["reason"],
        nbytes=said["bytes"],
        outcome=RepairOutcome(said["outcome"]),
        trouble=said["trouble"],
    )


def _decode_manifest(said: JsonObject) -> ManifestRepair:
    known = {name: value for name, value in said.items() if name not in ("place", "certainty", "outcome")}
    return ManifestRepair(**known, path=said["place"], outcome=RepairOutcome(said["outcome"]))


def _decode_history(said: JsonObject) -> HistoryRepair:
    known = {name: value for name, value in said.items() if name not in ("certainty", "outcome")}
    return HistoryRepair(**known, outcome=RepairOutcome(said["outcome"]))


def _decode_table(said: JsonObject) -> TableRepair:
    key, path = said["table_key"], said["place"]
    target = None
    if said["to_version"] is not None:
        target = Pin(table_key=key, path=path, version=int(said["to_version"]), rows=said["rows_after"])
    plan = TableRepairPlan(
        pin=Pin(table_key=key, path=path, version=int(said["from_version"]), rows=said["rows_before"]),
        remedy=Remedy(said["remedy"]),
        certainty=Certainty(said["certainty"]),
        reasons=tuple(said["reasons"]),
        target=target,
        dropped_indexes=tuple(said["dropped_indexes"]),
        lost=tuple(_decode_lost_step(one) for one in said["lost"]),
        lost_rows=said["lost_rows"],
    )
    return TableRepair(
        branch=said["branch"],
        plan=plan,
        outcome=RepairOutcome(said["outcome"]),
        commit_id=said["commit_id"],
        dangling=tuple(said["dangling"]),
    )


def _decode_lost_step(said: JsonObject) -> LostStep:
    known = {name: value for name, value in said.items() if name != "changed_rows"}
    return LostStep(**known, is_content=said["changed_rows"])
