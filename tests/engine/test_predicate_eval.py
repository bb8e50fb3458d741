"""Predicates over Arrow mean what they mean row by row, and what is pushed loses no row."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.predicate_eval import evaluate
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.engine.writing.row_filter import filter_rows
from omnigraph.query.expr import Expr, TextMatch
from omnigraph.query.expr_tree import walk
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import Scalar
from property_profiles import SOME_AND_MANY, profile
from query import evaluate as meaning
from query.predicates import PROPS, compare, const, predicates, random_params, random_rows

SCHEMA = pa.schema([(name, to_arrow_type(type_)) for name, (type_, _) in PROPS.items()])
PREDICATES = predicates(("p",)).filter(lambda expr: not any(isinstance(part, TextMatch) for part in walk(expr)))


def table_of(seed: int) -> tuple[list[dict[tuple[str, str], object]], pa.Table]:
    rows = random_rows(seed, 20, ("p",))
    return rows, pa.Table.from_pylist([{name: row["p", name] for name in PROPS} for row in rows], SCHEMA)


@SOME_AND_MANY
def test_a_predicate_is_true_false_or_unknown_as_row_by_row(examples: int) -> None:
    @settings(profile(examples))
    @given(PREDICATES, st.integers(0, 2**32))
    def check(predicate: Expr, seed: int) -> None:
        rows, table = table_of(seed)
        params = random_params(seed)

        found = evaluate(predicate, table, QueryInputs(params, meaning.NOW)).to_pylist()

        assert found == [meaning.evaluate(predicate, row, params) for row in rows]

    check()


@SOME_AND_MANY
def test_what_is_pushed_lets_every_row_pass_that_counts(examples: int, tmp_path: Path) -> None:
    tables = [table_of(seed)[1] for seed in range(8)]
    stored = [lance.write_dataset(table, str(tmp_path / f"{place}.lance")) for place, table in enumerate(tables)]

    @settings(profile(examples))
    @given(PREDICATES, st.integers(0, len(tables) - 1), st.integers(0, 2**32))
    def check(predicate: Expr, place: int, seed: int) -> None:
        inputs = QueryInputs(random_params(seed), meaning.NOW)
        wanted = filter_rows(tables[place], predicate, inputs)

        passing = stored[place].to_table(filter=build_table_filter(predicate, inputs))

        assert filter_rows(passing, predicate, inputs).to_pylist() == wanted.to_pylist()

    check()


@pytest.mark.parametrize(
    "type_, stored, op, other, expected",
    [
        (Scalar.I64, 2**53 + 1, "=", const(float(2**53), Scalar.F64), False),
        (Scalar.I64, 2**53 + 1, ">", const(float(2**53), Scalar.F64), True),
        (Scalar.U64, 2**64 - 1, ">", const(-1, Scalar.I64), True),
        (Scalar.U64, 2**63, "=", const(-(2**63), Scalar.I64), False),
        (Scalar.I32, 1, "<", const(2**40, Scalar.I64), True),
        (Scalar.F64, -0.0, "=", const(0.0, Scalar.F64), True),
    ],
)
def test_numbers_of_two_types_compare_exactly(
    type_: Scalar, stored: float, op: str, other: Expr, expected: bool
) -> None:
    table = pa.table({"x": pa.array([stored], to_arrow_type(type_))})
    left = const(stored, type_)

    found = evaluate(compare(left, op, other), table, QueryInputs({}, meaning.NOW)).to_pylist()

    assert found == [expected]
