"""Plans as text and as data: complete, stable, and after a run with what really happened."""

import json
import re
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest.mock import patch

import pytest

from omnigraph.engine.executor import solve
from omnigraph.engine.physical_plan import Close, Expand, PhysicalPlan
from omnigraph.engine.planning import cost_model
from omnigraph.engine.planning.explain import build_plan_json, format_plan
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_profile import QueryProfile
from read_seeding import index_all
from solving import Solver, random_records, seeded


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    return seeded(tmp_path_factory.mktemp("graph") / "g.omni", random_records(3, 40, 200))


TEXTS = {
    "a hop from a key": (
        'match { $a: User { name: "u1" } $a knows $b $b.age > 1 } return { $b.name }',
        """
        1. scan $a: User  key, ~1 row
          $a.name = "u1"
        2. expand $a -[Knows]-> $b  csr (a small edge type), ~5 each, ~2.9 rows
          $b.age > 1
        """,
    ),
    "edges and several hops": (
        "match { $a $e:knows $b $e.since > 1 $a <likes>{1,2} $c } return { $e.since, $c.name }",
        """
        1. scan $a: User  every row, ~40 rows
        2. expand $a -[$e: Knows]-> $b  csr (a small edge type), ~5 each, each edge, ~107 rows
          $e.since > 1
        3. expand $a -[Likes{1,2}]- $c  csr (a small edge type), ~30 each, ~3,210 rows
        """,
    ),
    "branches": (
        (
            "match { $a knows $b $b lives $p $p.size = 2 $c knows $a not { $a likes $x $x.age = 1 } }"
            " return { $b.city, count(*) as n }"
        ),
        """
        1. scan $b: User  where its branches lead, ~38 rows
          count $b -[Lives]-> $p  from the far end, csr (a small edge type), ~2.5 each, column ~5 of $p
            $p.size = 2
          count $b <-[Knows]- $a  from the far end, csr (a small edge type), ~5 each
            count $a <-[Knows]- $c  from the near end, csr (a small edge type), ~5 each
            2. keep $a without a match of  ~28 rows
              3. check $a: User  ~22 rows
                find $a -[Likes]-> $x  from the far end, csr (a small edge type), ~2.5 each, column ~9 of $x
                  $x.age = 1
              4. note which have a match  ~22 rows
        """,
    ),
    "cycles and blocks": (
        "match { $a knows $b $b knows $a $a.age < $b.age not { $a lives $p $b lives $p } } return distinct { $a.name }",
        """
        1. scan $a: User  every row, ~40 rows
        2. expand $a -[Knows]-> $b  csr (a small edge type), ~5 each, ~200 rows
        3. filter  ~66 rows
          $a.age < $b.age
        4. close $b -[Knows]-> $a  csr (a small edge type), ~8.2 rows
        5. keep $a, $b without a match of  ~5.8 rows
          6. expand $a -[Lives]-> $p  csr (a small edge type), ~2.5 each, ~21 rows
          7. close $b -[Lives]-> $p  csr (a small edge type), ~4.0 rows
          8. note which have a match  ~4.0 rows
        9. distinct $a  ~5.8 rows
        """,
    ),
    "joins and products": (
        "match { $a: User $p: Place $q: Place $a.age = $p.size } return { $a.name, $p.name, $q.name }",
        """
        1. scan $p: Place  every row, ~13 rows
        2. join on $p.size = $a.age with  ~26 rows
          3. scan $a: User  every row, ~40 rows
        4. product with  ~338 rows
          5. scan $q: Place  every row, ~13 rows
        """,
    ),
    "counted parts": (
        "match { $a knows $b $p near $_ } return { count(*) as n }",
        """
        1. scan $p: Place  every row, ~13 rows
          count $p -[Near]-> $_  from the near end, csr (a small edge type), ~7.7 each
        2. count rows  ~1 row
        3. product with  ~1 row
          4. scan $a: User  every row, ~40 rows
            count $a -[Knows]-> $b  from the near end, csr (a small edge type), ~5 each
          5. count rows  ~1 row
        """,
    ),
    "nothing": (
        "match { $a: User $a.age > 3 $a.age < 1 } return { $a.name }",
        """
        1. nothing: no row can match
        """,
    ),
}


@pytest.mark.parametrize("query,expected", TEXTS.values(), ids=TEXTS)
def test_a_plan_says_step_by_step_what_is_done_how_and_how_many_rows_are_expected(
    solver: Solver, query: str, expected: str
) -> None:
    text = format_plan(solver.plan(f"query q() {{ {query} }}"))

    assert text == dedent(expected).lstrip("\n")


