"""`omnigraph fmt`: in place, all or nothing for each file, and never a file with errors."""

import io
import json
import stat
import sys
from pathlib import Path

import pytest

from omnigraph.cli.main import main

UGLY = "node   Person{name:String   // who\n}\n"
BROKEN = "node Person {\n"


def ugly(directory: Path, name: str = "s.pg") -> Path:
    path = directory / name
    path.write_text(UGLY, encoding="utf-8")
    return path


def formatted(directory: Path) -> Path:
    path = ugly(directory, "formatted.pg")
    assert main(["fmt", str(path)]) == 0
    return path


def test_a_file_is_rewritten_in_place_with_its_comments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ugly(tmp_path)

    code = main(["fmt", str(path)])

    text = path.read_text(encoding="utf-8")
    assert code == 0
    assert text.startswith("node Person {\n")
    assert "// who" in text
    assert capsys.readouterr().out == f"formatted {path}\n1 file: 1 changed, 0 unchanged\n"


def test_a_formatted_file_is_not_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = formatted(tmp_path)
    before = path.stat()
    capsys.readouterr()

    code = main(["fmt", str(path)])

    assert code == 0
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert capsys.readouterr().out == "1 file: 0 changed, 1 unchanged\n"


def test_check_lists_what_would_change_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ugly(tmp_path)

    code = main(["fmt", "--check", str(path)])

    assert code == 1
    assert path.read_text(encoding="utf-8") == UGLY
    assert capsys.readouterr().out == f"would change {path}\n1 file: 1 changed, 0 unchanged\n"


def test_check_of_formatted_files_exits_0(tmp_path: Path) -> None:
    path = formatted(tmp_path)

    assert main(["fmt", "--check", str(path)]) == 0


def test_a_file_with_errors_is_left_alone_and_the_others_are_formatted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = ugly(tmp_path), tmp_path / "bad.pg"
    bad.write_text(BROKEN, encoding="utf-8")

    code = main(["fmt", str(bad), str(good)])

    captured = capsys.readouterr()
    assert code == 1
    assert bad.read_text(encoding="utf-8") == BROKEN
    assert good.read_text(encoding="utf-8") != UGLY
    assert "error[S000]" in captured.err
    assert captured.out.endswith("2 files: 1 changed, 0 unchanged, 1 with errors\n")


def test_json_tells_what_became_of_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = ugly(tmp_path), tmp_path / "bad.pg"
    bad.write_text(BROKEN, encoding="utf-8")

    code = main(["fmt", "--json", str(bad), str(good)])

    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert code == 1
    assert captured.err == ""
    assert document["files"] == [{"file": str(bad), "status": "invalid"}, {"file": str(good), "status": "changed"}]
    assert {one["code"] for one in document["diagnostics"]} == {"S000"}


def test_a_dash_is_a_filter(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UGLY.encode()), encoding="utf-8"))

    code = main(["fmt", "--language", "schema", "-"])

    captured = capsys.readouterr()
    assert code == 0
    assert captured.out.startswith("node Person {\n")
    assert captured.out.endswith("}\n")
    assert captured.err == ""


def test_a_filter_prints_nothing_for_a_text_with_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BROKEN.encode()), encoding="utf-8"))

    code = main(["fmt", "--language", "schema", "-"])

    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert "--> <stdin>:" in captured.err


@pytest.mark.parametrize("name", ["-", "people.txt"])
def test_what_has_no_language_by_name_needs_the_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["fmt", name])

    assert code == 2
    assert "--language schema or --language query" in capsys.readouterr().err


def test_the_mode_of_a_file_is_kept(tmp_path: Path) -> None:
    path = ugly(tmp_path)
    path.chmod(0o640)

    main(["fmt", str(path)])

    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = ugly(tmp_path), tmp_path / "link.pg"
    link.symlink_to(path)

    main(["fmt", str(link)])

    assert link.is_symlink()
    assert path.read_text(encoding="utf-8").startswith("node Person {\n")


def test_a_failed_write_leaves_the_old_text_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ugly(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)

    code = main(["fmt", str(path)])

    assert code == 5
    assert path.read_text(encoding="utf-8") == UGLY
    assert [one.name for one in tmp_path.iterdir()] == ["s.pg"]


def test_a_directory_stands_for_the_files_below_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / ".hidden").mkdir()
    above, below, hidden = ugly(tmp_path), ugly(tmp_path / "below"), ugly(tmp_path / ".hidden")
    notes = ugly(tmp_path, "notes.txt")

    code = main(["fmt", str(tmp_path)])

    assert code == 0
    assert capsys.readouterr().out == f"formatted {below}\nformatted {above}\n2 files: 2 changed, 0 unchanged\n"
    assert hidden.read_text("utf-8") == notes.read_text("utf-8") == UGLY


def test_of_a_directory_only_files_of_the_language_are_taken(tmp_path: Path) -> None:
    ugly(tmp_path)

    assert main(["fmt", str(tmp_path), "--language", "query"]) == 2


def test_a_directory_with_nothing_to_format_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["fmt", str(tmp_path)])

    assert code == 2
    assert "is a directory without a file that ends in .gq or .pg" in capsys.readouterr().err
