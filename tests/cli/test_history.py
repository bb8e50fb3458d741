"""`omnigraph history`: the versions of one node or edge."""

import json
import re
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from worlds import runtime


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    schema = "node P { name: String @key  n: I32?  note: String? }\nedge Knows: P -> P { @key(src, dst) }"
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())
    for actor, statements in (
        ("ada", 'insert P { name: "a", n: 1 }'),
        ("bob", 'update P set { n: 2, note: "' + "long " * 20 + '" } where name = "a"'),
        ("eve", 'delete P where name = "a"'),
    ):
        graph.mutate(f"query q() {{ {statements} }}", actor=actor)
    return graph


def test_people_see_a_table(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["history", "P", "a", graph.uri])

    head, *rows = [re.split(" {2,}", line.rstrip()) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert head == ["commit", "at", "actor", "operation", "change", "what"]
    assert [row[2:5] for row in rows] == [
        ["eve", "mutate", "deleted"],
        ["bob", "mutate", "updated"],
        ["ada", "mutate", "inserted"],
    ]
    assert rows[1][5].startswith('n: 1 → 2, note: null → "long long')
    assert rows[1][5].endswith("…")
    assert [row[0] for row in rows] == [commit.id for commit in graph.commits()[:3]]


def test_programs_get_both_sides_of_each_version(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    main(["history", "P", "a", "--store", graph.uri, "--limit", "2", "--json"])

    document = json.loads(capsys.readouterr().out)
    deleted, updated = document["versions"]
    assert (document["id"], document["ends_before"]) == ("a", None)
    assert (deleted["change"], deleted["after"]) == ("deleted", None)
    assert (updated["changed"], updated["before"]["n"], updated["after"]) == (["n", "note"], 1, deleted["before"])


def test_a_merge_says_whose_history_tells_more(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.branches.create("review/x")
    graph.mutate('query q() { insert P { name: "b" } }', branch="review/x", actor="eve")
    graph.merge("review/x", actor="ada")

    main(["history", "P", "b", graph.uri])
    text = capsys.readouterr().out
    main(["history", "P", "b", graph.uri, "--json"])
    (version,) = json.loads(capsys.readouterr().out)["versions"]

    assert "  ada    merge of review/x  inserted" in text
    assert version["merged_branch"] == "review/x"
    assert version["merged_parent"] == graph.commits(branch="review/x")[0].id


@pytest.mark.parametrize(
    "words, code",
    [(["P", "b"], "entity_not_found"), (["Know", "x"], "type_not_found"), (["Knows", "x"], "entity_not_found")],
)
def test_what_never_was_is_not_found(
    words: list[str], code: str, graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", *words, graph.uri, "--json"]) == 4
    assert json.loads(capsys.readouterr().err)["error"]["code"] == code
