"""What the manifest says, as values: tables, pins, commits, schemas, branches. All immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from omnigraph.commit.purges import Purge, build_dropped_error
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.storage.layout import ManifestPath, TablePath

MAIN = "main"
RECORD = "record"
"""The operation of a commit that changes nothing, and records what is there: a chain of digests begins with it."""
MAINTENANCE = frozenset({"optimize", "reindex", RECORD})
"""Operations that change how rows are stored, never what they say: they conflict with nothing."""


class TableRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A registered table. `identity` is the type's number; `incarnation` counts tables of one name."""

    table_key: str
    path: TablePath
    identity: int
    incarnation: int = 1


class PinChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One table of a commit: which version it left and which it reached. Versions are text: they exceed 2^63."""

    table_key: str
    path: TablePath
    before: str | None
    after: str | None
    rows_before: int = 0
    rows_after: int = 0
    replaced: TableRecord | None = None
    """The registered table of that key before, when this commit put another one in its place."""
    branch_before: str = MAIN
    """The branch whose commit had made the version that was left."""
    sum_before: str | None = None
    sum_after: str | None = None
    """The checksums of the files of both versions, where they were recorded."""
    lists_before: tuple[str, ...] = ()
    """Lists of checksums that the pin named before and does not name any more: earlier states need them still."""

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "table_key": self.table_key,
            "location": self.path,
            "before": self.before,
            "after": self.after,
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
        }


class MergedFrom(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the merged parent of a commit is found: its branch, that branch's manifest, and its number there."""

    branch: str
    path: ManifestPath
    seq: int
    digest: str | None = None
    """The digest of that commit, which stays known when its journal is gone."""


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One commit of a branch. `seq` counts from 0; `parent` is None for the first."""

    id: str
    parent: str | None
    merged_parent: str | None = None
    merged_from: MergedFrom | None = None
    """Where that one is; it may be in the journal of a branch that was deleted."""
    seq: int
    branch: str
    actor: str
    at: str
    operation: str
    message: str | None = None
    manifest_version: int
    changes: tuple[PinChange, ...] = ()
    schema_before: str | None = None
    schema_after: str | None = None
    idempotency_key: str | None = None
    request: str | None = None
    """A digest of what was asked for under the key, where that is known before it is done."""
    affected_nodes: int | None = None
    affected_edges: int | None = None
    """What a mutation answered, so that a repeated one can answer the same; None for other operations."""
    summary: Mapping[str, Mapping[str, int]] | None = None
    """What a load answered: by type, how many rows were read, inserted, updated and so on.

    Of a merge: by the location of a table, how many of its edges were restored with their nodes.
    """
    purged: tuple[Purge, ...] = ()
    """What a change of the schema dropped for good, from the branch's earlier states too."""
    digest: str | None = None
    """SHA-256 over this row and the parent's digest, see `commit.digests`; None in histories of older releases."""

    @property
    def is_maintenance(self) -> bool:
        """Whether this commit left every row as it was."""
        return self.operation in MAINTENANCE

    @property
    def is_silent(self) -> bool:
        """Whether every row and the schema say what they said before: maintenance, or an empty commit of recovery."""
        return self.is_maintenance or not (self.changes or self.schema_after)

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "id": self.id,
            "graph_commit_id": self.id,
            "parent": self.parent,
            "merged_parent": self.merged_parent,
            "seq": self.seq,
            "branch": self.branch,
            "actor": self.actor,
            "actor_id": self.actor,
            "at": self.at,
            "operation": self.operation,
            "message": self.message,
            "idempotency_key": self.idempotency_key,
            "manifest_version": self.manifest_version,
            "schema_before": self.schema_before,
            "schema_after": self.schema_after,
            "digest": self.digest,
            "changes": [change.to_json() for change in self.changes],
            **({"purged": [purge.to_json() for purge in self.purged]} if self.purged else {}),
        }


class SchemaRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An accepted schema: the text as written, the catalog as bytes of its codec, and its fingerprint."""

    id: str
    source: str
    catalog: str
    fingerprint: str
    same: Mapping[int, int] = {}
    """Identities of other branches for what has another one here: both added the same, and a merge made it one."""


class BranchRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A branch in main's register: where its manifest is, what it was taken from, when and by whom."""

    name: str
    id: str
    """New each time that the name is used."""
    path: ManifestPath
    parent_branch: str
    parent_commit: str
    created_at: str
    created_by: str
    is_deleted: bool = False
    """It is gone; the row stays until its manifest is closed too."""


