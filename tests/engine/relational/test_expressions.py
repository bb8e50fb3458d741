"""Expressions as SQL: DuckDB gives each of them the value that our own evaluator gives it."""

from contextlib import closing
from random import Random, SystemRandom
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from expression_columns import (
    EDGES,
    INPUTS,
    ORDER,
    Sample,
    bind_sample,
    evaluate_here,
    exact,
    new_catalog,
    new_rows,
    new_sample,
    print_sample,
)
from expression_texts import ExpressionWriter
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.duckdb_functions import FunctionErrors, register_functions
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.sql_syntax import DUCKDB
from omnigraph.errors import QueryError
from omnigraph.schema.catalog import Catalog


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return new_catalog()


def evaluate_in_duckdb(sample: Sample, rows: pa.Table) -> Any:
    printer = ExpressionPrinter(DUCKDB, INPUTS)
    text = print_sample(printer, sample)
    errors = FunctionErrors()
    statement = f'select {text} as x from rows order by "{ORDER}"'  # noqa: S608 - what is tested
    with closing(duckdb.connect()) as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.register("rows", rows.append_column(ORDER, pa.array(range(rows.num_rows))))
        register_functions(connection, printer.functions, errors)
        try:
            answer = connection.sql(statement).to_arrow_table()
        except duckdb.Error:
            assert isinstance(errors.first, QueryError), text
            return errors.first.code
    return answer["x"].to_pylist()


def compare(catalog: Catalog, random: Random, count: int) -> None:
    rows = new_rows(random, catalog, 40)
    writer = ExpressionWriter(random)
    for _ in range(count):
        sample = new_sample(writer, catalog)
        assert exact(evaluate_in_duckdb(sample, rows)) == exact(evaluate_here(sample, rows)), sample.text


@pytest.mark.parametrize("seed", range(2))
def test_duckdb_gives_an_expression_the_value_that_we_give_it(catalog: Catalog, seed: int) -> None:
    compare(catalog, Random(seed), 100)


@pytest.mark.soak
def test_duckdb_gives_many_expressions_the_value_that_we_give_them(catalog: Catalog) -> None:
    for _ in range(40):
        compare(catalog, SystemRandom(), 500)


@pytest.mark.parametrize("is_condition", [True, False])
def test_duckdb_gives_edges_the_value_that_we_give_them(catalog: Catalog, is_condition: bool) -> None:
    rows = new_rows(Random(7), catalog, 200)

    for text in EDGES:
        sample = bind_sample(text, catalog, is_condition=is_condition)
        assert exact(evaluate_in_duckdb(sample, rows)) == exact(evaluate_here(sample, rows)), text


def test_comparisons_and_logic_call_no_function_of_ours(catalog: Catalog) -> None:
    printer = ExpressionPrinter(DUCKDB, INPUTS)
    sample = bind_sample('$p.i > 3 and ($p.s = "a" or not $p.b) and $p.j in [1, 2]', catalog, is_condition=True)

    text = print_sample(printer, sample)

    assert not printer.functions
    assert text.startswith("((\"i\" > CAST('3' AS BIGINT)) AND ")


def test_equal_parts_are_one_function(catalog: Catalog) -> None:
    printer = ExpressionPrinter(DUCKDB, INPUTS)
    sample = bind_sample("upper($p.s) = upper($p.t) or upper($p.s) is null", catalog, is_condition=True)

    print_sample(printer, sample)

    assert len(printer.functions) == 1


def test_a_value_without_a_column_is_named(catalog: Catalog) -> None:
    printer = ExpressionPrinter(DUCKDB, INPUTS)
    sample = bind_sample("upper($p.s)", catalog, is_condition=False)

    with pytest.raises(UnsupportedForm, match=r"`\$p` in this place"):
        printer.print_value(sample.expr, lambda _: None)


def test_an_overflow_of_literals_is_an_error_only_where_there_is_a_row(catalog: Catalog) -> None:
    sample = bind_sample("9223372036854775807 + 1", catalog, is_condition=False)
    rows = new_rows(Random(7), catalog, 3)

    assert evaluate_in_duckdb(sample, rows.slice(0, 0)) == []
    assert evaluate_in_duckdb(sample, rows) == "calculation_overflow"
