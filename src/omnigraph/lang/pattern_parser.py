"""The clauses of a `match` block: bindings, traversals, predicates, `not` blocks."""

from omnigraph.lang.cursor import Cursor, GaveUpError, parse_type_name
from omnigraph.lang.expression_parser import ExpressionParser, parse_assignments, parse_variable, recover_variable
from omnigraph.lang.lexer import OPERATOR_SYNONYMS, RESERVED_WORDS, Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import parse_integer
from omnigraph.lang.literals import Name
from omnigraph.lang.query_ast import (
    Assignment,
    Binding,
    Clause,
    EdgeName,
    HopBounds,
    NotBlock,
    TraversalClause,
    Variable,
    Where,
)
from omnigraph.lang.spelling import find_closest

_BOUNDS_HINT = "the bounds of a hop are written `{1,3}`"
_TOKENS_AFTER_NAME = (":", "(", ".", "=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in", "is")
_OPERATOR_WORDS = frozenset({"contains", "starts_with", "in", "is", "and", "or", "not"})


class PatternParser:
    """A parser of the clauses of one query's `match` block."""

    def __init__(self, expressions: ExpressionParser) -> None:
        self._cursor = expressions.cursor
        self._expressions = expressions

    def parse_block(self, opening: Token, what: str) -> tuple[Clause, ...]:
        """Parse clauses up to the closing brace; the opening one was read. At least one is required."""
        cursor = self._cursor
        clauses: list[Clause] = []
        before = cursor.index

        def item() -> None:
            clauses.append(self._parse_clause())
            while cursor.accept(";"):
                pass
            if comma := cursor.accept(","):
                cursor.report(comma.span, "unexpected `,` after a clause", "clauses need no commas between them")

        cursor.parse_block(
            opening, what, item, is_item_start=self._is_at_clause, is_block_end=lambda: is_at_block_end(cursor)
        )
        if cursor.index == before + 1 and not clauses:
            cursor.report(
                opening.span.to(cursor.previous), f"{what} is empty", "it needs at least one clause: `$p: Person`"
            )
        return tuple(clauses)

    def _is_at_clause(self) -> bool:
        token = self._cursor.peek()
        if token.text == ";":
            self._cursor.advance()
            return True
        return token.starts_line and (token.kind is TokenKind.VARIABLE or token.text in ("not", "("))

    def _parse_clause(self) -> Clause:
        cursor = self._cursor
        token = cursor.peek()
        if token.text in ("where", "WHERE", "filter") and not cursor.is_followed_by(*_TOKENS_AFTER_NAME):
            hint = "in a match block a predicate stands alone: delete the word"
            cursor.report(token.span, f"unexpected `{token.text}` in a match block", hint)
            cursor.advance()
            token = cursor.peek()
        if cursor.is_followed_by("{") and token.kind in (TokenKind.IDENT, TokenKind.TYPE) and token.text != "case":
            return self._parse_not_block()
        if token.kind is TokenKind.VARIABLE:
            return self._parse_from_variable(token)
        if token.kind is TokenKind.IDENT and token.text not in RESERVED_WORDS and self._is_missing_dollar():
            return self._parse_from_name()
        return self._parse_where()

    def _parse_where(self) -> Where:
        predicate = self._expressions.parse_condition()
        return Where(predicate=predicate, span=predicate.span)

    def _parse_not_block(self) -> NotBlock:
        cursor = self._cursor
        start = cursor.peek()
        if start.text != "not":
            if not find_closest(start.text, ("not",)):
                hint = "a match block holds bindings, traversals, predicates and `not { … }` blocks"
                cursor.refuse(start.span, f"unexpected `{abbreviate(start.text)} {{`", hint)
            cursor.report(start.span, f"unexpected `{start.text} {{`", "did you mean `not`?")
        cursor.advance()
        with cursor.nest():
            clauses = self.parse_block(cursor.advance(), "the `not` block")
        return NotBlock(clauses=clauses, span=start.span.to(cursor.previous))

    # --- what starts with a variable -----------------------------------------------------------------

    def _parse_from_variable(self, token: Token) -> Clause:
        # Before traversals, which also start with a variable and a word.
        if self._is_binding_without_colon():
            return self._parse_binding(parse_variable(self._cursor, "a variable"))
        if self._is_traversal(1):
            return self._parse_traversal(parse_variable(self._cursor, "a variable"))
        if self._cursor.is_followed_by(":"):
            return self._parse_binding(parse_variable(self._cursor, "a variable"))
        if (
            self._cursor.is_followed_by("<")
            and self._cursor.peek(2).kind is TokenKind.VARIABLE
            and self._cursor.peek(3).text == ":"
        ):
            name, edge = abbreviate(self._cursor.peek(2).text), abbreviate(self._cursor.peek(4).text)
            hint = f"an edge variable stands before the `<`: `{abbreviate(token.text)} {name}:<{edge}> $other`"
            self._cursor.refuse(self._cursor.peek(2).span, "unexpected edge variable in `<…>`", hint)
        if self._is_arrow() and not self._cursor.peek(1).starts_line:
            hint = (
                f"a traversal is written `{abbreviate(token.text)} knows $other`,"
                " with the edge's name between the variables"
            )
            self._cursor.refuse(self._cursor.peek(1).span, f"unexpected `{self._cursor.peek(1).text}`", hint)
        return self._parse_where()

    def _is_arrow(self) -> bool:
        """Return whether an arrow of another language follows, as in `$a -[:KNOWS]-> $b` or `$a -> $b`."""
        if self._cursor.is_followed_by("->", "--"):
            return True
        return self._cursor.is_followed_by("-") and self._cursor.peek(2).text in ("[", "->", ">", "-")

    def _is_binding_without_colon(self) -> bool:
        """Return whether `$p Person` can't be a hop: no variable follows, or one that starts another clause."""
        cursor = self._cursor
        if cursor.peek(1).kind is not TokenKind.TYPE or cursor.peek(1).text.lower() in _OPERATOR_WORDS:
            return False
        next_token = cursor.peek(2)
        if next_token.text == "{":
            return cursor.peek(3).kind is not TokenKind.INT and cursor.peek(3).text != "-"
        return next_token.kind is not TokenKind.VARIABLE or cursor.peek(3).text in (":", ".", "=")

    def _is_missing_dollar(self) -> bool:
        """Return whether the name at the cursor would start a clause if it had a `$`."""
        return self._cursor.is_followed_by(":") or (self._is_traversal(1) and not self._cursor.peek(1).starts_line)

    def _parse_from_name(self) -> Clause:
        start = recover_variable(self._cursor, "a variable")
        return self._parse_binding(start) if self._cursor.is_at(":") else self._parse_traversal(start)

    def _is_traversal(self, ahead: int) -> bool:
        """Return whether a hop starts after the variable at the cursor."""
        token = self._cursor.peek(ahead)
        if token.kind is TokenKind.STRING:
            return True
        if token.kind is TokenKind.VARIABLE:
            return self._cursor.peek(ahead + 1).text == ":" and (not token.starts_line or self._is_edge(ahead + 2))
        if token.text == "<":
            return self._is_undirected(ahead + 1)
        next_token = self._cursor.peek(ahead + 1)
        if token.kind is TokenKind.TYPE and next_token.kind is TokenKind.VARIABLE:
            return True
        if token.kind not in (TokenKind.IDENT, TokenKind.TYPE) or token.text.lower() in _OPERATOR_WORDS:
            return False
        if token.text in RESERVED_WORDS or token.text.lower() in OPERATOR_SYNONYMS or token.starts_line:
            return next_token.kind is TokenKind.VARIABLE or next_token.text == "{"
        return True

    def _is_edge(self, ahead: int) -> bool:
        """Return whether an edge, and not the type of a binding, follows a variable and `:` on a new line."""
        edge, next_token = self._cursor.peek(ahead), self._cursor.peek(ahead + 1)
        if edge.kind is not TokenKind.TYPE:
            return edge.kind in (TokenKind.IDENT, TokenKind.STRING) or edge.text == "<"
        further = self._cursor.peek(ahead + 2)
        if next_token.kind is TokenKind.VARIABLE:
            return further.text != ":"
        return next_token.text == "{" and (further.kind is TokenKind.INT or further.text == "-")

    def _is_undirected(self, ahead: int) -> bool:
        """Return whether a `<` starts a hop: an edge and `>` follow, or a variable that can't start anything else."""
        cursor = self._cursor
        if cursor.peek(ahead).kind not in (TokenKind.IDENT, TokenKind.TYPE, TokenKind.STRING):
            return False
        next_token, last = cursor.peek(ahead + 1), cursor.peek(ahead + 2)
        if next_token.kind is TokenKind.VARIABLE and not next_token.starts_line:
            return last.starts_line or last.text in ("}", ";", ",")
        return next_token.text == ">"

    def _parse_binding(self, start: Variable) -> Binding:
        cursor = self._cursor
        if not cursor.accept(":"):
            name = abbreviate(start.name)
            cursor.report_missing(
                f"missing `:` after `${name}`", f"a binding is written `${name}: {abbreviate(cursor.peek().text)}`"
            )
        type_ = parse_type_name(cursor, "a node type", unknown_code="T1")
        filters: tuple[Assignment, ...] = ()
        if cursor.is_at("{"):
            filters = parse_assignments(
                self._expressions, cursor.advance(), f"the filter of `${abbreviate(start.name)}`", needs_commas=True
            )
        return Binding(variable=start, types=(type_,), filters=filters, span=start.span.to(cursor.previous))

    def _parse_traversal(self, source: Variable) -> TraversalClause:
        cursor = self._cursor
        edge_variable: Variable | None = None
        if cursor.is_at_kind(TokenKind.VARIABLE):
            edge_variable = parse_variable(cursor, "an edge variable")
            cursor.expect(":")
        is_undirected = cursor.accept("<") is not None
        edges_start = cursor.peek()
        edge, is_text = self._parse_edge()
        if is_undirected and not cursor.accept(">"):
            cursor.report_missing("missing `>`", f"an undirected hop is written `<{abbreviate(edge.text)}>`")
        bounds = self._parse_bounds() if cursor.is_at("{", "*") else None
        if cursor.peek().starts_line and cursor.is_followed_by(":", ".", "="):
            hint = f"a traversal is written `${abbreviate(source.name)} {abbreviate(edge.text)} $other`"
            cursor.report_missing("missing the variable that the hop leads to", hint)
        target = parse_variable(cursor, "the variable that the hop leads to")
        self._refuse_second_hop(target)
        return TraversalClause(
            source=source,
            edges=(EdgeName(name=edge, is_text=is_text, span=edge.span),),
            target=target,
            edge_variable=edge_variable,
            is_undirected=is_undirected,
            bounds=bounds,
            edge_span=edges_start.span.to(edge.span),
            span=source.span.to(target.span),
        )

    def _refuse_second_hop(self, target: Variable) -> None:
        token = self._cursor.peek()
        is_name = (
            token.kind in (TokenKind.IDENT, TokenKind.TYPE)
            and token.text not in RESERVED_WORDS
            and not token.starts_line
        )
        if is_name and self._cursor.peek(1).kind is TokenKind.VARIABLE:
            edge, end = abbreviate(token.text), abbreviate(self._cursor.peek(1).text)
            hint = f"a clause has one hop; the next is one of its own: `${abbreviate(target.name)} {edge} {end}`"
            self._cursor.refuse(token.span, f"unexpected `{edge}` after a hop", hint)

    def _parse_edge(self) -> tuple[Name, bool]:
        cursor = self._cursor
        token = cursor.peek()
        if token.kind is TokenKind.STRING:
            cursor.advance()
            return Name(str(token.value), token.span), True
        if token.kind not in (TokenKind.IDENT, TokenKind.TYPE):
            cursor.fail("an edge's name")
        cursor.advance()
        if token.text in RESERVED_WORDS:
            hint = f'write the edge as a string: `"{token.text}"`'
            cursor.report(token.span, f"`{token.text}` is a reserved word", hint)
        return Name(token.text, token.span), False

    def _parse_bounds(self) -> HopBounds:
        cursor = self._cursor
        opening = cursor.advance()
        if opening.text == "*":
            cursor.refuse(opening.span, "unexpected `*` after an edge", _BOUNDS_HINT)
        try:
            return self._parse_bounds_body(opening)
        except GaveUpError:
            # Leave the braces first: recovery counts them from here.
            cursor.skip_to(lambda: cursor.is_at("}") or cursor.peek().starts_line)
            cursor.accept("}")
            raise

    def _parse_bounds_body(self, opening: Token) -> HopBounds:
        cursor = self._cursor
        low = parse_integer(cursor, "the least number of hops", _BOUNDS_HINT)
        if closing := cursor.accept("}"):
            span = opening.span.to(closing.span)
            hint = f"write both bounds: `{{{low.value},{low.value}}}` or `{{1,{low.value}}}`"
            cursor.report(span, "expected two bounds, found one", hint)
            return HopBounds(low=low.value, high=low.value, span=span)
        if dots := cursor.accept("..", "-"):
            cursor.report(dots.span, f"expected `,`, found `{dots.text}`", _BOUNDS_HINT)
        else:
            cursor.expect(",", _BOUNDS_HINT)
        if cursor.is_at("}"):
            cursor.fail("the largest number of hops", f"{_BOUNDS_HINT}; a hop can't be unbounded")
        high = parse_integer(cursor, "the largest number of hops", f"{_BOUNDS_HINT}, with whole numbers")
        span = opening.span.to(cursor.expect("}").span)
        return HopBounds(low=low.value, high=high.value, span=span)


