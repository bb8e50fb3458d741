"""The text of a `.pg` file into its tree."""

from collections.abc import Callable

from omnigraph.lang.cursor import Cursor, EnoughError, GaveUpError
from omnigraph.lang.lexer import Language, Token, TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.names import parse_type_name
from omnigraph.lang.parsed import ParseResult
from omnigraph.lang.schema_ast import (
    Annotation,
    CardDecl,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    Member,
    NodeDecl,
    PropertyDecl,
    SchemaFile,
)
from omnigraph.lang.schema_members import (
    is_at_constraint,
    is_at_property,
    parse_annotation,
    parse_card,
    parse_constraint,
    parse_property,
    report_unexpected_annotation,
)
from omnigraph.lang.source import Source, Span
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.words import DECLARATION_KEYWORDS, DECLARATION_SYNONYMS


def parse_schema(source: Source) -> ParseResult[SchemaFile]:
    """The tree of a schema, and every mistake in its text; never raises, whatever the text."""
    cursor = Cursor(source, Language.SCHEMA)
    declarations: list[Declaration] = []
    try:
        while not (cursor.is_at_end or cursor.is_full):
            before = cursor.index
            try:
                declarations.append(_parse_declaration(cursor))
            except GaveUpError:
                if cursor.index == before:  # an unknown word can look like the start of a declaration
                    cursor.advance()
                cursor.skip_to(lambda: _is_at_declaration(cursor))
    except EnoughError:
        pass
    span = Span(0, len(source.text))
    return cursor.build_result(SchemaFile(declarations=tuple(declarations), span=span))


def _is_at_declaration(cursor: Cursor) -> bool:
    """Whether a declaration starts at the cursor; a property may be called `node`, but a `:` follows it."""
    token = cursor.peek()
    if token.kind is not TokenKind.IDENT:
        return False
    name = cursor.peek(1)
    if token.text in DECLARATION_KEYWORDS:
        return name.kind is TokenKind.TYPE or (
            name.kind is TokenKind.IDENT and token.starts_line and not name.starts_line
        )
    # A misspelt keyword on a line of its own: no property looks like this.
    return token.starts_line and name.kind is TokenKind.TYPE and cursor.peek(2).text == "{"


def _parse_declaration(cursor: Cursor) -> Declaration:
    word = _peek_keyword(cursor)
    start = cursor.advance()
    match word:
        case "node":
            return _parse_node(cursor, start)
        case "edge":
            return _parse_edge(cursor, start)
        case _:
            return _parse_interface(cursor, start)


def _peek_keyword(cursor: Cursor) -> str:
    """The keyword at the cursor, or the one that was meant; the cursor stays before it."""
    if stray := cursor.accept("}"):
        hint = "delete it, or look for one too many before it"
        cursor.report(stray.span, "unexpected `}`: nothing is open here", hint)
        while cursor.accept("}"):
            pass
        if cursor.is_at_end:
            raise GaveUpError
    token = cursor.peek()
    if token.text in DECLARATION_KEYWORDS:
        return token.text
    if token.kind in (TokenKind.IDENT, TokenKind.TYPE) and cursor.peek(1).kind in (TokenKind.IDENT, TokenKind.TYPE):
        folded = token.text.lower()
        meant = DECLARATION_SYNONYMS.get(folded) or find_closest(token.text, DECLARATION_KEYWORDS)
        if meant:
            message = f"expected `node`, `edge` or `interface`, found `{token.text}`"
            cursor.report(token.span, message, f"did you mean `{meant}`?")
            return meant
    advice = None
    if token.text in ("query", "match"):
        advice = "queries stand in a file of their own, a `.gq`"
    elif cursor.is_followed_by(":"):
        advice = "a property stands inside the `{ … }` of a type"
    return cursor.fail("`node`, `edge` or `interface`", advice)


def _parse_node(cursor: Cursor, start: Token) -> NodeDecl:
    name = parse_type_name(cursor, "the node's type name")
    annotations = _parse_annotations(cursor)
    implements = _parse_implements(cursor)
    annotations += _parse_annotations(cursor)
    members = _parse_body(cursor, f"`{abbreviate(name.text)}`", lambda: _parse_member(cursor))
    return NodeDecl(
        name=name,
        annotations=tuple(annotations),
        implements=tuple(implements),
        members=tuple(members),
        span=start.span.to(cursor.previous),
    )


def _parse_interface(cursor: Cursor, start: Token) -> InterfaceDecl:
    name = parse_type_name(cursor, "the interface's type name")
    if cursor.is_at("@"):
        cursor.report(
            cursor.peek().span, "an interface has no annotations", "put them on the node types, or on properties"
        )
        _parse_annotations(cursor)
    members = _parse_body(cursor, f"`{abbreviate(name.text)}`", lambda: _parse_interface_member(cursor))
    properties = tuple(member for member in members if isinstance(member, PropertyDecl))
    return InterfaceDecl(name=name, members=properties, span=start.span.to(cursor.previous))


