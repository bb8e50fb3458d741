"""The library changes nothing of the process that uses it, and no package reaches up by the name of a module.

A process may have its own import hooks, its own settings of the garbage collector and its own pandas. What a short
command needs beyond that, the command line does in its own process.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "omnigraph"

USE = """
import gc, sys, types

MODULES = ()
if sys.argv[2] == "with its own imports":
    import pyarrow, pyarrow.lib, pyarrow.compute, lance, lance.dataset, lance.fragment

    MODULES = (pyarrow, pyarrow.lib, pyarrow.compute, lance, lance.dataset, lance.fragment)

def describe():
    classes = [value for module in MODULES for value in vars(module).values() if isinstance(value, type)]
    owners = [*MODULES, *{id(one): one for one in classes}.values()]
    attributes = {
        (id(owner), name): id(value)
        for owner in owners
        for name, value in list(vars(owner).items())
        if callable(value) or name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    return {
        # pandas, which pyarrow may import, imports six, and that has one.
        "finders": [id(finder) for finder in sys.meta_path if type(finder).__module__ != "six"],
        "hooks": [id(hook) for hook in sys.path_hooks],
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug(), list(gc.callbacks)),
        "excepthook": id(sys.excepthook),
        "pool": MODULES and pyarrow.default_memory_pool().backend_name,
        "attributes": attributes,
    }

switched = []
for name in ("collect", "disable", "enable", "freeze", "set_threshold"):
    setattr(gc, name, lambda *_, name=name: switched.append(name))
before = describe()

import omnigraph

graph = omnigraph.create_graph(sys.argv[1], "node P { k: String @key  n: I64? }\\nedge Knows: P -> P")
graph.load([{"type": "P", "data": {"k": k}} for k in "abc"], mode="append")
graph.mutate('query m() { insert P { k: "d", n: 1 }  insert Knows { from: "a", to: "d" } }')
graph.mutate('query m() { update P set { n: 2 } where k = "a" }')
graph.mutate('query m() { delete P where k = "b" }')
graph = omnigraph.open_graph(sys.argv[1])
rows = graph.query("query q() { match { $a: P  $a knows $b } return { $a.k, $a.n, $b.k } }").rows()
assert [tuple(row.values()) for row in rows] == [("a", 2, "d")], rows

after = describe()
for what, value in before.items():
    if isinstance(value, dict):
        changed = [key[1] for key, known in value.items() if after[what].get(key, known) != known]
        assert not changed, (what, changed)
    else:
        assert after[what] == value, (what, value, after[what])
assert not switched, switched
"""


@pytest.mark.parametrize("process", ["fresh", "with its own imports"])
def test_using_a_graph_changes_nothing_of_the_process(tmp_path: Path, process: str) -> None:
    run(USE, str(tmp_path / "g"), process)


@pytest.mark.parametrize(
    "code",
    [
        "import omnigraph; omnigraph.open_graph; import pandas as pd, pyarrow as pa",
        "import pandas as pd, pyarrow as pa; import omnigraph; omnigraph.open_graph",
    ],
    ids=["later", "first"],
)
def test_pyarrow_recognizes_pandas_whenever_it_is_imported(code: str) -> None:
    pytest.importorskip("pandas")

    run(
        f"{code}\n"
        "assert pa.array(pd.Series([1.0, float('nan')])).null_count == 1\n"
        "assert pa.array([1, pd.NA], from_pandas=True).null_count == 1\n"
        "assert pa.table({'a': pd.Series([1, 2])}).to_pandas()['a'].tolist() == [1, 2]\n"
    )


def run(code: str, *arguments: str) -> None:
    """Run code in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- the source -------------------------------------------------------------------------------------------

MAY_IMPORT = {
    # The processes that the command line, the server and Spark's Python workers run: they end with their work.
    "gc": {"cli/main.py", "server/workers/worker_process.py", "spark/session/error_translation.py"},
    "ctypes": {"server/allocators.py", "server/workers/worker_process.py"},
    "random": {"ids.py"},
    "secrets": {"ids.py"},
}
"""Modules that change a process or are random, and the only files that import them."""
MAY_USE = {
    "sys.meta_path": {"cli/pandas_finder.py"},
    "sys.path_hooks": set[str](),
    "os.urandom": set[str](),
    "uuid.uuid1": set[str](),
    "uuid.uuid4": set[str](),
    "OrderedDict": {"lru_cache.py"},
    # Threads that describe a struct at once end the process; without a type, nothing is described.
    "msgspec.convert": {"struct_decoder.py"},
    "msgspec.json.decode": {"engine/bulk/rejected_records.py", "server/mcp/calls.py"},
}
SEEDED = {
    "engine/output/aggregate_sink.py",
    "demo/synthetic_data.py",
    "engine/search/recall.py",
    "engine/search/recall_report.py",
}
"""Files that draw numbers from a seed, so that the same input gives the same numbers."""


