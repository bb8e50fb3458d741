"""Expressions of the query language, by precedence climbing.

Loosest first: `or`, `and`, `not`, comparisons, `+ -`, `* / %`, the sign, `[index]` and `.field`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from omnigraph.lang.cursor import Cursor, GaveUpError, describe_token, parse_property_name
from omnigraph.lang.foreign_words import (
    ALTERNATIVES_FORM,
    ARROW_HINT,
    CALL_HINTS,
    CASE_FORM,
    RANGE_FORM,
    SLICE_FORM,
    VALUE_ARROW_HINT,
    refuse_foreign_clause,
    refuse_method_call,
)
from omnigraph.lang.lexer import OPERATOR_SYNONYMS, RESERVED_WORDS, Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import is_at_literal, parse_literal
from omnigraph.lang.literals import BoolLiteral, Name
from omnigraph.lang.name_parser import parse_meta, parse_meta_name, parse_variable_or_property, recover_property_ref
from omnigraph.lang.query_ast import (
    AllProperties,
    And,
    Arithmetic,
    ArithmeticOp,
    Assignment,
    BareName,
    Block,
    BlockKind,
    Compare,
    CompareOp,
    Expr,
    Field,
    Index,
    IsNull,
    ListExpr,
    LiteralExpr,
    Negate,
    Not,
    Or,
    PropertyRef,
    Record,
    Variable,
)
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.value_parser import (
    ParseClauses,
    is_at_case,
    is_at_value_block,
    parse_absent_block,
    parse_call,
    parse_case,
    parse_list,
    parse_parenthesized,
    parse_record,
    parse_value_block,
)

# What may follow a condition in braces, in a call or in a statement; white space decides nothing.
_CONDITION_ENDS = frozenset({"}", ")", ";", "order", "limit", "returning", "insert", "update", "delete", "match"})
_STATEMENT_WORDS = ("where", "set", "match", "return", "insert", "update", "delete")


MAX_PREDICATE_TERMS = 1_000
# A chain such as `a + b + c` becomes a tree of this depth, and later stages descend into it by recursion.
MAX_CHAIN_OPERATORS = 100

_OPERATORS = {op.value: op for op in CompareOp}
_ARITHMETIC = {op.value: (op, int(op.value not in "+-")) for op in ArithmeticOp}
# Operators of other languages, and ours.
_MISTAKEN_SIGNS = {"==": "=", "<>": "!=", "=>": ">="}
_CONNECTIVES = {"&&": "and", "||": "or", "!": "not", "&": "and", "|": "or"}
_NEVER_PROPERTIES = frozenset({"not", "true", "false", "null"})


class ExpressionParser:
    """A parser of the expressions of one query, which counts the terms of its predicates.

    With `names_properties`, as in a mutation, the left side of a comparison may be any word, reserved or not. Blocks
    hold clauses, which `parse_clauses` parses; without it, as in a filter, there are no blocks.
    """

    def __init__(
        self, cursor: Cursor, *, names_properties: bool = False, parse_clauses: ParseClauses | None = None
    ) -> None:
        self.cursor = cursor
        self.parse_clauses = parse_clauses
        self._names_properties = names_properties
        self._terms = 0
        # Whether a value is expected to be compared, so that an unknown word after it is a wrong operator.
        self.is_condition = False
        self.case_depth = 0

    def parse_clause(self, first: Expr | None = None) -> Expr:
        """Parse a condition that is a clause of a pattern; its first term, a `not { … }`, may have been read.

        It compares, or calls a function: between clauses without separators, a value alone is a slip.
        """
        return _check_clause(self.cursor, self.parse_or(is_condition=True, first=first))

    def parse_condition(self) -> Expr:
        """Parse a condition that something ends, as in `where`, `having` and `along`: it may be a Bool alone."""
        condition = self.parse_or(is_condition=True)
        if _is_bool_alone(condition) and _is_at_condition_end(self.cursor):
            return condition
        return _check_clause(self.cursor, condition)

    def parse_value(self) -> Expr:
        """Parse an expression that is a column, an argument, a stored value or a sort key."""
        return self.parse_or(is_condition=False)

    @contextmanager
    def read_names_as(self, *, properties: bool) -> Iterator[None]:
        """Read bare words as properties, or not, for the duration of the block."""
        before = self._names_properties
        self._names_properties = properties
        try:
            yield
        finally:
            self._names_properties = before

    # --- and, or, not --------------------------------------------------------------------------------

    def parse_or(self, *, is_condition: bool, first: Expr | None = None) -> Expr:
        """Parse terms joined by `or`, the loosest level; a value is expected to be compared in a condition.

        The first operand may have been read already.
        """
        before = self.is_condition
        self.is_condition = is_condition
        try:
            first = self._parse_and(first)
            terms = [first]
            while _accept_word(self.cursor, "or"):
                terms.append(self._parse_and())
        finally:
            self.is_condition = before
        if len(terms) == 1:
            return first
        return Or(terms=tuple(terms), span=first.span.to(terms[-1].span))

    def _parse_and(self, first: Expr | None = None) -> Expr:
        first = first or self._parse_not()
        terms = [first]
        while _accept_word(self.cursor, "and"):
            terms.append(self._parse_not())
        if len(terms) == 1:
            return first
        return And(terms=tuple(terms), span=first.span.to(terms[-1].span))

    def _parse_not(self) -> Expr:
        start = self.cursor.peek()
        if self._is_property(start) or not _accept_word(self.cursor, "not"):
            return self._parse_comparison()
        with self.cursor.nest():
            if self.cursor.is_at("{"):
                block = parse_absent_block(self, start)
                return Not(term=block, span=start.span.to(block.span))
            refuse_foreign_clause(self.cursor)
            is_word = self.cursor.is_at_kind(TokenKind.IDENT, TokenKind.TYPE) and not _is_at_braces(self.cursor)
            if is_word and self.cursor.is_followed_by("{"):
                self.cursor.fail("a predicate", "a block that must not match is written `not { … }`")
            term = self._parse_not()
        return Not(term=term, span=start.span.to(term.span))

    def _is_property(self, token: Token) -> bool:
        """Return whether the word at the cursor is a property's name although it may be reserved."""
        if not self._names_properties or token.kind is not TokenKind.IDENT or token.text in _NEVER_PROPERTIES:
            return False
        return not self.cursor.is_followed_by("(", ".") and not _is_at_braces(self.cursor)

    # --- comparisons ---------------------------------------------------------------------------------

    def _parse_comparison(self) -> Expr:
        cursor = self.cursor
        left = self._climb(self._parse_left(), 0)
        if self.is_condition:
            self._count_term(left.span)
        if cursor.is_at("is", "IS", "Is"):
            return _parse_is_null(cursor, left)
        operator = self._parse_operator()
        if operator is None:
            return self._parse_without_operator(left)
        op, op_span = operator
        right = self.parse_sum()
        comparison = Compare(op=op, left=left, right=right, op_span=op_span, span=left.span.to(right.span))
        _refuse_chain(self, comparison)
        return comparison

    def _parse_left(self) -> Expr:
        token = self.cursor.peek()
        if self._is_property(token):
            self.cursor.advance()
            return self._parse_suffixes(BareName(name=Name(token.text, token.span), span=token.span))
        if self._names_properties and token.kind is TokenKind.TYPE and self.cursor.is_followed_by("."):
            hint = f"in a mutation a property is written without its type: `{abbreviate(self.cursor.peek(2).text)}`"
            self.cursor.refuse(token.span, f"unexpected type `{abbreviate(token.text)}`", hint)
        if self._names_properties and token.kind is TokenKind.TYPE and not self.cursor.is_followed_by("(", "."):
            name = parse_property_name(self.cursor, "a property name")
            return self._parse_suffixes(BareName(name=name, span=name.span))
        return self._parse_signed()

    def _count_term(self, span: Span) -> None:
        self._terms += 1
        # Reported once, at the first term above the limit.
        if self._terms == MAX_PREDICATE_TERMS + 1:
            hint = "split the query, or compare with a list: `$p.name in $names`"
            self.cursor.report_limit(span, f"a query's predicates have at most {MAX_PREDICATE_TERMS:,} terms", hint)

    def _parse_operator(self) -> tuple[CompareOp, Span] | None:
        """Parse the comparison operator at the cursor; None if there is nothing like one."""
        cursor = self.cursor
        token = cursor.peek()
        if op := _OPERATORS.get(token.text):
            cursor.advance()
            return _parse_equals(cursor, token) if token.text in ("=", "!=") else (op, token.span)
        meant = None if token.text == "=>" and self.case_depth else _MISTAKEN_SIGNS.get(token.text)
        if meant is None and token.kind in (TokenKind.IDENT, TokenKind.TYPE) and not token.starts_line:
            meant = _guess_operator(token.text) if self.is_condition else None
        if meant is None:
            return None
        hint = f"write `{meant}`"
        if token.text in ("==", "<>") and cursor.peek(1).text.lower() == "null":
            hint = "write `is null`" if meant == "=" else "write `is not null`"
        if token.text.lower() in ("like", "ilike"):
            hint += ", `starts_with` or `matches(text, expression)`; `lower(text)` for any case"
        cursor.advance()
        span = token.span
        if token.text == "==" and cursor.is_at("=") and cursor.is_glued():
            span = token.span.to(cursor.advance().span)
        cursor.report(span, f"unknown operator `{cursor.source.slice(span)}`", hint)
        return _OPERATORS[meant], span

    def _parse_without_operator(self, left: Expr) -> Expr:
        cursor = self.cursor
        token = cursor.peek()
        text = abbreviate(cursor.source.slice(left.span))
        if token.text in ("not", "NOT") and cursor.peek(1).text.lower() in ("in", "contains", "starts_with"):
            return _parse_late_not(self, left, text)
        if token.text in ("not", "NOT") and cursor.peek(1).text.lower() in _LATE_NOT_HINTS:
            operator = cursor.peek(1)
            hint = _LATE_NOT_HINTS[operator.text.lower()].format(text)
            cursor.refuse(token.span.to(operator.span), f"unexpected `{token.text} {operator.text}`", hint)
        if token.text == "~":
            cursor.refuse(token.span, "unknown operator `~`", f"write `matches({text}, expression)`")
        is_compared = isinstance(left, PropertyRef | Variable | BareName | LiteralExpr | Arithmetic)
        if self.is_condition and is_compared and _is_word_operator(token) and not cursor.is_followed_by("("):
            hint = _build_operator_hint(token.text, text)
            if isinstance(left, Variable) and cursor.peek(1).kind is TokenKind.VARIABLE:
                hop = f"{text} {abbreviate(token.text)} {cursor.peek(1).text}"
                hint = f"a hop is no condition: write `not {{ {hop} }}` or `exists {{ {hop} }}`"
            cursor.refuse(token.span, f"unknown operator `{abbreviate(token.text)}`", hint)
        return left

    # --- arithmetic ----------------------------------------------------------------------------------

    def parse_sum(self) -> Expr:
        """Parse an operand of a comparison."""
        return self._climb(self._parse_signed(), 0)

    def _climb(self, left: Expr, level: int) -> Expr:
        """Parse the arithmetic operators after `left` that bind at least as tightly as `level`."""
        cursor = self.cursor
        count = 0
        while (operator := _peek_arithmetic(self.cursor)) and operator[1] >= level:
            op, op_level = operator
            sign = cursor.advance()
            count += 1
            if count == MAX_CHAIN_OPERATORS + 1:
                cursor.report_limit(sign.span, f"more than {MAX_CHAIN_OPERATORS} operators in one chain", "split it")
            right = self._parse_signed()
            # A product after the right side takes it first.
            if (following := _peek_arithmetic(self.cursor)) and following[1] > op_level:
                right = self._climb(right, following[1])
            # Beyond the limit the tree stays as it is: the text is refused anyway.
            if count <= MAX_CHAIN_OPERATORS:
                span = left.span.to(right.span)
                left = Arithmetic(op=op, left=left, right=right, op_span=sign.span, span=span)
        return left

    def _parse_signed(self) -> Expr:
        cursor = self.cursor
        sign = cursor.peek()
        if sign.text != "-" or cursor.peek(1).kind in (TokenKind.INT, TokenKind.FLOAT):
            return self._parse_suffixes(self.parse_primary())
        cursor.advance()
        with cursor.nest():
            operand = self._parse_signed()
        return Negate(operand=operand, span=sign.span.to(operand.span))

    def _parse_suffixes(self, operand: Expr) -> Expr:
        cursor = self.cursor
        if isinstance(operand, PropertyRef):
            refuse_method_call(cursor, operand.name, operand.variable.span)
        count = 0
        while cursor.is_at("[") or _is_at_field(cursor):
            opening = cursor.advance()
            count += 1
            if count > MAX_CHAIN_OPERATORS:
                cursor.report_limit(opening.span, f"more than {MAX_CHAIN_OPERATORS} indexes in a row", "split it")
                raise GaveUpError
            if opening.text == ".":
                is_meta = cursor.is_at("@")
                name = parse_meta(cursor) if is_meta else parse_property_name(cursor, "the name of a field")
                refuse_method_call(cursor, name, operand.span)
                operand = Field(operand=operand, name=name, is_meta=is_meta, span=operand.span.to(name.span))
                continue
            with cursor.nest():
                index = self.parse_value()
                is_range = cursor.is_at(":", "..")
                hint = SLICE_FORM if is_range else f"its `[` is in {cursor.format_position(opening.span)}"
                closing = cursor.expect("]", hint)
            operand = Index(operand=operand, index=index, span=operand.span.to(closing.span))
        return operand

    # --- primaries -----------------------------------------------------------------------------------

    def parse_primary(self) -> Expr:
        """Parse what no operator joins: a variable, a literal, a list, a record, a call, a block, parentheses."""
        cursor = self.cursor
        token = cursor.peek()
        if token.kind is TokenKind.VARIABLE:
            return parse_variable_or_property(cursor)
        if token.kind in (TokenKind.IDENT, TokenKind.TYPE):
            return self._parse_from_word(token)
        if token.text == "(":
            return parse_parenthesized(self)
        if token.text == "[":
            return parse_list(self)
        if token.text == "{":
            return parse_record(self)
        if is_at_literal(cursor):
            value = parse_literal(cursor)
            return LiteralExpr(value=value, span=value.span)
        if token.text == "@":
            return parse_meta_name(cursor)
        return _refuse_token(cursor, token)

    def _parse_from_word(self, token: Token) -> Expr:
        cursor = self.cursor
        if is_at_literal(cursor):
            value = parse_literal(cursor)
            return LiteralExpr(value=value, span=value.span)
        if is_at_case(cursor):
            return parse_case(self)
        if is_at_value_block(cursor):
            return parse_value_block(self)
        return parse_call(self) if cursor.is_followed_by("(") else _parse_word(cursor, token)


