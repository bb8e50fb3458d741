"""Expressions of the query language."""

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import is_at_literal, parse_literal
from omnigraph.lang.literals import Name
from omnigraph.lang.names import parse_property_name
from omnigraph.lang.query_ast import Assignment, BareName, Call, Expr, LiteralExpr, PropertyRef, Star, Variable
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.words import RESERVED_WORDS

META_PROPERTIES = ("id", "src", "dst")
_STATEMENT_WORDS = ("where", "set", "match", "return", "insert", "update", "delete")


def parse_expression(cursor: Cursor) -> Expr:
    """A variable, a property, a literal, a call or a name."""
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
    """`$name`; a name that lacks its `$` is mended."""
    token = cursor.peek()
    if token.kind is TokenKind.VARIABLE:
        cursor.advance()
        return Variable(name=str(token.value), span=token.span)
    if token.kind in (TokenKind.IDENT, TokenKind.TYPE) and token.text not in RESERVED_WORDS and not token.starts_line:
        return recover_variable(cursor, what)
    return cursor.fail(what, "a variable is written `$name`")


def recover_variable(cursor: Cursor, what: str) -> Variable:
    """The name at the cursor as a variable, reporting that its `$` is missing."""
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
    found = PropertyRef(variable=owner, name=name, is_meta=is_meta, span=owner.span.to(name.span))
    if cursor.is_at(".") and cursor.is_glued():
        hint = "a property has no properties of its own; follow an edge to another node"
        cursor.refuse(
            cursor.peek().span, f"unexpected `.` behind `${abbreviate(owner.name)}.{abbreviate(name.text)}`", hint
        )
    return found


def parse_meta_name(cursor: Cursor) -> BareName:
    """`@id`, `@src` or `@dst`, as a mutation's predicate names them."""
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
    """`function(arguments, option=value)`; which functions there are is the binder's to know."""
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
                    cursor.report(comma.span, "unexpected `,` before `)`", "delete it, or add an argument behind it")
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
        cursor.fail("`,` or `)`", f"the `(` stands in {cursor.format_position(opening.span)}")
    cursor.report_missing("missing `,`", "put a `,` between one argument and the next")


# --- assignments ---------------------------------------------------------------------------------


def parse_assignments(cursor: Cursor, opening: Token, what: str, *, needs_commas: bool) -> tuple[Assignment, ...]:
    """`name: value` pairs up to the closing brace; the opening one has been read."""
    found: list[Assignment] = []

    def item() -> None:
        found.append(_parse_assignment(cursor))
        if separator := cursor.accept(",", ";"):
            if separator.text == ";":
                cursor.report(separator.span, "expected `,`, found `;`", "values are separated by `,`")
            elif extra := cursor.accept(","):
                cursor.report(extra.span, "unexpected second `,`", "delete it")
            elif needs_commas and cursor.is_at("}"):
                cursor.report(separator.span, "unexpected `,` before `}`", "delete it, or add a value behind it")
        elif needs_commas and _is_at_assignment(cursor):
            cursor.report_missing("missing `,`", "put a `,` between one value and the next")

    cursor.parse_block(
        opening,
        what,
        item,
        is_item_start=lambda: _is_at_assignment(cursor),
        is_block_end=lambda: _is_outside(cursor),
    )
    return tuple(found)


def _is_at_assignment(cursor: Cursor) -> bool:
    return cursor.is_at_kind(TokenKind.IDENT, TokenKind.TYPE, TokenKind.STRING) and cursor.is_followed_by(":", "=")


def _is_outside(cursor: Cursor) -> bool:
    """Whether a clause or keyword stands where a name should: the closing brace was forgotten."""
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
            cursor.report_missing(f"missing `:` behind `{abbreviate(name.text)}`", hint)
        else:
            cursor.fail(f"`:` behind `{abbreviate(name.text)}`", hint)
    value = parse_expression(cursor)
    return Assignment(name=name, value=value, span=name.span.to(value.span))
