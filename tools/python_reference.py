"""Writes docs/reference/python.md from signatures and docstrings. Run by `make docs`; a test fails when it is stale."""

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
from omnigraph.ops.algorithm_call import AlgorithmResult
from omnigraph.ops.graph_algorithms import Algorithms
from omnigraph.spark.spark_graph import SparkGraph

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python.md"
WIDTH = 110

INTRODUCTION = """\
# Python

<!-- Written by tools/python_reference.py (`make docs`). Don't edit by hand. -->

`import omnigraph` gives the names below, and nothing else is public. Importing it costs next to nothing: each name is
loaded when it is first used. Everything is typed; a `Graph` may be used by several threads at once.

On this page: [making and opening graphs](#making-and-opening-graphs) ·
[`Graph`: reads and writes](#graph-reads-and-writes) ·
[`Graph`: branches and the past](#graph-branches-and-the-past) · [`Graph`: upkeep](#graph-upkeep) ·
[what a graph leads to](#what-a-graph-leads-to) · [servers](#servers) ·
[settings and actors](#settings-and-actors) · [answers](#answers) · [errors](#errors)
"""

# Written out, since an order that reads well is not one that a program finds; a test holds it to `omnigraph.__all__`.
FUNCTIONS = ("create_graph", "open_graph", "clone_graph", "check_graph", "verify_graph", "repair_graph")
SERVING = ("connect", "serve", "check_server", "RemoteGraph", "CedarPolicies")
SETTINGS = ("Runtime", "Options", "Durability", "Actor", "Action", "LoadMode", "ExportFormat", "MergeOutcome", "Kind")
DOORS = (GraphBranches, GraphTags, Algorithms, AlgorithmResult, SparkGraph)


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it: a class with its methods, or names."""

    title: str
    told: str
    things: tuple[object, ...]


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for section in sections():
        parts.append(f"\n## {section.title}\n\n{section.told}\n" if section.told else f"\n## {section.title}\n")
        parts += ["".join(_thing(thing)) for thing in section.things]
    parts.append("\n## Errors\n\nAll are `OmnigraphError`s, and [errors](errors.md) has their kinds and codes.\n\n")
    parts += [f"- `{error.__name__}`: {_first(error)}\n" for error in errors()]
    return "".join(parts)


def sections() -> list[Section]:
    """What the page has, but the errors."""
    named = {name: getattr(omnigraph, name) for name in omnigraph.__all__ if name != "__version__"}
    listed = {*FUNCTIONS, *SERVING, *SETTINGS, "Graph", *(error.__name__ for error in errors())}
    answers = tuple(thing for name, thing in sorted(named.items()) if name not in listed)

    def things(names: tuple[str, ...]) -> tuple[object, ...]:
        return tuple(named[name] for name in names)

    return [
        Section("Making and opening graphs", "", things(FUNCTIONS)),
        Section("Graph: reads and writes", _first(Graph), _methods(Graph)),
        Section("Graph: branches and the past", "", _methods(HistoryMethods)),
        Section("Graph: upkeep", "", _methods(MaintenanceMethods)),
        Section(
            "What a graph leads to",
            "What `branches`, `tags`, `algorithms` and `spark` of a graph are, and what its algorithms answer.",
            DOORS,
        ),
        Section("Servers", "", things(SERVING)),
        Section("Settings and actors", "", things(SETTINGS)),
        Section("Answers", "What the verbs give back. `to_json` of each is what the command line prints.", answers),
    ]


def errors() -> list[type[OmnigraphError]]:
    """The public errors, by name."""
    found = (getattr(omnigraph, name) for name in sorted(omnigraph.__all__) if name.endswith("Error"))
    return [one for one in found if isinstance(one, type) and issubclass(one, OmnigraphError)]


def undocumented() -> list[str]:
    """Public things without a docstring."""
    missing = []
    for section in sections():
        for thing in section.things:
            missing += [_name(one) for one in (thing, *_methods(thing)) if not inspect.getdoc(_function(one))]
    return missing


def _methods(thing: object) -> tuple[object, ...]:
    """The public methods and properties that a class itself has, in the order of its source; none of anything else."""
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return ()
    found = [(name, value) for name, value in vars(thing).items() if not name.startswith("_")]
    return tuple(
        value
        for _, value in found
        if isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
    )


def _thing(thing: object, level: int = 3) -> Iterator[str]:
    function = _function(thing)
    yield f"\n{'#' * level} `{_name(thing)}`\n\n"
    if inspect.isclass(thing):
        yield f"{_markdown(thing)}\n"
        facts = list(_facts(thing))
        if facts:
            yield "\n" + "".join(facts)
        for method in _methods(thing):
            yield from _thing(method, level + 1)
        return
    if not isinstance(thing, property):
        yield f"```py\n{_signature(function)}\n```\n\n"
    yield f"{_markdown(function)}\n"


def _function(thing: object) -> Callable[..., object]:
    found = thing
    if isinstance(thing, property):
        found = thing.fget
    elif isinstance(thing, classmethod | staticmethod):
        found = thing.__func__
    assert callable(found), thing  # noqa: S101 - what `_methods` lets through
    return found


def _name(thing: object) -> str:
    return str(_function(thing).__qualname__).replace("HistoryVerbs", "Graph").replace("UpkeepVerbs", "Graph")


def _first(thing: type) -> str:
    """The first sentence or two: the first paragraph of its docstring."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def _markdown(thing: object) -> str:
    """A docstring in Google's style as Markdown: prose as it is, `Args:` and `Raises:` as lists."""
    parts = []
    for part in (inspect.getdoc(thing) or "").split("\n\n"):
        head, _, body = part.partition("\n")
        is_list = re.fullmatch(r"(?:Args|Raises|Returns):", head) is not None
        parts.append(f"{head}\n\n" + "\n".join(_items(dedent(body))) if is_list else part)
    return "\n\n".join(parts).rstrip()


