"""Literals, as both languages write them."""

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import LITERAL_SYNONYMS, Language, Token, TokenKind, abbreviate
from omnigraph.lang.literals import (
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    Literal,
    NullLiteral,
    StringLiteral,
)
from omnigraph.lang.source import Span

MAX_LIST_ITEMS = 65_536


def is_at_literal(cursor: Cursor) -> bool:
    """Return whether a literal starts at the cursor, or something that can only be meant as one."""
    token = cursor.peek()
    if token.kind in (TokenKind.STRING, TokenKind.INT, TokenKind.FLOAT) or token.text in ("true", "false", "null", "["):
        return True
    if token.text in ("date", "datetime"):
        return _is_at_temporal(cursor)
    # `.5` and `+5`, and in a schema `- 5`, are not numbers of the languages; `parse_number` reports and repairs them.
    if token.text in (".", "+", "-"):
        return cursor.peek(1).kind in (TokenKind.INT, TokenKind.FLOAT)
    return token.kind is TokenKind.TYPE and _find_synonym(token) is not None


def parse_literal(cursor: Cursor) -> Literal:
    """Parse a string, number, `true`, `false`, `null`, date, datetime or list."""
    token = cursor.peek()
    if token.kind is TokenKind.STRING:
        cursor.advance()
        return StringLiteral(str(token.value), token.span)
    if token.kind in (TokenKind.INT, TokenKind.FLOAT) or token.text in (".", "+", "-"):
        return parse_number(cursor)
    match token.text:
        case "true" | "false":
            cursor.advance()
            return BoolLiteral(token.text == "true", token.span)
        case "null":
            cursor.advance()
            return NullLiteral(token.span)
        case "date" | "datetime" if _is_at_temporal(cursor):
            return _parse_temporal(cursor)
        case "[":
            return _parse_list(cursor)
    if meant := _find_synonym(token):
        cursor.report(token.span, f"expected a value, found `{token.text}`", f"did you mean `{meant}`?")
        cursor.advance()
        return NullLiteral(token.span) if meant == "null" else BoolLiteral(meant == "true", token.span)
    if token.kind in (TokenKind.IDENT, TokenKind.TYPE):
        cursor.fail("a value", f'a text is written in double quotes: `"{abbreviate(token.text)}"`')
    return cursor.fail("a value")


def _is_at_temporal(cursor: Cursor) -> bool:
    """Return whether a date or datetime literal starts at the cursor; in a query, `date` is also a function."""
    if not cursor.is_followed_by("("):
        return False
    return cursor.language is Language.SCHEMA or cursor.peek(2).kind is TokenKind.STRING


def _find_synonym(token: Token) -> str | None:
    folded = token.text.lower()
    if folded in ("true", "false", "null"):
        return folded if token.text != folded else None
    return LITERAL_SYNONYMS.get(folded)


def parse_number(cursor: Cursor) -> IntLiteral | FloatLiteral:
    """Parse an integer or decimal number; notations of other languages are reported and repaired."""
    token = cursor.peek()
    if token.text in (".", "+", "-"):
        return _parse_signed_number(cursor)
    if token.kind not in (TokenKind.INT, TokenKind.FLOAT):
        cursor.fail("a number")
    cursor.advance()
    value, span = token.value, token.span
    tail = cursor.peek()
    if cursor.is_glued() and tail.kind in (TokenKind.IDENT, TokenKind.TYPE, TokenKind.INT, TokenKind.FLOAT):
        span = _skip_number_tail(cursor, token)
    elif cursor.is_glued() and tail.text == ".":
        cursor.advance()
        span = span.to(tail.span)
        text = cursor.source.slice(span)
        cursor.report(span, f"`{abbreviate(text)}` is not a number", f"write `{abbreviate(token.text)}.0`")
        return FloatLiteral(float(value or 0), span)
    if isinstance(value, float):
        return FloatLiteral(value, span)
    return IntLiteral(value if isinstance(value, int) else 0, span)


