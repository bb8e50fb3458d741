"""What the reference grammars of the two languages accept; the grammars know nothing of the parsers."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from lark import Lark, ParseTree, Token, Tree
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
    if any(map(_is_value_alone, tree.find_data("clause_condition"))):
        return False
    conditions = tree.find_pred(lambda node: node.data in ("condition", "m_condition"))
    if any(_is_value_alone(condition) and not _is_bool_alone(condition) for condition in conditions):
        return False
    if any(map(_has_open_bool, tree.find_pred(lambda node: node.data in ("along", "through")))):
        return False
    if any(map(_has_repeated_part, tree.find_data("path"))):
        return False
    return not any(map(_has_late_groups, tree.find_data("reads"))) and all(
        map(_has_variables, tree.find_data("statements"))
    )


def _is_value_alone(condition: ParseTree) -> bool:
    """Whether a condition neither compares, nor calls, nor decides."""
    deciding = ("comparison", "negated", "call", "case", "exists_block", "either", "both")
    return _find_core(condition) not in deciding


def _is_bool_alone(condition: ParseTree) -> bool:
    """Whether a value alone may be a Bool: a variable, a property, `true`, `false`, an element or a field."""
    return _find_core(condition) in ("name", "property", "bool", "indexed", "first", "reserved")


def _find_core(node: ParseTree) -> str:
    """Find what a condition is, without the levels above it and parentheses: the name of a rule, or a kind of value."""
    while len(node.children) == 1 and isinstance(node.children[0], Tree):
        rule = node.data.removeprefix("m_")
        if rule == "minus" or (rule == "literal" and node.children[0].data != "literal_word"):
            return rule
        node = node.children[0]
    rule = str(node.data.removeprefix("m_"))
    if rule == "literal_word":
        return "literal" if node.children[0] == "null" else "bool"
    if rule == "whole_value":
        (token,) = node.children
        return "name" if isinstance(token, Token) and token.type in ("VAR", "IDENT") else "number"
    # `$p.*` has the variable alone.
    return "property" if rule == "primary" and not _is_all_properties(node) else rule


def _is_all_properties(primary: ParseTree) -> bool:
    return len(primary.children) == 1 and isinstance(primary.children[0], Token) and primary.children[0].type == "VAR"


def _has_open_bool(way: ParseTree) -> bool:
    """Whether a Bool alone is followed by a condition, without a `;` between them."""
    parts = _children(way)
    return any(
        _is_value_alone(part) and following.data == "m_condition"
        for part, following in pairwise(parts)
        if part.data == "m_condition"
    )


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
