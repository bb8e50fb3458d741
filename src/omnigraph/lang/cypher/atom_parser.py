"""The atoms of Cypher's expressions: literals, lists, maps, calls, `CASE`, comprehensions, quantifiers, subqueries."""

from typing import Final, Protocol

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.cypher import tree
from omnigraph.lang.cypher.cursor import build_name, is_at_variable, parse_symbol, parse_variable
from omnigraph.lang.cypher.pattern_parser import SHORTEST_KINDS, CypherPatterns, is_at_pattern
from omnigraph.lang.cypher.tree import Expr, QuantifierKind, SubqueryKind
from omnigraph.lang.lexer import TokenKind, abbreviate
from omnigraph.lang.literal_parser import MAX_LIST_ITEMS
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span

_CONSTANTS: Final = {"NULL": None, "TRUE": True, "FALSE": False}
_QUANTIFIERS: Final = {kind.value.upper(): kind for kind in QuantifierKind}
_SUBQUERIES: Final = {kind.value: kind for kind in SubqueryKind}
# A `CASE` or a block takes as many frames of the interpreter's stack as this many parentheses.
_LEVELS_OF_BLOCK = 4
_LEGACY_LISTS: Final = {
    "FILTER": "write `[x IN list WHERE …]`",
    "EXTRACT": "write `[x IN list | …]`",
}


class AtomContext(Protocol):
    """What atoms are parsed with."""

    cursor: Cursor
    patterns: CypherPatterns

    def parse(self) -> Expr:
        """Parse one expression."""

    def parse_statement(self) -> tree.Statement:
        """Parse the statement of a subquery, up to its closing brace."""


def parse_atom(parser: AtomContext) -> Expr:
    """Parse a value without operators."""
    cursor = parser.cursor
    token = cursor.peek()
    match token.kind:
        case TokenKind.STRING | TokenKind.INT | TokenKind.FLOAT:
            cursor.advance()
            return tree.Literal(value=token.value, span=token.span)
        case TokenKind.VARIABLE:
            cursor.advance()
            return tree.Parameter(name=str(token.value), span=token.span)
        case TokenKind.SIGN:
            return _parse_bracketed(parser)
        case TokenKind.IDENT:
            return _parse_word(parser)
        case _:
            return cursor.fail("an expression")


def _parse_bracketed(parser: AtomContext) -> Expr:
    cursor = parser.cursor
    if is_at_pattern(cursor):
        pattern = parser.patterns.parse_unnamed(None, cursor.peek().span)
        return tree.PatternPredicate(pattern=pattern, span=pattern.span)
    match cursor.peek().text:
        case "(":
            cursor.advance()
            value = parser.parse()
            cursor.expect(")")
            return value
        case "[":
            return _parse_list(parser)
        case "{":
            if cursor.peek(1).kind is TokenKind.IDENT and cursor.peek(2).text == "}":
                name = abbreviate(str(cursor.peek(1).value))
                cursor.refuse(cursor.peek().span, "unexpected `{` before a name", f"a parameter is written `${name}`")
            return parser.patterns.parse_map()
        case _:
            return cursor.fail("an expression")


def _parse_word(parser: AtomContext) -> Expr:
    cursor = parser.cursor
    token, following = cursor.peek(), cursor.peek(1).text
    word = token.text
    if word in _CONSTANTS:
        cursor.advance()
        return tree.Literal(value=_CONSTANTS[word], span=token.span)
    if word == "CASE":
        return _parse_case(parser)
    if following == "{" and word in _SUBQUERIES:
        return _parse_subquery(parser, _SUBQUERIES[word])
    if following == "(":
        special = _parse_special_call(parser)
        if special is not None:
            return special
    if _is_at_call(cursor):
        return _parse_call(parser)
    if following == "{" and is_at_variable(cursor):
        return _parse_map_projection(parser)
    name = parse_variable(cursor, "an expression")
    return tree.Variable(name=name.text, span=name.span)


# --- lists ---------------------------------------------------------------------------------------


def _parse_list(parser: AtomContext) -> Expr:
    cursor = parser.cursor
    opening = cursor.expect("[")
    if is_at_variable(cursor) and cursor.is_followed_by("IN"):
        return _parse_comprehension(parser, opening.span)
    if is_at_variable(cursor) and cursor.is_followed_by("=") and cursor.peek(2).text == "(":
        variable = parse_variable(cursor)
        cursor.advance()
        pattern = parser.patterns.parse_unnamed(variable, variable.span)
        return _parse_pattern_comprehension(parser, opening.span, pattern)
    if is_at_pattern(cursor):
        first = parser.parse()
        if isinstance(first, tree.PatternPredicate) and cursor.is_at("|", "WHERE"):
            return _parse_pattern_comprehension(parser, opening.span, first.pattern)
        return _parse_items(parser, opening.span, first)
    if closing := cursor.accept("]"):
        return tree.ListLiteral(items=(), span=opening.span.to(closing.span))
    return _parse_items(parser, opening.span, parser.parse())


