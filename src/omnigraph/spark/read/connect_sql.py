"""Run SQL over one snapshot through Spark Connect, whose client can't look into plans.

The server registers the types as views while it analyses a statement. Which columns are read follows from the words of
the text: a statement that has no star uses no column that it does not name.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.read.spark_types import to_spark_schema
from omnigraph.spark.spark_errors import SparkUsageError
from omnigraph.telemetry import log

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

_WORD = re.compile(r"\w+")
_COUNT = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
# What may use columns that the text does not name.
_UNNAMED = re.compile(r"\*|\|>|\b(table|natural|identifier)\b", re.IGNORECASE)


def run_connect_sql(
    spark: SparkSession,
    text: str,
    types: Mapping[str, AnyType],
    read: Callable[[AnyType, list[str] | None], DataFrame],
) -> DataFrame:
    """Return the result of a statement, in which the keys of `types` are tables.

    Raises:
        SparkUsageError: A temporary view of the session has the name of one of them; the server would drop it.
    """
    # Only here, since it needs grpcio. `spark.sql` takes views too, but as `{name}` in the text.
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame  # noqa: PLC0415
    from pyspark.sql.connect.plan import SQL, CachedRelation, SubqueryAlias  # noqa: PLC0415

    for name in types:
        if spark.catalog.tableExists(name) and spark.catalog.getTable(name).isTemporary:
            raise SparkUsageError.view_taken(name)

    def run(columns: Callable[[AnyType], list[str] | None]) -> DataFrame:
        frames = {name: read(type_, columns(type_)) for name, type_ in types.items()}
        views = [SubqueryAlias(cast("ConnectFrame", frame)._plan, name) for name, frame in frames.items()]  # noqa: SLF001 - no public way
        plan = SQL(text, [], {}, views)
        # A command runs now; of a query the server only says that it is one.
        _, properties, _ = spark.client.execute_command(plan.command(spark.client))
        done = properties.get("sql_command_result")
        result = ConnectFrame(plan if done is None else CachedRelation(done), cast("ConnectSession", spark))
        result.schema  # noqa: B018 - analyses it, so that a wrong statement fails here
        return result

    try:
        return run(lambda type_: find_named_columns(text, type_))
    except AnalysisException as error:
        # Over all columns the error is the better one, and a statement that we misread runs.
        log.debug("a statement is invalid over only the columns it names: %s", error)
        return run(lambda _: None)


def find_named_columns(text: str, type_: AnyType) -> list[str] | None:
    """Return the columns of a type that a statement may use, or None for all."""
    if _UNNAMED.search(_COUNT.sub("", text)):
        return None
    words = {word.lower() for word in _WORD.findall(text)}
    # `count(*)` uses no column, but its rows are read nevertheless.
    return [name for name in to_spark_schema(type_).names if name.lower() in words] or [ID]
