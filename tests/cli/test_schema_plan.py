"""`omnigraph schema plan`: the steps from one schema file to another, without a graph."""

import json
from pathlib import Path

import pytest

from omnigraph.cli.main import main

OLD = "node Person { name: String  age: I32  @key(name) }\n"


def plan(directory: Path, new: str, *options: str) -> int:
    (directory / "old.pg").write_text(OLD, encoding="utf-8")
    (directory / "new.pg").write_text(new, encoding="utf-8")
    return main(
        ["schema", "plan", "--from", str(directory / "old.pg"), "--schema", str(directory / "new.pg"), *options]
    )


def test_the_same_schema_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = plan(tmp_path, OLD)

    assert code == 0
    assert capsys.readouterr().out == "nothing to change\n"


def test_supported_steps_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = plan(tmp_path, OLD.replace("age: I32", "age: I32?  active: Bool @default(true)"))

    out = capsys.readouterr().out
    assert code == 0
    assert "relax_nullability" in out
    assert "add_property" in out


def test_an_unsupported_change_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = plan(tmp_path, OLD.replace("I32", "String"))

    assert code == 1
    assert "OG-MF-106" in capsys.readouterr().out


def test_json_is_one_document_with_the_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = plan(tmp_path, OLD.replace("I32", "String"), "--json")

    document = json.loads(capsys.readouterr().out)
    assert code == 1
    assert document["supported"] is False
    assert [step["code"] for step in document["steps"]] == ["OG-MF-106"]


def test_a_schema_with_errors_is_an_error_with_all_diagnostics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = plan(tmp_path, "node A { x: Strin }\nedge E: A -> B\n", "--json")

    captured = capsys.readouterr()
    error = json.loads(captured.err)["error"]
    assert code == 1
    assert captured.out == ""
    assert error["code"] == "invalid_source"
    assert error["source"].endswith("new.pg")
    assert error["diagnostics"][0]["start"] == {"line": 1, "column": 13, "offset": 12}


def test_a_schema_with_errors_is_shown_with_carets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = plan(tmp_path, "node A { x: Strin }\n")

    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert "new.pg:1:13\n" in captured.err
    assert "^^^^^" in captured.err


def test_stdin_can_not_be_both(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["schema", "plan", "--from", "-", "--schema", "-"])

    assert code == 2
    assert "not both" in capsys.readouterr().err


def test_a_rename_from_nothing_is_refused_in_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = OLD.replace("age: I32", 'years: I32? @rename_from("aeg")')

    code = plan(tmp_path, new)
    text = capsys.readouterr().out
    plan(tmp_path, new, "--json")
    document = json.loads(capsys.readouterr().out)

    assert (code, document["supported"]) == (1, False)
    (refused,) = (step for step in document["steps"] if step["code"] == "OG-MF-109")
    assert "did you mean `age`?" in refused["message"]
    assert refused["message"] in text
