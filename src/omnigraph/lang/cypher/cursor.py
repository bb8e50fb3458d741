"""The token cursor of the Cypher parser: names, keywords without case, and brackets with their ends."""

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.cypher.lexer import LIMIT_CODE, SYNTAX_CODE, tokenize_cypher
from omnigraph.lang.lexer import Language, Token, TokenKind
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Source, Span

RESERVED_WORDS = frozenset(
    [
        "AND",
        "AS",
        "ASC",
        "ASCENDING",
        "BY",
        "CASE",
        "CONTAINS",
        "CREATE",
        "DELETE",
        "DESC",
        "DESCENDING",
        "DETACH",
        "DISTINCT",
        "ELSE",
        "END",
        "ENDS",
        "FALSE",
        "FOREACH",
        "IN",
        "IS",
        "LIMIT",
        "MATCH",
        "MERGE",
        "NOT",
        "NULL",
        "ON",
        "OPTIONAL",
        "OR",
        "ORDER",
        "REMOVE",
        "RETURN",
        "SET",
        "SKIP",
        "STARTS",
        "THEN",
        "TRUE",
        "UNION",
        "UNWIND",
        "WHEN",
        "WHERE",
        "WITH",
        "XOR",
    ]
)
"""The words that are no variables unless they stand in backticks; labels and property keys may be any word."""

_OPENING = ("(", "[", "{")
_CLOSING = (")", "]", "}")


def build_cursor(source: Source) -> Cursor:
    """Return a cursor over the tokens of one statement."""
    cursor = Cursor(source, Language.QUERY, tokenize_cypher(source))
    cursor.syntax_code, cursor.limit_code = SYNTAX_CODE, LIMIT_CODE
    return cursor


def find_closing(cursor: Cursor) -> int | None:
    """Return how many tokens after the cursor the bracket at the cursor closes; None if it never does."""
    depth = 0
    ahead = 0
    while (token := cursor.peek(ahead)).kind is not TokenKind.END:
        if token.kind is TokenKind.SIGN:
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth == 0:
            return ahead
        ahead += 1
    return None


def is_at_words(cursor: Cursor, *words: str) -> bool:
    """Return whether these words follow one another at the cursor."""
    return all(cursor.peek(ahead).text == word for ahead, word in enumerate(words))


def accept_words(cursor: Cursor, *words: str) -> Span | None:
    """Move past these words and return their span, if they follow one another at the cursor."""
    if not is_at_words(cursor, *words):
        return None
    first = cursor.advance()
    for _ in words[1:]:
        cursor.advance()
    return first.span.to(cursor.previous)


def is_at_variable(cursor: Cursor, ahead: int = 0) -> bool:
    """Return whether that token can be a variable."""
    token = cursor.peek(ahead)
    return token.kind is TokenKind.IDENT and token.text not in RESERVED_WORDS


def parse_variable(cursor: Cursor, what: str = "a variable") -> Name:
    """Parse the name of a variable."""
    if not is_at_variable(cursor):
        is_reserved = cursor.is_at_kind(TokenKind.IDENT)
        cursor.fail(what, "a reserved word is a name only in backticks" if is_reserved else None)
    return build_name(cursor.advance())


def accept_variable(cursor: Cursor) -> Name | None:
    """Parse a variable if there is one."""
    return build_name(cursor.advance()) if is_at_variable(cursor) else None


def parse_symbol(cursor: Cursor, what: str) -> Name:
    """Parse a label, a type or a property key: any word."""
    if not cursor.is_at_kind(TokenKind.IDENT):
        cursor.fail(what)
    return build_name(cursor.advance())


def build_name(token: Token) -> Name:
    """Return the name that a word or a name in backticks is, as written."""
    return Name(str(token.value), token.span)
