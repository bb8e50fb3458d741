"""Run statements for all rows of a match, as columns: one write for each row that they name, whatever their order."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import IdsAbsent, IdsPresent, Requirement, RowsUnchanged
from omnigraph.engine.constraints.violations import format_ids
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.row_ids import generate_ids
from omnigraph.engine.writing.cascade import BYTES_PER_ID, cascade
from omnigraph.engine.writing.key_ids import derive_row_ids
from omnigraph.engine.writing.match_dependencies import build_match_requirements
from omnigraph.engine.writing.matched_rows import MatchedRows, merge_writes
from omnigraph.engine.writing.row_visibility import check_keys_seen, check_rows_seen
from omnigraph.engine.writing.stale_embeddings import clear_stale_vectors
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer, fetch_rows
from omnigraph.errors import QueryError
from omnigraph.ids import Ids
from omnigraph.query.expr import Const
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.mutation_plan import Assign, DeleteMatched, DriveMatch, InsertEdge, InsertNode, UpdateMatched
from omnigraph.schema.arrow import DST, END_NAMES, ID, SRC
from omnigraph.storage.columnar_sets import concat_chunks, find_positions, is_among, repeat_scalar

# Answers a match on the state with all pending rows.
AnswerMatch: TypeAlias = Callable[[ReadQuery, WriteBuffer], pa.Table]

# An error names this many rows.
_MAX_NAMED_ROWS = 5


class DrivenRun:
    """The run of the statements after matches, over one buffer; it counts the rows that `if absent` leaves alone.

    Statements before the first match share what it knows: the rows that inserts have named.
    """

    def __init__(
        self, pending: WriteBuffer, inputs: QueryInputs, ids: Ids, answer: AnswerMatch, check: Callable[[], None]
    ) -> None:
        self._pending = pending
        self._inputs = inputs
        self._ids = ids
        self._answer = answer
        self._check = check
        # One row without columns, until a match is answered.
        self.matched = MatchedRows(pa.table({"": pa.nulls(1)}))
        # The rows that statements before the first match have named: the same for all rows of a match.
        self._single: dict[str, pa.Array] = {}
        self.existing: dict[str, int] = {}
        self.requirements: list[Requirement] = []

    def run(self, statement: DriveMatch) -> None:
        """Answer a match, and run its statements: deletes first, then the others in the order of the text."""
        pending = self._pending
        if any(table.deleted for table in pending.touched):
            # The match must not see edges of nodes that an earlier statement has deleted.
            cascade(pending)
        rows = self._answer(statement.read, pending)
        self.requirements += build_match_requirements(statement.read, pending, self._inputs)
        self.matched = MatchedRows(rows, statement.read, dict(self._single))
        deletes = [inner for inner in statement.statements if isinstance(inner, DeleteMatched)]
        for delete in deletes:
            self._delete(delete)
        if deletes:
            cascade(pending)
        for inner in statement.statements:
            self._check()
            if isinstance(inner, InsertNode | InsertEdge):
                self._insert(inner)
            elif isinstance(inner, UpdateMatched):
                self._update(inner)

    def name_row(self, variable: str, row_id: pa.Array) -> None:
        """Record the id of the row that an insert without a match has named."""
        self._single[variable] = row_id
        self.matched.named[variable] = row_id

    # --- statements --------------------------------------------------------------------------------

    def _delete(self, statement: DeleteMatched) -> None:
        table = self._get_table(statement.type.name)
        ids = self.matched.get_ids(statement.variable).drop_null().unique()
        self._pending.check_size(len(ids) * BYTES_PER_ID, f"the ids of {len(ids):,} rows to delete")
        table.delete(ids.to_pylist())

    def _insert(self, statement: InsertNode | InsertEdge) -> None:
        table = self._get_table(statement.type.name)
        type_ = table.type
        matched = self.matched
        columns = {a.property: matched.compute_column(a, table, self._inputs) for a in statement.values}
        for name in statement.omitted:
            default = Const(value=type_.by_name[name].default, type=type_.by_name[name].type, origin=statement.origin)
            assign = Assign(property=name, value=default, origin=statement.origin)
            columns[name] = matched.compute_column(assign, table, self._inputs)
        if isinstance(statement, InsertEdge):
            for column, end in ((SRC, statement.source), (DST, statement.target)):
                columns[column] = matched.compute_end(end, END_NAMES[column], self._inputs)
        self._claim(columns, f"{matched.size:,} rows of {type_.name} to insert")
        if not type_.key:
            # Without a key every row of the match is a new row.
            ids = generate_ids(self._ids, matched.size)
            table.put(_build_rows(table, columns, ids), is_fresh=True)
        else:
            ids = derive_row_ids(type_, columns)
            compared = [assign.property for assign in statement.values]
            distinct, first = merge_writes(type_.name, ids, columns, compared)
            self._refuse_deleted(table, distinct)
            rows = _build_rows(table, columns, ids).take(pa.array(first))
            if statement.if_absent:
                rows = self.leave_existing(table, rows)
            else:
                check_keys_seen(table, distinct)
            if rows.num_rows:
                table.put(rows, omitted=() if statement.if_absent else statement.omitted)
        if statement.variable is not None:
            matched.named[statement.variable] = ids

    def leave_existing(self, table: PendingTable, rows: pa.Table) -> pa.Table:
        """Return the rows whose ids no row has, committed or pending; the others are counted and left as they are."""
        ids = concat_chunks(rows.column(ID))
        committed = table.find_committed_ids(ids)
        check_rows_seen(table, committed)
        key = table.type.table_key
        # What is left alone must stay, and what is new must stay absent, until this is published.
        if len(committed):
            self.requirements.append(IdsPresent(table_key=key, ids=committed))
        exists = is_among(ids, committed) | is_among(ids, pa.array(table.ids, pa.string()))
        absent = ids.filter(pa.array(~exists))
        if len(absent):
            self.requirements.append(IdsAbsent(table_key=key, ids=absent))
        name = table.type.name
        self.existing[name] = self.existing.get(name, 0) + int(np.count_nonzero(exists))
        return rows.filter(pa.array(~exists))

    def _update(self, statement: UpdateMatched) -> None:
        table = self._get_table(statement.type.name)
        ids = self.matched.get_ids(statement.variable)
        columns = {a.property: self.matched.compute_column(a, table, self._inputs) for a in statement.values}
        if ids.null_count:
            # An optional block without a match names no row.
            is_bound = ids.is_valid()
            columns = {name: column.filter(is_bound) for name, column in columns.items()}
            ids = ids.filter(is_bound)
        if not len(ids):
            return
        distinct, first = merge_writes(table.type.name, ids, columns, list(columns))
        self._refuse_deleted(table, distinct)
        before = fetch_rows(table, distinct)
        self._claim({name: before.column(name) for name in before.schema.names}, f"{len(distinct):,} rows to update")
        # The other columns of a row are written as they were read, so the row must stay as it is.
        self.requirements.append(RowsUnchanged(table_key=table.type.table_key, ids=table.find_committed_ids(distinct)))
        source = pa.array(first[find_positions(before.column(ID), distinct)])
        rows = before
        for name, column in columns.items():
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, rows.schema.field(index), column.take(source))
        all_rows = repeat_scalar(pa.scalar(True), rows.num_rows)
        is_omitted = {name: all_rows for name in table.schema.names if name not in columns}
        vectors = {p.name for p in table.type.properties if p.embedding is not None}
        table.put(clear_stale_vectors(table.type, before, rows, is_omitted), changed={*columns, *vectors})

    # --- helpers -----------------------------------------------------------------------------------

    def _get_table(self, name: str) -> PendingTable:
        return self._pending.get_table(self._pending.view.get_type(name))

    def _claim(self, columns: dict[str, pa.Array], what: str) -> None:
        """Check that there is memory for the columns and for a copy, which merging pending rows makes."""
        self._pending.check_size(2 * sum(column.nbytes for column in columns.values()), what)

    def _refuse_deleted(self, table: PendingTable, ids: pa.Array) -> None:
        if not table.deleted:
            return
        deleted = ids.filter(pa.array(is_among(ids, pa.array(table.deleted, pa.string()))))
        if len(deleted):
            rest = len(deleted) - _MAX_NAMED_ROWS
            more = f" and {rest:,} more" if rest > 0 else ""
            named = format_ids(deleted.slice(0, _MAX_NAMED_ROWS).to_pylist())
            raise QueryError.write_of_deleted(table.type.name, named + more)


def _build_rows(table: PendingTable, columns: dict[str, pa.Array], ids: pa.Array) -> pa.Table:
    return pa.table({**columns, ID: ids}).select(table.schema.names).cast(table.schema)
