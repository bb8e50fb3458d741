"""`omnigraph embed`: vectors from the command line."""

import json
import os
from pathlib import Path

import pytest

import omnigraph as og
from mutating import run
from omnigraph.cli.main import main
from worlds import runtime

SCHEMA = 'node Doc { name: String @key  text: String?  vec: Vector(4)? @embed("text") }'


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "hash")
    made = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    run(
        made,
        'insert Doc { name: "a", text: "graph" } insert Doc { name: "b", text: "engine" } insert Doc { name: "c" }',
    )
    return made


def test_missing_vectors_are_computed(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["embed", graph.uri, "--type", "Doc", "--batch", "1"])

    captured = capsys.readouterr()
    assert code == 0
    assert captured.out == (
        "Doc.vec: 2 vectors computed, 0 remaining\nDoc.vec: 1 row without a text\nmodel hash (hash), 2 commits\n"
    )
    assert captured.err == ""


def test_programs_get_json(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", graph.uri, "--type", "Doc", "--property", "vec", "--limit", "1", "--json"])

    document = json.loads(capsys.readouterr().out)
    assert document["properties"] == [
        {"property": "vec", "source": "text", "waiting": 2, "embedded": 1, "without_text": 1}
    ]
    assert document["commits"] == [graph.commits()[0].id]


def test_a_dry_run_only_counts(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", graph.uri, "--type", "Doc", "--dry-run"])

    assert capsys.readouterr().out.startswith("Doc.vec: 2 vectors to compute from text\n")
    assert graph.commits()[0].operation == "mutate"


def test_without_a_provider_it_says_how_to_get_one(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OMNIGRAPH_EMBED_PROVIDER")
    assert "OMNIGRAPH_EMBED_PROVIDER" not in os.environ

    code = main(["embed", graph.uri, "--type", "Doc"])

    assert code != 0
    assert "set OMNIGRAPH_EMBED_PROVIDER to `openai` or `hash`" in capsys.readouterr().err


def test_an_unknown_provider_is_refused(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "magic")

    code = main(["embed", graph.uri, "--type", "Doc"])

    assert code != 0
    assert "write one of none, hash, openai" in capsys.readouterr().err
