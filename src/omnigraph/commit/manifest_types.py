"""Define the values that a manifest consists of: tables, pins, commits, schemas, branches. All are immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from omnigraph.commit.purges import Purge, build_dropped_error
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.json_struct import JsonStruct
from omnigraph.storage.layout import ManifestPath, TablePath

MAIN = "main"
# The operation of a commit that changes nothing and records the current state; a digest chain can begin with it.
RECORD = "record"
# The operation of automatic maintenance: no user called it, so listings and `cleanup --keep` skip it (decision 69).
MAINTAIN = "maintain"
# The operation that fills in the vectors of texts.
EMBED = "embed"
# Operations that change how rows are stored, never their values: they conflict with no other commit.
MAINTENANCE = frozenset({"optimize", "reindex", RECORD, MAINTAIN})


class TableRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A registered table: `identity` is the number of its type, `incarnation` counts the tables of one name."""

    table_key: str
    path: TablePath
    identity: int
    incarnation: int = 1


# Commits and pins omit defaults: every publish rewrites the head, so it should stay small (decision 62).
class PinChange(JsonStruct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What a commit changed about one table: the version before it and the version after it.

    Versions are text, since they exceed 2^63.
    """

    json_keys = "table_key location=path before after rows_before rows_after"

    table_key: str
    path: TablePath
    before: str | None
    after: str | None
    rows_before: int = 0
    rows_after: int = 0
    replaced: TableRecord | None = None
    """The table registered under that key before, if this commit replaced it by another one."""
    branch_before: str = MAIN
    """The branch whose commit created the version before."""
    sum_before: str | None = None
    sum_after: str | None = None
    """The checksums of the files of both versions, if they were recorded."""
    lists_before: tuple[str, ...] = ()
    """Checksum lists that the pin no longer names; earlier states still need them."""


class MergedFrom(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the merged parent of a commit is: its branch, the manifest of that branch, and its `seq` there."""

    branch: str
    path: ManifestPath
    seq: int
    digest: str | None = None
    """The digest of that commit, which stays known after its journal is removed."""


class Commit(JsonStruct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One commit of a branch. `seq` counts from 0; `parent` is None for the first."""

    # `id` and `actor` also under the names that the older system uses, see docs/how-to/come-from-the-older-system.md.
    json_keys = (
        "id graph_commit_id=id parent merged_parent seq branch actor actor_id=actor at operation message "
        "idempotency_key manifest_version schema_before schema_after digest changes purged? refers_to?"
    )

    id: str
    parent: str | None
    merged_parent: str | None = None
    merged_from: MergedFrom | None = None
    """Where the merged parent is; its branch may have been deleted."""
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
    """A digest of the request made under the key, if it is known before the request runs."""
    affected_nodes: int | None = None
    affected_edges: int | None = None
    """The counts that a mutation returned, so that a repeated one returns the same; None for other operations."""
    summary: Mapping[str, Mapping[str, int]] | None = None
    """The result of a load: by type, the number of rows read, inserted, updated and so on.

    For a merge: by table path, the number of edges that were restored with their nodes.
    """
    purged: tuple[Purge, ...] = ()
    """The data that a schema change dropped permanently, from earlier states of the branch too."""
    refers_to: str | None = None
    """The commit that a revert undid, a cherry-pick applied, or a reset returned to; `operation` says which."""
    digest: str | None = None
    """SHA-256 over this row and the parent's digest, see `commit.digests`; None if an older release wrote it."""

    @property
    def is_maintenance(self) -> bool:
        """Whether this commit left all rows unchanged."""
        return self.operation in MAINTENANCE

    @property
    def is_automatic(self) -> bool:
        """Whether automatic maintenance made this commit: it is hidden from listings, and no retention counts it."""
        return self.operation == MAINTAIN

    @property
    def is_folded(self) -> bool:
        """Whether this commit is no step of a history for people: maintenance, or vectors of texts that stayed."""
        return self.is_maintenance or self.operation == EMBED

    @property
    def is_silent(self) -> bool:
        """Whether all rows and the schema are unchanged: maintenance, or an empty commit of recovery."""
        return self.is_maintenance or not (self.changes or self.schema_after)


class SchemaRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An accepted schema: its source text, its encoded catalog, and its fingerprint."""

    id: str
    source: str
    catalog: str
    fingerprint: str
    same: Mapping[int, int] = {}
    """Identities that another branch uses for a type or property here: both added it, and a merge unified them."""


class BranchRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A branch in main's registry: where its manifest is, what it was forked from, when and by whom."""

    name: str
    id: str
    """A new one each time the name is used."""
    path: ManifestPath
    parent_branch: str
    parent_commit: str
    created_at: str
    created_by: str
    is_deleted: bool = False
    """Whether it was deleted; the row stays until its manifest is closed too."""


class Fork(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The origin of a branch, in the branch's own manifest: its name, and the manifest where its history continues."""

    branch: str
    branch_id: str
    parent_branch: str
    parent_path: ManifestPath
    commit_id: str
    """The commit of the parent that it was forked from, which is also the first of its own journal."""
    seq: int
    is_closed: bool = False
    """Whether the branch was deleted: no state follows this one."""


class TagRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A name for a commit, which cleanup retains even after its branch is deleted.

    It therefore records which manifest has the commit.
    """

    name: str
    commit_id: str
    branch: str
    path: ManifestPath
    """The manifest whose journal has the commit."""
    seq: int
    created_at: str
    created_by: str


class KeyRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An object with the hashes of the idempotency keys of sealed commits, for a range of `seq`."""

    name: str
    """The key of the object below the manifest."""
    keys: int
    first_seq: int
    last_seq: int
    until: str
    """The time of the last of the commits."""
    sum: str | None = None
    """The checksum of the object; None if an earlier release wrote it."""


class KeyIndex(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The key runs of the sealed commits of a branch, oldest first."""

    legacy_before: int = 0
    """Commits before this `seq` were sealed by a release without such an index."""
    runs: tuple[KeyRun, ...] = ()


class PinRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The part of a pin's row that is stored as JSON instead of in columns."""

    sum: str | None = None
    lists: tuple[str, ...] = ()


class Integrity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The checksums that a manifest's head records about itself.

    They can be checked on any store, and no other file could hold them.
    """

    version: int
    """The version of the manifest that it belongs to."""
    rows: str
    """The digest of all other rows of the head."""
    sealed: tuple[str, ...] = ()
    """The digests of the sealed fragments of the journal, oldest first; empty for those of earlier releases."""


class GcHorizon(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The garbage-collection horizon: which commits of a journal the last cleanup retained.

    Retained are the commits from `kept_from` on, and older ones in `kept`, which holds ranges of `seq`, both ends
    included; all others may be collected. A later horizon never retains a commit that an earlier one did not. No
    manifest version below `lowest_version` may be created.
    """

    epoch: int = 0
    """The number of the cleanup; a later one has a larger number in every journal."""
    lowest_version: int = 0
    staged_before: str | None = None
    """Files older than this by the store's clock that no retained state needs may have been removed."""
    kept_from: int = 0
    kept: tuple[tuple[int, int], ...] = ()

    def retains(self, seq: int) -> bool:
        """Return whether a commit of this journal is retained."""
        return seq >= self.kept_from or any(first <= seq <= last for first, last in self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The visible version of one table."""

    table_key: str
    path: str
    version: int
    rows: int
    branch: str = MAIN
    """The branch whose commit created the version."""
    # `sum` and `lists` may be recorded after the version was created, so pins with and without them are equal.
    sum: str | None = field(default=None, compare=False)
    """The checksum of the version's file, which names all other files; None if it was not recorded."""
    lists: tuple[str, ...] = field(default=(), compare=False)
    """Objects below the table with the checksums of files whose names carry none, named by their own digests."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON form that all interfaces share.

        The version is text, since it exceeds what JSON numbers hold exactly.
        """
        return {
            "table_key": self.table_key,
            "location": self.path,
            "branch": self.branch,
            # Branch, version and rows also under the names that the older system uses, see
            # docs/how-to/come-from-the-older-system.md.
            "table_branch": None if self.branch == MAIN else self.branch,
            "version": str(self.version),
            "table_version": str(self.version),
            "rows": self.rows,
            "row_count": self.rows,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The current state of one branch."""

    schema: SchemaRecord
    tables: Mapping[str, TableRecord]
    pins: Mapping[str, Pin]
    dropped: Mapping[str, Pin] = field(default_factory=dict)
    """Tables hidden by a soft drop, with their last pin."""
    head: str
    commits: tuple[Commit, ...]
    """The latest commits, oldest first; the last one is the head."""
    old_schemas: tuple[SchemaRecord, ...] = ()
    """Replaced schemas that are not sealed yet."""
    fork: Fork | None = None
    """The origin of the branch; None for main."""
    branches: Mapping[str, BranchRecord] = field(default_factory=dict)
    """In main's manifest, every other branch."""
    tags: Mapping[str, TagRecord] = field(default_factory=dict)
    lost: Mapping[str, tuple[Purge, Commit]] = field(default_factory=dict)
    """In a historical state, the tables whose data was dropped permanently since, by path. Never stored."""
    gc_horizon: GcHorizon = field(default_factory=GcHorizon)
    keys: KeyIndex | None = None
    """Where the idempotency keys of sealed commits are; None while none was sealed with the index."""
    sealed: tuple[str, ...] = ()
    """The digests of the sealed fragments of the journal, oldest first; empty for those of earlier releases."""

    @property
    def branch(self) -> str:
        """The branch that this is the state of."""
        # Only main has no fork.
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
    """One immutable state of a branch, which a reader uses for its whole query."""

    branch: str
    manifest_version: int
    manifest: Manifest

    def __repr__(self) -> str:
        return f"Snapshot({self.branch!r}, commit {self.commit.id}, tables {', '.join(self.pins)})"

    @property
    def commit(self) -> Commit:
        """The commit that created this state."""
        return self.manifest.head_commit

    @property
    def pins(self) -> Mapping[str, Pin]:
        """The visible tables."""
        return self.manifest.pins

    def pin(self, table_key: str) -> Pin:
        """Return the pin of a table.

        Raises:
            KeyError: The schema has no such table.
            DataDroppedError: The data of the table was dropped permanently after this state.
        """
        pin = self.manifest.pins[table_key]
        loss = self.manifest.lost.get(pin.path)
        if loss is not None:
            raise build_dropped_error(table_key, *loss)
        return pin

    def require_whole(self) -> None:
        """Check that all tables of this state can still be read.

        Raises:
            DataDroppedError: The data of a table was dropped permanently after this state.
        """
        for table_key in self.manifest.pins:
            self.pin(table_key)

    def to_json(self) -> dict[str, object]:
        """Return the JSON form that all interfaces share."""
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
