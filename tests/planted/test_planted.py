"""Check that the planted bugs still apply, and that a named test notices each of them."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "omnigraph"
CATALOGUE = Path(__file__).parent / "bugs"
FEWEST = 100
"""How many bugs the catalogue has at least."""
FAILED = 1
"""The exit code of pytest when tests ran and some failed; others mean that none ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """One bug: a piece of text to replace in a file of the package, and the test that must fail then."""

    name: str
    file: str
    find: str
    replace: str
    test: str

    def apply(self, package: Path) -> None:
        """Write the bug into a copy of the package."""
        path = package / self.file
        text = path.read_text("utf-8")
        path.write_text(text.replace(self.find, self.replace), "utf-8")


def read_catalogue() -> list[PlantedBug]:
    """Return all bugs, by file and order."""
    entries = [entry for path in sorted(CATALOGUE.glob("*.toml")) for entry in tomllib.loads(path.read_text())["bug"]]
    trimmed = ({**entry, "find": trim(entry["find"]), "replace": trim(entry["replace"])} for entry in entries)
    return [PlantedBug(**entry) for entry in trimmed]


def trim(text: str) -> str:
    """Remove the line break after the opening quotes, which TOML drops already, and the one before the closing ones."""
    return text.removesuffix("\n")


BUGS = read_catalogue()
NAMED = [pytest.param(bug, id=bug.name) for bug in BUGS]


def test_there_are_a_hundred_bugs_with_names_of_their_own() -> None:
    names = Counter(bug.name for bug in BUGS)

    assert len(BUGS) >= FEWEST
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if not re.fullmatch(r"[a-z0-9-]+", name)] == []


@pytest.mark.parametrize("bug", NAMED)
def test_a_patch_applies_and_compiles(bug: PlantedBug) -> None:
    text = (PACKAGE / bug.file).read_text("utf-8")

    assert text.count(bug.find) == 1, f"`find` of {bug.name} occurs {text.count(bug.find)} times in {bug.file}"
    assert bug.replace != bug.find
    ast.parse(text.replace(bug.find, bug.replace))


@pytest.mark.parametrize("bug", NAMED)
def test_the_test_of_a_bug_exists(bug: PlantedBug) -> None:
    path, _, name = bug.test.partition("::")
    function = re.split(r"[\[:]", name.rpartition("::")[2])[0] if name else ""

    assert (ROOT / path).is_file()
    assert not function or re.search(rf"def {function}\b|{function} = ", (ROOT / path).read_text("utf-8"))


@pytest.mark.soak
def test_the_named_tests_pass_without_a_bug(tmp_path: Path) -> None:
    result = run_tests(sorted({bug.test for bug in BUGS}), ROOT / "src", tmp_path)

    assert result.returncode == 0, result.stdout[-4000:]


@pytest.mark.soak
@pytest.mark.parametrize("bug", NAMED)
def test_a_bug_is_noticed(bug: PlantedBug, tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(PACKAGE, source / "omnigraph", ignore=shutil.ignore_patterns("__pycache__"))
    bug.apply(source / "omnigraph")

    result = run_tests([bug.test], source, tmp_path)

    assert result.returncode == FAILED, f"{bug.test} did not notice it:\n{result.stdout[-4000:]}"
    assert "error during collection" not in result.stdout, result.stdout[-4000:]


def run_tests(tests: list[str], source: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run tests by name against the package in `source`, in a process of their own."""
    files = tmp_path / "files"
    files.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "soak or not soak", "--timeout", "600", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "TMPDIR": str(files), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, check=False)
