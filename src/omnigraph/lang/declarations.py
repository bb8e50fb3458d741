"""Split the text of a `.gq` file into its declarations, so that an edit of one need not read the others again."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from omnigraph.lang.block_ends import is_at_declaration, is_at_pattern
from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import Language, TokenKind, TokenStream, tokenize
from omnigraph.lang.source import Source

_HEADER: Final = re.compile(r"^[ \t]*+(?=(?:query|pattern)[ \t]++\w)", re.MULTILINE)
_CLOSING: Final = re.compile(r"\*/")


@dataclass(frozen=True, eq=False)
class Piece:
    """The text of a declaration, up to the next one, and its tokens; `words` are those that may name a pattern."""

    text: str
    lexed: TokenStream
    starts_declaration: bool
    is_open: bool
    """Whether its last comment is never closed, so that what follows belongs to it."""
    queries: tuple[str, ...]
    patterns: tuple[str, ...]
    words: frozenset[str]
    line_breaks: int


def read_piece(text: str) -> Piece:
    """Return a part of a text with its tokens, and the names that it declares."""
    source = Source(text)
    lexed = tokenize(source, Language.QUERY)
    cursor = Cursor(source, Language.QUERY, lexed)
    starts_declaration = is_at_declaration(cursor)
    queries: list[str] = []
    patterns: list[str] = []
    words: set[str] = set()
    while not cursor.is_at_end:
        token = cursor.peek()
        if token.kind is TokenKind.IDENT:
            words.add(token.text)
            if token.text in ("query", "pattern") and is_at_declaration(cursor):
                (patterns if is_at_pattern(cursor) else queries).append(cursor.peek(1).text)
        cursor.advance()
    ends = [stream[-1].span.end for stream in (lexed.tokens[:-1], lexed.comments) if stream]
    return Piece(
        text=text,
        lexed=lexed,
        starts_declaration=starts_declaration,
        is_open=text.find("/*", max(ends, default=0)) >= 0,
        queries=tuple(queries),
        patterns=tuple(patterns),
        words=frozenset(words),
        line_breaks=len(source.line_starts) - 1,
    )


def split_declarations(text: str, read: Callable[[str], Piece] = read_piece) -> list[tuple[int, Piece]]:
    """Return the declarations of a text, each with its start; joined they are the whole text.

    What comes before the first declaration belongs to it, unless that is longer than comments: then it is a piece of
    its own. `read` may keep the pieces that it has read.
    """
    starts = [match.start() for match in _HEADER.finditer(text)]
    bounds = [0, *(start for start in starts if start), len(text)]
    pieces: list[tuple[int, Piece]] = []
    index = 0
    while index + 1 < len(bounds):
        start, index = bounds[index], index + 1
        piece = read(text[start : bounds[index]])
        if piece.is_open:
            # The header that ended it is inside of its comment.
            closing = _CLOSING.search(text, bounds[index])
            end = len(text) if closing is None else closing.end()
            while index + 1 < len(bounds) and bounds[index] < end:
                index += 1
            piece = read(text[start : bounds[index]])
        if pieces and not piece.starts_declaration:
            # A word at the start of a line that only looks like a header.
            start = pieces.pop()[0]
            piece = read(text[start : bounds[index]])
        pieces.append((start, piece))
    return pieces