def _is_bool_alone(condition: Expr) -> bool:
    """Return whether an expression that compares nothing may be a Bool; its type is checked when it is bound."""
    if isinstance(condition, LiteralExpr):
        return isinstance(condition.value, BoolLiteral)
    return isinstance(condition, PropertyRef | Variable | BareName | Field | Index)


def _is_at_condition_end(cursor: Cursor) -> bool:
    token = cursor.peek()
    return token.kind is TokenKind.END or token.text in _CONDITION_ENDS


def _check_clause(cursor: Cursor, condition: Expr) -> Expr:
    if isinstance(condition, Variable) and _is_hop_around(cursor, condition):
        cursor.refuse(condition.span, f"unexpected `${abbreviate(condition.name)}`", ARROW_HINT)
    if isinstance(condition, PropertyRef | Variable | BareName | Field):
        # `$p.active` alone is meant as `$p.active = true`, so the tree gets that.
        text = abbreviate(cursor.source.slice(condition.span))
        message = f"expected a comparison after `{text}`"
        hint = f"a predicate compares: write `{text} = true`"
        if isinstance(condition, Variable):
            hint += f"; a node has a type: `{text}: Person`"
        cursor.report_missing(message, hint)
        true = LiteralExpr(value=BoolLiteral(True, condition.span), span=condition.span)
        span = condition.span
        return Compare(op=CompareOp.EQ, left=condition, right=true, op_span=span.after, span=span)
    is_value = isinstance(condition, LiteralExpr | Arithmetic | Negate | Index | ListExpr | Record | AllProperties)
    if is_value or (isinstance(condition, Block) and condition.kind is not BlockKind.EXISTS):
        text = abbreviate(cursor.source.slice(condition.span))
        message = f"expected a comparison after `{text}`"
        is_arrow = isinstance(condition, Arithmetic) and cursor.peek().text in ("->", "-", "--")
        hint = ARROW_HINT if is_arrow else "a predicate compares, as in `$p.age > 3`"
        cursor.refuse(condition.span.after, message, hint)
    return condition


