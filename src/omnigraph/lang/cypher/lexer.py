"""The lexer of Cypher: words are compared without case, names may stand in backticks, arrows are single signs."""

import math
import re
from typing import Final

from omnigraph.lang.diagnostics import MAX_DIAGNOSTICS, Diagnostic
from omnigraph.lang.lexer import (
    MAX_NAME_LENGTH,
    MAX_NUMBER_DIGITS,
    Comment,
    Token,
    TokenKind,
    TokenStream,
    TokenValue,
    abbreviate,
)
from omnigraph.lang.source import BYTE_ORDER_MARK, Source, Span

SYNTAX_CODE = "C000"
LIMIT_CODE = "C001"

# Possessive quantifiers (`++`, `*+`) never backtrack, so that lexing takes linear time on any text.
_TOKEN: Final = re.compile(
    r"""
      (?P<space>   \s++ )
    | (?P<comment> //[^\r\n]*+ | /\*(?s:.*?)\*/ )
    | (?P<unclosed>/\*(?s:.*) )
    | (?P<word>    [^\W\d]\w*+ )
    | (?P<ticked>  `(?:[^`]|``)*+` )
    | (?P<param>   \$(?: \w++ | `(?:[^`]|``)*+` ) )
    | (?P<float>   (?: [0-9]++\.[0-9]++ | \.[0-9]++ )(?:[eE][+-]?[0-9]++)? | [0-9]++[eE][+-]?[0-9]++ )
    | (?P<int>     0[xX][0-9A-Fa-f]++ | 0[oO][0-7]++ | [0-9]++ )
    | (?P<string>  '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" )
    | (?P<open>    ['"`](?s:.*) )
    | (?P<sign>    <> | <= | >= | =~ | != | == | \+= | \|\| | && | :: | \.\. | [-!%&()*+,./:;<=>?@\[\]^{|}$] )
    | (?P<strange> (?s:.) )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?: u(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})"
    r"    | u(?P<code>[0-9A-Fa-f]{4}) | U(?P<long>[0-9A-Fa-f]{8}) | (?P<other>.) )",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {**{char: char for char in "\\'\"`"}, "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_MAX_CODE_POINT: Final = 0x10FFFF
_BASES: Final = {"0x": 16, "0o": 8}


def tokenize_cypher(source: Source) -> TokenStream:
    """Split a statement into tokens. Never fails: what can't be read is reported and skipped.

    The text of a word is in capitals, and its value is as written; that of a name in backticks keeps these, so that it
    equals no keyword.
    """
    lexer = _CypherLexer(source.text)
    try:
        lexer.run()
    except _FullError:
        lexer.damaged.add(len(lexer.tokens))
    end = Span(len(source.text), len(source.text))
    lexer.tokens.append(Token(TokenKind.END, "", end, starts_line=True))
    return TokenStream(tuple(lexer.tokens), tuple(lexer.comments), tuple(lexer.diagnostics), frozenset(lexer.damaged))


class _FullError(Exception):
    """The limit of diagnostics is reached."""


class _CypherLexer:
    """The state of one pass."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.comments: list[Comment] = []
        self.diagnostics: list[Diagnostic] = []
        self.damaged: set[int] = set()
        self.starts_line = True

    def run(self) -> None:
        for match in _TOKEN.finditer(self.text, int(self.text.startswith(BYTE_ORDER_MARK))):
            text, span = match.group(), Span(match.start(), match.end())
            match match.lastgroup:
                case "space":
                    self.starts_line = self.starts_line or "\n" in text or "\r" in text
                case "comment":
                    self.comments.append(Comment(text, span))
                    self.starts_line = self.starts_line or "\n" in text
                case "word":
                    self._emit(TokenKind.IDENT, text.upper() if text.isascii() else text, span, self._limit(text, span))
                case "ticked":
                    self._emit(TokenKind.IDENT, text, span, self._limit(_unquote(text), span))
                case "param":
                    name = text[1:]
                    self._emit(TokenKind.VARIABLE, text, span, self._limit(_unquote(name), span))
                case "float" | "int" as kind:
                    self._lex_number(kind, text, span)
                case "string":
                    self._emit(TokenKind.STRING, text, span, self._unescape(text[1:-1], span.start + 1))
                case "sign":
                    self._emit(TokenKind.SIGN, text, span)
                case _:
                    self._lex_mistake(match.lastgroup or "strange", text, span)

    def _emit(self, kind: TokenKind, text: str, span: Span, value: TokenValue = None) -> None:
        self.tokens.append(Token(kind, text, span, value, self.starts_line))
        self.starts_line = False

    def _report(self, span: Span, message: str, help: str | None = None, *, code: str = SYNTAX_CODE) -> None:
        self.diagnostics.append(Diagnostic(code, span, message, help))
        if len(self.diagnostics) >= MAX_DIAGNOSTICS:
            raise _FullError

    def _limit(self, name: str, span: Span) -> str:
        if len(name) > MAX_NAME_LENGTH:
            message = f"a name has at most {MAX_NAME_LENGTH} characters, and `{abbreviate(name)}` has {len(name)}"
            self._report(span, message, "shorten it", code=LIMIT_CODE)
        elif not name:
            self._report(span, "a name is empty", "write a name between the backticks")
        return name[:MAX_NAME_LENGTH]

    def _lex_number(self, kind: str, text: str, span: Span) -> None:
        value: TokenValue = 0
        digits = sum(map(str.isalnum, text))
        if digits > MAX_NUMBER_DIGITS:
            message = f"a number has at most {MAX_NUMBER_DIGITS} digits, and this one has {digits}"
            self._report(span, message, "keep larger numbers in a String", code=LIMIT_CODE)
        elif kind == "int":
            base = _BASES.get(text[:2].lower(), 10)
            value = int(text if base == 10 else text[2:], base)
        else:
            value = float(text)
            if math.isinf(value):
                message = f"the number `{text}` is too large for a 64-bit float"
                self._report(span, message, "the largest is about 1.79e308", code=LIMIT_CODE)
                value = 0.0
        following = self.text[span.end : span.end + 1]
        if following.isalpha() or following == "_":
            self._report(
                span.after, f"unexpected `{abbreviate(following)}` in a number", "put a space after the number"
            )
        self._emit(TokenKind.INT if kind == "int" else TokenKind.FLOAT, text, span, value)

    def _unescape(self, body: str, start: int) -> str:
        if "\\" not in body:
            return body
        return _ESCAPE.sub(lambda escape: self._decode_escape(escape, start), body)

    def _decode_escape(self, escape: re.Match[str], start: int) -> str:
        span = Span(start + escape.start(), start + escape.end())
        if other := escape["other"]:
            if other not in _ESCAPES:
                hint = r"the escapes are `\\` `\'` `\"` `\b` `\f` `\n` `\r` `\t` and `\uXXXX`; a backslash is `\\`"
                self._report(span, f"unknown escape `{abbreviate(escape.group())}`", hint)
            return _ESCAPES.get(other, "")
        if high := escape["high"]:
            return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(escape["low"], 16) - 0xDC00))
        code = int(escape["code"] or escape["long"], 16)
        if 0xD800 <= code < 0xE000 or code > _MAX_CODE_POINT:
            self._report(span, f"`{escape.group()}` is no character", "write the character itself")
            return ""
        return chr(code)

    def _lex_mistake(self, group: str, text: str, span: Span) -> None:
        self.damaged.add(len(self.tokens))
        first = Span(span.start, span.start + 1)
        if group == "unclosed":
            self._report(Span(span.start, span.start + 2), "this comment is never closed", "add the closing `*/`")
        elif group == "open":
            what = "name" if text[0] == "`" else "string"
            self._report(first, f"this {what} is never closed", f"add the closing `{text[0]}`")
        else:
            self._report(first, f"unexpected character `{abbreviate(text)}`", "delete it")


def _unquote(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
