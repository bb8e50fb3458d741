"""Expressions of the query language, by precedence climbing.

Loosest first: `or`, `and`, `not`, comparisons, `+ -`, `* / %`, the sign, `[index]`.
"""

from dataclasses import replace
from typing import NoReturn

from omnigraph.lang.cursor import Cursor, GaveUpError, describe_token, parse_property_name
from omnigraph.lang.lexer import OPERATOR_SYNONYMS, RESERVED_WORDS, Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import MAX_LIST_ITEMS, is_at_literal, parse_literal
from omnigraph.lang.literals import BoolLiteral, ListLiteral, Name
from omnigraph.lang.query_ast import (
    And,
    Arithmetic,
    ArithmeticOp,
    Assignment,
    BareName,
    Call,
    Case,
    CaseBranch,
    Compare,
    CompareOp,
    Expr,
    Index,
    IsNull,
    ListExpr,
    LiteralExpr,
    Negate,
    Not,
    Or,
    PropertyRef,
    Star,
    Variable,
)
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import find_closest

META_PROPERTIES = ("id", "src", "dst")
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

    With `names_properties`, as in a mutation, the left side of a comparison may be any word, reserved or not.
    """

    def __init__(self, cursor: Cursor, *, names_properties: bool = False) -> None:
        self.cursor = cursor
        self._names_properties = names_properties
        self._terms = 0
        # Whether a value is expected to be compared, so that an unknown word after it is a wrong operator.
        self.is_condition = False
        self.case_depth = 0

    def parse_condition(self) -> Expr:
        """Parse an expression that is a clause or follows `where`: it compares, or calls a function."""
        condition = self.parse_or(is_condition=True)
        if isinstance(condition, PropertyRef | Variable | BareName):
            # `$p.active` alone is meant as `$p.active = true`, so the tree gets that.
            text = abbreviate(self.cursor.source.slice(condition.span))
            message = f"expected a comparison after `{text}`"
            self.cursor.report_missing(message, f"a predicate compares: write `{text} = true`")
            true = LiteralExpr(value=BoolLiteral(True, condition.span), span=condition.span)
            span = condition.span
            return Compare(op=CompareOp.EQ, left=condition, right=true, op_span=span.after, span=span)
        if isinstance(condition, LiteralExpr | Arithmetic | Negate | Index | ListExpr):
            text = abbreviate(self.cursor.source.slice(condition.span))
            message = f"expected a comparison after `{text}`"
            self.cursor.refuse(condition.span.after, message, "a predicate compares, as in `$p.age > 3`")
        return condition

    def parse_value(self) -> Expr:
        """Parse an expression that is a column, an argument, a stored value or a sort key."""
        return self.parse_or(is_condition=False)

    # --- and, or, not --------------------------------------------------------------------------------

    def parse_or(self, *, is_condition: bool) -> Expr:
        """Parse terms joined by `or`, the loosest level; a value is expected to be compared in a condition."""
        before = self.is_condition
        self.is_condition = is_condition
        try:
            first = self._parse_and()
            terms = [first]
            while self._accept_word("or"):
                terms.append(self._parse_and())
        finally:
            self.is_condition = before
        if len(terms) == 1:
            return first
        return Or(terms=tuple(terms), span=first.span.to(terms[-1].span))

    def _parse_and(self) -> Expr:
        first = self._parse_not()
        terms = [first]
        while self._accept_word("and"):
            terms.append(self._parse_not())
        if len(terms) == 1:
            return first
        return And(terms=tuple(terms), span=first.span.to(terms[-1].span))

    def _parse_not(self) -> Expr:
        start = self.cursor.peek()
        if self._is_property(start) or not self._accept_word("not"):
            return self._parse_comparison()
        with self.cursor.nest():
            if self.cursor.is_at("{"):
                hint = "`not { … }` is a clause of its own; in a predicate, write `not (…)`"
                self.cursor.fail("a predicate", hint)
            is_word = self.cursor.is_at_kind(TokenKind.IDENT, TokenKind.TYPE) and not _is_at_case(self.cursor)
            if is_word and self.cursor.is_followed_by("{"):
                self.cursor.fail("a predicate", "a block that must not match is written `not { … }`")
            term = self._parse_not()
        return Not(term=term, span=start.span.to(term.span))

    def _accept_word(self, word: str) -> bool:
        """Accept `and`, `or` or `not`, or what other languages write instead."""
        token = self.cursor.peek()
        if token.text == word:
            self.cursor.advance()
            return True
        if _CONNECTIVES.get(token.text) != word and not (token.kind is TokenKind.TYPE and token.text.lower() == word):
            return False
        hint = "write `or`; texts are joined with `+`" if token.text == "||" else f"write `{word}`"
        self.cursor.report(token.span, f"unexpected `{token.text}`", hint)
        self.cursor.advance()
        return True

    def _is_property(self, token: Token) -> bool:
        """Return whether the word at the cursor is a property's name although it may be reserved."""
        if not self._names_properties or token.kind is not TokenKind.IDENT or token.text in _NEVER_PROPERTIES:
            return False
        return not self.cursor.is_followed_by("(", ".") and not _is_at_case(self.cursor)

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
            return self._parse_indexes(BareName(name=Name(token.text, token.span), span=token.span))
        if self._names_properties and token.kind is TokenKind.TYPE and not self.cursor.is_followed_by("(", "."):
            name = parse_property_name(self.cursor, "a property name")
            return self._parse_indexes(BareName(name=name, span=name.span))
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
            return (op, token.span) if token.text != "=" else _parse_equals(cursor, token)
        meant = None if token.text == "=>" and self.case_depth else _MISTAKEN_SIGNS.get(token.text)
        if meant is None and token.kind in (TokenKind.IDENT, TokenKind.TYPE) and not token.starts_line:
            meant = _guess_operator(token.text) if self.is_condition else None
        if meant is None:
            return None
        cursor.report(token.span, f"unknown operator `{token.text}`", f"write `{meant}`")
        cursor.advance()
        return _OPERATORS[meant], token.span

    def _parse_without_operator(self, left: Expr) -> Expr:
        cursor = self.cursor
        token = cursor.peek()
        text = abbreviate(cursor.source.slice(left.span))
        if token.text in ("not", "NOT") and cursor.peek(1).text.lower() in ("in", "contains", "starts_with"):
            return _parse_late_not(self, left, text)
        is_compared = isinstance(left, PropertyRef | Variable | BareName | LiteralExpr | Arithmetic)
        if self.is_condition and is_compared and _is_word_operator(token) and not cursor.is_followed_by("("):
            cursor.refuse(
                token.span, f"unknown operator `{abbreviate(token.text)}`", _build_operator_hint(token.text, text)
            )
        return left

    # --- arithmetic ----------------------------------------------------------------------------------

    def parse_sum(self) -> Expr:
        """Parse an operand of a comparison."""
        return self._climb(self._parse_signed(), 0)

    def _climb(self, left: Expr, level: int) -> Expr:
        """Parse the arithmetic operators after `left` that bind at least as tightly as `level`."""
        cursor = self.cursor
        count = 0
        while (operator := self._peek_arithmetic()) and operator[1] >= level:
            op, op_level = operator
            sign = cursor.advance()
            count += 1
            if count == MAX_CHAIN_OPERATORS + 1:
                cursor.report_limit(sign.span, f"more than {MAX_CHAIN_OPERATORS} operators in one chain", "split it")
            right = self._parse_signed()
            # A product after the right side takes it first.
            if (following := self._peek_arithmetic()) and following[1] > op_level:
                right = self._climb(right, following[1])
            # Beyond the limit the tree stays as it is: the text is refused anyway.
            if count <= MAX_CHAIN_OPERATORS:
                span = left.span.to(right.span)
                left = Arithmetic(op=op, left=left, right=right, op_span=sign.span, span=span)
        return left

    def _peek_arithmetic(self) -> tuple[ArithmeticOp, int] | None:
        """Return the arithmetic operator at the cursor and its level; `^` of other languages is reported as one."""
        token = self.cursor.peek()
        if token.text == "^":
            hint = "a power is written `pow(base, exponent)`"
            if not self.cursor.is_explained:
                self.cursor.report(token.span, "unknown operator `^`", hint)
            return ArithmeticOp.MULTIPLY, 1
        return _ARITHMETIC.get(token.text)

    def _parse_signed(self) -> Expr:
        cursor = self.cursor
        sign = cursor.peek()
        if sign.text != "-" or cursor.peek(1).kind in (TokenKind.INT, TokenKind.FLOAT):
            return self._parse_indexes(self.parse_primary())
        cursor.advance()
        with cursor.nest():
            operand = self._parse_signed()
        return Negate(operand=operand, span=sign.span.to(operand.span))

    def _parse_indexes(self, operand: Expr) -> Expr:
        cursor = self.cursor
        count = 0
        while opening := cursor.accept("["):
            count += 1
            if count > MAX_CHAIN_OPERATORS:
                cursor.report_limit(opening.span, f"more than {MAX_CHAIN_OPERATORS} indexes in a row", "split it")
                raise GaveUpError
            with cursor.nest():
                index = self.parse_value()
                closing = cursor.expect("]", f"its `[` is in {cursor.format_position(opening.span)}")
            operand = Index(operand=operand, index=index, span=operand.span.to(closing.span))
        return operand

    # --- primaries -----------------------------------------------------------------------------------

    def parse_primary(self) -> Expr:
        """Parse a variable, a property, a literal, a list, a call, a `case`, a name or an expression in parentheses."""
        cursor = self.cursor
        token = cursor.peek()
        if token.kind is TokenKind.VARIABLE:
            return _parse_variable_or_property(cursor)
        if token.text == "(":
            return _parse_parenthesized(self)
        if token.text == "[":
            return _parse_list(self)
        if is_at_literal(cursor):
            value = parse_literal(cursor)
            return LiteralExpr(value=value, span=value.span)
        if _is_at_case(cursor):
            return _parse_case(self)
        if token.kind in (TokenKind.IDENT, TokenKind.TYPE):
            return _parse_call(self) if cursor.is_followed_by("(") else _parse_word(cursor, token)
        if token.text == "@":
            return parse_meta_name(cursor)
        return _refuse_token(cursor, token)