def iter_uses(package: Path) -> Iterator[tuple[str, str]]:
    """Yield every imported module and every dotted name that is used, with the file."""
    for path in sorted(package.rglob("*.py")):
        file = str(path.relative_to(package))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((f"import {alias.name}", file) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield f"import {node.module}", file
                yield from ((f"{node.module}.{alias.name}", file) for alias in node.names)
                yield from ((alias.name, file) for alias in node.names)
            elif isinstance(node, ast.Attribute):
                yield ast.unparse(node), file
            elif isinstance(node, ast.Name):
                yield node.id, file


def find_impolite_uses(package: Path) -> list[str]:
    """List the uses that only other files may have."""
    allowed = {**{f"import {module}": files for module, files in MAY_IMPORT.items()}, **MAY_USE}
    return sorted({f"{file}: {use}" for use, file in iter_uses(package) if use in allowed and file not in allowed[use]})


def find_random_numbers(package: Path) -> list[str]:
    """List the files that use numpy's random numbers."""
    return sorted({file for use, file in iter_uses(package) if use in ("np.random", "numpy.random")} - SEEDED)


def find_unseeded(package: Path) -> list[str]:
    """List the generators of numpy without a seed."""
    return [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng") and not node.args
    ]


def find_sleeps_with_jitter(package: Path) -> list[str]:
    """List the files that draw jitter themselves, instead of using the one back-off."""
    return sorted({file for use, file in iter_uses(package) if use.endswith(".jitter")} - {"backoff.py", "ids.py"})


def find_names_of_modules(package: Path) -> list[str]:
    """List the strings that name a module of ours, apart from the tables that are imported by name."""
    tables = {"__init__.py", "cli/main.py", "cli/groups.py", "cli/examples.py", "graph/lazy_ops.py"}
    loggers = {"server/logs.py"}
    modules = {
        "omnigraph." + ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        for path in package.rglob("*.py")
    }
    return [
        f"{path.relative_to(package)}:{node.lineno}: {node.value}"
        for path in sorted(package.rglob("*.py"))
        if str(path.relative_to(package)) not in tables | loggers
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in modules
    ]


def test_only_ids_are_random_and_only_commands_change_their_process() -> None:
    assert find_impolite_uses(PACKAGE) == []


def test_numbers_that_are_drawn_follow_from_a_seed() -> None:
    assert find_random_numbers(PACKAGE) == []
    assert find_unseeded(PACKAGE) == []


def test_there_is_one_back_off() -> None:
    # Providers of embeddings and of relevance get the function that `backoff` calls, and so does a client that adds to
    # what its server asks; new identities have a random distance.
    assert find_sleeps_with_jitter(PACKAGE) == [
        "engine/embedders/factory.py",
        "engine/rerankers/factory.py",
        "ops/schema_apply.py",
        "server/client/retries.py",
    ]


def test_no_package_names_a_module_of_ours_in_a_string() -> None:
    assert find_names_of_modules(PACKAGE) == []


@pytest.mark.parametrize(
    "line",
    [
        "import gc",
        "import random",
        "from secrets import token_hex",
        "import os\nos.urandom(8)",
        "from os import urandom",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid4",
        "import sys\nsys.meta_path.insert(0, None)",
        "from sys import meta_path",
        "from collections import OrderedDict",
        "import ctypes",
    ],
)
def test_an_impolite_use_is_caught(tmp_path: Path, line: str) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "new.py").write_text(line + "\n", encoding="utf-8")

    assert len(find_impolite_uses(tmp_path)) >= 1


def test_a_name_of_a_module_and_a_second_back_off_are_caught(tmp_path: Path) -> None:
    (tmp_path / "spark.py").touch()
    text = 'load("omnigraph.spark")\nclock.sleep(ids.jitter(2))\nnp.random.default_rng()\n'
    (tmp_path / "graph.py").write_text(text, encoding="utf-8")

    assert len(find_names_of_modules(tmp_path)) == 1
    assert len(find_sleeps_with_jitter(tmp_path)) == 1
    assert len(find_random_numbers(tmp_path)) == 1
    assert len(find_unseeded(tmp_path)) == 1
