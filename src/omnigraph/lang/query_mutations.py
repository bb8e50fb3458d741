"""Mutations: `insert`, `update`, `delete`."""

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.expression_parser import assignments
from omnigraph.lang.lexer import Kind, Token, shown
from omnigraph.lang.names import type_name
from omnigraph.lang.query_ast import Assignment, Delete, Insert, Mutation, Predicate, Update
from omnigraph.lang.query_predicates import Predicates

MUTATIONS = ("insert", "update", "delete")


def mutation(cursor: Cursor, word: str, predicates: Predicates) -> Mutation:
    """The statement at the cursor, whose keyword is, or was meant as, `word`."""
    start = cursor.advance()
    if filler := cursor.accept("into", "from", "INTO", "FROM"):
        cursor.report(filler.span, f"unexpected `{filler.text}` behind `{word}`", f"write `{word} Person …`")
    if cursor.at_kind(Kind.VARIABLE):
        cursor.fail(f"the type to {word}", f"a mutation names a type, not a variable: `{word} Person …`")
    type_ = type_name(cursor, f"the type to {word}", unknown="T10")
    match word:
        case "insert":
            values = _values(
                cursor, f"the values of `{shown(type_.text)}`", f"insert {shown(type_.text)} {{ name: … }}"
            )
            return Insert(type=type_, assignments=values, span=start.span.to(cursor.previous))
        case "update":
            values, where = _set_and_where(cursor, type_.text, predicates)
            return Update(type=type_, assignments=values, where=where, span=start.span.to(cursor.previous))
        case _:
            where = _where(cursor, predicates, f"delete {shown(type_.text)} where name = …")
            return Delete(type=type_, where=where, span=start.span.to(cursor.previous))


def _values(cursor: Cursor, what: str, example: str) -> tuple[Assignment, ...]:
    opening = cursor.peek()
    if opening.text != "{":
        cursor.fail("`{`", f"for example `{example}`")
    cursor.advance()
    return assignments(cursor, opening, what, needs_commas=False)


def _set_and_where(cursor: Cursor, type_: str, predicates: Predicates) -> tuple[tuple[Assignment, ...], Predicate]:
    example = f"update {shown(type_)} set {{ name: … }} where name = …"  # noqa: S608 - words of a message, no SQL
    early: Predicate | None = None
    if cursor.at("where"):
        word = cursor.peek()
        early = _where(cursor, predicates, example)
        cursor.report(word.span, "`where` stands behind `set { … }`", f"write `{example}`")
    if not cursor.accept("set"):
        if not cursor.at("{"):
            cursor.fail("`set`", f"for example `{example}`")
        cursor.missing("missing `set`", f"write `{example}`")
    values = _values(cursor, f"the values of `{shown(type_)}`", example)
    return values, early or _where(cursor, predicates, example)


def _where(cursor: Cursor, predicates: Predicates, example: str) -> Predicate:
    if not cursor.accept("where"):
        if _ends(cursor.peek()):
            cursor.missing("missing `where`", f"say which ones: `{example}`")
        cursor.fail("`where`", f"say which ones: `{example}`")
    return predicates.predicate()


def _ends(token: Token) -> bool:
    return token.kind is Kind.END or token.text == "}" or token.starts_line