def _parse_parenthesized(parser: ExpressionParser) -> Expr:
    cursor = parser.cursor
    opening = cursor.advance()
    with cursor.nest():
        inner = parser.parse_or(is_condition=parser.is_condition)
        if cursor.is_at(","):
            cursor.fail("`)`", "a list is written `[1, 2]`; parentheses group an expression")
        closing = cursor.expect(")", f"its `(` is in {cursor.format_position(opening.span)}")
    return replace(inner, span=opening.span.to(closing.span))


def _parse_list(parser: ExpressionParser) -> Expr:
    cursor = parser.cursor
    opening = cursor.advance()
    items: list[Expr] = []
    with cursor.nest():
        while not cursor.is_at("]"):
            items.append(_parse_item(parser))
            if comma := cursor.accept(","):
                if cursor.is_at("]"):
                    cursor.report(comma.span, "unexpected `,` before `]`", "delete it, or add a value after it")
            elif is_at_literal(cursor) and not cursor.peek().starts_line:
                cursor.report_missing("missing `,`", "put a `,` between a value and the next")
            elif not cursor.is_at("]"):
                cursor.fail("`,` or `]`", f"the list's `[` is in {cursor.format_position(opening.span)}")
    span = opening.span.to(cursor.advance().span)
    if len(items) > MAX_LIST_ITEMS:
        cursor.report_limit(opening.span, f"a list has at most {MAX_LIST_ITEMS:,} items", "pass it as a parameter")
        del items[MAX_LIST_ITEMS:]
    literals = [item.value for item in items if isinstance(item, LiteralExpr)]
    if len(literals) < len(items):
        return ListExpr(items=tuple(items), span=span)
    return LiteralExpr(value=ListLiteral(tuple(literals), span), span=span)


