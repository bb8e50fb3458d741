"""The clauses of a `match` block: bindings, traversals, predicates, `not` blocks."""

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import Kind, Token, shown
from omnigraph.lang.literal_parser import whole_number
from omnigraph.lang.literals import Name
from omnigraph.lang.names import type_name
from omnigraph.lang.query_ast import Assignment, Binding, Clause, HopBounds, NotBlock, Traversal, Variable, Where
from omnigraph.lang.query_expr import assignments, mended_variable, variable
from omnigraph.lang.query_predicates import Predicates
from omnigraph.lang.words import OPERATORS_ELSEWHERE, RESERVED

_OPERATOR_WORDS = frozenset({"contains", "starts_with", "in", "is", "and", "or", "not"})


class Clauses:
    """Parses the clauses of one query's `match` block."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._predicates = Predicates(cursor, names_properties=False)

    def block(self, opening: Token, what: str) -> tuple[Clause, ...]:
        """Clauses up to the closing brace; the opening one has been read. At least one is needed."""
        cursor = self._cursor
        found: list[Clause] = []
        before = cursor.index

        def item() -> None:
            found.append(self._clause())
            while cursor.accept(";"):
                pass
            if comma := cursor.accept(","):
                cursor.report(comma.span, "unexpected `,` behind a clause", "clauses need no commas between them")

        cursor.block(opening, what, item, starts=self._at_clause, ends=lambda: at_block_end(cursor))
        if cursor.index == before + 1 and not found:
            cursor.report(opening.span.to(cursor.previous), f"{what} is empty", "it needs at least one clause: `$p: Person`")
        return tuple(found)

    def _at_clause(self) -> bool:
        token = self._cursor.peek()
        if token.text == ";":
            self._cursor.advance()
            return True
        return token.starts_line and (token.kind is Kind.VARIABLE or token.text in ("not", "("))

    def _clause(self) -> Clause:
        cursor = self._cursor
        token = cursor.peek()
        if token.text in ("where", "WHERE", "filter") and not cursor.follows(":", "(", "."):
            help = "in a match block a predicate stands alone: delete the word"
            cursor.report(token.span, f"unexpected `{token.text}` in a match block", help)
            cursor.advance()
            token = cursor.peek()
        if token.text == "not" and cursor.follows("{"):
            return self._not_block()
        if token.kind is Kind.VARIABLE:
            return self._from_variable(token)
        if token.kind is Kind.IDENT and token.text not in RESERVED and self._lacks_dollar():
            return self._from_name()
        return self._where()

    def _where(self) -> Where:
        found = self._predicates.predicate()
        return Where(predicate=found, span=found.span)

    def _not_block(self) -> NotBlock:
        cursor = self._cursor
        start = cursor.advance()
        with cursor.nested():
            clauses = self.block(cursor.advance(), "the `not` block")
        return NotBlock(clauses=clauses, span=start.span.to(cursor.previous))

    # --- what starts with a variable -----------------------------------------------------------------

    def _from_variable(self, token: Token) -> Clause:
        if self._is_traversal(1):
            return self._traversal(variable(self._cursor, "a variable"))
        if self._cursor.follows(":"):
            return self._binding(variable(self._cursor, "a variable"))
        if self._cursor.follows("->", "--", "-") and not self._cursor.peek(1).starts_line:
            help = f"a traversal is written `{shown(token.text)} knows $other`, with the edge's name between the variables"
            self._cursor.refuse(self._cursor.peek(1).span, f"unexpected `{self._cursor.peek(1).text}`", help)
        return self._where()

    def _lacks_dollar(self) -> bool:
        """Whether the name at the cursor starts a clause that would be one with a `$` before it."""
        return self._cursor.follows(":") or (self._is_traversal(1) and not self._cursor.peek(1).starts_line)

    def _from_name(self) -> Clause:
        start = mended_variable(self._cursor, "a variable")
        return self._binding(start) if self._cursor.at(":") else self._traversal(start)

    def _is_traversal(self, ahead: int) -> bool:
        """Whether a hop starts behind the variable at the cursor."""
        token = self._cursor.peek(ahead)
        if token.kind is Kind.STRING:
            return True
        if token.kind is Kind.VARIABLE:
            return self._cursor.peek(ahead + 1).text == ":" and not token.starts_line
        if token.text == "<":
            edge = self._cursor.peek(ahead + 1)
            return edge.kind in (Kind.IDENT, Kind.TYPE, Kind.STRING) and self._cursor.peek(ahead + 2).text == ">"
        if token.kind not in (Kind.IDENT, Kind.TYPE) or token.text.lower() in _OPERATOR_WORDS:
            return False
        behind = self._cursor.peek(ahead + 1)
        if token.text in RESERVED or token.text.lower() in OPERATORS_ELSEWHERE or token.starts_line:
            return behind.kind is Kind.VARIABLE or behind.text == "{"
        return True

    def _binding(self, start: Variable) -> Binding:
        cursor = self._cursor
        cursor.advance()
        type_ = type_name(cursor, "a node type")
        filters: tuple[Assignment, ...] = ()
        if cursor.at("{"):
            filters = assignments(cursor, cursor.advance(), f"the filter of `${shown(start.name)}`")
        return Binding(variable=start, type=type_, filters=filters, span=start.span.to(cursor.previous))

    def _traversal(self, source: Variable) -> Traversal:
        cursor = self._cursor
        edge_variable: Variable | None = None
        if cursor.at_kind(Kind.VARIABLE):
            edge_variable = variable(cursor, "an edge variable")
            cursor.expect(":")
        is_undirected = cursor.accept("<") is not None
        edge, is_text = self._edge()
        if is_undirected:
            cursor.expect(">", f"an undirected hop is written `<{shown(edge.text)}>`")
        bounds = self._bounds() if cursor.at("{", "*") else None
        target = variable(cursor, "the variable that the hop leads to")
        return Traversal(
            source=source,
            edge=edge,
            target=target,
            edge_is_text=is_text,
            edge_variable=edge_variable,
            is_undirected=is_undirected,
            bounds=bounds,
            span=source.span.to(target.span),
        )

    def _edge(self) -> tuple[Name, bool]:
        cursor = self._cursor
        token = cursor.peek()
        if token.kind is Kind.STRING:
            cursor.advance()
            return Name(str(token.value), token.span), True
        if token.kind not in (Kind.IDENT, Kind.TYPE):
            cursor.fail("an edge's name")
        cursor.advance()
        if token.text in RESERVED:
            help = f'write the edge as a string: `"{token.text}"`'
            cursor.report(token.span, f"`{token.text}` is a reserved word", help)
        return Name(token.text, token.span), False

    def _bounds(self) -> HopBounds:
        cursor = self._cursor
        opening = cursor.advance()
        if opening.text == "*":
            cursor.refuse(opening.span, "unexpected `*` behind an edge", "the bounds of a hop are written `{1,3}`")
        low = whole_number(cursor, "the least number of hops")
        if closing := cursor.accept("}"):
            span = opening.span.to(closing.span)
            help = f"write both bounds: `{{{low.value},{low.value}}}` or `{{1,{low.value}}}`"
            cursor.report(span, "expected two bounds, found one", help)
            return HopBounds(low=low.value, high=low.value, span=span)
        if dots := cursor.accept("..", "-"):
            cursor.report(dots.span, f"expected `,`, found `{dots.text}`", "the bounds of a hop are written `{1,3}`")
        else:
            cursor.expect(",", "the bounds of a hop are written `{1,3}`")
        high = whole_number(cursor, "the largest number of hops")
        span = opening.span.to(cursor.expect("}").span)
        return HopBounds(low=low.value, high=high.value, span=span)


def at_block_end(cursor: Cursor) -> bool:
    """Whether something stands at the cursor that only follows a closed block: the block's `}` was forgotten."""
    token = cursor.peek()
    if token.text in ("return", "order"):
        return cursor.follows("{", "distinct") or (token.starts_line and not cursor.follows(":", "="))
    if token.text in ("limit", "offset"):
        return cursor.peek(1).kind in (Kind.INT, Kind.VARIABLE)
    return at_query(cursor)


def at_query(cursor: Cursor) -> bool:
    """Whether a query starts at the cursor; `query` is no reserved word, so what follows decides."""
    token = cursor.peek()
    if token.text != "query" or cursor.peek(1).kind not in (Kind.IDENT, Kind.TYPE):
        return False
    return token.starts_line or cursor.peek(2).text == "("
