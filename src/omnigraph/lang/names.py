"""Names as both parsers read them, with the mistakes that people make in them."""

from collections.abc import Callable

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.words import RESERVED_WORDS

_TYPE_NAME_HINT = "type names start with a capital, as in `Person`"


def parse_type_name(cursor: Cursor, what: str, *, unknown_code: str | None = None) -> Name:
    """The name of a node, edge or interface type; `what` says which, with its article.

    A small word or a string in its place is mended. Where a type is used and not declared, `unknown` is the code of an
    unknown one, which this then is.
    """
    token = cursor.peek()
    if token.kind is TokenKind.TYPE:
        cursor.advance()
        return Name(token.text, token.span)
    if token.kind is TokenKind.IDENT and not token.starts_line and token.text not in RESERVED_WORDS:
        fixed = capitalize_name(token.text)
        hint = f"type names start with a capital: did you mean `{fixed}`?"
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint, code=unknown_code)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is TokenKind.STRING and (bare := str(token.value)).isidentifier() and bare.isascii():
        hint = f"type names are written without quotes: `{abbreviate(capitalize_name(bare))}`"
        cursor.report(token.span, f"expected {what}, found a string", hint, code=unknown_code)
        cursor.advance()
        return Name(capitalize_name(bare), token.span)
    if token.kind is TokenKind.VARIABLE:
        cursor.fail(what, f"type names are written without `$`: did you mean `{capitalize_name(str(token.value))}`?")
    if token.starts_line:
        cursor.report_missing(f"missing {what}", _TYPE_NAME_HINT)
    return cursor.fail(what, _TYPE_NAME_HINT)


def parse_property_name(cursor: Cursor, what: str) -> Name:
    """The name of a property; any small word will do, reserved or not."""
    token = cursor.peek()
    if token.kind is TokenKind.IDENT:
        cursor.advance()
        return Name(token.text, token.span)
    if token.kind is TokenKind.TYPE:
        fixed = decapitalize_name(token.text)
        hint = f"property names start with a small letter: did you mean `{fixed}`?"
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is TokenKind.STRING and (bare := str(token.value)).isidentifier() and bare.isascii():
        fixed = decapitalize_name(bare)
        hint = f"property names are written without quotes: `{abbreviate(fixed)}`"
        cursor.report(token.span, f"expected {what}, found a string", hint)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is TokenKind.VARIABLE:
        hint = f"property names are written without `$`: did you mean `{token.value}`?"
        if not cursor.is_followed_by(":", "="):
            cursor.fail(what, hint)
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint)
        cursor.advance()
        return Name(str(token.value), token.span)
    return cursor.fail(what, "property names start with a small letter, as in `name`")


def parse_comma_list(cursor: Cursor, item: Callable[[], None], *, closing: str, what: str) -> None:
    """Items with commas between them, up to `closing`, which is stepped over; at least one.

    A comma too few or one too many is reported and forgiven.
    """
    while True:
        item()
        if comma := cursor.accept(","):
            if cursor.is_at(closing):
                cursor.report(comma.span, f"unexpected `,` before `{closing}`", f"delete it, or add {what} behind it")
                break
        elif cursor.is_at(closing) or not _is_next_item(cursor):
            break
        else:
            cursor.report_missing("missing `,`", f"put a `,` between {what} and the next")
    cursor.expect(closing)


def _is_next_item(cursor: Cursor) -> bool:
    token = cursor.peek()
    return not token.starts_line and token.kind not in (TokenKind.SIGN, TokenKind.END)


def capitalize_name(name: str) -> str:
    """`works_at` and `worksAt` as a type's name: `WorksAt`."""
    parts = [part for part in name.split("_") if part]
    return "".join(part[0].upper() + part[1:] for part in parts) or "T"


def decapitalize_name(name: str) -> str:
    """`FirstName` as a property's name: `firstName`; `ID` becomes `id`."""
    return name.lower() if name.isupper() else name[:1].lower() + name[1:]
