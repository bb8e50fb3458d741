"""What a merge says of itself, to every door."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.engine.merging.conflicts import Conflict
from omnigraph.errors import Kind, OmnigraphError


class MergeOutcome(Enum):
    """How a merge ended."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    """The target has everything that the source has."""
    FAST_FORWARD = "fast_forward"
    """The target had nothing of its own since: it has now what the source has."""
    MERGED = "merged"
    """The changes of both are together."""
    CONFLICTS = "conflicts"
    """They are not: nothing was published."""


class Strategy(Enum):
    """Whose word counts where both sides changed the same thing of a row."""

    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """What became of one table of the target."""

    table: str
    how: str
    """`adopted`: it is the source's version, and no row was copied. `merged`: rows were brought to it.

    `reshaped`: its columns changed, and nothing else. `dropped`.
    """
    rows_before: int
    rows_after: int
    inserted: int | None = None
    """How many rows; None, as the two below, of a table that was adopted or dropped: nobody looked at its rows."""
    updated: int | None = None
    deleted: int | None = None

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "table": self.table,
            "how": self.how,
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What a merge did, or would do. With conflicts there is no commit; `conflicts` are the first of them."""

    outcome: MergeOutcome
    source: str
    into: str
    source_commit: str
    base_commit: str
    commit_id: str | None = None
    is_dry_run: bool = False
    tables: tuple[TableMerge, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    conflict_counts: Mapping[str, int]
    """By kind, how many conflicts there are."""
    restored_edges: Mapping[str, int] = field(default_factory=dict)
    """By table, how many edges stay with a node that `strategy` keeps, although the other side deleted both."""

    @property
    def conflict_total(self) -> int:
        """How many conflicts there are."""
        return sum(self.conflict_counts.values())

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "outcome": self.outcome.value,
            "source": self.source,
            "into": self.into,
            "source_commit": self.source_commit,
            "base_commit": self.base_commit,
            "commit_id": self.commit_id,
            "dry_run": self.is_dry_run,
            "tables": [table.to_json() for table in self.tables],
            "restored_edges": dict(self.restored_edges),
            "conflicts": {
                "total": self.conflict_total,
                "kinds": dict(self.conflict_counts),
                "shown": [conflict.to_json() for conflict in self.conflicts],
            },
        }


class MergeConflictsError(OmnigraphError):
    """Two branches don't agree, or break the schema together, so nothing was merged; `result` lists the conflicts."""

    kind = Kind.CONFLICT
    code = "merge_conflicts"

    def __init__(self, result: MergeResult) -> None:
        super().__init__(result)
        self.result = result

    def facts(self) -> dict[str, object]:
        """Return the first conflicts, and the result as JSON."""
        return {"conflicts": [one.to_json() for one in self.result.conflicts], "merge": self.result.to_json()}

    def __str__(self) -> str:
        total = self.result.conflict_total
        count = "1 conflict" if total == 1 else f"{total} conflicts"
        first = self.result.conflicts[0].message
        return f"{count} between `{self.result.source}` and `{self.result.into}`: nothing was merged. First: {first}"
