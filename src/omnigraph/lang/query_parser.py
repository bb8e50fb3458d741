"""The text of a `.gq` file into its tree."""

from omnigraph.lang.cursor import Cursor, EnoughError, GaveUpError
from omnigraph.lang.lexer import Language, Token, TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.names import decapitalize_name
from omnigraph.lang.parsed import ParseResult
from omnigraph.lang.pattern_parser import is_at_query
from omnigraph.lang.query_ast import Mutation, ParamDecl, Query, QueryAnnotation, QueryFile, Read
from omnigraph.lang.query_mutations import MUTATIONS, parse_mutation
from omnigraph.lang.query_predicates import PredicateParser
from omnigraph.lang.query_read import parse_read
from omnigraph.lang.source import Source, Span
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.type_parser import parse_type
from omnigraph.lang.words import RESERVED_WORDS

_ANNOTATIONS = ("description", "instruction")
_QUERY_SYNONYMS = ("function", "def", "fn", "fragment")
_ANNOTATIONS_HINT = "annotations of a query stand between its `)` and its `{`"
_STATEMENT_KEYWORDS = ("match", *MUTATIONS)


def parse_queries(source: Source) -> ParseResult[QueryFile]:
    """The tree of a file of queries, and every mistake in its text; never raises, whatever the text."""
    cursor = Cursor(source, Language.QUERY)
    queries: list[Query] = []
    try:
        while not (cursor.is_at_end or cursor.is_full):
            found_before = cursor.diagnostic_count
            try:
                queries.append(_parse_query(cursor))
            except GaveUpError:
                cursor.skip_to(lambda: is_at_query(cursor))
            if cursor.diagnostic_count > found_before and cursor.is_at("return", "order", "limit", "offset"):
                # The rest of a query that a misplaced `}` cut in two; what went wrong has been reported.
                cursor.skip_to(lambda: is_at_query(cursor))
    except EnoughError:
        pass
    return cursor.build_result(QueryFile(queries=tuple(queries), span=Span(0, len(source.text))))


def _parse_query(cursor: Cursor) -> Query:
    start = _parse_keyword(cursor)
    name = _parse_name(cursor)
    has_params = cursor.is_at("(")
    params = _parse_params(cursor, name.text)
    annotations = _parse_annotations(cursor)
    if not has_params and cursor.is_at("("):  # reported already, as parentheses that are missing before the annotations
        params = _parse_params(cursor, name.text)
    opening = cursor.expect("{", f"the body of `{abbreviate(name.text)}` stands in braces")
    body = _parse_body(cursor, opening, name.text)
    return Query(name=name, params=params, annotations=annotations, body=body, span=start.span.to(cursor.previous))


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
    found: list[ParamDecl] = []
    while not cursor.accept(")"):
        if cursor.is_at("{"):
            cursor.report_missing(
                "missing `)` behind the parameters", f"a query is written `query {abbreviate(name)}(…) {{ … }}`"
            )
            break
        try:
            found.append(_parse_param(cursor))
        except GaveUpError:
            cursor.skip_to(lambda: cursor.is_at(",", ")", "{", "}") or is_at_query(cursor))
            if cursor.is_at("}") or is_at_query(cursor):
                raise
        if comma := cursor.accept(","):
            if cursor.is_at(")"):
                cursor.report(comma.span, "unexpected `,` before `)`", "delete it, or add a parameter behind it")
        elif not cursor.is_at(")", "{"):
            if not cursor.is_at_kind(TokenKind.VARIABLE):
                cursor.fail("`,` or `)`")
            cursor.report_missing("missing `,`", "put a `,` between one parameter and the next")
    return tuple(found)


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
        hint = f"`?` stands behind the type: `${abbreviate(name.text)}: String?`"
        cursor.report(question.span, "unexpected `?` behind a name", hint)
        nullable = True
    if not cursor.accept(":"):
        if not cursor.is_at_kind(TokenKind.TYPE, TokenKind.IDENT):
            cursor.fail(f"`:` and a type behind `${abbreviate(name.text)}`")
        hint = f"a parameter is written `${abbreviate(name.text)}: String`"
        cursor.report_missing(f"missing `:` behind `${abbreviate(name.text)}`", hint)
    type_, has_question = parse_type(cursor)
    if cursor.is_at("="):
        hint = "make it nullable with `?`, and pass the value with each call"
        cursor.refuse(cursor.peek().span, "a parameter has no default", hint)
    span = name.span.to(cursor.previous)
    return ParamDecl(name=name, type=type_, nullable=nullable or has_question, span=span)


