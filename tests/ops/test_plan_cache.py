"""The same question of the same state is planned once, and no other one gets its plan."""

from pathlib import Path

import pytest

import omnigraph as og
from mutating import new_graph, people, run
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.physical_plan import PhysicalPlan
from omnigraph.engine.planning.planner import plan_read
from omnigraph.ops import plan_cache
from omnigraph.query.logical_plan import ReadQuery

BY_KEY = "query q($n: String, $most: I64) { match { $p: Person { name: $n } } return { $p.name } limit $most }"
BY_AGE = "query q($a: I32?) { match { $p: Person  $p.age > $a } return { $p.name } }"
IN_BLOCK = (
    "query q($n: String) { match { $p: Person  not { $p knows $q  $q: Person { name: $n } } } return { $p.age } }"
)
TIMED = 'query q() { match { $p: Person  now() > datetime("2020-01-01T00:00:00Z") } return { $p.name } }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path)
    run(made, 'insert Person { name: "ada", age: 36 } insert Person { name: "bob", age: 20 }')
    return made


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the queries that were planned, in turn."""
    made: list[str] = []

    def noted(query: ReadQuery, reading: ExecutionContext) -> PhysicalPlan:
        made.append(query.name)
        return plan_read(query, reading)

    monkeypatch.setattr(plan_cache, "plan_read", noted)
    return made


def test_a_query_by_key_is_planned_once_for_all_keys(graph: og.Graph, planned: list[str]) -> None:
    found = [graph.query(BY_KEY, params={"n": name, "most": most}).row_count for name, most in (("ada", 5), ("x", 6))]

    assert found == [1, 0]
    assert planned == ["q"]


def test_a_key_in_a_block_is_a_key_too(graph: og.Graph, planned: list[str]) -> None:
    found = [graph.query(IN_BLOCK, params={"n": name}).row_count for name in ("ada", "bob")]

    assert found == [2, 2]
    assert planned == ["q"]


def test_a_value_that_rows_are_compared_with_may_change_the_plan(graph: og.Graph, planned: list[str]) -> None:
    found = [graph.query(BY_AGE, params={"a": age}).row_count for age in (30, 10, 30, None)]

    assert found == [1, 2, 1, 0]
    assert planned == ["q"] * 3


def test_a_new_state_is_planned_anew(graph: og.Graph, planned: list[str]) -> None:
    asked = {"n": "cyd", "most": 5}
    before = graph.query(BY_KEY, params=asked).row_count
    people(graph, "cyd")

    after = graph.query(BY_KEY, params=asked).row_count

    assert (before, after) == (0, 1)
    assert planned == ["q"] * 2


def test_a_pattern_that_reads_the_clock_is_planned_each_time(graph: og.Graph, planned: list[str]) -> None:
    found = [graph.query(TIMED).row_count for _ in range(2)]

    assert found == [2, 2]
    assert planned == ["q"] * 2


def test_only_the_last_plans_are_kept(graph: og.Graph, planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MAX_PLANS_PER_QUERY", 1)

    for age in (1, 2, 1):
        graph.query(BY_AGE, params={"a": age})

    assert planned == ["q"] * 3


def test_a_plan_does_not_keep_large_values_alive(graph: og.Graph, planned: list[str]) -> None:
    among = "query q($n: [String]) { match { $p: Person  $p.name in $n } return { $p.name } }"
    few, many, long = ["ada"], ["ada"] * (plan_cache.MAX_PARAM_SIZE + 1), ["ada", "x" * plan_cache.MAX_PARAM_SIZE]

    found = [graph.query(among, params={"n": names}).row_count for names in (few, few, many, many, long, long)]

    assert found == [1] * 6
    assert planned == ["q"] * 5


def test_a_key_in_a_later_stage_is_a_key_too(graph: og.Graph, planned: list[str]) -> None:
    query = (
        "query q($n: String) { match { $p: Person } with { count(*) as all }"
        " match { $p: Person { name: $n } } return { $p.name, $all } }"
    )

    found = [graph.query(query, params={"n": name}).row_count for name in ("ada", "x")]

    assert found == [1, 0]
    assert planned == ["q"]


def test_a_value_in_an_earlier_stage_is_planned_for(graph: og.Graph, planned: list[str]) -> None:
    query = (
        "query q($a: I32) { match { $p: Person $p.age > $a } with { $p }"
        " match { $p knows $q } return { $p.name, $q.name } }"
    )

    for age in (1, 30):
        graph.query(query, params={"a": age})

    assert planned == ["q", "q"]
