"""A large merge on executors: its rows find the committed ones, are filled, compared, checked and staged there.

The driver holds pieces and fragments by name, and of rows only those that something may be wrong with. Whether it is so
is decided elsewhere (`merge_recheck`); then the merge is made again, without what was refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from omnigraph.commit.requirements import Requirement
from omnigraph.commit.streamed_requirements import (
    StreamedIdsPresent,
    StreamedMergeCountsWithin,
    StreamedRowsUnchanged,
    StreamedValuesAbsent,
)
from omnigraph.engine.bulk.endpoints import ENDS
from omnigraph.engine.view import View
from omnigraph.ops.load_call import TypeCounts
from omnigraph.ops.write_tables import TableWrite
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.spark.load.id_join import ChunkGroup, group_chunks, split_fragments
from omnigraph.spark.load.key_hashes import WantedKeys
from omnigraph.spark.load.key_shuffle import KeyRules, KeySource, plan_merge_key_sources
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_spec import LoadSpec
from omnigraph.spark.load.load_state import StagedColumns, sum_fragment_rows
from omnigraph.spark.load.merge_fill_task import DeletionResult, FillResult, MergeFill, plan_deletions
from omnigraph.spark.load.merge_probe_task import MergeProbe
from omnigraph.spark.load.row_chunks import RowChunk
from omnigraph.spark.load.task_phases import Phases
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.fragment_writer import list_fragment_files
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.staging import WriteKind, list_deletion_files, stage_fragments, stage_replacement


@dataclass(slots=True)
class StagedMerge:
    """A merge that is staged, and that nothing is wrong with."""

    view: View
    groups: tuple[ChunkGroup, ...]
    fills: list[FillResult]
    deletions: list[DeletionResult] = field(default_factory=list)

    def count_changes(self, name: str) -> TypeCounts:
        """What it does to a type."""
        own = [one for one in self.fills if one.type == name]
        read, known = sum(one.rows for one in own), sum(one.known for one in own)
        unchanged = sum(one.unchanged for one in own)
        return TypeCounts(read=read, inserted=read - known, updated=known - unchanged, unchanged=unchanged)

    def list_fragments(self, name: str) -> list[str]:
        """The fragments of a type, in the order of its rows."""
        return [text for one in self.fills if one.type == name for text in one.fragments]

    @property
    def types(self) -> list[AnyType]:
        """Those that have rows, nodes first."""
        names = {one.type for one in self.fills}
        types: dict[str, AnyType] = {**self.view.catalog.nodes, **self.view.catalog.edges}
        return [one for name, one in types.items() if name in names]

    @property
    def files(self) -> list[str]:
        """Everything that was staged."""
        found: list[str] = []
        for type_ in self.types:
            table = self.view.get_table(type_)
            found += list_fragment_files(table, self.list_fragments(type_.name))
            found += [
                file
                for one in self.deletions
                if one.type == type_.name
                for file in list_deletion_files(table, one.updated)
            ]
        return found

    def build_writes(self) -> list[TableWrite]:
        """What happens to the tables."""
        found: list[TableWrite] = []
        for type_ in self.types:
            fragments = self.list_fragments(type_.name)
            if not fragments:
                continue
            table, rows = self.view.get_table(type_), sum_fragment_rows(fragments)
            taken = [one for one in self.deletions if one.type == type_.name]
            if taken:
                updated = [text for one in taken for text in one.updated]
                removed = sorted(number for one in taken for number in one.removed)
                staged = stage_replacement(table, fragments, rows, updated, removed, sum(one.rows for one in taken))
            else:
                staged = stage_fragments(table, WriteKind.APPEND, fragments, rows)
            found.append(TableWrite(table_key=type_.table_key, staged=staged))
        return found

    def build_requirements(self, store: GraphStorage) -> list[Requirement]:
        """What must stay so until it is published."""
        found: list[Requirement] = []
        for type_ in self.types:
            key = type_.table_key
            found.append(StreamedRowsUnchanged(table_key=key, rows=ChunkIds(store, self._list_chunks(type_.name))))
            found += [
                StreamedValuesAbsent(table_key=key, columns=one, rows=self._build_columns(type_, *one))
                for one in type_.unique
            ]
            if isinstance(type_, EdgeType):
                found += self._require_edges(type_)
        return found

    def _require_edges(self, edge: EdgeType) -> Iterator[Requirement]:
        limits = edge.cardinality
        if limits.low or limits.high is not None:
            rows = self._build_columns(edge, ID, SRC)
            yield StreamedMergeCountsWithin(
                table_key=edge.table_key, column=SRC, rows=rows, low=limits.low, high=limits.high
            )
        for column, _ in ENDS:
            node = self.view.catalog.nodes[edge.source if column == SRC else edge.target]
            yield StreamedIdsPresent(table_key=node.table_key, rows=self._build_columns(edge, column))

    def _build_columns(self, type_: AnyType, *names: str) -> StagedColumns:
        return StagedColumns(self.view.get_table(type_), tuple(self.list_fragments(type_.name)), names)

    def _list_chunks(self, name: str) -> tuple[RowChunk, ...]:
        return tuple(piece for group in self.groups if group.type == name for piece in group.chunks)


@dataclass(frozen=True, slots=True)
class ChunkIds:
    """The ids of all rows in pieces, read again whenever it is called."""

    store: GraphStorage
    chunks: tuple[RowChunk, ...]

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """From the start."""
        for piece in self.chunks:
            with pa.ipc.open_stream(self.store.objects.get(piece.key).data) as reader:
                for batch in reader:
                    yield batch.select([ID])


class DistributedMerge:
    """Merges rows, which lie in pieces by type, into a view's tables, by jobs of Spark."""

    def __init__(
        self, view: View, spec: LoadSpec, jobs: LoadJobs, phases: Phases, pieces: Mapping[str, Sequence[RowChunk]]
    ) -> None:
        pins = {key: (pin.path, str(pin.version)) for key, pin in view.snapshot.pins.items()}
        self.view, self.jobs = view, jobs
        self.spec = replace(spec, pins=pins)
        self.groups = tuple(group_chunks(pieces))
        self._phases = phases
        self._fragment_ranges = split_fragments(view, list(pieces))
        self._keys = sum(group.rows for group in self.groups)
        self._keys += sum(view.get_table(view.get_type(name)).count() for name in pieces)

    def merge(self, left_out: Mapping[int, bytes] | None = None) -> StagedMerge | None:
        """The merge, staged; None when something may be wrong with one of its rows.

        With `left_out`, by the number of their piece the places of rows that were refused, it is without those.
        """
        with self._phases.open_phase() as phase:
            filling = MergeFill(
                groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known, left_out=left_out
            )
            filled = self.jobs.fill_groups(self.spec, filling, self._fragment_ranges, self._keys)
            merge = StagedMerge(self.view, self.groups, filled)
            if any(one.suspects or one.unsure for one in filled) or not self._is_clean(merge):
                return None
            tasks = self.jobs.spark.sparkContext.defaultParallelism
            asked = [
                one
                for type_ in merge.types
                for one in plan_deletions(
                    type_.name,
                    [part.number for part in self.view.get_table(type_).list_fragments()],
                    merge.fills,
                    tasks,
                )
            ]
            merge.deletions = self.jobs.delete_rows(self.spec, phase.number, asked)
            phase.keep(merge.files)
        return merge

    def _is_clean(self, merge: StagedMerge) -> bool:
        """Whether no two rows share what must be unique, every edge has its ends, and no source too many or too few."""
        rules = _build_rules(type_.name for type_ in merge.types)
        staged = {type_.name: merge.list_fragments(type_.name) for type_ in merge.types}
        gone = [
            KeySource(type=one.type, roles=(), replaced_hashes=one.gone) for one in merge.fills if one.gone is not None
        ]
        units, keys = plan_merge_key_sources(self.view, rules, staged, gone)
        judged = self.jobs.find_suspicious_keys(self.spec, units, rules, keys)
        return not any(len(hashes) for hashes in judged.values())

    def find_suspicious_keys(self) -> dict[str, Hashes] | None:
        """What is suspicious among all rows, as the ledger says it; None when executors can't tell rows apart."""
        with self._phases.open_phase() as phase:
            asked = MergeProbe(groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known)
            told = self.jobs.fill_groups(self.spec, asked, self._fragment_ranges, self._keys)
            if any(one.unsure for one in told):
                return None
            names = {one.type for one in told}
            units = [
                KeySource(type=one.type, roles=(), replaced_hashes=one.gone) for one in told if one.gone is not None
            ]
            units += [KeySource(type=one.type, roles=(), row_hashes=one.told) for one in told if one.told is not None]
            rules = _build_rules(names)
            every, keys = plan_merge_key_sources(self.view, rules, dict.fromkeys(names, ()), units)
            return self.jobs.find_suspicious_keys(self.spec, every, rules, keys + sum(one.rows for one in told))

    def fetch_rows(self, wanted: WantedKeys) -> list[tuple[FillResult, int, bytes]]:
        """The rows that are wanted, and all that are wrong by themselves: the number of each piece, and its bytes."""
        found: list[tuple[FillResult, int, bytes]] = []
        with self._phases.open_phase() as phase:
            asked = MergeProbe(
                groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known, wanted=wanted
            )
            for one in self.jobs.fill_groups(self.spec, asked, self._fragment_ranges, self._keys):
                store = self.view.get_table(self.view.get_type(one.type)).handles.store
                found += [(one, number, store.objects.get(piece.key).data) for number, piece in one.handed.items()]
        return found


def _build_rules(names: Iterable[str]) -> KeyRules:
    return KeyRules(loaded=frozenset(names), replaced=frozenset(), is_append=False, is_merge=True)
