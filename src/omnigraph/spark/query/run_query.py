"""Run a query of the language on Spark: lower its plan, print it, and give its rows as a DataFrame.

Everything that can be refused is refused before anything is read. Then our own engine ranks what is searched for, and
searches over several edges run, distance by distance; the rest is one statement, which Spark runs when its rows are
asked for.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.output.projection import build_output_schema
from omnigraph.engine.physical_plan import PhysicalPlan
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.ids import draw_bytes
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.spark.query.aggregates import AggregatePrinter
from omnigraph.spark.query.checkpoints import delete_checkpoints, own_checkpoints
from omnigraph.spark.query.dialect import SparkDialect
from omnigraph.spark.query.functions import create_functions
from omnigraph.spark.query.reach import ReachCall, search_reach
from omnigraph.spark.query.searches import SearchColumns
from omnigraph.spark.query.stages import StagePrinter
from omnigraph.spark.query.statement import RankedView, SearchView, ShippedView, StatementBuilder, TextView, View
from omnigraph.spark.read.dataframe_reader import read_frame
from omnigraph.spark.read.sql_views import views_lock
from omnigraph.spark.read.table_scan import TableScan
from omnigraph.spark.session.connect import check_has_jvm
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
    checkpoints: str | None = None
    """The directory that the frame reads, if the query has searched over several edges."""
    notes: tuple[str, ...] = ()
    """What the text of the query was warned about."""

    def release(self) -> None:
        """Delete what the frame reads, once its rows are not needed any more."""
        if self.checkpoints is not None:
            delete_checkpoints(self.frame.sparkSession, self.checkpoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryJob:
    """A query that is checked and planned, and how to reach its tables."""

    query: ReadQuery
    plan: PhysicalPlan
    inputs: QueryInputs
    """Those of the executors, which have no budget of this process."""
    context: ExecutionContext
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
    check_has_jvm(active := spark(), "a query of the query language", "Use the engine `local`, or `graph.spark.sql`")
    with surface_errors():
        frame, checkpoints = _execute(active, statement)
    schema = build_output_schema(job.query, job.context.catalog)
    return SparkRows(frame, schema, job.query.name, checkpoints, job.context.notes)


# --- the statement ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SparkStatement:
    """All that is needed to run a query: views in order, then one statement."""

    text: str
    builder: StatementBuilder


def _print_job(job: QueryJob) -> _SparkStatement:
    prefix = f"omnigraph_{draw_bytes(6).hex()}_"
    searches = SearchColumns(job.context)
    printer = ExpressionPrinter(SPARK, job.inputs, prefix)
    aggregates = AggregatePrinter(job.inputs, prefix)
    dialect = SparkDialect(job.context.catalog, job.inputs, job.plan_scan, prefix, printer, searches, aggregates)
    builder = StatementBuilder(dialect)
    searches.ship = builder.add_shipped
    return _SparkStatement(StagePrinter(builder, job.context.view).print_read(job.query, job.plan), builder)


# --- the run -------------------------------------------------------------------------------------------


def _execute(spark: SparkSession, statement: _SparkStatement) -> tuple[DataFrame, str | None]:
    """Return the rows of a statement, and the directory of the checkpoints that they are read from."""
    builder = statement.builder
    dialect = builder.dialect
    checkpoints: str | None = None
    with views_lock, ExitStack() as stack:
        if any(isinstance(view, SearchView) for view in builder.views):
            checkpoints = stack.enter_context(own_checkpoints(spark))
        stack.enter_context(_set_conf(spark, _ANALYSIS_CONF))
        stack.enter_context(create_functions(spark, [*dialect.printer.functions, *builder.aggregates.functions]))
        for name, plan in dialect.build_views().items():
            _create_view(spark, read_frame(spark, plan()), name, stack)
        for view in builder.views:
            _create_view(spark, _build_frame(spark, view), view.view, stack)
        return spark.sql(statement.text), checkpoints


def _build_frame(spark: SparkSession, view: View) -> DataFrame:
    match view:
        case TextView():
            return spark.sql(view.text)
        case SearchView():
            return _search(spark, view)
        case ShippedView():
            return spark.createDataFrame(view.build())
        case RankedView():
            return spark.createDataFrame(view.build(_collect_ids(spark, view.ids)))


def _collect_ids(spark: SparkSession, text: str) -> pa.Array:
    return spark.sql(text).toArrow().column(0).combine_chunks().cast(pa.utf8())


def _search(spark: SparkSession, search: SearchView) -> DataFrame:
    reach = search.reach
    pairs = search_reach(
        ReachCall(
            sources=spark.sql(search.sources),
            edges=spark.sql(search.edges).select(*map(SPARK.quote_name, (reach.near, reach.far))),
            low=reach.low,
            high=reach.high,
            through=None if search.through is None else spark.sql(search.through),
            is_undirected=reach.is_undirected,
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
