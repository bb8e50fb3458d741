"""The lexer of both languages: one pass of one regular expression."""

import math
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from omnigraph.lang.diagnostics import MAX_DIAGNOSTICS, Diagnostic
from omnigraph.lang.source import BYTE_ORDER_MARK, Source, Span

RESERVED_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "true",
        "false",
        "match",
        "return",
        "distinct",
        "order",
        "limit",
        "offset",
        "asc",
        "desc",
        "as",
        "insert",
        "update",
        "delete",
        "set",
        "where",
        "contains",
        "starts_with",
    ]
)
"""The reserved words of the query language, as the languages' reference lists them."""

DECLARATION_KEYWORDS = ("node", "edge", "interface")

TYPE_SYNONYMS = {
    "int": "I64",
    "integer": "I64",
    "int64": "I64",
    "long": "I64",
    "bigint": "I64",
    "int32": "I32",
    "uint": "U64",
    "uint64": "U64",
    "uint32": "U32",
    "float": "F64",
    "float64": "F64",
    "double": "F64",
    "number": "F64",
    "float32": "F32",
    "real": "F32",
    "str": "String",
    "text": "String",
    "varchar": "String",
    "char": "String",
    "uuid": "String",
    "json": "String",
    "boolean": "Bool",
    "bytes": "Blob",
    "binary": "Blob",
    "timestamp": "DateTime",
    "timestamptz": "DateTime",
    "instant": "DateTime",
    "time": "DateTime",
}
"""The names of base types in other languages, in lower case, and ours."""

DECLARATION_SYNONYMS = {
    "type": "node",
    "class": "node",
    "table": "node",
    "vertex": "node",
    "entity": "node",
    "struct": "node",
    "relation": "edge",
    "relationship": "edge",
    "rel": "edge",
    "link": "edge",
    "trait": "interface",
    "abstract": "interface",
}

OPERATOR_SYNONYMS = {
    "like": "contains",
    "ilike": "contains",
    "includes": "contains",
    "has": "contains",
    "startswith": "starts_with",
    "begins_with": "starts_with",
    "eq": "=",
    "equals": "=",
    "ne": "!=",
    "neq": "!=",
    "lt": "<",
    "le": "<=",
    "lte": "<=",
    "gt": ">",
    "ge": ">=",
    "gte": ">=",
}

CLAUSE_SYNONYMS = {"sort": "order", "orderby": "order", "order_by": "order", "skip": "offset", "top": "limit"}
"""The names in other languages of the clauses after `return`, and ours."""

LITERAL_SYNONYMS = {"none": "null", "nil": "null", "undefined": "null", "yes": "true", "no": "false"}


_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
_INVISIBLE_OTHERS = frozenset(
    # Joiners, fillers and blanks whose category is that of letters, marks or symbols.
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))  # variation selectors
)


def is_invisible(char: str) -> bool:
    """Return whether this is a control, direction mark, surrogate, zero-width character, or blank except the space."""
    if " " <= char <= "~":
        return False
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES or char in _INVISIBLE_OTHERS


def reveal(text: str) -> str:
    """Replace every invisible character by its code, as `<U+202E>`, so that the text is safe to print."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"<U+{ord(char):04X}>" if is_invisible(char) else char for char in text)


MAX_NAME_LENGTH = 255
# More digits than any number type has; `int` of a long text takes quadratic time.
MAX_NUMBER_DIGITS = 40


class Language(Enum):
    """The two languages."""

    SCHEMA = "schema"
    QUERY = "query"

    @property
    def syntax_code(self) -> str:
        """The code of everything that breaks the grammar."""
        return "S000" if self is Language.SCHEMA else "Q000"

    @property
    def limit_code(self) -> str:
        """The code of everything that is too long, too deep or too large."""
        return "S001" if self is Language.SCHEMA else "Q001"


class TokenKind(Enum):
    """The kind of a token; words and signs are distinguished further by their text."""

    IDENT = "a name"
    TYPE = "a type name"
    VARIABLE = "a variable"
    STRING = "a string"
    INT = "a whole number"
    FLOAT = "a number"
    SIGN = "a sign"
    END = "the end of the file"


TokenValue: TypeAlias = str | int | float | None


class Token(NamedTuple):
    """One token: its text as written, and its meaning (string without escapes, number, variable without `$`)."""

    kind: TokenKind
    text: str
    span: Span
    value: TokenValue = None
    starts_line: bool = False


class Comment(NamedTuple):
    """A comment as written, with its `//` or `/* */`."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class TokenStream:
    """The tokens of a source, of which the last is always `END`.

    `damaged` are the indexes of tokens before which something unreadable was skipped: the lexer already reported it, so
    a parser reports nothing more there.
    """

    tokens: tuple[Token, ...]
    comments: tuple[Comment, ...]
    diagnostics: tuple[Diagnostic, ...]
    damaged: frozenset[int]


