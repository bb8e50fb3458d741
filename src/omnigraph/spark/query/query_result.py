"""The rows of a query on Spark as a result, in the types that the other engines give."""

import pyarrow as pa

from omnigraph.engine.result import Result
from omnigraph.engine.result_forms import Target
from omnigraph.spark.query.run_query import SparkRows
from omnigraph.spark.read.spark_types import from_spark_array
from omnigraph.spark.session.job_monitor import run_job


def fetch_result(rows: SparkRows, *, commit_id: str, target: Target) -> Result:
    """Run a query on Spark, and return its whole result.

    Raises:
        QueryError: A calculation or an aggregate exceeds its type.
        SparkFailedError: Spark failed.
    """
    try:
        table = run_job(rows.frame.sparkSession, rows.frame.toArrow, description=f"omnigraph query {rows.query_name}")
    finally:
        rows.release()
    table = _convert(table, rows.schema)
    return Result.of_table(table, commit_id=commit_id, target=target, query_name=rows.query_name, notes=rows.notes)


def _convert(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [from_spark_array(table.column(at).combine_chunks(), each.type) for at, each in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)
