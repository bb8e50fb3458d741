"""A digest of the rows of DataFrames, for loads with an idempotency key.

A DataFrame has no bytes, and its rows come in another order each time. So executors hash each row, and the number, the
sum and the parity of these hashes are compared: the same for the same rows, in whatever order. It is one more pass over
the rows, which only a load with a key pays for.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.ops.load_inputs import LoadInput
from omnigraph.spark.session.error_translation import surface_errors


def digest_frames(given: LoadInput) -> dict[int, str]:
    """Digest the DataFrames among the typed sources of a load, by their number there."""
    return {number: _digest(one.data) for number, one in enumerate(given.typed) if isinstance(one.data, DataFrame)}


def _digest(frame: DataFrame) -> str:
    with surface_errors():
        columns = [f.col(f"`{name.replace('`', '``')}`") for name in frame.columns]
        # A hash passes over nulls: where they are has to be hashed too.
        hashed = frame.select(f.xxhash64(*columns, *(column.isNull() for column in columns)).alias("hash"))
        total = f.sum(f.col("hash").cast("decimal(38,0)"))
        found = hashed.agg(f.count("*"), total, f.bit_xor("hash")).first()
        return f"{frame.schema.simpleString()} {list(found or ())}"
