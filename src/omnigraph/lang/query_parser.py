"""The text of a `.gq` file into its tree: queries, named patterns, and a query's body without a name."""

from dataclasses import replace

from omnigraph.lang.block_ends import is_at_declaration, is_at_pattern
from omnigraph.lang.cursor import Cursor, EnoughError, GaveUpError, ParseResult, decapitalize_name
from omnigraph.lang.expression_parser import ExpressionParser
from omnigraph.lang.foreign_words import END_HINTS, MATCH_FORM, STATEMENT_HINTS, explain_division
from omnigraph.lang.lexer import RESERVED_WORDS, Language, Token, TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.mutation_parser import parse_mutation
from omnigraph.lang.name_parser import parse_variable
from omnigraph.lang.pattern_parser import PatternParser, parse_types
from omnigraph.lang.projection_parser import parse_projections
from omnigraph.lang.query_ast import (
    DriveMatch,
    Expr,
    Insert,
    Mutation,
    ParamDecl,
    PatternDecl,
    PatternParam,
    Projection,
    Query,
    QueryAnnotation,
    QueryFile,
    Read,
    Union,
)
from omnigraph.lang.source import Source, Span
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.stage_parser import MUTATIONS, parse_reading
from omnigraph.lang.type_parser import parse_type

BARE_NAME = "query"
"""The name of a query that is written without one."""


def parse_filter(source: Source) -> ParseResult[Expr | None]:
    """Parse a text that is one predicate. Never raises: mistakes are diagnostics of the result."""
    cursor = Cursor(source, Language.QUERY)
    predicate: Expr | None = None
    try:
        predicate = ExpressionParser(cursor, names_properties=True).parse_condition()
        if not cursor.is_at_end:
            cursor.fail(
                "`and`, `or` or the end of the filter", "a filter is one predicate: `age > 30 and city is null`"
            )
    except (GaveUpError, EnoughError):
        pass
    return cursor.build_result(predicate)


_ANNOTATIONS = ("description", "instruction")
_QUERY_SYNONYMS = ("function", "def", "fn", "fragment")
_ANNOTATIONS_HINT = "annotations of a query stand between its `)` and its `{`"
_STATEMENT_KEYWORDS = ("match", *MUTATIONS)
_TAIL_KEYWORDS = ("return", "order", "limit", "offset")
_ONE_KIND_HINT = "write two queries: one that reads, one that changes"


def parse_queries(source: Source, *, allows_bare: bool = False) -> ParseResult[QueryFile]:
    """Parse a file of queries. Never raises: mistakes are diagnostics of the result.

    With `allows_bare`, one query may be written without `query name() { … }` around it; it has no parameters, and
    only named patterns may stand before it.
    """
    cursor = Cursor(source, Language.QUERY)
    queries: list[Query] = []
    patterns: list[PatternDecl] = []
    try:
        while not (cursor.is_at_end or cursor.is_full):
            count_before = cursor.diagnostic_count
            try:
                if is_at_pattern(cursor):
                    patterns.append(_parse_pattern(cursor))
                elif allows_bare and not queries and _is_at_statement(cursor):
                    queries.append(_parse_bare_query(cursor))
                else:
                    queries.append(_parse_query(cursor))
            except GaveUpError:
                cursor.skip_to(lambda: is_at_declaration(cursor))
            if cursor.diagnostic_count > count_before and cursor.is_at(*_TAIL_KEYWORDS):
                # The rest of a query that a misplaced `}` cut in two; what went wrong has been reported.
                cursor.skip_to(lambda: is_at_declaration(cursor))
    except EnoughError:
        pass
    span = Span(0, len(source.text))
    result = cursor.build_result(QueryFile(queries=tuple(queries), patterns=tuple(patterns), span=span))
    if result.ok:
        return result
    return replace(result, diagnostics=explain_division(source, result.comments, result.diagnostics))


def _is_at_statement(cursor: Cursor) -> bool:
    """Return whether a statement starts at the cursor, or one of another language; a query's name would follow it."""
    word = cursor.peek().text.lower()
    is_word = word in (*_STATEMENT_KEYWORDS, "return", "with", "create") or word in STATEMENT_HINTS
    return is_word and not cursor.is_at("query")


def _parse_bare_query(cursor: Cursor) -> Query:
    """Parse a query's body up to the end of the text."""
    start = cursor.peek().span
    body = _BodyParser(cursor)
    while not cursor.is_at_end:
        # A mistake that can't be repaired ends the text: there is no brace to resume after.
        body.parse_item()
    name = Name(BARE_NAME, Span(start.start, start.start))
    return Query(name=name, body=body.build(), returning=body.returning, span=start.to(cursor.previous))


