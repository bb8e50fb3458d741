"""What is counted along hops equals what listing every match counts."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.clock import SystemClock
from omnigraph.engine.executor import solve
from omnigraph.engine.operators.expand import bindings_nbytes
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget, QueryCancelledError, QueryMemoryError, QueryTimeoutError
from omnigraph.errors import LimitError
from property_profiles import profile
from raised_codes import has_code
from solving import LARGE, Solver, random_records, seeded

NAMES = "abcde"
FILTERS = ("${v}.age > 1", '${v}.city = "x"', "not {{ ${v} likes $_ }}", "not {{ ${v} <knows> $n  $n.age = 2 }}")
HOPS = ("${v} knows ${w}", "${w} knows ${v}", "${v} <likes> ${w}", "${v} $e{n}:knows ${w}", "${w} likes{{1,2}} ${v}")
EDGES = ("", "$e{n}.since > 1")


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    return seeded(tmp_path_factory.mktemp("graph") / "g.omni", random_records(3, 6, 14))


@st.composite
def patterns(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A tree of hops with filters, at times with one hop more, and its variables."""
    names = NAMES[: draw(st.integers(2, 5))]
    clauses = [f"${name}: User" for name in names]
    for number, name in enumerate(names):
        if number:
            _hop(draw, clauses, name, draw(st.sampled_from(names[:number])), number)
        if draw(st.booleans()):
            clauses.append(draw(st.sampled_from(FILTERS)).format(v=name))
    if draw(st.integers(0, 3)) == 0:
        _hop(draw, clauses, names[0], names[-1], 9)
    if draw(st.integers(0, 3)) == 0:
        clauses.append(f"${names[0]}.age < ${names[-1]}.age")
    return " ".join(clauses), list(names)


def _hop(draw: st.DrawFn, clauses: list[str], v: str, w: str, number: int) -> None:
    hop = draw(st.sampled_from(HOPS))
    clauses.append(hop.format(v=v, w=w, n=number))
    if "$e" in hop:
        clauses.append(draw(st.sampled_from(EDGES)).format(n=number))


@profile(150)
@given(pattern=patterns(), data=st.data())
def check_folding(solver: Solver, pattern: tuple[str, list[str]], data: st.DataObject) -> None:
    clauses, names = pattern
    kept = [name for name in names if data.draw(st.booleans())]
    listed = solver.query(f"query q() {{ match {{ {clauses} }} return {{ {' '.join(f'${n}.name' for n in names)} }} }}")
    keys = " ".join(f"${name}.name" for name in kept)
    counting = solver.query(f"query q() {{ match {{ {clauses} }} return {{ {keys} count(*) as n }} }}")
    existing = solver.query(f"query q() {{ match {{ {clauses} }} return distinct {{ {keys or '1 as one'} }} }}")
    chunk_rows = data.draw(st.sampled_from([1, 5, LARGE]))

    enumerated = solver.solved(listed)

    places = [names.index(name) for name in kept]
    expected: Counter[tuple[str, ...]] = Counter()
    for row, weight in enumerated.items():
        expected[tuple(row[place] for place in places)] += weight
    assert solver.solved(counting, chunk_rows=chunk_rows) == expected
    assert solver.solved(existing, chunk_rows=chunk_rows).keys() == expected.keys()


def test_counting_along_hops_equals_listing_every_match(solver: Solver) -> None:
    check_folding(solver)


def test_more_matches_than_64_bits_count_are_refused(tmp_path: Path) -> None:
    solver = seeded(tmp_path / "g.omni", random_records(5, 4, 40))
    names = [f"$v{number}" for number in range(40)]
    hops = " ".join(f"{a} $e{n}:knows {b}" for n, (a, b) in enumerate(pairwise(names)))

    with pytest.raises(LimitError, check=has_code("count_overflow")):
        solver.solved(f"query q() {{ match {{ {hops} }} return {{ count(*) as n }} }}")


PRODUCT = "query q() { match { $a: User $b: User $c: User $a.age < $b.age } return { $a.name, $b.name, $c.name } }"


def test_memory_is_asked_for_before_it_is_taken(solver: Solver) -> None:
    with pytest.raises(QueryMemoryError) as caught:
        solver.solved(PRODUCT, budget=Budget(SystemClock(), memory_bytes=500))

    assert caught.value.needed > caught.value.allowed == 500


def test_what_was_used_by_earlier_parts_is_free_for_later_ones(solver: Solver) -> None:
    text = "query q() { match { $a: User $b: User $a.age != $b.age } return { count(*) as n } }"
    budget = Budget(SystemClock(), memory_bytes=2_000)

    found = solver.solved(text, budget=budget, chunk_rows=6)

    assert found == solver.solved(text)


@pytest.mark.parametrize("chunk_rows", [1, 7, LARGE])
@pytest.mark.parametrize(
    "text",
    [
        "match { $a knows $b $b likes $c } return { $a.name, $c.name }",
        "match { $a knows $b $b knows $a not { $a likes $b } } return { $a.name, $b.name }",
        "match { $a knows $b not { $b likes $c $c knows $a } } return { count(*) as n }",
        "match { $a: User $b: User $a.age < $b.age } return { count(*) as n }",
        "match { $a knows{1,3} $b $b lives $p } return { $p.name, count(*) as n }",
    ],
)
def test_a_query_holds_no_more_memory_than_its_matches_when_it_is_solved(
    solver: Solver, text: str, chunk_rows: int
) -> None:
    budget = Budget(SystemClock(), memory_bytes=10_000_000)
    reading = solver.reading(budget=budget)

    found = solve(plan_read(solver.query(f"query q() {{ {text} }}"), reading), reading, chunk_rows=chunk_rows)

    other_side = 1_000  # of a product or join, kept for the run
    assert bindings_nbytes(found) <= budget._claimed <= bindings_nbytes(found) + other_side


def test_a_deadline_and_a_cancellation_end_a_query(solver: Solver) -> None:
    cancelled = Budget(SystemClock())
    cancelled.cancel()

    with pytest.raises(QueryCancelledError):
        solver.solved(PRODUCT, budget=cancelled)
    with pytest.raises(QueryTimeoutError):
        solver.solved(PRODUCT, budget=Budget(SystemClock(), seconds=0.0))
