"""The input of the publisher: a whole commit, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MergedFrom, Pin, SchemaRecord, TableRecord
from omnigraph.commit.purges import Purge
from omnigraph.commit.requirements import Requirement
from omnigraph.storage.staging import StagedWrite
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
    moves: tuple[Move, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    message: str | None = None
    merged_parent: str | None = None
    merged_from: MergedFrom | None = None
    adopted: Mapping[str, AdoptedTable] = field(default_factory=dict)
    """Versions of another branch, by their table key here; a move of such a table starts from that version."""
    idempotency_key: str | None = None
    request: str | None = None
    """A digest of the request, to detect an idempotency key that is reused for a different request."""
    takes_turn: bool = False
    """Whether, after a lost round, other threads wait while it is rebased: for short work that would lose for ever.

    Rebasing a compaction takes longer than the pause between two writes of a busy thread.
    """
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
    outlives_cleanup: bool = True
    """Whether it may be published after a cleanup that ran since: not if it pins versions that its base does not."""

    def __post_init__(self) -> None:
        keys = [move.table_key for move in self.moves]
        if len(set(keys)) < len(keys):
            raise ValueError(f"a commit moves each table once, not {keys}")

    @property
    def needs_sidecar(self) -> bool:
        """Whether a sidecar must name the files of this commit while it is written."""
        # A write of a single table needs none: all that it could leave is a few small unreferenced files.
        return len(self.moves) + len(self.new_tables) > 1 or self.schema is not None