def _is_hop_around(cursor: Cursor, variable: Variable) -> bool:
    """Return whether a lone variable is an end of a hop in parentheses, `($p) knows ($q)`, or after an arrow."""
    is_word_next = cursor.peek().kind is TokenKind.IDENT and not cursor.peek().starts_line
    if cursor.source.slice(variable.span).startswith("("):
        return is_word_next
    start = variable.span.start
    return _ARROW_BEFORE.search(cursor.source.text, max(start - _MAX_ARROW, 0), start) is not None


_ARROW_BEFORE = re.compile(r"<\s*-\s*\w+\s*\Z")
# An arrow that far before a variable is not searched for.
_MAX_ARROW = 80
_LATE_NOT_HINTS = {
    "like": "write `not {0} contains …`, `not {0} starts_with …` or `not matches({0}, expression)`",
    "ilike": "write `not lower({0}) contains …` or `not matches({0}, expression)`",
    "between": "write `not ({0} >= … and {0} <= …)`",
}
_POWER_HINT = "a power is written `pow(base, exponent)`"


def _is_at_braces(cursor: Cursor) -> bool:
    """Return whether a `case` or a block with a value starts at the cursor."""
    return is_at_case(cursor) or is_at_value_block(cursor)


def _accept_word(cursor: Cursor, word: str) -> bool:
    """Accept `and`, `or` or `not`, or what other languages write instead."""
    token = cursor.peek()
    if token.text == word:
        cursor.advance()
        return True
    if _CONNECTIVES.get(token.text) != word and not (token.kind is TokenKind.TYPE and token.text.lower() == word):
        return False
    hint = "write `or`; texts are joined with `+`" if token.text == "||" else f"write `{word}`"
    cursor.report(token.span, f"unexpected `{token.text}`", hint)
    cursor.advance()
    return True


