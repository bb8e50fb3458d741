"""The input of the publisher: a whole commit, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MergedFrom, Pin, SchemaRecord, TableRecord
from omnigraph.commit.purges import Purge
from omnigraph.commit.requirements import Requirement
from omnigraph.commit.row_changes import RowChange
from omnigraph.storage.staging import ROW_CHANGES, StagedWrite
from omnigraph.storage.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A table that the commit creates."""

    record: TableRecord
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A table and the staged write that moves its pin."""

    table_key: str
    staged: StagedWrite
    change: RowChange | None = None
    """The rows that it changes, if they are few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedTable:
    """A table version of another branch. The commit pins it unchanged, and no row is copied."""

    record: TableRecord
    pin: Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChecksums:
    """Checksums to add to the pin of a table. The pin stays at its version, and every row stays unchanged."""

    sums: Mapping[int, str]
    """Checksums of version files, by version number."""
    lists: tuple[str, ...]
    """Checksum lists of the other files."""
    replaced: tuple[str, ...] = ()
    """Older lists whose content `lists` repeats, so that the pin no longer needs them."""

    def apply(self, pin: Pin) -> Pin:
        """Return the pin with the recorded checksums added."""
        remaining = (name for name in pin.lists if name not in self.replaced)
        lists = tuple(dict.fromkeys((*remaining, *self.lists)))
        # A pin that has moved to another version since then has its own checksum, which stays.
        return replace(pin, sum=pin.sum or self.sums.get(pin.version), lists=lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """One commit, ready to publish on `base`. A plan is published once; after a conflict a new one is built."""

    base: Head
    operation: str
    actor: str
    commit_id: str | None = None
    """The id that the commit gets, if the caller has to know it before; None: a new one."""
    moves: tuple[Move, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    message: str | None = None
    merged_parent: str | None = None
    merged_from: MergedFrom | None = None
    refers_to: str | None = None
    """The commit that it reverts, picks or returns to."""
    adopted: Mapping[str, AdoptedTable] = field(default_factory=dict)
    """Versions of another branch, by their table key here; a move of such a table starts from that version."""
    idempotency_key: str | None = None
    request: str | None = None
    """A digest of the request, to detect an idempotency key that is reused for a different request."""
    if_commit: str | None = None
    """The head must still be this commit."""
    schema: SchemaRecord | None = None
    """The new accepted schema, when it changes; `requirements` then name every table whose rows decided about it."""
    new_tables: tuple[NewTable, ...] = ()
    dropped_tables: tuple[str, ...] = ()
    renamed_tables: Mapping[str, str] = field(default_factory=dict)
    """New table keys by old ones; `moves` use the old ones."""
    recorded: Mapping[str, RecordedChecksums] = field(default_factory=dict)
    """Checksums to record for tables that stay unchanged, by location."""
    purged: tuple[Purge, ...] = ()
    """Data that is permanently dropped; a dropped table that is named here leaves no row in the manifest."""
    adopted_files: tuple[str, ...] = ()
    """Files of adopted versions that were written for this commit; if it fails, they are removed."""
    affected: tuple[int, int] | None = None
    """The number of nodes and edges a mutation changed, stored with the commit."""
    summary: Mapping[str, Mapping[str, int]] | None = None
    """The row counts of a load by type, or the edges a merge restored, stored with the commit."""
    epoch: int | None = None
    """The last cleanup before the data that the plan relies on was read, if that was earlier than its base."""
    watch: Watch | None = None
    """Checked before every swap, and never after one: it may still cancel the write, which then leaves no trace."""
    answer: object = None
    """What the caller returns if this plan is the one that is committed; the publisher only hands it back."""
    outlives_cleanup: bool = True
    """Whether it may be published after a cleanup that ran since: not if it pins versions that its base does not."""

    is_deferred: bool = False
    """Whether it has no moves yet: the write is run in its turn for the first time."""

    def __post_init__(self) -> None:
        keys = [move.table_key for move in self.moves]
        if len(set(keys)) < len(keys):
            raise ValueError(f"a commit moves each table once, not {keys}")

    @property
    def used_tables(self) -> set[str]:
        """The tables that it writes or relies on."""
        required = {requirement.table_key for requirement in self.requirements}
        return {move.table_key for move in self.moves} | required | self.adopted.keys()

    @property
    def is_placed(self) -> bool:
        """Whether it can be applied as it is to its base."""
        return not self.is_deferred and all(move.staged.is_placed for move in self.moves)

    @property
    def is_groupable(self) -> bool:
        """Whether it only inserts, changes and deletes rows, so that one swap may publish it together with others."""
        has_other_parts = (
            self.schema or self.adopted or self.new_tables or self.dropped_tables or self.renamed_tables
        ) or (self.recorded or self.purged or self.adopted_files or self.merged_parent)
        return not has_other_parts and all(move.staged.change in ROW_CHANGES for move in self.moves)

    @property
    def needs_sidecar(self) -> bool:
        """Whether a sidecar must name the files of this commit while it is written."""
        # A write of a single table, and a small one of several, need none: all that they could leave is a few small
        # unreferenced files, which cleanup collects. A sidecar costs two puts and a delete, as much as a table.
        is_small = all(move.change is not None for move in self.moves)
        tables = len(self.moves) + len(self.new_tables)
        return self.schema is not None or (tables > 1 and (not is_small or bool(self.new_tables)))
