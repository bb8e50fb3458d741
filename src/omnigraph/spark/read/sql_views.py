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
from omnigraph.spark.read.filter_pushdown import Java, all_of, any_of, conjuncts, predicate
from omnigraph.spark.read.spark_types import spark_schema
from omnigraph.spark.read.table_scan import is_filter
from omnigraph.telemetry import log

Shape: TypeAlias = list[tuple[str, DataType, bool]]
"""Names, types and nullability of an answer's columns."""

_MARK = "omnigraph.type"
"""In the metadata of an empty table's column: the type that it is of."""
_WORD = re.compile(r"\w+")
_STAR = re.compile(r"\*|\|>|\btable\b", re.IGNORECASE)
_COUNT = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_BY_POSITION = re.compile(r"\b(union|intersect|except|minus)\b", re.IGNORECASE)
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_views = threading.RLock()
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
class Use:
    """What a statement uses of a type: these columns, of rows that this predicate lets pass; None is all."""

    columns: list[str] | None = None
    where: str | None = None


_EVERYTHING = Use()

Frame: TypeAlias = Callable[[AnyType, Use], DataFrame]
"""The rows of a type, as far as they are used."""


def run_sql(spark: SparkSession, text: str, catalog: Catalog, frame: Frame) -> DataFrame:
    """The answer of a statement; views of the types that it names are there while it is analysed, and gone then.

    Raises:
        ViewNameError: It names a type that has a twin.
    """
    types = _named(text, catalog)
    with _views:
        planned = planned_uses(spark, text, types)
        if planned is not None:
            uses, expected = planned
            try:
                with _viewed(spark, {name: frame(type_, uses[name]) for name, type_ in types.items()}):
                    found = spark.sql(text)
                if _shape(found.schema) == expected:
                    return found
            except AnalysisException as error:
                log.debug("a statement is not understood with only the columns it uses: %s", error)
        with _viewed(spark, {name: frame(type_, _EVERYTHING) for name, type_ in types.items()}):
            return spark.sql(text)


def _named(text: str, catalog: Catalog) -> dict[str, AnyType]:
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
def _viewed(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
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


def planned_uses(spark: SparkSession, text: str, types: Mapping[str, AnyType]) -> tuple[dict[str, Use], Shape] | None:
    """What a statement uses of each type, and the columns of its answer; None when that can't be told.

    Where rows are matched by the position of columns that a star stands for, none may be left out.
    """
    if _BY_POSITION.search(text) and _STAR.search(_COUNT.sub("", text)):
        return None
    schemas = {name: spark_schema(type_) for name, type_ in types.items()}
    with _viewed(spark, {name: _empty(spark, name, schema) for name, schema in schemas.items()}):
        execution = _planned(spark, text)
        if execution is None:
            return None
        optimized, answer = execution.optimizedPlan(), execution.analyzed().schema().json()
    leaves = [leaf for plan in (optimized, *_each(optimized.subqueriesAll())) for leaf in _leaves(plan)]
    uses: dict[str, Use] = {}
    for name, type_ in types.items():
        mine = [leaf for leaf in leaves if leaf.name == name]
        used = {column for leaf in mine for column in leaf.columns}
        where = any_of([_predicate(spark, leaf) for leaf in mine])
        columns = [one for one in schemas[name].names if one in used] or [ID]
        uses[name] = Use(columns, where if where is None or is_filter(where, type_) else None)
    return uses, _shape(StructType.fromJson(json.loads(answer)))


def _empty(spark: SparkSession, name: str, schema: StructType) -> DataFrame:
    """A table without rows, whose columns say where they are from; not one that Spark knows to be empty."""
    fields = [StructField(one.name, one.dataType, one.nullable, {_MARK: name}) for one in schema]
    context, java = spark.sparkContext, spark._jsparkSession  # noqa: SLF001 - PySpark's own way runs Python for no rows
    columns = java.parseDataType(StructType(fields).json())
    return DataFrame(java.createDataFrame(context._jsc.emptyRDD(), columns), spark)  # noqa: SLF001 - as above


def _planned(spark: SparkSession, text: str) -> Java | None:
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
    conditions: list[Java]


def _leaves(plan: Java, kept: Java | None = None, conditions: Sequence[Java] = ()) -> Iterator[_Leaf]:
    """Our tables in a plan. `kept` are the columns that the nearest projection above uses; without one, all are."""
    children = list(_each(plan.children()))
    if not children:
        columns = [one for one in _each(plan.output()) if one.metadata().contains(_MARK)]
        if columns:
            used = [one.name() for one in columns if kept is None or kept.contains(one)]
            yield _Leaf(columns[0].metadata().getString(_MARK), used, list(conditions))
        return
    name = plan.getClass().getSimpleName()
    below: Java | None = None
    if name in ("Project", "Aggregate"):
        below = plan.references()
    elif name == "Filter" and kept is not None:
        below = getattr(kept, "$plus$plus")(plan.references())
    for child in children:
        yield from _leaves(child, below, [*conditions, plan.condition()] if name == "Filter" else ())


def _predicate(spark: SparkSession, leaf: _Leaf) -> str | None:
    """What every row that the plan uses of a table passes."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way
    parts = [predicate(jvm, part) for condition in leaf.conditions for part in conjuncts(condition)]
    return all_of([part for part in parts if part is not None])


def _each(sequence: Java) -> Iterator[Java]:
    """The items of a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _shape(schema: StructType) -> Shape:
    return [(one.name, one.dataType, one.nullable) for one in schema]