def _parse_implements(cursor: Cursor) -> list[Name]:
    token = cursor.peek()
    names: list[Name] = []
    if token.text == "implements":
        cursor.advance()
    elif token.text in (":", "extends", "is", "inherits") or (
        token.kind is TokenKind.IDENT and not token.starts_line and find_closest(token.text, ("implements",))
    ):
        cursor.report(token.span, f"expected `implements` or `{{`, found `{token.text}`", "did you mean `implements`?")
        cursor.advance()
    else:
        return names
    while True:
        names.append(parse_type_name(cursor, "the name of an interface"))
        comma = cursor.accept(",")
        if comma and cursor.is_at("{", "@"):
            cursor.report(comma.span, f"unexpected `,` before `{cursor.peek().text}`", "delete it, or add an interface")
            return names
        if not comma:
            if not (cursor.is_at_kind(TokenKind.TYPE) and not cursor.peek().starts_line):
                return names
            cursor.report_missing("missing `,`", "put a `,` between one interface and the next")


def _parse_edge(cursor: Cursor, start: Token) -> EdgeDecl:
    name = parse_type_name(cursor, "the edge's type name")
    example = f"`edge {abbreviate(name.text)}: Person -> Person`"
    if not cursor.accept(":"):
        if not cursor.is_at_kind(TokenKind.TYPE) or cursor.peek().starts_line:
            cursor.fail("`:`", f"an edge is written {example}")
        cursor.report_missing(f"missing `:` behind `{abbreviate(name.text)}`", f"an edge is written {example}")
    source = parse_type_name(cursor, "the type that the edge starts from")
    _expect_arrow(cursor, example)
    target = parse_type_name(cursor, "the type that the edge leads to")
    cards: list[CardDecl] = []
    annotations: list[Annotation] = []
    while cursor.is_at("@"):
        if cursor.is_followed_by("card") and cursor.peek(2).text == "(":
            at = cursor.advance()
            cursor.advance()
            cards.append(parse_card(cursor, at))
        else:
            annotations += _parse_header_annotation(cursor)
    members: list[Member] = []
    if cursor.is_at("{"):
        members = _parse_body(cursor, f"`{abbreviate(name.text)}`", lambda: _parse_member(cursor))
    return EdgeDecl(
        name=name,
        source=source,
        target=target,
        cards=tuple(cards),
        annotations=tuple(annotations),
        members=tuple(members),
        span=start.span.to(cursor.previous),
    )


def _expect_arrow(cursor: Cursor, example: str) -> None:
    if cursor.accept("->"):
        return
    token = cursor.peek()
    hint = f"an edge is written {example}"
    if token.text in ("=>", "--", "-", ">", "to", ",") and not token.starts_line:
        cursor.report(token.span, f"expected `->`, found `{token.text}`", hint)
        cursor.advance()
        cursor.accept(">")  # the rest of `-->`
    elif token.kind is TokenKind.TYPE and not token.starts_line:
        cursor.report_missing("missing `->`", hint)
    elif token.text == "<" and cursor.is_followed_by("-"):
        cursor.fail("`->`", "an edge is declared from its source to its target")
    else:
        cursor.fail("`->`", hint)


def _parse_annotations(cursor: Cursor) -> list[Annotation]:
    found: list[Annotation] = []
    while cursor.is_at("@"):
        found += _parse_header_annotation(cursor)
    return found


def _parse_header_annotation(cursor: Cursor) -> list[Annotation]:
    """An annotation of a type; one that can't be read is left out, and the declaration goes on behind it."""
    try:
        return [parse_annotation(cursor)]
    except GaveUpError:
        cursor.skip_to(lambda: cursor.is_at(")", "{", "}", "@") or cursor.peek().starts_line)
        cursor.accept(")")
        return []


def _parse_body(cursor: Cursor, name: str, member: Callable[[], Member | None]) -> list[Member]:
    opening = cursor.peek()
    if opening.text == "{":
        cursor.advance()
    elif cursor.is_followed_by(":") and opening.kind is TokenKind.IDENT:
        cursor.report_missing(f"missing `{{` behind the header of {name}", "the properties of a type stand in `{ … }`")
    elif cursor.is_at_end or _is_at_declaration(cursor):
        cursor.report_missing(f"missing body of {name}", "a type without properties of its own has the body `{}`")
        raise GaveUpError
    else:
        cursor.fail("`{`")
    members: list[Member] = []

    def item() -> None:
        if (found := member()) is not None:
            members.append(found)
        if separator := cursor.accept(",", ";"):
            hint = "properties need no separators, only a line or a space between them"
            cursor.report(separator.span, f"unexpected `{separator.text}` behind a property", hint)

    cursor.parse_block(
        opening,
        f"the body of {name}",
        item,
        is_item_start=lambda: is_at_property(cursor),
        is_block_end=lambda: _is_at_declaration(cursor),
    )
    return members


def _parse_member(cursor: Cursor) -> Member | None:
    if is_at_constraint(cursor):
        return parse_constraint(cursor)
    if cursor.is_at("@"):
        found = parse_annotation(cursor)
        report_unexpected_annotation(cursor, found.span, found.name.text)
        return None
    return parse_property(cursor)


def _parse_interface_member(cursor: Cursor) -> Member | None:
    if not is_at_constraint(cursor):
        return _parse_member(cursor)
    found = parse_constraint(cursor)
    hint = "put it into the node types that implement the interface"
    cursor.report(found.span, "an interface has no constraints of its own", hint)
    return None
