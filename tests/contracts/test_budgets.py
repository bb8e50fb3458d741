"""The budgets that a reader feels, and names that say nothing."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "omnigraph"
CODE = [path for room in ("src", "tests", "bench", "tools", "examples") for path in sorted((ROOT / room).rglob("*.py"))]

MAX_LINES_OF_A_FILE = 700
MAX_LINES_OF_A_FUNCTION = 80
MAX_MEDIAN_LINES = 160
MAX_METHODS = 20
MAX_INHERITANCE = 2

SAYS_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers", "stuff"}
MAY_HAVE_MORE_METHODS = {"Graph"}  # the public face: each method is one call into ops
# Errors that callers catch as a family, while our own code also catches members of it.
FAMILIES = {"ConstraintError", "CorruptError", "MissingError", "PinUnreadableError", "StoreUnavailableError"}


def test_no_file_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in CODE}

    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES_OF_A_FILE} == {}


def test_the_usual_file_is_short() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")]

    assert statistics.median(lengths) <= MAX_MEDIAN_LINES


def test_no_function_is_too_long() -> None:
    assert [found for path in CODE for found in long_functions(path)] == []


def test_no_class_has_too_many_methods() -> None:
    assert [found for path in sorted(PACKAGE.rglob("*.py")) for found in wide_classes(path)] == []


def test_no_class_inherits_too_deeply() -> None:
    assert deep_classes(sorted(PACKAGE.rglob("*.py"))) == []


def test_names_of_modules_say_what_is_inside() -> None:
    named = {part for path in CODE for part in path.relative_to(ROOT).with_suffix("").parts}

    assert {name for name in named if name.strip("_").lower() in SAYS_NOTHING} == set()


# --- planted violations ----------------------------------------------------------------------------------------


def test_a_long_function_is_caught(tmp_path: Path) -> None:
    path = write(tmp_path, "def f() -> None:\n" + "    pass\n" * MAX_LINES_OF_A_FUNCTION)

    assert len(list(long_functions(path))) == 1


def test_a_wide_class_is_caught(tmp_path: Path) -> None:
    methods = "".join(f"    def m{number}(self) -> None: ...\n" for number in range(MAX_METHODS + 1))
    path = write(tmp_path, "class Wide:\n" + methods)

    assert len(list(wide_classes(path))) == 1


@pytest.mark.parametrize("depth, findings", [(2, 0), (3, 1)])
def test_deep_inheritance_is_caught(tmp_path: Path, depth: int, findings: int) -> None:
    classes = ["class C1(Exception): ...", *(f"class C{n}(C{n - 1}): ..." for n in range(2, depth + 1))]
    path = write(tmp_path, "\n".join(classes))

    assert len(deep_classes([path])) == findings


def write(directory: Path, text: str) -> Path:
    path = directory / "planted.py"
    path.write_text(text, encoding="utf-8")
    return path


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_LINES_OF_A_FUNCTION:
                yield f"{path}:{node.lineno} {node.name} has {lines} lines"


def wide_classes(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ClassDef) and node.name not in MAY_HAVE_MORE_METHODS:
            methods = sum(isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) for member in node.body)
            if methods > MAX_METHODS:
                yield f"{path}:{node.lineno} {node.name} has {methods} methods"


def deep_classes(paths: list[Path]) -> list[str]:
    """Classes with more than `MAX_INHERITANCE` classes of ours in a line, themselves counted."""
    bases: dict[str, set[str]] = {}
    for path in paths:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                names = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
                bases.setdefault(node.name, set()).update(names - {node.name})

    def depth(name: str) -> int:
        return 1 + max((depth(base) for base in bases[name] - FAMILIES if base in bases), default=0)

    return [f"{name} is {depth(name)} deep" for name in bases if depth(name) > MAX_INHERITANCE]
