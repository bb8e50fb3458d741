"""The types of properties and parameters."""

from omnigraph.lang.cursor import Cursor, parse_comma_list, parse_property_name
from omnigraph.lang.lexer import MAX_NAME_LENGTH, TYPE_SYNONYMS, Language, Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import parse_integer
from omnigraph.lang.literals import (
    BASE_TYPES,
    BaseType,
    EnumType,
    ListType,
    Name,
    RecordType,
    RecordTypeField,
    TypeExpr,
    VectorType,
)
from omnigraph.lang.spelling import find_closest

_TYPES_HINT = {
    Language.SCHEMA: f"the types are {', '.join(BASE_TYPES)}, Vector(N), enum(…) and [T]",
    Language.QUERY: f"the types are {', '.join(BASE_TYPES)}, Vector(N) and [T]",
}


def parse_type(cursor: Cursor) -> tuple[TypeExpr, bool]:
    """Parse a type, and return it with whether a `?` follows."""
    nullable = False
    if question := cursor.accept("?"):
        cursor.report(question.span, "unexpected `?` before a type", "`?` stands after the type: `String?`")
        nullable = True
    type_ = _parse_core_type(cursor)
    if cursor.accept("?"):
        nullable = True
    while again := cursor.accept("?"):
        cursor.report(again.span, "unexpected second `?`", "one `?` makes a type nullable")
    if cursor.is_at("!") and cursor.is_glued():
        hint = "a type without `?` is required already: delete the `!`"
        cursor.report(cursor.peek().span, "unexpected `!` after a type", hint)
        cursor.advance()
    return type_, nullable


def _parse_core_type(cursor: Cursor) -> TypeExpr:
    token = cursor.peek()
    if token.text == "[":
        return _parse_list_type(cursor)
    if token.text == "{" and cursor.language is Language.QUERY:
        record = _parse_record_type(cursor)
        hint = "records are passed in a list: `$rows: [{name: String, age: I32?}]`"
        cursor.refuse(record.span, "a parameter can't be a record", hint)
    if token.text.lower() == "enum" and cursor.is_followed_by("("):
        return _parse_enum_type(cursor)
    if token.text.lower() == "vector":
        return _parse_vector_type(cursor)
    base = _parse_base_type(cursor)
    if cursor.is_at("[") and cursor.is_followed_by("]") and cursor.is_glued():
        span = token.span.to(cursor.peek(1).span)
        cursor.report(span, f"unexpected `[]` after `{base.name}`", f"a list is written `[{base.name}]`")
        cursor.advance()
        cursor.advance()
        return ListType(base, span)
    return base


def _parse_base_type(cursor: Cursor) -> BaseType:
    token = cursor.peek()
    if token.kind not in (TokenKind.TYPE, TokenKind.IDENT) or (token.starts_line and token.kind is TokenKind.IDENT):
        if token.starts_line:
            cursor.report_missing("missing type", _TYPES_HINT[cursor.language])
        cursor.fail("a type", _TYPES_HINT[cursor.language])
    if token.text in BASE_TYPES:
        cursor.advance()
        return BaseType(token.text, token.span)
    if cursor.is_followed_by("<"):
        hint = "a list is written `[String]`, a vector `Vector(768)`"
        cursor.refuse(token.span, f"unknown type `{token.text}<…>`", hint)
    folded = token.text.lower()
    meant = TYPE_SYNONYMS.get(folded) or find_closest(token.text, BASE_TYPES)
    if meant is None:
        hint = _TYPES_HINT[cursor.language]
        if token.text == "enum":
            hint = "an enum lists its values: `enum(draft, published)`"
        elif token.kind is TokenKind.TYPE and cursor.language is Language.SCHEMA:
            hint += "; to refer to a node, declare an edge"
        cursor.refuse(token.span, f"unknown type `{abbreviate(token.text)}`", hint)
    cursor.report(token.span, f"unknown type `{token.text}`", f"did you mean `{meant}`?")
    cursor.advance()
    return BaseType(meant, token.span)


