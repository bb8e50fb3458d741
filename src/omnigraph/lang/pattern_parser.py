"""The clauses of a `match` block: bindings, traversals, predicates, `not` blocks."""

from omnigraph.lang.cursor import Cursor, GaveUpError
from omnigraph.lang.expression_parser import assignments, mended_variable, variable
from omnigraph.lang.lexer import Kind, Token, shown
from omnigraph.lang.literal_parser import whole_number
from omnigraph.lang.literals import Name
from omnigraph.lang.names import type_name
from omnigraph.lang.query_ast import Assignment, Binding, Clause, HopBounds, NotBlock, Traversal, Variable, Where
from omnigraph.lang.query_predicates import Predicates
from omnigraph.lang.spelling import closest
from omnigraph.lang.words import OPERATORS_ELSEWHERE, RESERVED

_BOUNDS = "the bounds of a hop are written `{1,3}`"
_BEHIND_A_NAME = (":", "(", ".", "=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in", "is")
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
            cursor.report(
                opening.span.to(cursor.previous), f"{what} is empty", "it needs at least one clause: `$p: Person`"
            )
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
        if token.text in ("where", "WHERE", "filter") and not cursor.follows(*_BEHIND_A_NAME):
            hint = "in a match block a predicate stands alone: delete the word"
            cursor.report(token.span, f"unexpected `{token.text}` in a match block", hint)
            cursor.advance()
            token = cursor.peek()
        if cursor.follows("{") and token.kind in (Kind.IDENT, Kind.TYPE):
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
        start = cursor.peek()
        if start.text != "not":
            if not closest(start.text, ("not",)):
                hint = "a match block holds bindings, traversals, predicates and `not { … }` blocks"
                cursor.refuse(start.span, f"unexpected `{shown(start.text)} {{`", hint)
            cursor.report(start.span, f"unexpected `{start.text} {{`", "did you mean `not`?")
        cursor.advance()
        with cursor.nested():
            clauses = self.block(cursor.advance(), "the `not` block")
        return NotBlock(clauses=clauses, span=start.span.to(cursor.previous))

    # --- what starts with a variable -----------------------------------------------------------------

    def _from_variable(self, token: Token) -> Clause:
        if self._is_binding_without_colon():
            return self._binding(variable(self._cursor, "a variable"))
        if self._is_traversal(1):
            return self._traversal(variable(self._cursor, "a variable"))
        if self._cursor.follows(":"):
            return self._binding(variable(self._cursor, "a variable"))
        if (
            self._cursor.follows("<")
            and self._cursor.peek(2).kind is Kind.VARIABLE
            and self._cursor.peek(3).text == ":"
        ):
            name, edge = shown(self._cursor.peek(2).text), shown(self._cursor.peek(4).text)
            hint = f"an edge variable stands before the `<`: `{shown(token.text)} {name}:<{edge}> $other`"
            self._cursor.refuse(self._cursor.peek(2).span, "unexpected edge variable in `<…>`", hint)
        if self._cursor.follows("->", "--", "-") and not self._cursor.peek(1).starts_line:
            hint = (
                f"a traversal is written `{shown(token.text)} knows $other`, with the edge's name between the variables"
            )
            self._cursor.refuse(self._cursor.peek(1).span, f"unexpected `{self._cursor.peek(1).text}`", hint)
        return self._where()

    def _is_binding_without_colon(self) -> bool:
        """`$p Person`, where no hop can be meant: no variable follows, or one that starts a clause of its own."""
        cursor = self._cursor
        if cursor.peek(1).kind is not Kind.TYPE or cursor.peek(1).text.lower() in _OPERATOR_WORDS:
            return False
        behind = cursor.peek(2)
        if behind.text == "{":
            return cursor.peek(3).kind is not Kind.INT
        return behind.kind is not Kind.VARIABLE or cursor.peek(3).text in (":", ".", "=")

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
            return self._cursor.peek(ahead + 1).text == ":" and (not token.starts_line or self._is_edge(ahead + 2))
        if token.text == "<":
            return self._is_undirected(ahead + 1)
        behind = self._cursor.peek(ahead + 1)
        if token.kind is Kind.TYPE and behind.kind is Kind.VARIABLE:
            return True
        if token.kind not in (Kind.IDENT, Kind.TYPE) or token.text.lower() in _OPERATOR_WORDS:
            return False
        if token.text in RESERVED or token.text.lower() in OPERATORS_ELSEWHERE or token.starts_line:
            return behind.kind is Kind.VARIABLE or behind.text == "{"
        return True

    def _is_edge(self, ahead: int) -> bool:
        """Whether an edge, and not the type of a binding, follows a variable and `:` on a new line."""
        edge, behind = self._cursor.peek(ahead), self._cursor.peek(ahead + 1)
        if edge.kind is not Kind.TYPE:
            return edge.kind in (Kind.IDENT, Kind.STRING) or edge.text == "<"
        further = self._cursor.peek(ahead + 2)
        if behind.kind is Kind.VARIABLE:
            return further.text != ":"
        return behind.text == "{" and further.kind is Kind.INT

    def _is_undirected(self, ahead: int) -> bool:
        """Whether what follows a `<` makes it a hop: an edge and `>`, or a variable that could start nothing else."""
        cursor = self._cursor
        if cursor.peek(ahead).kind not in (Kind.IDENT, Kind.TYPE, Kind.STRING):
            return False
        behind, last = cursor.peek(ahead + 1), cursor.peek(ahead + 2)
        if behind.kind is Kind.VARIABLE and not behind.starts_line:
            return last.starts_line or last.text in ("}", ";", ",")
        return behind.text == ">"

    def _binding(self, start: Variable) -> Binding:
        cursor = self._cursor
        if not cursor.accept(":"):
            name = shown(start.name)
            cursor.missing(
                f"missing `:` behind `${name}`", f"a binding is written `${name}: {shown(cursor.peek().text)}`"
            )
        type_ = type_name(cursor, "a node type", unknown="T1")
        filters: tuple[Assignment, ...] = ()
        if cursor.at("{"):
            filters = assignments(cursor, cursor.advance(), f"the filter of `${shown(start.name)}`", needs_commas=True)
        return Binding(variable=start, type=type_, filters=filters, span=start.span.to(cursor.previous))

    def _traversal(self, source: Variable) -> Traversal:
        cursor = self._cursor
        edge_variable: Variable | None = None
        if cursor.at_kind(Kind.VARIABLE):
            edge_variable = variable(cursor, "an edge variable")
            cursor.expect(":")
        is_undirected = cursor.accept("<") is not None
        edge, is_text = self._edge()
        if is_undirected and not cursor.accept(">"):
            cursor.missing("missing `>`", f"an undirected hop is written `<{shown(edge.text)}>`")
        bounds = self._bounds() if cursor.at("{", "*") else None
        if cursor.peek().starts_line and cursor.follows(":", ".", "="):
            hint = f"a traversal is written `${shown(source.name)} {shown(edge.text)} $other`"
            cursor.missing("missing the variable that the hop leads to", hint)
        target = variable(cursor, "the variable that the hop leads to")
        self._refuse_second_hop(target)
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

    def _refuse_second_hop(self, target: Variable) -> None:
        token = self._cursor.peek()
        is_name = token.kind in (Kind.IDENT, Kind.TYPE) and token.text not in RESERVED and not token.starts_line
        if is_name and self._cursor.peek(1).kind is Kind.VARIABLE:
            edge, end = shown(token.text), shown(self._cursor.peek(1).text)
            hint = f"a clause has one hop; the next is one of its own: `${shown(target.name)} {edge} {end}`"
            self._cursor.refuse(token.span, f"unexpected `{edge}` behind a hop", hint)

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
            hint = f'write the edge as a string: `"{token.text}"`'
            cursor.report(token.span, f"`{token.text}` is a reserved word", hint)
        return Name(token.text, token.span), False

    def _bounds(self) -> HopBounds:
        cursor = self._cursor
        opening = cursor.advance()
        if opening.text == "*":
            cursor.refuse(opening.span, "unexpected `*` behind an edge", _BOUNDS)
        try:
            return self._bounds_in(opening)
        except GaveUpError:
            # Out of the braces first: whoever goes on from here counts them.
            cursor.skip_to(lambda: cursor.at("}") or cursor.peek().starts_line)
            cursor.accept("}")
            raise

    def _bounds_in(self, opening: Token) -> HopBounds:
        cursor = self._cursor
        low = whole_number(cursor, "the least number of hops", _BOUNDS)
        if closing := cursor.accept("}"):
            span = opening.span.to(closing.span)
            hint = f"write both bounds: `{{{low.value},{low.value}}}` or `{{1,{low.value}}}`"
            cursor.report(span, "expected two bounds, found one", hint)
            return HopBounds(low=low.value, high=low.value, span=span)
        if dots := cursor.accept("..", "-"):
            cursor.report(dots.span, f"expected `,`, found `{dots.text}`", _BOUNDS)
        else:
            cursor.expect(",", _BOUNDS)
        if cursor.at("}"):
            cursor.fail("the largest number of hops", f"{_BOUNDS}; a hop can't be unbounded")
        high = whole_number(cursor, "the largest number of hops", f"{_BOUNDS}, with whole numbers")
        span = opening.span.to(cursor.expect("}").span)
        return HopBounds(low=low.value, high=high.value, span=span)


def at_block_end(cursor: Cursor) -> bool:
    """Whether something stands at the cursor that only follows a closed block: the block's `}` was forgotten."""
    token = cursor.peek()
    if token.text in ("return", "order"):
        return cursor.follows("{", "distinct", "by") or (token.starts_line and not cursor.follows(":", "="))
    if token.text in ("limit", "offset"):
        return cursor.peek(1).kind in (Kind.INT, Kind.VARIABLE)
    return at_query(cursor)


def at_query(cursor: Cursor) -> bool:
    """Whether a query starts at the cursor; `query` is no reserved word, so what follows decides."""
    token = cursor.peek()
    name, behind = cursor.peek(1), cursor.peek(2)
    if token.text != "query" or name.kind not in (Kind.IDENT, Kind.TYPE):
        return False
    # In a block, `query` may be an alias, and what follows it another or a call: no guess may refuse those.
    first, second = cursor.peek(3), cursor.peek(4)
    if behind.text != "(":
        return behind.text == "{" or (behind.text == "@" and first.text in ("description", "instruction"))
    if first.text == ")":
        return second.text in ("{", "@")
    if second.text == ":":
        return True
    return first.text not in RESERVED and Kind.SIGN not in (first.kind, second.kind) and second.kind is not Kind.END
