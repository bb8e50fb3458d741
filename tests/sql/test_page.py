"""The programs on the page about SQL print what the page shows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_programs_of_the_page_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}

    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / "ask-with-sql.md").read_text(encoding="utf-8"))

    assert [kind for kind, _ in blocks] == ["python", "text", "python", "text", "text"]
    for kind, text in blocks[:4]:
        if kind == "python":
            exec(compile(text, "page", "exec"), names)  # noqa: S102 - our own page
        else:
            assert capsys.readouterr().out == text
