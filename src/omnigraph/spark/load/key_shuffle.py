"""The set checks of a load in one shuffle: every key is a 64-bit hash in a bucket, and a bucket is judged by itself.

The map side reads key columns, of what was staged and of what is committed and matters, and packs the hashes of each
role, a bucket at a time. The reduce side sorts and compares. What comes out are the hashes under suspicion: keys that
are there twice, ends that lead nowhere, sources with too many or too few edges. Whether it is so, and what is said of
it, is decided row by row elsewhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.endpoints import ENDS
from omnigraph.engine.view import View
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.spark.load.key_hashes import find_roles, format_unique_role, hash_keys, is_among_sorted
from omnigraph.spark.load.load_spec import LoadSpec, Worker
from omnigraph.spark.load.load_state import StagedLoad
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.fragment_writer import count_fragment_rows
from omnigraph.storage.written_rows import iter_staged_batches

KEYS_DDL = "bucket int, role string, payload binary"
_KEYS_SCHEMA = pa.schema(
    [pa.field("bucket", pa.int32()), pa.field("role", pa.string()), pa.field("payload", pa.binary())]
)
NEW, COMMITTED, GONE = "new", "committed", "gone"
"""Rows of the load; those that are there; of a merge, those of them whose place other rows take."""
_MAX_BUFFERED_ROWS = 1_000_000
"""Of how many rows at most a task holds the keys."""
KNOWN = "known"
"""Of an overwrite: how many ids of the load are committed ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """Some rows whose keys go into the ledger: a staged fragment, or fragments of a committed table.

    Or the key of scratch that has the hashes themselves, by role: of rows that are replaced (`gone`), or of rows of a
    merge that nobody has staged (`told`).
    """

    type: str
    roles: tuple[str, ...]
    staged: str | None = None
    committed: tuple[int, ...] = ()
    replaced_hashes: str | None = None
    row_hashes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """What is judged: by type, and by which rows count."""

    loaded: frozenset[str]
    """The types that the load has rows of, or names."""
    replaced: frozenset[str]
    """Those whose committed rows go."""
    is_append: bool
    is_merge: bool = False
    """Whether rows of the load take the place of committed ones, which is known row by row."""
    generated: frozenset[str] = frozenset()
    """Types all of whose ids were made by this load, so that nobody can have one of them."""


@dataclass(slots=True)
class KeyShufflePlan:
    """What the ledger is about, as the driver plans it."""

    catalog: Catalog
    rules: KeyRules
    staged: dict[str, set[str]] = field(default_factory=dict)
    committed: dict[str, set[str]] = field(default_factory=dict)
    """By type, the roles that matter."""

    def plan(self) -> "KeyShufflePlan":
        """Decide what has to be read."""
        rules = self.rules
        types: dict[str, AnyType] = {**self.catalog.nodes, **self.catalog.edges}
        for name in rules.loaded:
            type_ = types[name]
            self.staged[name] = set(find_roles(type_))
            if not rules.is_merge and name not in rules.generated:
                self._require(name, ID)
            if rules.is_append or rules.is_merge:
                for number in range(len(type_.unique)):
                    self._require(name, format_unique_role(number))
        for edge in self.catalog.edges.values():
            is_new = edge.name in rules.loaded
            for column, end in ((SRC, edge.source), (DST, edge.target)):
                if is_new and end not in rules.replaced:
                    self._require(end, ID)
                if end in rules.replaced and edge.name not in rules.replaced:
                    self._require(edge.name, column)
            is_counted = edge.cardinality.low or (is_new and edge.cardinality.high is not None)
            if is_counted and (is_new or edge.source in rules.loaded) and edge.name not in rules.replaced:
                self._require(edge.name, SRC)
        return self

    def _require(self, name: str, role: str) -> None:
        self.committed.setdefault(name, set()).add(role)


encode_hashes = msgspec.msgpack.Encoder().encode
decode_hashes = msgspec.msgpack.Decoder(dict[str, bytes]).decode


def find_replaced_roles(type_: AnyType) -> dict[str, tuple[str, ...]]:
    """The roles in which it matters that a row's place is taken: unique values, and where edges are counted, sources.

    With the columns of each.
    """
    is_counted = isinstance(type_, EdgeType) and (type_.cardinality.low or type_.cardinality.high is not None)
    return {
        role: columns
        for role, columns in find_roles(type_).items()
        if role not in (ID, SRC, DST) or (role == SRC and is_counted)
    }


# --- map ---------------------------------------------------------------------------------------------


