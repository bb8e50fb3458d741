"""The parser of the schema language (`.pg`)."""

from collections.abc import Callable

from omnigraph.lang.cursor import (
    Cursor,
    EnoughError,
    GaveUpError,
    ParseResult,
    decapitalize_name,
    parse_comma_list,
    parse_property_name,
    parse_type_name,
)
from omnigraph.lang.lexer import DECLARATION_KEYWORDS, DECLARATION_SYNONYMS, Language, Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import is_at_literal, parse_integer, parse_literal
from omnigraph.lang.literals import (
    BASE_TYPES,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    Literal,
    Name,
    StringLiteral,
)
from omnigraph.lang.schema_ast import (
    Annotation,
    Bound,
    CardDecl,
    CheckDecl,
    Constraint,
    Declaration,
    EdgeDecl,
    IndexDecl,
    InterfaceDecl,
    KeyDecl,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeDecl,
    SchemaFile,
    UniqueDecl,
)
from omnigraph.lang.source import Source, Span
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.type_parser import parse_type

CONSTRAINTS = ("key", "unique", "index", "range", "check")
_CONSTRAINT_EXAMPLES = {
    "key": "@key(name)",
    "unique": "@unique(name)",
    "index": "@index(name)",
    "range": "@range(age, 0..200)",
    "check": '@check(name, "pattern")',
}


def is_at_property(cursor: Cursor) -> bool:
    """Return whether a property or a constraint starts at the cursor, on a new line."""
    token = cursor.peek()
    if not token.starts_line:
        return False
    return token.text == "@" or (
        token.kind in (TokenKind.IDENT, TokenKind.TYPE) and cursor.peek(1).kind is not TokenKind.END
    )


def is_at_constraint(cursor: Cursor) -> bool:
    """Return whether the annotation at the cursor is a constraint of the whole type: a known name with parentheses."""
    # With options instead of names, as in `@index(kind="hnsw")`, it belongs to the property before it.
    has_options = cursor.peek(3).kind is TokenKind.IDENT and cursor.peek(4).text == "="
    return cursor.is_at("@") and cursor.is_followed_by(*CONSTRAINTS) and cursor.peek(2).text == "(" and not has_options


def parse_property(cursor: Cursor) -> PropertyDecl:
    """Parse `name: Type? @annotations`."""
    first = cursor.peek()
    if first.text in BASE_TYPES and cursor.peek(1).kind is TokenKind.IDENT and not cursor.peek(1).starts_line:
        cursor.advance()
        name = parse_property_name(cursor, "a property name")
        hint = f"the name stands first: `{name.text}: {first.text}`"
        cursor.refuse(first.span.to(name.span), f"expected a property, found `{first.text} {name.text}`", hint)
    name = parse_property_name(cursor, "a property")
    nullable = False
    if question := cursor.accept("?"):
        cursor.report(
            question.span, "unexpected `?` after a name", f"`?` stands after the type: `{name.text}: String?`"
        )
        nullable = True
    _expect_colon(cursor, name)
    type_, has_question = parse_type(cursor)
    if equals := cursor.accept("="):
        cursor.report(equals.span, "unexpected `=` after a type", "a default is written `@default(…)`")
        parse_literal(cursor)
    annotations: list[Annotation] = []
    while cursor.is_at("@") and not is_at_constraint(cursor):
        annotations.append(parse_annotation(cursor))
        if question := cursor.accept("?"):
            cursor.report(question.span, "unexpected `?` after an annotation", "`?` stands directly after the type")
            nullable = True
    return PropertyDecl(
        name=name,
        type=type_,
        nullable=nullable or has_question,
        annotations=tuple(annotations),
        span=name.span.to(cursor.previous),
    )