def _parse_item(parser: ExpressionParser) -> Expr:
    # Most items are literals, and a long list of them is parsed without descending through all levels.
    if is_at_literal(parser.cursor) and not parser.cursor.is_at("[") and parser.cursor.is_followed_by(",", "]"):
        value = parse_literal(parser.cursor)
        return LiteralExpr(value=value, span=value.span)
    return parser.parse_value()


def _parse_case(parser: ExpressionParser) -> Case:
    cursor = parser.cursor
    word = cursor.advance()
    opening = cursor.advance()
    try:
        with cursor.nest():
            branches, otherwise = _parse_branches(parser, opening)
    except GaveUpError:
        # Leave the braces first: recovery counts them from here.
        cursor.skip_to(lambda: cursor.is_at("}") or cursor.peek().starts_line)
        cursor.accept("}")
        raise
    span = word.span.to(cursor.advance().span)
    if not branches:
        cursor.report(span, "a `case` needs a branch", 'write `case { $p.age < 18 => "child" else => "adult" }`')
    return Case(branches=branches, otherwise=otherwise, span=span)


def _parse_branches(parser: ExpressionParser, opening: Token) -> tuple[tuple[CaseBranch, ...], Expr | None]:
    cursor = parser.cursor
    branches: list[CaseBranch] = []
    otherwise: Expr | None = None
    while not cursor.is_at("}"):
        if otherwise is not None:
            cursor.fail("`}`", "`else` is the last branch of a `case`")
        if cursor.accept("else"):
            cursor.expect("=>", "the last branch is written `else => value`")
            otherwise = parser.parse_value()
        else:
            branches.append(_parse_branch(parser, opening))
        cursor.accept(",")
    return tuple(branches), otherwise