def _peek_arithmetic(cursor: Cursor) -> tuple[ArithmeticOp, int] | None:
    """Return the arithmetic operator at the cursor and its level; `^` of other languages is reported as one."""
    token = cursor.peek()
    if token.text == "^":
        if not cursor.is_explained:
            cursor.report(token.span, "unknown operator `^`", _POWER_HINT)
        return ArithmeticOp.MULTIPLY, 1
    return _ARITHMETIC.get(token.text)


def _is_at_field(cursor: Cursor) -> bool:
    """Return whether `.name` follows the operand directly: with a space before it, `.` starts something else."""
    is_named = cursor.peek(1).kind in (TokenKind.IDENT, TokenKind.TYPE) or cursor.peek(1).text == "@"
    return cursor.is_at(".") and cursor.is_glued() and is_named


def _parse_late_not(parser: ExpressionParser, left: Expr, text: str) -> Expr:
    """Report `$p.age not in [1]`, as SQL writes it, and parse it as `not $p.age in [1]`."""
    cursor = parser.cursor
    word = cursor.advance()
    operator = cursor.peek()
    hint = f"`not` stands before the comparison: `not {text} {operator.text.lower()} …`"
    cursor.report(word.span.to(operator.span), f"unexpected `{word.text} {operator.text}`", hint)
    cursor.advance()
    right = parser.parse_sum()
    op, span = _OPERATORS[operator.text.lower()], left.span.to(right.span)
    return Not(term=Compare(op=op, left=left, right=right, op_span=operator.span, span=span), span=span)