def _parse_signed_number(cursor: Cursor) -> IntLiteral | FloatLiteral:
    sign = cursor.peek()
    digits = cursor.peek(1)
    if digits.kind not in (TokenKind.INT, TokenKind.FLOAT):
        cursor.fail("a value")
    span = sign.span.to(digits.span)
    if sign.text == "-" and cursor.language is Language.QUERY:
        cursor.advance()
        number = parse_number(cursor)
        span = sign.span.to(number.span)
        return IntLiteral(-number.value, span) if isinstance(number, IntLiteral) else FloatLiteral(-number.value, span)
    fixed = {".": f"0.{digits.text}", "+": digits.text, "-": f"-{digits.text.lstrip('-')}"}[sign.text]
    cursor.report(span, f"`{abbreviate(cursor.source.slice(span))}` is not a number", f"write `{abbreviate(fixed)}`")
    cursor.advance()
    cursor.advance()
    value = digits.value if isinstance(digits.value, int | float) else 0
    return FloatLiteral(value, span) if isinstance(value, float) else IntLiteral(value, span)


def _skip_number_tail(cursor: Cursor, head: Token) -> Span:
    """Report the letters or digits that directly follow a number, as in `1e5`, and skip them."""
    span = head.span
    while cursor.is_glued() and cursor.peek().kind in (TokenKind.IDENT, TokenKind.TYPE, TokenKind.INT, TokenKind.FLOAT):
        span = span.to(cursor.advance().span)
    text = cursor.source.slice(span)
    tail = text[len(head.text) :]
    hint = None
    if tail[0] in "eE" and tail[1:].lstrip("+-").isdigit() and head.kind is TokenKind.INT:
        hint = f"an exponent needs a fraction before it: `{abbreviate(head.text)}.0{abbreviate(tail)}`"
    elif tail.replace("_", "").isdigit():
        hint = f"digits are not grouped: `{abbreviate(text.replace('_', ''))}`"
    elif head.text in ("0", "-0"):
        hint = "numbers are written in decimal digits"
    cursor.report(span, f"`{abbreviate(text)}` is not a number", hint)
    return span


def parse_integer(cursor: Cursor, what: str, hint: str | None = None) -> IntLiteral:
    """Parse an integer; `what` names it in messages, with its article."""
    token = cursor.peek()
    if token.kind is TokenKind.FLOAT:
        cursor.fail(what, "write a whole number, without a fraction")
    if token.kind is not TokenKind.INT and token.text not in ("+", "-"):
        cursor.fail(what, hint)
    found = parse_number(cursor)
    return found if isinstance(found, IntLiteral) else IntLiteral(int(found.value), found.span)


def _parse_temporal(cursor: Cursor) -> DateLiteral | DateTimeLiteral:
    word = cursor.advance()
    cursor.expect("(")
    text = cursor.peek()
    if text.kind is not TokenKind.STRING:
        example = "2026-01-31" if word.text == "date" else "2026-01-31T12:00:00Z"
        hint = f'for example `{word.text}("{example}")`'
        cursor.fail("a string", hint)
    cursor.advance()
    span = word.span.to(cursor.expect(")").span)
    make = DateLiteral if word.text == "date" else DateTimeLiteral
    return make(str(text.value), span)


def _parse_list(cursor: Cursor) -> ListLiteral:
    opening = cursor.advance()
    items: list[Literal] = []
    is_too_long = False
    with cursor.nest():
        while not cursor.is_at("]"):
            if cursor.is_at_kind(TokenKind.VARIABLE):
                cursor.fail(
                    "a literal", "a list holds literals; pass the whole list as one parameter, `$name: [String]`"
                )
            items.append(parse_literal(cursor))
            if len(items) > MAX_LIST_ITEMS:
                is_too_long = True
                items.pop()
            if comma := cursor.accept(","):
                if cursor.is_at("]"):
                    cursor.report(comma.span, "unexpected `,` before `]`", "delete it, or add a value after it")
            elif is_at_literal(cursor) and not cursor.peek().starts_line:
                cursor.report_missing("missing `,`", "put a `,` between a value and the next")
            elif not cursor.is_at("]"):
                cursor.fail("`,` or `]`", f"the list's `[` is in {cursor.format_position(opening.span)}")
    span = opening.span.to(cursor.advance().span)
    if is_too_long:
        cursor.report_limit(opening.span, f"a list has at most {MAX_LIST_ITEMS:,} items", "pass it as a parameter")
    return ListLiteral(tuple(items), span)
