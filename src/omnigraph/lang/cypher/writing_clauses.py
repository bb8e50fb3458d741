"""The clauses of Cypher that write, each with the query of `.gq` that does the same."""

from collections.abc import Callable, Sequence
from typing import Final

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.cypher import tree
from omnigraph.lang.cypher.gq_writer import GqWriter, UntoldError
from omnigraph.lang.source import Span

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


_NAMES: Final = {
    "CREATE": ("add", "inserts it"),
    "MERGE": ("put", "puts it in place"),
    "SET": ("change", "changes it"),
    "DELETE": ("drop", "deletes it"),
    "DETACH": ("drop", "deletes it with all edges"),
    "REMOVE": ("clear", "clears it"),
}
_MAX_HELP = 300
_MAX_BODY = 1_000

Parse = Callable[[str], tree.Statement | None]
"""Parses a statement that only reads; None if it has a mistake."""


def refuse_writing(
    cursor: Cursor, before: Sequence[tree.Clause], skip: Callable[[], None], parse: Parse, *, has_written: bool
) -> None:
    """Report the clause that writes at the cursor, and move to the next one by `skip`.

    Its query is that of the matches before it and of its own text; where these do not tell it, an example is shown.
    """
    token = cursor.advance()
    message = f"`{token.text}` writes, and Cypher only reads here"
    if token.text == "DETACH":
        cursor.accept("DELETE")
    start = cursor.peek().span.start
    skip()
    body = cursor.source.slice(Span(start, max(start, cursor.previous.end)))
    help_ = WRITING_WORDS[token.text]
    if token.text in _NAMES and not has_written and (query := _write(token.text, before, body, parse)) is not None:
        help_ = f"`{query}` {_NAMES[token.text][1]}, run by `omnigraph mutate`"
    cursor.report(token.span, message, help_, code="C003")


def _write(word: str, before: Sequence[tree.Clause], body: str, parse: Parse) -> str | None:
    """Return the query of a clause; None if its text does not tell it."""
    matches = [clause for clause in before if isinstance(clause, tree.Match)]
    if len(matches) < len(before) or len(body) > _MAX_BODY:
        return None
    is_pattern = word in ("CREATE", "MERGE")
    # What follows the word is a pattern, or a list of what could be returned.
    parsed = parse(f"MATCH {body} RETURN 1" if is_pattern else f"RETURN {body.replace('+=', '=')}")
    if parsed is None or len(parsed.queries) > 1:
        return None
    clause = parsed.queries[0].clauses[0]
    try:
        writer = GqWriter(matches)
        if isinstance(clause, tree.Match):
            _write_pattern(word, clause, writer)
        elif isinstance(clause, tree.Return):
            _write_items(word, clause.projection, body, writer)
        text = writer.format(_NAMES[word][0])
    except UntoldError:
        return None
    return text if len(text) <= _MAX_HELP and "`" not in text else None


def _write_pattern(word: str, clause: tree.Match, writer: GqWriter) -> None:
    if clause.where is not None:
        raise UntoldError
    if word == "CREATE":
        writer.create(clause.patterns)
    elif len(clause.patterns) == 1:
        writer.merge(clause.patterns[0])
    else:
        raise UntoldError


def _write_items(word: str, projection: tree.Projection, body: str, writer: GqWriter) -> None:
    values = [item.value for item in projection.items]
    if projection.star or projection.distinct or projection.order or any(item.alias for item in projection.items):
        raise UntoldError
    if word in ("DELETE", "DETACH"):
        names = [value.name for value in values if isinstance(value, tree.Variable)]
        if len(names) < len(values):
            raise UntoldError
        writer.delete(names)
        return
    changes: list[tuple[tree.Expr, tree.Expr]] = []
    for value in values:
        if word == "REMOVE":
            changes.append((value, tree.Literal(value=None, span=value.span)))
        elif isinstance(value, tree.Comparison) and len(value.rest) == 1 and value.rest[0][0] is tree.CompareOp.EQ:
            changes.append((value.first, value.rest[0][1]))
        else:
            raise UntoldError
    # `p = {…}` takes all other properties away, which only `+=` does not.
    if sum(isinstance(target, tree.Variable) for target, _ in changes) != body.count("+="):
        raise UntoldError
    writer.change(changes)
