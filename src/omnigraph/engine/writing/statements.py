"""Run the statements of a mutation in order, each over the pending rows of those before it."""

import math
from collections import Counter
from collections.abc import Callable
from typing import assert_never

import pyarrow as pa

from omnigraph.commit.requirements import Requirement, SelectionUnchanged
from omnigraph.engine.predicate_eval import evaluate
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.engine.writing.cascade import BYTES_PER_ID, cascade
from omnigraph.engine.writing.driven_statements import AnswerMatch, DrivenRun
from omnigraph.engine.writing.key_ids import derive_row_ids
from omnigraph.engine.writing.row_filter import filter_rows, find_matching_ids
from omnigraph.engine.writing.row_visibility import check_keys_seen
from omnigraph.engine.writing.stale_embeddings import clear_stale_vectors
from omnigraph.engine.writing.streamed_update import (
    MAX_BUFFERED_BYTES,
    MAX_BUFFERED_ROWS,
    ScanSizeLimit,
    StreamedRows,
    TooManyRowsError,
)
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.errors import QueryError
from omnigraph.ids import Ids
from omnigraph.query.expr import Const, Expr, Identity, Now, ParamRef, ValueRef
from omnigraph.query.format_expr import format_expr
from omnigraph.query.mutation_plan import (
    Assign,
    Delete,
    DriveMatch,
    EndValue,
    InsertEdge,
    InsertNode,
    MutationQuery,
    Update,
)
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import Scalar
from omnigraph.storage.arrow_buffers import repeat_value
from omnigraph.storage.columnar_sets import concat_chunks, is_among
from omnigraph.storage.lance_table import LanceTable


def run_statements(
    query: MutationQuery,
    pending: WriteBuffer,
    inputs: QueryInputs,
    ids: Ids,
    check: Callable[[], None],
    answer: AnswerMatch,
) -> DrivenRun:
    """Add the effects of all statements to the buffer, and return the run, with the requirements of what was read.

    `check` is called between statements and raises to cancel; `answer` answers a match over the pending rows. An update
    of many rows is streamed if no other statement can see its effects, else its rows are buffered.
    """
    run = DrivenRun(pending, inputs, ids, answer, check)
    read = run.requirements
    statements_per_type = Counter(statement.type.name for statement in query.list_statements())
    is_driven = query.last_match is not None
    has_delete = any(isinstance(statement, Delete) for statement in query.statements)
    for statement in query.statements:
        check()
        if isinstance(statement, DriveMatch):
            run.run(statement)
            continue
        table = pending.get_table(pending.view.get_type(statement.type.name))
        match statement:
            case InsertNode():
                _insert(statement, table, inputs, ids, run)
            case InsertEdge():
                _insert(statement, table, inputs, ids, run)
                _expect_ends(statement, pending, inputs, run)
            case Update():
                # A query has either deletes or other statements, so a cascade can't touch streamed rows.
                may_stream = statements_per_type[statement.type.name] == 1 and not is_driven and pending.seen is None
                read += _update(statement, table, inputs, _choose_buffer_limit(pending) if may_stream else None)
            case Delete():
                read += _delete(statement, table, inputs)
                pending.check_size(
                    len(table.deleted) * BYTES_PER_ID, f"the ids of {len(table.deleted):,} rows to delete"
                )
            case _:
                assert_never(statement)
    if has_delete:
        cascade(pending)
    check()
    return run


