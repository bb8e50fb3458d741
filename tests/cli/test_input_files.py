"""Files that can't be read or written, each with its own error and exit code."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from omnigraph.cli import input_files
from omnigraph.cli.main import main


def error_of(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    captured = capsys.readouterr()
    assert captured.out == ""
    error = json.loads(captured.err)["error"]
    assert isinstance(error, dict)
    return error


def as_stdin(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_a_missing_file_exits_4_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lint", "--query", "no/such.gq"])

    captured = capsys.readouterr()
    assert code == 4
    assert captured.out == ""
    assert captured.err == "error: there is no file `no/such.gq`; check the path and the working directory\n"


@pytest.mark.parametrize("command", [["lint", "--query"], ["lint", "--schema"], ["fmt"]])
def test_a_missing_file_with_json_is_a_document(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    suffix = ".pg" if "--schema" in command else ".gq"

    code = main([*command, f"missing{suffix}", "--json"])

    error = error_of(capsys)
    assert code == 4
    assert (error["code"], error["kind"], error["path"]) == ("file_not_found", "not_found", f"missing{suffix}")


def test_a_directory_is_not_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lint", "--json", "--query", str(tmp_path)])

    assert code == 1
    assert error_of(capsys)["code"] == "not_a_file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_denied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.gq"
    path.touch(mode=0o000)

    code = main(["lint", "--json", "--query", str(path)])

    assert code == 1
    assert error_of(capsys)["code"] == "file_denied"


def test_a_denied_read_is_told_as_such(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)

    code = main(["lint", "--json", "--query", "q.gq"])

    error = error_of(capsys)
    assert code == 1
    assert (error["code"], error["action"]) == ("file_denied", "read")


def test_a_broken_disk_is_unavailable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", fail)

    code = main(["lint", "--json", "--query", "q.gq"])

    assert code == 5
    assert error_of(capsys)["code"] == "file_unreadable"


def test_a_file_that_is_not_utf8_is_told_with_the_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.gq"
    path.write_bytes(b"// caf\xe9\n")

    code = main(["lint", "--json", "--query", str(path)])

    error = error_of(capsys)
    assert code == 1
    assert (error["code"], error["offset"], error["byte"]) == ("not_utf8", 6, 0xE9)


def test_a_file_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(input_files, "MAX_SOURCE_BYTES", 10)
    path = tmp_path / "q.gq"
    path.write_bytes(b"/" * 11)

    code = main(["lint", "--json", "--query", str(path)])

    assert code == 1
    assert error_of(capsys)["code"] == "text_too_large"


def test_a_path_with_a_nul_is_an_error_and_not_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lint", "--json", "--query", "a\0b.gq"])

    assert code == 5
    assert error_of(capsys)["code"] == "file_unreadable"


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    as_stdin(b"query (", monkeypatch)

    code = main(["lint", "--query", "-"])

    assert code == 1
    assert "--> <stdin>:1:7\n" in capsys.readouterr().out


def test_stdin_that_is_not_utf8_is_told_with_the_byte(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_stdin(b"\xff", monkeypatch)

    code = main(["fmt", "--language", "query", "-", "--json"])

    error = error_of(capsys)
    assert code == 1
    assert (error["code"], error["path"], error["offset"]) == ("not_utf8", "<stdin>", 0)
