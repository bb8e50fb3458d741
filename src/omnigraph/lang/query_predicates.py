"""Predicates of the query language: comparisons joined by `and`, `or`, `not` and parentheses."""

from dataclasses import replace

from omnigraph.lang.cursor import Cursor, describe_token
from omnigraph.lang.expression_parser import parse_expression
from omnigraph.lang.lexer import Token, TokenKind, abbreviate
from omnigraph.lang.literals import BoolLiteral, Name
from omnigraph.lang.names import parse_property_name
from omnigraph.lang.query_ast import (
    And,
    BareName,
    Call,
    CallPredicate,
    Compare,
    CompareOp,
    Expr,
    IsNull,
    LiteralExpr,
    Not,
    Or,
    Predicate,
    PropertyRef,
    Variable,
)
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.words import OPERATOR_SYNONYMS, RESERVED_WORDS

MAX_PREDICATE_TERMS = 1_000

_OPERATORS = {op.value: op for op in CompareOp}
_MISTAKEN_SIGNS = {"==": "=", "<>": "!=", "=>": ">="}
_CONNECTIVES = {"&&": "and", "||": "or", "!": "not", "&": "and", "|": "or"}
_NEVER_PROPERTIES = frozenset({"not", "true", "false", "null"})


class PredicateParser:
    """Parses the predicates of one query, whose terms it counts.

    With `names_properties`, as in a mutation, the left side of a comparison may be any word, reserved or not.
    """

    def __init__(self, cursor: Cursor, *, names_properties: bool) -> None:
        self._cursor = cursor
        self._names_properties = names_properties
        self._terms = 0

    def parse(self) -> Predicate:
        """One predicate, as long as it goes on."""
        first = self._parse_conjunction()
        terms = [first]
        while self._accept_word("or"):
            terms.append(self._parse_conjunction())
        if len(terms) == 1:
            return first
        return Or(terms=tuple(terms), span=first.span.to(terms[-1].span))

    def _parse_conjunction(self) -> Predicate:
        first = self._parse_negation()
        terms = [first]
        while self._accept_word("and"):
            terms.append(self._parse_negation())
        if len(terms) == 1:
            return first
        return And(terms=tuple(terms), span=first.span.to(terms[-1].span))

    def _parse_negation(self) -> Predicate:
        start = self._cursor.peek()
        if self._is_property(start) or not self._accept_word("not"):
            return self._parse_primary()
        with self._cursor.nest():
            if self._cursor.is_at("{"):
                hint = "`not { … }` is a clause of its own; in a predicate, write `not (…)`"
                self._cursor.fail("a predicate", hint)
            if self._cursor.is_at_kind(TokenKind.IDENT, TokenKind.TYPE) and self._cursor.is_followed_by("{"):
                self._cursor.fail("a predicate", "a block that must not match is written `not { … }`")
            term = self._parse_negation()
        return Not(term=term, span=start.span.to(term.span))

    def _parse_primary(self) -> Predicate:
        cursor = self._cursor
        if cursor.is_at("("):
            opening = cursor.peek()
            with cursor.nest():
                cursor.advance()
                inner = self.parse()
                closing = cursor.expect(")", f"its `(` stands in {cursor.format_position(opening.span)}")
            return replace(inner, span=opening.span.to(closing.span))
        return self._parse_comparison()

    # --- joining words -------------------------------------------------------------------------------

    def _accept_word(self, word: str) -> bool:
        """Step over `and`, `or` or `not`, or over what other languages write for it."""
        token = self._cursor.peek()
        if token.text == word:
            self._cursor.advance()
            return True
        if _CONNECTIVES.get(token.text) != word and not (token.kind is TokenKind.TYPE and token.text.lower() == word):
            return False
        self._cursor.report(token.span, f"unexpected `{token.text}`", f"write `{word}`")
        self._cursor.advance()
        return True

    def _is_property(self, token: Token) -> bool:
        """Whether the word at the cursor is a property's name although it may be reserved."""
        if not self._names_properties or token.kind is not TokenKind.IDENT or token.text in _NEVER_PROPERTIES:
            return False
        return not self._cursor.is_followed_by("(", ".")

    # --- comparisons ---------------------------------------------------------------------------------

    def _parse_comparison(self) -> Predicate:
        cursor = self._cursor
        left = self._parse_left()
        self._count_term(left.span)
        if cursor.is_at("is", "IS", "Is"):
            return self._parse_is_null(left)
        operator = self._parse_operator()
        if operator is None:
            return self._parse_without_operator(left)
        op, op_span = operator
        right = parse_expression(cursor)
        found = Compare(op=op, left=left, right=right, op_span=op_span, span=left.span.to(right.span))
        self._refuse_chain(found)
        return found

    def _parse_left(self) -> Expr:
        token = self._cursor.peek()
        if self._is_property(token):
            self._cursor.advance()
            return BareName(name=Name(token.text, token.span), span=token.span)
        if self._names_properties and token.kind is TokenKind.TYPE and not self._cursor.is_followed_by("(", "."):
            name = parse_property_name(self._cursor, "a property name")
            return BareName(name=name, span=name.span)
        return parse_expression(self._cursor)

    def _count_term(self, span: Span) -> None:
        self._terms += 1
        if self._terms == MAX_PREDICATE_TERMS + 1:
            hint = "split the query, or compare with a list: `$p.name in $names`"
            self._cursor.report_limit(span, f"a query's predicates have at most {MAX_PREDICATE_TERMS:,} terms", hint)

    def _parse_operator(self) -> tuple[CompareOp, Span] | None:
        """The comparison operator at the cursor, read; None when there is nothing like one."""
        cursor = self._cursor
        token = cursor.peek()
        if op := _OPERATORS.get(token.text):
            cursor.advance()
            return (op, token.span) if token.text != "=" else self._parse_equals(token)
        meant = _MISTAKEN_SIGNS.get(token.text)
        if meant is None and token.kind in (TokenKind.IDENT, TokenKind.TYPE) and not token.starts_line:
            meant = _guess_operator(token.text)
        if meant is None:
            return None
        cursor.report(token.span, f"unknown operator `{token.text}`", f"write `{meant}`")
        cursor.advance()
        return _OPERATORS[meant], token.span

    def _parse_equals(self, token: Token) -> tuple[CompareOp, Span]:
        """`=`, with a look at what is glued behind it: `=<`, `=~`, `=!`."""
        cursor = self._cursor
        behind = cursor.peek()
        if cursor.is_glued() and behind.text in ("<", "~", "!"):
            meant = {"<": "<=", "~": "contains", "!": "!="}[behind.text]
            span = token.span.to(behind.span)
            cursor.report(span, f"unknown operator `={behind.text}`", f"write `{meant}`")
            cursor.advance()
            return _OPERATORS[meant], span
        return CompareOp.EQ, token.span

    def _parse_is_null(self, left: Expr) -> Predicate:
        cursor = self._cursor
        word = cursor.advance()
        negated = cursor.accept("not", "NOT", "Not") is not None
        token = cursor.peek()
        if token.text.lower() != "null":
            sign = "!=" if negated else "="
            hint = f"`is` and `is not` stand before `null`; compare values with `{sign}`"
            cursor.refuse(token.span, f"expected `null`, found {describe_token(token)}", hint)
        cursor.advance()
        span = word.span.to(token.span)
        written, right = cursor.source.slice(span), "is not null" if negated else "is null"
        if written != written.lower():
            cursor.report(span, f"unexpected `{abbreviate(written)}`", f"write `{right}`")
        return IsNull(operand=left, negated=negated, span=left.span.to(token.span))

    def _parse_without_operator(self, left: Expr) -> Predicate:
        cursor = self._cursor
        if isinstance(left, Call):
            return CallPredicate(call=left, span=left.span)
        token = cursor.peek()
        text = abbreviate(cursor.source.slice(left.span))
        if token.text in ("not", "NOT") and cursor.peek(1).text.lower() in ("in", "contains", "starts_with"):
            return self._parse_late_not(left, text)
        if token.text in ("+", "-", "*", "/", "%"):
            hint = "queries have no arithmetic; compute the value before and pass it as a parameter"
            cursor.fail("a comparison", hint)
        if _is_word_operator(token) and not cursor.is_followed_by("("):
            cursor.refuse(
                token.span, f"unknown operator `{abbreviate(token.text)}`", _build_operator_hint(token.text, text)
            )
        message = f"expected a comparison behind `{text}`"
        if not isinstance(left, PropertyRef | Variable | BareName):
            cursor.refuse(left.span.after, message, "a predicate compares, as in `$p.age > 3`")
        cursor.report_missing(message, f"a predicate compares: write `{text} = true`")
        true = LiteralExpr(value=BoolLiteral(True, left.span), span=left.span)
        return Compare(op=CompareOp.EQ, left=left, right=true, op_span=left.span.after, span=left.span)

    def _parse_late_not(self, left: Expr, text: str) -> Predicate:
        """`$p.age not in [1]`, as SQL writes it."""
        cursor = self._cursor
        word = cursor.advance()
        operator = cursor.peek()
        hint = f"`not` stands before the comparison: `not {text} {operator.text.lower()} …`"
        cursor.report(word.span.to(operator.span), f"unexpected `{word.text} {operator.text}`", hint)
        cursor.advance()
        right = parse_expression(cursor)
        op, span = _OPERATORS[operator.text.lower()], left.span.to(right.span)
        return Not(term=Compare(op=op, left=left, right=right, op_span=operator.span, span=span), span=span)

    def _refuse_chain(self, found: Compare) -> None:
        """Report `1 < $a < 3` once, and step over the rest of the chain."""
        cursor = self._cursor
        is_reported = False
        while cursor.peek().text in ("=", "!=", "<", "<=", ">", ">=", "==", "<>"):
            sign = cursor.peek()
            if not is_reported:
                middle = abbreviate(cursor.source.slice(found.right.span))
                first = abbreviate(cursor.source.slice(found.span))
                hint = f"join two comparisons with `and`: `{first} and {middle} {sign.text} …`"
                cursor.report(sign.span, "comparisons can't be chained", hint)
            is_reported = True
            cursor.advance()
            parse_expression(cursor)


def _is_word_operator(token: Token) -> bool:
    """Whether a word stands where an operator should, and can't be the start of something else."""
    return (
        token.kind in (TokenKind.IDENT, TokenKind.TYPE) and not token.starts_line and token.text not in RESERVED_WORDS
    )


def _build_operator_hint(word: str, left: str) -> str:
    if word.lower() == "between":
        return f"write `{left} >= … and {left} <= …`"
    return "the operators are = != < <= > >= contains starts_with in, and `is null`"


def _guess_operator(word: str) -> str | None:
    folded = word.lower()
    if folded in _OPERATORS:
        return folded
    return OPERATOR_SYNONYMS.get(folded) or find_closest(word, ("contains", "starts_with"))