def _parse_annotations(cursor: Cursor) -> tuple[QueryAnnotation, ...]:
    found: list[QueryAnnotation] = []
    while cursor.is_at("@"):
        try:
            annotation = _parse_annotation(cursor)
        except GaveUpError:
            cursor.skip_to(lambda: cursor.is_at(")", "{", "}", "@") or is_at_query(cursor))
            cursor.accept(")")
            continue
        word = annotation.name.text
        if word not in _ANNOTATIONS:
            meant = find_closest(word, _ANNOTATIONS)
            hint = f"did you mean `@{meant}`?" if meant else "queries have `@description` and `@instruction`"
            cursor.report(annotation.span, f"queries have no annotation `@{abbreviate(word)}`", hint, code="Q004")
        elif any(earlier.name == annotation.name for earlier in found):
            cursor.report(annotation.span, f"`@{word}` is given twice", "keep one of them", code="Q004")
        else:
            found.append(annotation)
    return tuple(found)


def _parse_annotation(cursor: Cursor) -> QueryAnnotation:
    at = cursor.advance()
    word = cursor.peek()
    if word.kind is not TokenKind.IDENT:
        cursor.fail("the annotation's name behind `@`")
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


def _parse_body(cursor: Cursor, opening: Token, name: str) -> Read | tuple[Mutation, ...]:
    found: Read | None = None
    statements: list[Mutation] = []
    predicates = PredicateParser(cursor, names_properties=True)

    def item() -> None:
        nonlocal found
        token = cursor.peek()
        if token.text == "@":
            cursor.report(token.span, "unexpected annotation in a query's body", _ANNOTATIONS_HINT)
            _parse_annotation(cursor)
            return
        if found is not None and token.text not in _STATEMENT_KEYWORDS:
            cursor.fail("`order`, `limit`, `offset` or `}`", "a read ends here")
        word = _peek_statement_keyword(cursor)
        if word in MUTATIONS:
            if found is not None:
                hint = "write two queries: one that reads, one that changes"
                cursor.report(token.span, "a query either reads or changes data, not both", hint)
            statements.append(parse_mutation(cursor, word, predicates))
            if semicolon := cursor.accept(";", ","):
                cursor.report(semicolon.span, f"unexpected `{semicolon.text}`", "statements need nothing between them")
        else:
            if statements:
                hint = "write two queries: one that reads, one that changes"
                cursor.report(token.span, "a query either reads or changes data, not both", hint)
            found = parse_read(cursor, word)

    before = cursor.index
    cursor.parse_block(
        opening,
        f"query `{abbreviate(name)}`",
        item,
        is_item_start=lambda: cursor.is_at(*_STATEMENT_KEYWORDS) and cursor.peek().starts_line,
        is_block_end=lambda: is_at_query(cursor),
    )
    if found is None and not statements:
        if cursor.index == before + 1:
            span = opening.span.to(cursor.previous)
            hint = "it needs `match { … } return { … }`, or an `insert`, `update` or `delete`"
            cursor.report(span, f"query `{abbreviate(name)}` is empty", hint)
        cursor.skip_to(lambda: is_at_query(cursor))
        return Read(clauses=(), projections=(), span=opening.span)  # so that the query's name is known all the same
    return found if found is not None else tuple(statements)


def _peek_statement_keyword(cursor: Cursor) -> str:
    """The keyword that starts a read or a mutation, or the one that was meant; the cursor stays before it."""
    token = cursor.peek()
    if token.text in _STATEMENT_KEYWORDS or token.text == "return":
        return token.text
    if token.kind in (TokenKind.IDENT, TokenKind.TYPE):
        elsewhere = {"find": "match", "create": "insert", "remove": "delete", "merge": "insert"}
        meant = elsewhere.get(token.text.lower()) or find_closest(token.text, (*_STATEMENT_KEYWORDS, "return"))
        if meant and (cursor.is_followed_by("{") or meant in MUTATIONS):
            message = f"expected `match`, `insert`, `update` or `delete`, found `{abbreviate(token.text)}`"
            cursor.report(token.span, message, f"did you mean `{meant}`?")
            return meant
    hint = None
    if token.text.lower() == "select":
        hint = "a read is written `match { $p: Person } return { $p.name }`"
    elif token.kind is TokenKind.VARIABLE:
        hint = "clauses stand inside `match { … }`"
    return cursor.fail("`match`, `insert`, `update` or `delete`", hint)
