"""`omnigraph examples`: what comes with the package, copied."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.example_graphs import DESCRIPTIONS
from omnigraph.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_directory_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(DESCRIPTIONS) == {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert main(["examples"]) == 0
    assert "research-library" in capsys.readouterr().out
    assert main(["examples", "--json"]) == 0
    assert {one["name"] for one in json.loads(capsys.readouterr().out)["examples"]} == set(DESCRIPTIONS)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_an_example_is_copied_whole(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {path.relative_to(EXAMPLES): path.read_bytes() for path in (EXAMPLES / name).rglob("*") if path.is_file()}

    assert main(["examples", name]) == 0

    copied = here / "examples"
    assert {path.relative_to(copied): path.read_bytes() for path in copied.rglob("*") if path.is_file()} == wanted
    assert capsys.readouterr().out.endswith(f"copied {len(wanted)} file{'s' if len(wanted) > 1 else ''}\n")


def test_a_directory_may_be_named_and_the_copy_is_usable(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "people", "mine/p", "--json"]) == 0
    assert "schema.pg" in json.loads(capsys.readouterr().out)["files"]

    graph = og.create_graph("people.omni", (here / "mine/p/schema.pg").read_text(encoding="utf-8"))
    graph.load("mine/p/people.jsonl", mode="append")
    graph.close()


def test_nothing_is_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = here / "examples" / "people" / "schema.pg"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", encoding="utf-8")

    assert main(["examples", "people"]) == 2

    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in mine.parent.iterdir()] == ["schema.pg"]
    assert mine.read_text(encoding="utf-8") == "mine"


def test_an_unknown_name_and_a_bad_place(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "peple"]) == 2
    assert "did you mean `people`?" in capsys.readouterr().err
    (here / "file").write_text("x", encoding="utf-8")
    assert main(["examples", "people", "file"]) != 0
    assert "file" in capsys.readouterr().err
