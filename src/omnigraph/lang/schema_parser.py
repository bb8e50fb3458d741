"""The text of a `.pg` file into its tree."""

from collections.abc import Callable

from omnigraph.lang.cursor import Cursor, EnoughError, GaveUpError
from omnigraph.lang.lexer import Kind, Language, Token, shown
from omnigraph.lang.literals import Name
from omnigraph.lang.names import type_name
from omnigraph.lang.parsed import Parsed
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
    annotation,
    at_constraint,
    at_property,
    card,
    constraint,
    property_decl,
    unexpected_annotation,
)
from omnigraph.lang.source import Source, Span
from omnigraph.lang.spelling import closest
from omnigraph.lang.words import DECLARATIONS, DECLARATIONS_ELSEWHERE


def parse_schema(source: Source) -> Parsed[SchemaFile]:
    """The tree of a schema, and every mistake in its text; never raises, whatever the text."""
    cursor = Cursor(source, Language.SCHEMA)
    declarations: list[Declaration] = []
    try:
        while not (cursor.at_end or cursor.is_full):
            before = cursor.index
            try:
                declarations.append(_declaration(cursor))
            except GaveUpError:
                if cursor.index == before:  # an unknown word can look like the start of a declaration
                    cursor.advance()
                cursor.skip_to(lambda: _at_declaration(cursor))
    except EnoughError:
        pass
    span = Span(0, len(source.text))
    return cursor.parsed(SchemaFile(declarations=tuple(declarations), span=span))


def _at_declaration(cursor: Cursor) -> bool:
    """Whether a declaration starts at the cursor; a property may be called `node`, but a `:` follows it."""
    token = cursor.peek()
    if token.kind is not Kind.IDENT:
        return False
    name = cursor.peek(1)
    if token.text in DECLARATIONS:
        return name.kind is Kind.TYPE or (name.kind is Kind.IDENT and token.starts_line and not name.starts_line)
    # A misspelt keyword on a line of its own: no property looks like this.
    return token.starts_line and name.kind is Kind.TYPE and cursor.peek(2).text == "{"


def _declaration(cursor: Cursor) -> Declaration:
    word = _keyword(cursor)
    start = cursor.advance()
    match word:
        case "node":
            return _node(cursor, start)
        case "edge":
            return _edge(cursor, start)
        case _:
            return _interface(cursor, start)


def _keyword(cursor: Cursor) -> str:
    """The keyword at the cursor, or the one that was meant; the cursor stays before it."""
    if stray := cursor.accept("}"):
        hint = "delete it, or look for one too many before it"
        cursor.report(stray.span, "unexpected `}`: nothing is open here", hint)
        while cursor.accept("}"):
            pass
        if cursor.at_end:
            raise GaveUpError
    token = cursor.peek()
    if token.text in DECLARATIONS:
        return token.text
    if token.kind in (Kind.IDENT, Kind.TYPE) and cursor.peek(1).kind in (Kind.IDENT, Kind.TYPE):
        folded = token.text.lower()
        meant = DECLARATIONS_ELSEWHERE.get(folded) or closest(token.text, DECLARATIONS)
        if meant:
            message = f"expected `node`, `edge` or `interface`, found `{token.text}`"
            cursor.report(token.span, message, f"did you mean `{meant}`?")
            return meant
    advice = None
    if token.text in ("query", "match"):
        advice = "queries stand in a file of their own, a `.gq`"
    elif cursor.follows(":"):
        advice = "a property stands inside the `{ … }` of a type"
    return cursor.fail("`node`, `edge` or `interface`", advice)


def _node(cursor: Cursor, start: Token) -> NodeDecl:
    name = type_name(cursor, "the node's type name")
    annotations = _annotations(cursor)
    implements = _implements(cursor)
    annotations += _annotations(cursor)
    members = _body(cursor, f"`{shown(name.text)}`", lambda: _member(cursor))
    return NodeDecl(
        name=name,
        annotations=tuple(annotations),
        implements=tuple(implements),
        members=tuple(members),
        span=start.span.to(cursor.previous),
    )


def _interface(cursor: Cursor, start: Token) -> InterfaceDecl:
    name = type_name(cursor, "the interface's type name")
    if cursor.at("@"):
        cursor.report(
            cursor.peek().span, "an interface has no annotations", "put them on the node types, or on properties"
        )
        _annotations(cursor)
    members = _body(cursor, f"`{shown(name.text)}`", lambda: _interface_member(cursor))
    properties = tuple(member for member in members if isinstance(member, PropertyDecl))
    return InterfaceDecl(name=name, members=properties, span=start.span.to(cursor.previous))


