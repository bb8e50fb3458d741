"""`omnigraph clone`: what it prints, and how it ends."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from cloning import branched, present, tree
from omnigraph.cli.main import main
from omnigraph.cli.progress import format_progress


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return branched(tmp_path_factory.mktemp("source")).uri


def test_the_branches_of_the_clone_are_shown(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["clone", uri, str(tmp_path / "c")])

    made = og.open_graph(str(tmp_path / "c"), read_only=True)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    heads = {name: made.snapshot(branch=name) for name in ("main", "idea", "review")}
    assert code == 0
    assert lines[0].startswith(f"cloned to {tmp_path / 'c'}: ")
    assert lines[1:] == [
        "branch commit rows",
        *(f"{name} {head.commit.id} {sum(pin.rows for pin in head.pins.values())}" for name, head in heads.items()),
    ]


def test_json_has_what_a_program_needs(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["clone", uri, str(tmp_path / "c"), "--branch", "review", "--json"])

    printed = json.loads(capsys.readouterr().out)
    files = [path for path in tree(tmp_path / "c") if path.startswith(("nodes/", "edges/"))]
    assert code == 0
    assert (printed["source"], printed["target"]) == (uri, str(tmp_path / "c"))
    assert list(printed["branches"]) == ["main", "review"]
    assert (printed["tables"], printed["collected"], printed["files"]) == (6, 0, len(files))


@pytest.mark.parametrize(
    "target, code, told",
    [
        ("taken", 3, "holds `notes.txt`"),
        ("g/inside", 2, "is inside"),
        ("http://x/y", 2, "it is a server's address"),
    ],
)
def test_a_place_that_will_not_do_is_told(
    target: str, code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = branched(tmp_path).uri
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")

    ended = main(["clone", source, target if "://" in target else str(tmp_path / target)])

    assert ended == code
    assert told in capsys.readouterr().err


def test_an_unfinished_clone_is_told_by_every_command(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_FAULT", "clone.ready=error")
    failed = main(["clone", uri, str(tmp_path / "c")])
    monkeypatch.delenv("OMNIGRAPH_FAULT")
    capsys.readouterr()

    ended = main(["snapshot", str(tmp_path / "c"), "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert (failed, ended) == (5, 4)
    assert (error["code"], error["source"]) == ("unfinished_clone", uri)
    assert f"`omnigraph clone {uri} {tmp_path / 'c'}` resumes it" in error["message"]


def test_after_an_interrupt_the_same_command_goes_on(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = og.clone_graph

    def interrupted(*arguments: str, **options: object) -> None:
        def stop(_: object) -> None:
            raise KeyboardInterrupt

        real(*arguments, **{**options, "progress": stop})  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(og, "clone_graph", interrupted)
    stopped = main(["clone", uri, str(tmp_path / "c")])
    told = capsys.readouterr().err
    monkeypatch.undo()
    again = main(["clone", uri, str(tmp_path / "c")])

    assert (stopped, again) == (130, 0)
    assert "run the command again to resume" in told
    assert present(og.open_graph(str(tmp_path / "c"))) == present(og.open_graph(uri, read_only=True))


def test_how_far_it_is_is_told_in_files_and_bytes() -> None:
    assert format_progress("3 of 10 files", nbytes=1_500_000, share=0.5).endswith("50%  1.5 MB")
