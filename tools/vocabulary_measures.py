"""Measures of the source's vocabulary: each gives places, so that a count can be explained.

Everything is read with `ast` and `tokenize`; nothing of the package is imported.
"""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeVar, cast

from vocabulary_words import (
    AST_IR_PAIRS,
    ERROR_FIRST,
    FORBIDDEN,
    MAX_LINES_FROM_BINDING,
    PHRASES,
    SHORT_LIVED,
    VERBS,
    is_participle,
    split_words,
)

N = TypeVar("N", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
CLAIMS = frozenset({"is", "has"})
"""First words of functions that return a boolean."""
TOP_LEVEL = "base"
"""The room of modules that are in no sub-package."""
GENERATED_PAGES = frozenset({"cli.md", "errors.md", "http.md", "python.md"})
"""Pages of docs/reference that are written from the source, whose texts are counted there."""


@dataclass(frozen=True)
class Place:
    """Where something was counted, and what."""

    room: str
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Module:
    """A source file."""

    root: Path
    """The directory of the package."""
    path: Path

    @property
    def room(self) -> str:
        """The sub-package it is in."""
        parts = self.path.relative_to(self.root).parts
        return parts[0] if len(parts) > 1 else TOP_LEVEL

    @cached_property
    def text(self) -> str:
        """The file's content."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, self.path.name)

    @cached_property
    def _by_type(self) -> dict[type[ast.AST], list[ast.AST]]:
        by_type: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            by_type.setdefault(type(node), []).append(node)
        return by_type

    def nodes(self, type_: type[N]) -> list[N]:
        """Return the nodes of exactly this type."""
        return cast("list[N]", self._by_type.get(type_, []))

    @cached_property
    def functions(self) -> list[Function]:
        """Functions and methods, without properties and dunder methods."""
        nodes: list[Function] = [*self.nodes(ast.FunctionDef), *self.nodes(ast.AsyncFunctionDef)]
        return [node for node in nodes if not _is_property(node) and not node.name.startswith("__")]

    @cached_property
    def named_functions(self) -> list[Function]:
        """Functions whose name is a choice: that of an error's variant is its code, which programs compare with."""
        return [node for node in self.functions if "variant" not in map(ast.unparse, node.decorator_list)]

    @cached_property
    def strings(self) -> list[tuple[int, str]]:
        """The texts of its strings, with their lines; spaces and line breaks are one space."""
        nodes = (node for node in self.nodes(ast.Constant) if isinstance(node.value, str))
        return [(node.lineno, " ".join(str(node.value).split())) for node in nodes]

    def place(self, line: int, what: str) -> Place:
        """Return where something is."""
        return Place(self.room, str(self.path.relative_to(self.root)), line, what)


def _is_property(node: Function) -> bool:
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(name.endswith(("property", ".setter", ".deleter", ".getter")) for name in decorators)


# --- names ----------------------------------------------------------------------------------------------------


def find_participle_names(module: Module) -> Iterator[Place]:
    """Find functions and methods whose first word is a past participle; `is_…` and `has_…` are claims."""
    for node in module.named_functions:
        words = split_words(node.name)
        if words and is_participle(words[0]):
            yield module.place(node.lineno, node.name)


def find_forbidden_names(module: Module) -> Iterator[Place]:
    """Find modules, classes and functions with a forbidden word in their name, but for claims."""
    if FORBIDDEN & set(split_words(module.path.stem)):
        yield module.place(1, module.path.stem)
    for node in (*module.nodes(ast.ClassDef), *module.named_functions):
        words = split_words(node.name)
        if FORBIDDEN & set(words) and words[0] not in CLAIMS:
            yield module.place(node.lineno, node.name)


def find_distant_locals(module: Module) -> Iterator[Place]:
    """Find bindings of `found` and `one` that are used more than three lines further on."""
    of_comprehensions: set[ast.Name] = set()
    comprehensions: list[Comprehension] = [*module.nodes(ast.ListComp), *module.nodes(ast.SetComp)]
    comprehensions += [*module.nodes(ast.DictComp), *module.nodes(ast.GeneratorExp)]
    for node in comprehensions:
        of_comprehensions |= set(_names_of_comprehension(node))
        yield from (module.place(name.lineno, name.id) for name in _distant_targets(node))
    for scope in (module.tree, *module.nodes(ast.FunctionDef), *module.nodes(ast.AsyncFunctionDef)):
        names = [name for name in _names_of_scope(scope) if name not in of_comprehensions]
        for word in SHORT_LIVED:
            lines = _distant_bindings([name for name in names if name.id == word])
            yield from (module.place(line, word) for line in lines)


def _names_of_comprehension(node: Comprehension) -> Iterator[ast.Name]:
    """Yield the short-lived names that a comprehension binds, where they are bound and used."""
    targets = {name.id for generator in node.generators for name in _find_names(generator.target)}
    yield from (name for name in _find_names(node) if name.id in targets & SHORT_LIVED)


def _distant_targets(node: Comprehension) -> Iterator[ast.Name]:
    names = list(_names_of_comprehension(node))
    for target in (name for name in names if isinstance(name.ctx, ast.Store)):
        lines = [name.lineno for name in names if name.id == target.id]
        if max(abs(line - target.lineno) for line in lines) > MAX_LINES_FROM_BINDING:
            yield target


def _find_names(node: ast.AST) -> Iterator[ast.Name]:
    yield from (name for name in ast.walk(node) if isinstance(name, ast.Name))


def _names_of_scope(scope: ast.AST) -> Iterator[ast.Name]:
    """Yield the names of a module or function, without those of the functions inside it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.Name):
            yield child
        if not isinstance(child, Function | ast.Lambda | ast.ClassDef):
            yield from _names_of_scope(child)


def _distant_bindings(names: list[ast.Name]) -> Iterator[int]:
    """Yield the lines of bindings whose last use, before the next binding, is too far away."""
    stores = sorted(name.lineno for name in names if isinstance(name.ctx, ast.Store))
    loads = [name.lineno for name in names if isinstance(name.ctx, ast.Load)]
    for line, end in pairwise([*stores, sys.maxsize]):
        uses = [load for load in loads if line <= load <= end]
        if uses and max(uses) - line > MAX_LINES_FROM_BINDING:
            yield line


def find_classes(module: Module) -> Iterator[Place]:
    """Find the classes of a module."""
    yield from (module.place(node.lineno, node.name) for node in module.nodes(ast.ClassDef))


def find_shared_class_names(found: Iterable[Place]) -> Iterator[Place]:
    """Find names that several classes have, but for pairs of a syntax tree's node and its bound form.

    The tree of Cypher has the names of that language, and is always read as `tree.Name`.
    """
    classes: dict[str, list[Place]] = {}
    for place in (place for place in found if place.path != "lang/cypher/tree.py"):
        classes.setdefault(place.what, []).append(place)
    for name, places in classes.items():
        is_pair = name in AST_IR_PAIRS and sorted(place.room for place in places) == ["lang", "query"]
        if len(places) > 1 and not is_pair:
            first = places[0]
            others = ", ".join(place.path for place in places[1:])
            yield Place("all", first.path, first.line, f"{name}, also in {others}")


def find_most_and_least(module: Module) -> Iterator[Place]:
    """Find constants called `MOST_…` or `LEAST_…` instead of `MAX_…` and `MIN_…`."""
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in (inner for outer in targets if outer is not None for inner in ast.walk(outer)):
            if isinstance(target, ast.Name) and {"most", "least"} & set(split_words(target.id)):
                yield module.place(target.lineno, target.id)


# --- lines ----------------------------------------------------------------------------------------------------


def find_parallel_assignments(module: Module) -> Iterator[Place]:
    """Find assignments of more than two values at once, of which one is an attribute."""
    for node in module.nodes(ast.Assign):
        if isinstance(node.value, ast.Tuple):
            targets = [target.elts for target in node.targets if isinstance(target, ast.Tuple)]
            if any(len(elts) > 2 and any(isinstance(one, ast.Attribute) for one in elts) for elts in targets):
                yield module.place(node.lineno, ast.unparse(node.targets[0]))


def find_nested_conditionals(module: Module) -> Iterator[Place]:
    """Find conditional expressions inside of conditional expressions."""
    for node in module.nodes(ast.IfExp):
        inner = (child for part in ast.iter_child_nodes(node) for child in ast.walk(part))
        if any(isinstance(child, ast.IfExp) for child in inner):
            yield module.place(node.lineno, ast.unparse(node)[:80])


# --- docstrings -----------------------------------------------------------------------------------------------


def find_docstrings_without_verb(module: Module) -> Iterator[Place]:
    """Find docstrings of functions whose first word is no verb, such as "Whether" and "All", which D401 accepts."""
    for node in module.functions:
        word = _first_word(node)
        if word and word.lower() not in VERBS and not ERROR_FIRST.match(word):
            yield module.place(node.lineno, f"{node.name}: {word} …")


def find_docstrings_with_error_first(module: Module) -> Iterator[Place]:
    """Find docstrings of functions that begin with the name of an error."""
    for node in module.functions:
        word = _first_word(node)
        if word and ERROR_FIRST.match(word):
            yield module.place(node.lineno, f"{node.name}: {word} …")


def _first_word(node: Function) -> str:
    text = ast.get_docstring(node) or ""
    matched = re.match(r"\W*(\w+)", text)
    return matched[1] if matched else ""


def find_d401(root: Path) -> list[Place]:
    """Find docstrings whose first line ruff calls not imperative (D401), whatever the settings ignore."""
    ruff = Path(sys.executable).parent / "ruff"
    command = [str(ruff), "check", "--isolated", "--no-cache", "--select", "D401"]
    ran = subprocess.run(
        [*command, "--output-format", "json", "--exit-zero", root],
        capture_output=True,
        check=True,
    )
    places = []
    for finding in json.loads(ran.stdout):
        module = Module(root.resolve(), Path(finding["filename"]).resolve())
        places.append(module.place(finding["location"]["row"], finding["message"]))
    return places


# --- texts ----------------------------------------------------------------------------------------------------


def find_phrases_in_source(phrase: str) -> Callable[[Module], Iterator[Place]]:
    """Return a measure of one odd phrase in the strings of the source, docstrings among them."""

    def find(module: Module) -> Iterator[Place]:
        for line, text in module.strings:
            for matched in PHRASES[phrase].finditer(text):
                yield module.place(line, text[max(matched.start() - 30, 0) : matched.end() + 30])

    return find


def find_phrases_in_pages(phrase: str, root: Path) -> Iterator[Place]:
    """Find an odd phrase in the pages of a repository that are written by hand."""
    pages = [*sorted((root / "docs").rglob("*.md")), *sorted(root.glob("*.md"))]
    for page in pages:
        if page.name in GENERATED_PAGES and page.parent.name == "reference":
            continue
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for _ in PHRASES[phrase].finditer(line):
                yield Place("pages", str(page.relative_to(root)), number, line.strip()[:100])


# --- comments -------------------------------------------------------------------------------------------------


NO_PROSE = re.compile(r"#\s*(?:noqa(?::[A-Z0-9, ]+)?|type: ignore(?:\[[^\]]*\])?|-{3,}.*|)$")


def count_comments(module: Module) -> tuple[int, int]:
    """Return how many comment lines and lines of code a module has.

    A comment is prose: `noqa` and `type: ignore` without a reason are none, nor are rules between sections. Docstrings
    are neither comments nor code.
    """
    docstring_lines: set[int] = set()
    for node in module.nodes(ast.Expr):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstring_lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    comments = 0
    code: set[int] = set()
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            comments += NO_PROSE.match(token.string) is None
        elif token.type not in layout:
            code |= set(range(token.start[0], token.end[0] + 1))
    return comments, len(code - docstring_lines)
