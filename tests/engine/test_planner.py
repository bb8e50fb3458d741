"""What the planner decides: where to start, which hop is next, what is listed and what only counted."""

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from omnigraph.engine.physical_plan import (
    Check,
    Close,
    Compact,
    EdgeAccessMode,
    Expand,
    Filter,
    Join,
    Node,
    Nothing,
    PhysicalPlan,
    Product,
    Scan,
    SemiJoin,
    Step,
    SubtreeDirection,
)
from omnigraph.engine.planning import cost_model, planner
from omnigraph.engine.tables import column_statistics
from omnigraph.options import Traversal
from read_seeding import index_all
from reference_reader import PlainGraph
from solving import Solver, random_records, seeded

KEY = '{ name: "u1" }'


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    return seeded(tmp_path_factory.mktemp("graph") / "g.omni", random_records(3, 40, 200))


def planned(solver: Solver, pattern: str, output: str = "$a.name", **how: Any) -> PhysicalPlan:
    return solver.plan(f"query q() {{ match {{ {pattern} }} return {{ {output} }} }}", **how)


def kinds(plan: PhysicalPlan) -> list[type[Step]]:
    return [type(step) for step in plan.steps]


def scanned(step: Step) -> Node:
    assert isinstance(step, Scan)
    return step.node


def expanded(step: Step) -> tuple[str, str]:
    assert isinstance(step, Expand)
    return step.source, step.node.variable


# --- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [f"$a: User $a knows $b $b: User {KEY}", f"$b: User {KEY} $a knows $b"])
def test_it_starts_where_the_fewest_rows_are_expected(solver: Solver, pattern: str) -> None:
    plan = planned(solver, pattern, "$a.name, $b.name")

    assert scanned(plan.steps[0]).variable == "b"
    assert expanded(plan.steps[1]) == ("b", "a")


def test_the_next_hop_is_the_one_that_leaves_the_fewest_rows(solver: Solver) -> None:
    plan = planned(solver, f"$a: User {KEY} $a knows $b $a lives $p", "$a, $b, $p")

    assert [expanded(step)[1] for step in plan.steps[1:]] == ["p", "b"]


def test_equal_costs_are_decided_by_the_order_of_appearance(solver: Solver) -> None:
    plan = planned(solver, f"$a: User {KEY} $a knows $b $a knows $c", "$a, $b, $c")

    assert [expanded(step)[1] for step in plan.steps[1:]] == ["b", "c"]


def test_the_same_query_has_the_same_plan(solver: Solver) -> None:
    pattern = "$a knows $b $b lives $p $p near $q $a likes $c not { $c knows $a } $c.age < $b.age"

    assert planned(solver, pattern) == planned(solver, pattern)


