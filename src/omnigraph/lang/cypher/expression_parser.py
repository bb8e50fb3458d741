"""AtomContext of Cypher, from the loosest operator to the tightest; atoms are parsed in `atom_parser`."""

from collections.abc import Callable
from typing import Final, TypeAlias

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.cypher import tree
from omnigraph.lang.cypher.atom_parser import parse_atom
from omnigraph.lang.cypher.cursor import accept_words, parse_symbol
from omnigraph.lang.cypher.pattern_parser import CypherPatterns
from omnigraph.lang.cypher.tree import BinaryOp, CompareOp, Expr, UnaryOp
from omnigraph.lang.lexer import TokenKind

# The operators of one level in a row: each is a node around the one before, and all that walks the tree recurses.
MAX_CHAIN_OPERATORS = 100

_COMPARE: Final = {op.value: op for op in CompareOp}
# How tightly operators bind; `NOT` is between `AND` and comparisons, signs are tighter than all.
_NOT_LEVEL, _COMPARE_LEVEL, _PREDICATE_LEVEL = 4, 5, 6
_BINARY: Final = {
    "OR": (1, BinaryOp.OR),
    "XOR": (2, BinaryOp.XOR),
    "AND": (3, BinaryOp.AND),
    "+": (7, BinaryOp.ADD),
    "-": (7, BinaryOp.SUBTRACT),
    "||": (7, BinaryOp.CONCAT),
    "*": (8, BinaryOp.MULTIPLY),
    "/": (8, BinaryOp.DIVIDE),
    "%": (8, BinaryOp.MODULO),
    "^": (9, BinaryOp.POWER),
}

ParseStatement: TypeAlias = Callable[[], tree.Statement]