def _items(body: str) -> Iterator[str]:
    for item in re.split(r"\n(?! )", body):
        names, sign, told = item.partition(": ")
        text = " ".join((told if sign else item).split())
        marked = ", ".join(f"`{name}`" for name in names.split(", "))
        yield f"- {marked}: {text}" if sign else f"- {text}"


def _facts(thing: type) -> Iterator[str]:
    """The fields of a dataclass and the members of an enumeration, with the sentence below each."""
    (definition,) = ast.parse(dedent(inspect.getsource(thing))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - that is what a class's source is
    for one, below in pairwise([*definition.body, ast.Pass()]):
        told = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
        match one:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=type_) if not name.startswith("_"):
                shown = f"`{name}: {_annotation(type_)}`"
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))) if name.isupper():
                shown = f"`{name}` (`{value}`)"
            case _:
                continue
        yield f"- {shown}" + (f": {' '.join(str(told).split())}" if told else "") + "\n"


def _signature(function: Callable[..., object]) -> str:
    """The head of a function without `self`, over as many lines as it takes."""
    (definition,) = ast.parse(dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)  # noqa: S101 - that is what a function's source is
    for node in (one for one in ast.walk(definition.args) if isinstance(one, ast.arg) and one.annotation):
        node.annotation = ast.parse(_annotation(node.annotation), mode="eval").body if node.annotation else None
    if definition.args.args and definition.args.args[0].arg in ("self", "cls"):
        del definition.args.args[0]
    returns = f" -> {_annotation(definition.returns)}" if definition.returns else ""
    arguments = list(_arguments(definition.args))
    flat = f"{definition.name}({', '.join(arguments)}){returns}"
    if len(flat) <= WIDTH:
        return flat
    return "\n".join([f"{definition.name}(", *(f"    {one}," for one in arguments), f"){returns}"])


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    """Each argument with its type and default, in the house style."""
    text = ast.unparse(arguments)
    depth, start = 0, 0
    for place, sign in enumerate(f"{text},"):
        depth += sign in "[({"
        depth -= sign in "])}"
        if sign == "," and not depth and text[start:place].strip():
            name, colon, rest = text[start:place].strip().partition(": ")
            yield f"{name}{colon}{rest.replace('=', ' = ', 1)}"
            start = place + 1


def _annotation(node: ast.expr) -> str:
    """A type as it is written; one in quotes without them."""
    return re.sub(r"'([^']+)'", r"\1", ast.unparse(node))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
