"""The tokens of a file by what they mean, for an editor that colours them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from omnigraph.lang.lexer import DECLARATION_KEYWORDS, RESERVED_WORDS, Comment, Token, TokenKind
from omnigraph.lang.names import NameKind, NameUse
from omnigraph.lang.source import Span
from omnigraph.lsp.text import Text

TYPES: Final = (
    "keyword", "class", "property", "variable", "parameter", "function", "string", "number", "comment", "operator",
    "decorator", "enumMember",
)  # fmt: skip
MODIFIERS: Final = ("declaration",)
_BY_NAME: Final = {
    NameKind.TYPE: "class",
    NameKind.PROPERTY: "property",
    NameKind.FIELD: "property",
    NameKind.COLUMN: "property",
    NameKind.VARIABLE: "variable",
    NameKind.PARAMETER: "parameter",
    NameKind.QUERY: "function",
    NameKind.PATTERN: "function",
    NameKind.FUNCTION: "function",
}
_BY_TOKEN: Final = {
    TokenKind.STRING: "string",
    TokenKind.INT: "number",
    TokenKind.FLOAT: "number",
    TokenKind.VARIABLE: "variable",
    TokenKind.TYPE: "class",
}
_CODES: Final = {name: index for index, name in enumerate(TYPES)}
_KEYWORDS: Final = RESERVED_WORDS | frozenset((*DECLARATION_KEYWORDS, "implements", "query", "pattern"))


def iter_tokens(
    tokens: Sequence[Token], comments: Iterable[Comment], uses: Iterable[NameUse]
) -> Iterator[tuple[Span, str, bool]]:
    """Yield the spans of tokens and comments with their type, and whether a name is declared there; in order."""
    # A use leaves out the `$` and quotes of its token.
    by_start = {use.span.start: use for use in uses if use.symbols}
    marks: list[tuple[Span, str, bool]] = [(comment.span, "comment", False) for comment in comments]
    for index, token in enumerate(tokens):
        start = token.span.start
        use = by_start.get(start) or by_start.get(start + 1) if token.kind is not TokenKind.SIGN else None
        if use is not None and use.span.end <= token.span.end:
            marks.append((token.span, _BY_NAME[use.symbols[0].kind], use.is_declaration))
        elif token.kind in _BY_TOKEN:
            marks.append((token.span, _BY_TOKEN[token.kind], False))
        elif token.kind is TokenKind.IDENT:
            before = tokens[index - 1].text if index else ""
            if before == "@":
                marks.append((token.span, "decorator", False))
            elif before != "." and (token.text in _KEYWORDS or _is_word_of_grammar(tokens, index)):
                marks.append((token.span, "keyword", False))
    return iter(sorted(marks, key=lambda each: each[0]))


def encode(text: Text, tokens: Iterable[tuple[Span, str, bool]]) -> list[int]:
    """Return tokens as the protocol sends them: each relative to the one before, none over several lines."""
    data: list[int] = []
    line = column = 0
    for span, kind, is_declaration in tokens:
        for part in _split_lines(text.value, span):
            place = text.position(part.start)
            is_same = place.line == line
            data += (
                place.line - line,
                place.character - column if is_same else place.character,
                text.measure(part),
                _CODES[kind],
                int(is_declaration),
            )
            line, column = place.line, place.character
    return data


def _is_word_of_grammar(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a word that is not reserved stands where the grammar has it, before braces or a variable."""
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if following is None:
        return False
    return following.text == "{" or (following.kind is TokenKind.VARIABLE and tokens[index].starts_line)


def _split_lines(text: str, span: Span) -> Iterator[Span]:
    start = span.start
    while start < span.end:
        ends = [at for sign in "\r\n" if (at := text.find(sign, start, span.end)) >= 0]
        end = min(ends, default=span.end)
        if end > start:
            yield Span(start, end)
        start = end + 1