def iter_key_batches(
    spec: LoadSpec, units: Sequence[KeySource], numbers: Iterator[int], buckets: int
) -> Iterator[pa.RecordBatch]:
    """The packed keys of these units."""
    worker = spec.create_worker()
    for number in numbers:
        unit = units[number]
        hashed = unit.replaced_hashes if unit.replaced_hashes is not None else unit.row_hashes
        if hashed is not None:
            side = NEW if unit.replaced_hashes is None else GONE
            for role, packed in decode_hashes(worker.store.objects.get(hashed).data).items():
                yield _pack_keys(f"{side}/{unit.type}/{role}", np.frombuffer(packed, np.uint64), buckets)
            continue
        type_ = worker.get_type(unit.type)
        columns = find_roles(type_)
        names = sorted({name for role in unit.roles for name in columns[role]})
        side = NEW if unit.staged is not None else COMMITTED
        found: dict[str, list[Hashes]] = {role: [] for role in unit.roles}
        held = 0
        for batch in _read_batches(worker, unit, type_, names):
            rows = pa.Table.from_batches([batch])
            for role in unit.roles:
                found[role].append(hash_keys(rows, columns[role], spec.seed)[0])
            held += rows.num_rows
            if held >= _MAX_BUFFERED_ROWS:
                yield from _pack_all(f"{side}/{unit.type}", found, buckets)
                held = 0
        yield from _pack_all(f"{side}/{unit.type}", found, buckets)


def _pack_all(whose: str, found: dict[str, list[Hashes]], buckets: int) -> Iterator[pa.RecordBatch]:
    """What was found so far, and nothing is left of it here."""
    for role, parts in found.items():
        if any(map(len, parts)):
            yield _pack_keys(f"{whose}/{role}", np.concatenate(parts), buckets)
        parts.clear()


