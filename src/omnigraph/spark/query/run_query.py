"""Run a query of the language on Spark: lower its plan, print it, and give its rows as a DataFrame.

Everything that can be refused is refused before anything is read. Then searches over several edges run, distance by
distance; the rest is one statement, which Spark runs when its rows are asked for.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from omnigraph.engine.output.projection import build_output_schema
from omnigraph.engine.physical_plan import Node, PhysicalPlan
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.lower import lower_steps
from omnigraph.engine.relational.print_sql import print_query
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.engine.relational.tree import ComputedRows, Reach, Relation, SingleRow
from omnigraph.engine.view import View
from omnigraph.ids import draw_bytes
from omnigraph.query.expr import Expr
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.spark.query.aggregates import AggregatePrinter
from omnigraph.spark.query.dialect import SparkDialect, find_variable_column
from omnigraph.spark.query.functions import create_functions
from omnigraph.spark.query.output import OutputPrinter, counts_rows, list_reads
from omnigraph.spark.query.reach import ReachCall, prepare_checkpoints, search_reach
from omnigraph.spark.read.dataframe_reader import read_frame
from omnigraph.spark.read.sql_views import views_lock
from omnigraph.spark.read.table_scan import TableScan
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.spark_errors import SparkUsageError

# While a statement is analysed: names of variables and properties differ in case, and an overflow is an error.
_ANALYSIS_CONF = {"spark.sql.caseSensitive": "true", "spark.sql.ansi.enabled": "true"}


@dataclass(frozen=True, slots=True)
class SparkRows:
    """The rows of a query as a DataFrame, and their schema as a result has it."""

    frame: DataFrame
    schema: pa.Schema
    query_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryJob:
    """A query that is checked and planned, and how to reach its tables."""

    query: ReadQuery
    plan: PhysicalPlan
    inputs: QueryInputs
    view: View
    plan_scan: Callable[[str], TableScan]
    """Returns the scan of a whole type at the snapshot."""


def run_query(spark: Callable[[], SparkSession], job: QueryJob) -> SparkRows:
    """Return the rows of a query; its searches over several edges are complete then, the rest is computed later.

    Raises:
        SparkUsageError: Spark does not run a form of the query, which is named; nothing was read.
        SparkFailedError: Spark failed.
    """
    try:
        statement = _print_job(job)
    except UnsupportedForm as error:
        raise SparkUsageError.form_unsupported(error.form) from None
    with surface_errors():
        frame = _execute(spark(), statement)
    return SparkRows(frame, build_output_schema(job.query, job.view.catalog), job.query.name)


# --- the statement ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    """A search over several edges, as statements for its input and the view of its result."""

    view: str
    reach: Reach
    sources: str
    edges: str
    through: str | None


@dataclass(slots=True)
class _SparkStatement:
    """All that is needed to run a query: searches in order, then one statement."""

    text: str
    dialect: SparkDialect
    aggregates: AggregatePrinter
    searches: list[_Search]


@dataclass(slots=True)
class _SparkHost:
    """What the lowering asks of Spark."""

    view: View
    inputs: QueryInputs
    with_rows: bool = False

    def count_rows(self, type_name: str) -> int:
        """Return the number of rows of a type."""
        fragments = self.view.get_table(self.view.get_type(type_name)).list_fragments()
        return sum(fragment.rows - fragment.deleted for fragment in fragments)

    def check_expr(self, expr: Expr) -> None:
        """Check that an expression over several variables can be evaluated exactly.

        Raises:
            UnsupportedForm: It can't.
        """
        ExpressionPrinter(SPARK, self.inputs).print_condition(expr, find_variable_column)

    def check_filter(self, expr: Expr) -> None:
        """Check that a predicate over the rows of one table can be evaluated exactly in its scan.

        Raises:
            UnsupportedForm: It can't.
        """
        self.check_expr(expr)

    def compute_rows(self, node: Node, columns: tuple[tuple[str, str], ...]) -> ComputedRows | None:  # noqa: ARG002 - scans do
        """Return None: scans find all rows."""
        return None


def _print_job(job: QueryJob) -> _SparkStatement:
    query, plan = job.query, job.plan
    if query.source is not None:
        raise UnsupportedForm("a query of several stages")
    if plan.parts:
        raise UnsupportedForm("a query whose aggregates are computed apart")
    host = _SparkHost(job.view, job.inputs)
    lowered = lower_steps(plan.steps, host, SingleRow(), {}, is_set=not counts_rows(query), reads=list_reads(query))
    if lowered.rest:
        raise UnsupportedForm(lowered.reason)
    prefix = f"omnigraph_{draw_bytes(6).hex()}_"
    dialect = SparkDialect(
        job.view.catalog, job.inputs, job.plan_scan, prefix, ExpressionPrinter(SPARK, job.inputs, prefix)
    )
    searches: list[_Search] = []
    root = _replace_searches(lowered.relation, dialect, searches, {})
    aggregates = AggregatePrinter(job.inputs, prefix)
    output = OutputPrinter(query, dialect, aggregates, print_query(root, dialect), root.names)
    return _SparkStatement(output.print_output(), dialect, aggregates, searches)


def _replace_searches(
    relation: Relation, dialect: SparkDialect, searches: list[_Search], done: dict[int, Relation]
) -> Relation:
    """Return a relation in which each search over several edges is a view, and add the searches in order."""
    if id(relation) in done:
        return done[id(relation)]
    changed: dict[str, Any] = {}
    for each in fields(relation):
        value = getattr(relation, each.name)
        if isinstance(value, Relation):
            changed[each.name] = _replace_searches(value, dialect, searches, done)
        elif isinstance(value, tuple) and value and isinstance(value[0], Relation):
            changed[each.name] = tuple(_replace_searches(part, dialect, searches, done) for part in value)
    # One that two others read stays one object, so that it is computed once.
    result = replace(relation, **changed) if changed else relation
    if isinstance(result, Reach):
        rows = ComputedRows(label=f"reach_{len(searches)}", names=result.names)
        through = None if result.through is None else print_query(result.through, dialect)
        sources, edges = (print_query(part, dialect) for part in (result.sources, result.edges))
        searches.append(_Search(dialect.print_computed(rows), result, sources, edges, through))
        result = rows
    done[id(relation)] = result
    return result


# --- the run -------------------------------------------------------------------------------------------


def _execute(spark: SparkSession, statement: _SparkStatement) -> DataFrame:
    dialect = statement.dialect
    if statement.searches:
        prepare_checkpoints(spark)
    with views_lock, ExitStack() as stack:
        stack.enter_context(_set_conf(spark, _ANALYSIS_CONF))
        stack.enter_context(create_functions(spark, [*dialect.printer.functions, *statement.aggregates.functions]))
        for view, plan in dialect.build_views().items():
            _create_view(spark, read_frame(spark, plan()), view, stack)
        for search in statement.searches:
            _create_view(spark, _search(spark, search), search.view, stack)
        return spark.sql(statement.text)


def _search(spark: SparkSession, search: _Search) -> DataFrame:
    reach = search.reach
    pairs = search_reach(
        ReachCall(
            sources=spark.sql(search.sources),
            edges=spark.sql(search.edges).select(*map(SPARK.quote_name, (reach.near, reach.far))),
            low=reach.low,
            high=reach.high,
            through=None if search.through is None else spark.sql(search.through),
        )
    )
    return pairs.toDF(reach.source, reach.target)


def _create_view(spark: SparkSession, frame: DataFrame, name: str, stack: ExitStack) -> None:
    frame.createOrReplaceTempView(name)
    stack.callback(spark.catalog.dropTempView, name)


@contextmanager
def _set_conf(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
