"""The clauses of Cypher that write, each with the query of `.gq` that does the same."""

from typing import Final

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.cypher.cursor import is_at_variable
from omnigraph.lang.expression_printer import quote
from omnigraph.lang.lexer import RESERVED_WORDS, Token, TokenKind

WRITING_WORDS: Final = {
    "CREATE": '`query add() { insert Person { name: "Ann" } }` inserts a node, run by `omnigraph mutate`',
    "MERGE": '`query put() { insert Person { name: "Ann", age: 42 } }` puts it in place, by `omnigraph mutate`',
    "SET": '`query change() { update Person set { age: 42 } where name = "Ann" }`, run by `omnigraph mutate`',
    "DELETE": '`query drop() { delete Person where name = "Ann" }` deletes, run by `omnigraph mutate`',
    "DETACH": '`query drop() { delete Person where name = "Ann" }` deletes with all edges, run by `omnigraph mutate`',
    "REMOVE": '`query clear() { update Person set { age: null } where name = "Ann" }`, run by `omnigraph mutate`',
    "FOREACH": "statements after a `match` run for each of its rows, run by `omnigraph mutate`",
    "LOAD": "`omnigraph load FILE.csv` loads files",
    "DROP": "`omnigraph schema apply` changes types, keys and indexes",
    "ALTER": "`omnigraph schema apply` changes types, keys and indexes",
}


_WRITERS: Final = {
    "CREATE": ("add", "inserts the node, run by `omnigraph mutate`"),
    "MERGE": ("put", "puts it in place, by `omnigraph mutate`"),
}
_CONSTANTS: Final = {"TRUE": "true", "FALSE": "false", "NULL": "null"}
# What follows a node that is the whole of its clause can be none of these.
_CONTINUED: Final = ("-", "<", ",", "ON")
_MAX_HELP = 300


def refuse_writing(cursor: Cursor) -> None:
    """Report the clause that writes at the cursor, and move past its first words."""
    token = cursor.advance()
    message = f"`{token.text}` writes, and Cypher only reads here"
    help_ = WRITING_WORDS[token.text]
    if token.text in _WRITERS and (insert := _write_insert(cursor)) is not None:
        name, end = _WRITERS[token.text]
        help_ = f"`query {name}() {{ {insert} }}` {end}"
    cursor.report(token.span, message, help_, code="C003")
    if token.text == "DETACH":
        cursor.accept("DELETE")


def _write_insert(cursor: Cursor) -> str | None:
    """Return the `.gq` of the node at the cursor, if it is all that its clause writes, and its values are literals."""
    ahead = 2 if is_at_variable(cursor, 1) else 1
    if not cursor.is_at("(") or cursor.peek(ahead).text != ":":
        return None
    label = _read_name(cursor.peek(ahead + 1))
    ahead += 2
    entries: list[str] = []
    if cursor.peek(ahead).text == "{":
        while cursor.peek(ahead).text in ("{", ","):
            key = _read_name(cursor.peek(ahead + 1))
            is_negative = cursor.peek(ahead + 3).text == "-"
            value = _write_literal(cursor.peek(ahead + 3 + is_negative), is_negative=is_negative)
            if key is None or cursor.peek(ahead + 2).text != ":" or value is None:
                return None
            entries.append(f"{key}: {value}")
            ahead += 4 + is_negative
        if cursor.peek(ahead).text != "}":
            return None
        ahead += 1
    is_whole = cursor.peek(ahead).text == ")" and cursor.peek(ahead + 1).text not in _CONTINUED
    if label is None or not label[0].isupper() or not entries or not is_whole:
        return None
    text = f"insert {label} {{ {', '.join(entries)} }}"
    return text if len(text) <= _MAX_HELP and "`" not in text else None


def _read_name(token: Token) -> str | None:
    """Return a name that `.gq` writes alike."""
    name = str(token.value)
    is_plain = name.isascii() and name.isidentifier() and name not in RESERVED_WORDS
    return name if token.kind is TokenKind.IDENT and is_plain else None


def _write_literal(token: Token, *, is_negative: bool) -> str | None:
    sign = "-" if is_negative else ""
    match token.kind:
        case TokenKind.INT | TokenKind.FLOAT:
            return f"{sign}{token.value!r}"
        case TokenKind.STRING if not is_negative:
            return quote(str(token.value))
        case TokenKind.IDENT if not is_negative:
            return _CONSTANTS.get(token.text)
        case _:
            return None
