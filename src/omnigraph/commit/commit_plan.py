"""What a writer hands to the publisher: the whole change, as data."""

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
    """A table that the commit brings into being."""

    record: TableRecord
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A table and the staged write that moves its pin."""

    table_key: str
    staged: StagedWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedTable:
    """A table's version as another branch has it: the commit pins it as it is, and no row is copied."""

    record: TableRecord
    pin: Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChecksums:
    """Checksums that the pin of a table gets: it stays at its version, and every row as it is."""

    sums: Mapping[int, str]
    """Of the files of versions, by number."""
    lists: tuple[str, ...]
    """Lists of the checksums of other files,"""
    replaced: tuple[str, ...] = ()
    """which say what these say, so that the pin needs them no more."""

    def apply(self, pin: Pin) -> Pin:
        """Return the pin with what is recorded of it; one that has moved on since keeps what it has."""
        kept = (one for one in pin.lists if one not in self.replaced)
        lists = tuple(dict.fromkeys((*kept, *self.lists)))
        return replace(pin, sum=pin.sum or self.sums.get(pin.version), lists=lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """One commit, ready to publish on `base`. A plan is published once; after a conflict a new one is made."""

    base: Head
    operation: str
    actor: str
    moves: tuple[Move, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    message: str | None = None
    merged_parent: str | None = None
    merged_from: MergedFrom | None = None
    adopted: Mapping[str, AdoptedTable] = field(default_factory=dict)
    """By the key that they get here, versions of another branch; a move of such a table starts from that version."""
    idempotency_key: str | None = None
    request: str | None = None
    """A digest of what is asked for, by which the key is known to come with the same request again."""
    if_commit: str | None = None
    """The head must still be this commit."""
    schema: SchemaRecord | None = None
    """The new accepted schema, when it changes; `requirements` then name every table whose rows decided about it."""
    new_tables: tuple[NewTable, ...] = ()
    dropped_tables: tuple[str, ...] = ()
    renamed_tables: Mapping[str, str] = field(default_factory=dict)
    """Tables that get another key, by the one they have; `moves` name them by that too."""
    recorded: Mapping[str, RecordedChecksums] = field(default_factory=dict)
    """By location, what is recorded of tables that stay as they are."""
    purged: tuple[Purge, ...] = ()
    """What is dropped for good; a dropped table that is named here leaves nothing behind in the manifest."""
    adopted_files: tuple[str, ...] = ()
    """Files that belong to adopted versions made for this very commit; without it they go too."""
    affected: tuple[int, int] | None = None
    """How many nodes and edges a mutation changed, to be kept with the commit."""
    summary: Mapping[str, Mapping[str, int]] | None = None
    """What a load did to each type, or which edges a merge restored, to be kept with the commit."""

    epoch: int | None = None
    """The last cleanup before anything was read that the plan relies on, if that was earlier than its base."""
    watch: Watch | None = None
    """Asked before every swap, and never after one: it may still end the write, which then leaves nothing behind."""
    outlives_cleanup: bool = True
    """Whether it may be published behind a cleanup that came since: not when it pins what its base does not."""

    def __post_init__(self) -> None:
        keys = [move.table_key for move in self.moves]
        if len(set(keys)) < len(keys):
            raise ValueError(f"a commit moves each table once, not {keys}")

    @property
    def needs_sidecar(self) -> bool:
        """A write of one table arms nothing: all it could leave behind is a few small unreferenced files."""
        return len(self.moves) + len(self.new_tables) > 1 or self.schema is not None
