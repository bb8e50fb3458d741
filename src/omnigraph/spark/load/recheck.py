"""Rows under suspicion, in a batch of their own: the ordinary checks of a load decide, and say what is wrong.

The batch holds every row that shares an id, a unique value or, where edges are counted, a source with a suspect. So
what the checks decide about it is what they would decide about it among all rows. When they refuse a row, others may
become wrong by that: edges of a node, nodes that lose an edge. Those join the batch, and it is checked again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch, UnloadedRows
from omnigraph.engine.bulk.load_checks import check_batch
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.engine.view import View
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.spark.load.key_hashes import WantedKeys, hash_ids, is_among_sorted
from omnigraph.spark.load.row_chunks import ChunkRows
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.columnar_sets import Mask, Positions, is_among

_MISSING_PREFIX = "!"
"""Before the name of a node type: ids that edges name and no node has."""


@dataclass(frozen=True, slots=True)
class FetchedRows:
    """Some rows of one type from one split: the number of their input, and the rows.

    In a merge, the number of their piece is in place of the split, and `shared` has by role the hashes by which other
    rows of the load may share something with them, by what they say or by what the rows say whose places they take.
    """

    split: int
    file: int
    rows: ChunkRows
    shared: Mapping[str, Hashes] = field(default_factory=dict)


@dataclass(slots=True)
class Suspects:
    """What is wanted so far: sorted hashes by type and role."""

    hashes: dict[tuple[str, str], Hashes] = field(default_factory=dict)
    missing: dict[str, Hashes] = field(default_factory=dict)
    """By node type, the ids that edges name and no node has."""

    @classmethod
    def from_hashes(cls, judged: Mapping[str, Hashes], catalog: Catalog) -> "Suspects":
        """Those of the ledger, and what goes with them where edges are counted."""
        found = cls()
        for key, hashes in judged.items():
            name, _, role = key.partition("/")
            if name.startswith(_MISSING_PREFIX):
                found.missing[name.removeprefix(_MISSING_PREFIX)] = np.unique(hashes)
            else:
                found.add(name, role, hashes)
        for edge in catalog.edges.values():
            if edge.cardinality.low:
                for name, role in ((edge.source, ID), (edge.name, SRC)):
                    other = (edge.name, SRC) if role == ID else (edge.source, ID)
                    if (name, role) in found.hashes:
                        found.add(*other, found.hashes[name, role])
        return found

    def add(self, name: str, role: str, hashes: Hashes) -> bool:
        """More of them; whether any was not wanted before."""
        before = self.hashes.get((name, role), np.empty(0, np.uint64))
        after = np.union1d(before, hashes)
        self.hashes[name, role] = after
        return len(after) > len(before)

    def merge(self, others: "Suspects") -> None:
        """Those of another ledger, too."""
        for (name, role), hashes in others.hashes.items():
            self.add(name, role, hashes)
        for name, hashes in others.missing.items():
            self.missing[name] = np.union1d(self.missing.get(name, np.empty(0, np.uint64)), hashes)

    def to_wanted(self, loaded: Iterable[str]) -> WantedKeys:
        """For tasks."""
        names = set(loaded)
        found: dict[str, dict[str, bytes]] = {}
        for (name, role), hashes in self.hashes.items():
            if name in names and len(hashes):
                found.setdefault(name, {})[role] = hashes.tobytes()
        return found


@dataclass(slots=True)
class SuspectRows:
    """The suspects in a spool, and where each row of it lies: its split and its ordinal there."""

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
        """Rows in the order of the input; every type of the load is named, also one without suspects."""
        spool = Spool(keeps_left_out=keeps_left_out)
        splits: dict[str, Positions] = {}
        ordinals: dict[str, Positions] = {}
        for name in loaded:
            type_ = catalog.find_type(name)
            assert type_ is not None  # noqa: S101 - it was loaded by this catalog
            spool.declare_type(type_)
            parts = sorted(fetched.get(name, ()), key=lambda one: one.split)
            for part in parts:
                spool.add(part.file, part.rows.window)
            nothing = np.empty(0, np.int64)
            splits[name] = np.concatenate([nothing, *(np.full(len(p.rows.ordinals), p.split) for p in parts)])
            ordinals[name] = np.concatenate([nothing, *(part.rows.ordinals for part in parts)])
        spool.seal()
        return cls(spool, splits, ordinals)

    def group_ordinals(self, name: str, rows: Positions) -> dict[int, Positions]:
        """By split, the ordinals of these rows of a type, ascending."""
        splits, ordinals = self.splits[name][rows], self.ordinals[name][rows]
        return {int(split): np.sort(ordinals[splits == split]) for split in np.unique(splits)}


@dataclass(slots=True)
class SuspectCheck:
    """Checks the suspects of a load on one state."""

    view: View
    mode: LoadMode
    loaded: Sequence[str]
    total: Mapping[str, int]
    """How many rows of each type the load has."""
    inputs: Callable[[], InputNames]
    seed: int
    keeps_left_out: bool
    leaves_out: bool
    unreadable: frozenset[str]
    fetch: Callable[[WantedKeys], Mapping[str, Sequence[FetchedRows]]]
    only_known: bool = False

    def build_empty(self) -> tuple[LoadBatch, SuspectRows]:
        """The batch of a load without suspects."""
        rows = SuspectRows.from_fetched({}, self.view.catalog, self.loaded, keeps_left_out=self.keeps_left_out)
        return self._build_batch(rows, Suspects()), rows

    def run(self, suspects: Suspects) -> tuple[LoadBatch, SuspectRows]:
        """The batch of all rows that may be wrong, checked, and its rows."""
        while True:
            rows = self._fetch_all(suspects)
            batch = self._build_batch(rows, suspects)
            check_batch(batch, self.inputs())
            if not self._widen_by_refused(batch, suspects):
                return batch, rows
            rows.spool.close()

    def _fetch_all(self, suspects: Suspects) -> SuspectRows:
        """All that is wanted. Where edges are counted, the edges from the same sources are wanted too."""
        while True:
            wanted = suspects.to_wanted(self.loaded)
            fetched = self.fetch(wanted) if wanted or self.mode is LoadMode.MERGE else {}
            rows = SuspectRows.from_fetched(fetched, self.view.catalog, self.loaded, keeps_left_out=self.keeps_left_out)
            is_wider = self._add_shared(suspects, fetched)
            for edge in self.view.catalog.edges.values():
                if edge.name in rows.spool.types and not _is_unbounded(edge):
                    is_wider |= self._widen(suspects, edge, self._read_column(rows, edge.name, SRC))
                if edge.source in rows.spool.types and edge.cardinality.low:
                    is_wider |= self._widen(suspects, edge, self._read_column(rows, edge.source, ID))
            if not is_wider:
                return rows
            rows.spool.close()

    def _add_shared(self, suspects: Suspects, fetched: Mapping[str, Sequence[FetchedRows]]) -> bool:
        """What rows of a merge share with others: a value may change hands only if whoever has it gives it away."""
        is_wider = False
        for name, parts in fetched.items():
            for role in {role for part in parts for role in part.shared}:
                hashes = np.concatenate([part.shared[role] for part in parts if role in part.shared])
                is_wider |= suspects.add(name, role, hashes)
                edge = self.view.catalog.edges.get(name)
                if edge is not None and role == SRC and edge.cardinality.low and edge.source in self.loaded:
                    is_wider |= suspects.add(edge.source, ID, hashes)
        return is_wider

    def _widen_by_refused(self, batch: LoadBatch, suspects: Suspects) -> bool:
        """Whether rows that were refused make suspects of others."""
        is_wider = False
        for edge in self.view.catalog.edges.values():
            for column, node in ((SRC, edge.source), (DST, edge.target)):
                nodes = batch.types.get(node)
                if nodes is not None and edge.name in batch.types and nodes.is_excluded.any():
                    gone = nodes.read_ids().filter(pa.array(nodes.is_excluded))
                    is_wider |= suspects.add(edge.name, column, hash_ids(gone, self.seed))
            edges = batch.types.get(edge.name)
            if edges is not None and edge.cardinality.low and edges.is_excluded.any():
                gone = edges.read_column(SRC).filter(pa.array(edges.is_excluded))
                is_wider |= self._widen(suspects, edge, gone)
        return is_wider

    def _widen(self, suspects: Suspects, edge: EdgeType, sources: pa.Array) -> bool:
        """All edges from these sources, and where there is a least number of them, the sources themselves."""
        hashes = hash_ids(sources, self.seed)
        if not len(hashes):
            return False
        is_wider = suspects.add(edge.name, SRC, hashes)
        if edge.cardinality.low and edge.source in self.loaded:
            is_wider |= suspects.add(edge.source, ID, hashes)
        return is_wider and edge.name in self.loaded

    def _read_column(self, rows: SuspectRows, name: str, column: str) -> pa.Array:
        return rows.spool.types[name].read_columns([column]).column(0).combine_chunks()

    def _build_batch(self, rows: SuspectRows, suspects: Suspects) -> LoadBatch:
        types: dict[str, TypeBatch] = {}
        for name, spooled in rows.spool.types.items():
            known = spooled.read_columns([ID]).column(0)
            rest = UnloadedRows(
                rows=self.total[name] - spooled.rows,
                is_there=_IdExists(suspects.missing.get(name, np.empty(0, np.uint64)), known, self.seed),
                is_counted=_SourceIsCounted(suspects.hashes.get((name, SRC), np.empty(0, np.uint64)), self.seed),
            )
            types[name] = TypeBatch(spooled, self.view.get_table(spooled.type), self.mode, rest=rest)
            types[name].leaves_out, types[name].has_unreadable = self.leaves_out, name in self.unreadable
            types[name].only_known = self.only_known
        return LoadBatch(view=self.view, mode=self.mode, types=types)


def _is_unbounded(edge: EdgeType) -> bool:
    return edge.cardinality.low == 0 and edge.cardinality.high is None


@dataclass(frozen=True, slots=True)
class _IdExists:
    """Ids that rows outside of the batch have: the ledger found them, and the batch does not hold them."""

    missing: Hashes
    own: pa.ChunkedArray
    seed: int

    def __call__(self, ids: pa.Array) -> Mask:
        return ~is_among_sorted(hash_ids(ids, self.seed), self.missing) & ~is_among(ids, self.own)


@dataclass(frozen=True, slots=True)
class _SourceIsCounted:
    sources: Hashes
    seed: int

    def __call__(self, ids: pa.Array) -> Mask:
        return is_among_sorted(hash_ids(ids, self.seed), self.sources)
