"""The programs of the page about algorithms print what it shows."""

from pathlib import Path

import pytest

from page_blocks import check_programs


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    check_programs("run-algorithms.md", tmp_path, monkeypatch, capsys, programs=1)