def _refuse_chain(parser: ExpressionParser, comparison: Compare) -> None:
    """Report `1 < $a < 3` once, and skip the rest of the chain."""
    cursor = parser.cursor
    is_reported = False
    while cursor.peek().text in ("=", "!=", "<", "<=", ">", ">=", "==", "<>"):
        sign = cursor.peek()
        if not is_reported:
            middle = abbreviate(cursor.source.slice(comparison.right.span))
            first = abbreviate(cursor.source.slice(comparison.span))
            hint = f"join two comparisons with `and`: `{first} and {middle} {sign.text} …`"
            cursor.report(sign.span, "comparisons can't be chained", hint)
        is_reported = True
        cursor.advance()
        parser.parse_sum()


def _refuse_token(cursor: Cursor, token: Token) -> NoReturn:
    if token.text in (")", "]"):
        closed = "(" if token.text == ")" else "["
        cursor.refuse(
            token.span, f"unexpected `{token.text}`", f"no `{closed}` is open here, or something is missing before it"
        )
    if token.text == "*" and cursor.source.slice(cursor.previous) == "*":
        cursor.fail("an expression", _POWER_HINT)
    if token.text == ":":
        is_cast = cursor.peek(1).text == ":" or cursor.source.slice(cursor.previous) == ":"
        cursor.fail(
            "an expression", CALL_HINTS["cast"] if is_cast else "a type stands in a clause of its own: `$p: Person`"
        )
    if token.text == "*":
        cursor.fail(
            "an expression", "`*` stands in `count(*)` and `$p.*`, all properties of `$p`; a whole node is `$p`"
        )
    if token.text == "->":
        cursor.fail("an expression", VALUE_ARROW_HINT)
    if token.text == "&&":
        cursor.fail("an expression", "conditions are joined with `and`; clauses need nothing between them")
    if token.text == "?" and (cursor.peek(1).text == "?" or cursor.source.slice(cursor.previous) == "?"):
        cursor.fail("an expression", "write `coalesce($p.age, 0)`")
    if token.text in ("?", ".."):
        cursor.fail("an expression", CASE_FORM if token.text == "?" else RANGE_FORM)
    cursor.fail("an expression", 'for example `$p.name`, `$p`, `"text"`, `3` or `count(*)`')


