"""The text of a `.gq` file into its tree."""

from dataclasses import dataclass, field

from omnigraph.lang.block_ends import is_at_block_end, is_at_query
from omnigraph.lang.cursor import Cursor, EnoughError, GaveUpError, ParseResult, decapitalize_name, parse_type_name
from omnigraph.lang.expression_parser import ExpressionParser, parse_assignments
from omnigraph.lang.lexer import CLAUSE_SYNONYMS, RESERVED_WORDS, Language, Token, TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.order_parser import parse_count, parse_order
from omnigraph.lang.pattern_parser import PatternParser
from omnigraph.lang.query_ast import (
    Assignment,
    Clause,
    Delete,
    Expr,
    Insert,
    Mutation,
    OrderKey,
    ParamDecl,
    Projection,
    Query,
    QueryAnnotation,
    QueryFile,
    Read,
    Update,
)
from omnigraph.lang.source import Source, Span
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.type_parser import parse_type


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


_PART_KEYWORDS = ("match", "return", "order", "limit", "offset")


@dataclass(slots=True)
class _ReadBuilder:
    """What has been read so far, and the place of each part's keyword."""

    clauses: tuple[Clause, ...] = ()
    projections: tuple[Projection, ...] = ()
    distinct: bool = False
    order: tuple[OrderKey, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    seen: list[str] = field(default_factory=list)
    reported: set[str] = field(default_factory=set)
    """Parts whose absence, place or number has been reported already."""


def parse_read(cursor: Cursor, word: str) -> Read:
    """Parse the read at the cursor, whose first keyword is, or was meant as, `word`."""
    start = cursor.peek()
    parts = _ReadBuilder()
    clauses = PatternParser(cursor)
    if word == "return":
        if not cursor.is_explained:
            cursor.report(start.span, "missing `match` before `return`", "a read is written `match { … } return { … }`")
        parts.reported.add("match")
    next_word: str | None = word
    while next_word:
        keyword = cursor.advance()
        _check_order(cursor, parts, keyword, next_word)
        _parse_part(parts, clauses, next_word)
        next_word = _find_next_part(cursor, parts)
    if "return" not in parts.seen and "return" not in parts.reported:
        cursor.report_missing("missing `return`", "a read ends in `return { … }`")
    return Read(
        clauses=parts.clauses,
        projections=parts.projections,
        distinct=parts.distinct,
        order=parts.order,
        limit=parts.limit,
        offset=parts.offset,
        span=start.span.to(cursor.previous),
    )


def _check_order(cursor: Cursor, parts: _ReadBuilder, keyword: Token, word: str) -> None:
    if word in parts.reported:
        parts.reported.remove(word)
    elif word in parts.seen:
        if word == "match":
            parts.reported.update(_PART_KEYWORDS)
        hint = "put all clauses into one `match { … }`" if word == "match" else "keep one of them"
        cursor.report(keyword.span, f"`{word}` is given twice", hint)
    elif later := [seen for seen in parts.seen if _PART_KEYWORDS.index(seen) > _PART_KEYWORDS.index(word)]:
        hint = "the order is `match`, `return`, `order`, `limit`, `offset`"
        cursor.report(keyword.span, f"`{word}` stands before `{later[0]}`", hint)
    elif word in ("order", "limit", "offset") and "return" not in parts.seen:
        parts.reported.add("return")
        cursor.report(keyword.span, f"missing `return` before `{word}`", "a read is written `match { … } return { … }`")
    parts.seen.append(word)


def _parse_part(parts: _ReadBuilder, clauses: PatternParser, word: str) -> None:
    expressions = clauses.expressions
    cursor = expressions.cursor
    match word:
        case "match":
            if not cursor.is_at("{"):
                cursor.fail("`{`", "a match block is written `match { $p: Person }`")
            parts.clauses += clauses.parse_block(cursor.advance(), "the match block")
        case "return":
            parts.distinct = cursor.accept("distinct") is not None
            if cursor.is_at("{") and cursor.is_followed_by("distinct"):
                hint = "it stands before the braces: `return distinct { … }`"
                cursor.report(cursor.peek(1).span, "unexpected `distinct` in the return block", hint)
                parts.distinct = True
            parts.projections = _parse_projections(expressions)
        case "order":
            parts.order = parse_order(expressions)
        case "limit":
            parts.limit = parse_count(cursor, word)
        case _:
            parts.offset = parse_count(cursor, word)


def _find_next_part(cursor: Cursor, parts: _ReadBuilder) -> str | None:
    """Find the keyword of the next part, or the one that was meant; None where the read ends."""
    while True:
        token = cursor.peek()
        if token.text in _PART_KEYWORDS:
            return token.text
        if token.text == "}" and cursor.is_followed_by(*_PART_KEYWORDS[1:]):
            hint = "delete it, or look for one too many before it"
            cursor.report(token.span, f"unexpected `}}` before `{cursor.peek(1).text}`", hint)
            cursor.advance()
        elif token.text in (";", ","):
            cursor.report(token.span, f"unexpected `{token.text}`", "the parts of a read need nothing between them")
            cursor.advance()
        elif token.text in ("where", "WHERE", "filter"):
            hint = "put the predicate into the match block, where it stands alone"
            cursor.report(token.span, f"unexpected `{token.text}` after a block", hint)
            cursor.advance()
            ExpressionParser(cursor).parse_condition()
        elif token.text in ("group", "GROUP"):
            hint = "the projections that are no aggregates are the group keys: delete it"
            cursor.refuse(token.span, f"unexpected `{token.text}`", hint)
        elif token.kind not in (TokenKind.IDENT, TokenKind.TYPE) or is_at_query(cursor):
            return None
        elif meant := _guess_part(token.text, parts):
            message = f"expected {_format_expected(parts)}, found `{abbreviate(token.text)}`"
            cursor.report(token.span, message, f"did you mean `{meant}`?")
            return meant
        else:
            return None


def _format_expected(parts: _ReadBuilder) -> str:
    return "`order`, `limit` or `offset`" if "return" in parts.seen else "`return`"


def _guess_part(word: str, parts: _ReadBuilder) -> str | None:
    folded = word.lower()
    if "return" not in parts.seen:
        return "return" if folded in ("select", "yield") else find_closest(word, ("return",))
    return CLAUSE_SYNONYMS.get(folded) or find_closest(word, ("order", "limit", "offset"))


# --- return --------------------------------------------------------------------------------------


def _parse_projections(expressions: ExpressionParser) -> tuple[Projection, ...]:
    cursor = expressions.cursor
    projections: list[Projection] = []

    def item() -> None:
        projections.append(_parse_projection(expressions))
        if separator := cursor.accept(",", ";"):
            if separator.text == ";":
                cursor.report(separator.span, "expected `,`, found `;`", "projections are separated by `,`")
            elif extra := cursor.accept(","):
                cursor.report(extra.span, "unexpected second `,`", "delete it")

    if not cursor.is_at("{"):
        cursor.report_missing("missing `{` after `return`", "a return is written `return { $p.name }`")
        while not (cursor.is_at("}") or cursor.is_at_end or is_at_block_end(cursor)):
            item()
        return tuple(projections)
    opening = cursor.advance()
    # A misplaced `distinct`, which the caller reported.
    cursor.accept("distinct")
    before = cursor.index
    cursor.parse_block(
        opening,
        "the return block",
        item,
        is_item_start=lambda: cursor.peek().starts_line and not cursor.is_at_kind(TokenKind.SIGN),
        is_block_end=lambda: is_at_block_end(cursor),
    )
    if not projections and cursor.index == before + 1:
        span = opening.span.to(cursor.previous)
        cursor.report(span, "the return block is empty", "say what to return: `return { $p.name }`")
    return tuple(projections)


def _parse_projection(expressions: ExpressionParser) -> Projection:
    cursor = expressions.cursor
    token = cursor.peek()
    if token.kind in (TokenKind.IDENT, TokenKind.STRING) and cursor.is_followed_by(":"):
        return _recover_reversed_alias(expressions)
    value = expressions.parse_value()
    alias = None
    if cursor.accept("as"):
        alias = _parse_alias(cursor)
    elif cursor.is_at("AS"):
        cursor.report(cursor.advance().span, "unexpected `AS`", "write `as`")
        alias = _parse_alias(cursor)
    end = alias.span if alias else value.span
    return Projection(value=value, alias=alias, span=value.span.to(end))


def _recover_reversed_alias(expressions: ExpressionParser) -> Projection:
    cursor = expressions.cursor
    token = cursor.advance()
    cursor.advance()
    value = expressions.parse_value()
    name = str(token.value) if token.kind is TokenKind.STRING else token.text
    text = abbreviate(cursor.source.slice(value.span))
    hint = f"a column is named with `as`: `{text} as {abbreviate(name)}`"
    cursor.report(token.span, f"unexpected `{abbreviate(token.text)}:` in a return block", hint)
    return Projection(value=value, alias=Name(name, token.span), span=token.span.to(value.span))


def _parse_alias(cursor: Cursor) -> Name:
    token = cursor.peek()
    if token.kind is TokenKind.IDENT:
        cursor.advance()
        if token.text in RESERVED_WORDS:
            cursor.report(
                token.span, f"`{token.text}` is a reserved word", f"choose another alias, such as `{token.text}_`"
            )
        return Name(token.text, token.span)
    fixed, reason = "", ""
    if token.kind is TokenKind.TYPE:
        fixed, reason = decapitalize_name(token.text), "an alias starts with a small letter"
    elif token.kind is TokenKind.VARIABLE:
        fixed, reason = str(token.value), "an alias is written without `$`"
    elif token.kind is TokenKind.STRING and str(token.value).isidentifier() and str(token.value).isascii():
        fixed, reason = decapitalize_name(str(token.value)), "an alias is written without quotes"
    if not fixed:
        cursor.fail("an alias", "an alias is a name: `$p.name as name`")
    cursor.report(
        token.span, f"expected an alias, found `{abbreviate(token.text)}`", f"{reason}: `{abbreviate(fixed)}`"
    )
    cursor.advance()
    return Name(fixed, token.span)


MUTATIONS = ("insert", "update", "delete")


def parse_mutation(expressions: ExpressionParser, word: str) -> Mutation:
    """Parse the statement at the cursor, whose keyword is, or was meant as, `word`."""
    cursor = expressions.cursor
    start = cursor.advance()
    if filler := cursor.accept("into", "from", "INTO", "FROM"):
        cursor.report(filler.span, f"unexpected `{filler.text}` after `{word}`", f"write `{word} Person …`")
    if cursor.is_at_kind(TokenKind.VARIABLE):
        cursor.fail(f"the type to {word}", f"a mutation names a type, not a variable: `{word} Person …`")
    type_ = parse_type_name(cursor, f"the type to {word}", unknown_code="T10")
    match word:
        case "insert":
            values = _parse_values(
                PatternParser(cursor).expressions,
                f"the values of `{abbreviate(type_.text)}`",
                f"insert {abbreviate(type_.text)} {{ name: … }}",
            )
            return Insert(type=type_, assignments=values, span=start.span.to(cursor.previous))
        case "update":
            values, where = _parse_set_and_where(expressions, type_.text)
            return Update(type=type_, assignments=values, where=where, span=start.span.to(cursor.previous))
        case _:
            where = _parse_where(expressions, f"delete {abbreviate(type_.text)} where name = …")
            return Delete(type=type_, where=where, span=start.span.to(cursor.previous))


def _parse_values(expressions: ExpressionParser, what: str, example: str) -> tuple[Assignment, ...]:
    cursor = expressions.cursor
    opening = cursor.peek()
    if opening.text != "{":
        cursor.fail("`{`", f"for example `{example}`")
    cursor.advance()
    return parse_assignments(expressions, opening, what, needs_commas=False)


def _parse_set_and_where(expressions: ExpressionParser, type_: str) -> tuple[tuple[Assignment, ...], Expr]:
    cursor = expressions.cursor
    example = f"update {abbreviate(type_)} set {{ name: … }} where name = …"  # noqa: S608 - words of a message, no SQL
    early: Expr | None = None
    if cursor.is_at("where"):
        word = cursor.peek()
        early = _parse_where(expressions, example)
        cursor.report(word.span, "`where` stands after `set { … }`", f"write `{example}`")
    if not cursor.accept("set"):
        if not cursor.is_at("{"):
            cursor.fail("`set`", f"for example `{example}`")
        cursor.report_missing("missing `set`", f"write `{example}`")
    values = _parse_values(expressions, f"the values of `{abbreviate(type_)}`", example)
    return values, early or _parse_where(expressions, example)


def _parse_where(expressions: ExpressionParser, example: str) -> Expr:
    cursor = expressions.cursor
    if not cursor.accept("where"):
        if _is_end(cursor.peek()):
            cursor.report_missing("missing `where`", f"say which ones: `{example}`")
        cursor.fail("`where`", f"say which ones: `{example}`")
    return expressions.parse_condition()


def _is_end(token: Token) -> bool:
    return token.kind is TokenKind.END or token.text == "}" or token.starts_line


_ANNOTATIONS = ("description", "instruction")
_QUERY_SYNONYMS = ("function", "def", "fn", "fragment")
_ANNOTATIONS_HINT = "annotations of a query stand between its `)` and its `{`"
_STATEMENT_KEYWORDS = ("match", *MUTATIONS)


def parse_queries(source: Source) -> ParseResult[QueryFile]:
    """Parse a file of queries. Never raises: mistakes are diagnostics of the result."""
    cursor = Cursor(source, Language.QUERY)
    queries: list[Query] = []
    try:
        while not (cursor.is_at_end or cursor.is_full):
            count_before = cursor.diagnostic_count
            try:
                queries.append(_parse_query(cursor))
            except GaveUpError:
                cursor.skip_to(lambda: is_at_query(cursor))
            if cursor.diagnostic_count > count_before and cursor.is_at("return", "order", "limit", "offset"):
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
    # Reported already, as parentheses that are missing before the annotations.
    if not has_params and cursor.is_at("("):
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
            cursor.skip_to(lambda: cursor.is_at(",", ")", "{", "}") or is_at_query(cursor))
            if cursor.is_at("}") or is_at_query(cursor):
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
            cursor.skip_to(lambda: cursor.is_at(")", "{", "}", "@") or is_at_query(cursor))
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


def _parse_body(cursor: Cursor, opening: Token, name: str) -> Read | tuple[Mutation, ...]:
    read: Read | None = None
    statements: list[Mutation] = []
    expressions = PatternParser(cursor, names_properties=True).expressions

    def item() -> None:
        nonlocal read
        token = cursor.peek()
        if token.text == "@":
            cursor.report(token.span, "unexpected annotation in a query's body", _ANNOTATIONS_HINT)
            _parse_annotation(cursor)
            return
        if read is not None and token.text not in _STATEMENT_KEYWORDS:
            cursor.fail("`order`, `limit`, `offset` or `}`", "a read ends here")
        word = _peek_statement_keyword(cursor)
        if word in MUTATIONS:
            if read is not None:
                hint = "write two queries: one that reads, one that changes"
                cursor.report(token.span, "a query either reads or changes data, not both", hint)
            statements.append(parse_mutation(expressions, word))
            if semicolon := cursor.accept(";", ","):
                cursor.report(semicolon.span, f"unexpected `{semicolon.text}`", "statements need nothing between them")
        else:
            if statements:
                hint = "write two queries: one that reads, one that changes"
                cursor.report(token.span, "a query either reads or changes data, not both", hint)
            read = parse_read(cursor, word)

    before = cursor.index
    cursor.parse_block(
        opening,
        f"query `{abbreviate(name)}`",
        item,
        is_item_start=lambda: cursor.is_at(*_STATEMENT_KEYWORDS) and cursor.peek().starts_line,
        is_block_end=lambda: is_at_query(cursor),
    )
    if read is None and not statements:
        if cursor.index == before + 1:
            span = opening.span.to(cursor.previous)
            hint = "it needs `match { … } return { … }`, or an `insert`, `update` or `delete`"
            cursor.report(span, f"query `{abbreviate(name)}` is empty", hint)
        cursor.skip_to(lambda: is_at_query(cursor))
        # An empty read, so that the query's name is known all the same.
        return Read(clauses=(), projections=(), span=opening.span)
    return read if read is not None else tuple(statements)


def _peek_statement_keyword(cursor: Cursor) -> str:
    """Return the keyword that starts a read or a mutation, or the one that was meant, without moving the cursor."""
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
