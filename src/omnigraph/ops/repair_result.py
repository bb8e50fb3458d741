"""What a repair has found and done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.ops.repair_plan import Certainty, TableRepairPlan


class RepairOutcome(Enum):
    """What became of a plan."""

    PLANNED = "planned"
    """A preview: nothing was done."""
    PUBLISHED = "published"
    REFUSED = "refused"
    """It was not done, because it may lose something and nobody forced it, or because it can't be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRepair:
    """A manifest whose newest version can't be used."""

    branch: str
    path: str
    reason: str
    from_version: int
    to_version: int | None
    """The newest whole version; None when there is none."""
    to_commit: str | None
    to_time: str | None
    outcome: RepairOutcome = RepairOutcome.PLANNED
    commit_id: str | None = None

    @property
    def certainty(self) -> Certainty:
        """What the damaged versions have published is not known."""
        return Certainty.UNVERIFIABLE

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "branch": self.branch,
            "place": self.path,
            "reason": self.reason,
            "from_version": self.from_version,
            "to_version": self.to_version,
            "to_commit": self.to_commit,
            "to_time": self.to_time,
            "certainty": self.certainty.value,
            "classification": self.certainty.value,
            "outcome": self.outcome.value,
            "action": self.outcome.value,
            "commit_id": self.commit_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRepair:
    """A part of a branch's history that can't be read. Without it, the history begins later."""

    branch: str
    place: str
    reason: str
    oldest_commit: str
    """The oldest commit that is left."""
    oldest_time: str
    outcome: RepairOutcome = RepairOutcome.PLANNED
    commit_id: str | None = None

    @property
    def certainty(self) -> Certainty:
        """What the lost commits were is not known."""
        return Certainty.UNVERIFIABLE

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "branch": self.branch,
            "place": self.place,
            "reason": self.reason,
            "oldest_commit": self.oldest_commit,
            "oldest_time": self.oldest_time,
            "certainty": self.certainty.value,
            "classification": self.certainty.value,
            "outcome": self.outcome.value,
            "action": self.outcome.value,
            "commit_id": self.commit_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepair:
    """A table of a branch that is not as it should be, and what was done about it."""

    branch: str
    plan: TableRepairPlan
    outcome: RepairOutcome
    commit_id: str | None = None
    dangling: tuple[str, ...] = ()
    """What is said of edges that lead to no node once that is done."""

    def to_json(self) -> dict[str, object]:
        """What every door shows; versions are text, since they exceed what JSON's numbers hold."""
        plan, target = self.plan, self.plan.target
        return {
            "branch": self.branch,
            "table_key": plan.pin.table_key,
            "place": plan.pin.path,
            "remedy": plan.remedy.value,
            "certainty": plan.certainty.value,
            "classification": plan.certainty.value,
            "reasons": list(plan.reasons),
            "from_version": str(plan.pin.version),
            "to_version": None if target is None else str(target.version),
            "rows_before": plan.pin.rows,
            "rows_after": 0 if target is None else target.rows,
            "dropped_indexes": list(plan.dropped_indexes),
            "lost_rows": plan.lost_rows,
            "lost": [step.to_json() for step in plan.lost],
            "dangling": list(self.dangling),
            "outcome": self.outcome.value,
            "action": self.outcome.value,
            "commit_id": self.commit_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRepair:
    """A file that is missing or damaged, and what a copy of the graph has in its place."""

    owner: str
    """The key of its table, or which manifest it belongs to."""
    place: str
    """The file, or the directory of an index or of blobs, relative to the root."""
    reason: str
    nbytes: int
    """The size of what the copy has."""
    outcome: RepairOutcome
    trouble: str | None = None
    """Why it can't be put in place, if it can't."""

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "owner": self.owner,
            "place": self.place,
            "reason": self.reason,
            "bytes": self.nbytes,
            "outcome": self.outcome.value,
            "action": self.outcome.value,
            "trouble": self.trouble,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """Everything that is wrong and can be repaired, or not; branch by branch."""

    uri: str
    is_confirmed: bool
    manifests: tuple[ManifestRepair, ...]
    tables: tuple[TableRepair, ...]
    histories: tuple[HistoryRepair, ...] = ()
    files: tuple[FileRepair, ...] = ()
    """What was fetched from a copy of the graph, where one was named."""
    moved_heads: Mapping[str, int] = field(default_factory=dict)
    """Tables that other tools have written to: harmless, because the graph reads pinned versions."""

    @property
    def has_refused(self) -> bool:
        """Whether something was asked for, and not done."""
        outcomes = [one.outcome for one in self.manifests]
        outcomes += [one.outcome for one in self.histories]
        outcomes += [one.outcome for one in self.tables]
        outcomes += [one.outcome for one in self.files]
        return self.is_confirmed and RepairOutcome.REFUSED in outcomes

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "uri": self.uri,
            "confirmed": self.is_confirmed,
            "manifests": [one.to_json() for one in self.manifests],
            "histories": [one.to_json() for one in self.histories],
            "tables": [one.to_json() for one in self.tables],
            "files": [one.to_json() for one in self.files],
            "moved_heads": {key: str(version) for key, version in self.moved_heads.items()},
        }
