"""Temporary directories go with their process, however it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.engine.bulk.temp_directory import TempDirectory

PREFIX = "omnigraph-test-"
DIES = f"""
import os
from omnigraph.engine.bulk.temp_directory import TempDirectory
scratch = TempDirectory({PREFIX!r})
(scratch.directory / "rows").write_bytes(b"x")
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_when_it_is_closed(place: Path) -> None:
    scratch = TempDirectory(PREFIX)
    (scratch.directory / "rows").write_bytes(b"x")

    scratch.close()
    scratch.close()

    assert list(place.iterdir()) == []


def test_nobody_else_can_look_into_it() -> None:
    scratch = TempDirectory(PREFIX)

    assert scratch.directory.stat().st_mode & 0o077 == 0


def test_what_a_killed_process_left_is_removed_by_the_next(place: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES], check=False)
    (left,) = place.iterdir()

    scratch = TempDirectory(PREFIX)

    assert list(place.iterdir()) == [scratch.directory]
    assert left != scratch.directory


def test_what_somebody_uses_stays(place: Path) -> None:
    first = TempDirectory(PREFIX)

    second = TempDirectory(PREFIX)

    assert sorted(place.iterdir()) == sorted([first.directory, second.directory])


def test_other_directories_stay(place: Path) -> None:
    (place / "omnigraph-testament").mkdir()
    (place / "omnigraph-testament" / "lock").write_bytes(b"")
    (place / f"{PREFIX}old").mkdir()

    TempDirectory(PREFIX).close()

    assert sorted(path.name for path in place.iterdir()) == [f"{PREFIX}old", "omnigraph-testament"]


def test_it_goes_with_whoever_forgot_to_close_it(place: Path) -> None:
    forgets = f"from omnigraph.engine.bulk.temp_directory import TempDirectory; scratch = TempDirectory({PREFIX!r})"

    subprocess.run([sys.executable, "-c", forgets], check=True)

    assert list(place.iterdir()) == []
