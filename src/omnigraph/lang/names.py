"""Names as both parsers read them, with the mistakes that people make in them."""

from collections.abc import Callable

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.lexer import Kind, shown
from omnigraph.lang.literals import Name
from omnigraph.lang.words import RESERVED

_CAPITAL = "type names start with a capital, as in `Person`"


def type_name(cursor: Cursor, what: str) -> Name:
    """The name of a node, edge or interface type; `what` says which, with its article."""
    token = cursor.peek()
    if token.kind is Kind.TYPE:
        cursor.advance()
        return Name(token.text, token.span)
    if token.kind is Kind.IDENT and not token.starts_line and token.text not in RESERVED:
        fixed = capitalised(token.text)
        hint = f"type names start with a capital: did you mean `{fixed}`?"
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is Kind.STRING and (bare := str(token.value)).isidentifier() and bare.isascii():
        hint = f"type names are written without quotes: `{shown(capitalised(bare))}`"
        cursor.report(token.span, f"expected {what}, found a string", hint)
        cursor.advance()
        return Name(capitalised(bare), token.span)
    if token.kind is Kind.VARIABLE:
        cursor.fail(what, f"type names are written without `$`: did you mean `{capitalised(str(token.value))}`?")
    if token.starts_line:
        cursor.missing(f"missing {what}", _CAPITAL)
    return cursor.fail(what, _CAPITAL)


def property_name(cursor: Cursor, what: str) -> Name:
    """The name of a property; any small word will do, reserved or not."""
    token = cursor.peek()
    if token.kind is Kind.IDENT:
        cursor.advance()
        return Name(token.text, token.span)
    if token.kind is Kind.TYPE:
        fixed = decapitalised(token.text)
        hint = f"property names start with a small letter: did you mean `{fixed}`?"
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is Kind.STRING and (bare := str(token.value)).isidentifier() and bare.isascii():
        fixed = decapitalised(bare)
        hint = f"property names are written without quotes: `{shown(fixed)}`"
        cursor.report(token.span, f"expected {what}, found a string", hint)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is Kind.VARIABLE:
        hint = f"property names are written without `$`: did you mean `{token.value}`?"
        if not cursor.follows(":", "="):
            cursor.fail(what, hint)
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint)
        cursor.advance()
        return Name(str(token.value), token.span)
    return cursor.fail(what, "property names start with a small letter, as in `name`")


def comma_list(cursor: Cursor, item: Callable[[], None], *, closing: str, what: str) -> None:
    """Items with commas between them, up to `closing`, which is stepped over; at least one.

    A comma too few or one too many is reported and forgiven.
    """
    while True:
        item()
        if comma := cursor.accept(","):
            if cursor.at(closing):
                cursor.report(comma.span, f"unexpected `,` before `{closing}`", f"delete it, or add {what} behind it")
                break
        elif cursor.at(closing) or not _is_next_item(cursor):
            break
        else:
            cursor.missing("missing `,`", f"put a `,` between {what} and the next")
    cursor.expect(closing)


def _is_next_item(cursor: Cursor) -> bool:
    token = cursor.peek()
    return not token.starts_line and token.kind not in (Kind.SIGN, Kind.END)


def capitalised(name: str) -> str:
    """`works_at` and `worksAt` as a type's name: `WorksAt`."""
    parts = [part for part in name.split("_") if part]
    return "".join(part[0].upper() + part[1:] for part in parts) or "T"


def decapitalised(name: str) -> str:
    """`FirstName` as a property's name: `firstName`; `ID` becomes `id`."""
    return name.lower() if name.isupper() else name[:1].lower() + name[1:]