def _parse_list_type(cursor: Cursor) -> ListType:
    opening = cursor.advance()
    element: TypeExpr | RecordType
    with cursor.nest():
        is_record = cursor.is_at("{") and cursor.language is Language.QUERY
        element = _parse_record_type(cursor) if is_record else _parse_core_type(cursor)
        if question := cursor.accept("?"):
            hint = "the items of a list are never null; for a list that may be null, write `[…]?`"
            cursor.report(question.span, "unexpected `?` inside a list type", hint)
    span = opening.span.to(cursor.expect("]", f"the list's `[` is in {cursor.format_position(opening.span)}").span)
    if isinstance(element, BaseType | RecordType):
        return ListType(element, span)
    is_schema = cursor.language is Language.SCHEMA
    what = "an enum"
    if isinstance(element, ListType | VectorType):
        what = "a list" if isinstance(element, ListType) else "a Vector"
    hint = "a list holds a base type, such as `[String]` or `[F64]`"
    return cursor.refuse(element.span, f"a list can't hold {what}", hint, code="S020" if is_schema else None)


def _parse_record_type(cursor: Cursor) -> RecordType:
    """Parse `{name: String, age: I32?}`, the type of a parameter."""
    opening = cursor.advance()
    fields: list[RecordTypeField] = []

    def item() -> None:
        name = parse_property_name(cursor, "the name of a field")
        cursor.expect(":", f"a field has a type: `{abbreviate(name.text)}: String`")
        type_, nullable = parse_type(cursor)
        fields.append(RecordTypeField(name, type_, nullable, name.span.to(cursor.previous)))

    with cursor.nest():
        if closing := cursor.accept("}"):
            cursor.refuse(opening.span.to(closing.span), "a record needs a field", "for example `{name: String}`")
        parse_comma_list(cursor, item, closing="}", what="a field")
    return RecordType(tuple(fields), opening.span.to(cursor.previous))


def _parse_vector_type(cursor: Cursor) -> VectorType:
    word = cursor.advance()
    if word.text != "Vector":
        cursor.report(word.span, f"unknown type `{word.text}`", "did you mean `Vector`?")
    if not cursor.is_at("("):
        cursor.fail("`(`", "a Vector has a size: `Vector(768)`")
    cursor.advance()
    size = parse_integer(cursor, "the size of the Vector")
    return VectorType(size.value, word.span.to(cursor.expect(")").span))


def _parse_enum_type(cursor: Cursor) -> EnumType:
    word = cursor.advance()
    opening = cursor.advance()
    if word.text != "enum":
        cursor.report(word.span, f"unknown type `{word.text}`", "did you mean `enum`?")
    if cursor.language is Language.QUERY:
        hint = "use `String`: a String is compared with an enum as it is"
        cursor.report(word.span, "a parameter can't have an enum type", hint)
    values: list[Name] = []
    if closing := cursor.accept(")"):
        span = opening.span.to(closing.span)
        code = "S019" if cursor.language is Language.SCHEMA else None
        cursor.report(span, "an enum needs at least one value", "for example `enum(draft, published)`", code=code)
    else:
        parse_comma_list(cursor, lambda: values.append(_parse_enum_value(cursor)), closing=")", what="a value")
    return EnumType(tuple(values), word.span.to(cursor.previous))


def _parse_enum_value(cursor: Cursor) -> Name:
    """Parse an enum value: letters, digits, `_` and `-`, which are several adjacent tokens."""
    first = cursor.peek()
    if first.kind is TokenKind.STRING:
        cursor.advance()
        value = str(first.value)
        hint = (
            f"values are written without quotes: `{abbreviate(value)}`" if _is_value(value) else "no spaces and signs"
        )
        cursor.report(first.span, "expected a value of the enum, found a string", hint)
        return Name(value, first.span)
    if not _is_value_part(first):
        cursor.fail("a value of the enum", "values are made of letters, digits, `_` and `-`")
    span = cursor.advance().span
    while cursor.is_glued() and _is_value_part(cursor.peek()):
        span = span.to(cursor.advance().span)
    text = cursor.source.slice(span)
    if len(text) > MAX_NAME_LENGTH and span != first.span:  # a single name that is too long, the lexer reports
        message = f"a value has at most {MAX_NAME_LENGTH} characters, and `{abbreviate(text)}` has {len(text)}"
        cursor.report_limit(span, message, "shorten it")
    return Name(text[:MAX_NAME_LENGTH], span)


def _is_value_part(token: Token) -> bool:
    return token.kind in (TokenKind.IDENT, TokenKind.TYPE, TokenKind.INT) or token.text in ("-", "--")


def _is_value(text: str) -> bool:
    return text.isascii() and text.replace("-", "").replace("_", "").isalnum()
