"""Plans as text and as data: complete, stable, and after a run with what really happened."""

import json
import re
from dataclasses import replace
from textwrap import dedent

import pytest

from omnigraph.engine.planning.physical import plan_read
from omnigraph.engine.planning.plan_text import plan_json, plan_text
from omnigraph.engine.run import solve
from omnigraph.engine.trace import Trace
from solving import Solver, random_records, seeded


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    return seeded(tmp_path_factory.mktemp("graph") / "g.omni", random_records(3, 40, 200))


@pytest.fixture(scope="module")
def unread(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    """As `solver`, but nothing is read: what is in memory is a reason for a plan."""
    return seeded(tmp_path_factory.mktemp("unread") / "g.omni", random_records(3, 40, 200))


TEXTS = {
    "a hop from a key": (
        'match { $a: User { name: "u1" } $a knows $b $b.age > 1 } return { $b.name }',
        """
        1. scan $a: User  key, ~1 row
          $a.name = "u1"
        2. expand $a -[Knows]-> $b  csr (a small edge type), ~5 each, ~1.7 rows
          $b.age > 1
        """,
    ),
    "edges and several hops": (
        "match { $a $e:knows $b $e.since > 1 $a <likes>{1,2} $c } return { $e.since, $c.name }",
        """
        1. scan $a: User  every row, ~40 rows
        2. expand $a -[$e: Knows]-> $b  csr (a small edge type), ~5 each, each edge, ~66 rows
          $e.since > 1
        3. expand $a -[Likes{1,2}]- $c  csr (a small edge type), ~30 each, ~1,980 rows
        """,
    ),
    "branches": (
        (
            "match { $a knows $b $b lives $p $p.size = 2 $c knows $a not { $a likes $x $x.age = 1 } }"
            " return { $b.city, count(*) as n }"
        ),
        """
        1. scan $b: User  where its branches lead, ~5 rows
          count $b -[Lives]-> $p  from the far end, csr (a small edge type), ~2.5 each, column in memory ~1 of $p
            $p.size = 2
          count $b <-[Knows]- $a  from the far end, csr (a small edge type), ~5 each
            count $a <-[Knows]- $c  from the near end, csr (a small edge type), ~5 each
            2. keep $a without a match of  ~28 rows
              3. check $a: User  ~5 rows
                find $a -[Likes]-> $x  from the far end, csr (a small edge type), ~2.5 each, column in memory ~2 of $x
                  $x.age = 1
              4. note which have a match  ~5 rows
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
    unread: Solver, query: str, expected: str
) -> None:
    text = plan_text(unread.plan(f"query q() {{ {query} }}"))

    assert text == dedent(expected).lstrip("\n")


TRACED = """query q() { match { $a knows $b $b.age > 1 not { $a likes $b } not { $a lives $p $p.size = 2 } }
    return { $a.name, $b.name } }"""


def test_after_a_run_each_step_says_what_it_did(solver: Solver) -> None:
    trace = Trace(solver.session.runtime.clock, solver.session.runtime.telemetry)
    reading = replace(solver.reading(), trace=trace)
    plan = plan_read(solver.query(TRACED), reading)

    found = solve(plan, reading)
    text = plan_text(plan, trace)

    (last,) = re.findall(
        r"^\d+\. keep \$a, \$b .*\[([\d,]+) rows, [\d.]+ ms, \d+ requests?, [\d,]+ bytes\]$", text, re.MULTILINE
    )
    assert int(last) == found.size
    assert "not run" not in text
    assert re.sub(r"  \[.*\]", "", text) == plan_text(plan)


def test_what_did_not_run_says_so(solver: Solver) -> None:
    trace = Trace(solver.session.runtime.clock, solver.session.runtime.telemetry)
    reading = replace(solver.reading(), trace=trace)
    text = 'query q() { match { $a: User { name: "nobody" } $a knows $b } return { $b.name } }'
    plan = plan_read(solver.query(text), reading)

    solve(plan, reading)

    assert plan_text(plan, trace).splitlines()[-1].endswith("[not run]")


def test_the_data_of_a_plan_are_json_and_name_every_step(solver: Solver) -> None:
    plan = solver.plan(TRACED)

    data = json.loads(json.dumps(plan_json(plan)))

    assert [step["kind"] for step in data["steps"]] == [type(step).__name__.lower() for step in plan.steps]
    assert data["variables"] == ["a", "b"]
    assert data["steps"][0]["node"]["absent"][0]["kind"] == "antijoin"
