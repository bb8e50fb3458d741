"""Variables, properties and the names of the built-in properties, as expressions and clauses write them."""

from omnigraph.lang.cursor import Cursor, parse_property_name
from omnigraph.lang.lexer import RESERVED_WORDS, TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.query_ast import AllProperties, BareName, Expr, PropertyRef, Variable
from omnigraph.lang.spelling import find_closest

META_PROPERTIES = ("id", "src", "dst", "type")
_META_HINT = "there are `@id`, `@src`, `@dst` and `@type`"


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


def parse_variable_or_property(cursor: Cursor) -> Expr:
    """Parse `$name`, `$name.property`, `$name.@id` or `$name.*`."""
    token = cursor.advance()
    owner = Variable(name=str(token.value), span=token.span)
    return _parse_property_ref(cursor, owner) if cursor.is_at(".") else owner


def recover_property_ref(cursor: Cursor) -> Expr:
    """Parse `name.property`, and report that its `$` is missing."""
    return _parse_property_ref(cursor, recover_variable(cursor, "a variable"))


def _parse_property_ref(cursor: Cursor, owner: Variable) -> Expr:
    cursor.advance()
    if star := cursor.accept("*"):
        return AllProperties(variable=owner, span=owner.span.to(star.span))
    is_meta = cursor.is_at("@")
    name = parse_meta(cursor) if is_meta else parse_property_name(cursor, "a property name")
    return PropertyRef(variable=owner, name=name, is_meta=is_meta, span=owner.span.to(name.span))


def parse_meta_name(cursor: Cursor) -> BareName:
    """Parse `@id`, `@src`, `@dst` or `@type` without a variable, as in the predicate of a mutation."""
    at = cursor.peek()
    name = parse_meta(cursor)
    return BareName(name=name, is_meta=True, span=at.span.to(name.span))


def parse_meta(cursor: Cursor) -> Name:
    """Parse `@id`, `@src`, `@dst` or `@type`, and return the name without `@`."""
    cursor.advance()
    token = cursor.peek()
    if token.text not in META_PROPERTIES:
        hint = _META_HINT
        if token.kind is TokenKind.IDENT and (
            meant := find_closest(token.text, META_PROPERTIES) or {"from": "src", "to": "dst"}.get(token.text)
        ):
            hint = f"did you mean `@{meant}`?"
        cursor.fail("`@id`, `@src`, `@dst` or `@type`", hint)
    cursor.advance()
    return Name(token.text, token.span)
