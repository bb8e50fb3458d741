"""SQL over one snapshot: every type that a statement names is a view, and only what the statement uses of it is read.

Spark does not tell a source that is written in Python which columns a plan needs, and what it tells of filters can't be
trusted (see `source`). So a statement is planned twice: first over empty tables, to see which of their columns and
filters are left when Spark has optimised it, then over the real ones with these.
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

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.spark.read.filter_pushdown import JavaObject, format_condition, iter_conjuncts, join_all, join_any
from omnigraph.spark.read.spark_types import to_spark_schema
from omnigraph.spark.read.table_scan import is_filter
from omnigraph.telemetry import log

ResultColumns: TypeAlias = list[tuple[str, DataType, bool]]
"""Names, types and nullability of an answer's columns."""

_MARK = "omnigraph.type"
"""In the metadata of an empty table's column: the type that it is of."""
_WORD = re.compile(r"\w+")
_STAR = re.compile(r"\*|\|>|\btable\b", re.IGNORECASE)
_COUNT = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_BY_POSITION = re.compile(r"\b(union|intersect|except|minus)\b", re.IGNORECASE)
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_views_lock = threading.RLock()
"""Views belong to a session, which threads share: they are put up and taken down by one at a time."""


class ViewNameError(OmnigraphError):
    """Two types differ in the case of their names only, which SQL does not see."""

    kind = Kind.USAGE
    code = "view_name"

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first, second)
        self.first, self.second = first, second

    def __str__(self) -> str:
        return (
            f"SQL does not tell `{self.first}` from `{self.second}`; read one of them with `table` and give it a name"
            " of its own with `createOrReplaceTempView`"
        )


@dataclass(frozen=True, slots=True)
class TypeUsage:
    """What a statement uses of a type: these columns, of rows that this predicate lets pass; None is all."""

    columns: list[str] | None = None
    where: str | None = None


_EVERYTHING = TypeUsage()

FrameReader: TypeAlias = Callable[[AnyType, TypeUsage], DataFrame]
"""The rows of a type, as far as they are used."""


def run_sql(spark: SparkSession, text: str, catalog: Catalog, frame: FrameReader) -> DataFrame:
    """The answer of a statement; views of the types that it names are there while it is analysed, and gone then.

    Raises:
        ViewNameError: It names a type that has a twin.
    """
    types = _find_types(text, catalog)
    with _views_lock:
        planned = plan_usage(spark, text, types)
        if planned is not None:
            uses, expected = planned
            try:
                with _create_views(spark, {name: frame(type_, uses[name]) for name, type_ in types.items()}):
                    found = spark.sql(text)
                if _describe_columns(found.schema) == expected:
                    return found
            except AnalysisException as error:
                log.debug("a statement is not understood with only the columns it uses: %s", error)
        with _create_views(spark, {name: frame(type_, _EVERYTHING) for name, type_ in types.items()}):
            return spark.sql(text)


def _find_types(text: str, catalog: Catalog) -> dict[str, AnyType]:
    """The types whose names occur in a text, in any case: no other can be meant."""
    words = {word.lower() for word in _WORD.findall(text)}
    found: dict[str, AnyType] = {}
    types: list[AnyType] = [*catalog.nodes.values(), *catalog.edges.values()]
    for type_ in types:
        name = type_.name.lower()
        if name in words:
            if name in found:
                raise ViewNameError(found[name].name, type_.name)
            found[name] = type_
    return found