def _parse_word(cursor: Cursor, token: Token) -> Expr:
    if cursor.is_followed_by(".") and cursor.is_glued(1):
        return recover_property_ref(cursor)
    if token.text in RESERVED_WORDS:
        hint = f"`{token.text}` is a reserved word"
        if token.text in ("asc", "desc"):
            hint = f"it follows its key: `order {{ $p.name {token.text} }}`"
        if token.text in ("and", "or"):
            hint = f"`{token.text}` stands between two conditions; {ALTERNATIVES_FORM}"
        cursor.fail("an expression", hint)
    if token.text.lower() == "case" and not cursor.peek(1).starts_line:
        is_named = cursor.peek(1).kind is TokenKind.IDENT and cursor.peek(2).text.lower() == "when"
        if is_named or cursor.peek(1).kind is TokenKind.VARIABLE or cursor.is_followed_by("when", "WHEN"):
            cursor.fail("an expression", CASE_FORM)
    if token.kind is TokenKind.TYPE:
        small = f"{token.text[0].lower()}{token.text[1:]}"
        hint = f'a text is written `"{abbreviate(token.text)}"`; names start with a small letter, a variable `${small}`'
        if token.text.lower() == "distinct":
            hint = "it stands before the braces, `return distinct { … }`, or in a call: `count(distinct $p)`"
        cursor.fail("an expression", hint)
    cursor.advance()
    return BareName(name=Name(token.text, token.span), span=token.span)


def _parse_equals(cursor: Cursor, token: Token) -> tuple[CompareOp, Span]:
    """Parse `=` or `!=`, and recognise what directly follows it in `=<`, `=~`, `=!` and `!==`."""
    next_token = cursor.peek()
    if token.text == "!=":
        if not (cursor.is_glued() and next_token.text == "="):
            return CompareOp.NE, token.span
        span = token.span.to(cursor.advance().span)
        cursor.report(span, "unknown operator `!==`", "write `!=`")
        return CompareOp.NE, span
    if cursor.is_glued() and next_token.text in ("<", "~", "!"):
        meant = {"<": "<=", "~": "contains", "!": "!="}[next_token.text]
        span = token.span.to(next_token.span)
        hint = f"write `{meant}`"
        if next_token.text == "~":
            hint += ", or `matches(text, expression)`"
        cursor.report(span, f"unknown operator `={next_token.text}`", hint)
        cursor.advance()
        return _OPERATORS[meant], span
    return CompareOp.EQ, token.span


def _parse_is_null(cursor: Cursor, left: Expr) -> Expr:
    word = cursor.advance()
    negated = cursor.accept("not", "NOT", "Not") is not None
    token = cursor.peek()
    if token.text.lower() != "null":
        sign = "!=" if negated else "="
        hint = f"`is` and `is not` stand before `null`; compare values with `{sign}`"
        if token.kind is TokenKind.TYPE and isinstance(left, Variable):
            name, type_ = abbreviate(left.name), abbreviate(token.text)
            hint = f'the type of a variable is written `${name}: {type_}`; as a condition `${name}.@type = "{type_}"`'
        cursor.refuse(token.span, f"expected `null`, found {describe_token(token)}", hint)
    cursor.advance()
    span = word.span.to(token.span)
    written, right = cursor.source.slice(span), "is not null" if negated else "is null"
    if written != written.lower():
        cursor.report(span, f"unexpected `{abbreviate(written)}`", f"write `{right}`")
    return IsNull(operand=left, negated=negated, span=left.span.to(token.span))