# --- named patterns ------------------------------------------------------------------------------


def _parse_pattern(cursor: Cursor) -> PatternDecl:
    start = cursor.advance()
    name = _parse_name(cursor)
    cursor.advance()
    params: list[PatternParam] = []
    while not cursor.accept(")"):
        params.append(_parse_pattern_param(cursor, name.text))
        if comma := cursor.accept(","):
            if cursor.is_at(")"):
                cursor.report(comma.span, "unexpected `,` before `)`", "delete it, or add a parameter after it")
        elif not cursor.is_at(")"):
            cursor.fail("`,` or `)`")
    opening = cursor.expect("{", f"the clauses of `{abbreviate(name.text)}` stand in braces")
    clauses = PatternParser(cursor).parse_block(opening, f"the pattern `{abbreviate(name.text)}`")
    return PatternDecl(name=name, params=tuple(params), clauses=clauses, span=start.span.to(cursor.previous))


def _parse_pattern_param(cursor: Cursor, name: str) -> PatternParam:
    variable = parse_variable(cursor, "a variable of the pattern")
    cursor.expect(":", f"a variable of a pattern has a type: `pattern {abbreviate(name)}($a: Person) {{ … }}`")
    types = parse_types(cursor)
    return PatternParam(variable=variable, types=types, span=variable.span.to(cursor.previous))


# --- queries -------------------------------------------------------------------------------------


def _parse_query(cursor: Cursor) -> Query:
    start = _parse_keyword(cursor)
    name = _parse_name(cursor)
    has_params = cursor.is_at("(")
    params = _parse_params(cursor, name.text)
    annotations = _parse_annotations(cursor)
    # Reported already, as parentheses that are missing before the annotations.
    if not has_params and cursor.is_at("("):
        params = _parse_params(cursor, name.text)
    opening = cursor.expect("{", f"the body of `{abbreviate(name.text)}` stands in braces")
    body = _parse_body(cursor, opening, name.text)
    return Query(
        name=name,
        params=params,
        annotations=annotations,
        body=body.build(),
        returning=body.returning,
        span=start.span.to(cursor.previous),
    )


def _parse_keyword(cursor: Cursor) -> Token:
    if stray := cursor.accept("}"):
        hint = "delete it, or look for one too many before it"
        cursor.report(stray.span, "unexpected `}`: nothing is open here", hint)
        while cursor.accept("}"):
            pass
        if cursor.is_at_end:
            raise GaveUpError
    token = cursor.peek()
    if token.text == "query":
        return cursor.advance()
    if token.text == "@":
        cursor.refuse(token.span, "unexpected annotation before a query", _ANNOTATIONS_HINT)
    is_header = token.kind in (TokenKind.IDENT, TokenKind.TYPE) and cursor.peek(1).kind is TokenKind.IDENT
    if is_header and (token.text.lower() in _QUERY_SYNONYMS or find_closest(token.text, ("query",))):
        cursor.report(token.span, f"expected `query`, found `{token.text}`", "did you mean `query`?")
        return cursor.advance()
    advice = None
    if token.text.lower() in ("match", "return", "select", *MUTATIONS):
        advice = "a query has a name: `query people() { … }`"
    elif token.text in ("node", "edge", "interface"):
        advice = "types are declared in a file of their own, a `.pg`"
    return cursor.fail("`query`", advice)


def _parse_name(cursor: Cursor) -> Name:
    token = cursor.peek()
    if token.kind is TokenKind.IDENT:
        cursor.advance()
        if token.text in RESERVED_WORDS:
            cursor.report(token.span, f"`{token.text}` is a reserved word", "choose another name for the query")
        return Name(token.text, token.span)
    if token.kind is TokenKind.TYPE:
        fixed = decapitalize_name(token.text)
        hint = f"query names start with a small letter: did you mean `{abbreviate(fixed)}`?"
        cursor.report(token.span, f"expected the query's name, found `{abbreviate(token.text)}`", hint)
        cursor.advance()
        return Name(fixed, token.span)
    return cursor.fail("the query's name", "a query has a name: `query people() { … }`")


# --- parameters and annotations ------------------------------------------------------------------