def test_a_hop_with_both_ends_bound_is_a_condition(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b $b knows $a", "$a, $b")

    assert kinds(plan) == [Scan, Expand, Close]


def test_a_predicate_is_asked_as_soon_as_its_variables_are_bound(solver: Solver) -> None:
    plan = planned(solver, f"$a: User {KEY} $a knows $b $b knows $c $a.age < $b.age", "$a, $b, $c")

    assert kinds(plan) == [Scan, Expand, Filter, Expand]


def test_a_block_is_asked_as_soon_as_its_variables_are_bound(solver: Solver) -> None:
    plan = planned(solver, f"$a: User {KEY} $a knows $b $b knows $c not {{ $a likes $b }}", "$a, $b, $c")

    assert kinds(plan) == [Scan, Expand, SemiJoin, Expand]


def test_a_variable_of_one_row_is_bound_before_many_neighbours_are_listed(solver: Solver) -> None:
    plan = planned(solver, f'$a: User {KEY} $a knows $b $b knows $c $c: User {{ name: "u2" }}', "$a, $b, $c")

    assert kinds(plan) == [Scan, Expand, Product, Close]


def test_columns_that_nobody_needs_any_more_are_not_carried_on(solver: Solver) -> None:
    plan = planned(solver, f"$a: User {KEY} $a knows $b $b knows $c", "$c.name")

    assert [step.keep for step in plan.steps if isinstance(step, Expand)] == [("b",), ("c",)]


def test_an_edge_that_nobody_reads_is_not_carried_on(solver: Solver) -> None:
    plan = planned(solver, "$a $e:knows $b $e.since > 1", "$a.name, $b.name")

    (step,) = (step for step in plan.steps if isinstance(step, Expand))
    assert step.link.edge_variable is None
    assert step.link.each_edge


# --- what is only counted ------------------------------------------------------------------------------


def test_what_is_only_counted_is_summed_up_in_the_middle_of_a_path(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b $b knows $c", "count(*) as n")

    assert kinds(plan) == [Scan, Compact]
    assert scanned(plan.steps[0]).variable == "b"
    assert [branch.node.variable for branch in scanned(plan.steps[0]).subtrees] == ["a", "c"]
    assert plan.has_multiplicity
    assert plan.variables == ()


def test_a_path_is_counted_from_the_end_that_has_few_rows(solver: Solver) -> None:
    plan = planned(solver, f"$a: User {KEY} $a knows $b $b knows $c", "count(*) as n")

    assert scanned(plan.steps[0]).variable == "a"


def test_groups_of_one_variable_list_that_variable_only(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b $b lives $p", "$b.city, count(*) as n")

    assert kinds(plan) == [Scan]
    assert plan.variables == ("b",)


def test_groups_of_several_variables_list_what_connects_them_and_no_more(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b $b knows $c $c lives $p $z likes $a", "$a.city, $c.city, count(*) as n")

    listed = {scanned(plan.steps[0]).variable, *(expanded(s)[1] for s in plan.steps if isinstance(s, Expand))}
    assert listed == {"a", "b", "c"}


def test_a_branch_of_few_rows_says_where_it_leads(solver: Solver) -> None:
    plan = planned(solver, f"$a knows $b $b: User {KEY}", "$a.city, count(*) as n")

    (branch,) = scanned(plan.steps[0]).subtrees
    assert branch.direction is SubtreeDirection.FROM_LEAF


def test_a_branch_without_filters_is_looked_at_from_the_near_end(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b", "$a.city, count(*) as n")

    (branch,) = scanned(plan.steps[0]).subtrees
    assert branch.direction is SubtreeDirection.FROM_ROOT


def test_distinct_and_largest_values_do_not_count(solver: Solver) -> None:
    assert not solver.plan("query q() { match { $a knows $b } return distinct { $a.city } }").has_multiplicity
    assert not planned(solver, "$a knows $b", "max($a.age) as age, count(distinct $a.city) as n").has_multiplicity
    assert planned(solver, "$a knows $b", "max($a.age) as age, sum($a.age) as n").has_multiplicity


def test_every_match_is_a_row_when_nothing_is_grouped(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b $b lives $p", "$a.name")

    assert [type(step) for step in plan.steps if isinstance(step, Scan | Expand)] == [Scan, Expand, Expand]
    assert not any(step.node.subtrees for step in plan.steps if isinstance(step, Scan | Expand))


def test_what_a_block_needs_of_one_variable_hangs_on_it(solver: Solver) -> None:
    plan = planned(solver, "$a: User not { $a knows $b $b.age > 1 }", "count(*) as n")

    (block,) = scanned(plan.steps[0]).blocks
    assert [type(step) for step in block.steps] == [Check, Compact]


# --- parts that no hop connects ----------------------------------------------------------------------------


def test_equal_values_are_joined_and_not_paired(solver: Solver) -> None:
    plan = planned(solver, "$a: User $p: Place $a.age = $p.size", "$a.name, $p.name")

    assert kinds(plan) == [Scan, Join]


def test_a_product_of_large_sides_is_warned_about(solver: Solver) -> None:
    pattern = "$a: User $p: Place"

    with patch.object(planner, "MIN_WARNED_ROWS", 5.0):
        large = planned(solver, pattern, "$a.name, $p.name")
    small = planned(solver, pattern, "$a.name, $p.name")

    assert large.warnings == ("nothing connects the two sides of step 2: about 13 rows are paired with 40",)
    assert not small.warnings


def test_parts_that_only_count_are_multiplied(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b $p near $q", "count(*) as n")

    assert kinds(plan) == [Scan, Compact, Product]
    (product,) = (step for step in plan.steps if isinstance(step, Product))
    assert [type(step) for step in product.steps] == [Scan, Compact]


def test_a_part_that_only_counts_does_not_multiply_the_rows_of_another(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b $p near $q", "$a.name, count(*) as n")

    assert plan.rows <= 40


def test_a_chain_of_hops_as_long_as_a_text_allows_can_be_planned_and_run(solver: Solver) -> None:
    names = [f"$v{number}" for number in range(250)]
    hops = " ".join(f"{a} lives $p{number} {b} lives $p{number}" for number, (a, b) in enumerate(pairwise(names)))
    text = f'query q() {{ match {{ $v0: User {{ name: "u1" }} {hops} }} return distinct {{ $v0.name }} }}'

    assert len(solver.solved(text)) <= 1


def test_a_pattern_that_can_not_match_reads_nothing(solver: Solver) -> None:
    plan = planned(solver, "$a knows $b $a.age > 3 $a.age < 1", "$a.name")

    assert kinds(plan) == [Nothing]


def test_an_estimate_follows_the_values_that_the_column_has(tmp_path: Path) -> None:
    cities = ["common"] * 30 + ["rare"] * 2 + [None] * 8
    users = [{"@id": f"u{n}", "name": f"u{n}", "city": city, "age": n} for n, city in enumerate(cities)]
    solver = seeded(tmp_path / "g.omni", PlainGraph({"User": users}, {}))

    def expected(predicate: str) -> float:
        return planned(solver, f"$a: User $a.{predicate}").rows

    assert expected('city = "common"') == pytest.approx(30)
    assert expected('city = "rare"') == pytest.approx(2)
    assert expected("city is null") == pytest.approx(8)
    assert expected("age < 10") == pytest.approx(10)
    assert expected("age >= 39") == pytest.approx(1)
    assert expected('city in ["rare", "common"]') == pytest.approx(32)


def test_values_of_a_large_table_are_estimated_by_a_sample(tmp_path: Path) -> None:
    users = [{"@id": f"u{n}", "name": f"u{n}", "city": f"c{n % 500}", "age": n % 4} for n in range(2_000)]
    solver = seeded(tmp_path / "g.omni", PlainGraph({"User": users}, {}))

    with patch.object(column_statistics, "SAMPLE_ROWS", 250):
        few = planned(solver, "$a: User $a.age = 3").rows
        unknown = planned(solver, '$a: User $a.city = "c499"').rows

    assert few == pytest.approx(500, rel=0.3)
    assert 0.5 < unknown < 20


def test_what_is_in_memory_does_not_change_a_plan(tmp_path: Path) -> None:
    solver = seeded(tmp_path / "g.omni", random_records(5, 60, 400))
    text = 'query q() { match { $a knows $b $b knows $c $a.age > 1 $c.city = "x" $c lives $p } return { $a, $b, $p } }'
    with patch.object(cost_model, "MAX_SMALL_EDGES", 10):
        before = solver.plan(text)
        solver.solved(text)
        for name in ("age", "city"):
            solver.reading().get_reader("User").load_codes(name)
        after = solver.plan(text)

    assert after == before


# --- how edges are found -------------------------------------------------------------------------------------


def links(plan: PhysicalPlan) -> list[EdgeAccessMode]:
    return [step.link.access for step in plan.steps if isinstance(step, Expand)]


def test_the_settings_decide_how_edges_are_found(solver: Solver) -> None:
    pattern = f"$a: User {KEY} $a knows $b"

    assert links(planned(solver, pattern, "$b.name", traversal=Traversal.CSR)) == [EdgeAccessMode.CSR]
    assert links(planned(solver, pattern, "$b.name", traversal=Traversal.INDEXED)) == [EdgeAccessMode.INDEXED]


def test_a_few_sources_of_a_large_indexed_type_are_looked_up(tmp_path: Path) -> None:
    solver = seeded(tmp_path / "g.omni", random_records(3, 200, 1_000))
    index_all(solver.session)
    pattern = f"$a: User {KEY} $a knows $b"

    with patch.object(cost_model, "MAX_SMALL_EDGES", 10):
        few = planned(solver, pattern, "$b.name")
        many = planned(solver, "$a knows $b", "$b.name")

    assert links(few) == [EdgeAccessMode.INDEXED]
    assert links(many) == [EdgeAccessMode.CSR]


def test_planning_a_query_without_predicates_on_values_reads_no_data(solver: Solver) -> None:
    pattern = "$a knows $b $b lives $p $p near $q $a likes $c not { $c knows $a } $c.age < $b.age"
    planned(solver, pattern)

    with solver.session.runtime.telemetry.count_requests() as requests:
        planned(solver, pattern)

    assert requests.count(target="table") == 0
