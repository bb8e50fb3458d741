"""How a query is run, shown before and after running it."""

import json

import pytest

from omnigraph.errors import QueryError
from omnigraph.lang.source import Source
from omnigraph.ops.explain import explain
from omnigraph.ops.query import QueryCall
from omnigraph.query.params import ParameterError
from raised_codes import has_code
from solving import Solver, random_records, seeded

QUERY = """query friends($name: String) {
    match { $a: User { name: $name } $a knows $b $b knows $c }
    return { $b.city, count(*) as n }
    order { n desc }
    limit 3
}"""


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    return seeded(tmp_path_factory.mktemp("graph") / "g.omni", random_records(3, 40, 200))


def call(text: str = QUERY, **params: object) -> QueryCall:
    return QueryCall(source=Source(text, "friends.gq"), params=params)


def test_a_plan_is_shown_with_the_snapshot_and_what_is_made_of_the_matches(solver: Solver) -> None:
    explained = explain(solver.session, call(name="u1"))

    commit = solver.session.resolve_snapshot().commit.id
    assert (
        str(explained)
        == explained.text
        == (
            f"query friends at main, commit {commit}\n"
            "  engine memory: 4 KiB of adjacency and 2 KiB of columns, which fit into 2.0 GiB\n"
            "  1. scan $b: User  where its branches lead, ~5 rows\n"
            "    count $b <-[Knows]- $a  from the far end, csr (a small edge type), ~5 each, key ~1 of $a\n"
            "      $a.name = $name\n"
            "    count $b -[Knows]-> $c  from the near end, csr (a small edge type), ~5 each\n"
            "  group by $b.city\n"
            "  return\n"
            "    $b.city\n"
            "    count(*) as n\n"
            "  order by count(*) desc\n"
            "  ties by $b.city\n"
            "  limit 3\n"
        )
    )


def test_after_running_it_the_plan_says_what_happened(solver: Solver) -> None:
    explained = explain(solver.session, call(name="u1"), analyze=True)

    assert explained.measured is not None
    assert explained.measured.rows <= 3
    assert explained.trace is not None
    assert explained.measured.requests >= sum(step.requests for step in explained.trace.steps.values())
    assert explained.text.splitlines()[-1].startswith(f"{explained.measured.rows} row")
    assert "ms, " in explained.text


@pytest.mark.parametrize("analyze", [False, True])
def test_what_is_shown_is_json_too(solver: Solver, analyze: bool) -> None:
    data = json.loads(json.dumps(explain(solver.session, call(name="u1"), analyze=analyze).to_json()))

    assert data["query_name"] == "friends"
    assert data["plan"]["steps"][0]["kind"] == "scan"
    assert ("measured" in data) is analyze
    assert ("actual" in data["plan"]["steps"][0]) is analyze


def test_a_call_that_is_wrong_is_refused_before_anything_is_planned(solver: Solver) -> None:
    with pytest.raises(ParameterError):
        explain(solver.session, call())
    with pytest.raises(QueryError, check=has_code("not_a_read")):
        explain(solver.session, call("query q() { delete User where age > 3 }"))


def test_stages_are_shown_before_what_starts_from_them(solver: Solver) -> None:
    text = "query q() { match { $a knows $b } with { $a, count($b) as n } limit 3 match { $a likes $c } return { $n } }"

    explained = explain(solver.session, call(text), analyze=True)

    lines = [line.strip() for line in explained.text.splitlines()]
    assert lines[1].startswith("engine memory: ")
    assert lines[2] == "for each row of"
    assert lines.index("with") < lines.index("return")
    data = explained.to_json()
    assert [source["text"] for source in data["sources"]] == ["for each row of"]  # type: ignore[attr-defined]  # JSON
    numbers = [step["number"] for plan in (data["sources"][0]["plan"], data["plan"]) for step in plan["steps"]]  # type: ignore[index]  # JSON
    assert numbers == sorted(set(numbers))


def test_a_read_without_stages_has_no_sources(solver: Solver) -> None:
    assert "sources" not in explain(solver.session, call(name="u1")).to_json()