def _parse_items(parser: AtomContext, opening: Span, first: Expr) -> Expr:
    cursor = parser.cursor
    items = [first]
    while cursor.accept(","):
        if len(items) == MAX_LIST_ITEMS:
            message = f"a list has at most {MAX_LIST_ITEMS} items"
            cursor.refuse(cursor.previous, message, "pass it as a parameter", code="C001")
        items.append(parser.parse())
    closing = cursor.expect("]", "the items of a list are separated by commas")
    return tree.ListLiteral(items=tuple(items), span=opening.to(closing.span))


def _parse_comprehension(parser: AtomContext, opening: Span) -> Expr:
    cursor = parser.cursor
    variable = parse_variable(cursor)
    op_span = cursor.expect("IN").span
    source = parser.parse()
    # `[x IN list, 3]` is a list whose first item is a test.
    if cursor.is_at(","):
        left = tree.Variable(name=variable.text, span=variable.span)
        span = variable.span.to(source.span)
        first = tree.Binary(op=tree.BinaryOp.IN, left=left, right=source, op_span=op_span, span=span)
        return _parse_items(parser, opening, first)
    where = parser.parse() if cursor.accept("WHERE") else None
    value = parser.parse() if cursor.accept("|") else None
    closing = cursor.expect("]", "a list comprehension is written `[x IN list WHERE x > 0 | x + 1]`")
    span = opening.to(closing.span)
    return tree.ListComprehension(variable=variable, source=source, where=where, value=value, span=span)


def _parse_pattern_comprehension(parser: AtomContext, opening: Span, pattern: tree.PathPattern) -> Expr:
    cursor = parser.cursor
    where = parser.parse() if cursor.accept("WHERE") else None
    cursor.expect("|", "a pattern comprehension is written `[(a)-->(b) WHERE … | b.name]`")
    value = parser.parse()
    closing = cursor.expect("]")
    return tree.PatternComprehension(pattern=pattern, where=where, value=value, span=opening.to(closing.span))


# --- calls ---------------------------------------------------------------------------------------


def _is_at_call(cursor: Cursor) -> bool:
    """Return whether `name(` or `name.name(` starts at the cursor."""
    ahead = 1
    while cursor.peek(ahead).text == "." and cursor.peek(ahead + 1).kind is TokenKind.IDENT:
        ahead += 2
    is_reserved = not is_at_variable(cursor)
    return cursor.peek(ahead).text == "(" and cursor.peek(ahead).kind is TokenKind.SIGN and not is_reserved


def parse_dotted_name(cursor: Cursor, what: str) -> Name:
    """Parse the name of a function or procedure, such as `db.labels`."""
    name = parse_symbol(cursor, what)
    text, span = name.text, name.span
    while cursor.is_at(".") and cursor.peek(1).kind is TokenKind.IDENT:
        cursor.advance()
        part = parse_symbol(cursor, what)
        text, span = f"{text}.{part.text}", span.to(part.span)
    return Name(text, span)


def _parse_call(parser: AtomContext) -> Expr:
    cursor = parser.cursor
    name = parse_dotted_name(cursor, "a function")
    cursor.expect("(")
    if name.text.lower() == "count" and cursor.is_at("*"):
        cursor.advance()
        closing = cursor.expect(")")
        return tree.CountStar(span=name.span.to(closing.span))
    distinct = cursor.accept("DISTINCT") is not None
    if not distinct:
        cursor.accept("ALL")
    arguments: list[Expr] = []
    while not cursor.is_at(")"):
        arguments.append(parser.parse())
        if not cursor.accept(","):
            break
    closing = cursor.expect(")", f"the arguments of `{name.text}` are separated by commas")
    return tree.Call(function=name, arguments=tuple(arguments), distinct=distinct, span=name.span.to(closing.span))


def _parse_special_call(parser: AtomContext) -> Expr | None:
    """Parse a call whose arguments have a form of their own: quantifiers, `reduce`, `shortestPath`."""
    cursor = parser.cursor
    token = cursor.peek()
    is_over_list = is_at_variable(cursor, 2) and cursor.peek(3).text == "IN"
    if token.text in _QUANTIFIERS and is_over_list:
        return _parse_quantifier(parser, _QUANTIFIERS[token.text])
    if token.text in _LEGACY_LISTS and is_over_list:
        name = token.text.lower()
        cursor.refuse(token.span, f"`{name}` over a list is not supported", _LEGACY_LISTS[token.text], code="C002")
    if token.text == "REDUCE":
        return _parse_reduce(parser)
    if token.text in SHORTEST_KINDS:
        pattern = parser.patterns.parse_unnamed(None, token.span)
        return tree.PatternPredicate(pattern=pattern, span=pattern.span)
    return None


