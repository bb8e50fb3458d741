"""The results of a repair."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.ops.repair_plan import Certainty, TableRepairPlan


class RepairOutcome(Enum):
    """The outcome of a planned repair."""

    PLANNED = "planned"
    """A preview: nothing was done."""
    PUBLISHED = "published"
    REFUSED = "refused"
    """It was not done, because it may lose data and was not forced, or because it is impossible."""


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
        """Always unverifiable: it is unknown what the damaged versions have published."""
        return Certainty.UNVERIFIABLE

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
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
        """Always unverifiable: the lost commits are unknown."""
        return Certainty.UNVERIFIABLE

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
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
    """A damaged table of a branch, and what was done about it."""

    branch: str
    plan: TableRepairPlan
    outcome: RepairOutcome
    commit_id: str | None = None
    dangling: tuple[str, ...] = ()
    """Descriptions of edges whose end nodes are missing after the repair."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        plan = self.plan
        target = plan.target
        # Versions are text: detached ones exceed the integers that JSON readers represent exactly.
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
    """A missing or damaged file, and its replacement in a copy of the graph."""

    owner: str
    """The key of its table, or the manifest it belongs to."""
    place: str
    """The file, or the directory of an index or of blobs, relative to the root."""
    reason: str
    nbytes: int
    """The size of the replacement."""
    outcome: RepairOutcome
    trouble: str | None = None
    """The reason why it can't be replaced, if it can't."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
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
    """All damage found, by branch, and what was done about it."""

    uri: str
    is_confirmed: bool
    manifests: tuple[ManifestRepair, ...]
    tables: tuple[TableRepair, ...]
    histories: tuple[HistoryRepair, ...] = ()
    files: tuple[FileRepair, ...] = ()
    """Files fetched from a copy of the graph, if one was named."""
    moved_heads: Mapping[str, int] = field(default_factory=dict)
    """Tables that other tools have written to: harmless, because the graph reads pinned versions."""

    @property
    def has_refused(self) -> bool:
        """Whether the repair was confirmed, but a part of it was refused."""
        repairs: list[ManifestRepair | HistoryRepair | TableRepair | FileRepair] = [*self.manifests, *self.histories]
        repairs += [*self.tables, *self.files]
        return self.is_confirmed and any(repair.outcome is RepairOutcome.REFUSED for repair in repairs)

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "uri": self.uri,
            "confirmed": self.is_confirmed,
            "manifests": [manifest.to_json() for manifest in self.manifests],
            "histories": [history.to_json() for history in self.histories],
            "tables": [table.to_json() for table in self.tables],
            "files": [file.to_json() for file in self.files],
            "moved_heads": {key: str(version) for key, version in self.moved_heads.items()},
        }
