"""The arguments, progress and result of a load."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.commit.idempotency import KeyReusedError
from omnigraph.commit.manifest_types import Commit
from omnigraph.engine.bulk.load_batch import LoadMode, OnDuplicate
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.load_inputs import LoadInput
from omnigraph.schema.catalog import Catalog

# The last phase of a load: from here on it may be committed.
PUBLISHING = "publish"
_REJECTED = "rejected"
# In a commit's summary, which is keyed by type name: the entry of the load as a whole, with its mode. No type has it.
_WHOLE_LOAD = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a load: its phase, `read`, `check`, `write` or `publish`, and the rows and bytes of that phase.

    If the engine was chosen automatically, a phase `engine` comes first, and `detail` names the engine and the reason.
    """

    phase: str
    rows: int = 0
    bytes: int = 0
    total_bytes: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCall:
    """The arguments of a load.

    With `on_error`, a directory, rejected records are quarantined there, up to `max_errors` of them. Without it, one
    rejected record fails the load.
    """

    input: LoadInput
    mode: LoadMode
    actor: str
    message: str | None = None
    idempotency_key: str | None = None
    on_error: Path | None = None
    max_errors: int | None = None
    is_dry_run: bool = False
    on_duplicate: OnDuplicate = OnDuplicate.ERROR
    only_known: bool = False
    """Whether a merge only updates: records without an existing row are skipped."""
    digests: Mapping[int, str] = field(default_factory=dict)
    """Digests of typed sources, by their number, where one can't be computed while the rows are read."""
    is_known_by_key: bool = False
    """Whether the idempotency key alone identifies the load, and its content is not compared."""
    progress: Callable[[Progress], None] | None = None

    def report_progress(self, phase: str, rows: int, done: int = 0, total: int | None = None) -> None:
        """Report progress to the callback, if there is one."""
        if self.progress is not None:
            self.progress(Progress(phase=phase, rows=rows, bytes=done, total_bytes=total))

    def report_engine(self, detail: str) -> None:
        """Report the selected engine and the reason."""
        if self.progress is not None:
            self.progress(Progress(phase="engine", detail=detail))


# Stored in the summary of a commit, from which `restore_result` builds it again: a field, once added, must stay.
class TypeCounts(JsonStruct, frozen=True, kw_only=True):
    """The row counts of one type.

    `read` counts accepted records, `unchanged` those equal to their existing row, and `duplicates` those left out
    because another record of the load has their id.
    """

    read: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    duplicates: int = 0

    @property
    def changes(self) -> int:
        """The number of rows inserted, updated or deleted."""
        return self.inserted + self.updated + self.deleted


class LoadResult(JsonStruct, frozen=True, kw_only=True):
    """The result of a load, by type. There is no commit if nothing changed, or in a dry run."""

    json_keys = "mode target.branch=branch commit_id nodes edges rejected quarantine dry_run=is_dry_run warnings"

    mode: LoadMode
    branch: str
    commit_id: str | None
    nodes: Mapping[str, TypeCounts] = {}
    edges: Mapping[str, TypeCounts] = {}
    rejected: int = 0
    quarantine: str | None = None
    """The directory with the rejected records, if there are any."""
    is_dry_run: bool = False
    warnings: tuple[str, ...] = ()
    """What may not have been meant, although it was loaded."""

    @property
    def affected(self) -> tuple[int, int]:
        """The number of nodes and edges inserted, updated or deleted."""
        nodes = sum(counts.changes for counts in self.nodes.values())
        edges = sum(counts.changes for counts in self.edges.values())
        return nodes, edges

    def summary(self) -> dict[str, dict[str, int]]:
        """Return the summary stored in the commit, from which a repeated call gets the same result."""
        by_type = {name: counts.to_json() for name, counts in (*self.nodes.items(), *self.edges.items())}
        # Earlier releases don't know this count: it is stored only where there is something to count.
        for counts in by_type.values():
            if not counts["duplicates"]:
                del counts["duplicates"]
        return {**by_type, _WHOLE_LOAD: {self.mode.value: 1, _REJECTED: self.rejected}}


def restore_result(commit: Commit, call: LoadCall, catalog: Catalog, branch: str) -> LoadResult:
    """Rebuild the result of the load that made a commit.

    Raises:
        KeyReusedError: That load had another mode.
    """
    summary = commit.summary or {}
    whole = summary.get(_WHOLE_LOAD, {})
    # The mode is stored as a key, since the values of a summary are numbers.
    for mode in LoadMode:
        if mode.value in whole and mode is not call.mode:
            raise KeyReusedError(
                commit.idempotency_key or "", commit.id, f"load {mode.value}", f"load {call.mode.value}"
            )
    counts = {name: TypeCounts(**numbers) for name, numbers in summary.items() if name != _WHOLE_LOAD}
    rejected = whole.get(_REJECTED, 0)
    return LoadResult(
        mode=call.mode,
        branch=branch,
        commit_id=commit.id,
        # A summary does not tell nodes from edges: the schema does.
        nodes={name: numbers for name, numbers in counts.items() if name in catalog.nodes},
        edges={name: numbers for name, numbers in counts.items() if name in catalog.edges},
        rejected=rejected,
        quarantine=str(call.on_error) if rejected and call.on_error else None,
    )
