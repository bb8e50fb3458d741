"""The statements of a mutation: `insert`, `update` and `delete`, of a type or of what a match found."""

from dataclasses import replace

from omnigraph.lang.cursor import Cursor, parse_type_name
from omnigraph.lang.expression_parser import ExpressionParser, parse_assignments
from omnigraph.lang.foreign_words import CLEAR_FORM
from omnigraph.lang.lexer import Token, TokenKind, abbreviate
from omnigraph.lang.name_parser import parse_variable
from omnigraph.lang.pattern_parser import PatternParser
from omnigraph.lang.query_ast import (
    Assignment,
    Delete,
    DeleteMatched,
    Expr,
    Insert,
    Mutation,
    Update,
    UpdateMatched,
)


def parse_mutation(patterns: PatternParser, word: str, *, has_variables: bool) -> Mutation:
    """Parse the statement at the cursor, whose keyword is, or was meant as, `word`.

    Without a match or a named insert before it, it `has_variables` not: it names a type.
    """
    # The values of a new row: there is no old one whose properties a word could name.
    with patterns.expressions.read_names_as(properties=word != "insert"):
        return _parse_statement(patterns.expressions, word, has_variables=has_variables)


def _parse_statement(expressions: ExpressionParser, word: str, *, has_variables: bool) -> Mutation:
    cursor = expressions.cursor
    start = cursor.advance()
    if filler := cursor.accept("into", "from", "INTO", "FROM"):
        cursor.report(filler.span, f"unexpected `{filler.text}` after `{word}`", f"write `{word} Person …`")
    if cursor.is_at_kind(TokenKind.VARIABLE) and word != "insert" and has_variables:
        return _parse_matched(expressions, start, word)
    if cursor.is_at_kind(TokenKind.VARIABLE):
        hint = f"a mutation names a type, not a variable: `{word} Person …`"
        if word == "insert" and cursor.peek(1).kind in (TokenKind.IDENT, TokenKind.TYPE):
            source, edge, target = (abbreviate(cursor.peek(ahead).text) for ahead in range(3))
            edge = edge[:1].upper() + edge[1:]
            target = target if cursor.peek(2).kind is TokenKind.VARIABLE else "$q"
            hint = f"an edge is written `insert {edge} {{ from: {source}, to: {target} }}`"
        if word != "insert":
            hint += f"; a variable comes from a match before it: `match {{ … }} {word} $p …`"
        cursor.fail(f"the type to {word}", hint)
    if cursor.is_at("{") and word == "delete" and has_variables:
        cursor.fail("what to delete", "a variable of the match stands without braces: `match { … } delete $p`")
    if cursor.is_at_kind(TokenKind.IDENT) and word != "insert" and has_variables:
        cursor.fail("a variable of the match", f"variables start with `$`: did you mean `${cursor.peek().text}`?")
    type_ = parse_type_name(cursor, f"the type to {word}", unknown_code="T10")
    match word:
        case "insert":
            values = _parse_values(
                expressions,
                f"the values of `{abbreviate(type_.text)}`",
                f"insert {abbreviate(type_.text)} {{ name: … }}",
            )
            return _parse_insert_tail(cursor, Insert(type=type_, assignments=values, span=start.span))
        case "update":
            values, where = _parse_set_and_where(expressions, type_.text, has_variables=has_variables)
            return Update(type=type_, assignments=values, where=where, span=start.span.to(cursor.previous))
        case _:
            where = _parse_where(
                expressions, f"delete {abbreviate(type_.text)} where name = …", "delete $p" if has_variables else None
            )
            return Delete(type=type_, where=where, span=start.span.to(cursor.previous))


def _parse_insert_tail(cursor: Cursor, insert: Insert) -> Insert:
    """Parse `if absent` and `as $x` after the values."""
    if_absent = _accept_if_absent(cursor)
    variable = None
    if cursor.accept("as"):
        variable = parse_variable(cursor, "the variable that names what is inserted")
    if not if_absent and _accept_if_absent(cursor):
        cursor.report(cursor.previous, "`if absent` stands before `as`", "write `insert Person { … } if absent as $p`")
        if_absent = True
    return replace(insert, if_absent=if_absent, variable=variable, span=insert.span.to(cursor.previous))


