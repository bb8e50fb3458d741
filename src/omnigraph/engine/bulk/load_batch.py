"""The rows of a load by type, compared with the committed rows, and their rejections and requirements."""

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
    """A predicate over a column of ids."""

    def __call__(self, ids: pa.Array) -> Mask:
        """Return for each id whether the predicate holds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadedRows:
    """The rows of one type that belong to a load but not to this batch. No check rejects any of them.

    A caller that builds a batch from some rows of a load must include every row that shares an id, a unique value or,
    where edges are counted, a source with a row of the batch.
    """

    rows: int
    is_there: IdPredicate
    """True for ids of rows outside the batch: other rows of the load, or committed ones that stay."""
    is_counted: IdPredicate
    """For an edge type, true for nodes whose edges in the load are all in the batch."""


# An estimate of what a key takes in a `StringHashIndex` beside its text: its slots, and its hash during the build.
_BYTES_PER_KEY = 40


class LoadMode(Enum):
    """How a load treats a record whose id exists."""

    APPEND = "append"
    """The record is rejected."""
    MERGE = "merge"
    """The record updates the row; properties that it leaves out stay."""
    OVERWRITE = "overwrite"
    """The rows of the load replace all rows of the table."""


class OnDuplicate(Enum):
    """How a load treats records with equal ids, in the order of its inputs and their rows."""

    ERROR = "error"
    """All but the first are rejected."""
    FIRST = "first"
    """The first one is loaded."""
    LAST = "last"
    """The last one is loaded: as it is, without values of the others."""


class TypeBatch:
    """The rows of one type. Rows that a check rejects are excluded, and later checks ignore them."""

    def __init__(
        self,
        spooled: SpooledType,
        table: LanceTable,
        mode: LoadMode,
        existing: ExistingRows | None = None,
        rest: UnloadedRows | None = None,
    ) -> None:
        self.spooled = spooled
        self.table = table
        self.mode = mode
        self.is_excluded: Mask = np.zeros(spooled.rows, np.bool_)
        # Which rows have a committed row of the same id; None until it was looked up.
        self.existing = existing
        # Marks the rows of a merge that equal the committed ones.
        self.is_unchanged: Mask = np.zeros(spooled.rows, np.bool_)
        # Whether the load continues without rejected records, and whether some of this type could not be decoded.
        self.leaves_out = self.has_unreadable = False
        # Whether rows whose id does not exist yet are skipped.
        self.only_known = False
        self.on_duplicate = OnDuplicate.ERROR
        # The number of rows that were left out because another row of the load has their id.
        self.duplicates = 0
        # The rows of this type outside the batch; None if the batch has all of them.
        self.rest = rest
        self._ids: pa.Array | None = None
        self._key_set: tuple[int, StringHashIndex] | None = None
        self._id_hashes: Hashes | None = None

    @property
    def type(self) -> AnyType:
        """The type of the rows."""
        return self.spooled.type

    @property
    def replaces_all(self) -> bool:
        """Whether no committed row stays: in an overwrite, unless every record of the type was rejected."""
        has_good = (self.rest is not None and self.rest.rows > 0) or not self.is_excluded.all()
        # A file of nothing but bad records must not empty a table.
        is_all_bad = self.leaves_out and bool(self.spooled.rows or self.has_unreadable) and not has_good
        return self.mode is LoadMode.OVERWRITE and not is_all_bad

    @property
    def exists(self) -> Mask:
        """For each row, whether a committed row has its id."""
        return np.zeros(self.spooled.rows, np.bool_) if self.existing is None else self.existing.mask

    def read_column(self, name: str) -> pa.Array:
        """Return one column of all rows as one array."""
        return concat_chunks(self.spooled.read_columns([name]).column(0))

    def read_ids(self) -> pa.Array:
        """Return the ids of all rows."""
        if self._ids is not None:
            return self._ids
        ids = self.read_column(ID)
        # Edge types look up the ids of their nodes repeatedly; those of edges are read again when needed.
        if isinstance(self.type, NodeType):
            self._ids = ids
        return ids

    def get_key_set(self) -> StringHashIndex:
        """Return a hash index of the ids of rows that are not excluded."""
        # Rows are only ever excluded, never included again: an equal number means an equal set.
        excluded = int(self.is_excluded.sum())
        if self._key_set is None or self._key_set[0] != excluded:
            hashes, self._id_hashes = self._id_hashes, None
            ids = self.find_remaining_ids()
            self.spooled.check_size(ids.nbytes + len(ids) * _BYTES_PER_KEY)
            # The hashes are those of all rows.
            self._key_set = excluded, StringHashIndex(ids, None if excluded else hashes)
        return self._key_set[1]

    def find_repeats(self, names: Sequence[str]) -> tuple[Positions, Positions]:
        """Return the rows that equal an earlier row in these columns, which have no nulls, and those earlier rows."""
        # Strictly ascending values, such as sorted ids, need no hashing to be distinct.
        if len(names) == 1 and self._is_ascending(names[0]):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        parts = [hash_rows(batch.columns) for batch in self.spooled.read_batches(names)]
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        hashes = np.concatenate(parts)
        if list(names) == [ID] and isinstance(self.type, NodeType):
            # Kept for `get_key_set`, through which edge types look these ids up.
            self._id_hashes = hashes
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
        """Return the ids of the rows that are not excluded."""
        return self.filter_remaining(self.read_ids())

    def find_superseding_ids(self) -> pa.Array:
        """Return the ids of the rows that replace a committed one."""
        is_replacing = self.exists & ~self.is_excluded
        return self.read_ids().filter(pa.array(is_replacing)) if is_replacing.any() else pa.array([], pa.string())

    def filter_remaining(self, column: pa.Array) -> pa.Array:
        """Return the values of the rows that are not excluded."""
        return column.filter(pa.array(~self.is_excluded)) if self.is_excluded.any() else column

    def find_remaining_rows(self) -> Positions:
        """Return the positions of the rows that are not excluded."""
        return np.flatnonzero(~self.is_excluded)


@dataclass(slots=True)
class LoadBatch:
    """All rows of a load, the rejections of its checks, and the requirements of the rows that remain."""

    view: View
    mode: LoadMode
    types: Mapping[str, TypeBatch]
    rejections: Rejections = field(default_factory=Rejections)
    requirements: list[Requirement] = field(default_factory=list)

    def list_node_batches(self) -> list[TypeBatch]:
        """Return the batches of node types, in declared order."""
        return [self.types[name] for name in self.view.catalog.nodes if name in self.types]

    def list_edge_batches(self) -> list[TypeBatch]:
        """Return the batches of edge types, in declared order."""
        return [self.types[name] for name in self.view.catalog.edges if name in self.types]

    def list_edge_types(self) -> Sequence[EdgeType]:
        """Return all edge types of the schema, including those without rows in the load."""
        return list(self.view.catalog.edges.values())

    def refuse(self, rows: TypeBatch, rejection: RejectedRows) -> None:
        """Reject rows, which are excluded from then on."""
        if len(rejection.rows):
            assert not rows.is_excluded[rejection.rows].any()  # noqa: S101 - a record is rejected, and counted, once
            rows.is_excluded[rejection.rows] = True
            self.rejections.rows.append((rows.spooled, rejection))

    def fail(self, problem: GlobalProblem) -> None:
        """Add a problem that leaving out records can't resolve."""
        if problem.count:
            self.rejections.global_problems.append(problem)

    @property
    def excluded_rows(self) -> int:
        """The number of excluded rows."""
        return sum(int(rows.is_excluded.sum()) for rows in self.types.values())
