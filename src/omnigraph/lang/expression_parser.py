"""Expressions of the query language."""

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import Kind, Token, shown
from omnigraph.lang.literal_parser import at_literal, literal
from omnigraph.lang.literals import Name
from omnigraph.lang.names import property_name
from omnigraph.lang.query_ast import Assignment, BareName, Call, Expr, LiteralExpr, PropertyRef, Star, Variable
from omnigraph.lang.spelling import closest
from omnigraph.lang.words import RESERVED

META = ("id", "src", "dst")
_NEVER_INSIDE = ("where", "set", "match", "return", "insert", "update", "delete")


def expression(cursor: Cursor) -> Expr:
    """A variable, a property, a literal, a call or a name."""
    token = cursor.peek()
    if token.kind is Kind.VARIABLE:
        return _variable_or_property(cursor)
    if at_literal(cursor):
        value = literal(cursor)
        return LiteralExpr(value=value, span=value.span)
    if token.kind in (Kind.IDENT, Kind.TYPE):
        return _word(cursor, token)
    if token.text == "@":
        return meta_name(cursor)
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


def _word(cursor: Cursor, token: Token) -> Expr:
    if cursor.follows("("):
        return call(cursor)
    if cursor.follows(".") and cursor.is_glued(1):
        return _without_dollar(cursor)
    if token.text in RESERVED:
        cursor.fail("an expression", f"`{token.text}` is a reserved word")
    if token.kind is Kind.TYPE:
        hint = f"names start with a small letter; a variable is written `${token.text[0].lower()}{token.text[1:]}`"
        cursor.fail("an expression", hint)
    cursor.advance()
    return BareName(name=Name(token.text, token.span), span=token.span)


def variable(cursor: Cursor, what: str) -> Variable:
    """`$name`; a name that lacks its `$` is mended."""
    token = cursor.peek()
    if token.kind is Kind.VARIABLE:
        cursor.advance()
        return Variable(name=str(token.value), span=token.span)
    if token.kind in (Kind.IDENT, Kind.TYPE) and token.text not in RESERVED and not token.starts_line:
        return mended_variable(cursor, what)
    return cursor.fail(what, "a variable is written `$name`")


def mended_variable(cursor: Cursor, what: str) -> Variable:
    """The name at the cursor as a variable, reporting that its `$` is missing."""
    token = cursor.peek()
    name = token.text[0].lower() + token.text[1:]
    if not cursor.is_explained:
        hint = f"variables start with `$`: did you mean `${shown(name)}`?"
        cursor.report(token.span, f"expected {what}, found `{shown(token.text)}`", hint)
    cursor.advance()
    return Variable(name=name, span=token.span)


def _variable_or_property(cursor: Cursor) -> Expr:
    token = cursor.advance()
    owner = Variable(name=str(token.value), span=token.span)
    return _property_of(cursor, owner) if cursor.at(".") else owner


def _without_dollar(cursor: Cursor) -> Expr:
    return _property_of(cursor, mended_variable(cursor, "a variable"))


def _property_of(cursor: Cursor, owner: Variable) -> PropertyRef:
    cursor.advance()
    is_meta = cursor.at("@")
    name = _meta(cursor) if is_meta else property_name(cursor, "a property name")
    found = PropertyRef(variable=owner, name=name, is_meta=is_meta, span=owner.span.to(name.span))
    if cursor.at(".") and cursor.is_glued():
        hint = "a property has no properties of its own; follow an edge to another node"
        cursor.refuse(cursor.peek().span, f"unexpected `.` behind `${shown(owner.name)}.{shown(name.text)}`", hint)
    return found


def meta_name(cursor: Cursor) -> BareName:
    """`@id`, `@src` or `@dst`, as a mutation's predicate names them."""
    at = cursor.peek()
    name = _meta(cursor)
    return BareName(name=name, is_meta=True, span=at.span.to(name.span))


def _meta(cursor: Cursor) -> Name:
    cursor.advance()
    token = cursor.peek()
    if token.text not in META:
        hint = "there are `@id`, `@src` and `@dst`"
        if token.kind is Kind.IDENT and (
            meant := closest(token.text, META) or {"from": "src", "to": "dst"}.get(token.text)
        ):
            hint = f"did you mean `@{meant}`?"
        cursor.fail("`@id`, `@src` or `@dst`", hint)
    cursor.advance()
    return Name(token.text, token.span)


# --- calls ---------------------------------------------------------------------------------------