def _accept_if_absent(cursor: Cursor) -> bool:
    if not cursor.accept("if"):
        return False
    if cursor.is_at("not") and cursor.is_followed_by("exists"):
        span = cursor.advance().span.to(cursor.advance().span)
        cursor.report(span, "unexpected `not exists`", "write `if absent`")
        return True
    cursor.expect("absent", "an insert that leaves existing rows alone is written `insert Person { … } if absent`")
    return True


def _parse_matched(expressions: ExpressionParser, start: Token, word: str) -> Mutation:
    """Parse `update $p set { … }` or `delete $p`, whose keyword was read."""
    cursor = expressions.cursor
    variable = parse_variable(cursor, "a variable")
    name = abbreviate(variable.name)
    if word == "delete":
        if cursor.is_at(".") and cursor.is_glued():
            cursor.refuse(cursor.peek().span, "unexpected property: a whole node or edge is deleted", CLEAR_FORM)
        _refuse_where(cursor, f"delete ${name}")
        return DeleteMatched(variable=variable, span=start.span.to(variable.span))
    example = f"update ${name} set {{ name: … }}"  # noqa: S608 - words of a message, no SQL
    if not cursor.accept("set"):
        if not cursor.is_at("{"):
            cursor.fail("`set`", f"for example `{example}`")
        cursor.report_missing("missing `set`", f"write `{example}`")
    values = _parse_values(expressions, f"the values of `${name}`", example)
    _refuse_where(cursor, example)
    return UpdateMatched(variable=variable, assignments=values, span=start.span.to(cursor.previous))


def _refuse_where(cursor: Cursor, example: str) -> None:
    if cursor.is_at("where"):
        hint = f"the match before it says which ones: `match {{ … }} {example}`"
        cursor.refuse(cursor.peek().span, "unexpected `where` after a variable", hint)


def _parse_values(expressions: ExpressionParser, what: str, example: str) -> tuple[Assignment, ...]:
    cursor = expressions.cursor
    opening = cursor.peek()
    if opening.text != "{":
        cursor.fail("`{`", f"for example `{example}`")
    cursor.advance()
    return parse_assignments(expressions, opening, what, needs_commas=False)


def _parse_set_and_where(
    expressions: ExpressionParser, type_: str, *, has_variables: bool
) -> tuple[tuple[Assignment, ...], Expr]:
    cursor = expressions.cursor
    example = f"update {abbreviate(type_)} set {{ name: … }} where name = …"  # noqa: S608 - words of a message, no SQL
    matched = "update $p set { name: … }" if has_variables else None
    early: Expr | None = None
    if cursor.is_at("where"):
        word = cursor.peek()
        early = _parse_where(expressions, example, matched)
        cursor.report(word.span, "`where` stands after `set { … }`", f"write `{example}`")
    if not cursor.accept("set"):
        if not cursor.is_at("{"):
            cursor.fail("`set`", f"for example `{example}`")
        cursor.report_missing("missing `set`", f"write `{matched or example}`")
    values = _parse_values(expressions, f"the values of `{abbreviate(type_)}`", example)
    return values, early or _parse_where(expressions, example, matched)


def _parse_where(expressions: ExpressionParser, example: str, matched: str | None) -> Expr:
    """Parse `where` and a condition; after a match, the `matched` form was probably meant."""
    cursor = expressions.cursor
    if not cursor.accept("where"):
        hint = f"say which ones: `{example}`"
        if matched is not None:
            hint = f"what the match found is named by its variable: `match {{ $p: Person … }} {matched}`"
        if _is_end(cursor.peek()):
            cursor.report_missing("missing `where`", hint)
        cursor.fail("`where`", hint)
    return expressions.parse_condition()


def _is_end(token: Token) -> bool:
    return token.kind is TokenKind.END or token.text == "}" or token.starts_line
