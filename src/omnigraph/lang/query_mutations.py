"""Mutations: `insert`, `update`, `delete`."""

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.expression_parser import parse_assignments
from omnigraph.lang.lexer import Token, TokenKind, abbreviate
from omnigraph.lang.names import parse_type_name
from omnigraph.lang.query_ast import Assignment, Delete, Insert, Mutation, Predicate, Update
from omnigraph.lang.query_predicates import PredicateParser

MUTATIONS = ("insert", "update", "delete")


def parse_mutation(cursor: Cursor, word: str, predicates: PredicateParser) -> Mutation:
    """The statement at the cursor, whose keyword is, or was meant as, `word`."""
    start = cursor.advance()
    if filler := cursor.accept("into", "from", "INTO", "FROM"):
        cursor.report(filler.span, f"unexpected `{filler.text}` behind `{word}`", f"write `{word} Person …`")
    if cursor.is_at_kind(TokenKind.VARIABLE):
        cursor.fail(f"the type to {word}", f"a mutation names a type, not a variable: `{word} Person …`")
    type_ = parse_type_name(cursor, f"the type to {word}", unknown_code="T10")
    match word:
        case "insert":
            values = _parse_values(
                cursor, f"the values of `{abbreviate(type_.text)}`", f"insert {abbreviate(type_.text)} {{ name: … }}"
            )
            return Insert(type=type_, assignments=values, span=start.span.to(cursor.previous))
        case "update":
            values, where = _parse_set_and_where(cursor, type_.text, predicates)
            return Update(type=type_, assignments=values, where=where, span=start.span.to(cursor.previous))
        case _:
            where = _parse_where(cursor, predicates, f"delete {abbreviate(type_.text)} where name = …")
            return Delete(type=type_, where=where, span=start.span.to(cursor.previous))


def _parse_values(cursor: Cursor, what: str, example: str) -> tuple[Assignment, ...]:
    opening = cursor.peek()
    if opening.text != "{":
        cursor.fail("`{`", f"for example `{example}`")
    cursor.advance()
    return parse_assignments(cursor, opening, what, needs_commas=False)


def _parse_set_and_where(
    cursor: Cursor, type_: str, predicates: PredicateParser
) -> tuple[tuple[Assignment, ...], Predicate]:
    example = f"update {abbreviate(type_)} set {{ name: … }} where name = …"  # noqa: S608 - words of a message, no SQL
    early: Predicate | None = None
    if cursor.is_at("where"):
        word = cursor.peek()
        early = _parse_where(cursor, predicates, example)
        cursor.report(word.span, "`where` stands behind `set { … }`", f"write `{example}`")
    if not cursor.accept("set"):
        if not cursor.is_at("{"):
            cursor.fail("`set`", f"for example `{example}`")
        cursor.report_missing("missing `set`", f"write `{example}`")
    values = _parse_values(cursor, f"the values of `{abbreviate(type_)}`", example)
    return values, early or _parse_where(cursor, predicates, example)


def _parse_where(cursor: Cursor, predicates: PredicateParser, example: str) -> Predicate:
    if not cursor.accept("where"):
        if _is_end(cursor.peek()):
            cursor.report_missing("missing `where`", f"say which ones: `{example}`")
        cursor.fail("`where`", f"say which ones: `{example}`")
    return predicates.parse()


def _is_end(token: Token) -> bool:
    return token.kind is TokenKind.END or token.text == "}" or token.starts_line
