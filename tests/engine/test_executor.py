"""Plans, run: every kind of pattern against the reference reader, in every way the engine may take."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from omnigraph.clock import SystemClock
from omnigraph.engine.executor import solve
from omnigraph.engine.operators import cycle_close, reduced_lists
from omnigraph.engine.operators.expand import bindings_nbytes
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget
from omnigraph.options import Traversal
from reference_reader import PlainGraph
from solving import LARGE, Solver, random_records, seeded

SHAPES = {"dense": (7, 5, 16), "sparse": (8, 9, 9), "single": (9, 1, 3), "loops": (10, 2, 9)}


@pytest.fixture(scope="module", params=[*SHAPES, "empty"])
def solver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Solver]:
    root = tmp_path_factory.mktemp("graph") / "g.omni"
    if request.param == "empty":
        yield seeded(root, PlainGraph())
    else:
        yield seeded(root, random_records(*SHAPES[request.param]))


PATTERNS = {
    "scan": "$a: User",
    "filtered scan": "$a: User $a.age > 1",
    "key": '$a: User { name: "u1" }',
    "hop": "$a knows $b",
    "hop from a key": '$a: User { name: "u0" } $a knows $b',
    "hop back from a key": '$b: User { name: "u0" } $a knows $b',
    "hop, far end filtered": "$a knows $b $b.age >= 2",
    "hop, both filtered": "$a knows $b $a.age = 1 $b.age >= 2",
    "hop with an edge": "$a $e:knows $b",
    "hop with a filtered edge": "$a $e:knows $b $e.since > 1",
    "edge compared, both ends filtered": "$a $e:knows $b $b.age >= 1 $a.age >= 1 $a.age < $e.since",
    "hop to another type": "$a lives $p $p.size < 3",
    "undirected": "$a <knows> $b",
    "loop": "$a knows $a",
    "loop with an edge": "$a $e:knows $a",
    "undirected loop": "$a <knows> $a",
    "undirected with an edge": "$a $e:<knows> $b",
    "undirected with a filtered edge": "$a $e:<knows> $b $e.since > 1",
    "undirected with an edge, from a key": '$a: User { name: "u1" } $a $e:<knows> $b $e.since < 3',
    "undirected loop with an edge": "$a $e:<knows> $a",
    "undirected hops with edges": "$a $e:<knows> $b $b $f:<knows> $c $e.@id != $f.@id",
    "undirected triangle with edges": "$a $e:<knows> $b $b $f:<knows> $c $c $g:<knows> $a $e.since < $g.since",
    "undirected and directed edges": "$a $e:<knows> $b $a $f:knows $b $e.since = $f.since",
    "two hops": "$a knows $b $b knows $c",
    "two hops of two types": "$a knows $b $b lives $p",
    "star": "$a knows $b $a likes $c $a lives $p",
    "three hops": "$a knows $b $b likes $c $c lives $p $p.size > 1",
    "parallel hops": "$a knows $b $a likes $b",
    "parallel edges": "$a $e:knows $b $a $f:knows $b",
    "there and back": "$a knows $b $b knows $a",
    "triangle": "$a knows $b $b knows $c $c knows $a",
    "triangle with edges": "$a $e:knows $b $b knows $c $c $f:knows $a $e.since > $f.since",
    "square": "$a knows $b $b likes $c $d knows $c $a likes $d",
    "reach 1..2": "$a knows{1,2} $b",
    "reach 2..3": "$a knows{2,3} $b",
    "reach 3..3 back": '$b: User { name: "u1" } $a knows{3,3} $b',
    "reach, undirected": "$a <knows>{1,3} $b",
    "reach 2..2, undirected": "$a <knows>{2,2} $b",
    "reach 3..4, undirected": "$a <knows>{3,4} $b",
    "reach to itself": "$a knows{1,4} $a",
    "reach closes": "$a knows $b $b knows{1,2} $a",
    "reach, filtered": "$a knows{1,3} $b $b.age > 1 $a.age < 3",
    "across": "$a knows $b $a.age < $b.age",
    "across or": "$a knows $b $a.age < $b.age or $a.city = $b.city",
    "same variable, other node": "$a knows $b $c knows $b $a != $c",
    "product": "$a: User { age: 1 } $p: Place { size: 2 }",
    "product of hops": "$a knows $b $p near $q $b.age = 1 $q.size = 1",
    "equal values": "$a: User $b: User $a.city = $b.city $a.age < 3",
    "equal values of hops": "$a knows $b $c likes $d $b.age = $c.age",
    "equal nodes": "$a knows $b $c likes $d $b = $d",
    "equal number and text": "$a: User $p: Place $a.age = $p.size",
    "list": '$a: User { tags: "x" } $a knows $b',
    "not": "$a: User not { $a knows $b }",
    "not, filtered": "$a: User not { $a knows $b $b.age > 1 }",
    "not along two hops": "$a: User not { $a knows $b $b lives $p $p.size = 2 }",
    "not between two": "$a knows $b not { $b knows $a }",
    "not with an edge": "$a knows $b not { $a $e:likes $b $e.since > 1 }",
    "not with two shared": "$a knows $b not { $a lives $p $b lives $p }",
    "not, compared": "$a knows $b not { $b likes $c $c.age > $a.age }",
    "not with an undirected edge": "$a knows $b not { $b $e:<likes> $a $e.since > 1 }",
    "not on an undirected edge": "$a $e:<knows> $b not { $a $f:<likes> $c $f.since > $e.since }",
    "not on an edge": "$a $e:knows $b not { $a $f:likes $c $f.since > $e.since }",
    "not, a filter of the outside": "$a: User not { $a knows $b $a.age = 1 }",
    "not within not": "$a: User not { $a knows $b not { $b knows $a } }",
    "not within not, outside read": "$a knows $b not { $b likes $c not { $c lives $p $a lives $p } }",
    "not apart": "$a: User not { $p: Place $p.size = $a.age }",
    "not reach": "$a: User not { $a knows{2,3} $b $b.age = 1 }",
    "not on a far end": "$a knows $b not { $b likes $c }",
    "unknown is not true": "$a: User not { $a.age > 1 }",
    "three-valued": "$a: User not ($a.age > 1)",
}
COUNTED = (
    "return { $a.name }",
    "return { $a } order { $a.name }",
    "return { count(*) as n }",
    "return { $a.city, count(*) as n }",
)
OUTPUTS = (*COUNTED, "return distinct { $a.city }", "return { max($a.age) as age }")
"""Of the last two, it only counts which combinations there are, not how often."""
CYCLES = ("there and back", "triangle", "square", "not between two", "parallel hops", "reach closes")


@pytest.mark.parametrize("bits", [1, 10])
@pytest.mark.parametrize("name", CYCLES)
def test_cycles_are_found_by_marking_too(solver: Solver, name: str, bits: int) -> None:
    query = solver.query(f"query q() {{ match {{ {PATTERNS[name]} }} return {{ $a.name }} order {{ $a.name }} }}")
    expected = solver.expected(query, solver.matches(query))

    marking: dict[str, Any] = {
        "MIN_MARKED_ROWS": 1,
        "MAX_MARKED_PER_ROW": LARGE,
        "_MIN_CELL_BITS": bits,
        "_MAX_CELL_BITS": bits,
    }
    with patch.multiple(cycle_close, **marking), patch.multiple(reduced_lists, MIN_GATHERED=0, MIN_REPEATS=0):
        found = [solver.solved(query, traversal=Traversal.CSR, chunk_rows=rows) for rows in (3, LARGE)]

    assert found == [expected, expected]


WAYS: tuple[dict[str, Any], ...] = (
    {"traversal": Traversal.CSR},
    {"traversal": Traversal.CSR, "chunk_rows": 1},
    {"traversal": Traversal.INDEXED},
)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_a_pattern_has_the_matches_that_trying_every_row_finds(solver: Solver, pattern: str) -> None:
    queries = [solver.query(f"query q() {{ match {{ {pattern} }} {output} }}") for output in OUTPUTS]
    matches = solver.matches(queries[0])

    for query, output in zip(queries, OUTPUTS, strict=True):
        for way in WAYS:
            found = solver.solved(query, **way)
            expected = solver.expected(query, matches)

            if output in COUNTED:
                assert found == expected, (output, way)
            else:
                assert found.keys() == expected.keys(), (output, way)


def test_rows_that_were_read_count_once_against_the_memory(solver: Solver) -> None:
    budget = Budget(SystemClock())
    reading = solver.reading(budget=budget)
    plan = plan_read(solver.query("query q() { match { $a: User } return { $a.name } }"), reading)
    before = budget._claimed

    found = solve(plan, reading)

    assert budget._claimed - before == bindings_nbytes(found)