def _implements(cursor: Cursor) -> list[Name]:
    token = cursor.peek()
    names: list[Name] = []
    if token.text == "implements":
        cursor.advance()
    elif token.text in (":", "extends", "is", "inherits") or (
        token.kind is Kind.IDENT and not token.starts_line and closest(token.text, ("implements",))
    ):
        cursor.report(token.span, f"expected `implements` or `{{`, found `{token.text}`", "did you mean `implements`?")
        cursor.advance()
    else:
        return names
    while True:
        names.append(type_name(cursor, "the name of an interface"))
        comma = cursor.accept(",")
        if comma and cursor.at("{", "@"):
            cursor.report(comma.span, f"unexpected `,` before `{cursor.peek().text}`", "delete it, or add an interface")
            return names
        if not comma:
            if not (cursor.at_kind(Kind.TYPE) and not cursor.peek().starts_line):
                return names
            cursor.missing("missing `,`", "put a `,` between one interface and the next")


def _edge(cursor: Cursor, start: Token) -> EdgeDecl:
    name = type_name(cursor, "the edge's type name")
    example = f"`edge {shown(name.text)}: Person -> Person`"
    if not cursor.accept(":"):
        if not cursor.at_kind(Kind.TYPE) or cursor.peek().starts_line:
            cursor.fail("`:`", f"an edge is written {example}")
        cursor.missing(f"missing `:` behind `{shown(name.text)}`", f"an edge is written {example}")
    source = type_name(cursor, "the type that the edge starts from")
    _arrow(cursor, example)
    target = type_name(cursor, "the type that the edge leads to")
    cards: list[CardDecl] = []
    annotations: list[Annotation] = []
    while cursor.at("@"):
        if cursor.follows("card") and cursor.peek(2).text == "(":
            at = cursor.advance()
            cursor.advance()
            cards.append(card(cursor, at))
        else:
            annotations += _header_annotation(cursor)
    members: list[Member] = []
    if cursor.at("{"):
        members = _body(cursor, f"`{shown(name.text)}`", lambda: _member(cursor))
    return EdgeDecl(
        name=name,
        source=source,
        target=target,
        cards=tuple(cards),
        annotations=tuple(annotations),
        members=tuple(members),
        span=start.span.to(cursor.previous),
    )


def _arrow(cursor: Cursor, example: str) -> None:
    if cursor.accept("->"):
        return
    token = cursor.peek()
    hint = f"an edge is written {example}"
    if token.text in ("=>", "--", "-", ">", "to", ",") and not token.starts_line:
        cursor.report(token.span, f"expected `->`, found `{token.text}`", hint)
        cursor.advance()
        cursor.accept(">")  # the rest of `-->`
    elif token.kind is Kind.TYPE and not token.starts_line:
        cursor.missing("missing `->`", hint)
    elif token.text == "<" and cursor.follows("-"):
        cursor.fail("`->`", "an edge is declared from its source to its target")
    else:
        cursor.fail("`->`", hint)


def _annotations(cursor: Cursor) -> list[Annotation]:
    found: list[Annotation] = []
    while cursor.at("@"):
        found += _header_annotation(cursor)
    return found


def _header_annotation(cursor: Cursor) -> list[Annotation]:
    """An annotation of a type; one that can't be read is left out, and the declaration goes on behind it."""
    try:
        return [annotation(cursor)]
    except GaveUpError:
        cursor.skip_to(lambda: cursor.at(")", "{", "}", "@") or cursor.peek().starts_line)
        cursor.accept(")")
        return []


def _body(cursor: Cursor, name: str, member: Callable[[], Member | None]) -> list[Member]:
    opening = cursor.peek()
    if opening.text == "{":
        cursor.advance()
    elif cursor.follows(":") and opening.kind is Kind.IDENT:
        cursor.missing(f"missing `{{` behind the header of {name}", "the properties of a type stand in `{ … }`")
    elif cursor.at_end or _at_declaration(cursor):
        cursor.missing(f"missing body of {name}", "a type without properties of its own has the body `{}`")
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

    cursor.block(
        opening,
        f"the body of {name}",
        item,
        starts=lambda: at_property(cursor),
        ends=lambda: _at_declaration(cursor),
    )
    return members


def _member(cursor: Cursor) -> Member | None:
    if at_constraint(cursor):
        return constraint(cursor)
    if cursor.at("@"):
        found = annotation(cursor)
        unexpected_annotation(cursor, found.span, found.name.text)
        return None
    return property_decl(cursor)


def _interface_member(cursor: Cursor) -> Member | None:
    if not at_constraint(cursor):
        return _member(cursor)
    found = constraint(cursor)
    hint = "put it into the node types that implement the interface"
    cursor.report(found.span, "an interface has no constraints of its own", hint)
    return None