def _insert(
    statement: InsertNode | InsertEdge, table: PendingTable, inputs: QueryInputs, ids: Ids, run: DrivenRun
) -> None:
    type_ = table.type
    values = {assign.property: _compute_value(assign, table, inputs) for assign in statement.values}
    values |= {name: type_.by_name[name].default for name in statement.omitted}
    row = {name: _to_pending_value(table, name, value) for name, value in values.items()}
    if isinstance(statement, InsertEdge):
        row |= {SRC: _resolve_end(statement.source, inputs, run), DST: _resolve_end(statement.target, inputs, run)}
    # Without a key the id is random: no committed row can have it, and nothing is omitted from an existing row.
    is_fresh = not type_.key
    rows = pa.Table.from_pylist([{**row, ID: ids.ulid() if is_fresh else None}], table.schema)
    if not is_fresh:
        row_ids = derive_row_ids(type_, {name: rows.column(name) for name in type_.key})
        rows = rows.set_column(rows.schema.get_field_index(ID), ID, row_ids)
    if statement.variable is not None:
        run.name_row(statement.variable, concat_chunks(rows.column(ID)))
    omitted = statement.omitted
    if statement.if_absent:
        rows = run.leave_existing(table, rows)
        omitted = ()
    elif not is_fresh:
        check_keys_seen(table, concat_chunks(rows.column(ID)))
    if rows.num_rows:
        table.put(rows, is_fresh=is_fresh, omitted=() if is_fresh else omitted)


def _resolve_end(end: EndValue, inputs: QueryInputs, run: DrivenRun) -> Value:
    """Return the id at an end of an edge; a variable names the row of an earlier insert."""
    if isinstance(end, Identity | ValueRef):
        row_id: str = run.matched.get_ids(end.variable)[0].as_py()
        return row_id
    return inputs.resolve(end)


def _expect_ends(statement: InsertEdge, pending: WriteBuffer, inputs: QueryInputs, run: DrivenRun) -> None:
    """Let the next lookup of nodes include the ends of an edge, which saves a request."""
    edge = pending.view.catalog.edges[statement.type.name]
    for node_name, end in ((edge.source, statement.source), (edge.target, statement.target)):
        address_cache = pending.get_table(pending.get_node_type(node_name)).known
        address_cache.expect(pa.array([_resolve_end(end, inputs, run)], pa.string()))


def _choose_buffer_limit(pending: WriteBuffer) -> float:
    """Return the bytes of rows that an update may buffer before it is streamed; a quarter of a small budget."""
    memory = math.inf if pending.watch is None else pending.watch.memory_bytes
    return min(MAX_BUFFERED_BYTES, memory / 4)


def _update(
    statement: Update, table: PendingTable, inputs: QueryInputs, buffer_limit: float | None
) -> list[Requirement]:
    """Put the changed rows; with `buffer_limit`, rows that take more bytes are streamed."""
    assigned = {assign.property for assign in statement.values}
    # An assignment to a text also clears the vectors computed from it.
    vectors = {p.name for p in table.type.properties if p.embedding is not None}
    selected = _find_rows(statement, table, inputs, buffer_limit)
    change = _build_assignment(statement, table, inputs) if selected is None or selected.num_rows else None
    if selected is None:
        assert change is not None  # noqa: S101 - built above
        rows = StreamedRows(table.type, table.table, (statement.where, inputs), change, table.blob_values)
        table.stream(rows, assigned | vectors)
        return _build_selection_requirements(statement.where, table, inputs, rows.ids)
    requirements = _build_selection_requirements(statement.where, table, inputs, concat_chunks(selected.column(ID)))
    if change is not None:
        table.put(change(selected), changed=assigned | vectors)
    return requirements


def _find_rows(
    statement: Update, table: PendingTable, inputs: QueryInputs, buffer_limit: float | None
) -> pa.Table | None:
    """Return the rows that an update selects, unchanged; None if they are too many to buffer."""
    watch = None if buffer_limit is None else ScanSizeLimit(buffer_limit, table.table.watch)
    try:
        selected = table.select_where(statement.where, inputs, table.schema.names, watch)
    except TooManyRowsError:
        return None
    return None if buffer_limit is not None and selected.num_rows > MAX_BUFFERED_ROWS else selected


