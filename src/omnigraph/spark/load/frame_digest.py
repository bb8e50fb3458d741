"""Digest the rows of DataFrames, for loads with an idempotency key.

A DataFrame has no bytes, and its rows come in another order each time. So executors hash each row, and the number, the
sum and the parity of these hashes are compared: equal for the same rows in any order. This takes one more pass over the
rows, which only a load with a key pays for.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.ops.load_inputs import LoadInput
from omnigraph.spark.session.error_translation import surface_errors


def digest_frames(input_: LoadInput) -> dict[int, str]:
    """Return a digest of each DataFrame among the typed sources of a load, by the source's number."""
    return {
        number: _digest(source.data) for number, source in enumerate(input_.typed) if isinstance(source.data, DataFrame)
    }


def _digest(frame: DataFrame) -> str:
    with surface_errors():
        columns = [f.col(f"`{name.replace('`', '``')}`") for name in frame.columns]
        # xxhash64 skips nulls, so which columns are null has to be hashed too.
        hashed = frame.select(f.xxhash64(*columns, *(column.isNull() for column in columns)).alias("hash"))
        # A decimal, because a sum of 64-bit hashes overflows a long.
        total = f.sum(f.col("hash").cast("decimal(38,0)"))
        digest = hashed.agg(f.count("*"), total, f.bit_xor("hash")).first()
        return f"{frame.schema.simpleString()} {list(digest or ())}"