def _parse_branch(parser: ExpressionParser, opening: Token) -> CaseBranch:
    cursor = parser.cursor
    parser.case_depth += 1
    try:
        condition = parser.parse_value()
    finally:
        parser.case_depth -= 1
    if wrong := cursor.accept("->", ":"):
        cursor.report(wrong.span, f"expected `=>`, found `{wrong.text}`", "a branch is written `condition => value`")
    else:
        position = cursor.format_position(opening.span)
        cursor.expect("=>", f"a branch of the `case` in {position} is written `condition => value`")
    value = parser.parse_value()
    return CaseBranch(condition=condition, value=value, span=condition.span.to(value.span))


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


def parse_expression(cursor: Cursor) -> Expr:
    """Parse one expression, by itself."""
    return ExpressionParser(cursor).parse_value()


def _is_at_case(cursor: Cursor) -> bool:
    return cursor.is_at("case") and cursor.is_followed_by("{")


def _refuse_token(cursor: Cursor, token: Token) -> NoReturn:
    if token.text in (")", "]"):
        closed = "(" if token.text == ")" else "["
        cursor.refuse(
            token.span, f"unexpected `{token.text}`", f"no `{closed}` is open here, or something is missing before it"
        )
    if token.text == "*":
        cursor.fail("an expression", "`*` stands in `count(*)` only; return a whole node with its variable, `$p`")
    cursor.fail("an expression", 'for example `$p.name`, `$p`, `"text"`, `3` or `count(*)`')