def _parse_params(cursor: Cursor, name: str) -> tuple[ParamDecl, ...]:
    if not cursor.is_at("("):
        if not cursor.is_at("{", "@"):
            cursor.fail("`(`", f"a query without parameters is `query {abbreviate(name)}() {{ … }}`")
        cursor.report_missing("missing `()`", f"a query without parameters is `query {abbreviate(name)}() {{ … }}`")
        return ()
    cursor.advance()
    params: list[ParamDecl] = []
    while not cursor.accept(")"):
        if cursor.is_at("{"):
            cursor.report_missing(
                "missing `)` after the parameters", f"a query is written `query {abbreviate(name)}(…) {{ … }}`"
            )
            break
        try:
            params.append(_parse_param(cursor))
        except GaveUpError:
            cursor.skip_to(lambda: cursor.is_at(",", ")", "{", "}") or is_at_declaration(cursor))
            if cursor.is_at("}") or is_at_declaration(cursor):
                raise
        if comma := cursor.accept(","):
            if cursor.is_at(")"):
                cursor.report(comma.span, "unexpected `,` before `)`", "delete it, or add a parameter after it")
        elif not cursor.is_at(")", "{"):
            if not cursor.is_at_kind(TokenKind.VARIABLE):
                cursor.fail("`,` or `)`")
            cursor.report_missing("missing `,`", "put a `,` between one parameter and the next")
    return tuple(params)


def _parse_param(cursor: Cursor) -> ParamDecl:
    token = cursor.peek()
    if token.kind is TokenKind.IDENT:
        hint = f"parameters start with `$`: `${abbreviate(token.text)}: String`"
        if not cursor.is_followed_by(":", "?"):
            cursor.fail("a parameter", hint)
        cursor.report(token.span, f"expected a parameter, found `{abbreviate(token.text)}`", hint)
        name = Name(token.text, token.span)
    elif token.kind is TokenKind.VARIABLE:
        name = Name(str(token.value), token.span)
    else:
        cursor.fail("a parameter", "a parameter is written `$name: String`")
    cursor.advance()
    nullable = False
    if question := cursor.accept("?"):
        hint = f"`?` stands after the type: `${abbreviate(name.text)}: String?`"
        cursor.report(question.span, "unexpected `?` after a name", hint)
        nullable = True
    if not cursor.accept(":"):
        if not cursor.is_at_kind(TokenKind.TYPE, TokenKind.IDENT):
            cursor.fail(f"`:` and a type after `${abbreviate(name.text)}`")
        hint = f"a parameter is written `${abbreviate(name.text)}: String`"
        cursor.report_missing(f"missing `:` after `${abbreviate(name.text)}`", hint)
    type_, has_question = parse_type(cursor)
    if cursor.is_at("="):
        hint = "make it nullable with `?`, and pass the value with each call"
        cursor.refuse(cursor.peek().span, "a parameter has no default", hint)
    span = name.span.to(cursor.previous)
    return ParamDecl(name=name, type=type_, nullable=nullable or has_question, span=span)


def _parse_annotations(cursor: Cursor) -> tuple[QueryAnnotation, ...]:
    annotations: list[QueryAnnotation] = []
    while cursor.is_at("@"):
        try:
            annotation = _parse_annotation(cursor)
        except GaveUpError:
            cursor.skip_to(lambda: cursor.is_at(")", "{", "}", "@") or is_at_declaration(cursor))
            cursor.accept(")")
            continue
        word = annotation.name.text
        if word not in _ANNOTATIONS:
            meant = find_closest(word, _ANNOTATIONS)
            hint = f"did you mean `@{meant}`?" if meant else "queries have `@description` and `@instruction`"
            cursor.report(annotation.span, f"queries have no annotation `@{abbreviate(word)}`", hint, code="Q004")
        elif any(earlier.name == annotation.name for earlier in annotations):
            cursor.report(annotation.span, f"`@{word}` is given twice", "keep one of them", code="Q004")
        else:
            annotations.append(annotation)
    return tuple(annotations)


def _parse_annotation(cursor: Cursor) -> QueryAnnotation:
    at = cursor.advance()
    word = cursor.peek()
    if word.kind is not TokenKind.IDENT:
        cursor.fail("the annotation's name after `@`")
    cursor.advance()
    example = f'`@{abbreviate(word.text)}("…")`'
    cursor.expect("(", f"write {example}")
    text = cursor.peek()
    if text.kind is not TokenKind.STRING:
        cursor.fail("a string", f"write {example}")
    cursor.advance()
    span = at.span.to(cursor.expect(")").span)
    return QueryAnnotation(name=Name(word.text, word.span), text=str(text.value), span=span)


# --- bodies --------------------------------------------------------------------------------------


