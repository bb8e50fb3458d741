"""Completion by the shell: the script that it is told by, and what a bash that reads it writes."""

import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
SCHEMA = "node Person { name: String @key  age: I32? }\nnode Place { name: String @key }\nedge Likes: Person -> Place"
QUERIES = "query friends() { match { $p: Person } return { $p } }\nquery places() { match { $p: Place } return { $p } }"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["completion", shell])

    assert code == 0
    assert f"_OMNIGRAPH_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["completion", "tcsh"])

    assert code == 2
    assert "bash" in capsys.readouterr().err


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a graph, and with files whose names are not easy."""
    graph = og.create_graph(str(tmp_path / "people.omni"), SCHEMA)
    graph.branches.create("review/ages")
    graph.tags.create("release-1")
    (tmp_path / "queries.gq").write_text(QUERIES)
    (tmp_path / "two words.csv").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Person.csv").touch()
    return tmp_path


def proposed(home: Path, line: str, **env: str) -> list[str]:
    """What is proposed for the end of a line, as `kind,word`."""
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph"],
        env={**os.environ, "COMP_LINE": line, "_OMNIGRAPH_COMPLETE": "bash_complete", **env},
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return list(filter(None, done.stdout.split("\n")))


@pytest.mark.parametrize(
    "line, expected",
    [
        ("bra", ["plain,branch"]),
        ("load --mo", ["plain,--mode"]),
        ("load --mode ", ["plain,append", "plain,merge", "plain,overwrite"]),
        ("query people.omni --branch r", ["plain,review/ages"]),
        ("query --store people.omni --branch r", ["plain,review/ages"]),
        ("branch delete rev", ["plain,review/ages"]),
        ("branch create rev", []),
        ("branch merge rev", ["plain,review/ages"]),
        ("tag delete r", ["plain,release-1"]),
        ("diff main re", ["plain,review/ages", "plain,release-1"]),
        ("export --type P", ["plain,Person", "plain,Place"]),
        ("load people.omni --mode append --map Person.", ["plain,Person.name=", "plain,Person.age="]),
        ("load people.omni --mode append --node Pl", ["plain,Place="]),
        ("load people.omni --mode append --node Person=data/P", ["plain,data/Person.csv"]),
        ("query --query queries.gq f", ["plain,friends", "file,f"]),
        ("show people.omni Pe", ["plain,Person", "file,Pe"]),
        ("algorithm le", ["plain,leiden"]),
        ("lint qu", ["file,qu"]),
        ("query --query qu", ["file,qu"]),
        ("clone peo", ["file,peo"]),
        ("mutate -e x --message ", []),
        # What can't be read proposes nothing, and says nothing.
        ("query --store s3:// --branch r", []),
        ("query --query nope.gq f", ["file,f"]),
    ],
)
def test_a_word_is_completed(line: str, expected: list[str], home: Path) -> None:
    assert proposed(home, f"omnigraph {line}") == expected


def test_a_damaged_graph_does_not_end_completion(home: Path) -> None:
    (home / "broken.omni" / "__manifest").mkdir(parents=True)

    assert proposed(home, "omnigraph embed broken.omni --type ") == []


def test_a_wrong_settings_file_does_not_end_completion(home: Path) -> None:
    (home / "omnigraph.toml").write_text("[client]\nnonsense = 1\n")

    assert proposed(home, "omnigraph query people.omni --branch r", HOME=str(home)) == ["plain,review/ages"]


@pytest.fixture
def bash(home: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], str]]:
    """A bash at a terminal that has read the script: what it makes of keys."""
    main(["completion", "bash"])
    (home / ".script").write_text(capsys.readouterr().out)
    (home / ".bin").mkdir()
    command = home / ".bin" / "omnigraph"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m omnigraph "$@"\n')
    command.chmod(0o755)
    leader, follower = pty.openpty()
    state = termios.tcgetattr(follower)
    state[3] &= ~termios.ECHO
    termios.tcsetattr(follower, termios.TCSANOW, state)
    env = {**os.environ, "PS1": "", "TERM": "dumb", "PATH": f"{home}/.bin:{os.environ['PATH']}", "INPUTRC": "/dev/null"}
    process = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=env,
        cwd=home,
        start_new_session=True,
    )
    os.close(follower)

    def press(keys: str, until: str) -> str:
        os.write(leader, keys.encode())
        text, deadline = "", time.monotonic() + 120
        while until not in text:
            assert time.monotonic() < deadline, text
            if select.select([leader], [], [], 0.2)[0]:
                text += os.read(leader, 65_536).decode()
        return text

    press("source .script; bind 'set bell-style none'; echo read''y\n", "ready\r\n")

    def complete(line: str) -> str:
        """Return what bash makes of a line after Tab, in quotes word by word."""
        # Tab at the end; then the line is made the arguments of printf.
        keys = f"omnigraph {line}\t\x01printf '<%s>' \x05; echo don''e\n"
        return press(keys, "done\r\n").rpartition("<omnigraph>")[2].removesuffix("done\r\n")

    yield complete
    process.kill()
    process.wait()
    os.close(leader)


@needs_bash
@pytest.mark.parametrize(
    "line, completed",
    [
        ("bra", "<branch>"),
        ("query peo", "<query><people.omni/>"),
        ("query --query que", "<query><--query><queries.gq>"),
        ("query --query queries.gq pl", "<query><--query><queries.gq><places>"),
        ("load people.omni two", "<load><people.omni><two words.csv>"),
        ("load people.omni --node Person=data/P", "<load><people.omni><--node><Person=data/Person.csv>"),
        ("load people.omni --map Person.n", "<load><people.omni><--map><Person.name=>"),
        ("query people.omni --branch=rev", "<query><people.omni><--branch=review/ages>"),
        ("branch delete rev", "<branch><delete><review/ages>"),
        ("show people.omni Pl", "<show><people.omni><Place>"),
        ("show da", "<show><data/>"),
        ("mutate people.omni -e 'x' --message two", "<mutate><people.omni><-e><x><--message><two>"),
    ],
)
def test_bash_completes_names_and_paths(line: str, completed: str, bash: Callable[[str], str]) -> None:
    assert bash(line) == completed
