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
from omnigraph.ops.repair_plan import Certainty, LostStep, Remedy, TablePlan
from omnigraph.ops.repair_result import FileRepair, HistoryRepair, ManifestRepair, Outcome, RepairResult, TableRepair
from omnigraph.ops.verify import VerifyResult

Said = Mapping[str, Any]


def index(said: Said) -> IndexReport:
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


def operations(said: Said) -> Operations:
    """What is under way, as far as every door shows it."""
    dead = frozenset(one["id"] for one in said["pending"] if one["state"] == "dead")
    known = ({**one, "state": "running"} if one["id"] in dead else one for one in said["pending"])
    pending = tuple(Sidecar(**one, manifest_path="", base_seq=0) for one in known)
    return Operations(pending, tuple(BrokenSidecar(**one) for one in said["broken"]), dead)


def recovery(said: Said) -> Recovery:
    """An operation that was settled."""
    return Recovery(**{**said, "tables": tuple(TableOutcome(**one) for one in said["tables"])})


def embedded(said: Said) -> EmbedResult:
    """Which vectors were computed."""
    known = {name: said[name] for name in ("type", "provider", "model", "dry_run")}
    return EmbedResult(
        **known,
        branch=said["target"]["branch"],
        properties=tuple(EmbeddedProperty(**one) for one in said["properties"]),
        commits=tuple(said["commits"]),
    )


def optimized(said: Said) -> OptimizeResult:
    """What was done to tables."""
    tables = []
    for one in said["tables"]:
        known = {name: value for name, value in one.items() if name != "committed"}
        lists = {name: tuple(one[name]) for name in ("indexes_built", "indexes_pending")}
        tables.append(TableUpkeep(**{**known, **lists}))
    return OptimizeResult(branch=said["branch"], tables=tuple(tables))


def cleaned(said: Said) -> CleanupResult:
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


def checked(said: Said, uri: str) -> CheckResult:
    """What a check found."""
    return CheckResult(
        uri=uri,
        branches=tuple(said["branches"]),
        findings=tuple(_finding(one) for one in said["findings"]),
        commits=said["commits"],
        versions=said["versions"],
        files=said["files"],
        nbytes=said["bytes"],
        rows_read=said["rows_read"],
        verified=said["verified"],
        unrecorded=said["unrecorded"],
        recorded=said["recorded"],
    )


def verified(said: Said, uri: str) -> VerifyResult:
    """Return what was proved."""
    return VerifyResult(**{**said, "uri": uri, "unproven": tuple(said["unproven"])})


def _finding(said: Said) -> Finding:
    return Finding(
        code=said["code"],
        thing=said["thing"],
        place=said["place"],
        message=said["message"],
        branches=tuple(said["branches"]),
        count=said["count"],
        nbytes=said["bytes"],
    )


def repaired(said: Said, uri: str) -> RepairResult:
    """What could be repaired."""
    return RepairResult(
        uri=uri,
        is_confirmed=said["confirmed"],
        manifests=tuple(_manifest(one) for one in said["manifests"]),
        tables=tuple(_table(one) for one in said["tables"]),
        histories=tuple(_history(one) for one in said["histories"]),
        files=tuple(_file(one) for one in said["files"]),
        moved_heads={key: int(version) for key, version in said["moved_heads"].items()},
    )


def _file(said: Said) -> FileRepair:
    return FileRepair(
        owner=said["owner"],
        place=said["place"],
        reason=said["reason"],
        nbytes=said["bytes"],
        outcome=Outcome(said["outcome"]),
        trouble=said["trouble"],
    )


def _manifest(said: Said) -> ManifestRepair:
    known = {name: value for name, value in said.items() if name not in ("place", "certainty", "outcome")}
    return ManifestRepair(**known, path=said["place"], outcome=Outcome(said["outcome"]))


def _history(said: Said) -> HistoryRepair:
    known = {name: value for name, value in said.items() if name not in ("certainty", "outcome")}
    return HistoryRepair(**known, outcome=Outcome(said["outcome"]))


def _table(said: Said) -> TableRepair:
    key, path = said["table_key"], said["place"]
    target = None
    if said["to_version"] is not None:
        target = Pin(table_key=key, path=path, version=int(said["to_version"]), rows=said["rows_after"])
    plan = TablePlan(
        pin=Pin(table_key=key, path=path, version=int(said["from_version"]), rows=said["rows_before"]),
        remedy=Remedy(said["remedy"]),
        certainty=Certainty(said["certainty"]),
        reasons=tuple(said["reasons"]),
        target=target,
        dropped_indexes=tuple(said["dropped_indexes"]),
        lost=tuple(_step(one) for one in said["lost"]),
        lost_rows=said["lost_rows"],
    )
    return TableRepair(
        branch=said["branch"],
        plan=plan,
        outcome=Outcome(said["outcome"]),
        commit_id=said["commit_id"],
        dangling=tuple(said["dangling"]),
    )


def _step(said: Said) -> LostStep:
    known = {name: value for name, value in said.items() if name != "changed_rows"}
    return LostStep(**known, is_content=said["changed_rows"])
