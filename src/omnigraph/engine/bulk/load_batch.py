"""The rows that a load wants to put, type by type, over those that are committed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import Requirement
from omnigraph.engine.bulk.load_errors import GlobalProblem, RejectedRows, Rejections
from omnigraph.engine.bulk.row_spool import SpooledType
from omnigraph.engine.view import View
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, EdgeType, NodeType
from omnigraph.storage.column_hashing import Hashes, hash_rows
from omnigraph.storage.columnar_sets import Mask, Positions, concat_chunks, find_duplicates_by_hash, is_ascending_after
from omnigraph.storage.key_lookup import ExistingRows
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.string_hash_index import StringHashIndex


class IdPredicate(Protocol):
    """Answers for many ids at once."""

    def __call__(self, ids: pa.Array) -> Mask:
        """For each id, yes or no."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadedRows:
    """The rows of one type that a load has beside those of the batch. No check refuses any of them.

    Whoever makes a batch of some rows of a load sees to it that it holds every row that shares an id, a unique value
    or, where edges are counted, a source with one of its own.
    """

    rows: int
    is_there: IdPredicate
    """Which ids rows have that are not in the batch: those of the rest, or committed ones that stay."""
    is_counted: IdPredicate
    """Of an edge type, from which nodes every edge of the load is in the batch."""


_BYTES_PER_KEY = 40
"""What a key takes in a `StringHashIndex` beside its text: its slots, and its hash while it is built. An estimate."""


class LoadMode(Enum):
    """What a load does with a record whose id exists."""

    APPEND = "append"
    """It is an error."""
    MERGE = "merge"
    """The record changes it: what the record leaves out stays."""
    OVERWRITE = "overwrite"
    """Every row of the table goes, and those of the load take their place."""


