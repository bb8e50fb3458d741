"""A large merge on executors: its rows find the committed ones, are filled, compared, checked and staged there.

The driver holds pieces and fragments by name, and of rows only those that something may be wrong with. Whether it is so
is decided elsewhere (`merge_recheck`); then the merge is made again, without what was refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from omnigraph.commit.requirements import Requirement
from omnigraph.commit.streamed_requirements import EndsStay, MergedCountsStay, RowsApart, ValuesNew
from omnigraph.engine.bulk.endpoints import ENDS
from omnigraph.engine.view import View
from omnigraph.ops.load_call import TypeCounts
from omnigraph.ops.write_tables import TableWrite
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.spark.load.id_join import Group, groups_of, stretches_of
from omnigraph.spark.load.key_hashes import Wanted
from omnigraph.spark.load.key_shuffle import Rules, Unit
from omnigraph.spark.load.key_sources import merge_units
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_spec import LoadSpec
from omnigraph.spark.load.load_state import StagedColumns, total_rows
from omnigraph.spark.load.merge_fill_task import Filled, Filling, Taken, takings
from omnigraph.spark.load.merge_probe_task import Telling
from omnigraph.spark.load.row_chunks import Piece
from omnigraph.spark.load.task_phases import Phases
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.fragment_writer import fragment_files
from omnigraph.storage.graph_storage import Store
from omnigraph.storage.staging import Change, deletion_files, stage_fragments, stage_replaced


@dataclass(slots=True)
class ExecutorMerge:
    """A merge that is staged, and that nothing is wrong with."""

    view: View
    groups: tuple[Group, ...]
    filled: list[Filled]
    taken: list[Taken] = field(default_factory=list)

    def counts(self, name: str) -> TypeCounts:
        """What it does to a type."""
        own = [one for one in self.filled if one.type == name]
        read, known = sum(one.rows for one in own), sum(one.known for one in own)
        unchanged = sum(one.unchanged for one in own)
        return TypeCounts(read=read, inserted=read - known, updated=known - unchanged, unchanged=unchanged)

    def fragments(self, name: str) -> list[str]:
        """The fragments of a type, in the order of its rows."""
        return [text for one in self.filled if one.type == name for text in one.fragments]

    @property
    def types(self) -> list[AnyType]:
        """Those that have rows, nodes first."""
        names = {one.type for one in self.filled}
        types: dict[str, AnyType] = {**self.view.catalog.nodes, **self.view.catalog.edges}
        return [one for name, one in types.items() if name in names]

    @property
    def files(self) -> list[str]:
        """Everything that was staged."""
        found: list[str] = []
        for type_ in self.types:
            table = self.view.table(type_)
            found += fragment_files(table, self.fragments(type_.name))
            found += [
                file for one in self.taken if one.type == type_.name for file in deletion_files(table, one.updated)
            ]
        return found

    def writes(self) -> list[TableWrite]:
        """What happens to the tables."""
        found: list[TableWrite] = []
        for type_ in self.types:
            fragments = self.fragments(type_.name)
            if not fragments:
                continue
            table, rows = self.view.table(type_), total_rows(fragments)
            taken = [one for one in self.taken if one.type == type_.name]
            if taken:
                updated = [text for one in taken for text in one.updated]
                removed = sorted(number for one in taken for number in one.removed)
                staged = stage_replaced(table, fragments, rows, updated, removed, sum(one.rows for one in taken))
            else:
                staged = stage_fragments(table, Change.APPEND, fragments, rows)
            found.append(TableWrite(table_key=type_.table_key, staged=staged))
        return found

    def requirements(self, store: Store) -> list[Requirement]:
        """What must stay so until it is published."""
        found: list[Requirement] = []
        for type_ in self.types:
            key = type_.table_key
            found.append(RowsApart(table_key=key, rows=PieceIds(store, self._pieces(type_.name))))
            found += [ValuesNew(table_key=key, columns=one, rows=self._columns(type_, *one)) for one in type_.unique]
            if isinstance(type_, EdgeType):
                found += self._of_edges(type_)
        return found

    def _of_edges(self, edge: EdgeType) -> Iterator[Requirement]:
        limits = edge.cardinality
        if limits.low or limits.high is not None:
            rows = self._columns(edge, ID, SRC)
            yield MergedCountsStay(table_key=edge.table_key, column=SRC, rows=rows, low=limits.low, high=limits.high)
        for column, _ in ENDS:
            node = self.view.catalog.nodes[edge.source if column == SRC else edge.target]
            yield EndsStay(table_key=node.table_key, rows=self._columns(edge, column))

    def _columns(self, type_: AnyType, *names: str) -> StagedColumns:
        return StagedColumns(self.view.table(type_), tuple(self.fragments(type_.name)), names)

    def _pieces(self, name: str) -> tuple[Piece, ...]:
        return tuple(piece for group in self.groups if group.type == name for piece in group.pieces)


@dataclass(frozen=True, slots=True)
class PieceIds:
    """The ids of all rows in pieces, read again whenever it is called."""

    store: Store
    pieces: tuple[Piece, ...]

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """From the start."""
        for piece in self.pieces:
            with pa.ipc.open_stream(self.store.objects.get(piece.key).data) as reader:
                for batch in reader:
                    yield batch.select([ID])


class ExecutorMerging:
    """Merges rows, which lie in pieces by type, into a view's tables, by jobs of Spark."""

    def __init__(
        self, view: View, spec: LoadSpec, jobs: LoadJobs, phases: Phases, pieces: Mapping[str, Sequence[Piece]]
    ) -> None:
        pins = {key: (pin.path, str(pin.version)) for key, pin in view.snapshot.pins.items()}
        self.view, self.jobs = view, jobs
        self.spec = replace(spec, pins=pins)
        self.groups = tuple(groups_of(pieces))
        self._phases = phases
        self._stretches = stretches_of(view, list(pieces))
        self._keys = sum(group.rows for group in self.groups)
        self._keys += sum(view.table(view.type(name)).count() for name in pieces)

    def merged(self, left_out: Mapping[int, bytes] | None = None) -> ExecutorMerge | None:
        """The merge, staged; None when something may be wrong with one of its rows.

        With `left_out`, by the number of their piece the places of rows that were refused, it is without those.
        """
        with self._phases.opened() as phase:
            filling = Filling(
                groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known, left_out=left_out
            )
            filled = self.jobs.fill(self.spec, filling, self._stretches, self._keys)
            merge = ExecutorMerge(self.view, self.groups, filled)
            if any(one.suspects or one.unsure for one in filled) or not self._is_clean(merge):
                return None
            tasks = self.jobs.spark.sparkContext.defaultParallelism
            asked = [
                one
                for type_ in merge.types
                for one in takings(
                    type_.name, [part.number for part in self.view.table(type_).fragments()], merge.filled, tasks
                )
            ]
            merge.taken = self.jobs.take(self.spec, phase.number, asked)
            phase.keep(merge.files)
        return merge

    def _is_clean(self, merge: ExecutorMerge) -> bool:
        """Whether no two rows share what must be unique, every edge has its ends, and no source too many or too few."""
        rules = _rules(type_.name for type_ in merge.types)
        staged = {type_.name: merge.fragments(type_.name) for type_ in merge.types}
        gone = [Unit(type=one.type, roles=(), gone=one.gone) for one in merge.filled if one.gone is not None]
        units, keys = merge_units(self.view, rules, staged, gone)
        judged = self.jobs.judge(self.spec, units, rules, keys)
        return not any(len(hashes) for hashes in judged.values())

    def suspicious(self) -> dict[str, Hashes] | None:
        """What is suspicious among all rows, as the ledger says it; None when executors can't tell rows apart."""
        with self._phases.opened() as phase:
            asked = Telling(groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known)
            told = self.jobs.fill(self.spec, asked, self._stretches, self._keys)
            if any(one.unsure for one in told):
                return None
            names = {one.type for one in told}
            units = [Unit(type=one.type, roles=(), gone=one.gone) for one in told if one.gone is not None]
            units += [Unit(type=one.type, roles=(), told=one.told) for one in told if one.told is not None]
            rules = _rules(names)
            every, keys = merge_units(self.view, rules, dict.fromkeys(names, ()), units)
            return self.jobs.judge(self.spec, every, rules, keys + sum(one.rows for one in told))

    def handed_over(self, wanted: Wanted) -> list[tuple[Filled, int, bytes]]:
        """The rows that are wanted, and all that are wrong by themselves: the number of each piece, and its bytes."""
        found: list[tuple[Filled, int, bytes]] = []
        with self._phases.opened() as phase:
            asked = Telling(groups=self.groups, phase=phase.number, only_known=self.jobs.call.only_known, wanted=wanted)
            for one in self.jobs.fill(self.spec, asked, self._stretches, self._keys):
                store = self.view.table(self.view.type(one.type)).handles.store
                found += [(one, number, store.objects.get(piece.key).data) for number, piece in one.handed.items()]
        return found


def _rules(names: Iterable[str]) -> Rules:
    return Rules(loaded=frozenset(names), replaced=frozenset(), is_append=False, is_merge=True)
