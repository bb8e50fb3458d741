"""The text of a Cypher statement into its tree: clauses, `UNION`, recovery at the next clause."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from omnigraph.lang.cursor import EnoughError, GaveUpError, ParseResult
from omnigraph.lang.cypher import tree
from omnigraph.lang.cypher.atom_parser import parse_dotted_name
from omnigraph.lang.cypher.cursor import build_cursor, is_at_variable, parse_variable
from omnigraph.lang.cypher.expression_parser import CypherExpressions
from omnigraph.lang.cypher.tree import Clause, Expr
from omnigraph.lang.cypher.writing_clauses import WRITING_WORDS, refuse_writing
from omnigraph.lang.lexer import TokenKind, abbreviate
from omnigraph.lang.pattern_parser import MAX_CLAUSES
from omnigraph.lang.source import Source, Span
from omnigraph.lang.spelling import find_closest

CLAUSE_WORDS: Final = ("MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN", "CALL")
_OTHER_FORMS: Final = {
    "USE": "the graph is chosen where the statement is run",
    "EXPLAIN": "run `omnigraph explain --cypher`, or `graph.explain` with `cypher=True`",
    "PROFILE": "run `omnigraph explain --analyze --cypher`",
    "FINISH": "leave it out, or return something",
    "SHOW": "`CALL db.labels()`, `db.relationshipTypes()` and `db.propertyKeys()` list names; `omnigraph show` more",
    "LET": "name values by `WITH *, value AS name`",
    "FILTER": "write `WITH * WHERE …`",
    "FOR": "write `UNWIND list AS x`",
}
_NO_CLAUSE_HELP = "a statement reads by `MATCH`, `UNWIND`, `WITH`, `CALL` and `RETURN`"


def parse_cypher(source: Source) -> ParseResult[tree.Statement]:
    """Parse one statement. Never raises: mistakes are diagnostics of the result."""
    parser = _StatementParser(source)
    start = parser.cursor.peek().span
    statement = tree.Statement(queries=(), span=start)
    try:
        if not parser.cursor.is_full:
            statement = parser.parse_whole()
    except (GaveUpError, EnoughError):
        pass
    return parser.cursor.build_result(statement)


def _parse_reading(text: str) -> tree.Statement | None:
    """Return the tree of a statement that has no mistake."""
    parsed = parse_cypher(Source(text))
    return parsed.tree if parsed.ok else None


class _StatementParser:
    """The parser of clauses; expressions call it for the statements inside them."""

    def __init__(self, source: Source) -> None:
        self.cursor = build_cursor(source)
        self.expressions = CypherExpressions(self.cursor, self.parse_inner)
        self.clause_count = 0
        self.has_written = False

    # --- statements ----------------------------------------------------------------------------------

    def parse_whole(self) -> tree.Statement:
        """Parse the text up to its end."""
        cursor = self.cursor
        if cursor.is_at_end:
            cursor.refuse(cursor.peek().span, "there is no statement", "for example `MATCH (n) RETURN n LIMIT 25`")
        statement = self._parse_union(is_inner=False)
        if cursor.accept(";") and not cursor.is_at_end:
            cursor.report(cursor.peek().span, "expected one statement, found more", "run them one after the other")
        return statement

    def parse_inner(self) -> tree.Statement:
        """Parse the statement of a subquery up to its closing brace; a bare pattern is one `MATCH`."""
        cursor = self.cursor
        if not cursor.is_at("(") and not (is_at_variable(cursor) and cursor.is_followed_by("=")):
            return self._parse_union(is_inner=True)
        start = cursor.peek().span
        match = self._parse_patterns(start, optional=False)
        query = tree.Query(clauses=(match,), span=match.span)
        return tree.Statement(queries=(query,), span=match.span)

    def _parse_union(self, *, is_inner: bool) -> tree.Statement:
        cursor = self.cursor
        queries = [self._parse_query(is_inner=is_inner)]
        kinds: list[bool] = []
        while word := cursor.accept("UNION"):
            is_all = cursor.accept("ALL") is not None
            if not is_all:
                cursor.accept("DISTINCT")
            kinds.append(is_all)
            if kinds[0] != is_all:
                cursor.report(word.span, "`UNION` and `UNION ALL` in one statement", "use one of them")
            queries.append(self._parse_query(is_inner=is_inner))
        span = queries[0].span.to(queries[-1].span)
        return tree.Statement(queries=tuple(queries), distinct=not (kinds and kinds[0]), span=span)

    def _parse_query(self, *, is_inner: bool) -> tree.Query:
        cursor = self.cursor
        start = cursor.peek().span
        clauses: list[Clause] = []
        while not (cursor.is_at_end or cursor.is_at("UNION", ";") or (is_inner and cursor.is_at("}"))):
            before = cursor.index
            try:
                clause = self._parse_clause(clauses)
            except GaveUpError:
                if is_inner:
                    raise
                self._skip_clause(has_moved=cursor.index > before)
                continue
            if clause is None:
                continue
            self._check_order(clauses, clause)
            clauses.append(clause)
        span = start.to(cursor.previous) if clauses else start
        query = tree.Query(clauses=tuple(clauses), span=span)
        self._check_end(query, is_inner=is_inner)
        return query

    def _check_order(self, clauses: list[Clause], clause: Clause) -> None:
        if clauses and isinstance(clauses[-1], tree.Return):
            self.cursor.report(
                clause.span, "a clause after `RETURN`", "carry values on by `WITH`; `RETURN` is the last"
            )
        self.clause_count += 1
        if self.clause_count > MAX_CLAUSES:
            hint = "divide the statement"
            self.cursor.refuse(clause.span, f"more than {MAX_CLAUSES} clauses", hint, code="C001")

    def _check_end(self, query: tree.Query, *, is_inner: bool) -> None:
        cursor = self.cursor
        if cursor.diagnostic_count:
            return
        if not query.clauses:
            cursor.fail("a clause", _NO_CLAUSE_HELP)
        last = query.clauses[-1]
        is_alone = isinstance(last, tree.CallProcedure) and len(query.clauses) == 1
        if not isinstance(last, tree.Return) and not is_inner and not is_alone:
            cursor.report(query.span.after, "the statement returns nothing", "end it with `RETURN …`")

    def _skip_clause(self, *, has_moved: bool) -> None:
        if not has_moved:
            self.cursor.advance()
        self.cursor.skip_to(self._is_at_clause)

    def _is_at_clause(self) -> bool:
        """Return whether a clause starts at the cursor; its word may also be a label or a property key."""
        cursor = self.cursor
        starts = (*CLAUSE_WORDS, *WRITING_WORDS, "UNION", ";")
        return cursor.is_at(*starts) and cursor.peek(-1).text not in (":", ".", "|", "&")

    # --- clauses -------------------------------------------------------------------------------------

    def _parse_clause(self, before: Sequence[Clause]) -> Clause | None:
        cursor = self.cursor
        token = cursor.peek()
        match token.text:
            case "MATCH":
                cursor.advance()
                return self._parse_patterns(token.span, optional=False)
            case "OPTIONAL":
                cursor.advance()
                cursor.expect("MATCH", "it is written `OPTIONAL MATCH`")
                return self._parse_patterns(token.span, optional=True)
            case "UNWIND":
                return self._parse_unwind()
            case "WITH":
                return self._parse_with()
            case "RETURN":
                cursor.advance()
                projection = self._parse_projection(token.span)
                return tree.Return(projection=projection, span=token.span.to(cursor.previous))
            case "CALL":
                return self._parse_call()
            case word if word in WRITING_WORDS:
                refuse_writing(
                    cursor,
                    before,
                    partial(cursor.skip_to, self._is_at_clause),
                    _parse_reading,
                    has_written=self.has_written,
                )
                self.has_written = True
                return None
            case _:
                self._refuse_clause()
                return None

    def _refuse_clause(self) -> None:
        cursor = self.cursor
        token = cursor.peek()
        if token.text in _OTHER_FORMS:
            cursor.refuse(token.span, f"`{token.text}` is not supported", _OTHER_FORMS[token.text], code="C002")
        near = find_closest(token.text, (*CLAUSE_WORDS, *WRITING_WORDS, "WHERE", "ORDER", "LIMIT", "SKIP", "UNION"))
        if token.kind is TokenKind.IDENT and near is not None:
            cursor.fail("a clause", f"did you mean `{near}`?")
        if token.text == "WHERE":
            cursor.fail("a clause", "`WHERE` follows `MATCH`, `WITH` or `YIELD` directly")
        if token.text in ("ORDER", "SKIP", "LIMIT"):
            cursor.fail("a clause", f"`{token.text}` follows the columns of `RETURN` or `WITH`: ORDER BY, SKIP, LIMIT")
        cursor.fail("a clause", _NO_CLAUSE_HELP)

    def _parse_patterns(self, start: Span, *, optional: bool) -> tree.Match:
        cursor = self.cursor
        patterns = [self.expressions.patterns.parse_path()]
        while cursor.accept(","):
            patterns.append(self.expressions.patterns.parse_path())
        where = self._accept_where()
        span = start.to(cursor.previous)
        return tree.Match(patterns=tuple(patterns), where=where, optional=optional, span=span)

    def _accept_where(self) -> Expr | None:
        return self.expressions.parse() if self.cursor.accept("WHERE") else None

    def _parse_unwind(self) -> tree.Unwind:
        cursor = self.cursor
        word = cursor.advance()
        source = self.expressions.parse()
        cursor.expect("AS", "it is written `UNWIND list AS x`")
        variable = parse_variable(cursor)
        return tree.Unwind(source=source, variable=variable, span=word.span.to(variable.span))

    def _parse_with(self) -> tree.With:
        cursor = self.cursor
        word = cursor.advance()
        projection = self._parse_projection(word.span)
        for item in projection.items:
            if item.alias is None and not isinstance(item.value, tree.Variable):
                hint = f"name it: `{abbreviate(item.text)} AS name`"
                cursor.report(item.span, "an expression of `WITH` has no name", hint, code="C009")
        where = self._accept_where()
        return tree.With(projection=projection, where=where, span=word.span.to(cursor.previous))

    def _parse_projection(self, start: Span) -> tree.Projection:
        cursor = self.cursor
        distinct = cursor.accept("DISTINCT") is not None
        star = cursor.accept("*") is not None
        items: list[tree.ProjectionItem] = []
        if not star or cursor.accept(","):
            items.append(self._parse_item())
            while cursor.accept(","):
                items.append(self._parse_item())
        order: list[tree.SortKey] = []
        if cursor.accept("ORDER"):
            cursor.expect("BY", "it is written `ORDER BY`")
            order.append(self._parse_sort_key())
            while cursor.accept(","):
                order.append(self._parse_sort_key())
        skip = self.expressions.parse() if cursor.accept("SKIP", "OFFSET") else None
        limit = self.expressions.parse() if cursor.accept("LIMIT") else None
        if limit is not None and cursor.is_at("SKIP", "OFFSET"):
            cursor.fail("the end of the clause", "`SKIP` stands before `LIMIT`")
        return tree.Projection(
            items=tuple(items),
            star=star,
            distinct=distinct,
            order=tuple(order),
            skip=skip,
            limit=limit,
            span=start.to(cursor.previous),
        )

    def _parse_item(self) -> tree.ProjectionItem:
        cursor = self.cursor
        start = cursor.peek().span
        value = self.expressions.parse()
        written = start.to(cursor.previous)
        alias = parse_variable(cursor, "a name") if cursor.accept("AS") else None
        text = value.name if isinstance(value, tree.Variable) else cursor.source.slice(written)
        return tree.ProjectionItem(value=value, alias=alias, text=text, span=written)

    def _parse_sort_key(self) -> tree.SortKey:
        cursor = self.cursor
        start = cursor.peek().span
        value = self.expressions.parse()
        descending = cursor.accept("DESC", "DESCENDING") is not None
        if not descending:
            cursor.accept("ASC", "ASCENDING")
        if cursor.is_at("NULLS"):
            hint = "null is the largest value: last ascending, first descending"
            cursor.refuse(cursor.peek().span, "`NULLS` is not supported", hint, code="C002")
        return tree.SortKey(value=value, descending=descending, span=start.to(cursor.previous))

    # --- CALL ----------------------------------------------------------------------------------------

    def _parse_call(self) -> Clause:
        cursor = self.cursor
        word = cursor.advance()
        if cursor.is_at("("):
            hint = "values that a block reads are carried in by `WITH` at its start: `CALL { WITH p … }`"
            cursor.refuse(cursor.peek().span, "the scope of `CALL (…) { }` is not supported", hint, code="C002")
        if cursor.accept("{"):
            with cursor.nest(4):
                statement = self._parse_union(is_inner=True)
            closing = cursor.expect("}", "the statement of `CALL` stands in braces")
            return tree.CallSubquery(statement=statement, span=word.span.to(closing.span))
        name = parse_dotted_name(cursor, "a procedure or `{`")
        arguments: list[Expr] = []
        if cursor.accept("("):
            while not cursor.is_at(")"):
                arguments.append(self.expressions.parse())
                if not cursor.accept(","):
                    break
            cursor.expect(")")
        items: tuple[tree.YieldItem, ...] | None = None
        where: Expr | None = None
        if cursor.accept("YIELD"):
            items = None if cursor.accept("*") else self._parse_yields()
            where = self._accept_where()
        call = tree.CallProcedure(
            procedure=name, arguments=tuple(arguments), items=items, where=where, span=word.span.to(cursor.previous)
        )
        return replace(call, span=word.span.to(cursor.previous))

    def _parse_yields(self) -> tuple[tree.YieldItem, ...]:
        cursor = self.cursor
        items: list[tree.YieldItem] = []
        while True:
            column = parse_variable(cursor, "a column of the procedure")
            alias = parse_variable(cursor, "a name") if cursor.accept("AS") else None
            items.append(tree.YieldItem(column=column, alias=alias))
            if not cursor.accept(","):
                return tuple(items)