class Fork(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a branch's own manifest says of it: which branch it is, and in which manifest its history goes on."""

    branch: str
    branch_id: str
    parent_branch: str
    parent_path: ManifestPath
    commit_id: str
    """The parent's commit that it was taken from, the first one of its own journal too."""
    seq: int
    is_closed: bool = False
    """The branch was deleted: nothing follows this state."""


class TagRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A name for a commit, which cleanup keeps, also when its branch is deleted: so it says where the commit is."""

    name: str
    commit_id: str
    branch: str
    path: ManifestPath
    """The manifest whose journal has the commit."""
    seq: int
    created_at: str
    created_by: str


class KeyRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An object with the hashes of the idempotency keys of sealed commits, from one `seq` to another."""

    name: str
    """Below the manifest."""
    keys: int
    first_seq: int
    last_seq: int
    until: str
    """The time of the last of the commits."""
    sum: str | None = None
    """The checksum of the object; None of one that an earlier release wrote."""


class KeyIndex(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the idempotency keys of sealed commits are found, oldest first."""

    legacy_before: int = 0
    """Commits before this `seq` were sealed by a release that kept no such index."""
    runs: tuple[KeyRun, ...] = ()


class PinRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What a pin's row says beside its columns."""

    sum: str | None = None
    lists: tuple[str, ...] = ()


class Integrity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a manifest's head says of itself: it is read from any store, and no other file can say it."""

    version: int
    """The version of the manifest that it belongs to."""
    rows: str
    """The digest of all other rows of the head."""
    sealed: tuple[str, ...] = ()
    """The digests of the sealed parts of the journal, oldest first; empty texts for those of earlier releases."""


class GcHorizon(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The last cleanup's boundary: no manifest version below `lowest_version` may be made any more.

    Of this journal's commits, those from `kept_from` on are kept, and the older ones in `kept`, which are ranges from
    one `seq` to another; all others may be collected. Once collected is always collected: no later floor keeps more.
    """

    epoch: int = 0
    """Counts cleanups; a later one has a larger number in every journal."""
    lowest_version: int = 0
    staged_before: str | None = None
    """Files that are older than this, by the store's clock, and part of nothing that is kept, may be gone."""
    kept_from: int = 0
    kept: tuple[tuple[int, int], ...] = ()

    def retains(self, seq: int) -> bool:
        """Whether a commit of this journal is kept."""
        return seq >= self.kept_from or any(first <= seq <= last for first, last in self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The visible version of one table."""

    table_key: str
    path: str
    version: int
    rows: int
    branch: str = MAIN
    """The branch whose commit made it."""
    sum: str | None = field(default=None, compare=False)
    """The checksum of the version's file, which names all others; None where it was not recorded."""
    lists: tuple[str, ...] = field(default=(), compare=False)
    """Objects below the table that list checksums of files whose names carry none, by their own digests."""

    def to_json(self) -> dict[str, object]:
        """What every door shows; the version is text, since it exceeds what JSON's numbers hold."""
        return {
            "table_key": self.table_key,
            "location": self.path,
            "branch": self.branch,
            "table_branch": None if self.branch == MAIN else self.branch,
            "version": str(self.version),
            "table_version": str(self.version),
            "rows": self.rows,
            "row_count": self.rows,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The present of one branch, whole."""

    schema: SchemaRecord
    tables: Mapping[str, TableRecord]
    pins: Mapping[str, Pin]
    dropped: Mapping[str, Pin] = field(default_factory=dict)
    """Tables hidden by a soft drop, with the pin they had."""
    head: str
    commits: tuple[Commit, ...]
    """The latest commits, oldest first; the last one is the head."""
    old_schemas: tuple[SchemaRecord, ...] = ()
    """Replaced schemas that are not sealed yet."""
    fork: Fork | None = None
    """Where the branch comes from; None for main."""
    branches: Mapping[str, BranchRecord] = field(default_factory=dict)
    """In main's manifest, every other branch."""
    tags: Mapping[str, TagRecord] = field(default_factory=dict)
    lost: Mapping[str, tuple[Purge, Commit]] = field(default_factory=dict)
    """Of a past state, by location, the tables whose data was dropped for good since, and how. Never stored."""
    gc_horizon: GcHorizon = field(default_factory=GcHorizon)
    keys: KeyIndex | None = None
    """Where idempotency keys of sealed commits are found; None while nothing was sealed with them."""
    sealed: tuple[str, ...] = ()
    """The digests of the sealed parts of the journal, oldest first; empty texts for those of earlier releases."""

    @property
    def branch(self) -> str:
        """The branch that it is the present of."""
        return MAIN if self.fork is None else self.fork.branch

    @property
    def key_runs(self) -> tuple[KeyRun, ...]:
        """The objects with the idempotency keys of sealed commits, oldest first."""
        return () if self.keys is None else self.keys.runs

    @property
    def is_closed(self) -> bool:
        """Whether the branch was deleted."""
        return self.fork is not None and self.fork.is_closed

    @property
    def live_branches(self) -> dict[str, BranchRecord]:
        """In main's manifest, every other branch that was not deleted."""
        return {name: branch for name, branch in self.branches.items() if not branch.is_deleted}

    @property
    def head_commit(self) -> Commit:
        """The newest commit."""
        return self.commits[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One immutable state of a branch: what a reader keeps for its whole query."""

    branch: str
    manifest_version: int
    manifest: Manifest

    def __repr__(self) -> str:
        return f"Snapshot({self.branch!r}, commit {self.commit.id}, tables {', '.join(self.pins)})"

    @property
    def commit(self) -> Commit:
        """The commit this is the state of."""
        return self.manifest.head_commit

    @property
    def pins(self) -> Mapping[str, Pin]:
        """The visible tables."""
        return self.manifest.pins

    def pin(self, table_key: str) -> Pin:
        """The pin of a table; KeyError when the schema has no such table.

        Raises:
            DataDroppedError: This state is of the past, and the table's data was dropped for good since.
        """
        pin = self.manifest.pins[table_key]
        gone = self.manifest.lost.get(pin.path)
        if gone is not None:
            raise build_dropped_error(table_key, *gone)
        return pin

    def require_whole(self) -> None:
        """DataDroppedError when some table of this state can't be read any more."""
        for table_key in self.manifest.pins:
            self.pin(table_key)

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "branch": self.branch,
            "commit_id": self.commit.id,
            "at": self.commit.at,
            "digest": self.commit.digest,
            "manifest_version": self.manifest_version,
            "internal_schema_version": INTERNAL_SCHEMA_VERSION,
            "schema_id": self.manifest.schema.id,
            "schema_fingerprint": self.manifest.schema.fingerprint,
            "tables": [pin.to_json() for pin in self.pins.values()],
        }
