"""Statements of a shell: where one ends, and whether a text that is being typed is complete."""

from dataclasses import dataclass

from omnigraph.lang.lexer import Language, TokenKind, tokenize
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source

END = ";"
_OPENING, _CLOSING = frozenset("{(["), frozenset("})]")


@dataclass(frozen=True, slots=True)
class SplitText:
    """The statements of a text that end with `;`, and what follows the last of them."""

    statements: tuple[str, ...]
    rest: str


def split_statements(text: str) -> SplitText:
    """Split a text after each `;` that is in no string and no comment.

    The language has no `;`, so that brackets need not be counted: after a mistake the next statement is whole again.
    """
    statements: list[str] = []
    start = 0
    for end in find_ends(text):
        statement = text[start:end].strip()
        if statement:
            statements.append(statement)
        start = end + 1
    return SplitText(tuple(statements), text[start:])


def find_ends(text: str) -> list[int]:
    """Return the positions of the signs that end statements."""
    if END not in text:
        return []
    stream = tokenize(Source(text), Language.QUERY)
    # A `;` is no token: it is what lies between tokens and comments.
    covered = [token.span for token in stream.tokens if token.kind is TokenKind.STRING]
    covered += [comment.span for comment in stream.comments]
    inside = sorted((span.start, span.end) for span in covered)
    ends: list[int] = []
    at = 0
    for position, char in enumerate(text):
        if char != END:
            continue
        while at < len(inside) and inside[at][1] <= position:
            at += 1
        if at == len(inside) or position < inside[at][0]:
            ends.append(position)
    return ends


def is_complete(text: str) -> bool:
    """Return whether Enter runs a text: a command, a text that ends with `;`, or one in which nothing is missing.

    A text whose mistake is not at its end is complete too: another line would not mend it.
    """
    stripped = text.strip()
    if not stripped or stripped.startswith("."):
        return True
    if not split_statements(text).rest.strip():
        return True
    if _count_open(stripped) > 0:
        return False
    result = parse_queries(Source(stripped), allows_bare=True)
    return result.ok or result.diagnostics[0].span.end < len(stripped)


def _count_open(text: str) -> int:
    """Return how many brackets are open at the end of a text."""
    signs = [token.text for token in tokenize(Source(text), Language.QUERY).tokens if token.kind is TokenKind.SIGN]
    return sum((sign in _OPENING) - (sign in _CLOSING) for sign in signs)