def _build_assignment(statement: Update, table: PendingTable, inputs: QueryInputs) -> Callable[[pa.Table], pa.Table]:
    """Return a function that applies the assignments of an update to a table; each constant is converted once."""
    assigned: dict[str, pa.Scalar | Assign] = {
        assign.property: pa.scalar(
            _to_pending_value(table, assign.property, inputs.resolve(assign.value)),
            table.schema.field(assign.property).type,
        )
        if isinstance(assign.value, Const | ParamRef | Now)
        else assign
        for assign in statement.values
    }

    def change(selected: pa.Table) -> pa.Table:
        rows = before = selected.select(table.schema.names).cast(table.schema)
        for name, value in assigned.items():
            index = rows.schema.get_field_index(name)
            # Every assignment reads the row as it was before, whatever the others set.
            column = (
                _compute_column(value, table, before, inputs)
                if isinstance(value, Assign)
                else repeat_value(value, rows.num_rows)
            )
            rows = rows.set_column(index, rows.schema.field(index), column)
        all_rows = pa.repeat(pa.scalar(True), rows.num_rows)
        is_omitted = {name: all_rows for name in table.schema.names if name not in assigned}
        return clear_stale_vectors(table.type, before, rows, is_omitted)

    return change


def _compute_value(assign: Assign, table: PendingTable, inputs: QueryInputs) -> Value:
    """Return the value of an assignment that reads no row."""
    if isinstance(assign.value, Const | ParamRef | Now):
        return inputs.resolve(assign.value)
    # A table of one row without columns: the expression reads parameters and literals only.
    single = pa.table({"": pa.nulls(1)})
    value: Value = _compute_column(assign, table, single, inputs)[0].as_py()
    return value


def _compute_column(assign: Assign, table: PendingTable, rows: pa.Table, inputs: QueryInputs) -> pa.Array:
    """Return the value of an assignment in every row, in the type of its property.

    Raises:
        QueryError: A value overflows, does not fit the type, or is null although the property is required.
    """
    prop = table.type.by_name[assign.property]
    text = format_expr(assign.value)
    log = OverflowLog()
    values = concat_chunks(evaluate(assign.value, rows, inputs, log))
    log.check()
    type_ = table.schema.field(assign.property).type
    try:
        column = values if values.type == type_ else values.cast(type_)
    except pa.ArrowInvalid as error:
        raise QueryError.value_out_of_range(text, prop.name, str(prop.type)) from error
    if column.null_count and not prop.nullable:
        raise QueryError.value_missing(text, prop.name)
    return column


def _to_pending_value(table: PendingTable, name: str, value: Value) -> object:
    """Convert a value to the form it has in a pending row: a reference for a Blob, else unchanged."""
    if value is None or table.type.by_name[name].type is not Scalar.BLOB:
        return value
    return table.blob_values.add(str(value))


def _delete(statement: Delete, table: PendingTable, inputs: QueryInputs) -> list[Requirement]:
    rows = table.select_where(statement.where, inputs, [ID])
    requirements = _build_selection_requirements(statement.where, table, inputs, concat_chunks(rows.column(ID)))
    if rows.num_rows:
        table.delete(rows.column(ID).to_pylist())
    return requirements


def _build_selection_requirements(
    where: Expr, table: PendingTable, inputs: QueryInputs, selected: pa.Array
) -> list[Requirement]:
    """Return the requirement that the predicate still selects the same committed rows, unchanged."""
    # Rows that this write replaces or deletes are excluded on both sides: the statement saw their pending versions.
    superseded = pa.array(table.find_superseded_ids(), pa.string())

    def exclude_superseded(ids: pa.Array) -> pa.Array:
        return ids.filter(pa.array(~is_among(ids, superseded))) if len(superseded) else ids

    def select(committed: LanceTable) -> pa.Array:
        return exclude_superseded(find_matching_ids(committed, where, inputs))

    def select_rows(rows: pa.Table) -> pa.Array:
        return exclude_superseded(concat_chunks(filter_rows(rows, where, inputs).column(ID)))

    return [
        SelectionUnchanged(
            table_key=table.type.table_key,
            ids=exclude_superseded(selected),
            select=select,
            select_rows=select_rows,
        )
    ]
