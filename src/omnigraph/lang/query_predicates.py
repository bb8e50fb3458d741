"""Predicates of the query language: comparisons joined by `and`, `or`, `not` and parentheses."""

from dataclasses import replace

from omnigraph.lang.cursor import Cursor, described
from omnigraph.lang.expression_parser import expression
from omnigraph.lang.lexer import Kind, Token, shown
from omnigraph.lang.literals import BoolLiteral, Name
from omnigraph.lang.names import property_name
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
from omnigraph.lang.spelling import closest
from omnigraph.lang.words import OPERATORS_ELSEWHERE, RESERVED

MAX_TERMS = 1_000

_OPERATORS = {op.value: op for op in CompareOp}
_MISTAKEN_SIGNS = {"==": "=", "<>": "!=", "=>": ">="}
_CONNECTIVES = {"&&": "and", "||": "or", "!": "not", "&": "and", "|": "or"}
_NEVER_PROPERTIES = frozenset({"not", "true", "false", "null"})


class Predicates:
    """Parses the predicates of one query, whose terms it counts.

    With `names_properties`, as in a mutation, the left side of a comparison may be any word, reserved or not.
    """

    def __init__(self, cursor: Cursor, *, names_properties: bool) -> None:
        self._cursor = cursor
        self._names_properties = names_properties
        self._terms = 0

    def predicate(self) -> Predicate:
        """One predicate, as long as it goes on."""
        first = self._conjunction()
        terms = [first]
        while self._accepts_word("or"):
            terms.append(self._conjunction())
        if len(terms) == 1:
            return first
        return Or(terms=tuple(terms), span=first.span.to(terms[-1].span))

    def _conjunction(self) -> Predicate:
        first = self._negation()
        terms = [first]
        while self._accepts_word("and"):
            terms.append(self._negation())
        if len(terms) == 1:
            return first
        return And(terms=tuple(terms), span=first.span.to(terms[-1].span))

    def _negation(self) -> Predicate:
        start = self._cursor.peek()
        if self._is_property(start) or not self._accepts_word("not"):
            return self._primary()
        with self._cursor.nested():
            if self._cursor.at("{"):
                hint = "`not { … }` is a clause of its own; in a predicate, write `not (…)`"
                self._cursor.fail("a predicate", hint)
            if self._cursor.at_kind(Kind.IDENT, Kind.TYPE) and self._cursor.follows("{"):
                self._cursor.fail("a predicate", "a block that must not match is written `not { … }`")
            term = self._negation()
        return Not(term=term, span=start.span.to(term.span))

    def _primary(self) -> Predicate:
        cursor = self._cursor
        if cursor.at("("):
            opening = cursor.peek()
            with cursor.nested():
                cursor.advance()
                inner = self.predicate()
                closing = cursor.expect(")", f"its `(` stands in {cursor.place(opening.span)}")
            return replace(inner, span=opening.span.to(closing.span))
        return self._comparison()

    # --- joining words -------------------------------------------------------------------------------

    def _accepts_word(self, word: str) -> bool:
        """Step over `and`, `or` or `not`, or over what other languages write for it."""
        token = self._cursor.peek()
        if token.text == word:
            self._cursor.advance()
            return True
        if _CONNECTIVES.get(token.text) != word and not (token.kind is Kind.TYPE and token.text.lower() == word):
            return False
        self._cursor.report(token.span, f"unexpected `{token.text}`", f"write `{word}`")
        self._cursor.advance()
        return True

    def _is_property(self, token: Token) -> bool:
        """Whether the word at the cursor is a property's name although it may be reserved."""
        if not self._names_properties or token.kind is not Kind.IDENT or token.text in _NEVER_PROPERTIES:
            return False
        return not self._cursor.follows("(", ".")

    # --- comparisons ---------------------------------------------------------------------------------

    def _comparison(self) -> Predicate:
        cursor = self._cursor
        left = self._left()
        self._count(left.span)
        if cursor.at("is", "IS", "Is"):
            return self._is_null(left)
        operator = self._operator()
        if operator is None:
            return self._without_operator(left)
        op, op_span = operator
        right = expression(cursor)
        found = Compare(op=op, left=left, right=right, op_span=op_span, span=left.span.to(right.span))
        self._refuse_chain(found)
        return found

    def _left(self) -> Expr:
        token = self._cursor.peek()
        if self._is_property(token):
            self._cursor.advance()
            return BareName(name=Name(token.text, token.span), span=token.span)
        if self._names_properties and token.kind is Kind.TYPE and not self._cursor.follows("(", "."):
            name = property_name(self._cursor, "a property name")
            return BareName(name=name, span=name.span)
        return expression(self._cursor)

    def _count(self, span: Span) -> None:
        self._terms += 1
        if self._terms == MAX_TERMS + 1:
            hint = "split the query, or compare with a list: `$p.name in $names`"
            self._cursor.report_limit(span, f"a query's predicates have at most {MAX_TERMS:,} terms", hint)

    def _operator(self) -> tuple[CompareOp, Span] | None:
        """The comparison operator at the cursor, read; None when there is nothing like one."""
        cursor = self._cursor
        token = cursor.peek()
        if op := _OPERATORS.get(token.text):
            cursor.advance()
            return (op, token.span) if token.text != "=" else self._equals(token)
        meant = _MISTAKEN_SIGNS.get(token.text)
        if meant is None and token.kind in (Kind.IDENT, Kind.TYPE) and not token.starts_line:
            meant = _meant_operator(token.text)
        if meant is None:
            return None
        cursor.report(token.span, f"unknown operator `{token.text}`", f"write `{meant}`")
        cursor.advance()
        return _OPERATORS[meant], token.span

    def _equals(self, token: Token) -> tuple[CompareOp, Span]:
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

    def _is_null(self, left: Expr) -> Predicate:
        cursor = self._cursor
        word = cursor.advance()
        negated = cursor.accept("not", "NOT", "Not") is not None
        token = cursor.peek()
        if token.text.lower() != "null":
            sign = "!=" if negated else "="
            hint = f"`is` and `is not` stand before `null`; compare values with `{sign}`"
            cursor.refuse(token.span, f"expected `null`, found {described(token)}", hint)
        cursor.advance()
        span = word.span.to(token.span)
        written, right = cursor.source.slice(span), "is not null" if negated else "is null"
        if written != written.lower():
            cursor.report(span, f"unexpected `{shown(written)}`", f"write `{right}`")
        return IsNull(operand=left, negated=negated, span=left.span.to(token.span))

    def _without_operator(self, left: Expr) -> Predicate:
        cursor = self._cursor
        if isinstance(left, Call):
            return CallPredicate(call=left, span=left.span)
        token = cursor.peek()
        text = shown(cursor.source.slice(left.span))
        if token.text in ("not", "NOT") and cursor.peek(1).text.lower() in ("in", "contains", "starts_with"):
            return self._late_not(left, text)
        if token.text in ("+", "-", "*", "/", "%"):
            hint = "queries have no arithmetic; compute the value before and pass it as a parameter"
            cursor.fail("a comparison", hint)
        if _is_word_operator(token) and not cursor.follows("("):
            cursor.refuse(token.span, f"unknown operator `{shown(token.text)}`", _operator_hint(token.text, text))
        message = f"expected a comparison behind `{text}`"
        if not isinstance(left, PropertyRef | Variable | BareName):
            cursor.refuse(left.span.after, message, "a predicate compares, as in `$p.age > 3`")
        cursor.missing(message, f"a predicate compares: write `{text} = true`")
        true = LiteralExpr(value=BoolLiteral(True, left.span), span=left.span)
        return Compare(op=CompareOp.EQ, left=left, right=true, op_span=left.span.after, span=left.span)

    def _late_not(self, left: Expr, text: str) -> Predicate:
        """`$p.age not in [1]`, as SQL writes it."""
        cursor = self._cursor
        word = cursor.advance()
        operator = cursor.peek()
        hint = f"`not` stands before the comparison: `not {text} {operator.text.lower()} …`"
        cursor.report(word.span.to(operator.span), f"unexpected `{word.text} {operator.text}`", hint)
        cursor.advance()
        right = expression(cursor)
        op, span = _OPERATORS[operator.text.lower()], left.span.to(right.span)
        return Not(term=Compare(op=op, left=left, right=right, op_span=operator.span, span=span), span=span)

    def _refuse_chain(self, found: Compare) -> None:
        """Report `1 < $a < 3` once, and step over the rest of the chain."""
        cursor = self._cursor
        is_reported = False
        while cursor.peek().text in ("=", "!=", "<", "<=", ">", ">=", "==", "<>"):
            sign = cursor.peek()
            if not is_reported:
                middle = shown(cursor.source.slice(found.right.span))
                first = shown(cursor.source.slice(found.span))
                hint = f"join two comparisons with `and`: `{first} and {middle} {sign.text} …`"
                cursor.report(sign.span, "comparisons can't be chained", hint)
            is_reported = True
            cursor.advance()
            expression(cursor)


def _is_word_operator(token: Token) -> bool:
    """Whether a word stands where an operator should, and can't be the start of something else."""
    return token.kind in (Kind.IDENT, Kind.TYPE) and not token.starts_line and token.text not in RESERVED


def _operator_hint(word: str, left: str) -> str:
    if word.lower() == "between":
        return f"write `{left} >= … and {left} <= …`"
    return "the operators are = != < <= > >= contains starts_with in, and `is null`"


def _meant_operator(word: str) -> str | None:
    folded = word.lower()
    if folded in _OPERATORS:
        return folded
    return OPERATORS_ELSEWHERE.get(folded) or closest(word, ("contains", "starts_with"))
