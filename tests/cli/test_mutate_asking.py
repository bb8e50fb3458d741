"""A mutation that is only tried, and the question before many rows are deleted."""

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

import omnigraph as og
from mutating import new_graph, people
from omnigraph.cli.main import main
from terminals import Terminal

REMOVE = 'query q() { delete Person where mood = "glad" }'


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = new_graph(tmp_path_factory.mktemp("crowd"))
    graph.load(BytesIO(b"".join(b'{"type":"Person","data":{"name":"p%d"}}\n' % n for n in range(1_001))), mode="append")
    return graph


def test_a_dry_run_shows_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = new_graph(tmp_path)
    people(graph, "ada")

    assert main(["mutate", graph.uri, "--dry-run", "-e", REMOVE]) == 0
    head = graph.snapshot().commit.id
    assert capsys.readouterr().out == (
        f"would change in commit {head}:\n"
        "type    inserted  updated  deleted\n"
        "Person         0        0        1\n"
        "\n"
        "   type    id   values\n"
        '-  Person  ada  name: "ada", mood: "glad"\n'
    )

    assert main(["mutate", graph.uri, "--dry-run", "--json", "-e", REMOVE]) == 0
    assert json.loads(capsys.readouterr().out)["preview"]["types"] == {
        "Person": {"inserted": 0, "updated": 0, "deleted": 1}
    }
    assert len(graph.commits()) == 2


def test_many_rows_are_asked_about(crowd: og.Graph) -> None:
    head = crowd.snapshot().commit.id
    with Terminal(["mutate", crowd.uri, "-e", REMOVE]) as terminal:
        shown = terminal.wait_for("Delete 1,001 rows? [y/N]")
        assert "and 981 more" in shown
        terminal.press("n\n")

        assert terminal.wait_for_end() == 1
        assert "nothing was changed" in terminal.text

    assert crowd.snapshot().commit.id == head


def test_the_answer_holds_for_the_state_it_was_asked_on(crowd: og.Graph) -> None:
    with Terminal(["mutate", crowd.uri, "-e", REMOVE]) as terminal:
        terminal.wait_for("[y/N]")
        other = crowd.mutate('query q() { insert Person { name: "late", mood: "sad" } }')
        terminal.press("y\n")

        assert terminal.wait_for_end() == 3

    assert crowd.snapshot().commit.id == other.commit_id


def test_without_a_terminal_nobody_is_asked(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    lines = b"".join(b'{"type":"Person","data":{"name":"p%d"}}\n' % n for n in range(1_001))
    graph.load(BytesIO(lines), mode="append")

    done = subprocess.run(
        [sys.executable, "-m", "omnigraph", "mutate", graph.uri, "-e", REMOVE], stdin=subprocess.DEVNULL, check=False
    )

    assert done.returncode == 0
    assert graph.table("Person").to_table().num_rows == 0


@pytest.mark.parametrize("is_agreed", [True, False])
def test_yes_and_few_rows_need_no_answer(tmp_path: Path, is_agreed: bool) -> None:
    graph = new_graph(tmp_path)
    count = 1_001 if is_agreed else 1_000
    lines = b"".join(b'{"type":"Person","data":{"name":"p%d"}}\n' % n for n in range(count))
    graph.load(BytesIO(lines), mode="append")

    with Terminal(["mutate", graph.uri, "-e", REMOVE, *(["--yes"] if is_agreed else [])]) as terminal:
        assert terminal.wait_for_end() == 0
        assert f"{count} nodes, 0 edges" in terminal.text