class TypeBatch:
    """The rows of one type. Those that checks refuse are out, and count for nothing from then on."""

    def __init__(
        self,
        spooled: SpooledType,
        table: LanceTable,
        mode: LoadMode,
        existing: ExistingRows | None = None,
        rest: UnloadedRows | None = None,
    ) -> None:
        self.spooled, self.table, self.mode = spooled, table, mode
        self.is_excluded: Mask = np.zeros(spooled.rows, np.bool_)
        self.existing = existing
        """Which rows have a committed one of their id; None when that was not asked."""
        self.is_unchanged: Mask = np.zeros(spooled.rows, np.bool_)
        """The rows of a merge that say what is there already."""
        self.leaves_out = self.has_unreadable = False
        """Whether the load goes on without refused records, and whether some were refused before they became rows."""
        self.only_known = False
        """Whether a row that is not there yet is passed over."""
        self.rest = rest
        """The rows of the type that the load has beside these; None when these are all."""
        self._ids: pa.Array | None = None
        self._key_set: tuple[int, StringHashIndex] | None = None
        self._id_hashes: Hashes | None = None

    @property
    def type(self) -> AnyType:
        """The type."""
        return self.spooled.type

    @property
    def replaces_all(self) -> bool:
        """Whether no committed row stays: in an overwrite, unless every record of the type is left out."""
        has_good = (self.rest is not None and self.rest.rows > 0) or not self.is_excluded.all()
        is_all_bad = self.leaves_out and bool(self.spooled.rows or self.has_unreadable) and not has_good
        return self.mode is LoadMode.OVERWRITE and not is_all_bad

    @property
    def exists(self) -> Mask:
        """For each row, whether a committed one has its id."""
        return np.zeros(self.spooled.rows, np.bool_) if self.existing is None else self.existing.mask

    def read_column(self, name: str) -> pa.Array:
        """One column of all rows, in one piece."""
        return concat_chunks(self.spooled.read_columns([name]).column(0))

    def read_ids(self) -> pa.Array:
        """The ids of all rows. Those of nodes are kept, because edges ask for them again and again."""
        if self._ids is not None:
            return self._ids
        ids = self.read_column(ID)
        if isinstance(self.type, NodeType):
            self._ids = ids
        return ids

    def get_key_set(self) -> StringHashIndex:
        """The ids of the rows that are not out, to be asked for many others."""
        out = int(self.is_excluded.sum())
        if self._key_set is None or self._key_set[0] != out:
            hashes, self._id_hashes = self._id_hashes, None
            ids = self.find_remaining_ids()
            self.spooled.check_size(ids.nbytes + len(ids) * _BYTES_PER_KEY)
            self._key_set = out, StringHashIndex(ids, None if out else hashes)
        return self._key_set[1]

    def find_repeats(self, names: Sequence[str]) -> tuple[Positions, Positions]:
        """The rows that are equal to an earlier one in these columns, which have no nulls, and the first such rows."""
        if len(names) == 1 and self._is_ascending(names[0]):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        parts = [hash_rows(batch.columns) for batch in self.spooled.read_batches(names)]
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        hashes = np.concatenate(parts)
        if list(names) == [ID] and isinstance(self.type, NodeType):
            self._id_hashes = hashes  # for the edges that will ask for these ids
        return find_duplicates_by_hash(
            hashes, lambda rows: [*map(concat_chunks, self.spooled.take(rows, names).columns)]
        )

    def _is_ascending(self, name: str) -> bool:
        last: pa.Array | None = None
        for batch in self.spooled.read_batches([name]):
            column = batch.column(0)
            if not is_ascending_after(last, column):
                return False
            last = column.slice(len(column) - 1)
        return True

    def find_remaining_ids(self) -> pa.Array:
        """The ids of the rows that are not out."""
        return self.filter_remaining(self.read_ids())

    def find_superseding_ids(self) -> pa.Array:
        """The ids of the rows that take the place of a committed one."""
        chosen = self.exists & ~self.is_excluded
        return self.read_ids().filter(pa.array(chosen)) if chosen.any() else pa.array([], pa.string())

    def filter_remaining(self, column: pa.Array) -> pa.Array:
        """The values of the rows that are not out."""
        return column.filter(pa.array(~self.is_excluded)) if self.is_excluded.any() else column

    def find_remaining_rows(self) -> Positions:
        """The positions of the rows that are not out."""
        return np.flatnonzero(~self.is_excluded)


@dataclass(slots=True)
class LoadBatch:
    """All rows of a load, what was found wrong with them, and what must stay so for the rest to be right."""

    view: View
    mode: LoadMode
    types: Mapping[str, TypeBatch]
    rejections: Rejections = field(default_factory=Rejections)
    requirements: list[Requirement] = field(default_factory=list)

    def list_node_batches(self) -> list[TypeBatch]:
        """The incoming rows of node types, in declared order."""
        return [self.types[name] for name in self.view.catalog.nodes if name in self.types]

    def list_edge_batches(self) -> list[TypeBatch]:
        """The incoming rows of edge types, in declared order."""
        return [self.types[name] for name in self.view.catalog.edges if name in self.types]

    def list_edge_types(self) -> Sequence[EdgeType]:
        """Every edge type of the schema."""
        return list(self.view.catalog.edges.values())

    def refuse(self, rows: TypeBatch, refusal: RejectedRows) -> None:
        """These rows are out."""
        if len(refusal.rows):
            assert not rows.is_excluded[refusal.rows].any()  # noqa: S101 - a record is refused, and counted, once
            rows.is_excluded[refusal.rows] = True
            self.rejections.rows.append((rows.spooled, refusal))

    def fail(self, unplaced: GlobalProblem) -> None:
        """No leaving out of records helps against this."""
        if unplaced.count:
            self.rejections.global_problems.append(unplaced)

    @property
    def excluded_rows(self) -> int:
        """How many rows are out."""
        return sum(int(rows.is_excluded.sum()) for rows in self.types.values())
