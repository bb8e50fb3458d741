"""The clauses of Cypher that write, each with the query of `.gq` that does the same."""

from typing import Final

from omnigraph.lang.cursor import Cursor

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


def refuse_writing(cursor: Cursor) -> None:
    """Report the clause that writes at the cursor, and move past its first words."""
    token = cursor.advance()
    message = f"`{token.text}` writes, and Cypher only reads here"
    cursor.report(token.span, message, WRITING_WORDS[token.text], code="C003")
    if token.text == "DETACH":
        cursor.accept("DELETE")
