"""The rows of a query on Spark as a result, in the types that the other engines give."""

import pyarrow as pa

from omnigraph.spark.read.spark_types import from_spark_array


def convert_rows(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of a DataFrame in the types of a result."""
    columns = [from_spark_array(table.column(at).combine_chunks(), each.type) for at, each in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)