def call(cursor: Cursor) -> Call:
    """`function(arguments, option=value)`; which functions there are is the binder's to know."""
    word = cursor.advance()
    function = Name(word.text, word.span)
    if word.kind is Kind.TYPE:
        function = Name(word.text.lower(), word.span)
        hint = f"functions are written in small letters: `{shown(function.text)}(…)`"
        cursor.report(word.span, f"unexpected function `{shown(word.text)}`", hint)
    elif word.text in RESERVED:
        cursor.report(word.span, f"`{word.text}` is a reserved word, not a function")
    opening = cursor.advance()
    arguments: list[Expr] = []
    options: list[tuple[Name, Expr]] = []
    distinct = cursor.accept("distinct") is not None
    with cursor.nested():
        while not cursor.at(")"):
            _one_argument(cursor, arguments, options)
            if comma := cursor.accept(","):
                if cursor.at(")"):
                    cursor.report(comma.span, "unexpected `,` before `)`", "delete it, or add an argument behind it")
            elif not cursor.at(")"):
                _no_comma(cursor, opening)
    span = word.span.to(cursor.advance().span)
    return Call(function=function, arguments=tuple(arguments), distinct=distinct, options=tuple(options), span=span)


def _one_argument(cursor: Cursor, arguments: list[Expr], options: list[tuple[Name, Expr]]) -> None:
    token = cursor.peek()
    if token.text == "*":
        cursor.advance()
        arguments.append(Star(span=token.span))
    elif token.kind is Kind.IDENT and token.text not in RESERVED and cursor.follows("=", ":"):
        cursor.advance()
        sign = cursor.advance()
        if sign.text == ":":
            cursor.report(sign.span, "expected `=`, found `:`", f"an option is written `{shown(token.text)}=…`")
        options.append((Name(token.text, token.span), expression(cursor)))
    else:
        arguments.append(expression(cursor))


def _no_comma(cursor: Cursor, opening: Token) -> None:
    token = cursor.peek()
    if token.kind in (Kind.SIGN, Kind.END) or token.starts_line or token.text in RESERVED:
        cursor.fail("`,` or `)`", f"the `(` stands in {cursor.place(opening.span)}")
    cursor.missing("missing `,`", "put a `,` between one argument and the next")


# --- assignments ---------------------------------------------------------------------------------


def assignments(cursor: Cursor, opening: Token, what: str, *, needs_commas: bool) -> tuple[Assignment, ...]:
    """`name: value` pairs up to the closing brace; the opening one has been read."""
    found: list[Assignment] = []

    def item() -> None:
        found.append(_assignment(cursor))
        if separator := cursor.accept(",", ";"):
            if separator.text == ";":
                cursor.report(separator.span, "expected `,`, found `;`", "values are separated by `,`")
            elif extra := cursor.accept(","):
                cursor.report(extra.span, "unexpected second `,`", "delete it")
            elif needs_commas and cursor.at("}"):
                cursor.report(separator.span, "unexpected `,` before `}`", "delete it, or add a value behind it")
        elif needs_commas and _at_assignment(cursor):
            cursor.missing("missing `,`", "put a `,` between one value and the next")

    cursor.block(
        opening,
        what,
        item,
        starts=lambda: _at_assignment(cursor),
        ends=lambda: _is_outside(cursor),
    )
    return tuple(found)


def _at_assignment(cursor: Cursor) -> bool:
    return cursor.at_kind(Kind.IDENT, Kind.TYPE, Kind.STRING) and cursor.follows(":", "=")


def _is_outside(cursor: Cursor) -> bool:
    """Whether a clause or keyword stands where a name should: the closing brace was forgotten."""
    token = cursor.peek()
    if token.text in _NEVER_INSIDE:
        return not cursor.follows(":", "=")
    if not token.starts_line:
        return False
    if token.kind is Kind.VARIABLE:
        return not cursor.follows("=")
    return (token.text in RESERVED or token.text == "query") and not cursor.follows(":", "=")


def _assignment(cursor: Cursor) -> Assignment:
    name = property_name(cursor, "a property name")
    if not cursor.accept(":"):
        token = cursor.peek()
        hint = f"a value is given with `:`, as in `{shown(name.text)}: …`"
        if token.text in ("=", "==", ":="):
            cursor.report(token.span, f"expected `:`, found `{token.text}`", hint)
            cursor.advance()
        elif not token.starts_line and (at_literal(cursor) or token.kind is Kind.VARIABLE):
            cursor.missing(f"missing `:` behind `{shown(name.text)}`", hint)
        else:
            cursor.fail(f"`:` behind `{shown(name.text)}`", hint)
    value = expression(cursor)
    return Assignment(name=name, value=value, span=name.span.to(value.span))
