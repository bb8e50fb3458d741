"""What people are told to run runs."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from omnigraph.cli.main import main
from page_programs import printed_by

ROOT = Path(__file__).parents[2]
SHOWN = sorted(str(path) for place in ("examples", "bench", "src") for path in ROOT.glob(f"{place}/**/*.?[gq]"))


def test_the_mistakes_of_the_example_are_five(capsys: pytest.CaptureFixture[str]) -> None:
    people = ROOT / "examples" / "people"

    main(["lint", "--schema", str(people / "schema.pg"), "--query", str(people / "mistakes.gq")])

    assert capsys.readouterr().out.count("error[") == 5


def test_the_benchmark_measures_fifty_queries() -> None:
    result = subprocess.run(
        [sys.executable, "bench/languages.py", "1"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr
    assert "50 queries" in result.stdout
    assert "500 types and 5000 properties" in result.stdout


def test_the_queries_of_the_benchmark_have_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    queries = ROOT / "bench" / "queries"

    code = main(["lint", "--schema", str(queries / "market.pg"), *map(str, sorted(queries.glob("*.gq")))])

    assert code == 0, capsys.readouterr().out


def test_what_is_shown_is_formatted(capsys: pytest.CaptureFixture[str]) -> None:
    correct = [path for path in SHOWN if not path.endswith("mistakes.gq")]

    code = main(["fmt", "--check", *correct])

    assert len(correct) >= 8
    assert code == 0, capsys.readouterr().out


def test_the_benchmark_of_commits_runs() -> None:
    result = subprocess.run(
        [sys.executable, "bench/commits.py", "2", "12", "--short"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "tests", "LANCE_LOG": "error"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert "history: 12 commits to 10" in result.stdout
    assert "requests of: insert into one table (7)" in result.stdout


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )

    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert "['load', 'init']\n" in result.stdout
    assert "{'q.name': 'Grace'}" in result.stdout


@pytest.mark.parametrize(
    "page",
    [
        "docs/tutorial/first-graph.md",
        "docs/tutorial/branches.md",
        "docs/how-to/follow-changes.md",
        "docs/how-to/keep-a-graph-fast.md",
        "docs/how-to/load-data.md",
        "docs/how-to/review-and-merge.md",
        "docs/how-to/undo.md",
        "docs/how-to/use-the-shell.md",
        "docs/how-to/write-a-policy.md",
    ],
)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert programs
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    graph = str(tmp_path / "people.omni")
    main(["init", graph, "--schema", str(ROOT / "examples/people/schema.pg")])
    main(["load", graph, "--mode", "append", "--data", str(ROOT / "examples/people/people.jsonl")])
    capsys.readouterr()

    for program in programs:
        assert printed_by(program, tmp_path).strip()


def test_the_notebook_runs(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "analysis.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("2,000 nodes and 10,000 edges are loaded\n")
    assert re.search(r"^without 10\.5555/\S+ there are [1-9]\d* fewer citations$", result.stdout, re.MULTILINE)
    assert (tmp_path / "analysis.png").exists() == (find_spec("matplotlib") is not None)
