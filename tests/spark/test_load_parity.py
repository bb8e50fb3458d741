"""A load on Spark does what a load in one process does: the same commits, contents, counts, messages and leftovers."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from corpus_format import Case, read_cases
from corpus_runner import failure_of
from corpus_writing import LoadOrder, is_load_case
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, load
from omnigraph.spark.load.load_engine import SparkLoadOptions, build_reader
from spark_loading import exported, spark_loaded

CASES = [
    (f"{path.stem}: {case.title}", case)
    for path in sorted((Path(__file__).parents[1] / "corpus" / "writing").glob("*.case"))
    for case in read_cases(path)
    if is_load_case(case)
]
SMALL = SparkLoadOptions(split_bytes=300, max_local_read_bytes=0)
"""Splits of few lines, so that even a small input has several."""


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_a_case_of_the_corpus_holds_on_spark(case: Case, spark: SparkSession) -> None:
    def engine(graph: og.Graph, order: LoadOrder) -> og.LoadResult:
        call = LoadCall(
            input=LoadInput(graph=(GraphSource(data=order.data),)),
            mode=LoadMode(order.mode),
            actor="anonymous",
            on_error=order.bad_records,
            is_dry_run=order.is_dry_run,
        )
        return load(graph._session, call, build_reader(spark=spark, loading=SMALL))

    failure = failure_of(case, engine)

    if failure is not None:
        pytest.fail(f"{case.path}:{case.line}: {case.title}\n\n{failure}", pytrace=False)


EXPORT = Path(__file__).parents[2] / "examples" / "older-export"


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_an_export_of_the_older_system_holds_on_spark(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    here, there = (
        og.create_graph(str(tmp_path / name), schema=(EXPORT / "schema.pg").read_text()) for name in ("here", "there")
    )

    here.load(EXPORT / "export.jsonl", mode=mode)
    spark_loaded(spark, there, mode, EXPORT / "export.jsonl", SMALL)

    assert exported(there) == exported(here)
    assert there.commits()[0].message == here.commits()[0].message == EXPORT_MESSAGE


EXPORT_MESSAGE = "an export of branch main at commit 01JZ3VQ5E9X4N7T2B8W6K0M1RC"
