"""Write docs/reference/errors.md from the errors. Run by `make docs`; a test fails when the page is stale."""

import ast
import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import omnigraph
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.errors import Kind, OmnigraphError

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"

INTRODUCTION = """\
# Errors

<!-- Written by tools/errors_reference.py (`make docs`). Don't edit by hand. -->

Every error that omnigraph raises on purpose is an `OmnigraphError`. Its **kind** shows what you can do, its **code**
names the case, and its facts are attributes (with `--json`: fields beside `code`, `kind` and `message`). Findings about
the text of a schema or query are values, not errors; they have their own codes: [diagnostics](diagnostics.md).

Errors that are handled alike have one class: catch the class, and compare `error.code` where the exact case matters.

## Kinds

| kind | exit code | what to do |
|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    kinds = [f"| `{kind.value}` | {EXIT_CODES[kind]} | {advice} |" for kind, advice in _iter_kinds()]
    codes = [
        f"| `{code}` | `{error.kind.value}` | `{error.__name__}` | {_describe(code, error)} |"
        for code, error in cases()
    ]
    head = "## Codes\n\n| code | kind | class | when |\n|---|---|---|---|"
    usage = "| `usage` | `usage` | | The command was called wrongly: an unknown command or option, a missing value. |"
    return INTRODUCTION + "\n".join([*kinds, "", head, *codes, usage]) + "\n"


def errors() -> list[type[OmnigraphError]]:
    """Return every error class of the package, sorted by name."""
    for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        if module.name != "omnigraph.__main__":
            import_module(module.name)
    return sorted(set(_iter_subclasses(OmnigraphError)), key=lambda error: error.__name__)


def cases() -> list[tuple[str, type[OmnigraphError]]]:
    """Return every code with its class, sorted by code: its class has it, or a variant of the class."""
    pairs = [(code, error) for error in errors() for code in error.codes()]
    return sorted(pairs, key=lambda pair: (pair[0], pair[1].__name__))


def _iter_subclasses(error: type[OmnigraphError]) -> Iterator[type[OmnigraphError]]:
    if error.__module__.startswith("omnigraph."):
        yield error
    for child in error.__subclasses__():
        yield from _iter_subclasses(child)


def _describe(code: str, error: type[OmnigraphError]) -> str:
    if error is OmnigraphError:
        return "A bug of omnigraph, or an error of a newer release."
    documented = error.variants[code].format_message if code in error.variants else error
    text = " ".join(inspect.cleandoc(documented.__doc__ or "").partition("\n\n")[0].split()).replace("|", "\\|")
    # A variant is a function, whose docstring says what it does; the page says when the error occurs.
    when = text.removeprefix("Report that ")
    return when[0].upper() + when[1:]


def _iter_kinds() -> Iterator[tuple[Kind, str]]:
    """Yield each kind with the docstring that follows it in the source."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(Kind)).body if isinstance(node, ast.ClassDef))
    for member, text in pairwise(body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield Kind[ast.unparse(member.targets[0])], str(text.value.value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