def is_at_block_end(cursor: Cursor) -> bool:
    """Return whether the cursor is at something that only follows a closed block: its `}` is missing."""
    token = cursor.peek()
    if token.text in ("return", "order"):
        return cursor.is_followed_by("{", "distinct", "by") or (
            token.starts_line and not cursor.is_followed_by(":", "=")
        )
    if token.text in ("limit", "offset"):
        return cursor.peek(1).kind in (TokenKind.INT, TokenKind.VARIABLE) or cursor.is_followed_by("-")
    return is_at_query(cursor)


def is_at_query(cursor: Cursor) -> bool:
    """Return whether a query starts at the cursor; `query` is not reserved, so what follows decides."""
    token = cursor.peek()
    name, next_token = cursor.peek(1), cursor.peek(2)
    if token.text != "query" or name.kind not in (TokenKind.IDENT, TokenKind.TYPE):
        return False
    # In a block, `query` may be an alias, followed by another alias or a call: no guess may reject those.
    first, second = cursor.peek(3), cursor.peek(4)
    if next_token.text != "(":
        return next_token.text == "{" or (next_token.text == "@" and first.text in ("description", "instruction"))
    if first.text == ")":
        return second.text in ("{", "@")
    if second.text == ":":
        return True
    return (
        first.text not in RESERVED_WORDS
        and TokenKind.SIGN not in (first.kind, second.kind)
        and second.kind is not TokenKind.END
    )
