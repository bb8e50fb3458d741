"""The token cursor of the Cypher parser: names, keywords without case, and brackets with their ends."""

from typing import NoReturn

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.cypher.lexer import LIMIT_CODE, SYNTAX_CODE, tokenize_cypher
from omnigraph.lang.lexer import Language, Token, TokenKind, TokenStream, abbreviate
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

_OPENING = {"(": ")", "[": "]", "{": "}"}


class CypherCursor(Cursor):
    """A cursor over the tokens of one statement."""

    def __init__(self, source: Source) -> None:
        lexed = tokenize_cypher(source)
        super().__init__(source, Language.QUERY, lexed)
        self.syntax_code, self.limit_code = SYNTAX_CODE, LIMIT_CODE
        self._closing = _match_brackets(lexed)

    def fail(self, expected: str, help: str | None = None) -> NoReturn:
        """Raise `GaveUpError` after reporting what was expected at the cursor."""
        token = self.peek()
        if token.kind is TokenKind.END:
            self.refuse(self.previous.after, f"expected {expected}, found the end of the statement", help)
        found = abbreviate(self.source.slice(token.span))
        self.refuse(token.span, f"expected {expected}, found `{found}`", help)

    def find_closing(self, ahead: int = 0) -> int | None:
        """Return how many tokens after the cursor the bracket closes that opens `ahead` tokens after it."""
        closing = self._closing.get(self.index + ahead)
        return None if closing is None else closing - self.index

    def is_at_words(self, *words: str) -> bool:
        """Return whether these words follow one another at the cursor."""
        return all(self.peek(ahead).text == word for ahead, word in enumerate(words))

    def accept_words(self, *words: str) -> Span | None:
        """Move past these words and return their span, if they follow one another at the cursor."""
        if not self.is_at_words(*words):
            return None
        first = self.advance()
        for _ in words[1:]:
            self.advance()
        return first.span.to(self.previous)

    def is_at_variable(self, ahead: int = 0) -> bool:
        """Return whether that token can be a variable."""
        token = self.peek(ahead)
        return token.kind is TokenKind.IDENT and token.text not in RESERVED_WORDS

    def parse_variable(self, what: str = "a variable") -> Name:
        """Parse the name of a variable."""
        if not self.is_at_variable():
            is_reserved = self.peek().kind is TokenKind.IDENT
            self.fail(what, "a reserved word is a name only in backticks" if is_reserved else None)
        return build_name(self.advance())

    def accept_variable(self) -> Name | None:
        """Parse a variable if there is one."""
        return build_name(self.advance()) if self.is_at_variable() else None

    def parse_symbol(self, what: str) -> Name:
        """Parse a label, a type or a property key: any word."""
        if not self.is_at_kind(TokenKind.IDENT):
            self.fail(what)
        return build_name(self.advance())


def build_name(token: Token) -> Name:
    """Return the name that a word or a name in backticks is, as written."""
    return Name(str(token.value), token.span)


def _match_brackets(lexed: TokenStream) -> dict[int, int]:
    """Return the index of the closing token of each opening one that has one."""
    closing: dict[int, int] = {}
    stack: list[tuple[int, str]] = []
    for index, token in enumerate(lexed.tokens):
        if token.kind is not TokenKind.SIGN:
            continue
        if token.text in _OPENING:
            stack.append((index, _OPENING[token.text]))
        elif stack and token.text == stack[-1][1]:
            closing[stack.pop()[0]] = index
    return closing