def _expect_colon(cursor: Cursor, name: Name) -> None:
    if cursor.accept(":"):
        return
    token = cursor.peek()
    is_type = token.kind is TokenKind.TYPE or token.text in ("[", "enum", "?") or token.kind is TokenKind.IDENT
    if is_type and not token.starts_line:
        cursor.report_missing(f"missing `:` after `{name.text}`", f"a property is written `{name.text}: String`")
    elif token.text in ("=", "->", "=>"):
        cursor.report(token.span, f"expected `:`, found `{token.text}`", f"a property is written `{name.text}: String`")
        cursor.advance()
    else:
        cursor.fail(
            f"`:` and a type after `{abbreviate(name.text)}`",
            f"a property is written `{abbreviate(name.text)}: String`",
        )


def parse_constraint(cursor: Cursor) -> Constraint:
    """Parse `@key(…)`, `@unique(…)`, `@index(…)`, `@range(…)` or `@check(…)`; the caller checked that one follows."""
    at = cursor.advance()
    word = cursor.advance().text
    cursor.advance()
    if word == "range":
        return _parse_range(cursor, at)
    if word == "check":
        return _parse_check(cursor, at)
    columns: list[Name] = []
    if cursor.is_at(")"):
        cursor.fail("a property name", f"for example `{_CONSTRAINT_EXAMPLES[word]}`")
    parse_comma_list(cursor, lambda: columns.append(_parse_column(cursor, word)), closing=")", what="a property")
    span = at.span.to(cursor.previous)
    match word:
        case "key":
            return KeyDecl(columns=tuple(columns), span=span)
        case "unique":
            return UniqueDecl(columns=tuple(columns), span=span)
        case _:
            return IndexDecl(columns=tuple(columns), span=span)


def _parse_column(cursor: Cursor, word: str) -> Name:
    if not cursor.is_at_kind(TokenKind.IDENT, TokenKind.TYPE, TokenKind.STRING):
        cursor.fail("a property name", f"for example `{_CONSTRAINT_EXAMPLES[word]}`")
    return parse_property_name(cursor, "a property name")


def _parse_range(cursor: Cursor, at: Token) -> RangeDecl:
    column = _parse_column(cursor, "range")
    if not cursor.accept(","):
        if is_at_literal(cursor) or cursor.is_at(".."):
            cursor.report_missing("missing `,`", f"for example `{_CONSTRAINT_EXAMPLES['range']}`")
        else:
            cursor.fail("`,`", f"for example `{_CONSTRAINT_EXAMPLES['range']}`")
    low = None if cursor.is_at("..", ")") else _parse_bound(cursor)
    if comma := cursor.accept(","):
        cursor.report(comma.span, "expected `..`, found `,`", "a range is written `low..high`")
    else:
        cursor.expect("..", "a range is written `low..high`; either end may be left out")
    high = None if cursor.is_at(")") else _parse_bound(cursor)
    return RangeDecl(column=column, low=low, high=high, span=at.span.to(cursor.expect(")").span))


def _parse_bound(cursor: Cursor) -> Bound:
    if cursor.is_at("*"):
        cursor.refuse(cursor.peek().span, "`*` is not a bound", "an open end is left out: `0..`")
    if not is_at_literal(cursor):
        cursor.fail("a number")
    start = cursor.peek()
    literal = parse_literal(cursor)
    if isinstance(literal, IntLiteral | FloatLiteral | DateLiteral | DateTimeLiteral):
        return literal
    hint = 'a bound is a number, `date("…")` or `datetime("…")`'
    return cursor.refuse(literal.span, f"`{abbreviate(start.text)}` is not a bound", hint)


def _parse_check(cursor: Cursor, at: Token) -> CheckDecl:
    column = _parse_column(cursor, "check")
    if not cursor.accept(","):
        if cursor.is_at_kind(TokenKind.STRING):
            cursor.report_missing("missing `,`", f"for example `{_CONSTRAINT_EXAMPLES['check']}`")
        else:
            cursor.fail("`,`", f"for example `{_CONSTRAINT_EXAMPLES['check']}`")
    pattern = cursor.peek()
    if pattern.kind is not TokenKind.STRING:
        cursor.fail("the pattern as a string", f"for example `{_CONSTRAINT_EXAMPLES['check']}`")
    cursor.advance()
    span = at.span.to(cursor.expect(")").span)
    return CheckDecl(column=column, pattern=str(pattern.value), pattern_span=pattern.span, span=span)


