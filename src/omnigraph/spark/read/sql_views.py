"""Run SQL over one snapshot: every type in a statement is a view that reads only the columns and rows it needs.

Spark does not push projections down to a Python source, and its filter pushdown is unreliable (see `ScanReader`). So a
statement is planned twice: first over empty tables, to see which columns and filters the optimised plan needs, then
over the real tables with these.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from py4j.java_gateway import is_instance_of
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.spark.read.connect_sql import run_connect_sql
from omnigraph.spark.read.filter_pushdown import JavaObject, format_condition, iter_conjuncts, join_all, join_any
from omnigraph.spark.read.spark_types import to_spark_schema
from omnigraph.spark.read.table_scan import is_filter
from omnigraph.spark.session.connect import is_connect
from omnigraph.spark.spark_errors import SparkUsageError
from omnigraph.telemetry import log

# Names, types and nullability of the columns of a result.
ResultColumns: TypeAlias = list[tuple[str, DataType, bool]]

# The metadata key that marks the columns of an empty table with the name of its type.
_MARK = "omnigraph.type"
_WORD = re.compile(r"\w+")
# Texts that may mean all columns of a table, which `count(*)` does not; and set operations, which match columns by
# position.
_STAR = re.compile(r"\*|\|>|\btable\b", re.IGNORECASE)
_COUNT = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_BY_POSITION = re.compile(r"\b(union|intersect|except|minus)\b", re.IGNORECASE)
# Statements that write, up to the name of their table.
_WRITE = re.compile(
    r"\s*(?:insert\s+(?:into|overwrite)|merge\s+into|update|delete\s+from|truncate)\s+(?:table\s+)?(?P<name>`\w+`|\w+)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
# Views belong to the session, which threads share: only one thread at a time creates and drops them.
views_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class TypeUsage:
    """The columns of a type, and a predicate on its rows, that a statement needs; None means all."""

    columns: list[str] | None = None
    where: str | None = None


_EVERYTHING = TypeUsage()

# Reads the columns and rows of a type that are used.
FrameReader: TypeAlias = Callable[[AnyType, TypeUsage], DataFrame]


def run_sql(spark: SparkSession, text: str, catalog: Catalog, read: FrameReader) -> DataFrame:
    """Return the result of a statement; views of the types in it exist only while it is analysed.

    Raises:
        SparkUsageError: It contains the name of a type from which another type differs only in case, or writes to one.
    """
    types = _find_types(text, catalog)
    _check_reads(text, types)
    if is_connect(spark):
        return run_connect_sql(spark, text, types, lambda type_, columns: read(type_, TypeUsage(columns)))
    with views_lock:
        planned = plan_usage(spark, text, types)
        if planned is not None:
            usage, expected = planned
            # Without the unused columns, a statement may be invalid or have other columns, for example with a star.
            # Then all columns are read.
            try:
                with _create_views(spark, {name: read(type_, usage[name]) for name, type_ in types.items()}):
                    frame = spark.sql(text)
                if _describe_columns(frame.schema) == expected:
                    return frame
            except AnalysisException as error:
                log.debug("a statement is invalid over only the columns it uses: %s", error)
        with _create_views(spark, {name: read(type_, _EVERYTHING) for name, type_ in types.items()}):
            return spark.sql(text)


def _find_types(text: str, catalog: Catalog) -> dict[str, AnyType]:
    """Return the types whose names occur in a text, in any case; no other can be used in it."""
    words = {word.lower() for word in _WORD.findall(text)}
    by_name: dict[str, AnyType] = {}
    types = catalog.types
    for type_ in types:
        name = type_.name.lower()
        if name in words:
            if name in by_name:
                raise SparkUsageError.view_name(by_name[name].name, type_.name)
            by_name[name] = type_
    return by_name


def _check_reads(text: str, types: Mapping[str, AnyType]) -> None:
    """Check that a statement writes to no type: a view of it would only be an operator that Spark can't resolve."""
    match = _WRITE.match(_COMMENT.sub(" ", text))
    type_ = None if match is None else types.get(match["name"].strip("`").lower())
    if type_ is not None:
        raise SparkUsageError.sql_write(type_.name)


