"""Check the suspect rows of a load in a batch of their own: the ordinary checks decide, and report errors.

The batch has every row that shares an id, a unique value or, where edges are counted, a source with a suspect. So the
checks decide about a row as they would among all rows. A rejected row can make others wrong: edges of a rejected node,
nodes that lose an edge. Those are added to the batch, and it is checked again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch, UnloadedRows
from omnigraph.engine.bulk.load_checks import check_batch
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.engine.constraints.edge_constraints import list_ends
from omnigraph.engine.view import View
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.spark.load.key_hashes import MISSING_PREFIX, WantedKeys, hash_ids, is_among_sorted
from omnigraph.spark.load.row_chunks import ChunkRows
from omnigraph.spark.load.separate_keys import list_missing_ends
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.columnar_sets import Mask, Positions, is_among


@dataclass(frozen=True, slots=True)
class FetchedRows:
    """Rows of one type from one split, with the number of their input.

    In a merge, `split` is the number of their chunk, and `shared` has by role the hashes of keys, in their new values
    and in those of the rows they replace, that other rows of the load may share.
    """

    split: int
    file: int
    rows: ChunkRows
    shared: Mapping[str, Hashes] = field(default_factory=dict)


@dataclass(slots=True)
class Suspects:
    """The suspicious keys collected so far: sorted hashes by type and role."""

    hashes: dict[tuple[str, str], Hashes] = field(default_factory=dict)
    missing: dict[str, Hashes] = field(default_factory=dict)
    """By node type, the ids that edges name and no node has."""

    @classmethod
    def from_hashes(cls, suspicious: Mapping[str, Hashes], catalog: Catalog) -> "Suspects":
        """Build suspects from the result of a key shuffle; with a lower cardinality, sources and edges go together."""
        suspects = cls()
        for key, hashes in suspicious.items():
            name, _, role = key.partition("/")
            if name.startswith(MISSING_PREFIX):
                suspects.missing[name.removeprefix(MISSING_PREFIX)] = np.unique(hashes)
            else:
                suspects.add(name, role, hashes)
        for edge in catalog.edges.values():
            if edge.cardinality.low:
                for name, role in ((edge.source, ID), (edge.name, SRC)):
                    other = (edge.name, SRC) if role == ID else (edge.source, ID)
                    if (name, role) in suspects.hashes:
                        suspects.add(*other, suspects.hashes[name, role])
        return suspects

    def add(self, name: str, role: str, hashes: Hashes) -> bool:
        """Add hashes of a role, and return whether any of them is new."""
        before = self.hashes.get((name, role), np.empty(0, np.uint64))
        after = np.union1d(before, hashes)
        self.hashes[name, role] = after
        return len(after) > len(before)

    def add_missing(self, node: str, hashes: Hashes) -> None:
        """Add ids that edges name and no node of a type has."""
        self.missing[node] = np.union1d(self.missing.get(node, np.empty(0, np.uint64)), hashes)

    def add_separate(self, hashes: Mapping[str, Hashes], catalog: Catalog) -> None:
        """Add the keys of single rows, which are then checked with all others; for ends, no node has them."""
        for key, separate in hashes.items():
            name, _, role = key.partition("/")
            self.add(name, role, separate)
            node = list_missing_ends(catalog, name).get(role)
            if node is not None:
                self.add_missing(node, separate)

    def add_gone(self, gone: Mapping[str, Hashes], catalog: Catalog, loaded: Iterable[str]) -> bool:
        """Add the edges of nodes that tasks have rejected, and return whether any is new."""
        is_new = False
        for edge in catalog.edges.values():
            for end in list_ends(edge):
                hashes = gone.get(end.node)
                if edge.name in loaded and hashes is not None and len(hashes):
                    is_new |= self.add(edge.name, end.column, hashes)
                    self.add_missing(end.node, hashes)
        return is_new

    def merge(self, other: "Suspects") -> None:
        """Add all suspects of another key shuffle."""
        for (name, role), hashes in other.hashes.items():
            self.add(name, role, hashes)
        for name, hashes in other.missing.items():
            self.missing[name] = np.union1d(self.missing.get(name, np.empty(0, np.uint64)), hashes)

    def to_wanted(self, loaded: Iterable[str]) -> WantedKeys:
        """Return the packed hashes of the loaded types, for tasks that fetch their rows."""
        names = set(loaded)
        wanted: dict[str, dict[str, bytes]] = {}
        for (name, role), hashes in self.hashes.items():
            if name in names and len(hashes):
                wanted.setdefault(name, {})[role] = hashes.tobytes()
        return wanted


@dataclass(slots=True)
class SuspectRows:
    """The suspect rows in a spool, with the split and the ordinal of each."""

    spool: Spool
    splits: dict[str, Positions]
    ordinals: dict[str, Positions]

    @classmethod
    def from_fetched(
        cls,
        fetched: Mapping[str, Sequence[FetchedRows]],
        catalog: Catalog,
        loaded: Sequence[str],
        *,
        keeps_left_out: bool,
    ) -> "SuspectRows":
        """Write rows to a spool in the order of the input; declare all types of the load, also those without rows."""
        spool = Spool(keeps_left_out=keeps_left_out)
        splits: dict[str, Positions] = {}
        ordinals: dict[str, Positions] = {}
        empty = np.empty(0, np.int64)
        for name in loaded:
            type_ = catalog.find_type(name)
            assert type_ is not None  # noqa: S101 - it was loaded by this catalog
            spool.declare_type(type_)
            parts = sorted(fetched.get(name, ()), key=lambda part: part.split)
            for part in parts:
                spool.add(part.file, part.rows.window)
            splits[name] = np.concatenate([empty, *(np.full(len(part.rows.ordinals), part.split) for part in parts)])
            ordinals[name] = np.concatenate([empty, *(part.rows.ordinals for part in parts)])
        spool.seal()
        return cls(spool, splits, ordinals)

    def group_ordinals(self, name: str, rows: Positions) -> dict[int, Positions]:
        """Return, by split, the ordinals of these rows of a type, ascending."""
        splits, ordinals = self.splits[name][rows], self.ordinals[name][rows]
        return {int(split): np.sort(ordinals[splits == split]) for split in np.unique(splits)}


@dataclass(slots=True)
class SuspectCheck:
    """The check of the suspects of a load on one state."""

    view: View
    mode: LoadMode
    loaded: Sequence[str]
    total: Mapping[str, int]
    """The number of rows of each type in the load."""
    inputs: Callable[[], InputNames]
    seed: int
    keeps_left_out: bool
    leaves_out: bool
    unreadable: frozenset[str]
    fetch: Callable[[WantedKeys], Mapping[str, Sequence[FetchedRows]]]
    only_known: bool = False

    def build_empty(self) -> tuple[LoadBatch, SuspectRows]:
        """Return the batch of a load without suspects."""
        rows = SuspectRows.from_fetched({}, self.view.catalog, self.loaded, keeps_left_out=self.keeps_left_out)
        return self._build_batch(rows, Suspects()), rows

    def run(self, suspects: Suspects) -> tuple[LoadBatch, SuspectRows]:
        """Return the checked batch of all suspect rows, and the rows; `suspects` grows with each round."""
        while True:
            rows = self._fetch_all(suspects)
            batch = self._build_batch(rows, suspects)
            check_batch(batch, self.inputs())
            if not self._widen_by_rejected(batch, suspects):
                return batch, rows
            rows.spool.close()

    def _fetch_all(self, suspects: Suspects) -> SuspectRows:
        """Fetch the rows of all suspects, and those that share keys with them, until no further row is suspect."""
        while True:
            wanted = suspects.to_wanted(self.loaded)
            # In a merge, tasks add rows that are wrong by themselves, which no suspicious key leads to.
            fetched = self.fetch(wanted) if wanted or self.mode is LoadMode.MERGE else {}
            rows = SuspectRows.from_fetched(fetched, self.view.catalog, self.loaded, keeps_left_out=self.keeps_left_out)
            is_wider = self._add_shared(suspects, fetched)
            for edge in self.view.catalog.edges.values():
                # Where edges are counted, all edges of a source have to be in the batch.
                if edge.name in rows.spool.types and edge.cardinality.is_bounded:
                    is_wider |= self._widen(suspects, edge, self._read_column(rows, edge.name, SRC))
                if edge.source in rows.spool.types and edge.cardinality.low:
                    is_wider |= self._widen(suspects, edge, self._read_column(rows, edge.source, ID))
            if not is_wider:
                return rows
            rows.spool.close()

    def _add_shared(self, suspects: Suspects, fetched: Mapping[str, Sequence[FetchedRows]]) -> bool:
        """Add the keys that rows of a merge may share with others, and return whether any is new.

        A unique value may move to another row only if the row that has it gives it up, so both are needed.
        """
        is_wider = False
        for name, parts in fetched.items():
            for role in {role for part in parts for role in part.shared}:
                hashes = np.concatenate([part.shared[role] for part in parts if role in part.shared])
                is_wider |= suspects.add(name, role, hashes)
                edge = self.view.catalog.edges.get(name)
                if edge is not None and role == SRC and edge.cardinality.low and edge.source in self.loaded:
                    is_wider |= suspects.add(edge.source, ID, hashes)
        return is_wider

    def _widen_by_rejected(self, batch: LoadBatch, suspects: Suspects) -> bool:
        """Add the keys of rows that become suspect by rejected ones, and return whether any is new."""
        is_wider = False
        for edge in self.view.catalog.edges.values():
            # The edges of a rejected node lose an end.
            for end in list_ends(edge):
                nodes = batch.types.get(end.node)
                if nodes is not None and edge.name in batch.types and nodes.is_excluded.any():
                    rejected = nodes.read_ids().filter(pa.array(nodes.is_excluded))
                    is_wider |= suspects.add(edge.name, end.column, hash_ids(rejected, self.seed))
            # Without a rejected edge, its source may have too few.
            edges = batch.types.get(edge.name)
            if edges is not None and edge.cardinality.low and edges.is_excluded.any():
                rejected = edges.read_column(SRC).filter(pa.array(edges.is_excluded))
                is_wider |= self._widen(suspects, edge, rejected)
        return is_wider

    def _widen(self, suspects: Suspects, edge: EdgeType, sources: pa.Array) -> bool:
        """Add all edges from these sources and, with a lower cardinality, the sources; return whether any is new."""
        hashes = hash_ids(sources, self.seed)
        if not len(hashes):
            return False
        is_wider = suspects.add(edge.name, SRC, hashes)
        if edge.cardinality.low and edge.source in self.loaded:
            is_wider |= suspects.add(edge.source, ID, hashes)
        # If the load has no edges of this type, there are none to fetch.
        return is_wider and edge.name in self.loaded

    def _read_column(self, rows: SuspectRows, name: str, column: str) -> pa.Array:
        return rows.spool.types[name].read_columns([column]).column(0).combine_chunks()

    def _build_batch(self, rows: SuspectRows, suspects: Suspects) -> LoadBatch:
        types: dict[str, TypeBatch] = {}
        for name, spooled in rows.spool.types.items():
            ids = spooled.read_columns([ID]).column(0)
            rest = UnloadedRows(
                rows=self.total[name] - spooled.rows,
                is_there=_IdExists(suspects.missing.get(name, np.empty(0, np.uint64)), ids, self.seed),
                is_counted=_SourceIsCounted(suspects.hashes.get((name, SRC), np.empty(0, np.uint64)), self.seed),
            )
            batch = TypeBatch(spooled, self.view.get_table(spooled.type), self.mode, rest=rest)
            batch.leaves_out = self.leaves_out
            batch.has_unreadable = name in self.unreadable
            batch.only_known = self.only_known
            types[name] = batch
        return LoadBatch(view=self.view, mode=self.mode, types=types)


@dataclass(frozen=True, slots=True)
class _IdExists:
    """A predicate for ids of rows outside the batch: the key shuffle found their nodes, and the batch lacks them."""

    missing: Hashes
    batch_ids: pa.ChunkedArray
    seed: int

    def __call__(self, ids: pa.Array) -> Mask:
        return ~is_among_sorted(hash_ids(ids, self.seed), self.missing) & ~is_among(ids, self.batch_ids)


@dataclass(frozen=True, slots=True)
class _SourceIsCounted:
    """A predicate for sources that are suspects, whose edges in the load are all in the batch."""

    sources: Hashes
    seed: int

    def __call__(self, ids: pa.Array) -> Mask:
        return is_among_sorted(hash_ids(ids, self.seed), self.sources)
