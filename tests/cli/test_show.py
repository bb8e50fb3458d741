"""`omnigraph show`: a graph, a type, a node, an edge."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from server_process import Process, running
from server_process import laid_out as laid_out_server
from serving import TOKENS
from worlds import runtime

SCHEMA = """
node Person @description("Who writes.") {
    name: String @key
    age: I64?
    order: [String]?
    photo: Blob?
    vec: Vector(2)?
}
node City { name: String @key }
node Empty { }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City { @key(src, dst) }
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(str(tmp_path_factory.mktemp("show") / "g"), SCHEMA, runtime=runtime())
    people: list[dict[str, Any]] = [{"name": f"p{number:02}", "age": number} for number in range(12)]
    people[0] |= {"order": ["a"], "photo": "base64:aGVsbG8=", "vec": [1.0, 2.0]}
    rows: list[dict[str, Any]] = [{"type": "Person", "data": row} for row in people]
    rows += [{"type": "City", "data": {"name": "O'\"slo"}}]
    rows += [{"edge": "Knows", "from": "p00", "to": f"p{number:02}"} for number in range(12)]
    rows += [{"edge": "Knows", "from": "p00", "to": "p01", "data": {"since": "2020-01-31"}}]
    rows += [{"edge": "LivesIn", "from": "p00", "to": "O'\"slo"}]
    graph.load(rows, mode="append")
    return graph


def show(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["show", *words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_graph_is_its_types_with_counts(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, graph.uri)

    assert {type_["type"]: type_["rows"] for type_ in document["types"]} == {
        "Person": 12,
        "City": 1,
        "Empty": 0,
        "Knows": 13,
        "LivesIn": 1,
    }
    assert document["commit_id"] == graph.snapshot().commit.id

    assert main(["show", graph.uri]) == 0
    out = capsys.readouterr().out
    assert "edge Person -> City" in out
    assert "Who writes." in out


def test_a_type_is_its_properties_and_first_rows(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, graph.uri, "Person")

    assert [(one["name"], one["type"], one["key"]) for one in document["properties"]] == [
        ("name", "String", True),
        ("age", "I64?", False),
        ("order", "[String]?", False),
        ("photo", "Blob?", False),
        ("vec", "Vector(2)?", False),
    ]
    assert len(document["first"]) == 10
    assert document["first"][0] == {"id": "p00", "name": "p00", "age": 0, "order": ["a"]}

    assert main(["show", graph.uri, "Person"]) == 0
    assert "the first 10 of 12 rows" in capsys.readouterr().out
    assert show(capsys, graph.uri, "LivesIn")["first"] == [
        {"id": '["p00","O\'\\"slo"]', "src": "p00", "dst": "O'\"slo"}
    ]
    assert main(["show", graph.uri, "Empty"]) == 0
    assert "no rows" in capsys.readouterr().out


def test_a_node_has_its_degrees_by_type(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, graph.uri, "Person", "p00")

    assert document["properties"] == {"name": "p00", "age": 0, "order": ["a"]}
    assert document["not_shown"] == ["photo", "vec"]
    edges = {(edge["edge"], edge["direction"]): edge for edge in document["edges"]}
    # The parallel edge to p01 is counted, and its end is listed once.
    assert edges["Knows", "out"]["count"] == 13
    assert edges["Knows", "out"]["first"] == ["p00", "p01", "p02", "p03", "p04"]
    assert edges["Knows", "out"]["has_more"]
    assert edges["Knows", "in"]["count"] == 1
    assert edges["LivesIn", "out"]["first"] == ["O'\"slo"]
    assert not edges["LivesIn", "out"]["has_more"]

    city = show(capsys, graph.uri, "City", "O'\"slo")
    assert [(edge["edge"], edge["direction"], edge["type"], edge["count"]) for edge in city["edges"]] == [
        ("LivesIn", "in", "Person", 1)
    ]
    assert main(["show", graph.uri, "Person", "p00"]) == 0
    out = capsys.readouterr().out
    assert "not shown: photo, vec" in out
    assert "p04, …" in out


def test_an_edge_has_its_ends(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    first = next(row for row in show(capsys, graph.uri, "Knows")["first"] if row["dst"] == "p03")

    document = show(capsys, graph.uri, "Knows", first["id"])

    assert (document["from"], document["to"], document["properties"]) == ("p00", "p03", {"since": None})
    assert main(["show", graph.uri, "Knows", first["id"]]) == 0
    assert "edge Person -> Person" in capsys.readouterr().out


def test_states_and_branches(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    before = graph.snapshot().commit.id
    graph.branches.create("review/x")
    graph.mutate('query q() { insert Person { name: "new" } }', branch="review/x")

    assert show(capsys, graph.uri, "Person", "new", "--branch", "review/x")["branch"] == "review/x"
    assert main(["show", graph.uri, "Person", "new"]) == 4
    assert main(["show", graph.uri, "Person", "new", "--branch", "review/x", "--snapshot", before]) == 4
    assert "there is no Person `new`" in capsys.readouterr().err
    assert main(["show", graph.uri, "--snapshot", before, "--at", "2h"]) == 2


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["Persn"], 4, "did you mean `Person`?"),
        (["Person", "p00", "more"], 2, "found 4 words"),
        (["Knows", "none"], 4, "there is no Knows `none`"),
        (["", "p00"], 4, "no type"),
    ],
)
def test_mistakes(graph: og.Graph, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str) -> None:
    assert main(["show", graph.uri, *words]) == code
    assert said in capsys.readouterr().err


def test_the_graph_may_be_named_by_an_option(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(capsys, "City", "--store", graph.uri)["rows"] == 1
    assert show(capsys, "Person", "p01", "--store", graph.uri)["properties"]["age"] == 1


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["admin"])
    with running(laid_out_server(tmp_path), tmp_path) as found:
        yield found


def test_a_served_graph_shows_the_same(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    served = ["--server", f"http://127.0.0.1:{process.port}", "--graph", "people"]
    for words in ([], ["Person"], ["Person", "Ada"]):
        here = show(capsys, *words, "--store", process.graph.uri)
        there = show(capsys, *words, *served)
        assert {**there, "uri": ""} == {**here, "uri": ""}
    assert main(["show", "Person", "Nobody", *served]) == 4


def test_queries_are_checked_against_a_served_schema(
    process: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "q.gq"
    path.write_text("query q() { match { $p: Person } return { $p.nme } }", encoding="utf-8")

    assert main(["lint", str(path), "--server", f"http://127.0.0.1:{process.port}", "--graph", "people"]) == 1
    assert "nme" in capsys.readouterr().out
