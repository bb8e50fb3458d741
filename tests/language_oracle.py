"""What the reference grammars of the two languages accept; the grammars know nothing of the parsers."""

import re
from functools import cache
from pathlib import Path

from lark import Lark, ParseTree, Tree
from lark.exceptions import LarkError

from omnigraph.lang.lexer import Language

_GRAMMARS = Path(__file__).parent / "lang"
_FILES = {Language.SCHEMA: "schema.lark", Language.QUERY: "query.lark"}
_PLACEHOLDERS = {
    # These two are made of the ones below.
    "BOUNDS": r"IGNORED-?IGNORED[0-9]+IGNORED,",
    "EDGE": r'(?:[A-Za-z_][A-Za-z0-9_]*|"(?:[^"\\\\\\r\\n]|\\\\.)*")',
    "IGNORED": r"(?:[ \\t\\r\\n]|\/\/[^\\r\\n]*|\/\*(?:[^*]|\*(?!\/))*\*\/)*",
    "BOUNDARY": r"(?![A-Za-z0-9_])",
    "FORBIDDEN": (
        r"\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
    ),
}


def accepts(language: Language, text: str) -> bool:
    """Whether the text follows the language's grammar, limits of length and depth aside."""
    try:
        tree = _parser(language).parse(text)
    except LarkError:
        return False
    conditions = tree.find_pred(lambda node: node.data in ("condition", "m_condition"))
    if any(_is_value_alone(condition) for condition in conditions):
        return False
    if any(map(_has_repeated_part, tree.find_data("path"))):
        return False
    return not any(map(_has_late_groups, tree.find_data("reads"))) and all(
        map(_has_variables, tree.find_data("statements"))
    )


def _is_value_alone(node: ParseTree) -> bool:
    """Whether a condition neither compares, nor calls, nor decides."""
    while len(node.children) == 1 and isinstance(node.children[0], Tree):
        node = node.children[0]
        if node.data.removeprefix("m_") in ("comparison", "negated", "call", "case", "exists_block"):
            return False
    return node.data not in ("either", "both", "m_either", "m_both")


def _has_repeated_part(path: ParseTree) -> bool:
    """Whether a path has `along`, `through` or `by` twice."""
    words = [child.data for child in _children(path)]
    return len(words) != len(set(words))


def _has_late_groups(reads: ParseTree) -> bool:
    """Whether a `limit` with `per` follows the last of several reads, where it would belong to the whole."""
    joined = [child for child in reads.children if isinstance(child, Tree)]
    if len(joined) == 1:
        return False
    # Not any `per` below: windows have one, too.
    tail = _children(joined[-1])[-1]
    limits = [child for child in _children(tail) if child.data == "limit"]
    return any(child.data == "per" for limit in limits for child in _children(limit))


def _children(node: ParseTree) -> list[ParseTree]:
    return [child for child in node.children if isinstance(child, Tree)]


def _has_variables(statements: ParseTree) -> bool:
    """Whether a match or a named insert comes before each statement that names a variable."""
    is_named = False
    for child in statements.children:
        if not isinstance(child, Tree):
            continue
        if any(True for _ in child.find_data("matched")) and not is_named:
            return False
        is_named = is_named or child.data == "reading" or any(True for _ in child.find_data("named"))
    return True


@cache
def _parser(language: Language) -> Lark:
    terminals = _grammar("lexical.lark")
    grammar = re.sub(r"%import \.lexical.*\n", lambda _: terminals, _grammar(_FILES[language]))
    return Lark(grammar, parser="lalr", lexer="contextual")


def _grammar(name: str) -> str:
    grammar = (_GRAMMARS / name).read_text("utf-8")
    for placeholder, pattern in _PLACEHOLDERS.items():
        grammar = grammar.replace(placeholder, pattern.replace("\\\\", "\\"))
    # A keyword ends where its word ends: `wherex` is not `where x`.
    return re.sub(r'"([A-Za-z_]\w*)"', r"/\1(?![A-Za-z0-9_])/", grammar)