TRACED = """query q() { match { $a knows $b $b.age > 1 not { $a likes $b } not { $a lives $p $p.size = 2 } }
    return { $a.name, $b.name } }"""


def test_after_a_run_each_step_says_what_it_did(solver: Solver) -> None:
    trace = QueryProfile(solver.session.runtime.clock, solver.session.runtime.telemetry)
    reading = replace(solver.reading(), profile=trace)
    plan = plan_read(solver.query(TRACED), reading)

    found = solve(plan, reading)
    text = format_plan(plan, trace)

    (last,) = re.findall(
        r"^\d+\. keep \$a, \$b .*\[([\d,]+) rows, [\d.]+ ms, \d+ requests?, [\d,]+ bytes\]$", text, re.MULTILINE
    )
    assert int(last) == found.size
    assert "not run" not in text
    assert re.sub(r"  \[.*\]", "", text) == format_plan(plan)


def traced(solver: Solver, text: str, **how: Any) -> tuple[PhysicalPlan, QueryProfile]:
    """The plan of a query that was run with a trace."""
    trace = QueryProfile(solver.session.runtime.clock, solver.session.runtime.telemetry)
    reading = replace(solver.reading(**how), profile=trace)
    plan = plan_read(solver.query(text), reading)
    solve(plan, reading)
    return plan, trace


def test_a_hop_and_the_condition_behind_it_run_as_one_also_when_they_are_measured(solver: Solver) -> None:
    text = "query q() { match { $a knows $b $b likes $c $a knows $c } return { $a.name, $b.name, $c.name } }"

    plan, trace = traced(solver, text)

    hop, condition = plan.steps[-2:]
    assert isinstance(hop, Expand)
    assert isinstance(condition, Close)
    assert trace.steps[hop.number].joined_with == condition.number
    assert trace.steps[hop.number].runs == 0
    assert trace.steps[condition.number].rows == sum(solver.solved(text).values())
    assert f"[run with step {condition.number}]" in format_plan(plan, trace)


def test_what_is_decided_when_a_step_runs_is_told_beside_the_plan(tmp_path: Path) -> None:
    solver = seeded(tmp_path / "g.omni", random_records(3, 200, 1_000))
    index_all(solver.session)
    text = 'query q() { match { $a: User { city: "x" } $a knows $b $b: User { name: "u1" } } return { $a.name } }'

    with patch.object(cost_model, "MAX_SMALL_EDGES", 10):
        plan, cold = traced(solver, text)
        solver.reading().get_topology("Knows")
        again, warm = traced(solver, text)

    assert again == plan
    assert format_plan(again) == format_plan(plan)
    assert not any("Knows" in choice for actual in cold.steps.values() for choice in actual.choices)
    assert "Knows by csr, which is at hand" in [each for actual in warm.steps.values() for each in actual.choices]
    assert "; Knows by csr, which is at hand]" in format_plan(again, warm)


def test_how_rows_were_found_is_told_beside_the_plan(solver: Solver) -> None:
    plan, trace = traced(solver, "query q() { match { $a: User { age: 2 } } return { $a.name } }")

    assert "column, ~" in format_plan(plan)
    assert trace.steps[1].choices == ["User by column in memory"]
    assert trace.steps[1].to_json()["chosen_at_run_time"] == ["User by column in memory"]


def test_what_did_not_run_says_so(solver: Solver) -> None:
    trace = QueryProfile(solver.session.runtime.clock, solver.session.runtime.telemetry)
    reading = replace(solver.reading(), profile=trace)
    text = 'query q() { match { $a: User { name: "nobody" } $a knows $b } return { $b.name } }'
    plan = plan_read(solver.query(text), reading)

    solve(plan, reading)

    assert format_plan(plan, trace).splitlines()[-1].endswith("[not run]")


def test_the_data_of_a_plan_are_json_and_name_every_step(solver: Solver) -> None:
    plan = solver.plan(TRACED)

    data = json.loads(json.dumps(build_plan_json(plan)))

    assert [step["kind"] for step in data["steps"]] == ["scan", "expand", "antijoin"]
    assert [step["number"] for step in data["steps"]] == [step.number for step in plan.steps]
    assert data["variables"] == ["a", "b"]
    assert data["steps"][1]["node"]["absent"][0]["kind"] == "antijoin"