def _parse_word(cursor: Cursor, token: Token) -> Expr:
    if cursor.is_followed_by(".") and cursor.is_glued(1):
        return _recover_property_ref(cursor)
    if token.text in RESERVED_WORDS:
        cursor.fail("an expression", f"`{token.text}` is a reserved word")
    if token.text.lower() == "case" and not cursor.peek(1).starts_line:
        hint = 'a case is written `case { $p.age < 18 => "child" else => "adult" }`'
        if cursor.peek(1).kind is TokenKind.VARIABLE or cursor.is_followed_by("when", "WHEN"):
            cursor.fail("an expression", hint)
    if token.kind is TokenKind.TYPE:
        hint = f"names start with a small letter; a variable is written `${token.text[0].lower()}{token.text[1:]}`"
        cursor.fail("an expression", hint)
    cursor.advance()
    return BareName(name=Name(token.text, token.span), span=token.span)


def _parse_equals(cursor: Cursor, token: Token) -> tuple[CompareOp, Span]:
    """Parse `=`, and recognise what directly follows it in `=<`, `=~` and `=!`."""
    next_token = cursor.peek()
    if cursor.is_glued() and next_token.text in ("<", "~", "!"):
        meant = {"<": "<=", "~": "contains", "!": "!="}[next_token.text]
        span = token.span.to(next_token.span)
        cursor.report(span, f"unknown operator `={next_token.text}`", f"write `{meant}`")
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
    if word.lower() == "between":
        return f"write `{left} >= … and {left} <= …`"
    return "the operators are = != < <= > >= contains starts_with in, and `is null`"


def _guess_operator(word: str) -> str | None:
    folded = word.lower()
    if folded in _OPERATORS:
        return folded
    return OPERATOR_SYNONYMS.get(folded) or find_closest(word, ("contains", "starts_with"))


# --- names ---------------------------------------------------------------------------------------


def parse_variable(cursor: Cursor, what: str) -> Variable:
    """Parse `$name`; a missing `$` is reported and repaired."""
    token = cursor.peek()
    if token.kind is TokenKind.VARIABLE:
        cursor.advance()
        return Variable(name=str(token.value), span=token.span)
    if token.kind in (TokenKind.IDENT, TokenKind.TYPE) and token.text not in RESERVED_WORDS and not token.starts_line:
        return recover_variable(cursor, what)
    return cursor.fail(what, "a variable is written `$name`")


def recover_variable(cursor: Cursor, what: str) -> Variable:
    """Parse the name at the cursor as a variable, and report that its `$` is missing."""
    token = cursor.peek()
    name = token.text[0].lower() + token.text[1:]
    if not cursor.is_explained:
        hint = f"variables start with `$`: did you mean `${abbreviate(name)}`?"
        cursor.report(token.span, f"expected {what}, found `{abbreviate(token.text)}`", hint)
    cursor.advance()
    return Variable(name=name, span=token.span)


def _parse_variable_or_property(cursor: Cursor) -> Expr:
    token = cursor.advance()
    owner = Variable(name=str(token.value), span=token.span)
    return _parse_property_ref(cursor, owner) if cursor.is_at(".") else owner


def _recover_property_ref(cursor: Cursor) -> Expr:
    return _parse_property_ref(cursor, recover_variable(cursor, "a variable"))


def _parse_property_ref(cursor: Cursor, owner: Variable) -> PropertyRef:
    cursor.advance()
    is_meta = cursor.is_at("@")
    name = _parse_meta(cursor) if is_meta else parse_property_name(cursor, "a property name")
    reference = PropertyRef(variable=owner, name=name, is_meta=is_meta, span=owner.span.to(name.span))
    # Without a space it can't be the start of something else.
    if cursor.is_at(".") and cursor.is_glued():
        hint = "a property has no properties; follow an edge to another node"
        cursor.refuse(
            cursor.peek().span, f"unexpected `.` after `${abbreviate(owner.name)}.{abbreviate(name.text)}`", hint
        )
    return reference


