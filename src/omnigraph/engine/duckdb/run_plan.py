# ruff: noqa: S608 - names are quoted, and values never part of a text
"""The local engine: DuckDB runs the joins of a plan over the tables of a snapshot, on all cores, and spills to disk.

The steps of a plan are lowered to one query. Its rows come back as positions, chunk by chunk, so that the steps that
have no relational form, and the output, are computed by the same operators and sinks as in memory.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.duckdb.bound_rows import build_bindings
from omnigraph.engine.duckdb.connection import (
    Interruption,
    await_call,
    interrupt_when_over,
    open_connection,
    read_batch,
)
from omnigraph.engine.duckdb.group_rows import build_group_frame
from omnigraph.engine.duckdb.plan_dialect import DuckDbDialect, build_printer, print_condition, quote
from omnigraph.engine.duckdb.plan_profile import list_operators
from omnigraph.engine.duckdb.plan_streams import ScanSource, split_scan
from omnigraph.engine.duckdb.run_statement import SqlLimits
from omnigraph.engine.duckdb.sql_errors import SqlFailedError
from omnigraph.engine.duckdb.table_streams import ReadFailures, ReadState
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import PrefixRows
from omnigraph.engine.operators.filter import find_rows, has_search
from omnigraph.engine.output.result_pipeline import resolve_row_range
from omnigraph.engine.output.sort import build_sort_keys
from omnigraph.engine.parallel import count_threads
from omnigraph.engine.physical_plan import VALUE_TYPE, Compact, Node, PhysicalPlan, Step, get_type_name, iter_steps
from omnigraph.engine.query_budget import QueryMemoryError
from omnigraph.engine.query_progress import ProgressMeter
from omnigraph.engine.relational.delegates import is_plain_type
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.duckdb_functions import FunctionErrors, register_functions
from omnigraph.engine.relational.lower import LoweredPattern, lower_steps
from omnigraph.engine.relational.lower_output import LoweredGroups, list_output_reads, lower_groups, prune_rows
from omnigraph.engine.relational.lower_state import ValueColumn
from omnigraph.engine.relational.print_sql import print_query
from omnigraph.engine.relational.tree import (
    ID_VALUE,
    ROW_POSITION,
    ComputedRows,
    Relation,
    ScanRows,
    SingleRow,
    get_inputs,
    name_id,
    name_row,
    name_value,
)
from omnigraph.engine.tables.union_reader import UnionReader
from omnigraph.engine.value_store import to_stored_type
from omnigraph.errors import LimitError
from omnigraph.options import Options
from omnigraph.query.expr import Computed, Expr, OrderTerm
from omnigraph.query.expr_tree import find_windows, walk
from omnigraph.query.logical_plan import Count, ReadQuery
from omnigraph.query.union_types import TYPE_COLUMN, is_union
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import Scalar
from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.telemetry import log

# Rows that come back at once: large enough for our sinks, and 8 MB in each column.
_CHUNK_ROWS = 1 << 20
# Our own indexes find the rows of a filter that leaves at most this number, and one row in this factor of its table.
_MAX_FOUND_ROWS = 10_000.0
_MIN_FOUND_FACTOR = 16.0
# What Lance holds while it reads one stream: about 100 MB for fragments of a million edges, which no limit counts.
_BYTES_PER_STREAM = 2**28
_RESERVE_PER_STREAM = 2**27
# A longer page is sorted by our own sinks, which hold all of its rows anyway.
_MAX_FIRST_ROWS = 10_000_000


def build_local_engine(context: ExecutionContext, options: Options) -> "LocalEngine":
    """Return the local engine for one query."""
    return LocalEngine(context, SqlLimits(spill_bytes=options.spill_bytes, threads=options.threads))


@dataclass(slots=True)
class LocalEngine:
    """Run the first steps of plans in DuckDB."""

    context: ExecutionContext
    limits: SqlLimits
    lines: list[str] = field(default_factory=list)
    """What was run, and by which operators, if the run is profiled."""
    _reason: str = field(default="", init=False)

    def lower(self, query: ReadQuery, plan: PhysicalPlan, start: Bindings) -> "PreparedPattern | None":
        """Lower the steps of a plan; None if not even the first one has a relational form."""
        if not plan.steps:
            return None
        # Merging before groups are made costs a second hash table, of all combinations: 130 million of people and
        # posts, for 73 ages. It helps only what our own sinks read.
        if query.grouping is not None and isinstance(plan.steps[-1], Compact) and len(plan.steps) > 1:
            unmerged = self._lower(query, replace(plan, steps=plan.steps[:-1]), start)
            if unmerged is not None and unmerged.groups is not None:
                return replace(unmerged, steps=plan.steps)
        prepared = self._lower(query, plan, start)
        if prepared is None:
            self.lines.append(f"all steps in memory ({self._reason})")
        return prepared

    def _lower(self, query: ReadQuery, plan: PhysicalPlan, start: Bindings) -> "PreparedPattern | None":
        host = _LocalHost(self.context)
        relation, bound, values = host.bind_start(query, start)
        is_set = not plan.has_multiplicity and _is_set(query)
        lowered = lower_steps(
            plan.steps,
            host,
            relation,
            bound,
            is_set=is_set,
            reads=list_output_reads(query),
            rows=max(float(start.size), 1.0),
            values=values,
        )
        if len(lowered.rest) == len(plan.steps):
            self._reason = lowered.reason
            return None
        prepared = PreparedPattern(plan.steps, lowered, lowered.relation, host.computed)
        if lowered.rest:
            return prepared
        try:
            return self._lower_output(query, prepared)
        except UnsupportedForm:
            return prepared

    def _lower_output(self, query: ReadQuery, prepared: "PreparedPattern") -> "PreparedPattern":
        """Return a pattern with its groups, or with its first rows alone.

        Raises:
            UnsupportedForm: Our own sinks compute the output.
        """
        lowered = prepared.lowered
        groups: LoweredGroups | None = None
        if query.grouping is not None:
            groups = lower_groups(query, query.grouping, lowered)
            relation = groups.relation
        else:
            _, last = resolve_row_range(query, self.context.inputs)
            if last is None or last > _MAX_FIRST_ROWS:
                return prepared
            keys = tuple(
                OrderTerm(value=key.expr, descending=key.descending)
                for key in build_sort_keys(query)
                if key.expr is not None
            )
            relation = prune_rows(query, lowered, last, keys)
        # Printed only to see whether DuckDB can compute all of it exactly.
        tables = {id(scan): "" for scan in _iter_scans(relation)}
        print_query(relation, DuckDbDialect(build_printer(self.context.inputs), tables))
        return replace(prepared, relation=relation, groups=groups)

    @contextmanager
    def run(self, query: ReadQuery, plan: PhysicalPlan, start: Bindings) -> Iterator[PrefixRows]:
        """Yield the rows of the steps that DuckDB runs, in chunks, and the steps that are left to run over them.

        Raises:
            QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget ran out.
            LimitError: There are more matches than 64 bits count.
            SqlFailedError: DuckDB failed.
        """
        prepared = self.lower(query, plan, start)
        if prepared is None:
            yield PrefixRows(iter((start,)), plan.steps)
            return
        with self._translate_errors() as failures:
            batches = self._iter_batches(prepared, failures)
            try:
                if prepared.groups is not None:
                    rows = self._collect(batches)
                    yield PrefixRows(
                        iter(()), (), build_group_frame(query, prepared.groups, prepared.lowered, rows, self.context)
                    )
                else:
                    chunks = (
                        build_bindings(batch, prepared.lowered, self.context) for batch in batches if batch.num_rows
                    )
                    yield PrefixRows(chunks, prepared.lowered.rest)
            finally:
                # Ends the connection, also if the rows were not read to their end.
                batches.close()

    def _collect(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        """Return all rows; their memory stays reserved as that of the result."""
        collected = []
        for batch in batches:
            self.context.budget.claim(batch.nbytes, "the groups of the result")
            collected.append(batch)
        return pa.Table.from_batches(collected)

    @contextmanager
    def _translate_errors(self) -> Iterator["_Failures"]:
        budget = self.context.budget
        failures = _Failures()
        try:
            yield failures
        except duckdb.Error as error:
            # First what made DuckDB stop: an error of our own reader, the deadline, or the caller.
            failures.raise_first()
            budget.check()
            if isinstance(error, duckdb.OutOfMemoryException) or failures.interruption.is_out_of_memory:
                log.info("DuckDB is out of memory: %s", error)
                limit = 0 if budget.bytes_left is None else int(budget.memory_bytes)
                raise QueryMemoryError("the joins of the local engine", limit, limit) from None
            if isinstance(error, duckdb.OutOfRangeException | duckdb.ConversionException):
                raise LimitError.count_overflow() from None
            log.warning("DuckDB could not run a plan: %s", error)
            raise SqlFailedError from None
        except OSError as error:
            failures.raise_first()
            log.warning("DuckDB could not run a plan: %s", error)
            raise SqlFailedError from None

    def _iter_batches(self, prepared: "PreparedPattern", failures: "_Failures") -> Generator[pa.RecordBatch]:
        budget = self.context.budget
        left = budget.bytes_left
        threads = count_threads(self.limits.threads)
        streams = threads if left is None else max(1, min(threads, left // 2 // _BYTES_PER_STREAM))
        memory = None if left is None else _divide_memory(left, streams)
        is_profiled = self.context.profile is not None
        meter = ProgressMeter(self.context.progress)
        with (
            open_connection(
                memory_bytes=memory,
                spill_bytes=self.limits.spill_bytes,
                threads=threads,
                keeps_plan=True,
                is_profiled=is_profiled,
            ) as connection,
            interrupt_when_over(connection, budget, left, meter.report) as interruption,
        ):
            failures.interruption = interruption
            state = ReadState(budget, failures.readers, meter)
            text = self._register(connection, prepared, failures.functions, state, streams)
            reader = await_call(connection, lambda: connection.sql(text).to_arrow_reader(_CHUNK_ROWS))
            # The first one has the columns, if there is no row.
            yield pa.RecordBatch.from_pylist([], reader.schema)
            while (batch := read_batch(connection, reader)) is not None:
                budget.check()
                yield batch
            if self.context.profile is not None:
                self.lines += [prepared.describe(), *(f"  {line}" for line in list_operators(connection))]
                for number in prepared.list_steps():
                    self.context.profile.get_step(number).engine = "DuckDB"

    def _register(
        self,
        connection: duckdb.DuckDBPyConnection,
        prepared: "PreparedPattern",
        functions: FunctionErrors,
        state: ReadState,
        streams: int,
    ) -> str:
        """Register the tables of a tree, each as up to so many streams, and return its text."""
        context = self.context
        tables: dict[int, str] = {}
        for number, scan in enumerate(_iter_scans(prepared.relation)):
            name = f"scan {number}"
            tables[id(scan)] = name
            reader = context.get_reader(scan.type)
            source = ScanSource(scan, reader, context.inputs, state)
            parts = split_scan(source, streams, self.limits.min_stream_rows)
            for index, stream in enumerate(parts):
                connection.register(f"{name}.{index}", stream)
            united = " union all ".join(f"select * from {quote(f'{name}.{index}')}" for index in range(len(parts)))
            connection.execute(f"create temp view {quote(name)} as {united}")
        for label, table in prepared.computed.items():
            connection.register(label, table)
        printer = build_printer(context.inputs)
        dialect = DuckDbDialect(printer, tables)
        text = print_query(prepared.relation, dialect)
        register_functions(connection, [*printer.functions, *dialect.functions.values()], functions)
        return text


def _divide_memory(left: int, streams: int) -> int:
    """Return how much of the memory that is left DuckDB may use: it counts neither Lance's buffers nor our sinks.

    Of 1.5 GB it gets 1.04 GB for two streams, and half of less: with 16 MB, four of 29 kinds of questions over
    200,000 edges failed.
    """
    return max(left - streams * _RESERVE_PER_STREAM - left // 8, left // 2, 1)


@dataclass(slots=True)
class _Failures:
    """Errors of our own code that DuckDB calls; they reach it as texts only."""

    interruption: Interruption = field(default_factory=Interruption)
    readers: ReadFailures = field(default_factory=ReadFailures)
    functions: FunctionErrors = field(default_factory=FunctionErrors)

    def raise_first(self) -> None:
        """Raise the first error, if there is one."""
        self.interruption.raise_error()
        self.readers.raise_first()
        self.functions.raise_first()


@dataclass(frozen=True, slots=True)
class PreparedPattern:
    """A lowered pattern, and the tables that our engine has computed for it."""

    steps: tuple[Step, ...]
    lowered: LoweredPattern
    relation: Relation
    """What DuckDB runs: the pattern, and the part of the output that it computes exactly."""
    computed: dict[str, pa.Table]
    groups: LoweredGroups | None = None

    def list_steps(self) -> list[int]:
        """Return the numbers of the steps that DuckDB runs, those inside of others too."""
        count = len(self.steps) - len(self.lowered.rest)
        return [step.number for step in iter_steps(self.steps[:count])]

    def describe(self) -> str:
        """Return which parts DuckDB runs."""
        if self.lowered.rest:
            step = self.lowered.rest[0].number
            return f"DuckDB before step {step}; from there on ({self.lowered.reason}) in memory"
        if self.groups is not None:
            return "DuckDB, with the groups of the result"
        is_whole = self.relation is self.lowered.relation
        return "DuckDB, all steps" if is_whole else "DuckDB, with the first rows of the result"


def _is_set(query: ReadQuery) -> bool:
    """Return whether only the existence of a match matters to the output."""
    if query.grouping is not None:
        return True
    return query.distinct and not any(find_windows(expr) for expr in query.results)


def _iter_scans(root: Relation) -> Iterator[ScanRows]:
    seen = set[int]()
    pending = [root]
    while pending:
        relation = pending.pop()
        if id(relation) in seen:
            continue
        seen.add(id(relation))
        if isinstance(relation, ScanRows):
            yield relation
        pending.extend(get_inputs(relation))


class _LocalHost:
    """What the lowering has to know of the tables, and the rows that our own engine finds for it."""

    with_rows = True

    def __init__(self, context: ExecutionContext) -> None:
        self._context = context
        self.computed: dict[str, pa.Table] = {}

    def count_rows(self, type_name: str) -> int:
        """Return the number of rows of a type; of an edge that a named pattern stands for, any number."""
        if self._context.catalog.find_type(type_name) is None and not is_union(type_name):
            return 0
        return self._context.get_reader(type_name).count

    def find_type(self, name: str) -> AnyType:
        """Return the catalog's entry of a type."""
        return self._context.view.get_type(name)

    def get_base(self, union: str, member: str) -> int:
        """Return where the positions of a member begin among those of a union."""
        reader = self._context.get_reader(union)
        number = reader.find_member(member) if isinstance(reader, UnionReader) else None
        return 0 if number is None or not isinstance(reader, UnionReader) else int(reader.bases[number])

    def check_expr(self, expr: Expr) -> None:
        """Check that an expression can be printed, or evaluated by us from the columns of the rows."""
        print_condition(build_printer(self._context.inputs), expr)

    def check_filter(self, expr: Expr) -> None:
        """Check that a predicate can be evaluated in the stream of its table."""
        if has_search(expr) or _reads_blob(expr):
            raise UnsupportedForm("a condition on a search")

    def compute_rows(self, node: Node, columns: tuple[tuple[str, str], ...]) -> ComputedRows | None:
        """Find the rows of a filter ourselves if an index finds few of them, or if only we can."""
        is_ours = any(has_search(each) or _reads_blob(each) for each in node.filters)
        is_few = node.rows <= _MAX_FOUND_ROWS and node.rows * _MIN_FOUND_FACTOR <= self.count_rows(node.type)
        if not node.filters or not (is_ours or is_few):
            return None
        context = self._context
        positions = find_rows(node.filters, node.type, None, context)
        return self._add({name: self._take(node.type, column, positions) for column, name in columns})

    def resolve_limit(self, limit: Count) -> int:
        """Return the number that the limit of a block is."""
        if isinstance(limit, Computed):
            raise UnsupportedForm("a limit that is calculated")
        value = limit if isinstance(limit, int) else self._context.inputs.resolve(limit)
        if not isinstance(value, int) or value < 0:
            # An error only where there is a match.
            raise UnsupportedForm("a limit that is negative")
        return value

    def bind_start(self, query: ReadQuery, start: Bindings) -> tuple[Relation, dict[str, str], dict[str, ValueColumn]]:
        """Return the rows that a pattern starts from, the types of their variables, and those with values."""
        if not start.columns:
            return SingleRow(), {}, {}
        values: dict[str, ValueColumn] = {}
        bound = {each.variable: get_type_name(each.type) for each in query.inputs}
        columns: dict[str, pa.Array] = {}
        for variable, type_name in bound.items():
            at = start.columns[variable]
            columns[name_row(variable)] = pa.array(at, pa.int64(), mask=at < 0)
            if type_name != VALUE_TYPE:
                columns[name_id(variable)] = self._take(type_name, ID, at)
        for each in query.inputs:
            if is_plain_type(each.type) and not self._context.values.has_overflow(each.variable):
                at, type_ = start.columns[each.variable], to_stored_type(each.type)
                columns[name_value(each.variable)] = self._context.values.take(each.variable, at, type_)
                values[each.variable] = ValueColumn(each.type, has_one_zero=isinstance(each.type, Scalar))
        return self._add(columns), bound, values

    def _take(self, type_name: str, column: str, at: Positions) -> pa.Array:
        if column == ROW_POSITION:
            return pa.array(at, pa.int64())
        take = self._context.take_values
        if column == ID and is_union(type_name):
            # As `TypedIdTerm` prints them.
            return pc.binary_join_element_wise(take(type_name, TYPE_COLUMN, at), take(type_name, ID, at), "!")
        return concat_chunks(take(type_name, ID if column == ID_VALUE else column, at))

    def _add(self, columns: dict[str, pa.Array]) -> ComputedRows:
        table = pa.table(columns)
        label = f"computed {len(self.computed)}"
        self._context.budget.claim(table.nbytes, "the rows that a search or a stage has found")
        self.computed[label] = table
        return ComputedRows(label=label, names=tuple(columns))


def _reads_blob(expr: Expr) -> bool:
    return any(part.type is Scalar.BLOB for part in walk(expr))
