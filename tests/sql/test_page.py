"""The programs on the page about SQL print what the page shows."""

from pathlib import Path

import pytest

from page_blocks import check_programs


def test_the_programs_of_the_page_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_programs("ask-with-sql.md", tmp_path, monkeypatch, capsys, programs=2)
