"""Expressions as SQL: Spark gives each of them the value that our own evaluator gives it."""

from collections.abc import Sequence
from random import Random, SystemRandom

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from expression_columns import (
    EDGES,
    INPUTS,
    ORDER,
    bind_sample,
    evaluate_here,
    exact,
    new_catalog,
    new_rows,
    new_sample,
    print_sample,
)
from expression_texts import ExpressionWriter
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.spark.query.functions import create_functions
from omnigraph.spark.read.spark_types import to_spark_arrow_schema, to_spark_batch, to_spark_schema


def compare(spark: SparkSession, random: Random, texts: Sequence[str] = (), count: int = 0) -> None:
    """Compare the values of expressions, all of them columns of one statement."""
    catalog = new_catalog()
    type_ = catalog.nodes["T"]
    rows = new_rows(random, catalog, 40)
    schema = to_spark_schema(type_)
    (batch,) = rows.combine_chunks().to_batches()
    given = pa.Table.from_batches([to_spark_batch(batch, to_spark_arrow_schema(schema))])
    frame = spark.createDataFrame(given.append_column(ORDER, pa.array(range(rows.num_rows))))
    frame.createOrReplaceTempView("expression_rows")
    writer = ExpressionWriter(random)
    printer = ExpressionPrinter(SPARK, INPUTS)
    samples = [bind_sample(text, catalog, is_condition=True) for text in texts]
    samples += [new_sample(writer, catalog) for _ in range(count)]
    expected = [evaluate_here(sample, rows) for sample in samples]
    # An error would be that of the whole statement; those are tested one by one.
    known = [(sample, values) for sample, values in zip(samples, expected, strict=True) if isinstance(values, list)]
    columns = [f"{print_sample(printer, sample)} as x{at}" for at, (sample, _) in enumerate(known)]
    statement = f"select {', '.join(columns)} from expression_rows order by `{ORDER}`"  # noqa: S608 - what is tested

    with create_functions(spark, printer.functions):
        answer = spark.sql(statement).toArrow()

    for at, (sample, values) in enumerate(known):
        assert exact(answer[f"x{at}"].to_pylist()) == exact(values), (sample.text, columns[at])


def test_spark_gives_an_expression_the_value_that_we_give_it(spark: SparkSession) -> None:
    compare(spark, Random(0), EDGES, 40)


@pytest.mark.soak
def test_spark_gives_many_expressions_the_value_that_we_give_them(spark: SparkSession) -> None:
    for _ in range(20):
        compare(spark, SystemRandom(), (), 80)
