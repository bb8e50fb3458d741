"""Expressions of the query language."""

from dataclasses import replace

from omnigraph.lang.cursor import Cursor, describe_token, parse_property_name
from omnigraph.lang.lexer import OPERATOR_SYNONYMS, RESERVED_WORDS, Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import is_at_literal, parse_literal
from omnigraph.lang.literals import BoolLiteral, Name
from omnigraph.lang.query_ast import (
    And,
    Assignment,
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
    Star,
    Variable,
)
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import find_closest

META_PROPERTIES = ("id", "src", "dst")
_STATEMENT_WORDS = ("where", "set", "match", "return", "insert", "update", "delete")


def parse_expression(cursor: Cursor) -> Expr:
    """Parse a variable, a property, a literal, a call or a name."""
    token = cursor.peek()
    if token.kind is TokenKind.VARIABLE:
        return _parse_variable_or_property(cursor)
    if is_at_literal(cursor):
        value = parse_literal(cursor)
        return LiteralExpr(value=value, span=value.span)
    if token.kind in (TokenKind.IDENT, TokenKind.TYPE):
        return _parse_word(cursor, token)
    if token.text == "@":
        return parse_meta_name(cursor)
    if token.text in (")", "]"):
        closed = "(" if token.text == ")" else "["
        cursor.refuse(
            token.span, f"unexpected `{token.text}`", f"no `{closed}` is open here, or something is missing before it"
        )
    if token.text == "(":
        cursor.fail("an expression", "a list is written `[1, 2]`; parentheses group predicates only")
    if token.text == "*":
        cursor.fail("an expression", "`*` stands in `count(*)` only; return a whole node with its variable, `$p`")
    return cursor.fail("an expression", 'for example `$p.name`, `$p`, `"text"`, `3` or `count(*)`')


def _parse_word(cursor: Cursor, token: Token) -> Expr:
    if cursor.is_followed_by("("):
        return parse_call(cursor)
    if cursor.is_followed_by(".") and cursor.is_glued(1):
        return _recover_property_ref(cursor)
    if token.text in RESERVED_WORDS:
        cursor.fail("an expression", f"`{token.text}` is a reserved word")
    if token.kind is TokenKind.TYPE:
        hint = f"names start with a small letter; a variable is written `${token.text[0].lower()}{token.text[1:]}`"
        cursor.fail("an expression", hint)
    cursor.advance()
    return BareName(name=Name(token.text, token.span), span=token.span)


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


def parse_call(cursor: Cursor) -> Call:
    """Parse `function(arguments, option=value)`; the binder checks whether the function exists."""
    word = cursor.advance()
    function = Name(word.text, word.span)
    if word.kind is TokenKind.TYPE:
        function = Name(word.text.lower(), word.span)
        hint = f"functions are written in small letters: `{abbreviate(function.text)}(…)`"
        cursor.report(word.span, f"unexpected function `{abbreviate(word.text)}`", hint)
    elif word.text in RESERVED_WORDS:
        cursor.report(word.span, f"`{word.text}` is a reserved word, not a function")
    opening = cursor.advance()
    arguments: list[Expr] = []
    options: list[tuple[Name, Expr]] = []
    distinct = cursor.accept("distinct") is not None
    with cursor.nest():
        while not cursor.is_at(")"):
            _parse_argument(cursor, arguments, options)
            if comma := cursor.accept(","):
                if cursor.is_at(")"):
                    cursor.report(comma.span, "unexpected `,` before `)`", "delete it, or add an argument after it")
            elif not cursor.is_at(")"):
                _report_missing_comma(cursor, opening)
    span = word.span.to(cursor.advance().span)
    return Call(function=function, arguments=tuple(arguments), distinct=distinct, options=tuple(options), span=span)


def _parse_argument(cursor: Cursor, arguments: list[Expr], options: list[tuple[Name, Expr]]) -> None:
    token = cursor.peek()
    if token.text == "*":
        cursor.advance()
        arguments.append(Star(span=token.span))
    elif token.kind is TokenKind.IDENT and token.text not in RESERVED_WORDS and cursor.is_followed_by("=", ":"):
        cursor.advance()
        sign = cursor.advance()
        if sign.text == ":":
            cursor.report(sign.span, "expected `=`, found `:`", f"an option is written `{abbreviate(token.text)}=…`")
        options.append((Name(token.text, token.span), parse_expression(cursor)))
    else:
        arguments.append(parse_expression(cursor))