# --- annotations ---------------------------------------------------------------------------------


def parse_annotation(cursor: Cursor) -> Annotation:
    """Parse `@name`, `@name(argument)`, `@name(argument, option=literal)` or `@name(option=literal)`."""
    at = cursor.advance()
    name = parse_annotation_name(cursor)
    if name.text == "card" and cursor.is_at("("):
        # A misplaced `@card`: it is returned without its argument, so that the binder reports only that.
        return Annotation(name=name, span=parse_card(cursor, at).span)
    argument: Literal | Name | None = None
    options: list[tuple[Name, Literal]] = []
    if cursor.is_at("("):
        cursor.advance()
        if cursor.peek().kind is TokenKind.IDENT and cursor.is_followed_by("="):
            options.append(_parse_option(cursor, name))
        else:
            argument = _parse_argument(cursor, name)
        while cursor.accept(","):
            options.append(_parse_option(cursor, name))
        cursor.expect(")")
    return Annotation(name=name, argument=argument, options=tuple(options), span=at.span.to(cursor.previous))


def parse_annotation_name(cursor: Cursor) -> Name:
    """Parse the word after an `@`."""
    token = cursor.peek()
    if token.kind is TokenKind.TYPE:
        fixed = decapitalize_name(token.text)
        hint = f"annotations start with a small letter: did you mean `@{fixed}`?"
        cursor.report(token.span, f"unexpected annotation `@{token.text}`", hint)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is not TokenKind.IDENT:
        cursor.fail("the annotation's name after `@`")
    cursor.advance()
    return Name(token.text, token.span)


def _parse_argument(cursor: Cursor, name: Name) -> Literal | Name:
    token = cursor.peek()
    if token.text == ")":
        cursor.fail("an argument", f"write `@{name.text}` without parentheses, or an argument in them")
    if is_at_literal(cursor):
        return parse_literal(cursor)
    if token.kind is TokenKind.TYPE:
        cursor.report(token.span, f"expected a value, found `{token.text}`", f'write it as a string: `"{token.text}"`')
        cursor.advance()
        return StringLiteral(token.text, token.span)
    if token.kind is not TokenKind.IDENT:
        cursor.fail("a value or a name")
    cursor.advance()
    if cursor.is_at("("):
        hint = 'annotations take literals: a string, a number, `true`, `date("…")`, a list'
        cursor.refuse(token.span, f"unexpected call of `{abbreviate(token.text)}`", hint)
    return Name(token.text, token.span)


def _parse_option(cursor: Cursor, name: Name) -> tuple[Name, Literal]:
    token = cursor.peek()
    if token.kind is not TokenKind.IDENT or not cursor.is_followed_by("="):
        if name.text in CONSTRAINTS:
            hint = f"put `@{name.text}(…)` into the body: `{{ @{name.text}(…) }}`"
            cursor.refuse(name.span, f"`@{name.text}` with more than one argument can't stand here", hint)
        cursor.fail("an option", f'further arguments have names: `@{name.text}("…", model="…")`')
    cursor.advance()
    cursor.advance()
    return Name(token.text, token.span), parse_literal(cursor)


# --- cardinality ---------------------------------------------------------------------------------


def parse_card(cursor: Cursor, at: Token) -> CardDecl:
    """Parse `(min..max)` after `@card`."""
    cursor.expect("(")
    start = cursor.peek()
    if start.text in ("*", ".."):
        cursor.report(start.span, "expected the least number", "write `0..*` or `0..1`")
        low = 0
        cursor.accept("*")
    elif start.kind is TokenKind.STRING:
        cursor.refuse(
            start.span, "expected a range, found a string", f"write it without quotes: `{abbreviate(str(start.value))}`"
        )
    else:
        low = parse_integer(cursor, "the least number of edges").value
    high = _parse_card_end(cursor, start, low)
    return CardDecl(low=low, high=high, span=at.span.to(cursor.expect(")").span))