class _BodyParser:
    """A parser of the statements of one query's body, which collects them."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._patterns = PatternParser(cursor)
        self._read: Read | Union | None = None
        self._statements: list[Mutation] = []
        self.returning: tuple[Projection, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been read."""
        return self._read is None and not self._statements

    def build(self) -> Read | Union | tuple[Mutation, ...]:
        """Return the body; an empty one is an empty read, so that the query's name is known all the same."""
        if self._statements and self._read is None:
            return tuple(self._statements)
        return self._read or Read(clauses=(), projections=(), span=self._cursor.previous)

    def parse_item(self) -> None:
        """Parse a read, a match that drives statements, a statement or `returning`."""
        cursor = self._cursor
        token = cursor.peek()
        if token.text == "@":
            cursor.report(token.span, "unexpected annotation in a query's body", _ANNOTATIONS_HINT)
            _parse_annotation(cursor)
            return
        if self._read is not None and token.text not in _STATEMENT_KEYWORDS:
            cursor.fail("`order`, `limit`, `offset` or `}`", END_HINTS.get(token.text.lower(), "a read ends here"))
        if self.returning:
            cursor.fail("`}`", "`returning { … }` is the end of a query")
        if token.text == "returning" and cursor.is_followed_by("{"):
            self._parse_returning()
            return
        word = _peek_statement_keyword(cursor)
        if word in MUTATIONS:
            self._parse_statement(token, word)
            return
        if word == "return" and self._statements:
            hint = "the columns of a mutation are written `returning { … }`"
            cursor.report(token.span, "a query either reads or changes data, not both", hint)
        reading = parse_reading(self._patterns, word)
        if isinstance(reading, DriveMatch):
            self._check_kind(token, is_read=False)
            self._statements.append(reading)
            return
        if word != "return":
            self._check_kind(token, is_read=True)
        self._read = reading

    def _check_kind(self, token: Token, *, is_read: bool) -> None:
        other = bool(self._statements) if is_read else self._read is not None
        if other:
            self._cursor.report(token.span, "a query either reads or changes data, not both", _ONE_KIND_HINT)

    def _parse_statement(self, token: Token, word: str) -> None:
        cursor = self._cursor
        self._check_kind(token, is_read=False)
        statement = parse_mutation(self._patterns, word, has_variables=any(map(_names_rows, self._statements)))
        self._statements.append(statement)
        if semicolon := cursor.accept(";", ","):
            cursor.report(semicolon.span, f"unexpected `{semicolon.text}`", "statements need nothing between them")

    def _parse_returning(self) -> None:
        cursor = self._cursor
        word = cursor.advance()
        self.returning = parse_projections(self._patterns.expressions, "returning")
        if not self._statements:
            cursor.report(word.span, "`returning` follows statements", "a read returns with `return { … }`")


def _names_rows(statement: Mutation) -> bool:
    """Return whether statements after this one may name its rows with a variable."""
    return isinstance(statement, DriveMatch) or (isinstance(statement, Insert) and statement.variable is not None)


def _parse_body(cursor: Cursor, opening: Token, name: str) -> _BodyParser:
    body = _BodyParser(cursor)
    before = cursor.index
    cursor.parse_block(
        opening,
        f"query `{abbreviate(name)}`",
        body.parse_item,
        is_item_start=lambda: cursor.is_at(*_STATEMENT_KEYWORDS) and cursor.peek().starts_line,
        is_block_end=lambda: is_at_declaration(cursor),
    )
    if body.is_empty:
        if cursor.index == before + 1:
            span = opening.span.to(cursor.previous)
            hint = "it needs `match { … } return { … }`, or an `insert`, `update` or `delete`"
            cursor.report(span, f"query `{abbreviate(name)}` is empty", hint)
        cursor.skip_to(lambda: is_at_declaration(cursor))
    return body


def _peek_statement_keyword(cursor: Cursor) -> str:
    """Return the keyword that starts a read or a mutation, or the one that was meant, without moving the cursor."""
    token = cursor.peek()
    if token.text in _STATEMENT_KEYWORDS or token.text == "return":
        return token.text
    folded = token.text.lower()
    hint = STATEMENT_HINTS.get(folded)
    if token.kind in (TokenKind.IDENT, TokenKind.TYPE) and hint is None:
        elsewhere = {"find": "match", "create": "insert", "remove": "delete"}
        meant = elsewhere.get(folded) or find_closest(token.text, (*_STATEMENT_KEYWORDS, "return"))
        if (
            meant
            and not (folded == "create" and cursor.is_followed_by("("))
            and (cursor.is_followed_by("{") or meant in MUTATIONS)
        ):
            message = f"expected `match`, `insert`, `update` or `delete`, found `{abbreviate(token.text)}`"
            cursor.report(token.span, message, f"did you mean `{meant}`?")
            return meant
    if folded == "create":
        hint = 'a row is written `insert Person { name: "Ann" }`'
    if folded == "match":
        hint = MATCH_FORM
    elif token.kind is TokenKind.VARIABLE:
        hint = "clauses stand inside `match { … }`"
    return cursor.fail("`match`, `insert`, `update` or `delete`", hint)
