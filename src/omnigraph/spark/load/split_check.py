"""Check the rows of one split whose suspicious keys no other row of the load has, in the task that reads the split.

The ordinary checks decide, as they would on the driver. It gets counts, the first problems, and the names of objects.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.id_checks import build_repeat_rejection
from omnigraph.engine.bulk.load_batch import IdPredicate, LoadBatch, LoadMode, TypeBatch, UnloadedRows
from omnigraph.engine.bulk.load_checks import check_separate_rows
from omnigraph.engine.bulk.load_errors import InputNames, RejectedRows
from omnigraph.engine.bulk.row_spool import LINE, Spool, SpooledType, build_left_out_name
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.engine.view import View
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import NodeType
from omnigraph.spark.load.driver_buffer import ScratchWriter
from omnigraph.spark.load.key_hashes import WantedKeys, find_roles, hash_ids, hash_keys, is_among_sorted
from omnigraph.spark.load.left_out_rows import LeftOutRows
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.reject_log import RejectLog, SplitRejects
from omnigraph.spark.load.repeated_rows import RepeatedRows, RowRepeats
from omnigraph.spark.load.separate_keys import SeparateKeys, list_missing_ends
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.columnar_sets import Mask, Positions

if TYPE_CHECKING:
    from omnigraph.commit.snapshot_tables import SnapshotTables

# Suspect rows are copied this many at a time.
_CHUNK_ROWS = 65_536
# A task reports up to this many nodes that its rejections leave without a row; beyond it, only their number.
_MAX_GONE = 10_000


class CheckedType(msgspec.Struct, kw_only=True):
    """The rejected rows of one type in a split."""

    rejected: int
    existing: int
    """The number of those whose id is that of a committed row."""
    left_out: LeftOutRows
    """Their ordinals."""
    gone: int = 0
    """The number of nodes that are neither loaded nor committed."""
    gone_hashes: bytes = b""
    """The packed hashes of their ids, unless they are too many."""


class SplitVerdict(msgspec.Struct, kw_only=True):
    """The rejected rows of one split."""

    types: dict[str, CheckedType] = msgspec.field(default_factory=dict)
    rejects: SplitRejects = msgspec.field(default_factory=SplitRejects)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateRules:
    """The facts about a load by which a task checks rows by themselves."""

    mode: LoadMode
    keys: SeparateKeys
    excluded: WantedKeys
    """The keys of rows that the driver decides about."""
    loaded: tuple[str, ...]
    replaced: frozenset[str]
    """The types whose committed rows are all removed."""
    repeats: Mapping[tuple[int, str], RepeatedRows] = field(default_factory=dict)
    """By split and type, the rows that have the id of an earlier row."""


def check_split(
    worker: Worker, rules: SeparateRules, split: int, rows: Spool, inputs: InputNames, scratch: ScratchWriter
) -> SplitVerdict:
    """Check the rows of a split that has one input, all of which are in a spool, in order."""
    repeats = {name: repeated for (number, name), repeated in rules.repeats.items() if number == split}
    return _SplitCheck(worker, rules, repeats, scratch).run(rows, inputs)


class _SplitCheck:
    def __init__(
        self, worker: Worker, rules: SeparateRules, repeats: Mapping[str, RepeatedRows], scratch: ScratchWriter
    ) -> None:
        self._worker, self._rules = worker, rules
        self._stored_repeats = repeats
        self._repeats = {name: repeated.read(worker) for name, repeated in repeats.items()}
        self._scratch = scratch
        self._ordinals: dict[str, Positions] = {}
        # By node type, the ids that edges of the split name and no node has.
        self._missing: dict[str, list[Hashes]] = {}

    def run(self, rows: Spool, inputs: InputNames) -> SplitVerdict:
        worker = self._worker
        with Spool(keeps_left_out=worker.spec.keeps_left_out) as suspects:
            for name in self._rules.loaded:
                suspects.declare_type(worker.get_type(name))
            for name, spooled in rows.types.items():
                self._ordinals[name] = self._find_suspects(spooled)
                for window in _iter_windows(spooled, self._ordinals[name]):
                    suspects.add(0, window)
            suspects.seal()
            batch = self._build_batch(suspects)
            for name, repeats in self._repeats.items():
                batch.refuse(batch.types[name], self._build_repeat_rejection(batch.types[name], repeats))
            check_separate_rows(batch)
            return self._report(batch, inputs)

    def _find_suspects(self, spooled: SpooledType) -> Positions:
        """Return the repeats, and the rows with a suspicious key, without those that the driver decides about."""
        type_, keys = spooled.type, self._rules.keys
        excluded = self._rules.excluded.get(type_.name, {})
        ends = list_missing_ends(self._worker.catalog, type_.name)
        is_suspect, is_excluded = np.zeros(spooled.rows, np.bool_), np.zeros(spooled.rows, np.bool_)
        for role, columns in find_roles(type_).items():
            key = f"{type_.name}/{role}"
            if role not in excluded and key not in keys.roles:
                continue
            hashes, complete = hash_keys(spooled.read_columns(columns), columns, self._worker.spec.seed)
            at = np.arange(spooled.rows) if complete is None else complete
            is_hit = keys.find_among(key, hashes, self._worker.read_object)
            is_suspect[at[is_hit]] = True
            if role in ends:
                self._missing.setdefault(ends[role], []).append(hashes[is_hit])
            if role in excluded:
                is_excluded[at[is_among_sorted(hashes, np.frombuffer(excluded[role], np.uint64))]] = True
        is_suspect &= ~is_excluded
        if type_.name in self._repeats:
            is_suspect[self._repeats[type_.name].ordinals] = True
        return np.flatnonzero(is_suspect)

    def _build_repeat_rejection(self, rows: TypeBatch, repeats: RowRepeats) -> RejectedRows:
        def find_first(number: int) -> tuple[str, str, int]:
            name, unit = self._worker.name_input(int(repeats.first_splits[number]))
            return name, unit, int(repeats.first_lines[number])

        later = np.searchsorted(self._ordinals[rows.type.name], repeats.ordinals)
        return build_repeat_rejection(rows, later, find_first)

    def _build_batch(self, suspects: Spool) -> LoadBatch:
        worker, rules = self._worker, self._rules
        types: dict[str, TypeBatch] = {}
        for name, spooled in suspects.types.items():
            is_there = _build_exists(self._missing.get(name, ()), worker.spec.seed)
            # A replaced type has good rows elsewhere; of one that is not, all records were unreadable.
            rest = UnloadedRows(rows=int(name in rules.replaced), is_there=is_there, is_counted=_is_none)
            types[name] = TypeBatch(spooled, worker.open_table(spooled.type.table_key), rules.mode, rest=rest)
            types[name].leaves_out = types[name].has_unreadable = name not in rules.replaced
        # A worker opens tables as a snapshot does; the checks of rows ask for nothing else of it.
        view = View(worker.catalog, cast("SnapshotTables", worker))
        return LoadBatch(view=view, mode=rules.mode, types=types)

    def _report(self, batch: LoadBatch, inputs: InputNames) -> SplitVerdict:
        log = RejectLog()
        if self._worker.spec.keeps_rejected:
            log.keep_by(self._scratch.keep)
        log.add_rejections(batch.rejections, inputs)
        verdict = SplitVerdict(rejects=log.finish())
        for name, rows in batch.types.items():
            rejected = np.flatnonzero(rows.is_excluded)
            if len(rejected):
                ordinals = self._ordinals[name][rejected]
                # The first row of a repeated id counts for its id.
                is_counted = rows.is_excluded & ~np.isin(self._ordinals[name], self._get_repeats(name))
                checked = CheckedType(
                    rejected=len(rejected),
                    existing=int((rows.exists & is_counted).sum()),
                    left_out=self._keep_left_out(name, ordinals),
                )
                verdict.types[name] = self._add_gone(checked, rows, is_counted)
        return verdict

    def _get_repeats(self, name: str) -> Positions:
        return self._repeats[name].ordinals if name in self._repeats else np.empty(0, np.int64)

    def _keep_left_out(self, name: str, ordinals: Positions) -> LeftOutRows:
        """Store the ordinals of rejected rows, unless they are those of all repeats, which are stored already."""
        if len(ordinals) == len(self._get_repeats(name)):
            return self._stored_repeats[name].left_out
        return LeftOutRows(key=self._scratch.keep(f"{name}.left", ordinals.tobytes()))

    def _add_gone(self, checked: CheckedType, rows: TypeBatch, is_counted: Mask) -> CheckedType:
        """Add the nodes that edges of the load may need in vain: rejected for something else than an id that exists."""
        is_gone = is_counted & ~rows.exists
        if isinstance(rows.type, NodeType) and is_gone.any():
            checked.gone = int(is_gone.sum())
            if checked.gone <= _MAX_GONE:
                ids = rows.read_ids().filter(pa.array(is_gone))
                checked.gone_hashes = hash_ids(ids, self._worker.spec.seed).tobytes()
        return checked


def _build_exists(missing: Sequence[Hashes], seed: int) -> IdPredicate:
    hashes = np.unique(np.concatenate([np.empty(0, np.uint64), *missing]))
    return lambda ids: ~is_among_sorted(hash_ids(ids, seed), hashes)


def _is_none(ids: pa.Array) -> Mask:
    return np.zeros(len(ids), np.bool_)


def _iter_windows(spooled: SpooledType, positions: Positions) -> Iterator[TypedRows]:
    """Yield the rows at these positions, some at a time."""
    schema = build_arrow_schema(spooled.type)
    masks = {
        name: build_left_out_name(name)
        for name in (ID, *(p.name for p in spooled.type.properties))
        if build_left_out_name(name) in spooled.schema.names
    }
    for start in range(0, len(positions), _CHUNK_ROWS):
        table = spooled.take(positions[start : start + _CHUNK_ROWS], [*schema.names, LINE, *masks.values()])
        table = table.combine_chunks()
        left_out = {name: table.column(column).combine_chunks() for name, column in masks.items()}
        yield TypedRows(
            type=spooled.type,
            rows=pa.Table.from_arrays(table.select(schema.names).columns, schema=schema),
            lines=table.column(LINE).combine_chunks(),
            left_out={name: mask for name, mask in left_out.items() if mask.true_count},
        )