def _parse_quantifier(parser: AtomContext, kind: QuantifierKind) -> Expr:
    cursor = parser.cursor
    word = cursor.advance()
    cursor.expect("(")
    variable = parse_variable(cursor)
    cursor.expect("IN")
    source = parser.parse()
    cursor.expect("WHERE", f"a quantifier is written `{kind.value}(x IN list WHERE x > 0)`")
    where = parser.parse()
    closing = cursor.expect(")")
    span = word.span.to(closing.span)
    return tree.Quantifier(kind=kind, variable=variable, source=source, where=where, span=span)


def _parse_reduce(parser: AtomContext) -> Expr:
    cursor = parser.cursor
    form = "`reduce` is written `reduce(total = 0, x IN list | total + x)`"
    word = cursor.advance()
    cursor.expect("(")
    accumulator = parse_variable(cursor)
    cursor.expect("=", form)
    initial = parser.parse()
    cursor.expect(",", form)
    variable = parse_variable(cursor)
    cursor.expect("IN", form)
    source = parser.parse()
    cursor.expect("|", form)
    value = parser.parse()
    closing = cursor.expect(")", form)
    return tree.Reduce(
        accumulator=accumulator,
        initial=initial,
        variable=variable,
        source=source,
        value=value,
        span=word.span.to(closing.span),
    )


# --- blocks --------------------------------------------------------------------------------------


def _parse_case(parser: AtomContext) -> Expr:
    cursor = parser.cursor
    form = "it is written `CASE WHEN a > 1 THEN 'x' ELSE 'y' END` or `CASE a WHEN 1 THEN 'x' END`"
    with cursor.nest(_LEVELS_OF_BLOCK):
        word = cursor.advance()
        operand = None if cursor.is_at("WHEN") else parser.parse()
        branches: list[tuple[Expr, Expr]] = []
        while cursor.accept("WHEN"):
            conditions = [parser.parse()]
            while operand is not None and cursor.accept(","):
                conditions.append(parser.parse())
            cursor.expect("THEN", form)
            value = parser.parse()
            branches.extend((condition, value) for condition in conditions)
        if not branches:
            cursor.fail("`WHEN`", form)
        otherwise = parser.parse() if cursor.accept("ELSE") else None
        closing = cursor.expect("END", form)
    span = word.span.to(closing.span)
    return tree.Case(operand=operand, branches=tuple(branches), otherwise=otherwise, span=span)


def _parse_subquery(parser: AtomContext, kind: SubqueryKind) -> Expr:
    cursor = parser.cursor
    with cursor.nest(_LEVELS_OF_BLOCK):
        word = cursor.advance()
        cursor.expect("{")
        statement = parser.parse_statement()
        closing = cursor.expect("}", f"the statement of `{kind.value}` stands in braces")
    has_return = all(isinstance(query.clauses[-1], tree.Return) for query in statement.queries if query.clauses)
    if kind is SubqueryKind.COLLECT and not has_return:
        hint = "write `COLLECT { MATCH (a)-->(b) RETURN b.name }`"
        cursor.report(word.span, "`COLLECT` needs a `RETURN` of one value", hint)
    return tree.Subquery(kind=kind, statement=statement, span=word.span.to(closing.span))


def _parse_map_projection(parser: AtomContext) -> Expr:
    cursor = parser.cursor
    name = build_name(cursor.advance())
    cursor.expect("{")
    items: list[tree.ProjectedItem] = []
    while not cursor.is_at("}"):
        items.append(_parse_projected(parser))
        if not cursor.accept(","):
            break
    closing = cursor.expect("}", "a map projection is written `p {.name, .*, friends: 3}`")
    variable = tree.Variable(name=name.text, span=name.span)
    return tree.MapProjection(variable=variable, items=tuple(items), span=name.span.to(closing.span))


def _parse_projected(parser: AtomContext) -> tree.ProjectedItem:
    cursor = parser.cursor
    if cursor.accept("."):
        if star := cursor.accept("*"):
            return tree.ProjectedAll(span=star.span)
        return tree.ProjectedKey(key=parse_symbol(cursor, "a property key"))
    if cursor.is_followed_by(":"):
        key = parse_symbol(cursor, "a key")
        cursor.advance()
        return tree.ProjectedEntry(key=key, value=parser.parse())
    name = parse_variable(cursor, "a key")
    return tree.ProjectedVariable(variable=tree.Variable(name=name.text, span=name.span))
