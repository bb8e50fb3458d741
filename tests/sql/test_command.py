"""`omnigraph sql` as a process: what it prints, and nothing beside it."""

import json
import subprocess
import sys

import omnigraph as og


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "omnigraph", "sql", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_statement_prints_its_rows_and_nothing_else(people: og.Graph) -> None:
    ended = run(people.uri, "select name from Person where age < $n order by name", "--param", "n=20", "--json")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["rows"] == [{"name": "bob"}]


def test_a_mistake_is_one_line_on_stderr(people: og.Graph) -> None:
    ended = run(people.uri, "select nme from Person")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1
    assert "nme" in ended.stderr


def test_the_statement_is_needed() -> None:
    ended = run()

    assert ended.returncode == 2
    assert "expected URI and STATEMENT" in ended.stderr
