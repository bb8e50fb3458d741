"""The problems of a load: grouped and counted first, with examples of each group; all problems of a record."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.bulk.load_errors import Problem
from omnigraph.engine.bulk.problem_groups import MAX_GROUPS, ProblemGroups

SCHEMA = """
node Person { name: String @key  age: I64? kind: enum(a, b)?  born: Date?  @range(age, 0..150) }
edge Knows: Person -> Person { since: I64? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "people.omni"), SCHEMA)


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def problems_of(graph: og.Graph, data: Any = None, **options: Any) -> og.LoadError:
    with pytest.raises(og.LoadError) as error:
        graph.load(data, mode="append", **options)
    return error.value


def test_rare_problems_are_not_hidden_by_frequent_ones(graph: og.Graph) -> None:
    records = [person(f"p{number}", age=200) for number in range(500)]
    records += [person("a", born="x"), person("b", kind="c"), {"edge": "Knows", "from": "a", "to": "zed"}]

    error = problems_of(graph, records)

    assert [(group.rule, group.type, group.property, group.count) for group in error.groups] == [
        ("range", "Person", "age", 500),
        ("endpoint", "Knows", "from", 1),
        ("record", "Person", "born", 1),
        ("record", "Person", "kind", 1),
    ]
    assert (error.total, len(error.problems)) == (503, 20)
    assert {problem.rule for problem in error.problems} == {"range", "endpoint", "record"}
    lines = str(error).splitlines()
    assert lines[:2] == ["500 × range Person.age", "1 × endpoint Knows.from"]
    assert lines[4].startswith("<records>, line 1: @range violation")
    assert lines[-2:] == ["and 483 more", "503 problems: nothing was loaded"]
    assert error.groups[0].to_json() == {"rule": "range", "type": "Person", "property": "age", "count": 500}


ALL = [("record", "born"), ("record", "wage"), ("range", "age"), ("record", "kind")]


def test_all_problems_of_a_record_are_reported(graph: og.Graph) -> None:
    record = person("ada", wage=1, born="x", age=200, kind="c")

    error = problems_of(graph, [record])

    assert sorted((problem.rule, problem.property) for problem in error.problems) == sorted(ALL)
    assert {problem.line for problem in error.problems} == {1}
    assert str(error).endswith("4 problems: nothing was loaded")


@pytest.mark.parametrize("rows", [[{"born": 1, "age": -1, "kind": "c", "name": "x"}], [{"name": None, "kind": "c"}]])
def test_a_row_of_a_file_has_the_problems_of_its_record(
    rows: list[dict[str, Any]], graph: og.Graph, tmp_path: Path
) -> None:
    path = tmp_path / "Person.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    typed = problems_of(graph, nodes={"Person": path})
    record = problems_of(graph, [{"type": "Person", "data": row} for row in rows])

    def describe(error: og.LoadError) -> list[tuple[str, str | None, str]]:
        return sorted((problem.rule, problem.property, problem.message) for problem in error.problems)

    assert describe(typed) == describe(record)
    assert len(typed.problems) >= 2


def test_columns_have_all_problems_of_a_row(graph: og.Graph) -> None:
    table = pa.table({"name": ["a", "b"], "age": [-1, 5], "kind": ["c", "a"]})

    error = problems_of(graph, nodes={"Person": table})

    assert [(problem.rule, problem.line) for problem in error.problems] == [("record", 1), ("range", 1)]


def test_a_record_with_several_problems_is_one_bad_record(graph: og.Graph, tmp_path: Path) -> None:
    records = [person("ada"), person("bob", age=200, kind="c")]

    result = graph.load(records, mode="append", on_error=tmp_path / "bad", max_errors=1)

    (reason,) = map(json.loads, (tmp_path / "bad" / "reasons.jsonl").read_text().splitlines())
    assert result.rejected == 1
    assert [problem["rule"] for problem in (reason, *reason["others"])] == ["record", "range"]


def build_problem(property_: str, line: int) -> Problem:
    return Problem(
        rule="record", file="f", line=line, unit="line", type="T", property=property_, value=None, message="m"
    )


def test_unknown_names_without_end_are_counted_together() -> None:
    groups = ProblemGroups()
    for number in range(10_000):
        groups.add((0, number), build_problem(f"p{number}", number))

    assert groups.total == 10_000
    assert len(groups.list_groups()) == MAX_GROUPS + 1
    assert groups.list_groups()[0].count == 10_000 - MAX_GROUPS


def test_the_examples_do_not_depend_on_the_order_of_adding() -> None:
    problems = [build_problem("ab"[number % 2], number) for number in range(100)]
    forwards, backwards = ProblemGroups(), ProblemGroups()
    for problem in problems:
        forwards.add((0, problem.line or 0), problem)
    for problem in reversed(problems):
        backwards.add((0, problem.line or 0), problem)

    assert forwards.select_examples() == backwards.select_examples() == problems[:20]
