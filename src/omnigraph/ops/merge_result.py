"""The result of a merge."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from omnigraph.engine.merging.conflicts import Conflict
from omnigraph.engine.merging.resolutions import write_conflicts
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.json_struct import JsonStruct


class MergeOutcome(Enum):
    """The outcome of a merge."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    """The target already contains the source."""
    FAST_FORWARD = "fast_forward"
    """The target had no changes since the merge base: it now equals the source."""
    MERGED = "merged"
    """The changes of both branches were combined."""
    CONFLICTS = "conflicts"
    """The branches conflict: nothing was published."""


class Strategy(Enum):
    """The side that wins where both changed the same part of a row."""

    OURS = "ours"
    THEIRS = "theirs"


class TableMerge(JsonStruct, frozen=True, kw_only=True):
    """The effect of a merge on one table of the target."""

    table: str
    how: str
    """`adopted`: the source's version was taken over, and no row was copied. `merged`: rows were written.

    `reshaped`: only its columns changed. `dropped`: the table was removed.
    """
    rows_before: int
    rows_after: int
    # Adopting a table only moves a pin, so its changed rows are not counted.
    inserted: int | None = None
    """Numbers of rows; None for an adopted or dropped table, whose rows were not read."""
    updated: int | None = None
    deleted: int | None = None


class MergeResult(JsonStruct, frozen=True, kw_only=True):
    """The result of a merge or dry run. With conflicts there is no commit; `conflicts` has the first of them."""

    json_keys = (
        "outcome source into source_commit into_commit base_commit commit_id dry_run=is_dry_run tables restored_edges "
        "conflicts.total=conflict_total conflicts.kinds=conflict_counts conflicts.shown=conflicts"
    )

    outcome: MergeOutcome
    source: str
    into: str
    source_commit: str
    into_commit: str
    """The state of the target that was merged into."""
    base_commit: str
    commit_id: str | None = None
    is_dry_run: bool = False
    tables: tuple[TableMerge, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    # Conflicts are listed up to a limit, and counted without one.
    conflict_counts: Mapping[str, int]
    """The number of conflicts by kind."""
    restored_edges: Mapping[str, int] = {}
    """By table, the number of edges kept with a node that `strategy` keeps, although the other side deleted both."""

    def list_conflicts(self) -> list[dict[str, Any]]:
        """Return the documents to decide about, for `resolutions`: the three commits, then each listed conflict.

        In each conflict set `take`: to `ours`, `theirs`, `base` or `{"value": …}`; for an edge without an end to
        `drop_edge` or `keep_node`; for another broken rule to `drop` or `{"value": …}`.
        """
        states = {"base": self.base_commit, "ours": self.into_commit, "theirs": self.source_commit}
        return write_conflicts(states, self.conflicts)

    @property
    def conflict_total(self) -> int:
        """The number of all conflicts, also of those that are not listed."""
        return sum(self.conflict_counts.values())


class MergeConflictsError(OmnigraphError):
    """Two branches conflict, or break the schema together, so nothing was merged; `result` lists the conflicts."""

    kind = Kind.CONFLICT
    code = "merge_conflicts"
    result: MergeResult

    def facts(self) -> dict[str, object]:
        """Return the first conflicts, and the result as JSON."""
        return {"conflicts": [conflict.to_json() for conflict in self.result.conflicts], "merge": self.result.to_json()}

    def __str__(self) -> str:
        # The message names one conflict; clients get the others from `facts`.
        first = self.result.conflicts[0].message
        return f"{format_conflict_count(self.result)}. First: {first}"


def format_conflict_count(result: MergeResult) -> str:
    """Return the first sentence about the conflicts of a merge: their number, and that nothing was merged."""
    total = result.conflict_total
    count = "1 conflict" if total == 1 else f"{total} conflicts"
    return f"{count} between `{result.source}` and `{result.into}`: nothing was merged"
