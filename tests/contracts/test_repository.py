"""The tracked files hold nothing of the machine they were written on, and the lock names all that is installed."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import omnigraph

ROOT = Path(__file__).parents[2]
SKIPPED = {".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".import_linter_cache", ".hypothesis", "dist"}

# Written in pieces, so that this file does not match itself.
MACHINE_PATHS = [f"/{name}/" for name in ("work", "home", "Users", "root", "opt", "mnt")]
REGISTRY_HOSTS = ["pypi" + ".org", "python" + "hosted.org", "/" + "simple/", "artifact" + "ory", "index" + "-url="]
FOREIGN = re.compile("|".join(map(re.escape, [*MACHINE_PATHS, *REGISTRY_HOSTS])))


def tracked_files() -> list[Path]:
    """What git tracks or would track; in a copy without git, everything that is not built."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for path in sorted(ROOT.rglob("*")) if not SKIPPED & set(path.relative_to(ROOT).parts)]
    return [path for path in paths if path.is_file()]


def locked() -> dict[str, str]:
    """Each requirement of the lock, by name, with all its lines."""
    entries: dict[str, str] = {}
    name = ""
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            name = line.partition("==")[0].strip()
        if name:
            entries[name] = entries.get(name, "") + line + "\n"
    return entries


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked_files()
        for match in FOREIGN.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]

    assert found == []


@pytest.mark.parametrize("line", [f"see {MACHINE_PATHS[1]}ada/x", f"https://{REGISTRY_HOSTS[0]}/x"])
def test_a_planted_address_is_found(line: str) -> None:
    assert FOREIGN.search(line)


def test_every_locked_requirement_is_pinned_and_has_hashes() -> None:
    requirements = locked()

    assert len(requirements) > 10
    assert [name for name, lines in requirements.items() if "==" not in lines or "--hash=sha256:" not in lines] == []


def test_the_lock_names_no_address_and_sets_no_option() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")

    assert "://" not in text
    assert not [line for line in text.splitlines() if line.startswith("-")]


def test_the_lock_names_every_direct_requirement() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    direct = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.split(r"[<>=!~;\[ ]", requirement)[0].lower() for requirement in direct}

    assert names - set(locked()) == set()


def test_the_changelog_tells_of_this_release() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert f"## {omnigraph.__version__}" in changelog


def implemented() -> dict[str, list[str]]:
    """Return the files that the newcomer's table names, by what they implement."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where is … implemented?")[2]
    rows = re.findall(r"^\| ([^|`]+) \| (`.+`) \|$", section.partition("\n## ")[0], re.MULTILINE)
    return {what: re.findall(r"`([^`]+)`", files) for what, files in rows}


def test_the_table_of_words_names_files_that_are_there() -> None:
    table = implemented()

    assert len(table) >= 20
    assert [path for files in table.values() for path in files if not (ROOT / path).is_file()] == []


def test_hooks_before_a_commit_fetch_nothing() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")

    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert set(re.findall(r"language: (\S+)", text)) == {"system"}


@pytest.mark.parametrize("name", [".ci/run", "tools/setup.sh", "tools/lock.sh"])
def test_scripts_can_be_run(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)


def test_texts_end_with_one_line_break_and_have_no_trailing_space() -> None:
    texts = [path for path in tracked_files() if path.suffix in {".py", ".md", ".toml", ".sh", ".pg", ".gq"}]
    bad = []
    for path in texts:
        text = path.read_text(encoding="utf-8")
        if text and (not text.endswith("\n") or text.endswith("\n\n") or re.search(r"[ \t]$|\r", text, re.MULTILINE)):
            bad.append(str(path.relative_to(ROOT)))

    assert bad == []


def test_no_tracked_file_is_large() -> None:
    assert [str(path.relative_to(ROOT)) for path in tracked_files() if path.stat().st_size > 512 * 1024] == []
