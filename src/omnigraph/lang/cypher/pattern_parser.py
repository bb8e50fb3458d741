"""Patterns of Cypher: nodes, relationships, labels, lengths, named and shortest paths."""

from collections.abc import Callable
from typing import Final

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.cypher import tree
from omnigraph.lang.cypher.cursor import accept_variable, find_closing, is_at_variable, parse_symbol, parse_variable
from omnigraph.lang.cypher.tree import Direction, Expr, LabelExpr, PathKind
from omnigraph.lang.lexer import TokenKind
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span

SHORTEST_KINDS: Final = {kind.value.upper(): kind for kind in (PathKind.SHORTEST, PathKind.ALL_SHORTEST)}
# The relationships of one pattern: a chain is written by people, and all plans grow with it.
MAX_RELATIONSHIPS = 100
_QUANTIFIED_HELP = "a repeated relationship is written `-[:KNOWS*1..3]->`"


class CypherPatterns:
    """Parses patterns; expressions in them by `parse_expression`."""

    def __init__(self, cursor: Cursor, parse_expression: Callable[[], Expr]) -> None:
        self.cursor = cursor
        self.parse_expression = parse_expression

    def parse_path(self) -> tree.PathPattern:
        """Parse a pattern of a `MATCH`, which may have a name."""
        variable: Name | None = None
        start = self.cursor.peek().span
        if is_at_variable(self.cursor) and self.cursor.is_followed_by("="):
            variable = parse_variable(self.cursor)
            self.cursor.advance()
        return self.parse_unnamed(variable, start)

    def parse_unnamed(self, variable: Name | None, start: Span) -> tree.PathPattern:
        """Parse what follows the name of a pattern: nodes and relationships, or a call of `shortestPath`."""
        cursor = self.cursor
        kind = SHORTEST_KINDS.get(cursor.peek().text)
        if kind is not None and cursor.is_followed_by("("):
            cursor.advance()
            cursor.advance()
            nodes, relationships = self._parse_chain()
            cursor.expect(")", f"the pattern of `{kind.value}` stands in parentheses")
            if len(relationships) != 1:
                hint = "`shortestPath((a)-[:KNOWS*]->(b))` has two nodes and one relationship"
                cursor.report(start.to(cursor.previous), f"`{kind.value}` needs one relationship", hint)
        else:
            self._refuse_selectors()
            kind = PathKind.ALL
            nodes, relationships = self._parse_chain()
        span = start.to(cursor.previous)
        return tree.PathPattern(variable=variable, kind=kind, nodes=nodes, relationships=relationships, span=span)

    def _refuse_selectors(self) -> None:
        token = self.cursor.peek()
        if token.text in ("SHORTEST", "ALL", "ANY") and not self.cursor.is_followed_by("="):
            hint = "write `p = shortestPath((a)-[:KNOWS*]->(b))` or `allShortestPaths(…)`"
            self.cursor.refuse(token.span, f"the path selector `{token.text}` is not supported", hint, code="C002")

    def _parse_chain(self) -> tuple[tuple[tree.NodePattern, ...], tuple[tree.RelationshipPattern, ...]]:
        cursor = self.cursor
        nodes = [self._parse_node()]
        relationships: list[tree.RelationshipPattern] = []
        while self._is_at_relationship():
            relationships.append(self._parse_relationship())
            nodes.append(self._parse_node())
            if len(relationships) > MAX_RELATIONSHIPS:
                message = f"more than {MAX_RELATIONSHIPS} relationships in one pattern"
                cursor.refuse(cursor.previous, message, "divide it into several `MATCH`", code="C001")
        return tuple(nodes), tuple(relationships)

    def _is_at_relationship(self) -> bool:
        return self.cursor.is_at("-") or (self.cursor.is_at("<") and self.cursor.is_followed_by("-"))

    # --- nodes ---------------------------------------------------------------------------------------

    def _parse_node(self) -> tree.NodePattern:
        cursor = self.cursor
        opening = cursor.peek()
        if cursor.is_at("(") and cursor.is_followed_by("("):
            cursor.refuse(opening.span, "quantified patterns are not supported", _QUANTIFIED_HELP, code="C002")
        cursor.expect("(", "a node is written `(p:Person)`")
        variable = accept_variable(cursor)
        labels = self.parse_labels() if cursor.is_at(":", "IS") else None
        properties = self._parse_properties()
        where = self.parse_expression() if cursor.accept("WHERE") else None
        closing = cursor.expect(")", "a node is written `(p:Person {name: 'Ann'})`")
        span = opening.span.to(closing.span)
        return tree.NodePattern(variable=variable, labels=labels, properties=properties, where=where, span=span)

    def _parse_properties(self) -> tree.MapLiteral | tree.Parameter | None:
        cursor = self.cursor
        if cursor.is_at("{"):
            return self.parse_map()
        if cursor.is_at_kind(TokenKind.VARIABLE):
            token = cursor.advance()
            return tree.Parameter(name=str(token.value), span=token.span)
        return None

    def parse_map(self) -> tree.MapLiteral:
        """Parse `{key: value, …}`."""
        cursor = self.cursor
        opening = cursor.expect("{")
        entries: list[tuple[Name, Expr]] = []
        while not cursor.is_at("}"):
            key = parse_symbol(cursor, "a key")
            cursor.expect(":", "the entries of a map are written `{key: value}`")
            entries.append((key, self.parse_expression()))
            if not cursor.accept(","):
                break
        closing = cursor.expect("}", "the entries of a map are written `{key: value, other: value}`")
        return tree.MapLiteral(entries=tuple(entries), span=opening.span.to(closing.span))

    # --- labels --------------------------------------------------------------------------------------

    def parse_labels(self) -> LabelExpr:
        """Parse `:A`, `:A|B`, `:A:B`, `:A&!B`, `:%` and `IS A`, with their colon."""
        cursor = self.cursor
        if not cursor.accept("IS"):
            cursor.expect(":")
        terms = [self._parse_label_or()]
        while cursor.is_at(":") and cursor.peek(1).kind is TokenKind.IDENT:
            cursor.advance()
            terms.append(self._parse_label_or())
        return terms[0] if len(terms) == 1 else tree.LabelAnd(terms=tuple(terms))

    def _parse_label_or(self) -> LabelExpr:
        cursor = self.cursor
        terms = [self._parse_label_and()]
        while cursor.accept("|"):
            # The old form `:A|:B` means the same.
            cursor.accept(":")
            terms.append(self._parse_label_and())
        return terms[0] if len(terms) == 1 else tree.LabelOr(terms=tuple(terms))

    def _parse_label_and(self) -> LabelExpr:
        terms = [self._parse_label_not()]
        while self.cursor.accept("&"):
            terms.append(self._parse_label_not())
        return terms[0] if len(terms) == 1 else tree.LabelAnd(terms=tuple(terms))

    def _parse_label_not(self) -> LabelExpr:
        cursor = self.cursor
        if cursor.accept("!"):
            with cursor.nest():
                return tree.LabelNot(term=self._parse_label_not())
        if sign := cursor.accept("%"):
            return tree.AnyLabel(span=sign.span)
        if cursor.accept("("):
            with cursor.nest():
                inner = self._parse_label_or()
            cursor.expect(")")
            return inner
        if cursor.is_at("$") or cursor.is_at_kind(TokenKind.VARIABLE):
            hint = "labels are written in the text, so that their types are known"
            cursor.refuse(cursor.peek().span, "labels from parameters are not supported", hint, code="C002")
        return tree.LabelName(name=parse_symbol(cursor, "a label or type"))

    # --- relationships -------------------------------------------------------------------------------

    def _parse_relationship(self) -> tree.RelationshipPattern:
        cursor = self.cursor
        start = cursor.peek().span
        is_left = cursor.accept("<") is not None
        cursor.expect("-")
        variable: Name | None = None
        types: LabelExpr | None = None
        length: tree.Length | None = None
        properties: tree.MapLiteral | tree.Parameter | None = None
        where: Expr | None = None
        if cursor.accept("["):
            variable = accept_variable(cursor)
            types = self.parse_labels() if cursor.is_at(":", "IS") else None
            length = self._parse_length()
            properties = self._parse_properties()
            where = self.parse_expression() if cursor.accept("WHERE") else None
            cursor.expect("]", "a relationship is written `-[k:KNOWS]->`, several `-[:KNOWS*1..3]->`")
        cursor.expect("-", "a relationship is written `-[:KNOWS]->`, `<-[:KNOWS]-` or `-[:KNOWS]-`")
        is_right = cursor.accept(">") is not None
        if cursor.is_at("+", "*", "{"):
            cursor.refuse(
                cursor.peek().span, "quantified relationships are not supported", _QUANTIFIED_HELP, code="C002"
            )
        # Both arrows mean the same as none.
        direction = Direction.IN if is_left else Direction.OUT
        direction = Direction.BOTH if is_left == is_right else direction
        return tree.RelationshipPattern(
            variable=variable,
            types=types,
            properties=properties,
            direction=direction,
            length=length,
            where=where,
            span=start.to(cursor.previous),
        )

    def _parse_length(self) -> tree.Length | None:
        cursor = self.cursor
        star = cursor.accept("*")
        if star is None:
            return None
        low = self._accept_bound()
        high = low
        if cursor.accept(".."):
            high = self._accept_bound()
        span = star.span.to(cursor.previous)
        return tree.Length(low=low, high=high, span=span)

    def _accept_bound(self) -> int | None:
        if self.cursor.is_at_kind(TokenKind.VARIABLE):
            hint = "the bounds of a length are written in the text: `*1..3`"
            self.cursor.refuse(self.cursor.peek().span, "a length can't be a parameter", hint, code="C002")
        if not self.cursor.is_at_kind(TokenKind.INT):
            return None
        value = self.cursor.advance().value
        return value if isinstance(value, int) else None


def is_at_pattern(cursor: Cursor) -> bool:
    """Return whether a pattern of at least one relationship starts at the cursor, and no value in parentheses."""
    if not cursor.is_at("(") or not cursor.is_at_kind(TokenKind.SIGN):
        return False
    inside = 2 if is_at_variable(cursor, 1) else 1
    if cursor.peek(inside).text not in (")", ":", "{", "WHERE", "IS") and not (
        inside == 2 and cursor.peek(2).kind is TokenKind.VARIABLE
    ):
        return False
    # `(a)-(b)` subtracts, `(a)--(b)` is a pattern, and `(a)<-b` compares with `-b`.
    closing = find_closing(cursor)
    if closing is None:
        return False
    first, second, third = (cursor.peek(closing + ahead).text for ahead in (1, 2, 3))
    if first == "<":
        return second == "-" and (third == "[" or (third == "-" and cursor.peek(closing + 4).text in ("(", ">")))
    return first == "-" and (second == "[" or (second == "-" and third in ("(", ">")))