@contextmanager
def _create_views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Temporary views for a while; those that had their names are there again then."""
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
    found = spark._jsparkSession.sessionState().catalog().getTempView(name)  # noqa: SLF001 - `spark.catalog` makes a plan for it
    return bool(found.isDefined())


# --- which columns ---------------------------------------------------------------------------------------


def plan_usage(
    spark: SparkSession, text: str, types: Mapping[str, AnyType]
) -> tuple[dict[str, TypeUsage], ResultColumns] | None:
    """What a statement uses of each type, and the columns of its answer; None when that can't be told.

    Where rows are matched by the position of columns that a star stands for, none may be left out.
    """
    if _BY_POSITION.search(text) and _STAR.search(_COUNT.sub("", text)):
        return None
    schemas = {name: to_spark_schema(type_) for name, type_ in types.items()}
    with _create_views(spark, {name: _create_empty_table(spark, name, schema) for name, schema in schemas.items()}):
        execution = _plan_query(spark, text)
        if execution is None:
            return None
        optimized, answer = execution.optimizedPlan(), execution.analyzed().schema().json()
    leaves = [leaf for plan in (optimized, *_iter_scala(optimized.subqueriesAll())) for leaf in _iter_leaves(plan)]
    uses: dict[str, TypeUsage] = {}
    for name, type_ in types.items():
        mine = [leaf for leaf in leaves if leaf.name == name]
        used = {column for leaf in mine for column in leaf.columns}
        where = join_any([_build_predicate(spark, leaf) for leaf in mine])
        columns = [one for one in schemas[name].names if one in used] or [ID]
        uses[name] = TypeUsage(columns, where if where is None or is_filter(where, type_) else None)
    return uses, _describe_columns(StructType.fromJson(json.loads(answer)))


def _create_empty_table(spark: SparkSession, name: str, schema: StructType) -> DataFrame:
    """A table without rows, whose columns say where they are from; not one that Spark knows to be empty."""
    fields = [StructField(one.name, one.dataType, one.nullable, {_MARK: name}) for one in schema]
    context, java = spark.sparkContext, spark._jsparkSession  # noqa: SLF001 - PySpark's own way runs Python for no rows
    columns = java.parseDataType(StructType(fields).json())
    return DataFrame(java.createDataFrame(context._jsc.emptyRDD(), columns), spark)  # noqa: SLF001 - as above


def _plan_query(spark: SparkSession, text: str) -> JavaObject | None:
    """How Spark would run a query, without running it; None for a statement that is no query."""
    jvm, state = spark.sparkContext._jvm, spark._jsparkSession.sessionState()  # noqa: SLF001 - there is no public way
    assert jvm is not None  # noqa: S101 - there is a session
    skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    execution = state.executePlan(state.sqlParser().parsePlan(text), skip)
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - as above
    return None if is_instance_of(gateway, execution.analyzed(), _COMMAND) else execution


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A table in an optimised plan, the columns of it that are used, and the filters right above it."""

    name: str
    columns: list[str]
    conditions: list[JavaObject]


def _iter_leaves(
    plan: JavaObject, kept: JavaObject | None = None, conditions: Sequence[JavaObject] = ()
) -> Iterator[_Leaf]:
    """Our tables in a plan. `kept` are the columns that the nearest projection above uses; without one, all are."""
    children = list(_iter_scala(plan.children()))
    if not children:
        columns = [one for one in _iter_scala(plan.output()) if one.metadata().contains(_MARK)]
        if columns:
            used = [one.name() for one in columns if kept is None or kept.contains(one)]
            yield _Leaf(columns[0].metadata().getString(_MARK), used, list(conditions))
        return
    name = plan.getClass().getSimpleName()
    below: JavaObject | None = None
    if name in ("Project", "Aggregate"):
        below = plan.references()
    elif name == "Filter" and kept is not None:
        below = getattr(kept, "$plus$plus")(plan.references())
    for child in children:
        yield from _iter_leaves(child, below, [*conditions, plan.condition()] if name == "Filter" else ())


def _build_predicate(spark: SparkSession, leaf: _Leaf) -> str | None:
    """What every row that the plan uses of a table passes."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way
    parts = [format_condition(jvm, part) for condition in leaf.conditions for part in iter_conjuncts(condition)]
    return join_all([part for part in parts if part is not None])


def _iter_scala(sequence: JavaObject) -> Iterator[JavaObject]:
    """The items of a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _describe_columns(schema: StructType) -> ResultColumns:
    return [(one.name, one.dataType, one.nullable) for one in schema]