def tokenize(source: Source, language: Language) -> TokenStream:
    """Split the source into tokens. Never fails: what can't be read is reported and skipped."""
    lexer = _Lexer(source.text, language)
    try:
        lexer.run()
    except _EnoughError:
        lexer.damaged.add(len(lexer.tokens))
    end = Span(len(source.text), len(source.text))
    lexer.tokens.append(Token(TokenKind.END, "", end, starts_line=True))
    return TokenStream(tuple(lexer.tokens), tuple(lexer.comments), tuple(lexer.diagnostics), frozenset(lexer.damaged))


class _EnoughError(Exception):
    """The limit of diagnostics is reached."""


# Possessive quantifiers (`++`, `*+`) never backtrack, so that lexing takes linear time on any text.
_STRING_BODY: Final = r'"(?:[^"\\\r\n]++|\\[^\r\n])*+'
_TOKEN: Final = r"""
      (?P<newline> [ \t]*+[\r\n][ \t\r\n]*+ )
    | (?P<space>   [ \t]++ )
    | (?P<word>    [^\W\d]\w*+ )
    | (?P<variable>\$\w*+ )
    | (?P<float>   SIGN[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)? )
    | (?P<int>     SIGN[0-9]++ )
    | (?P<string>  BODY" )
    | (?P<open>    BODY\\?+ )
    | (?P<comment> //[^\r\n]*+ | /\*(?s:.*?)\*/ )
    | (?P<unclosed>/\*(?s:.*) )
    | (?P<hash>    \#[^\r\n]*+ )
    | (?P<ticked>  `[^`\r\n]*+` )
    | (?P<quoted>  '[^'\r\n]*+' | [“”„][^“”„\r\n]*+[“”] )
    | (?P<sign>    -> | => | \.\. | == | != | <> | <= | >= | && | \|\| | -- | [ -~] )
    | (?P<strange> (?: [^ -~\w\t\r\n] )++ | (?s:.) )
    """.replace("BODY", _STRING_BODY)
# In a schema a minus belongs to its number; in a query it may also subtract, which the parser decides.
_TOKENS: Final = {
    Language.SCHEMA: re.compile(_TOKEN.replace("SIGN", "-?"), re.VERBOSE),
    Language.QUERY: re.compile(_TOKEN.replace("SIGN", ""), re.VERBOSE),
}
# Control characters, direction marks (which can make a text look like another one) and surrogates.
_FORBIDDEN: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]++"
)
_ESCAPE: Final = re.compile(
    r"\\(?: u(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})"
    r"    | u(?P<code>[0-9A-Fa-f]{4}) | (?P<other>.) )",
    re.VERBOSE | re.DOTALL,
)
_REST_OF_LINE: Final = re.compile(r"[^\r\n]*+")
_ESCAPES: Final = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_LOOKALIKES: Final = {"→": "->", "⇒": "->", "≠": "!=", "≤": "<=", "≥": ">="}
_STRAY_CHAR_HINTS: Final = {
    "'": 'strings are written with double quotes: `"…"`',
    "`": "names are written without quotes",
    "\\": "a backslash belongs into a string",
}