@contextmanager
def _create_views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Create temporary views within the context; afterwards, restore views that had the same names."""
    hidden = {name: spark.table(name) for name in frames if _has_view(spark, name)}
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        yield
    finally:
        for name in frames:
            if name in hidden:
                hidden[name].createOrReplaceTempView(name)
            else:
                spark.catalog.dropTempView(name)


def _has_view(spark: SparkSession, name: str) -> bool:
    view = spark._jsparkSession.sessionState().catalog().getTempView(name)  # noqa: SLF001 - `spark.catalog` plans a query
    return bool(view.isDefined())


# --- used columns ----------------------------------------------------------------------------------------


def plan_usage(
    spark: SparkSession, text: str, types: Mapping[str, AnyType]
) -> tuple[dict[str, TypeUsage], ResultColumns] | None:
    """Return what a statement uses of each type, and its result columns; None if that is unknown."""
    # A set operation matches columns by position. If a star selects them, leaving one out would shift the others.
    if _BY_POSITION.search(text) and _STAR.search(_COUNT.sub("", text)):
        return None
    schemas = {name: to_spark_schema(type_) for name, type_ in types.items()}
    with _create_views(spark, {name: _create_empty_table(spark, name, schema) for name, schema in schemas.items()}):
        execution = _plan_query(spark, text)
        if execution is None:
            return None
        optimized = execution.optimizedPlan()
        result_schema = execution.analyzed().schema().json()
    plans = (optimized, *_iter_scala(optimized.subqueriesAll()))
    leaves = [leaf for plan in plans for leaf in _iter_leaves(plan)]
    usage: dict[str, TypeUsage] = {}
    for name, type_ in types.items():
        type_leaves = [leaf for leaf in leaves if leaf.name == name]
        used = {column for leaf in type_leaves for column in leaf.columns}
        where = join_any([_build_predicate(spark, leaf) for leaf in type_leaves])
        # `count(*)` uses no column, but its rows are read nevertheless.
        columns = [column for column in schemas[name].names if column in used] or [ID]
        usage[name] = TypeUsage(columns, where if where is None or is_filter(where, type_) else None)
    return usage, _describe_columns(StructType.fromJson(json.loads(result_schema)))


def _create_empty_table(spark: SparkSession, name: str, schema: StructType) -> DataFrame:
    """Create a table without rows, whose columns are marked with the name of their type."""
    fields = [StructField(field.name, field.dataType, field.nullable, {_MARK: name}) for field in schema]
    context = spark.sparkContext
    java = spark._jsparkSession  # noqa: SLF001 - PySpark's own way runs Python for no rows
    # From an RDD: the optimiser would remove a relation that it knows to be empty from the plan.
    columns = java.parseDataType(StructType(fields).json())
    return DataFrame(java.createDataFrame(context._jsc.emptyRDD(), columns), spark)  # noqa: SLF001 - as above


def _plan_query(spark: SparkSession, text: str) -> JavaObject | None:
    """Plan a query without running it; return None for a statement that is a command."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way
    state = spark._jsparkSession.sessionState()  # noqa: SLF001 - as above
    assert jvm is not None  # noqa: S101 - there is a session
    skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    execution = state.executePlan(state.sqlParser().parsePlan(text), skip)
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - as above
    return None if is_instance_of(gateway, execution.analyzed(), _COMMAND) else execution


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A table in an optimised plan, with its used columns and the filters directly above it."""

    name: str
    columns: list[str]
    conditions: list[JavaObject]


def _iter_leaves(
    plan: JavaObject, used: JavaObject | None = None, conditions: Sequence[JavaObject] = ()
) -> Iterator[_Leaf]:
    """Yield our tables in a plan.

    `used` are the columns that the nearest projection above needs; without one, all are.
    """
    children = list(_iter_scala(plan.children()))
    if not children:
        columns = [column for column in _iter_scala(plan.output()) if column.metadata().contains(_MARK)]
        if columns:
            names = [column.name() for column in columns if used is None or used.contains(column)]
            yield _Leaf(columns[0].metadata().getString(_MARK), names, list(conditions))
        return
    name = plan.getClass().getSimpleName()
    below: JavaObject | None = None
    if name in ("Project", "Aggregate"):
        below = plan.references()
    elif name == "Filter" and used is not None:
        below = getattr(used, "$plus$plus")(plan.references())
    # Any other operator may need all columns of its input. Only filters directly above a table count.
    for child in children:
        yield from _iter_leaves(child, below, [*conditions, plan.condition()] if name == "Filter" else ())


def _build_predicate(spark: SparkSession, leaf: _Leaf) -> str | None:
    """Return a predicate that every row passes which the plan uses of a table, or None."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way
    parts = [format_condition(jvm, part) for condition in leaf.conditions for part in iter_conjuncts(condition)]
    return join_all([part for part in parts if part is not None])


def _iter_scala(sequence: JavaObject) -> Iterator[JavaObject]:
    """Iterate over a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _describe_columns(schema: StructType) -> ResultColumns:
    return [(field.name, field.dataType, field.nullable) for field in schema]