def _read_batches(worker: Worker, unit: KeySource, type_: AnyType, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    table = worker.open_table(type_.table_key)
    if unit.staged is not None:
        return iter_staged_batches(worker.store, table.path, unit.staged, names)
    return table.iter_batches(names, fragments=unit.committed)


def _pack_keys(role: str, hashes: Hashes, buckets: int) -> pa.RecordBatch:
    """One row per bucket that has a hash."""
    bucket = assign_buckets(hashes, buckets)
    order = np.argsort(bucket, kind="stable")
    counts = np.bincount(bucket, minlength=buckets)
    ordered, ends = hashes[order], np.cumsum(counts)
    there = np.flatnonzero(counts)
    payloads = [ordered[ends[at] - counts[at] : ends[at]].tobytes() for at in there]
    arrays = [
        pa.array(there.astype(np.int32)),
        pa.array([role] * len(there), pa.string()),
        pa.array(payloads, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_KEYS_SCHEMA)


def assign_buckets(hashes: Hashes, buckets: int) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """The bucket of each hash, by its highest bits."""
    return ((hashes >> np.uint64(48)) * np.uint64(buckets) >> np.uint64(16)).astype(np.uint16)


# --- reduce ------------------------------------------------------------------------------------------


def find_suspicious_keys(catalog: Catalog, rules: KeyRules, parts: Mapping[str, Sequence[Hashes]]) -> dict[str, Hashes]:
    """What is suspicious in a bucket: hashes by type and role, as `Person/id`; and counts, in `known/Person`."""
    return _BucketCheck(catalog, rules, parts).find_suspicious_keys()


class _BucketCheck:
    def __init__(self, catalog: Catalog, rules: KeyRules, parts: Mapping[str, Sequence[Hashes]]) -> None:
        self._catalog, self._rules = catalog, rules
        self._parts = parts
        self._sorted: dict[str, Hashes] = {}
        self._found: dict[str, list[Hashes]] = {}

    def find_suspicious_keys(self) -> dict[str, Hashes]:
        types: dict[str, AnyType] = {**self._catalog.nodes, **self._catalog.edges}
        for name in sorted(self._rules.loaded):
            self._check_keys(types[name])
        for edge in self._catalog.edges.values():
            self._check_ends(edge)
            self._check_counts(edge)
        return {role: np.unique(np.concatenate(parts)) for role, parts in self._found.items()}

    def _check_keys(self, type_: AnyType) -> None:
        """Keys that two rows of the load have, or one and a committed row."""
        for role in (ID, *(format_unique_role(number) for number in range(len(type_.unique)))):
            new = self._get_sorted(NEW, type_.name, role)
            self._add_suspects(type_.name, role, _find_repeated(new))
            there = self._get_sorted(COMMITTED, type_.name, role)
            if self._rules.is_merge:
                gone = self._get_sorted(GONE, type_.name, role)
                held = np.unique(new)
                stays = _count_keys(there, held) > _count_keys(gone, held)
                self._add_suspects(type_.name, role, held[stays] if role != ID else held[:0])
            elif self._rules.is_append:
                self._add_suspects(type_.name, role, new[is_among_sorted(new, there)])
            elif role == ID:
                known = is_among_sorted(np.unique(new), there).sum()
                self._found.setdefault(f"{KNOWN}/{type_.name}", []).append(np.array([known], np.uint64))

    def _check_ends(self, edge: EdgeType) -> None:
        """Ends that no node has: of new edges, and of committed ones whose nodes are replaced."""
        for column, _ in ENDS:
            node = edge.source if column == SRC else edge.target
            ids = [self._get_sorted(NEW, node, ID)]
            if node not in self._rules.replaced:
                ids.append(self._get_sorted(COMMITTED, node, ID))
            for side in (NEW, COMMITTED):
                if side == COMMITTED and (node not in self._rules.replaced or edge.name in self._rules.replaced):
                    continue
                ends = self._get_sorted(side, edge.name, column)
                is_there = np.zeros(len(ends), np.bool_)
                for known in ids:
                    is_there |= is_among_sorted(ends, known)
                missing = ends[~is_there]
                self._add_suspects(f"!{node}", ID, missing)
                if side == NEW:
                    self._add_suspects(edge.name, column, missing)

    def _check_counts(self, edge: EdgeType) -> None:
        """Sources whose edges are too many, or too few."""
        limits, rules = edge.cardinality, self._rules
        is_new, has_new_nodes = edge.name in rules.loaded, edge.source in rules.loaded
        if (limits.low == 0 and limits.high is None) or not (is_new or (has_new_nodes and limits.low)):
            return
        come = self._get_sorted(NEW, edge.name, SRC)
        stay = come[:0] if edge.name in rules.replaced else self._get_sorted(COMMITTED, edge.name, SRC)
        gone = self._get_sorted(GONE, edge.name, SRC)
        asked = [come, gone]
        if limits.low:
            asked.append(self._get_sorted(NEW, edge.source, ID))
            if edge.name in rules.replaced and edge.source not in rules.replaced:
                asked.append(self._get_sorted(COMMITTED, edge.source, ID))
        sources = np.unique(np.concatenate(asked))
        totals = _count_keys(come, sources) + _count_keys(stay, sources) - _count_keys(gone, sources)
        is_wrong = totals < limits.low
        if limits.high is not None:
            is_wrong |= totals > limits.high
        self._add_suspects(edge.name, SRC, sources[is_wrong])
        if limits.low:
            self._add_suspects(edge.source, ID, sources[is_wrong])

    def _get_sorted(self, side: str, name: str, role: str) -> Hashes:
        """All hashes of a role, sorted."""
        key = f"{side}/{name}/{role}"
        if key not in self._sorted:
            parts = self._parts.get(key)
            self._sorted[key] = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.uint64)
        return self._sorted[key]

    def _add_suspects(self, name: str, role: str, hashes: Hashes) -> None:
        if len(hashes):
            self._found.setdefault(f"{name}/{role}", []).append(hashes)


def _find_repeated(ordered: Hashes) -> Hashes:
    return np.asarray(ordered[1:][ordered[1:] == ordered[:-1]], np.uint64)


def _count_keys(ordered: Hashes, keys: Hashes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How often each key is among the ordered hashes."""
    return np.searchsorted(ordered, keys, side="right") - np.searchsorted(ordered, keys, side="left")


MAX_COMMITTED_ROWS = 4_000_000
"""How many committed rows one task reads the keys of."""


def plan_key_sources(view: View, rules: KeyRules, staged: StagedLoad) -> tuple[list[KeySource], int]:
    """What the ledger of an append or overwrite reads, and about how many keys that are."""
    return plan_merge_key_sources(view, rules, {name: staged.list_fragments(name) for name in rules.loaded}, [])


def plan_merge_key_sources(
    view: View, rules: KeyRules, staged: Mapping[str, Sequence[str]], gone: Sequence[KeySource]
) -> tuple[list[KeySource], int]:
    """What the ledger reads of these fragments by type, and about how many keys that are; `gone` go with them."""
    plan = KeyShufflePlan(view.catalog, rules).plan()
    units: list[KeySource] = [*gone]
    keys = 0
    for name, roles in plan.staged.items():
        texts = staged[name]
        units += [KeySource(type=name, roles=tuple(sorted(roles)), staged=text) for text in texts]
        keys += len(roles) * sum(map(count_fragment_rows, texts))
    for name, roles in plan.committed.items():
        table = view.get_table(view.get_type(name))
        group: list[int] = []
        held = 0
        for fragment in table.list_fragments():
            if group and held + fragment.rows > MAX_COMMITTED_ROWS:
                units.append(KeySource(type=name, roles=tuple(sorted(roles)), committed=tuple(group)))
                group, held = [], 0
            group.append(fragment.number)
            held += fragment.rows
            keys += len(roles) * (fragment.rows - fragment.deleted)
        if group:
            units.append(KeySource(type=name, roles=tuple(sorted(roles)), committed=tuple(group)))
    return units, keys
