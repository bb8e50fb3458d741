"""The import rule of docs/explanation/architecture.md, including what import-linter can't say.

import-linter refuses contracts that name modules which don't exist yet, and does not see where in a file an import
stands. So the rules about single modules and about functions are checked here, on the syntax trees.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "omnigraph"

DOORS = ("omnigraph.cli", "omnigraph.lsp", "omnigraph.server", "omnigraph.spark")
MEANING = ("omnigraph.lang", "omnigraph.schema", "omnigraph.query")

ONLY_IMPORTED_BY: dict[str, tuple[str, ...]] = {
    "omnigraph.storage.versions": (
        "omnigraph.commit.publisher",
        "omnigraph.commit.version_builder",
    ),
    "omnigraph.storage.cas_table": (  # swaps one of two tables: the manifest and the recovery log
        "omnigraph.commit.manifest_log",
        "omnigraph.commit.recovery_log",
    ),
    "lance": ("omnigraph.storage",),
    "click": DOORS,
    "rich": DOORS,
    "prompt_toolkit": ("omnigraph.cli.shell_prompt",),
    "fastapi": DOORS,
    "starlette": DOORS,
    "uvicorn": DOORS,
    "pyspark": DOORS,
    "cedarpy": ("omnigraph.server",),
    "lsprotocol": ("omnigraph.lsp",),
    "pygls": ("omnigraph.lsp",),
    "mcp": ("omnigraph.server",),
    "mcp_types": ("omnigraph.server",),
    "langchain_core": ("omnigraph.langchain",),
    "pydantic": ("omnigraph.langchain",),
    "llama_index": ("omnigraph.llama_index",),
    "IPython": ("omnigraph.jupyter",),
}
"""A module, and the only modules (with what is below them) that may import it."""

# fmt: off
NOT_IN_MEANING = frozenset({
    "asyncio", "ctypes", "http", "io", "lance", "logging", "multiprocessing", "numpy", "os", "pathlib", "pickle",
    "random", "secrets", "shutil", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid",
})
# fmt: on
"""What `lang`, `schema` and `query` never import: they do no I/O, and read neither clock nor environment."""

MAY_IMPORT_PYARROW_IN_MEANING = ("omnigraph.schema.arrow",)


@dataclass(frozen=True, slots=True)
class Import:
    """`module` imports `target` at `line`. For `from a import b` there is one for `a` and one for `a.b`."""

    module: str
    target: str
    line: int
    is_inside_function: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


@cache
def imports_of(package: Path) -> list[Import]:
    """Every import statement below a package directory."""
    return [found for path in sorted(package.rglob("*.py")) for found in _imports_in(path, package)]


def _imports_in(path: Path, package: Path) -> Iterator[Import]:
    parts = path.relative_to(package.parent).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                origin = ".".join([*above, *([node.module] if node.module else [])])
            targets = [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
        else:
            continue
        for target in targets:
            yield Import(module, target, node.lineno, id(node) in inside)


def is_below(module: str, above: str) -> bool:
    return module == above or module.startswith(above + ".")


def forbidden_imports(imports: list[Import]) -> list[str]:
    """Imports of a module by another than those that `ONLY_IMPORTED_BY` names."""
    return [
        f"{found}; only {', '.join(allowed)} may"
        for found in imports
        for target, allowed in ONLY_IMPORTED_BY.items()
        if is_below(found.target, target)
        and not is_below(found.module, target)
        and not any(is_below(found.module, one) for one in allowed)
    ]


def impure_imports(imports: list[Import]) -> list[str]:
    """Imports of the outside world in the rooms of meaning."""
    return [
        str(found)
        for found in imports
        if any(is_below(found.module, room) for room in MEANING)
        and (
            found.target.partition(".")[0] in NOT_IN_MEANING
            or (found.target.partition(".")[0] == "pyarrow" and found.module not in MAY_IMPORT_PYARROW_IN_MEANING)
        )
    ]


def late_imports(imports: list[Import]) -> list[str]:
    """Imports of our own modules inside functions."""
    return [str(found) for found in imports if found.is_inside_function and is_below(found.target, "omnigraph")]


def uses_of_the_face(imports: list[Import]) -> list[str]:
    """Imports of the package itself, whose names reach every room, by a room that is no door."""
    return [
        str(found)
        for found in imports
        if found.target == "omnigraph" and not any(is_below(found.module, door) for door in DOORS)
    ]


def dynamic_imports(package: Path) -> list[str]:
    """Modules that import by name at run time: `import_module`, `__import__`."""
    return [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__")
    ]


# --- this tree -------------------------------------------------------------------------------------------


def test_protected_modules_are_imported_only_where_allowed() -> None:
    assert forbidden_imports(imports_of(PACKAGE)) == []


def test_the_rooms_of_meaning_do_not_touch_the_outside_world() -> None:
    assert impure_imports(imports_of(PACKAGE)) == []


def test_our_own_modules_are_imported_at_the_top_of_a_file() -> None:
    assert late_imports(imports_of(PACKAGE)) == []


def test_only_public_names_commands_and_verbs_are_imported_by_name() -> None:
    places = {place.partition(":")[0] for place in dynamic_imports(PACKAGE)}

    # The last one is what only servers with an extra have.
    assert places == {
        "__init__.py",
        "cli/lazy_groups.py",
        "graph/lazy_ops.py",
        "ops/graph_views.py",
    }


def test_only_doors_use_the_public_names() -> None:
    assert uses_of_the_face(imports_of(PACKAGE)) == []


def test_the_contracts_of_import_linter_hold() -> None:
    result = lint_imports(PACKAGE.parent)

    assert result.returncode == 0, result.stdout


# --- planted violations: each check catches what it is for ----------------------------------------------------


@pytest.mark.parametrize(
    "module, line",
    [
        ("ops/load.py", "from omnigraph.storage.versions import commit_detached"),
        ("ops/load.py", "from omnigraph.storage import versions"),
        ("commit/recovery.py", "import omnigraph.storage.versions as v"),
        ("commit/time_travel.py", "from ..storage import versions"),
        ("commit/publisher.py", "from omnigraph.storage import cas_table"),
        ("commit/publisher.py", "import lance.dataset"),
        ("engine/executor.py", "from lance import LanceDataset"),
        ("graph.py", "import click"),
        ("ops/load.py", "from pyspark.sql import DataFrame"),
        ("config/settings_file.py", "import rich.console"),
        ("spark/load/load_engine.py", "def late() -> None:\n    import cedarpy"),
        ("retrieval.py", "from langchain_core.documents import Document"),
        ("langchain.py", "import llama_index.core"),
        ("engine/result_forms.py", "from IPython.display import SVG"),
    ],
)
def test_a_forbidden_import_is_caught_in_a_module_that_does_not_exist_yet(
    tmp_path: Path, module: str, line: str
) -> None:
    package = plant(tmp_path, {module: line})

    found = forbidden_imports(imports_of(package))

    assert len(found) >= 1
    assert all("omnigraph." + module.removesuffix(".py").replace("/", ".") in one for one in found)


@pytest.mark.parametrize(
    "module, line",
    [
        ("commit/publisher.py", "from omnigraph.storage import versions"),
        ("commit/manifest_log.py", "from omnigraph.storage.cas_table import swap"),
        ("commit/recovery_log.py", "from omnigraph.storage.cas_table import swap"),
        ("commit/publisher.py", "from omnigraph.storage.cas_table_errors import SwapLostError"),
        ("storage/lance_table.py", "import lance"),
        ("cli/table.py", "from rich.table import Table"),
        ("spark/load/load_engine.py", "import pyspark"),
    ],
)
def test_an_allowed_import_is_let_through(tmp_path: Path, module: str, line: str) -> None:
    package = plant(tmp_path, {module: line})

    assert forbidden_imports(imports_of(package)) == []


@pytest.mark.parametrize("line", ["import os", "from pathlib import Path", "import pyarrow as pa", "import time"])
def test_an_impure_import_is_caught(tmp_path: Path, line: str) -> None:
    package = plant(tmp_path, {"query/bind.py": line})

    assert len(impure_imports(imports_of(package))) >= 1


def test_a_late_import_is_caught(tmp_path: Path) -> None:
    package = plant(tmp_path, {"ops/open.py": "def f() -> None:\n    from omnigraph.storage import uri"})

    assert len(late_imports(imports_of(package))) >= 1


@pytest.mark.parametrize("line", ["import omnigraph", "from omnigraph import open_graph", "from .. import Graph"])
def test_a_room_that_uses_the_public_names_is_caught(tmp_path: Path, line: str) -> None:
    package = plant(tmp_path, {"ops/load.py": line})

    assert len(uses_of_the_face(imports_of(package))) == 1


@pytest.mark.parametrize(
    "module, line",
    [
        ("storage/uri.py", "import omnigraph.engine"),  # a layer imports one above it
        ("query/bind.py", "import omnigraph.storage"),  # meaning imports matter
        ("commit/commit_plan.py", "import omnigraph.schema"),  # matter imports meaning
        ("server/http/app.py", "import omnigraph.spark"),  # two doors
        ("langchain.py", "import omnigraph.llama_index"),  # two doors of a file each
        ("retrieval.py", "import omnigraph.jupyter"),  # what doors share imports none
        ("tools.py", "import omnigraph.errors"),  # a room that the layers don't name
    ],
)
def test_import_linter_catches_a_planted_violation(tmp_path: Path, module: str, line: str) -> None:
    plant(tmp_path, {module: line})

    result = lint_imports(tmp_path)

    assert result.returncode == 1
    assert "BROKEN" in result.stdout or "exhaustive" in result.stdout


def test_import_linter_catches_a_cycle_between_siblings(tmp_path: Path) -> None:
    plant(tmp_path, {"ops/a.py": "import omnigraph.ops.b", "ops/b.py": "import omnigraph.ops.a"})

    result = lint_imports(tmp_path)

    assert "No cycles between siblings BROKEN" in result.stdout


def plant(root: Path, files: dict[str, str]) -> Path:
    """A package with the rooms of this one, empty but for `files`."""
    package = root / "omnigraph"
    for room in ("", *(path.parent.name for path in PACKAGE.glob("*/__init__.py"))):
        (package / room).mkdir(exist_ok=True)
        (package / room / "__init__.py").touch()
    for module in PACKAGE.glob("*.py"):
        (package / module.name).touch()
    for name, text in files.items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).parent.joinpath("__init__.py").touch()
        (package / name).write_text(text + "\n", encoding="utf-8")
    return package


def lint_imports(source_root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with this repository's contracts over the package below `source_root`."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports_command as main; sys.exit(main())",
            "--no-cache",
            "--no-logo",
            "--config",
            str(ROOT / "pyproject.toml"),
        ],
        env={**os.environ, "PYTHONPATH": str(source_root), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
