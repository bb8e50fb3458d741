"""Order keys, counts and groups: what `order { … }`, `limit`, `offset` and `per { … }` hold, wherever they stand."""

from typing import Protocol

from omnigraph.lang.block_ends import is_at_block_end
from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import RESERVED_WORDS, TokenKind, abbreviate
from omnigraph.lang.literal_parser import parse_integer
from omnigraph.lang.query_ast import Expr, LiteralExpr, OrderKey, Variable

_DIRECTIONS = {"asc": False, "desc": True}
_DIRECTION_SYNONYMS = {"ascending": "asc", "descending": "desc", "up": "asc", "down": "desc"}
_NULLS_HINT = (
    "null is smallest, so it is first, and last with `desc`; the other way round: `order { $p.age is null, $p.age }`"
)


class ValueReader(Protocol):
    """What parses the expressions of keys."""

    cursor: Cursor

    def parse_value(self) -> Expr:
        """Parse an expression."""


def parse_order(expressions: ValueReader) -> tuple[OrderKey, ...]:
    """Parse the keys after `order`, in braces."""
    cursor = expressions.cursor
    keys: list[OrderKey] = []
    if by := cursor.accept("by", "BY"):
        cursor.report(by.span, f"unexpected `{by.text}` after `order`", "an order is written `order { $p.name desc }`")

    def item() -> None:
        keys.append(_parse_order_key(expressions))
        if comma := cursor.accept(","):
            if cursor.is_at("}"):
                cursor.report(comma.span, "unexpected `,` before `}`", "delete it, or add a key after it")
        elif not (cursor.is_at("}") or cursor.is_at_end or is_at_block_end(cursor)):
            if cursor.is_at_kind(TokenKind.SIGN):
                cursor.fail("`,` or `}`")
            if cursor.is_at("nulls", "NULLS"):
                cursor.refuse(cursor.peek().span, f"unexpected `{cursor.peek().text}`", _NULLS_HINT)
            cursor.report_missing("missing `,`", "put a `,` between one key and the next")

    if not cursor.is_at("{"):
        cursor.report_missing("missing `{` after `order`", "an order is written `order { $p.name desc }`")
        while not (cursor.is_at("}", ")") or cursor.is_at_end or is_at_block_end(cursor)):
            item()
        return tuple(keys)
    opening = cursor.advance()
    before = cursor.index
    cursor.parse_block(
        opening,
        "the order block",
        item,
        is_item_start=lambda: cursor.peek().starts_line and not cursor.is_at_kind(TokenKind.SIGN),
        is_block_end=lambda: is_at_block_end(cursor),
    )
    if not keys and cursor.index == before + 1:
        span = opening.span.to(cursor.previous)
        cursor.report(span, "the order block is empty", "delete it, or give a key: `order { $p.name }`")
    return tuple(keys)


def _parse_order_key(expressions: ValueReader) -> OrderKey:
    cursor = expressions.cursor
    if cursor.is_at(*_DIRECTIONS) and cursor.peek(1).kind is TokenKind.VARIABLE:
        direction = cursor.peek().text
        cursor.refuse(cursor.peek().span, f"unexpected `{direction}` before a key", f"write `$p.name {direction}`")
    value = expressions.parse_value()
    token = cursor.peek()
    word = token.text if token.text in _DIRECTIONS else None
    if word is None and token.kind in (TokenKind.IDENT, TokenKind.TYPE) and not token.starts_line:
        folded = token.text.lower()
        word = folded if folded in _DIRECTIONS else _DIRECTION_SYNONYMS.get(folded)
        if word:
            cursor.report(token.span, f"expected `asc` or `desc`, found `{token.text}`", f"write `{word}`")
    if word is None:
        return OrderKey(value=value, span=value.span)
    cursor.advance()
    return OrderKey(value=value, descending=_DIRECTIONS[word], span=value.span.to(token.span))


def parse_count(cursor: Cursor, word: str) -> Expr:
    """Parse the number or parameter after `limit` or `offset`, which is `word`."""
    token = cursor.peek()
    if token.kind is TokenKind.VARIABLE:
        cursor.advance()
        return Variable(name=str(token.value), span=token.span)
    if token.kind is TokenKind.IDENT and not token.starts_line and token.text not in RESERVED_WORDS:
        hint = f"a parameter starts with `$`: did you mean `${abbreviate(token.text)}`?"
        cursor.report(token.span, f"expected a number after `{word}`, found `{abbreviate(token.text)}`", hint)
        cursor.advance()
        return Variable(name=token.text, span=token.span)
    if not cursor.is_at_kind(TokenKind.INT, TokenKind.FLOAT, TokenKind.SIGN) or cursor.is_at("{", "}"):
        cursor.fail(f"a whole number or a parameter after `{word}`", f"for example `{word} 10`")
    value = parse_integer(cursor, f"a whole number or a parameter after `{word}`")
    return LiteralExpr(value=value, span=value.span)


def is_at_per(cursor: Cursor) -> bool:
    """Return whether `per { … }` starts at the cursor; `per` is not reserved."""
    return cursor.is_at("per") and cursor.is_followed_by("{")


def parse_per(expressions: ValueReader, example: str) -> tuple[Expr, ...]:
    """Parse `per { expression, … }`, whose word is at the cursor."""
    cursor = expressions.cursor
    cursor.advance()
    opening = cursor.expect("{", f"write `{example}`")
    keys: list[Expr] = []

    def item() -> None:
        keys.append(expressions.parse_value())
        if comma := cursor.accept(","):
            if cursor.is_at("}"):
                cursor.report(comma.span, "unexpected `,` before `}`", "delete it, or add a key after it")
        elif not (cursor.is_at("}") or cursor.is_at_end or is_at_block_end(cursor)):
            if cursor.is_at_kind(TokenKind.SIGN):
                cursor.fail("`,` or `}`")
            cursor.report_missing("missing `,`", "put a `,` between one key and the next")

    cursor.parse_block(
        opening,
        "the `per` block",
        item,
        is_item_start=lambda: cursor.peek().starts_line and not cursor.is_at_kind(TokenKind.SIGN),
        is_block_end=lambda: is_at_block_end(cursor),
    )
    if not keys and cursor.previous.end == opening.span.end + 1:
        cursor.report(opening.span.to(cursor.previous), "the `per` block is empty", f"write `{example}`")
    return tuple(keys)
