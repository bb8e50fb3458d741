"""Write docs/reference/python.md from signatures and docstrings. Run by `make docs`; a test fails when it is stale."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import omnigraph
from omnigraph.errors import OmnigraphError
from omnigraph.graph.branches import GraphBranches
from omnigraph.graph.graph import Graph
from omnigraph.graph.history import HistoryMethods
from omnigraph.graph.maintenance import MaintenanceMethods
from omnigraph.graph.tags import GraphTags
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.algorithm_call import AlgorithmResult
from omnigraph.ops.graph_algorithms import Algorithms
from omnigraph.spark.spark_graph import SparkGraph

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python.md"
WIDTH = 110

INTRODUCTION = """\
# Python

<!-- Written by tools/python_reference.py (`make docs`). Don't edit by hand. -->

`import omnigraph` provides the names below; no other names are public. The import is cheap: each name is loaded when it
is first used. Everything is typed; several threads may use a `Graph` concurrently.

On this page: [creating and opening graphs](#creating-and-opening-graphs) ·
[`Graph`: reads and writes](#graph-reads-and-writes) ·
[`Graph`: branches and history](#graph-branches-and-history) · [`Graph`: maintenance](#graph-maintenance) ·
[attributes of a graph](#attributes-of-a-graph) · [servers](#servers) ·
[settings and actors](#settings-and-actors) · [results](#results) · [errors](#errors)
"""

# Listed by hand in an order that reads well; a test compares the names with `omnigraph.__all__`.
FUNCTIONS = (
    "create_graph",
    "open_graph",
    "clone_graph",
    "back_up_graph",
    "list_backups",
    "restore_graph",
    "check_graph",
    "verify_graph",
    "repair_graph",
)
SERVING = ("connect", "connect_async", "serve", "check_server", "RemoteGraph", "AsyncRemoteGraph", "CedarPolicies")
SETTINGS = ("Runtime", "Options", "Durability", "Actor", "Action", "LoadMode", "ExportFormat", "MergeOutcome", "Kind")
ATTRIBUTES = (GraphBranches, GraphTags, Algorithms, AlgorithmResult, SparkGraph)


@dataclass(frozen=True)
class Section:
    """A heading, its introduction, and the functions, classes or methods below it."""

    title: str
    introduction: str
    things: tuple[object, ...]


def page() -> str:
    """Return the text of the page."""
    parts = [INTRODUCTION]
    for section in sections():
        parts.append(f"\n## {section.title}\n")
        if section.introduction:
            parts.append(f"\n{section.introduction}\n")
        parts += ["".join(_format_thing(thing)) for thing in section.things]
    parts.append(
        "\n## Errors\n\nAll are subclasses of `OmnigraphError`; [errors](errors.md) lists their kinds and codes.\n\n"
    )
    parts += [f"- `{error.__name__}`: {_first_paragraph(error)}{_format_codes(error)}\n" for error in errors()]
    return "".join(parts)


def sections() -> list[Section]:
    """Return the sections of the page, without the errors."""
    named = {name: getattr(omnigraph, name) for name in omnigraph.__all__ if name != "__version__"}
    listed = {*FUNCTIONS, *SERVING, *SETTINGS, "Graph", *(error.__name__ for error in errors())}
    results = tuple(thing for name, thing in sorted(named.items()) if name not in listed)

    def things(names: tuple[str, ...]) -> tuple[object, ...]:
        return tuple(named[name] for name in names)

    return [
        Section("Creating and opening graphs", "", things(FUNCTIONS)),
        Section("Graph: reads and writes", _first_paragraph(Graph), _find_methods(Graph)),
        Section("Graph: branches and history", "", _find_methods(HistoryMethods)),
        Section("Graph: maintenance", "", _find_methods(MaintenanceMethods)),
        Section(
            "Attributes of a graph",
            "The classes of a graph's `branches`, `tags`, `algorithms` and `spark`, and the result of its algorithms.",
            ATTRIBUTES,
        ),
        Section("Servers", "", things(SERVING)),
        Section("Settings and actors", "", things(SETTINGS)),
        Section("Results", "The results of the methods. The command line prints `to_json` of each.", results),
    ]


def errors() -> list[type[OmnigraphError]]:
    """Return the public errors, sorted by name."""
    values = (getattr(omnigraph, name) for name in sorted(omnigraph.__all__) if name.endswith("Error"))
    return [error for error in values if isinstance(error, type) and issubclass(error, OmnigraphError)]


def _format_codes(error: type[OmnigraphError]) -> str:
    return f" Codes: {', '.join(f'`{code}`' for code in error.codes())}." if error.variants else ""


def undocumented() -> list[str]:
    """Return the names of public functions, classes and methods without a docstring."""
    missing = []
    for section in sections():
        for thing in section.things:
            parts = (thing, *_find_methods(thing))
            missing += [_format_name(part) for part in parts if not inspect.getdoc(_unwrap(part))]
    return missing


def _find_methods(thing: object) -> tuple[object, ...]:
    """Return the public methods and properties that a class itself defines, in source order; none for other objects."""
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return ()
    public = [value for name, value in vars(thing).items() if not name.startswith("_")]
    return tuple(
        value
        for value in public
        if isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
    )


def _format_thing(thing: object, level: int = 3) -> Iterator[str]:
    function = _unwrap(thing)
    yield f"\n{'#' * level} `{_format_name(thing)}`\n\n"
    if inspect.isclass(thing):
        yield f"{_format_docstring(thing)}\n"
        fields = list(_format_fields(thing))
        if fields:
            yield "\n" + "".join(fields)
        for method in _find_methods(thing):
            yield from _format_thing(method, level + 1)
        # Results inherit their JSON form.
        if issubclass(thing, JsonStruct) and "to_json" not in vars(thing):
            inherited = _format_thing(JsonStruct.to_json, level + 1)
            yield from (line.replace(JsonStruct.__name__, thing.__name__) for line in inherited)
        return
    if not isinstance(thing, property):
        yield f"```py\n{_format_signature(function)}\n```\n\n"
    yield f"{_format_docstring(function)}\n"


def _unwrap(thing: object) -> Callable[..., object]:
    function = thing
    if isinstance(thing, property):
        function = thing.fget
    elif isinstance(thing, classmethod | staticmethod):
        function = thing.__func__
    assert callable(function), thing  # noqa: S101 - `_find_methods` returns nothing else
    return function


def _format_name(thing: object) -> str:
    # Users call these methods on `Graph`, which inherits them.
    name = str(_unwrap(thing).__qualname__)
    for base in (HistoryMethods, MaintenanceMethods):
        name = name.replace(base.__name__, "Graph")
    return name


def _first_paragraph(thing: type) -> str:
    """Return the first paragraph of a class's docstring on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def _format_docstring(thing: object) -> str:
    """Return a docstring in Google's style as Markdown: prose unchanged, `Args:` and `Raises:` as lists."""
    parts = []
    for part in (inspect.getdoc(thing) or "").split("\n\n"):
        head, _, body = part.partition("\n")
        is_list = re.fullmatch(r"(?:Args|Raises|Returns):", head) is not None
        parts.append(f"{head}\n\n" + "\n".join(_format_items(dedent(body))) if is_list else part)
    return "\n\n".join(parts).rstrip()


def _format_items(body: str) -> Iterator[str]:
    for item in re.split(r"\n(?! )", body):
        names, sign, description = item.partition(": ")
        text = " ".join((description if sign else item).split())
        marked = ", ".join(f"`{name}`" for name in names.split(", "))
        yield f"- {marked}: {text}" if sign else f"- {text}"


def _format_fields(thing: type) -> Iterator[str]:
    """Yield the fields of a dataclass and the members of an enumeration, with the docstring after each."""
    (definition,) = ast.parse(dedent(inspect.getsource(thing))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - the source of a class is one
    for statement, after in pairwise([*definition.body, ast.Pass()]):
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=type_) if not name.startswith("_"):
                declaration = f"`{name}: {_format_annotation(type_)}`"
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))) if name.isupper():
                declaration = f"`{name}` (`{value}`)"
            case _:
                continue
        yield f"- {declaration}" + (f": {' '.join(str(text).split())}" if text else "") + "\n"


def _format_signature(function: Callable[..., object]) -> str:
    """Return the signature of a function without `self`; one argument per line if it is longer than `WIDTH`."""
    (definition,) = ast.parse(dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)  # noqa: S101 - the source of a function is one
    for node in ast.walk(definition.args):
        if isinstance(node, ast.arg) and node.annotation:
            node.annotation = ast.parse(_format_annotation(node.annotation), mode="eval").body
    if definition.args.args and definition.args.args[0].arg in ("self", "cls"):
        del definition.args.args[0]
    returns = f" -> {_format_annotation(definition.returns)}" if definition.returns else ""
    arguments = list(_format_arguments(definition.args))
    name = f"async {definition.name}" if isinstance(definition, ast.AsyncFunctionDef) else definition.name
    flat = f"{name}({', '.join(arguments)}){returns}"
    if len(flat) <= WIDTH:
        return flat
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){returns}"])


def _format_arguments(arguments: ast.arguments) -> Iterator[str]:
    """Yield each argument with its type and default, with spaces around `=`."""
    text = ast.unparse(arguments)
    depth, start = 0, 0
    for position, sign in enumerate(f"{text},"):
        depth += sign in "[({"
        depth -= sign in "])}"
        if sign == "," and not depth and text[start:position].strip():
            name, colon, rest = text[start:position].strip().partition(": ")
            yield f"{name}{colon}{rest.replace('=', ' = ', 1)}"
            start = position + 1


def _format_annotation(node: ast.expr) -> str:
    """Return a type as in the source, without quotes."""
    return re.sub(r"'([^']+)'", r"\1", ast.unparse(node))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