def _report_missing_comma(cursor: Cursor, opening: Token) -> None:
    token = cursor.peek()
    if token.kind in (TokenKind.SIGN, TokenKind.END) or token.starts_line or token.text in RESERVED_WORDS:
        cursor.fail("`,` or `)`", f"the `(` is in {cursor.format_position(opening.span)}")
    cursor.report_missing("missing `,`", "put a `,` between one argument and the next")


# --- assignments ---------------------------------------------------------------------------------


def parse_assignments(cursor: Cursor, opening: Token, what: str, *, needs_commas: bool) -> tuple[Assignment, ...]:
    """Parse `name: value` pairs up to the closing brace; the opening one was read."""
    assignments: list[Assignment] = []

    def item() -> None:
        assignments.append(_parse_assignment(cursor))
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


def _parse_assignment(cursor: Cursor) -> Assignment:
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
    value = parse_expression(cursor)
    return Assignment(name=name, value=value, span=name.span.to(value.span))


MAX_PREDICATE_TERMS = 1_000

_OPERATORS = {op.value: op for op in CompareOp}
# Operators of other languages, and ours.
_MISTAKEN_SIGNS = {"==": "=", "<>": "!=", "=>": ">="}
_CONNECTIVES = {"&&": "and", "||": "or", "!": "not", "&": "and", "|": "or"}
_NEVER_PROPERTIES = frozenset({"not", "true", "false", "null"})


class PredicateParser:
    """A parser of the predicates of one query, which counts their terms.

    With `names_properties`, as in a mutation, the left side of a comparison may be any word, reserved or not.
    """

    def __init__(self, cursor: Cursor, *, names_properties: bool) -> None:
        self._cursor = cursor
        self._names_properties = names_properties
        self._terms = 0

    def parse(self) -> Predicate:
        """Parse one predicate."""
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
                closing = cursor.expect(")", f"its `(` is in {cursor.format_position(opening.span)}")
            return replace(inner, span=opening.span.to(closing.span))
        return self._parse_comparison()

    # --- joining words -------------------------------------------------------------------------------

    def _accept_word(self, word: str) -> bool:
        """Accept `and`, `or` or `not`, or what other languages write instead."""
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
        """Return whether the word at the cursor is a property's name although it may be reserved."""
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
        comparison = Compare(op=op, left=left, right=right, op_span=op_span, span=left.span.to(right.span))
        self._refuse_chain(comparison)
        return comparison

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
        # Reported once, at the first term above the limit.
        if self._terms == MAX_PREDICATE_TERMS + 1:
            hint = "split the query, or compare with a list: `$p.name in $names`"
            self._cursor.report_limit(span, f"a query's predicates have at most {MAX_PREDICATE_TERMS:,} terms", hint)

    def _parse_operator(self) -> tuple[CompareOp, Span] | None:
        """Parse the comparison operator at the cursor; None if there is nothing like one."""
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
        """Parse `=`, and recognise what directly follows it in `=<`, `=~` and `=!`."""
        cursor = self._cursor
        next_token = cursor.peek()
        if cursor.is_glued() and next_token.text in ("<", "~", "!"):
            meant = {"<": "<=", "~": "contains", "!": "!="}[next_token.text]
            span = token.span.to(next_token.span)
            cursor.report(span, f"unknown operator `={next_token.text}`", f"write `{meant}`")
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
        message = f"expected a comparison after `{text}`"
        if not isinstance(left, PropertyRef | Variable | BareName):
            cursor.refuse(left.span.after, message, "a predicate compares, as in `$p.age > 3`")
        # `$p.active` alone is meant as `$p.active = true`, so the tree gets that.
        cursor.report_missing(message, f"a predicate compares: write `{text} = true`")
        true = LiteralExpr(value=BoolLiteral(True, left.span), span=left.span)
        return Compare(op=CompareOp.EQ, left=left, right=true, op_span=left.span.after, span=left.span)

    def _parse_late_not(self, left: Expr, text: str) -> Predicate:
        """Report `$p.age not in [1]`, as SQL writes it, and parse it as `not $p.age in [1]`."""
        cursor = self._cursor
        word = cursor.advance()
        operator = cursor.peek()
        hint = f"`not` stands before the comparison: `not {text} {operator.text.lower()} …`"
        cursor.report(word.span.to(operator.span), f"unexpected `{word.text} {operator.text}`", hint)
        cursor.advance()
        right = parse_expression(cursor)
        op, span = _OPERATORS[operator.text.lower()], left.span.to(right.span)
        return Not(term=Compare(op=op, left=left, right=right, op_span=operator.span, span=span), span=span)

    def _refuse_chain(self, comparison: Compare) -> None:
        """Report `1 < $a < 3` once, and skip the rest of the chain."""
        cursor = self._cursor
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
            parse_expression(cursor)


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
