"""Fetch the rows of a DataFrame into this process, in memory that does not grow with them.

Tasks store their rows on the disks of executors, all at the same time. This process fetches few of them at once; many
rows go to a file, of which the table that is returned is a view.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.spark.read.spark_types import to_spark_arrow_schema
from omnigraph.spark.session.error_translation import carry_errors, surface_errors
from omnigraph.spark.session.handshake import map_tasks
from omnigraph.spark.session.job_monitor import run_job

# Up to this number of bytes, rows are fetched at once and kept in memory: more would come close to the default of
# spark.driver.maxResultSize on a small machine, and a job per partition costs more than it saves.
MAX_FETCHED_BYTES = 64 * 1024 * 1024
_PAYLOADS_DDL = "payload binary"
_PAYLOADS = pa.schema([pa.field("payload", pa.binary())])


def fetch_table(
    spark: SparkSession, frame: DataFrame, *, description: str, max_bytes: int = MAX_FETCHED_BYTES
) -> pa.Table:
    """Run a DataFrame, and return its rows, in its order.

    Raises:
        OmnigraphError: Spark or a task failed; failures are translated.
    """
    with surface_errors():
        schema = to_spark_arrow_schema(frame.schema)
        payloads = map_tasks(frame, _encode_batches, _PAYLOADS_DDL).persist(StorageLevel.DISK_ONLY)
    try:
        return run_job(spark, lambda: _fetch(payloads, schema, max_bytes), description=description)
    finally:
        with surface_errors():
            payloads.unpersist()


def _encode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with carry_errors():
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()])], schema=_PAYLOADS)


def _fetch(payloads: DataFrame, schema: pa.Schema, max_bytes: int) -> pa.Table:
    size = payloads.agg(f.sum(f.octet_length("payload"))).first()
    if size is None or (size[0] or 0) <= max_bytes:
        return pa.Table.from_batches(list(_decode_batches(payloads.collect(), schema)), schema)
    scratch = TempDirectory("omnigraph-result-")
    try:
        path = str(scratch.directory / "rows.arrow")
        with pa.ipc.new_file(path, schema) as writer:
            # One partition at a time is in the memory of the JVM.
            for batch in _decode_batches(payloads.toLocalIterator(), schema):
                writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    finally:
        # The system frees the disk when the table is gone.
        scratch.close()


def _decode_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for row in rows:
        with pa.ipc.open_stream(bytes(row["payload"])) as reader:
            for batch in reader:
                # Fields may differ in what can be null.
                yield batch if batch.schema == schema else batch.cast(schema)