class CypherExpressions:
    """Parses expressions; patterns in them by `patterns`, and subqueries by `parse_statement`."""

    def __init__(self, cursor: Cursor, parse_statement: ParseStatement) -> None:
        self.cursor = cursor
        self.parse_statement = parse_statement
        self.patterns = CypherPatterns(cursor, self.parse)

    def parse(self) -> Expr:
        """Parse one expression."""
        with self.cursor.nest():
            return self._parse_level(1)

    def _parse_level(self, level: int) -> Expr:
        """Parse operators that bind at least as tightly as this level, by precedence climbing."""
        left = self._parse_not() if self.cursor.is_at("NOT", "!") and level <= _NOT_LEVEL else self._parse_sign()
        count = 0
        while (longer := self._parse_operator(left, level)) is not None:
            count += 1
            if count > MAX_CHAIN_OPERATORS:
                message = f"more than {MAX_CHAIN_OPERATORS} operators in a row"
                self.cursor.refuse(self.cursor.previous, message, "use parentheses, or a list and `IN`", code="C001")
            left = longer
        return left

    def _parse_operator(self, left: Expr, level: int) -> Expr | None:
        """Parse an operator after its left operand, and what follows it; None if there is none of this level."""
        cursor = self.cursor
        if (found := _BINARY.get(cursor.peek().text)) is not None:
            own_level, op = found
            if own_level < level:
                return None
            token = cursor.advance()
            right = self._parse_level(own_level + 1)
            return tree.Binary(op=op, left=left, right=right, op_span=token.span, span=left.span.to(right.span))
        if level <= _PREDICATE_LEVEL and cursor.is_at("IS"):
            return self._parse_is_null(left)
        if level <= _PREDICATE_LEVEL and (binary := self._parse_predicate(left)) is not None:
            return binary
        return self._parse_comparison(left) if level <= _COMPARE_LEVEL else None

    def _parse_not(self) -> Expr:
        word = self.cursor.advance()
        if word.text == "!":
            self.cursor.refuse(word.span, "unexpected `!`", "a negation is written `NOT`")
        with self.cursor.nest():
            operand = self._parse_level(_NOT_LEVEL)
        return tree.Unary(op=UnaryOp.NOT, operand=operand, span=word.span.to(operand.span))

    def _parse_comparison(self, first: Expr) -> Expr | None:
        rest: list[tuple[CompareOp, Expr]] = []
        while op := self._accept_comparison():
            if len(rest) == MAX_CHAIN_OPERATORS:
                self.cursor.refuse(self.cursor.previous, "too many comparisons in a row", "use `AND`", code="C001")
            rest.append((op, self._parse_level(_PREDICATE_LEVEL)))
        if not rest:
            return None
        return tree.Comparison(first=first, rest=tuple(rest), span=first.span.to(rest[-1][1].span))

    def _accept_comparison(self) -> CompareOp | None:
        token = self.cursor.peek()
        if token.text in ("!=", "=="):
            fixed = "<>" if token.text == "!=" else "="
            self.cursor.report(token.span, f"unexpected `{token.text}`", f"write `{fixed}`")
            self.cursor.advance()
            return _COMPARE[fixed]
        op = _COMPARE.get(token.text) if token.kind is TokenKind.SIGN else None
        if op is not None:
            self.cursor.advance()
        return op

    def _parse_predicate(self, left: Expr) -> Expr | None:
        """Parse `IN`, `STARTS WITH` and the like with their right operand."""
        start = self.cursor.peek().span
        op = self._accept_predicate()
        if op is None:
            return None
        op_span = start.to(self.cursor.previous)
        right = self._parse_level(_PREDICATE_LEVEL + 1)
        return tree.Binary(op=op, left=left, right=right, op_span=op_span, span=left.span.to(right.span))

    def _accept_predicate(self) -> BinaryOp | None:
        cursor = self.cursor
        if cursor.accept("IN"):
            return BinaryOp.IN
        if cursor.accept("CONTAINS"):
            return BinaryOp.CONTAINS
        if cursor.accept("=~"):
            return BinaryOp.MATCHES
        if accept_words(cursor, "STARTS", "WITH"):
            return BinaryOp.STARTS_WITH
        if accept_words(cursor, "ENDS", "WITH"):
            return BinaryOp.ENDS_WITH
        return None

    def _parse_is_null(self, operand: Expr) -> Expr:
        cursor = self.cursor
        word = cursor.advance()
        negated = cursor.accept("NOT") is not None
        if cursor.accept("NULL") is None:
            if cursor.is_at("::", "TYPED"):
                hint = "values have static types here: a property has the type that the schema declares"
                cursor.refuse(word.span.to(cursor.peek().span), "type predicates are not supported", hint, code="C002")
            cursor.fail("`NULL`", "a value is compared with `=`, and `IS` is for `IS NULL` and `IS NOT NULL`")
        return tree.IsNull(operand=operand, negated=negated, span=operand.span.to(cursor.previous))

    def _parse_sign(self) -> Expr:
        token = self.cursor.peek()
        if token.text not in ("-", "+") or token.kind is not TokenKind.SIGN:
            return self._parse_postfix()
        self.cursor.advance()
        is_number = self.cursor.is_at_kind(TokenKind.INT, TokenKind.FLOAT)
        if is_number and token.text == "-":
            number = self.cursor.advance()
            value = number.value
            assert isinstance(value, int | float)  # noqa: S101 - the lexer gives numbers their values
            literal = tree.Literal(value=-value, span=token.span.to(number.span))
            self._check_range(literal)
            return self._parse_suffixes(literal)
        with self.cursor.nest():
            operand = self._parse_sign()
        return tree.Unary(op=UnaryOp(token.text), operand=operand, span=token.span.to(operand.span))

    def _parse_postfix(self) -> Expr:
        atom = parse_atom(self)
        if isinstance(atom, tree.Literal):
            self._check_range(atom)
        return self._parse_suffixes(atom)

    def _check_range(self, literal: tree.Literal) -> None:
        value = literal.value
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            hint = "whole numbers are from -9223372036854775808 to 9223372036854775807"
            self.cursor.report_limit(literal.span, f"the number {value} does not fit into 64 bits", hint)

    def _parse_suffixes(self, operand: Expr) -> Expr:
        """Parse `.key`, `[index]`, `[low..high]` and `:Label` after their operand."""
        cursor = self.cursor
        count = 0
        while True:
            count += 1
            if count > MAX_CHAIN_OPERATORS:
                cursor.refuse(cursor.peek().span, "too many accesses in a row", "name a part by `WITH`", code="C001")
            if cursor.is_at(".") and cursor.is_at_kind(TokenKind.SIGN):
                cursor.advance()
                key = parse_symbol(cursor, "a property key")
                operand = tree.Property(operand=operand, key=key, span=operand.span.to(key.span))
            elif cursor.is_at("["):
                operand = self._parse_access(operand)
            elif cursor.is_at(":") and cursor.peek(1).kind is TokenKind.IDENT:
                labels = self.patterns.parse_labels()
                operand = tree.HasLabels(operand=operand, labels=labels, span=operand.span.to(cursor.previous))
            else:
                return operand

    def _parse_access(self, operand: Expr) -> Expr:
        cursor = self.cursor
        cursor.expect("[")
        low = None if cursor.is_at("..") else self.parse()
        if not cursor.accept(".."):
            assert low is not None  # noqa: S101 - it was parsed, because no `..` comes first
            closing = cursor.expect("]", "an element is written `list[0]`, a part `list[0..3]`")
            return tree.Subscript(operand=operand, index=low, span=operand.span.to(closing.span))
        high = None if cursor.is_at("]") else self.parse()
        closing = cursor.expect("]", "a part of a list is written `list[0..3]`")
        return tree.Slice(operand=operand, low=low, high=high, span=operand.span.to(closing.span))
