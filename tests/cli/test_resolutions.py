"""Conflicts in a file: written, decided about, read again; or asked about at a terminal."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from merging import change, new_graph, row, run
from omnigraph.cli.main import main
from terminals import Terminal


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    for name in "ab":
        run(graph, change("P", "n", 5, name=name))
        run(graph, change("P", "n", 6, name=name), "dev")
    return graph


def test_a_file_is_written_edited_and_applied(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "conflicts.jsonl"

    assert main(["branch", "merge", "dev", graph.uri, "--conflicts-to", str(path)]) == 3
    states, *conflicts = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert states["ours"] == graph.snapshot().commit.id
    assert conflicts[0] == {
        "kind": "DivergentUpdate",
        "type": "P",
        "id": "a",
        "property": "n",
        "base": 1,
        "ours": 5,
        "theirs": 6,
        "take": None,
    }
    lines = [states, {**conflicts[0], "take": "theirs"}, {**conflicts[1], "take": {"value": 42}}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    capsys.readouterr()

    assert main(["branch", "merge", "dev", graph.uri, "--resolve", str(path)]) == 0
    assert [(row(graph, name) or {})["n"] for name in "ab"] == [6, 42]
    # The head has moved on, so the same decisions no longer hold.
    run(graph, change("P", "n", 7, name="a"))
    run(graph, change("P", "n", 8, name="a"), "dev")
    assert main(["branch", "merge", "dev", graph.uri, "--resolve", str(path)]) == 3
    assert "the resolutions are for other states" in capsys.readouterr().err


@pytest.mark.parametrize("text, message", [("{}\n", "line 1 has to name"), ("{", "line 1 is not JSON"), ("", "line 1")])
def test_a_file_that_is_no_list_of_decisions(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "conflicts.jsonl"
    path.write_text(text, encoding="utf-8")

    assert main(["branch", "merge", "dev", graph.uri, "--resolve", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_a_value_may_contain_any_character(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    text = "one\u2028two\x85three\x9b2J\u202e"
    run(graph, change("P", "email", '"ours"', name="a"))
    run(graph, change("P", "email", json.dumps(text), name="a"), "dev")
    path = tmp_path / "conflicts.jsonl"
    assert main(["branch", "merge", "dev", graph.uri, "--conflicts-to", str(path)]) == 3
    # As an editor of Windows writes it.
    decided = path.read_text(encoding="utf-8").replace('"take": null', '"take": "theirs"').replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + decided.encode())

    with Terminal(["branch", "merge", "dev", graph.uri, "--interactive"]) as terminal:
        shown = terminal.wait_for("q = quit")
        assert "<U+009B>2J<U+202E>" in shown
        assert not {"\x9b", "\u202e"} & set(shown)
        terminal.press("q\n")
        assert terminal.wait_for_end() == 1

    assert main(["branch", "merge", "dev", graph.uri, "--resolve", str(path)]) == 0
    assert (row(graph, "a") or {})["email"] == text


def test_a_large_file_that_was_written_can_be_read(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    for branch, letter in (("main", "x"), ("dev", "y")):
        for name in "abc":
            run(graph, change("P", "email", json.dumps(letter * 3_000_000 + name), name=name), branch)
    path = tmp_path / "conflicts.jsonl"
    assert main(["branch", "merge", "dev", graph.uri, "--conflicts-to", str(path)]) == 3
    path.write_text(path.read_text(encoding="utf-8").replace('"take": null', '"take": "theirs"'), encoding="utf-8")

    assert main(["branch", "merge", "dev", graph.uri, "--resolve", str(path)]) == 0


def test_only_one_way_at_a_time(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["branch", "merge", "dev", graph.uri, "--resolve", "x", "--conflicts-to", "y"]) == 2
    assert main(["branch", "merge", "dev", graph.uri, "--interactive"]) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_each_conflict_is_asked_about(graph: og.Graph) -> None:
    with Terminal(["branch", "merge", "dev", graph.uri, "--interactive"]) as terminal:
        terminal.wait_for("q = quit")
        terminal.press("t\n")
        terminal.wait_for("q = quit")
        terminal.press("v\n")
        terminal.wait_for("as JSON")
        terminal.press("nonsense\n")
        terminal.wait_for("that is not JSON")
        terminal.press("42\n")

        assert terminal.wait_for_end() == 0

    assert [(row(graph, name) or {})["n"] for name in "ab"] == [6, 42]


def test_quitting_merges_nothing(graph: og.Graph) -> None:
    head = graph.snapshot().commit.id
    with Terminal(["branch", "merge", "dev", graph.uri, "--interactive"]) as terminal:
        terminal.wait_for("q = quit")
        terminal.press("q\n")

        assert terminal.wait_for_end() == 1

    assert graph.snapshot().commit.id == head


def test_a_revert_writes_and_reads_them_too(graph: og.Graph, tmp_path: Path) -> None:
    commit = graph.snapshot().commit.id
    run(graph, change("P", "n", 9, name="b"))
    path = tmp_path / "conflicts.jsonl"

    assert main(["revert", commit, graph.uri, "--conflicts-to", str(path)]) == 3
    path.write_text(path.read_text(encoding="utf-8").replace('"take": null', '"take": "base"'), encoding="utf-8")
    assert main(["revert", commit, graph.uri, "--resolve", str(path)]) == 0

    assert (row(graph, "b") or {})["n"] == 5