def _parse_card_end(cursor: Cursor, start: Token, low: int) -> int | None:
    if cursor.is_at(")"):
        if start.text == "*":
            return None
        cursor.report(start.span, "expected a range, found one number", f"write `{low}..{low}` or `{low}..*`")
        return low
    if comma := cursor.accept(",", "-"):
        end = cursor.peek().text
        hint = f"a range is written with `..`: `{low}..{abbreviate(end)}`"
        cursor.report(comma.span, f"expected `..`, found `{comma.text}`", hint)
    elif not cursor.accept("..") and start.text != "*":
        cursor.fail("`..`", f"a range is written `{low}..1` or `{low}..*`")
    if cursor.accept("*") or cursor.is_at(")"):
        return None
    return parse_integer(cursor, "the largest number of edges, or `*`").value


def report_unexpected_annotation(cursor: Cursor, span: Span, name: str) -> None:
    """Report an annotation where only constraints are allowed."""
    if name in CONSTRAINTS:
        hint = f"name its properties: `{_CONSTRAINT_EXAMPLES[name]}`, or put `@{name}` after a property"
    elif meant := find_closest(name, CONSTRAINTS):
        hint = f"did you mean `{_CONSTRAINT_EXAMPLES[meant]}`?"
    else:
        hint = "put it after a property, or before the `{` of the type"
    cursor.report(span, f"`@{name}` can't stand alone in a body", hint)


def parse_schema(source: Source) -> ParseResult[SchemaFile]:
    """Parse a schema. Never raises: mistakes are diagnostics of the result."""
    cursor = Cursor(source, Language.SCHEMA)
    declarations: list[Declaration] = []
    try:
        while not (cursor.is_at_end or cursor.is_full):
            before = cursor.index
            try:
                declarations.append(_parse_declaration(cursor))
            except GaveUpError:
                # An unknown word can look like the start of a declaration; without this the loop would not end.
                if cursor.index == before:
                    cursor.advance()
                cursor.skip_to(lambda: _is_at_declaration(cursor))
    except EnoughError:
        pass
    span = Span(0, len(source.text))
    return cursor.build_result(SchemaFile(declarations=tuple(declarations), span=span))


def _is_at_declaration(cursor: Cursor) -> bool:
    """Return whether a declaration starts at the cursor; a property may be called `node`, but a `:` follows it."""
    token = cursor.peek()
    if token.kind is not TokenKind.IDENT:
        return False
    name = cursor.peek(1)
    if token.text in DECLARATION_KEYWORDS:
        return name.kind is TokenKind.TYPE or (
            name.kind is TokenKind.IDENT and token.starts_line and not name.starts_line
        )
    # A misspelt keyword at the start of a line: no property looks like this.
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
    """Return the keyword at the cursor, or the one that was meant, without moving the cursor."""
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
        cursor.report_missing(f"missing `:` after `{abbreviate(name.text)}`", f"an edge is written {example}")
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
    annotations: list[Annotation] = []
    while cursor.is_at("@"):
        annotations += _parse_header_annotation(cursor)
    return annotations


def _parse_header_annotation(cursor: Cursor) -> list[Annotation]:
    """Parse an annotation of a type; one that can't be parsed is left out, and the declaration continues after it."""
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
        cursor.report_missing(f"missing `{{` after the header of {name}", "the properties of a type stand in `{ … }`")
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
            cursor.report(separator.span, f"unexpected `{separator.text}` after a property", hint)

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
        annotation = parse_annotation(cursor)
        report_unexpected_annotation(cursor, annotation.span, annotation.name.text)
        return None
    return parse_property(cursor)


def _parse_interface_member(cursor: Cursor) -> Member | None:
    if not is_at_constraint(cursor):
        return _parse_member(cursor)
    constraint = parse_constraint(cursor)
    hint = "put it into the node types that implement the interface"
    cursor.report(constraint.span, "an interface has no constraints of its own", hint)
    return None
