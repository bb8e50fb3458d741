"""Plan the splits of many files in tasks: the footers of Parquet and ORC, and where a large CSV can be cut."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.ops.load_inputs import InputSource
from omnigraph.spark.load.input_splits import Range, has_to_be_read, make_path_absolute, name_input, plan_ranges
from omnigraph.spark.session.error_translation import carry_errors, surface_errors
from omnigraph.spark.session.handshake import map_tasks
from omnigraph.spark.session.job_monitor import run_job

# Up to this number of files, the driver reads them itself: a footer takes milliseconds, a job some tenths of a second.
MAX_LOCAL_FILES = 32
_FILES_PER_TASK = 16
_RANGES_DDL = "input long, start long, end long, size long"
_RANGES = pa.schema([pa.field(name, pa.int64()) for name in ("input", "start", "end", "size")])


def plan_in_tasks(
    spark: SparkSession, inputs: Sequence[InputSource], *, target_bytes: int, max_local_files: int = MAX_LOCAL_FILES
) -> dict[int, list[Range]]:
    """Return the ranges of the inputs that have to be read for them, by number; none if these are few.

    Raises:
        OmnigraphError: A file can't be read, or does not have the format of its name; Spark failed.
    """
    numbers = [number for number, source in enumerate(inputs) if has_to_be_read(source, target_bytes)]
    if len(numbers) <= max_local_files:
        return {}
    sources = [(number, make_path_absolute(inputs[number])) for number in numbers]

    def plan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    number, source = sources[index]
                    with name_input(source.name):
                        rows = [(number, *range_) for range_ in plan_ranges(source, target_bytes)]
                    yield pa.RecordBatch.from_arrays(
                        [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], schema=_RANGES
                    )

    count = len(sources)
    with surface_errors():
        frame = map_tasks(spark.range(0, count, 1, -(-count // _FILES_PER_TASK)), plan, _RANGES_DDL)
    table = run_job(spark, frame.toArrow, description="omnigraph load: plan")
    planned: dict[int, list[Range]] = {number: [] for number in numbers}
    for row in table.sort_by([("input", "ascending"), ("start", "ascending")]).to_pylist():
        planned[row["input"]].append((row["start"], row["end"], row["size"]))
    return planned
