"""The primary expressions with parts of their own: lists, records, `case`, calls and blocks.

They are functions over `Expressions`, which the precedence climber of `expression_parser` implements.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from omnigraph.lang.cursor import Cursor, GaveUpError, parse_property_name
from omnigraph.lang.foreign_words import (
    ARROW_HINT,
    BLOCK_VALUE_FORM,
    CALL_HINTS,
    ELEMENTS_FORM,
    QUANTIFIER_FORM,
    QUANTIFIERS,
    SUBQUERY_FORM,
    VALUE_ARROW_HINT,
    is_comprehension,
)
from omnigraph.lang.lexer import RESERVED_WORDS, Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import MAX_LIST_ITEMS, is_at_literal, parse_literal
from omnigraph.lang.literals import ListLiteral, Name
from omnigraph.lang.order_parser import is_at_per, parse_count, parse_order, parse_per
from omnigraph.lang.query_ast import (
    Block,
    BlockKind,
    Call,
    Case,
    CaseBranch,
    Clause,
    Expr,
    ListExpr,
    LiteralExpr,
    Record,
    RecordItem,
    Star,
    Window,
)

ParseClauses: TypeAlias = Callable[[Token, str, Callable[[], bool] | None], tuple[Clause, ...]]
"""Parses clauses up to the closing brace, or up to where the predicate holds; the opening brace was read."""

BLOCK_KINDS = {kind.value: kind for kind in BlockKind}
# A block in an expression takes as many frames of the interpreter's stack as this many parentheses.
_LEVELS_OF_BLOCK = 4
_WINDOW_EXAMPLE = "sum($n) over { per { $c } order { $d } }"


class Expressions(Protocol):
    """What the parts of an expression are parsed with."""

    cursor: Cursor
    is_condition: bool
    case_depth: int
    parse_clauses: ParseClauses | None

    def parse_value(self) -> Expr:
        """Parse an expression that is a column, an argument, a stored value or a sort key."""

    def parse_condition(self) -> Expr:
        """Parse a condition in `where` or braces, which may be a Bool alone."""

    def parse_or(self, *, is_condition: bool) -> Expr:
        """Parse terms joined by `or`, the loosest level."""

    def read_names_as(self, *, properties: bool) -> AbstractContextManager[None]:
        """Read bare words as properties, or not, for the duration of the block."""


def is_at_case(cursor: Cursor) -> bool:
    """Return whether `case { … }` starts at the cursor; `case` is not reserved."""
    return cursor.is_at("case") and cursor.is_followed_by("{")


def is_at_value_block(cursor: Cursor) -> bool:
    """Return whether a block with a value starts at the cursor; its words are not reserved."""
    return cursor.peek().text in BLOCK_KINDS and cursor.is_followed_by("{")


def parse_parenthesized(parser: Expressions) -> Expr:
    """Parse `( expression )`, whose span includes the parentheses."""
    cursor = parser.cursor
    opening = cursor.advance()
    if cursor.peek().text.lower() in ("match", "select") and not cursor.is_followed_by(")"):
        cursor.fail("an expression", SUBQUERY_FORM)
    with cursor.nest():
        inner = parser.parse_or(is_condition=parser.is_condition)
        if cursor.is_at(","):
            cursor.fail("`)`", "a list is written `[1, 2]`; parentheses group an expression")
        closing = cursor.expect(")", f"its `(` is in {cursor.format_position(opening.span)}")
    return replace(inner, span=opening.span.to(closing.span))


# --- lists and records ---------------------------------------------------------------------------


def parse_list(parser: Expressions) -> Expr:
    """Parse `[a, b, …]`; a list of literals is a literal."""
    cursor = parser.cursor
    if is_comprehension(cursor):
        start, name = cursor.peek(), cursor.peek(1)
        message = f"expected the items of a list, found `{abbreviate(name.text)} in`"
        cursor.refuse(start.span.to(cursor.peek(2).span), message, ELEMENTS_FORM)
    opening = cursor.advance()
    if cursor.is_at(":"):
        # `($p)-[:KNOWS]->($q)`.
        cursor.fail("an expression", ARROW_HINT)
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
                hint = f"the list's `[` is in {cursor.format_position(opening.span)}"
                cursor.fail("`,` or `]`", ELEMENTS_FORM if cursor.is_at("for", "FOR") else hint)
    span = opening.span.to(cursor.advance().span)
    if len(items) > MAX_LIST_ITEMS:
        cursor.report_limit(opening.span, f"a list has at most {MAX_LIST_ITEMS:,} items", "pass it as a parameter")
        del items[MAX_LIST_ITEMS:]
    literals = [item.value for item in items if isinstance(item, LiteralExpr)]
    if len(literals) < len(items):
        return ListExpr(items=tuple(items), span=span)
    return LiteralExpr(value=ListLiteral(tuple(literals), span), span=span)


def _parse_item(parser: Expressions) -> Expr:
    # Most items are literals, and a long list of them is parsed without descending through all levels.
    if is_at_literal(parser.cursor) and not parser.cursor.is_at("[") and parser.cursor.is_followed_by(",", "]"):
        value = parse_literal(parser.cursor)
        return LiteralExpr(value=value, span=value.span)
    return parser.parse_value()


def parse_record(parser: Expressions) -> Record:
    """Parse `{ name: value, … }`."""
    cursor = parser.cursor
    opening = cursor.advance()
    items: list[RecordItem] = []
    try:
        with cursor.nest():
            while not cursor.is_at("}"):
                items.append(_parse_record_item(parser))
                if comma := cursor.accept(","):
                    if cursor.is_at("}"):
                        cursor.report(comma.span, "unexpected `,` before `}`", "delete it, or add a field after it")
                elif not cursor.is_at("}"):
                    _report_missing_field_comma(cursor, opening)
    except GaveUpError:
        leave_braces(cursor)
        raise
    span = opening.span.to(cursor.advance().span)
    if not items:
        cursor.report(span, "the record is empty", "a record has fields: `{ name: $p.name }`")
    return Record(items=tuple(items), span=span)


def _parse_record_item(parser: Expressions) -> RecordItem:
    cursor = parser.cursor
    token = cursor.peek()
    if token.kind not in (TokenKind.IDENT, TokenKind.TYPE, TokenKind.STRING) or not cursor.is_followed_by(":", "="):
        cursor.fail("a field of the record", "a record is written `{ name: $p.name, age: $p.age }`")
    name = parse_property_name(cursor, "the name of a field")
    if sign := cursor.accept("="):
        hint = f"a field is written `{abbreviate(name.text)}: …`"
        cursor.report(sign.span, "expected `:`, found `=`", hint)
    else:
        cursor.advance()
    value = parser.parse_value()
    return RecordItem(name=name, value=value, span=name.span.to(value.span))


def _report_missing_field_comma(cursor: Cursor, opening: Token) -> None:
    if not cursor.is_at_kind(TokenKind.IDENT) or not cursor.is_followed_by(":"):
        cursor.fail("`,` or `}`", f"the record's `{{` is in {cursor.format_position(opening.span)}")
    cursor.report_missing("missing `,`", "put a `,` between one field and the next")


def leave_braces(cursor: Cursor) -> None:
    """Move past the next `}`, or to the next line: recovery counts braces from there."""
    depth = 0
    while not (cursor.is_at_end or (depth == 0 and (cursor.is_at("}") or cursor.peek().starts_line))):
        token = cursor.advance()
        depth += (token.text == "{") - (token.text == "}")
    cursor.accept("}")


# --- case ----------------------------------------------------------------------------------------


def parse_case(parser: Expressions) -> Case:
    """Parse `case { condition => value, … else => value }`."""
    cursor = parser.cursor
    word = cursor.advance()
    opening = cursor.advance()
    try:
        with cursor.nest():
            branches, otherwise = _parse_branches(parser, opening)
    except GaveUpError:
        leave_braces(cursor)
        raise
    span = word.span.to(cursor.advance().span)
    if not branches:
        cursor.report(span, "a `case` needs a branch", 'write `case { $p.age < 18 => "child" else => "adult" }`')
    return Case(branches=branches, otherwise=otherwise, span=span)


def _parse_branches(parser: Expressions, opening: Token) -> tuple[tuple[CaseBranch, ...], Expr | None]:
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


def _parse_branch(parser: Expressions, opening: Token) -> CaseBranch:
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


# --- calls ---------------------------------------------------------------------------------------


def parse_call(parser: Expressions) -> Call:
    """Parse `function(arguments, option=value)`; the binder checks whether the function exists."""
    cursor = parser.cursor
    word = cursor.advance()
    function = Name(word.text, word.span)
    if word.kind is TokenKind.TYPE:
        function = Name(word.text.lower(), word.span)
        hint = f"functions are written in small letters: `{abbreviate(function.text)}(…)`"
        cursor.report(word.span, f"unexpected function `{abbreviate(word.text)}`", hint)
    elif word.text in RESERVED_WORDS and word.text != "starts_with":
        way_out = "it stands between two values: `$p.tags contains value`" if word.text == "contains" else None
        cursor.report(word.span, f"`{word.text}` is a reserved word, not a function", way_out)
    opening = cursor.advance()
    arguments: list[Expr] = []
    options: list[tuple[Name, Expr]] = []
    distinct = cursor.accept("distinct") is not None
    if cursor.is_at("where") and word.text.lower() == "filter":
        cursor.fail("an expression", CALL_HINTS["filter"])
    with cursor.nest():
        while not cursor.is_at(")"):
            _parse_argument(parser, arguments, options)
            if comma := cursor.accept(","):
                if cursor.is_at(")"):
                    cursor.report(comma.span, "unexpected `,` before `)`", "delete it, or add an argument after it")
                continue
            if cursor.is_at(")") or _is_at_call_part(cursor):
                break
            is_quantifier = word.text.lower() in QUANTIFIERS and cursor.is_at(":", "|")
            form = QUANTIFIER_FORM if is_quantifier else CALL_HINTS.get(word.text.lower())
            form = VALUE_ARROW_HINT if form is None and cursor.is_at("->") else form
            _report_missing_comma(cursor, opening, form)
        has_arguments = bool(arguments or options)
        where = parser.parse_condition() if has_arguments and cursor.accept("where") else None
        order = parse_order(parser) if has_arguments and cursor.accept("order") else ()
        limit = parse_count(cursor, "limit") if has_arguments and cursor.accept("limit") else None
        closing = cursor.expect(")", f"the `(` is in {cursor.format_position(opening.span)}")
    call = Call(
        function=function,
        arguments=tuple(arguments),
        distinct=distinct,
        options=tuple(options),
        where=where,
        order=order,
        limit=limit,
        span=word.span.to(closing.span),
    )
    if cursor.is_at("over") and cursor.is_followed_by("{"):
        window = _parse_window(parser)
        return replace(call, window=window, span=word.span.to(window.span))
    return call


def _is_at_call_part(cursor: Cursor) -> bool:
    """Return whether the filter, the order or the limit of an aggregate starts at the cursor."""
    if cursor.is_at("where"):
        return True
    if cursor.is_at("order"):
        return cursor.is_followed_by("{", "by")
    return cursor.is_at("limit") and not cursor.is_followed_by("=", ")", ",")


def _parse_argument(parser: Expressions, arguments: list[Expr], options: list[tuple[Name, Expr]]) -> None:
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


def _report_missing_comma(cursor: Cursor, opening: Token, hint: str | None) -> None:
    token = cursor.peek()
    if hint is not None:
        cursor.fail("`,` or `)`", hint)
    if token.kind in (TokenKind.SIGN, TokenKind.END) or token.starts_line or token.text in RESERVED_WORDS:
        cursor.fail("`,` or `)`", f"the `(` is in {cursor.format_position(opening.span)}")
    cursor.report_missing("missing `,`", "put a `,` between one argument and the next")


def _parse_window(parser: Expressions) -> Window:
    cursor = parser.cursor
    word = cursor.advance()
    opening = cursor.advance()
    try:
        with cursor.nest():
            per = parse_per(parser, _WINDOW_EXAMPLE) if is_at_per(cursor) else ()
            order = parse_order(parser) if cursor.accept("order") else ()
            if cursor.is_at("partition", "PARTITION"):
                cursor.fail("`per`, `order` or `}`", f"a window is written `{_WINDOW_EXAMPLE}`")
            if is_at_per(cursor):
                cursor.fail("`}`", f"`per` stands before `order`: `{_WINDOW_EXAMPLE}`")
            hint = f"the `{{` of `over` is in {cursor.format_position(opening.span)}"
            closing = cursor.expect("}", hint)
    except GaveUpError:
        leave_braces(cursor)
        raise
    return Window(per=per, order=order, span=word.span.to(closing.span))


# --- blocks --------------------------------------------------------------------------------------


def parse_value_block(parser: Expressions) -> Block:
    """Parse `count { clauses return value order { … } limit n }`, whose word is at the cursor."""
    word = parser.cursor.advance()
    kind = BLOCK_KINDS[word.text]
    return _parse_block_body(parser, word, kind, f"the `{word.text}` block")


def parse_absent_block(parser: Expressions, word: Token) -> Block:
    """Parse the braces of `not { … }` inside an expression, which is `not exists { … }`."""
    return _parse_block_body(parser, word, BlockKind.EXISTS, "the `not` block", returns=False)


def _parse_block_body(parser: Expressions, word: Token, kind: BlockKind, what: str, *, returns: bool = True) -> Block:
    cursor = parser.cursor
    opening = cursor.advance()
    if parser.parse_clauses is None:
        cursor.refuse(word.span, f"unexpected `{word.text} {{`", "a filter compares properties, and has no blocks")
    before, parser.is_condition = parser.is_condition, False
    depth, parser.case_depth = parser.case_depth, 0
    try:
        with cursor.nest(_LEVELS_OF_BLOCK), parser.read_names_as(properties=False):
            stop = _ReturnStop(cursor, needs_value=kind not in (BlockKind.EXISTS, BlockKind.COUNT)) if returns else None
            clauses = parser.parse_clauses(opening, what, stop)
            # After the closing brace, a `return` belongs to the block around this one.
            if stop is None or not stop.is_reached or not cursor.accept("return"):
                if kind not in (BlockKind.EXISTS, BlockKind.COUNT) and not cursor.is_explained:
                    _report_missing_return(cursor, word)
                return Block(kind=kind, clauses=clauses, span=word.span.to(cursor.previous))
            return _parse_block_return(parser, Block(kind=kind, clauses=clauses, span=word.span), opening)
    finally:
        parser.is_condition = before
        parser.case_depth = depth


def _report_missing_return(cursor: Cursor, word: Token) -> None:
    hint = f"say of what: `{word.text} {{ $p wrote $a return $a.length }}`"
    cursor.report(word.span, f"`{word.text} {{ … }}` needs a `return`", hint)


@dataclass
class _ReturnStop:
    """Says whether the clauses of a block end at its `return`, and remembers that they did."""

    cursor: Cursor
    needs_value: bool
    is_reached: bool = False

    def __call__(self) -> bool:
        self.is_reached = _is_at_block_return(self.cursor, needs_value=self.needs_value)
        return self.is_reached


def _is_at_block_return(cursor: Cursor, *, needs_value: bool) -> bool:
    """Return whether `return` belongs to the block; `return {` does if a record follows, else a `}` is missing.

    In a block that needs a value, `return { $q.name }` is a slip.
    """
    if not cursor.is_at("return"):
        return False
    return needs_value or not cursor.is_followed_by("{") or _is_record(cursor, 1)


def _is_record(cursor: Cursor, ahead: int) -> bool:
    """Return whether the braces there have a field first."""
    name, colon = cursor.peek(ahead + 1), cursor.peek(ahead + 2)
    return name.kind in (TokenKind.IDENT, TokenKind.STRING) and colon.text == ":"


def _parse_block_return(parser: Expressions, block: Block, opening: Token) -> Block:
    cursor = parser.cursor
    try:
        distinct = cursor.accept("distinct") is not None
        if cursor.is_at("{") and not _is_record(cursor, 0):
            cursor.refuse(cursor.peek().span, "unexpected `{` after the `return` of a block", BLOCK_VALUE_FORM)
        value = parser.parse_value()
        order = parse_order(parser) if cursor.accept("order") else ()
        limit = parse_count(cursor, "limit") if cursor.accept("limit") else None
        if cursor.is_at(",", "as"):
            cursor.fail("`}`", BLOCK_VALUE_FORM)
        closing = cursor.expect("}", f"the block's `{{` is in {cursor.format_position(opening.span)}")
    except GaveUpError:
        leave_braces(cursor)
        raise
    span = block.span.to(closing.span)
    return replace(block, value=value, distinct=distinct, order=order, limit=limit, span=span)
