"""What only follows a closed block: where it stands, a closing brace is missing."""

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import RESERVED_WORDS, TokenKind

_MUTATIONS = ("insert", "update", "delete")


def is_at_block_end(cursor: Cursor) -> bool:
    """Return whether the cursor is at something that only follows a closed block: its `}` is missing."""
    token = cursor.peek()
    if token.text in ("return", "order"):
        return cursor.is_followed_by("{", "distinct", "by") or (
            token.starts_line and not cursor.is_followed_by(":", "=")
        )
    if token.text in ("limit", "offset"):
        return cursor.peek(1).kind in (TokenKind.INT, TokenKind.VARIABLE) or cursor.is_followed_by("-")
    if token.text in ("with", "having"):
        # `with{1,3}` may be the rest of a broken hop.
        return token.starts_line and cursor.is_followed_by("{") and cursor.peek(2).kind is not TokenKind.INT
    if token.text in _MUTATIONS:
        return token.starts_line and cursor.peek(1).kind in (TokenKind.TYPE, TokenKind.VARIABLE)
    return is_at_declaration(cursor)


def is_at_declaration(cursor: Cursor) -> bool:
    """Return whether a query or a named pattern starts at the cursor."""
    return is_at_query(cursor) or is_at_pattern(cursor)


def is_at_pattern(cursor: Cursor) -> bool:
    """Return whether a named pattern starts at the cursor; `pattern` is not reserved, so what follows decides."""
    if cursor.peek().text != "pattern" or cursor.peek(1).kind not in (TokenKind.IDENT, TokenKind.TYPE):
        return False
    return cursor.peek(2).text == "(" and cursor.peek(3).kind is TokenKind.VARIABLE and cursor.peek(4).text == ":"


def is_at_query(cursor: Cursor) -> bool:
    """Return whether a query starts at the cursor; `query` is not reserved, so what follows decides."""
    token = cursor.peek()
    name, next_token = cursor.peek(1), cursor.peek(2)
    if token.text != "query" or name.kind not in (TokenKind.IDENT, TokenKind.TYPE):
        return False
    # In a block, `query` may be an alias, followed by another alias or a call: no guess may reject those.
    first, second = cursor.peek(3), cursor.peek(4)
    if next_token.text != "(":
        return next_token.text == "{" or (next_token.text == "@" and first.text in ("description", "instruction"))
    if first.text == ")":
        return second.text in ("{", "@")
    if second.text == ":":
        return True
    return (
        first.text not in RESERVED_WORDS
        and TokenKind.SIGN not in (first.kind, second.kind)
        and second.kind is not TokenKind.END
    )
