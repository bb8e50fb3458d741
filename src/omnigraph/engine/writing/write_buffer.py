"""Buffer the pending writes of a mutation: for each table, rows to put and ids to delete, over the committed rows.

Reads through the buffer merge pending and committed rows, so that a statement sees the effects of earlier ones, and
checks see the resulting state.
"""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.predicate_eval import find_columns
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.row_security.masked_tables import MaskedTables
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.engine.tables.key_predicates import find_named_ids
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
from omnigraph.query.expr_tree import split_conjuncts
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType, EdgeType, NodeType
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources
from omnigraph.storage.columnar_sets import is_among
from omnigraph.storage.key_lookup import RowAddressCache, RowLocations
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.watch import Watch


def build_pending_schema(type_: AnyType) -> pa.Schema:
    """Return the schema of a type's pending rows, in which a Blob is a reference.

    All columns are nullable, so that a missing value is reported as a violation instead of failing the conversion.
    """
    blobs = set(list_blob_properties(type_))
    stored = build_arrow_schema(type_)
    return pa.schema([pa.field(field.name, REFERENCE if field.name in blobs else field.type) for field in stored])


class PendingTable:
    """The pending rows of one type, over its committed table. Whole rows, one per id: the last one wins."""

    def __init__(
        self, type_: AnyType, table: LanceTable, blob_values: BlobValues, seen: LanceTable | None = None
    ) -> None:
        self.type = type_
        self.table = table
        self.seen = table if seen is None else seen
        """The committed rows that the writer sees, and that conditions select from."""
        self.blob_values = blob_values
        self.schema = build_pending_schema(type_)
        self.deleted: dict[str, None] = {}
        self._parts: list[pa.Table] = []
        # The ids of rows put since the parts were last merged.
        self._unmerged_ids: set[str] = set()
        # Generated ids, which no committed row can have.
        self._fresh: set[str] = set()
        # The columns in which a pending row may differ from the row it replaces.
        self._changed: set[str] = set()
        # The rows of an update that are too many to be part of `rows`.
        self.streamed: StreamedRows | None = None
        # The addresses of the committed rows that were read so far, so that staging need not look them up again.
        self.known = RowAddressCache(table)
        self.omitted = OmittedValues(type_, self.known)

    def put(
        self,
        rows: pa.Table,
        *,
        is_fresh: bool = False,
        changed: Collection[str] | None = None,
        omitted: Collection[str] = (),
    ) -> None:
        """Add rows, which replace those with the same ids; `is_fresh` means that no such rows can exist.

        `changed` are the columns in which the rows may differ from those they replace; None means all. A row that
        exists, committed or pending, keeps its values in the `omitted` columns; a new row gets those in `rows`.
        """
        self._changed.update(self.schema.names if changed is None else changed)
        ids = rows.column(ID).to_pylist()
        # `OmittedValues` allows one unmerged row per id, so an earlier row of the same id is merged first.
        if omitted and not self._unmerged_ids.isdisjoint(ids):
            self._merge_parts()
        for row_id in ids:
            self.deleted.pop(row_id, None)
        if is_fresh:
            self._fresh.update(ids)
        self._parts.append(rows.select(self.schema.names).cast(self.schema))
        self.omitted.note(rows.num_rows, omitted)
        self._unmerged_ids.update(ids)

    def stream(self, rows: StreamedRows, changed: Collection[str]) -> None:
        """Add rows that replace committed ones and are read when needed. Nothing else may be pending."""
        assert self.is_empty  # noqa: S101 - only an update that is the sole statement about its type is streamed
        self._changed.update(changed)
        self.streamed = rows if len(rows.ids) else None

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the rows with these ids, committed and pending."""
        deleted = set(ids)
        self.deleted.update(dict.fromkeys(ids))
        if self._parts:
            self._parts = [self.rows.filter(pc.invert(_is_one_of(self.rows.column(ID), deleted)))]

    @property
    def rows(self) -> pa.Table:
        """The rows to put, each id once."""
        if not self._parts:
            return self.schema.empty_table()
        if self._unmerged_ids:
            self._merge_parts()
        return self._parts[0]

    def _merge_parts(self) -> None:
        """Merge all parts into one, with the last row of each id and omitted values filled."""
        rows = self.omitted.fill(pa.concat_tables(self._parts))
        last = {row_id: position for position, row_id in enumerate(rows.column(ID).to_pylist())}
        self._parts = [rows.take(pa.array(sorted(last.values()), pa.int64()))]
        self._unmerged_ids.clear()

    def may_change(self, columns: Collection[str]) -> bool:
        """Return whether a pending row may differ in one of these columns from the row that it replaces."""
        return not self._changed.isdisjoint(columns)

    @property
    def ids(self) -> list[str]:
        """The ids of the rows to put."""
        ids: list[str] = self.rows.column(ID).to_pylist()
        return ids

    @property
    def known_ids(self) -> list[str]:
        """The ids of rows to put that a committed row may have too: those that were not generated."""
        return [row_id for row_id in self.ids if row_id not in self._fresh]

    def find_committed_ids(self, ids: pa.Array) -> pa.Array:
        """Return those of the ids that committed rows have, including rows that are replaced or deleted here."""
        return self.known.find_existing(ids, self.replaced_ids)

    @property
    def located(self) -> RowLocations | None:
        """The addresses of the committed rows that are replaced or deleted; None if not all were looked up."""
        return self.known.locate(self.replaced_ids)

    @property
    def replaced_ids(self) -> pa.Array:
        """The ids whose committed rows are replaced or deleted when this is written."""
        return pa.array([*self.known_ids, *self.deleted], pa.string())

    @property
    def is_append(self) -> bool:
        """Whether no committed row is replaced or deleted."""
        return not self.deleted and not self.known_ids

    @property
    def is_empty(self) -> bool:
        """Whether nothing is pending."""
        return not self._parts and not self.deleted and self.streamed is None

    def iter_parts(self) -> Iterator[pa.Table]:
        """Yield the rows to put, in parts if they are too many to buffer."""
        yield self.rows
        if self.streamed is not None:
            yield from self.streamed.iter_parts()

    def iter_stored(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows to put in their stored form, with the bytes of their blobs, batch by batch."""
        return iter_stored_batches(self.type, self.rows, self.table, self.blob_values)

    def find_superseded_ids(self) -> set[str]:
        """Return the ids whose committed rows are hidden by pending rows or deletes."""
        return {*self.ids, *self.deleted}

    def find_matching(self, column: str, keys: Collection[str], columns: Sequence[str]) -> pa.Table:
        """Return some columns of the rows whose `column` is one of `keys`, committed and pending."""
        sorted_keys = sorted(set(keys))
        names = list(dict.fromkeys([ID, column, *columns]))
        committed = None
        if sorted_keys:
            rows = self.table.find_rows(column, sorted_keys, names, with_address=True)
            committed = self._exclude_superseded(rows)
            self.known.note(committed)
        pending = self.rows.filter(_is_one_of(self.rows.column(column), set(sorted_keys)))
        return _join(self.schema, [committed, pending], columns)

    def select_where(
        self, predicate: Expr, inputs: QueryInputs, columns: Sequence[str], watch: Watch | None = None
    ) -> pa.Table:
        """Return the rows for which the predicate is true, committed and pending; `watch` replaces the table's."""
        names = list(dict.fromkeys([ID, *columns, *find_columns(predicate)]))
        filter_ = build_table_filter(predicate, inputs)
        table = self.seen
        if watch is not None:
            # Only rows of a writer who sees all may be too many to buffer.
            assert self.seen is self.table  # noqa: S101 - see `run_statements`
            table = LanceTable(self.table.handles, self.table.path, self.table.version, watch)
        named_ids = find_named_ids(self.type, split_conjuncts(predicate), inputs)
        if named_ids is not None:
            rows = self._exclude_superseded(table.find_rows(ID, named_ids, names, with_address=True))
            committed = filter_rows(rows, predicate, inputs)
        elif filter_ is None:
            # Nothing can be pushed: every row is read, but first only the columns of the predicate.
            ids = find_matching_ids(self.seen, predicate, inputs)
            committed = self._exclude_superseded(table.find_rows(ID, ids, names, with_address=True))
        else:
            candidates = self._exclude_superseded(table.scan(names, filter_, with_address=True))
            committed = filter_rows(candidates, predicate, inputs)
        self.known.note(committed)
        pending = filter_rows(self.rows.select(names), predicate, inputs)
        return _join(self.schema, [reference_blobs(self.type, committed), pending], columns)

    def _exclude_superseded(self, committed: pa.Table) -> pa.Table:
        superseded = self.find_superseded_ids()
        if not superseded:
            return committed
        return committed.filter(pc.invert(_is_one_of(committed.column(ID), superseded)))


