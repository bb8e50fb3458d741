"""A load as it is asked for, and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.commit.idempotency import KeyReusedError
from omnigraph.commit.manifest_types import Commit
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.ops.load_inputs import LoadInput
from omnigraph.schema.catalog import Catalog

PUBLISHING = "publish"
"""The last phase of a load: from here on it may be done."""
_REJECTED = "rejected"
_WHOLE_LOAD = ""
"""In a commit's summary, the name that no type has: what is said of the load as a whole, its mode too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a load is: `read`, `check`, `write` or `publish`, the rows and bytes of that phase so far.

    Before them there is `engine`, where that was left open; then `detail` says which one it is, and why.
    """

    phase: str
    rows: int = 0
    bytes: int = 0
    total_bytes: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCall:
    """A load as it was asked for.

    With `on_error`, a directory, bad records are left out and kept there, up to `max_errors` of them. Without it one
    bad record fails the load.
    """

    input: LoadInput
    mode: LoadMode
    actor: str
    message: str | None = None
    idempotency_key: str | None = None
    on_error: Path | None = None
    max_errors: int | None = None
    is_dry_run: bool = False
    only_known: bool = False
    """Whether records of a merge whose row is not there are passed over, and don't make one."""
    digests: Mapping[int, str] = field(default_factory=dict)
    """By their number among the typed sources, digests of rows that a digest can't be taken of on the way."""
    is_known_by_key: bool = False
    """Whether the idempotency key alone says which load it is, and its content is not compared."""
    progress: Callable[[Progress], None] | None = None

    def report_progress(self, phase: str, rows: int, done: int = 0, total: int | None = None) -> None:
        """Say how far the load is, to whoever wants to know."""
        if self.progress is not None:
            self.progress(Progress(phase=phase, rows=rows, bytes=done, total_bytes=total))

    def report_engine(self, detail: str) -> None:
        """Say who does it, and why."""
        if self.progress is not None:
            self.progress(Progress(phase="engine", detail=detail))


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCounts:
    """What a load did to one type. `read` are good records, `unchanged` those that said what was there already."""

    read: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0

    def to_json(self) -> dict[str, int]:
        """For programs, and for the commit."""
        return {
            "read": self.read,
            "inserted": self.inserted,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "deleted": self.deleted,
        }

    @property
    def changes(self) -> int:
        """How many rows came, went, or say something else."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What a load did. Without an effect, or in a dry run, there is no commit."""

    mode: LoadMode
    branch: str
    commit_id: str | None
    nodes: Mapping[str, TypeCounts] = field(default_factory=dict)
    edges: Mapping[str, TypeCounts] = field(default_factory=dict)
    rejected: int = 0
    quarantine: str | None = None
    """The directory that holds the rejected records, when there are any."""
    is_dry_run: bool = False

    @property
    def affected(self) -> tuple[int, int]:
        """How many nodes and edges came, went or were changed."""
        return sum(one.changes for one in self.nodes.values()), sum(one.changes for one in self.edges.values())

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "mode": self.mode.value,
            "target": {"branch": self.branch},
            "commit_id": self.commit_id,
            "nodes": {name: counts.to_json() for name, counts in self.nodes.items()},
            "edges": {name: counts.to_json() for name, counts in self.edges.items()},
            "rejected": self.rejected,
            "quarantine": self.quarantine,
            "dry_run": self.is_dry_run,
        }

    def summary(self) -> dict[str, dict[str, int]]:
        """What a commit keeps of this, so that the same call made again is answered alike, and another is not."""
        kept = {name: one.to_json() for name, one in (*self.nodes.items(), *self.edges.items())}
        return {**kept, _WHOLE_LOAD: {self.mode.value: 1, _REJECTED: self.rejected}}


def restore_result(commit: Commit, call: LoadCall, catalog: Catalog, branch: str) -> LoadResult:
    """The answer, on a branch, of the load that made a commit of its history; KeyReusedError if its mode differs."""
    summary = commit.summary or {}
    whole = summary.get(_WHOLE_LOAD, {})
    for mode in LoadMode:
        if mode.value in whole and mode is not call.mode:
            raise KeyReusedError(
                commit.idempotency_key or "", commit.id, f"load {mode.value}", f"load {call.mode.value}"
            )
    counts = {name: TypeCounts(**one) for name, one in summary.items() if name != _WHOLE_LOAD}
    rejected = whole.get(_REJECTED, 0)
    return LoadResult(
        mode=call.mode,
        branch=branch,
        commit_id=commit.id,
        nodes={name: one for name, one in counts.items() if name in catalog.nodes},
        edges={name: one for name, one in counts.items() if name in catalog.edges},
        rejected=rejected,
        quarantine=str(call.on_error) if rejected and call.on_error else None,
    )
