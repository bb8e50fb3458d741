"""Every rule keeps the meaning: random predicates, random rows with nulls, before and after."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.query.expr import Expr
from omnigraph.query.rules.filter_truth import reduce_filter
from omnigraph.query.rules.simplify import EXACT_RULES, simplify
from property_profiles import SOME_AND_MANY, profile
from query.evaluate import evaluate
from query.predicates import predicates, random_params, random_rows

Rule = Callable[[Expr], Expr]
PREDICATES = predicates() | predicates(("p",), ("age",)) | predicates(("p",), ("color", "name"))
"""Few properties let terms meet that a rule can bring together."""
SEEDS = st.integers(0, 2**32)


def outcomes(predicate: Expr, seed: int) -> list[bool | None]:
    params = random_params(seed)
    return [evaluate(predicate, row, params) for row in random_rows(seed, 20)]


@pytest.mark.parametrize("rule", EXACT_RULES, ids=lambda rule: rule.__name__)
@given(predicate=PREDICATES, seed=SEEDS)
@settings(max_examples=150)
def test_an_exact_rule_keeps_true_false_and_unknown(rule: Rule, predicate: Expr, seed: int) -> None:
    assert outcomes(rule(predicate), seed) == outcomes(predicate, seed)


@given(predicate=PREDICATES, seed=SEEDS)
@settings(max_examples=150)
def test_settling_keeps_the_rows(predicate: Expr, seed: int) -> None:
    after, before = outcomes(reduce_filter(predicate), seed), outcomes(predicate, seed)

    assert [outcome is True for outcome in after] == [outcome is True for outcome in before]


@SOME_AND_MANY
def test_all_rules_together_keep_the_rows(examples: int) -> None:
    @profile(examples)
    @given(predicate=PREDICATES, seed=SEEDS)
    def check(predicate: Expr, seed: int) -> None:
        after, before = outcomes(simplify(predicate), seed), outcomes(predicate, seed)

        assert [outcome is True for outcome in after] == [outcome is True for outcome in before]

    check()


@given(predicate=PREDICATES)
@settings(max_examples=150)
def test_simplifying_what_is_simple_changes_nothing(predicate: Expr) -> None:
    once = simplify(predicate)

    assert simplify(once) == once
