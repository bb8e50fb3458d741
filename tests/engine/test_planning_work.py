"""What planning a query costs follows its size gently, and stops when the query's time is over: calls are counted."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from omnigraph.clock import SystemClock
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget, QueryCancelledError
from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.formatter import format_source
from omnigraph.lang.lexer import Language
from omnigraph.lang.pattern_parser import MAX_CLAUSES
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.ops.explain import explain
from omnigraph.ops.query import QueryCall, query
from omnigraph.query.inline_lets import MAX_DEPTH as MAX_LET_DEPTH
from reference_reader import PlainGraph
from solving import Solver, random_records, seeded


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    # Many edges of each node: from about two hundred hops on, the matches of a chain are more than a float can say.
    return seeded(tmp_path_factory.mktemp("graph") / "g.omni", random_records(3, 40, 1_500))


def read(clauses: str, output: str = "$v0.name", tail: str = "limit 5") -> str:
    return f"query q() {{ match {{ {clauses} }} return {{ {output} }} {tail} }}"


def names(count: int) -> str:
    return ", ".join(f"$v{number}.name as n{number}" for number in range(count))


def chain(count: int) -> str:
    return " ".join(f"$v{number} knows $v{number + 1}" for number in range(count))


def star(count: int) -> str:
    return " ".join(f"$v0 knows $v{number + 1}" for number in range(count))


def joined(count: int) -> str:
    nodes = " ".join(f"$v{number}: User" for number in range(count))
    return f"{nodes} {' '.join(f'$v{count - 1}.name = $v{number}.name' for number in range(count - 1))}"


def compared(count: int) -> str:
    return f"{chain(count)} {' '.join(f'$v{number}.age < $v{count - number}.age' for number in range(count // 2))}"


def excluded(count: int) -> str:
    return f"{chain(count)} {' '.join(f'not {{ $v{number} likes $v{number + 1} }}' for number in range(count))}"


def alternatives(count: int) -> str:
    blocks = (f"either {{ $v{n} knows $v{n + 1} }} or {{ $v{n} likes $v{n + 1} }}" for n in range(count))
    return f"$v0: User {' '.join(blocks)}"


def optionals(count: int) -> str:
    return f"$v0: User {' '.join(f'optional {{ $v{number} knows $v{number + 1} }}' for number in range(count))}"


LONG: dict[str, Callable[[int], str]] = {
    "chain": lambda count: read(chain(count)),
    "all of a chain": lambda count: read(chain(count), names(count)),
    "count of a chain": lambda count: read(chain(count), "count(*) as c", ""),
    "star": lambda count: read(star(count)),
    "groups of a star": lambda count: read(star(count), f"{names(count)}, count(*) as c", ""),
    "equal nodes": lambda count: read(joined(count)),
    "compared nodes": lambda count: read(compared(count), "count(*) as c", ""),
    "not": lambda count: read(excluded(count), "count(*) as c", ""),
    "either": lambda count: read(alternatives(count)),
    "optional": lambda count: read(optionals(count)),
}


def nest(opening: str, closing: str) -> Callable[[int], str]:
    def build(depth: int) -> str:
        inside = "".join(f"{opening} {{ $v{level} knows $v{level + 1} " for level in range(depth))
        return read(f"$v0: User {inside}{closing * depth}")

    return build


def nest_either(depth: int) -> str:
    inside = "".join(f"either {{ $v{level} knows $v{level + 1} " for level in range(depth))
    others = "".join(f"}} or {{ $v{level} likes $v{level + 1} }} " for level in reversed(range(depth)))
    return read(f"$v0: User {inside}{others}")


def nest_case(depth: int) -> str:
    opened = "".join(f"case {{ $v0.age < {level} => {level} else => " for level in range(depth))
    return read("$v0: User", f"{opened}0{' }' * depth} as x")


NESTED: dict[str, Callable[[int], str]] = {
    "not": nest("not", "} "),
    "optional": nest("optional", "} "),
    "exists": nest("exists", "} "),
    "count": nest("count", "} > 0 "),
    "either": nest_either,
    "case": nest_case,
}


@contextmanager
def count_calls() -> Iterator[list[int]]:
    """Count the calls of Python functions."""
    calls = [0]

    def note(_: FrameType, event: str, __: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def count_planning(solver: Solver, text: str) -> int:
    """Return the number of calls from the text to the physical plan."""
    solver.plan(text)  # What is read once, such as statistics, is in memory afterwards.
    with count_calls() as calls:
        solver.plan(text)
    return calls[0]


@pytest.mark.parametrize("shape", LONG)
def test_twice_the_clauses_are_at_most_four_times_the_work(solver: Solver, shape: str) -> None:
    once, twice = (count_planning(solver, LONG[shape](count)) for count in (60, 120))

    assert twice < 4.2 * once


@pytest.mark.parametrize("shape", NESTED)
def test_twice_the_depth_is_at_most_eight_times_the_work(solver: Solver, shape: str) -> None:
    once, twice = (count_planning(solver, NESTED[shape](depth)) for depth in (7, 14))

    assert twice < 8 * once


class ImpatientBudget(Budget):
    """A budget whose caller leaves during a check: the one of this number, of all of them."""

    def __init__(self, patience: int) -> None:
        super().__init__(SystemClock())
        self.patience = patience

    def check(self) -> None:
        self.patience -= 1
        if self.patience == 0:
            self.cancel()
        super().check()


@pytest.mark.parametrize("shape", LONG)
def test_planning_stops_when_the_caller_leaves(solver: Solver, shape: str) -> None:
    bound = solver.query(LONG[shape](100))
    # What is read once for an estimate checks the budget too.
    plan_read(bound, solver.reading())

    # One check for each clause, so that planning is never long between two of them.
    with pytest.raises(QueryCancelledError):
        plan_read(bound, solver.reading(budget=ImpatientBudget(100)))


def test_a_text_is_bound_within_the_time_of_its_query(solver: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(SystemClock())
    budget.cancel()
    parsed: list[str] = []

    monkeypatch.setattr("omnigraph.ops.query_cache.bind_query", lambda *_: parsed.append("bound"))

    with pytest.raises(QueryCancelledError):
        query(solver.session, QueryCall(source=Source(read("$v0: User"))), budget)

    assert parsed == []


def test_the_longest_chain_is_formatted_explained_and_run(tmp_path: Path) -> None:
    ring = [
        {"@id": f"k{number}", "@src": f"u{number}", "@dst": f"u{(number + 1) % 3}", "since": 1} for number in range(3)
    ]
    solver = seeded(tmp_path / "g.omni", PlainGraph(random_records(3, 3, 0).nodes, {"Knows": ring}))
    text = read(chain(MAX_CLAUSES), names(MAX_CLAUSES))
    source = Source(text)

    formatted = format_source(source, Language.QUERY).require(source)
    plan = explain(solver.session, QueryCall(source=source))
    result = query(solver.session, QueryCall(source=Source(formatted)))

    assert str(plan)
    first = result.to_arrow().to_pylist()[0]
    assert list(first.values())[:4] == ["u0", "u1", "u2", "u0"]
    assert result.row_count == 3


@pytest.mark.parametrize("shape", ["chain", "all of a chain", "star"])
def test_more_matches_than_a_float_can_say_are_planned_and_explained(solver: Solver, shape: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Access is chosen by cost from this size on.
        patch.setattr("omnigraph.engine.planning.cost_model.MAX_SMALL_EDGES", 0)
        shown = str(explain(solver.session, QueryCall(source=Source(LONG[shape](400)))))

    assert "inf" not in shown
    assert "nan" not in shown


@pytest.mark.parametrize("is_backward", [False, True])
def test_abbreviations_of_abbreviations_end_at_a_depth(solver: Solver, *, is_backward: bool) -> None:
    lets = ["let $x0 = $v0.age + 1", *(f"let $x{number + 1} = $x{number} + 1" for number in range(MAX_CLAUSES - 2))]
    text = read(f"$v0: User {' '.join(reversed(lets) if is_backward else lets)}", f"$x{MAX_CLAUSES - 2} as x")

    with pytest.raises(SourceError, match=f"more than {MAX_LET_DEPTH} abbreviations"):
        solver.query(text)


def test_one_clause_more_than_allowed_is_refused_with_the_way_out() -> None:
    source = Source(read(chain(MAX_CLAUSES + 1)))

    with pytest.raises(SourceError, match=f"at most {MAX_CLAUSES} clauses") as refused:
        parse_queries(source).require(source)

    assert "knows{1,4}" in str(refused.value)
