"""Completion by the shell: the script that it is told by, and what it is answered."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.cli.main import main


def completed(words: str, place: int) -> list[str]:
    """What bash is offered for the word at that place, each behind the kind that it has."""
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(place), "_OMNIGRAPH_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["completion", shell])

    assert code == 0
    assert f"_OMNIGRAPH_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_script_of_bash_is_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)

    done = subprocess.run(["bash", "-n", str(tmp_path / "script")], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["completion", "tcsh"])

    assert code == 2
    assert "bash" in capsys.readouterr().err


def test_commands_are_completed() -> None:
    assert completed("omnigraph bra", 1) == ["plain,branch"]


def test_options_are_completed() -> None:
    assert "plain,--mode" in completed("omnigraph load --mo", 2)