def fetch_rows(table: PendingTable, ids: pa.Array) -> pa.Table:
    """Return the rows with these distinct ids, pending or committed, in their pending form and any order."""
    pending = table.rows.filter(pa.array(is_among(table.rows.column(ID), ids)))
    superseded = pa.array(table.find_superseded_ids(), pa.string())
    missing = ids.filter(pa.array(~is_among(ids, superseded)))
    if not len(missing):
        return pending
    rows = table.known.fetch_rows(missing, table.schema.names, with_address=True)
    committed = reference_blobs(table.type, rows).select(table.schema.names).cast(table.schema)
    return pa.concat_tables([pending, committed])


class WriteBuffer:
    """The pending rows of all types, over one view of the graph."""

    def __init__(
        self,
        view: View,
        sources: BlobSources = NO_SOURCES,
        watch: Budget | None = None,
        seen: MaskedTables | None = None,
    ) -> None:
        """Create an empty buffer. `view` has all rows; `seen` those that the writer sees, None if it sees all."""
        self.view, self.watch = view, watch
        self.seen = seen
        self.blob_values = BlobValues(sources)
        self._tables: dict[str, PendingTable] = {}

    def get_table(self, type_: AnyType) -> PendingTable:
        """Return the pending rows of a type, created on first use."""
        key = type_.table_key
        if key not in self._tables:
            seen = None if self.seen is None else self.seen.open_table(key)
            self._tables[key] = PendingTable(type_, self.view.get_table(type_), self.blob_values, seen)
        return self._tables[key]

    def list_tables(self) -> list[PendingTable]:
        """Return all tables that were read or written so far."""
        return list(self._tables.values())

    def get_node_type(self, name: str) -> NodeType:
        """Return the node type of this name."""
        return self.view.catalog.nodes[name]

    def check_size(self, nbytes: int, what: str) -> None:
        """Check a size against the memory limit of the write, whose error names `what`."""
        if self.watch is not None:
            self.watch.check_size(nbytes, what)

    @property
    def touched(self) -> list[PendingTable]:
        """The tables with pending rows or deletes: nodes, then edges, in declared order."""
        catalog = self.view.catalog
        types: tuple[AnyType, ...] = (*catalog.nodes.values(), *catalog.edges.values())
        return [
            self._tables[type_.table_key]
            for type_ in types
            if type_.table_key in self._tables and not self._tables[type_.table_key].is_empty
        ]

    def count_affected(self) -> tuple[int, int]:
        """Count the nodes and the edges that are put or deleted, each once."""
        counts = {NodeType: 0, EdgeType: 0}
        for table in self.touched:
            streamed = 0 if table.streamed is None else len(table.streamed.ids)
            counts[type(table.type)] += table.rows.num_rows + len(table.deleted) + streamed
        return counts[NodeType], counts[EdgeType]


def _is_one_of(column: pa.ChunkedArray, ids: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(sorted(ids), pa.string()))


def _join(schema: pa.Schema, parts: Sequence[pa.Table | None], columns: Sequence[str]) -> pa.Table:
    """Return some columns of several tables, concatenated and cast to the schema."""
    selected = pa.schema([schema.field(name) for name in columns])
    return pa.concat_tables([part.select(list(columns)).cast(selected) for part in parts if part is not None])