def parse_meta_name(cursor: Cursor) -> BareName:
    """Parse `@id`, `@src` or `@dst` in the predicate of a mutation."""
    at = cursor.peek()
    name = _parse_meta(cursor)
    return BareName(name=name, is_meta=True, span=at.span.to(name.span))


def _parse_meta(cursor: Cursor) -> Name:
    cursor.advance()
    token = cursor.peek()
    if token.text not in META_PROPERTIES:
        hint = "there are `@id`, `@src` and `@dst`"
        if token.kind is TokenKind.IDENT and (
            meant := find_closest(token.text, META_PROPERTIES) or {"from": "src", "to": "dst"}.get(token.text)
        ):
            hint = f"did you mean `@{meant}`?"
        cursor.fail("`@id`, `@src` or `@dst`", hint)
    cursor.advance()
    return Name(token.text, token.span)


# --- calls ---------------------------------------------------------------------------------------


def _parse_call(parser: ExpressionParser) -> Call:
    """Parse `function(arguments, option=value)`; the binder checks whether the function exists."""
    cursor = parser.cursor
    word = cursor.advance()
    function = Name(word.text, word.span)
    if word.kind is TokenKind.TYPE:
        function = Name(word.text.lower(), word.span)
        hint = f"functions are written in small letters: `{abbreviate(function.text)}(…)`"
        cursor.report(word.span, f"unexpected function `{abbreviate(word.text)}`", hint)
    elif word.text in RESERVED_WORDS and word.text != "starts_with":
        cursor.report(word.span, f"`{word.text}` is a reserved word, not a function")
    opening = cursor.advance()
    arguments: list[Expr] = []
    options: list[tuple[Name, Expr]] = []
    distinct = cursor.accept("distinct") is not None
    with cursor.nest():
        while not cursor.is_at(")"):
            _parse_argument(parser, arguments, options)
            if comma := cursor.accept(","):
                if cursor.is_at(")"):
                    cursor.report(comma.span, "unexpected `,` before `)`", "delete it, or add an argument after it")
            elif not cursor.is_at(")"):
                _report_missing_comma(cursor, opening)
    span = word.span.to(cursor.advance().span)
    return Call(function=function, arguments=tuple(arguments), distinct=distinct, options=tuple(options), span=span)


def _parse_argument(parser: ExpressionParser, arguments: list[Expr], options: list[tuple[Name, Expr]]) -> None:
    cursor = parser.cursor
    token = cursor.peek()
    if token.text == "*":
        cursor.advance()
        arguments.append(Star(span=token.span))
    elif token.kind is TokenKind.IDENT and token.text not in RESERVED_WORDS and cursor.is_followed_by("=", ":"):
        cursor.advance()
        sign = cursor.advance()
        if sign.text == ":":
            cursor.report(sign.span, "expected `=`, found `:`", f"an option is written `{abbreviate(token.text)}=…`")
        options.append((Name(token.text, token.span), parser.parse_value()))
    else:
        arguments.append(parser.parse_value())


def _report_missing_comma(cursor: Cursor, opening: Token) -> None:
    token = cursor.peek()
    if token.kind in (TokenKind.SIGN, TokenKind.END) or token.starts_line or token.text in RESERVED_WORDS:
        cursor.fail("`,` or `)`", f"the `(` is in {cursor.format_position(opening.span)}")
    cursor.report_missing("missing `,`", "put a `,` between one argument and the next")


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
        if token.text in ("=", "==", ":="):
            cursor.report(token.span, f"expected `:`, found `{token.text}`", hint)
            cursor.advance()
        elif not token.starts_line and (is_at_literal(cursor) or token.kind is TokenKind.VARIABLE):
            cursor.report_missing(f"missing `:` after `{abbreviate(name.text)}`", hint)
        else:
            cursor.fail(f"`:` after `{abbreviate(name.text)}`", hint)
    value = parser.parse_value()
    return Assignment(name=name, value=value, span=name.span.to(value.span))
