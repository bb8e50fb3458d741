"""What a write is about to do: per table, rows to put and rows to delete, over the committed ones.

Every read here sees both, so that later statements see the effects of earlier ones, and checks see the whole.
"""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.predicate_eval import QueryInputs, find_columns
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.engine.view import View
from omnigraph.engine.writing.blobs import (
    REFERENCE,
    BlobValues,
    iter_stored_batches,
    list_blob_properties,
    reference_blobs,
)
from omnigraph.engine.writing.omitted_values import OmittedValues
from omnigraph.engine.writing.row_filter import filter_rows, find_matching_ids
from omnigraph.engine.writing.streamed_update import StreamedRows
from omnigraph.query.expr import Expr
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType, EdgeType, NodeType
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources
from omnigraph.storage.key_lookup import RowAddressCache, RowLocations
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.watch import Watch


def build_pending_schema(type_: AnyType) -> pa.Schema:
    """The columns of a type's pending rows; all nullable, so that a missing value can be told and not only fail.

    A Blob is a reference: what it stands for is read when the row is written.
    """
    blobs = set(list_blob_properties(type_))
    fields = build_arrow_schema(type_)
    return pa.schema([pa.field(one.name, REFERENCE if one.name in blobs else one.type) for one in fields])


class PendingTable:
    """The pending rows of one type. Whole rows, one per id: the last one wins."""

    def __init__(self, type_: AnyType, table: LanceTable, given: BlobValues) -> None:
        self.type, self.table, self.blob_values = type_, table, given
        self.schema = build_pending_schema(type_)
        self.deleted: dict[str, None] = {}
        self._parts: list[pa.Table] = []
        self._unmerged_ids: set[str] = set()
        """The ids of the rows that were put since all parts were made one."""
        self._fresh: set[str] = set()
        self._changed: set[str] = set()
        self.streamed: StreamedRows | None = None
        """The rows of an update that are too many to be among `rows`."""
        self.known = RowAddressCache(table)
        """Where the committed rows lie that were looked at so far."""
        self.omitted = OmittedValues(type_, self.known)
        """What rows leave out that exist already."""

    def put(
        self,
        rows: pa.Table,
        *,
        is_fresh: bool = False,
        changed: Collection[str] | None = None,
        omitted: Collection[str] = (),
    ) -> None:
        """Rows to add, or to put in the place of those with the same id; `is_fresh`: no such row can exist.

        `changed` are the only columns in which they differ from the rows that they replace; None: they may in all.
        A row that exists, committed or pending, keeps what it has in the `omitted` columns; a new one has what is
        given.
        """
        self._changed.update(self.schema.names if changed is None else changed)
        ids = rows.column(ID).to_pylist()
        if omitted and not self._unmerged_ids.isdisjoint(ids):
            self._merge_parts()  # so that all that a row may keep is in one place
        for row_id in ids:
            self.deleted.pop(row_id, None)
        if is_fresh:
            self._fresh.update(ids)
        self._parts.append(rows.select(self.schema.names).cast(self.schema))
        self.omitted.note(rows.num_rows, omitted)
        self._unmerged_ids.update(ids)

    def stream(self, rows: StreamedRows, changed: Collection[str]) -> None:
        """Take rows, in the place of committed ones, that are read when needed. Nothing else may be pending."""
        assert self.is_empty  # noqa: S101 - whoever streams has looked that no other statement is about this type
        self._changed.update(changed)
        self.streamed = rows if len(rows.ids) else None

    def delete(self, ids: Sequence[str]) -> None:
        """The rows with these ids go."""
        gone = set(ids)
        self.deleted.update(dict.fromkeys(ids))
        if self._parts:
            self._parts = [self.rows.filter(pc.invert(_is_one_of(self.rows.column(ID), gone)))]

    @property
    def rows(self) -> pa.Table:
        """The rows to put, each id once."""
        if not self._parts:
            return self.schema.empty_table()
        if self._unmerged_ids:
            self._merge_parts()
        return self._parts[0]

    def _merge_parts(self) -> None:
        """Make one part of all, with each id once, and with what rows that exist keep."""
        whole = self.omitted.fill(pa.concat_tables(self._parts))
        last = {row_id: place for place, row_id in enumerate(whole.column(ID).to_pylist())}
        self._parts = [whole.take(pa.array(sorted(last.values()), pa.int64()))]
        self._unmerged_ids.clear()

    def may_change(self, columns: Collection[str]) -> bool:
        """Whether a row to put may have another value in one of these columns than the row that it replaces."""
        return not self._changed.isdisjoint(columns)

    @property
    def ids(self) -> list[str]:
        """The ids of the rows to put."""
        found: list[str] = self.rows.column(ID).to_pylist()
        return found

    @property
    def known_ids(self) -> list[str]:
        """The ids of rows to put that a committed row may have too."""
        return [row_id for row_id in self.ids if row_id not in self._fresh]

    def find_committed_ids(self, ids: pa.Array) -> pa.Array:
        """Those of the ids that committed rows have, replaced and deleted ones too."""
        return self.known.find_existing(ids, self._replaced)

    @property
    def located(self) -> RowLocations | None:
        """Where the committed rows lie that are replaced or go; None when nobody has looked for all of them."""
        return self.known.locate(self._replaced)

    @property
    def _replaced(self) -> pa.Array:
        """The ids whose committed rows are looked for when this is written."""
        return pa.array([*self.known_ids, *self.deleted], pa.string())

    @property
    def is_append(self) -> bool:
        """Whether no committed row is touched."""
        return not self.deleted and not self.known_ids

    @property
    def is_empty(self) -> bool:
        """Whether nothing is pending."""
        return not self._parts and not self.deleted and self.streamed is None

    def iter_parts(self) -> Iterator[pa.Table]:
        """Yield the rows to put, in parts if they are too many to hold."""
        yield self.rows
        if self.streamed is not None:
            yield from self.streamed.iter_parts()

    def iter_stored(self) -> Iterator[pa.RecordBatch]:
        """The rows to put, as they are stored: with the bytes of their blobs, so that only some are held at once."""
        return iter_stored_batches(self.type, self.rows, self.table, self.blob_values)

    def find_superseded_ids(self) -> set[str]:
        """The ids whose committed rows don't count any more."""
        return {*self.ids, *self.deleted}

    def find_matching(self, column: str, keys: Collection[str], columns: Sequence[str]) -> pa.Table:
        """The rows whose `column` is one of `keys`, committed and pending."""
        wanted = sorted(set(keys))
        names = list(dict.fromkeys([ID, column, *columns]))
        found = (
            self._exclude_superseded(self.table.find_rows(column, wanted, names, with_address=True)) if wanted else None
        )
        if found is not None:
            self.known.note(found)
        mine = self.rows.filter(_is_one_of(self.rows.column(column), set(wanted)))
        return _join(self.schema, [found, mine], columns)

    def select_where(
        self, predicate: Expr, inputs: QueryInputs, columns: Sequence[str], watch: Watch | None = None
    ) -> pa.Table:
        """The rows for which the predicate is true, committed and pending; read under another watch if one is given."""
        names = list(dict.fromkeys([ID, *columns, *find_columns(predicate)]))
        filter_ = build_table_filter(predicate, inputs)
        table = (
            self.table if watch is None else LanceTable(self.table.handles, self.table.path, self.table.version, watch)
        )
        if filter_ is None:  # every row has to be looked at, but not all of its columns
            chosen = find_matching_ids(self.table, predicate, inputs)
            committed = self._exclude_superseded(table.find_rows(ID, chosen, names, with_address=True))
        else:
            read = self._exclude_superseded(table.scan(names, filter_, with_address=True))
            committed = filter_rows(read, predicate, inputs)
        self.known.note(committed)
        mine = filter_rows(self.rows.select(names), predicate, inputs)
        return _join(self.schema, [reference_blobs(self.type, committed), mine], columns)

    def _exclude_superseded(self, committed: pa.Table) -> pa.Table:
        hidden = self.find_superseded_ids()
        if not hidden:
            return committed
        return committed.filter(pc.invert(_is_one_of(committed.column(ID), hidden)))