class _Lexer:
    """The state of one pass."""

    def __init__(self, text: str, language: Language) -> None:
        self.text = text
        self.language = language
        self.tokens: list[Token] = []
        self.comments: list[Comment] = []
        self.diagnostics: list[Diagnostic] = []
        self.damaged: set[int] = set()
        self.starts_line = True

    def run(self) -> None:
        start = int(self.text.startswith(BYTE_ORDER_MARK))
        self._refuse_forbidden()
        position = start
        while position < len(self.text):
            # A sign that turns out to start a comment moves the position, so the iteration starts again after it.
            for match in _TOKENS[self.language].finditer(self.text, position):
                position = match.end()
                group = match.lastgroup or "strange"
                if group == "space":
                    continue
                if group == "newline":
                    self.starts_line = True
                    continue
                skipped_to = self._take(group, match.group(), Span(match.start(), position))
                if skipped_to is not None:
                    position = skipped_to
                    break

    def _take(self, group: str, text: str, span: Span) -> int | None:
        """Handle one match; return a position if lexing continues elsewhere than after it."""
        match group:
            case "word":
                self._lex_word(text, span)
            case "variable":
                self._lex_variable(text, span)
            case "sign":
                return self._lex_sign(text, span)
            case "string":
                self._emit(TokenKind.STRING, text, span, self._unescape(text[1:-1], span.start + 1))
            case "int" | "float":
                self._lex_number(group, text, span)
            case "comment":
                self.comments.append(Comment(text, span))
                # After a comment with a line break, the next token starts a line.
                self.starts_line = self.starts_line or "\n" in text or "\r" in text
            case _:
                self._lex_mistake(group, text, span)
        return None

    def _emit(self, kind: TokenKind, text: str, span: Span, value: TokenValue = None) -> None:
        self.tokens.append(Token(kind, text, span, value, self.starts_line))
        self.starts_line = False

    def _report(self, span: Span, message: str, help: str | None = None, *, code: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(code or self.language.syntax_code, span, message, help))
        if len(self.diagnostics) >= MAX_DIAGNOSTICS:
            raise _EnoughError

    def _mark_damaged(self) -> None:
        self.damaged.add(len(self.tokens))

    # --- what is right -------------------------------------------------------------------------------

    def _lex_word(self, text: str, span: Span) -> None:
        if not text.isascii():
            self._refuse_letters(text, span)
        self._emit(TokenKind.TYPE if text[0].isupper() else TokenKind.IDENT, self._limit_name(text, span), span)

    def _lex_variable(self, text: str, span: Span) -> None:
        name = text[1:]
        # A variable that is not one is reported here and still emitted, so that the parser can continue.
        if not name:
            self._report(span, "expected a name after `$`", "a variable is written `$name`, without a space")
            self._mark_damaged()
            return
        if not name.isascii():
            self._refuse_letters(name, Span(span.start + 1, span.end))
        elif name[0].isdigit():
            self._report(span, f"`{abbreviate(text)}` is not a variable", "the name of a variable starts with a letter")
        elif name[0].isupper():
            fixed = f"${name[0].lower()}{name[1:]}"
            hint = f"variables start with a small letter: did you mean `{abbreviate(fixed)}`?"
            self._report(span, f"`{abbreviate(text)}` is not a variable", hint)
            text, name = fixed, fixed[1:]
        self._emit(TokenKind.VARIABLE, text[: MAX_NAME_LENGTH + 1], span, self._limit_name(name, span))

    def _limit_name(self, name: str, span: Span) -> str:
        if len(name) > MAX_NAME_LENGTH:
            message = f"a name has at most {MAX_NAME_LENGTH} characters, and `{abbreviate(name)}` has {len(name)}"
            self._report(span, message, "shorten it", code=self.language.limit_code)
        return name[:MAX_NAME_LENGTH]

    def _lex_number(self, group: str, text: str, span: Span) -> None:
        value: TokenValue = 0
        digits = len(text) - sum(map(text.count, "-+.eE"))
        if digits > MAX_NUMBER_DIGITS:
            message = f"a number has at most {MAX_NUMBER_DIGITS} digits, and this one has {digits}"
            self._report(span, message, "keep larger numbers in a String", code=self.language.limit_code)
        elif group == "int":
            value = int(text)
        else:
            value = float(text)
            if math.isinf(value):
                message = f"the number `{text}` is too large for a 64-bit float"
                self._report(span, message, "the largest is about 1.79e308", code=self.language.limit_code)
                value = 0.0
        self._emit(TokenKind.INT if group == "int" else TokenKind.FLOAT, text, span, value)

    def _unescape(self, body: str, start: int) -> str:
        if "\\" not in body:
            return body
        parts: list[str] = []
        position = 0
        while (backslash := body.find("\\", position)) >= 0:
            parts.append(body[position:backslash])
            escape = _ESCAPE.match(body, backslash)
            position = escape.end() if escape else len(body)
            if escape:
                span = Span(start + backslash, start + position)
                parts.append(self._decode_escape(escape, span))
        parts.append(body[position:])
        return "".join(parts)

    def _decode_escape(self, escape: re.Match[str], span: Span) -> str:
        if other := escape["other"]:
            if other == "u":
                self._report(span, "`\\u` needs four hexadecimal digits", "for example `\\u00e9`")
            elif other not in _ESCAPES:
                hint = 'the escapes are `\\"` `\\\\` `\\n` `\\r` `\\t` and `\\uXXXX`; a backslash itself is `\\\\`'
                self._report(span, f"unknown escape `\\{reveal(other)}`", hint)
            return _ESCAPES.get(other, "")
        if high := escape["high"]:
            return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(escape["low"], 16) - 0xDC00))
        code = int(escape["code"], 16)
        if 0xD800 <= code < 0xE000:
            hint = "write both halves of the pair, `\\ud83d\\ude00`, or the character itself"
            self._report(span, f"`\\u{escape['code']}` is half of a character", hint)
            return ""
        return chr(code)

    # --- what is not ---------------------------------------------------------------------------------

    def _lex_sign(self, text: str, span: Span) -> int | None:
        if text == "--" and not self._is_inside_token(span):
            self._report(span, "`--` does not start a comment", "comments are written `// …` or `/* … */`")
            return self._find_line_end(span.start)
        if text in _STRAY_CHAR_HINTS:
            self._report(span, f"unexpected character `{text}`", _STRAY_CHAR_HINTS[text])
            self._mark_damaged()
            return self._find_line_end(span.start) if text == "'" else None
        self._emit(TokenKind.SIGN, text, span)
        return None

    def _find_line_end(self, start: int) -> int:
        rest = _REST_OF_LINE.match(self.text, start)
        return rest.end() if rest else start

    def _is_inside_token(self, span: Span) -> bool:
        """Return whether this `--` is inside an enum's value or an arrow `-->`, or replaces an edge's arrow."""
        if not self.tokens:
            return False
        next_char = self.text[span.end : span.end + 1]
        if self.tokens[-1].span.end == span.start or next_char in (">", "[", "("):
            return True
        if self.tokens[-1].text in ("(", ",") and (next_char.isalnum() or next_char in ("_", "-")):
            return True
        if self.tokens[-1].text in ("(", ",") and not self.text[span.end : span.end + 1].isspace():
            return self.language is Language.SCHEMA
        texts = [token.text for token in self.tokens[-4:]]
        return len(texts) == 4 and texts[0] == "edge" and texts[2] == ":"

    def _lex_mistake(self, group: str, text: str, span: Span) -> None:
        opening = Span(span.start, span.start + (2 if group == "unclosed" else 1))
        match group:
            case "open":
                hint = 'add the closing `"`; a string ends on the line on which it starts (a line break in it is `\\n`)'
                self._report(opening, "this string is never closed", hint)
                self._emit(TokenKind.STRING, text, span, "")
                self._mark_damaged()
            case "unclosed":
                self._report(opening, "this comment is never closed", "add the closing `*/`")
                self._mark_damaged()
            case "hash":
                self._report(opening, "`#` does not start a comment", "comments are written `// …` or `/* … */`")
            case "ticked":
                self._report(
                    span, f"unexpected quotes ` around `{abbreviate(text[1:-1])}`", "names are written without quotes"
                )
                if text[1:-1].isidentifier():
                    self._lex_word(text[1:-1], span)
                else:
                    self._mark_damaged()
            case "quoted":
                hint = f'strings are written with double quotes: `"{abbreviate(text[1:-1])}"`'
                self._report(span, f"unexpected quotes {abbreviate(text[0])} around a string", hint)
                self._emit(TokenKind.STRING, text, span, text[1:-1])
            case _:
                self._lex_unexpected(text, span)

    def _lex_unexpected(self, text: str, span: Span) -> None:
        first = Span(span.start, span.start + 1)
        if text in _LOOKALIKES:
            self._report(first, f"unexpected character `{text}`", f"write `{_LOOKALIKES[text]}`")
            self._emit(TokenKind.SIGN, _LOOKALIKES[text], span)
            return
        self._mark_damaged()
        for offset, char in enumerate(text):
            if not _FORBIDDEN.match(char):
                place = Span(span.start + offset, span.start + offset + 1)
                self._report(place, f"unexpected character {_describe_char(char)}", _suggest_fix(char))
                return

    def _refuse_letters(self, name: str, span: Span) -> None:
        at = next(index for index, char in enumerate(name) if not char.isascii())
        letter = Span(span.start + at, span.start + at + 1)
        hint = "names are made of the letters a-z and A-Z, digits and `_`"
        self._report(letter, f"unexpected letter {_describe_char(name[at])} in a name", hint)

    def _refuse_forbidden(self) -> None:
        """Report characters that are allowed nowhere, neither in strings nor in comments."""
        for match in _FORBIDDEN.finditer(self.text):
            char = match.group()[0]
            if "\ud800" <= char <= "\udfff":
                hint = "the text was decoded wrongly: save it as UTF-8"
            else:
                hint = f"delete it; in a string, write `\\u{ord(char):04x}`"
            self._report(
                Span(match.start(), match.start() + 1), f"the character {_describe_char(char)} is not allowed", hint
            )


def _describe_char(char: str) -> str:
    """Describe a character that may be invisible, for a message."""
    name = unicodedata.name(char, "")
    code = f"U+{ord(char):04X}" + (f" {name}" if name else "")
    return f"`{char}` ({code})" if char.isprintable() else code


def _suggest_fix(char: str) -> str | None:
    category = unicodedata.category(char)
    if category in ("Zs", "Zl", "Zp"):
        return "use an ordinary space or line break"
    if category == "Cf":
        return "delete it: it can't be seen"
    if category in ("Pi", "Pf"):
        return 'strings are written with double quotes: `"…"`'
    if category == "Pd":
        return "write an ordinary `-`"
    if category[0] in "LMN":
        return "names are made of the letters a-z and A-Z, digits and `_`"
    return None


def abbreviate(text: str) -> str:
    """Truncate a text for a message, and reveal its invisible characters."""
    return reveal(text if len(text) <= 40 else text[:37] + "…")
