"""`omnigraph diff` for people: counts, and the rows below them when they are few."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.diff import MAX_LISTED_CHANGES
from omnigraph.cli.main import main
from worlds import runtime

SCHEMA = "node P { name: String @key  n: I64?  photo: Blob? }\nedge Knows: P -> P"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    graph.load([{"type": "P", "data": {"name": name, "n": 1}} for name in "abc"], mode="append")
    graph.branches.create("review")
    return graph


def printed(graph: og.Graph, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["diff", *words, "--store", graph.uri]) == 0
    return capsys.readouterr().out.splitlines()


def test_few_rows_are_listed_below_their_counts(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    for statement in (
        'insert P { name: "d" }',
        'insert Knows { from: "a", to: "d" }',
        'update P set { n: 2 } where name = "a"',
        'delete P where name = "b"',
    ):
        graph.mutate(f"query q() {{ {statement} }}", branch="review")

    lines = printed(graph, capsys, "main...review")

    table = [line.split() for line in lines[lines.index("") + 1 :]]
    assert table[0] == ["type", "id", "values"]
    assert ["+", "P", "d", "name:", '"d"'] in table
    assert ["~", "P", "a", "n:", "1", "→", "2"] in table
    assert ["-", "P", "b", "name:", '"b",', "n:", "1"] in table
    assert [line[:2] + line[3:] for line in table if line[1] == "Knows"] == [
        ["+", "Knows", "from:", '"a",', "to:", '"d"']
    ]
    assert printed(graph, capsys, "main", "review", "--type", "Knows")[-1].split()[:2] == ["+", "Knows"]


@pytest.mark.parametrize("extra", [0, 1])
def test_more_rows_are_only_counted(graph: og.Graph, capsys: pytest.CaptureFixture[str], extra: int) -> None:
    count = MAX_LISTED_CHANGES + extra
    rows = [{"type": "P", "data": {"name": f"x{number:02}"}} for number in range(count)]
    graph.load(rows, mode="append", branch="review")

    lines = printed(graph, capsys, "main", "review")

    assert lines[1].split() == ["P", str(count), "0", "0"]
    assert sum("x" in line for line in lines) == (count if extra == 0 else 0)


def test_equal_states_have_no_rows(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(graph, capsys, "main", "review") == ["no differences"]


def test_rows_of_states_whose_schemas_differ(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    changed = SCHEMA.replace("n: I64?", "m: String?")
    graph.apply_schema(changed, branch="review", allow_data_loss=True)
    row = {"name": "a", "m": "x", "photo": "base64:aGk="}
    graph.load([{"type": "P", "data": row}], mode="merge", branch="review")

    lines = printed(graph, capsys, "main", "review")

    updates = [line for line in lines if line.startswith("~")]
    assert {line.split()[2] for line in updates} >= {"a"}
    changed_row = next(line for line in updates if line.split()[2] == "a")
    assert 'm: none → "x"' in changed_row
    assert "photo: changed" in changed_row
