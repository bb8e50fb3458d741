"""The results of a repair."""

from collections.abc import Mapping
from enum import Enum

from omnigraph.json_struct import JsonStruct
from omnigraph.ops.repair_plan import Certainty, TableRepairPlan


class RepairOutcome(Enum):
    """The outcome of a planned repair."""

    PLANNED = "planned"
    """A preview: nothing was done."""
    PUBLISHED = "published"
    REFUSED = "refused"
    """It was not done, because it may lose data and was not forced, or because it is impossible."""


class ManifestRepair(JsonStruct, frozen=True, kw_only=True):
    """A manifest whose newest version can't be used."""

    json_keys = (
        "branch place=path reason from_version to_version to_commit to_time certainty classification=certainty "
        "outcome action=outcome commit_id"
    )

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


class HistoryRepair(JsonStruct, frozen=True, kw_only=True):
    """A part of a branch's history that can't be read. Without it, the history begins later."""

    json_keys = (
        "branch place reason oldest_commit oldest_time certainty classification=certainty outcome action=outcome "
        "commit_id"
    )

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


class TableRepair(JsonStruct, frozen=True, kw_only=True):
    """A damaged table of a branch, and what was done about it."""

    json_keys = (
        "branch table_key=plan.pin.table_key place=plan.pin.path remedy=plan.remedy certainty=plan.certainty "
        "classification=plan.certainty reasons=plan.reasons from_version=plan.from_version "
        "to_version=plan.to_version rows_before=plan.pin.rows rows_after=plan.rows_after "
        "dropped_indexes=plan.dropped_indexes lost_rows=plan.lost_rows lost=plan.lost dangling outcome "
        "action=outcome commit_id"
    )

    branch: str
    plan: TableRepairPlan
    outcome: RepairOutcome
    commit_id: str | None = None
    dangling: tuple[str, ...] = ()
    """Descriptions of edges whose end nodes are missing after the repair."""


class FileRepair(JsonStruct, frozen=True, kw_only=True):
    """A missing or damaged file, and its replacement in a copy of the graph."""

    json_keys = "owner place reason bytes=nbytes outcome action=outcome trouble"

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


class RepairResult(JsonStruct, frozen=True, kw_only=True):
    """All damage found, by branch, and what was done about it."""

    json_keys = "uri confirmed=is_confirmed manifests histories tables files moved_heads=moved_versions"

    uri: str
    is_confirmed: bool
    manifests: tuple[ManifestRepair, ...]
    tables: tuple[TableRepair, ...]
    histories: tuple[HistoryRepair, ...] = ()
    files: tuple[FileRepair, ...] = ()
    """Files fetched from a copy of the graph, if one was named."""
    moved_heads: Mapping[str, int] = {}
    """Tables that other tools have written to: harmless, because the graph reads pinned versions."""

    @property
    def moved_versions(self) -> dict[str, str]:
        """The versions of `moved_heads` as text, since they may exceed what JSON numbers hold exactly."""
        return {key: str(version) for key, version in self.moved_heads.items()}

    @property
    def has_refused(self) -> bool:
        """Whether the repair was confirmed, but a part of it was refused."""
        repairs: list[ManifestRepair | HistoryRepair | TableRepair | FileRepair] = [*self.manifests, *self.histories]
        repairs += [*self.tables, *self.files]
        return self.is_confirmed and any(repair.outcome is RepairOutcome.REFUSED for repair in repairs)
