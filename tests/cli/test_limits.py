"""`--timeout` and `--memory` end every command that writes or moves whole tables."""

from pathlib import Path

import pytest

import omnigraph as og
from mutating import run
from omnigraph.cli.main import main
from worlds import runtime

SCHEMA = 'node Doc { name: String @key  text: String?  vec: Vector(4)? @embed("text") }'
RECORD = '{"type": "Doc", "data": {"name": "new"}}\n'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a graph that nothing changes, and what the commands are given."""
    made = tmp_path_factory.mktemp("limits")
    graph = og.create_graph(str(made / "g"), SCHEMA, runtime=runtime())
    run(graph, 'insert Doc { name: "a", text: "graph" }')
    graph.branches.create("side")
    graph.mutate('query q() { insert Doc { name: "side" } }', branch="side")
    run(graph, 'insert Doc { name: "main" }')
    (made / "in.jsonl").write_text(RECORD)
    (made / "schema.pg").write_text(SCHEMA.replace("text: String?", "text: String?  more: I64?"))
    return made


@pytest.mark.parametrize(
    "words, subject",
    [
        (["mutate", "GRAPH", "-e", 'query q() { insert Doc { name: "x" } }'], "mutation"),
        (["load", "GRAPH", "--mode", "append", "--data", "in.jsonl"], "load"),
        (["branch", "merge", "side", "GRAPH"], "merge"),
        (["schema", "apply", "GRAPH", "--schema", "schema.pg"], "change of the schema"),
        (["embed", "GRAPH", "--type", "Doc"], "computation of vectors"),
        (["export", "GRAPH"], "export"),
        (["export", "GRAPH", "--output", "out.jsonl"], "export"),
    ],
)
def test_a_command_ends_with_its_time(
    words: list[str], subject: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "hash")
    head = og.open_graph(str(place / "g")).snapshot().commit.id

    code = main([str(place / "g") if word == "GRAPH" else word for word in words] + ["--timeout", "0.000001"])

    assert code == 1
    assert f"the {subject} ran longer than 1e-06 seconds" in capsys.readouterr().err
    assert og.open_graph(str(place / "g")).snapshot().commit.id == head
    assert not (place / "out.jsonl").exists()


def test_a_command_ends_at_its_memory(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["export", str(place / "g"), "--memory", "1"])

    assert code == 1
    assert "more than the 1 bytes that an export may use" in capsys.readouterr().err