class WriteBuffer:
    """The pending rows of every type, over one view."""

    def __init__(self, view: View, sources: BlobSources = NO_SOURCES, watch: Budget | None = None) -> None:
        self.view, self.watch = view, watch
        self.blob_values = BlobValues(sources)
        self._tables: dict[str, PendingTable] = {}

    def get_table(self, type_: AnyType) -> PendingTable:
        """The pending rows of a type."""
        key = type_.table_key
        if key not in self._tables:
            self._tables[key] = PendingTable(type_, self.view.get_table(type_), self.blob_values)
        return self._tables[key]

    def get_node_type(self, name: str) -> NodeType:
        """The node type at an end of an edge."""
        return self.view.catalog.nodes[name]

    def check_size(self, nbytes: int, what: str) -> None:
        """Raise what the limits of the write raise when so much may not be in memory at once."""
        if self.watch is not None:
            self.watch.check_size(nbytes, what)

    @property
    def touched(self) -> list[PendingTable]:
        """The tables with something pending: nodes, then edges, in declared order."""
        catalog = self.view.catalog
        types: tuple[AnyType, ...] = (*catalog.nodes.values(), *catalog.edges.values())
        return [
            self._tables[type_.table_key]
            for type_ in types
            if type_.table_key in self._tables and not self._tables[type_.table_key].is_empty
        ]

    def count_affected(self) -> tuple[int, int]:
        """How many nodes and how many edges are put or deleted, each counted once."""
        counts = {NodeType: 0, EdgeType: 0}
        for table in self.touched:
            streamed = 0 if table.streamed is None else len(table.streamed.ids)
            counts[type(table.type)] += table.rows.num_rows + len(table.deleted) + streamed
        return counts[NodeType], counts[EdgeType]


def _is_one_of(column: pa.ChunkedArray, ids: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(sorted(ids), pa.string()))


def _join(schema: pa.Schema, parts: Sequence[pa.Table | None], columns: Sequence[str]) -> pa.Table:
    """Return some columns of several tables, as the schema has them, one after the other."""
    chosen = pa.schema([schema.field(name) for name in columns])
    return pa.concat_tables([part.select(list(columns)).cast(chosen) for part in parts if part is not None])
