"""Run a large merge on executors, which match the rows with committed ones, fill, compare, check and stage them.

The driver holds the names of chunks and fragments only. If the key shuffle finds anything suspicious, `merge_recheck`
decides on the driver what is wrong, and the merge is run again without the rejected rows (decision 37).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from omnigraph.commit.requirements import Requirement
from omnigraph.commit.streamed_requirements import StreamedRowsUnchanged
from omnigraph.engine.constraints.streamed_rows import require_ends, require_values
from omnigraph.engine.view import View
from omnigraph.ops.load_call import TypeCounts
from omnigraph.ops.write_tables import TableWrite
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.spark.load.id_join import ChunkGroup, group_chunks, split_fragments
from omnigraph.spark.load.key_hashes import WantedKeys
from omnigraph.spark.load.key_shuffle import KeyRules, KeySource, plan_key_sources
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_spec import LoadSpec
from omnigraph.spark.load.load_state import sum_fragment_rows
from omnigraph.spark.load.merge_fill_task import DeletionResult, DeletionTask, FillResult, MergeFill, plan_deletions
from omnigraph.spark.load.merge_probe_task import MergeProbe
from omnigraph.spark.load.row_chunks import RowChunk
from omnigraph.spark.load.row_filter import OwnRows, RowFilter, StoredRows, build_column_reader
from omnigraph.spark.load.task_phases import Phases
from omnigraph.spark.session.connect import count_parallel_tasks
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.fragment_writer import list_fragment_files
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.row_deletion import list_deletion_files
from omnigraph.storage.staging import WriteKind, stage_fragments, stage_replacement


@dataclass(slots=True)
class StagedMerge:
    """A merge that passed all checks and is staged."""

    view: View
    groups: tuple[ChunkGroup, ...]
    fills: list[FillResult]
    filter_rows: RowFilter
    deletions: list[DeletionResult] = field(default_factory=list)

    def count_changes(self, name: str) -> TypeCounts:
        """Return the numbers of rows of a type that are read, inserted, updated and unchanged."""
        fills = [fill for fill in self.fills if fill.type == name]
        read = sum(fill.rows for fill in fills)
        known = sum(fill.known for fill in fills)
        unchanged = sum(fill.unchanged for fill in fills)
        return TypeCounts(read=read, inserted=read - known, updated=known - unchanged, unchanged=unchanged)

    def list_fragments(self, name: str) -> list[str]:
        """Return the new fragments of a type, in the order of its rows."""
        return [fragment for fill in self.fills if fill.type == name for fragment in fill.fragments]

    @property
    def types(self) -> list[AnyType]:
        """The types that have rows, nodes first."""
        names = {fill.type for fill in self.fills}
        types: dict[str, AnyType] = {**self.view.catalog.nodes, **self.view.catalog.edges}
        return [type_ for name, type_ in types.items() if name in names]

    @property
    def files(self) -> list[str]:
        """All staged files: data files of the new fragments, and deletion files."""
        files: list[str] = []
        for type_ in self.types:
            table = self.view.get_table(type_)
            files += list_fragment_files(table, self.list_fragments(type_.name))
            for deletion in self._list_deletions(type_.name):
                files += list_deletion_files(table, deletion.updated)
        return files

    def build_writes(self) -> list[TableWrite]:
        """Return a write for every table that gets new fragments."""
        writes: list[TableWrite] = []
        for type_ in self.types:
            fragments = self.list_fragments(type_.name)
            if not fragments:
                continue
            table, rows = self.view.get_table(type_), sum_fragment_rows(fragments)
            deletions = self._list_deletions(type_.name)
            if deletions:
                updated = [fragment for deletion in deletions for fragment in deletion.updated]
                removed = sorted(number for deletion in deletions for number in deletion.removed)
                deleted = sum(deletion.rows for deletion in deletions)
                staged = stage_replacement(table, fragments, rows, updated, removed, deleted)
            else:
                staged = stage_fragments(table, WriteKind.APPEND, fragments, rows)
            writes.append(TableWrite(table_key=type_.table_key, staged=staged))
        return writes

    def build_requirements(self, store: GraphStorage) -> list[Requirement]:
        """Return the requirements that must hold until the merge is published."""
        requirements: list[Requirement] = []
        for type_ in self.types:
            # The ids of all rows, also of unchanged ones: those have no staged row, so they are read from the chunks.
            chunks = tuple(StoredRows(rows=chunk.rows, chunk=chunk.key) for chunk in self._list_chunks(type_.name))
            ids = OwnRows(store, chunks, self.filter_rows)
            requirements.append(StreamedRowsUnchanged(table_key=type_.table_key, rows=ids))
            table = self.view.get_table(type_)
            read = build_column_reader(table, self.list_fragments(type_.name), self.filter_rows)
            requirements += require_values(type_, read)
            if isinstance(type_, EdgeType):
                requirements += require_ends(type_, self.view.catalog, read)
        return requirements

    def _list_deletions(self, name: str) -> list[DeletionResult]:
        return [deletion for deletion in self.deletions if deletion.type == name]

    def _list_chunks(self, name: str) -> tuple[RowChunk, ...]:
        return tuple(chunk for group in self.groups if group.type == name for chunk in group.chunks)


class DistributedMerge:
    """Merge chunks of rows, grouped by type, into the tables of a view, by Spark jobs."""

    def __init__(
        self, view: View, spec: LoadSpec, jobs: LoadJobs, phases: Phases, chunks: Mapping[str, Sequence[RowChunk]]
    ) -> None:
        pins = {key: (pin.path, str(pin.version)) for key, pin in view.snapshot.pins.items()}
        self.view, self.jobs = view, jobs
        # After a conflict the merge runs on a newer state than the load began with: tasks have to read that one.
        self.spec = replace(spec, pins=pins)
        self.groups = tuple(group_chunks(chunks))
        self._phases = phases
        self._fragment_ranges = split_fragments(view, list(chunks))
        # The number of ids in the join, by which its buckets are chosen.
        self._keys = sum(group.rows for group in self.groups)
        self._keys += sum(view.get_table(view.get_type(name)).count() for name in chunks)

    def merge(self, left_out: Mapping[int, bytes] | None = None) -> StagedMerge | None:
        """Return the staged merge, or None if any of its rows may be wrong.

        `left_out` has the packed positions of rejected rows by the number of their chunk; they are not merged.
        """
        with self._phases.open_phase() as phase:
            work = MergeFill(
                groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known, left_out=left_out
            )
            fills = self.jobs.fill_groups(self.spec, work, self._fragment_ranges, self._keys)
            merge = StagedMerge(self.view, self.groups, fills, partial(self.jobs.filter_rows, self.spec))
            # Leaving the phase without `keep` removes all files that its tasks have written.
            if any(fill.suspects or fill.unsure for fill in fills) or not self._is_clean(merge):
                return None
            merge.deletions = self.jobs.delete_rows(self.spec, phase.number, self._plan_deletions(merge))
            phase.keep(merge.files)
        return merge

    def _plan_deletions(self, merge: StagedMerge) -> list[DeletionTask]:
        parallelism = count_parallel_tasks(self.jobs.spark)
        tasks: list[DeletionTask] = []
        for type_ in merge.types:
            numbers = [fragment.number for fragment in self.view.get_table(type_).list_fragments()]
            tasks += plan_deletions(type_.name, numbers, merge.fills, parallelism)
        return tasks

    def _is_clean(self, merge: StagedMerge) -> bool:
        """Return whether the key shuffle finds nothing: unique keys, edges with both ends, cardinality in bounds."""
        rules = _build_rules(type_.name for type_ in merge.types)
        staged = {type_.name: merge.list_fragments(type_.name) for type_ in merge.types}
        sources, keys = plan_key_sources(self.view, rules, staged, _list_replaced_sources(merge.fills))
        suspicious = self.jobs.find_suspicious_keys(self.spec, sources, rules, keys)
        return not any(len(hashes) for hashes in suspicious.shared.values())

    def find_suspicious_keys(self) -> dict[str, Hashes] | None:
        """Return the suspicious hashes among all rows by type and role; None if two ids share a hash."""
        with self._phases.open_phase() as phase:
            probe = MergeProbe(groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known)
            results = self.jobs.fill_groups(self.spec, probe, self._fragment_ranges, self._keys)
            if any(result.unsure for result in results):
                return None
            names = {result.type for result in results}
            sources = _list_replaced_sources(results)
            sources += [
                KeySource(type=result.type, roles=(), row_hashes=result.row_hashes)
                for result in results
                if result.row_hashes is not None
            ]
            rules = _build_rules(names)
            # Nothing is staged: the keys of new rows come from the hashes that the tasks have stored.
            sources, keys = plan_key_sources(self.view, rules, dict.fromkeys(names, ()), sources)
            keys += sum(result.rows for result in results)
            return self.jobs.find_suspicious_keys(self.spec, sources, rules, keys).shared

    def fetch_rows(self, wanted: WantedKeys) -> list[tuple[FillResult, int, bytes]]:
        """Return the requested rows and all rows that are wrong by themselves.

        Each entry has the result of a group, the number of a chunk in it, and the chunk's rows as an Arrow stream.
        """
        fetched: list[tuple[FillResult, int, bytes]] = []
        with self._phases.open_phase() as phase:
            probe = MergeProbe(
                groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known, wanted=wanted
            )
            # Read before the phase ends, which removes these objects.
            for result in self.jobs.fill_groups(self.spec, probe, self._fragment_ranges, self._keys):
                store = self.view.get_table(self.view.get_type(result.type)).handles.store
                for number, chunk in result.fetched.items():
                    fetched.append((result, number, store.objects.get(chunk.key).data))
        return fetched


def _list_replaced_sources(results: Sequence[FillResult]) -> list[KeySource]:
    return [
        KeySource(type=result.type, roles=(), replaced_hashes=result.replaced_hashes)
        for result in results
        if result.replaced_hashes is not None
    ]


def _build_rules(names: Iterable[str]) -> KeyRules:
    return KeyRules(loaded=frozenset(names), replaced=frozenset(), is_append=False, is_merge=True)