def _is_word_operator(token: Token) -> bool:
    """Return whether a word is at the position of an operator and can't start something else."""
    return (
        token.kind in (TokenKind.IDENT, TokenKind.TYPE) and not token.starts_line and token.text not in RESERVED_WORDS
    )


def _build_operator_hint(word: str, left: str) -> str:
    hints = {
        "between": f"write `{left} >= … and {left} <= …`",
        "starts": f"write `{left} starts_with …`",
        "ends": f"write `ends_with({left}, …)`",
        "mod": f"a remainder is written `{left} % …`",
        "div": f"whole numbers are divided with `div({left}, …)`",
        "search": f"write `search({left}, text)`",
        "not": f"write `{left} != …`, or `not` before the comparison",
    }
    hints |= dict.fromkeys(("ends_with", "endswith"), hints["ends"])
    hints |= dict.fromkeys(("matches", "regexp", "rlike", "similar"), f"write `matches({left}, expression)`")
    if word.lower() in hints:
        return hints[word.lower()]
    return "the operators are = != < <= > >= contains starts_with in, and `is null`"


def _guess_operator(word: str) -> str | None:
    folded = word.lower()
    if folded in _OPERATORS:
        return folded
    return OPERATOR_SYNONYMS.get(folded) or find_closest(word, ("contains", "starts_with"))


# --- assignments ---------------------------------------------------------------------------------


def parse_assignments(
    parser: ExpressionParser, opening: Token, what: str, *, needs_commas: bool
) -> tuple[Assignment, ...]:
    """Parse `name: value` pairs up to the closing brace; the opening one was read."""
    cursor = parser.cursor
    assignments: list[Assignment] = []

    def item() -> None:
        assignments.append(_parse_assignment(parser))
        if separator := cursor.accept(",", ";"):
            if separator.text == ";":
                cursor.report(separator.span, "expected `,`, found `;`", "values are separated by `,`")
            elif extra := cursor.accept(","):
                cursor.report(extra.span, "unexpected second `,`", "delete it")
            elif needs_commas and cursor.is_at("}"):
                cursor.report(separator.span, "unexpected `,` before `}`", "delete it, or add a value after it")
        elif needs_commas and _is_at_assignment(cursor):
            cursor.report_missing("missing `,`", "put a `,` between one value and the next")

    cursor.parse_block(
        opening,
        what,
        item,
        is_item_start=lambda: _is_at_assignment(cursor),
        is_block_end=lambda: _is_outside(cursor),
    )
    return tuple(assignments)


def _is_at_assignment(cursor: Cursor) -> bool:
    return cursor.is_at_kind(TokenKind.IDENT, TokenKind.TYPE, TokenKind.STRING) and cursor.is_followed_by(":", "=")


def _is_outside(cursor: Cursor) -> bool:
    """Return whether a clause or keyword is at the cursor instead of a name: the closing brace is missing."""
    token = cursor.peek()
    if token.text in _STATEMENT_WORDS:
        return not cursor.is_followed_by(":", "=")
    if not token.starts_line:
        return False
    if token.kind is TokenKind.VARIABLE:
        return not cursor.is_followed_by("=")
    return (token.text in RESERVED_WORDS or token.text == "query") and not cursor.is_followed_by(":", "=")


def _parse_assignment(parser: ExpressionParser) -> Assignment:
    cursor = parser.cursor
    name = parse_property_name(cursor, "a property name")
    if not cursor.accept(":"):
        token = cursor.peek()
        hint = f"a value is given with `:`, as in `{abbreviate(name.text)}: …`"
        if token.text in ("+", "-", "*", "/"):
            hint = f"write `{abbreviate(name.text)}: {abbreviate(name.text)} {token.text} …`"
        if token.text in ("<", ">", "<=", ">=", "!=", "<>"):
            hint = f"braces have `{abbreviate(name.text)}: value`; any other condition is a clause: `$p.age > 3`"
        if token.text in ("=", "==", ":="):
            cursor.report(token.span, f"expected `:`, found `{token.text}`", hint)
            cursor.advance()
        elif not token.starts_line and (is_at_literal(cursor) or token.kind is TokenKind.VARIABLE):
            cursor.report_missing(f"missing `:` after `{abbreviate(name.text)}`", hint)
        else:
            cursor.fail(f"`:` after `{abbreviate(name.text)}`", hint)
    value = parser.parse_value()
    return Assignment(name=name, value=value, span=name.span.to(value.span))
