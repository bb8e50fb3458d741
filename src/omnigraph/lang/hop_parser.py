"""The hops of a `match` block: `$a knows{1,3} $b`, with several edge types, an edge variable and conditions."""

from dataclasses import replace

from omnigraph.lang.block_ends import is_at_block_end
from omnigraph.lang.cursor import Cursor, GaveUpError, decapitalize_name
from omnigraph.lang.expression_parser import ExpressionParser
from omnigraph.lang.foreign_words import ARROW_HINT
from omnigraph.lang.lexer import OPERATOR_SYNONYMS, RESERVED_WORDS, Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import parse_integer
from omnigraph.lang.literals import Name
from omnigraph.lang.name_parser import parse_variable
from omnigraph.lang.query_ast import EdgeName, Expr, HopBounds, TraversalClause, Variable
from omnigraph.lang.source import Span

_BOUNDS_HINT = "the bounds of a hop are written `{1,3}`"
OPERATOR_WORDS = frozenset({"contains", "starts_with", "in", "is", "and", "or", "not"})
_NAME_KINDS = (TokenKind.IDENT, TokenKind.TYPE, TokenKind.STRING)
_GROUP_HINT = "several edges are written `(knows|follows)`, any edge `(*)`"


def is_traversal(cursor: Cursor, ahead: int) -> bool:
    """Return whether a hop starts after the variable at the cursor."""
    token = cursor.peek(ahead)
    if token.kind is TokenKind.STRING:
        return True
    if token.kind is TokenKind.VARIABLE:
        return cursor.peek(ahead + 1).text == ":" and (not token.starts_line or _is_edge(cursor, ahead + 2))
    if token.text == "<":
        return _is_undirected(cursor, ahead + 1)
    if token.text == "(":
        return _is_group(cursor, ahead)
    next_token = cursor.peek(ahead + 1)
    if token.kind is TokenKind.TYPE and next_token.kind is TokenKind.VARIABLE:
        return True
    if token.kind not in (TokenKind.IDENT, TokenKind.TYPE) or token.text.lower() in OPERATOR_WORDS:
        return False
    if token.text in RESERVED_WORDS or token.text.lower() in OPERATOR_SYNONYMS or token.starts_line:
        return next_token.kind is TokenKind.VARIABLE or next_token.text == "{"
    return True


def _is_group(cursor: Cursor, ahead: int) -> bool:
    """Return whether edges in parentheses start there: `(*)`, or a name and `|` or `)`."""
    first, second = cursor.peek(ahead + 1), cursor.peek(ahead + 2)
    if first.text == "*":
        return second.text == ")"
    return first.kind in _NAME_KINDS and second.text in ("|", "||", ",", ")")


def _is_edge(cursor: Cursor, ahead: int) -> bool:
    """Return whether an edge, and not the type of a binding, follows a variable and `:` on a new line."""
    edge, next_token = cursor.peek(ahead), cursor.peek(ahead + 1)
    if edge.text == "(":
        ahead = _find_group_end(cursor, ahead + 1)
        edge, next_token = cursor.peek(ahead - 1), cursor.peek(ahead + 1)
        if edge.kind is not TokenKind.TYPE:
            return cursor.peek(ahead).text == ")"
    elif edge.kind is not TokenKind.TYPE:
        return edge.kind in (TokenKind.IDENT, TokenKind.STRING) or edge.text in ("<", "*")
    # A type may also be an edge's name: a variable or bounds after it decide.
    further = cursor.peek(ahead + 2)
    if next_token.kind is TokenKind.VARIABLE:
        return further.text != ":"
    return next_token.text == "{" and (further.kind is TokenKind.INT or further.text == "-")


def _find_group_end(cursor: Cursor, ahead: int) -> int:
    """Find the first token after names with `|` between them."""
    while cursor.peek(ahead).kind in _NAME_KINDS or cursor.peek(ahead).text in ("|", "*"):
        ahead += 1
    return ahead


def _is_undirected(cursor: Cursor, ahead: int) -> bool:
    """Return whether a `<` starts a hop: an edge and `>` follow, or a variable that can't start anything else."""
    first, next_token, last = cursor.peek(ahead), cursor.peek(ahead + 1), cursor.peek(ahead + 2)
    if first.text == "*":
        return next_token.text == ">"
    if first.text == "(":
        # `$a < (n)` compares; only `>` after a lone name, or `|` after the first of several, makes it a hop.
        is_lone = last.text == ")" and cursor.peek(ahead + 3).text == ">"
        return (next_token.kind in _NAME_KINDS and last.text == "|") or is_lone
    if first.kind not in _NAME_KINDS:
        return False
    if next_token.kind is TokenKind.VARIABLE and not next_token.starts_line:
        return last.starts_line or last.text in ("}", ";", ",")
    return next_token.text == ">"


def parse_traversal(expressions: ExpressionParser, source: Variable) -> TraversalClause:
    """Parse a hop whose first variable was read, with the conditions after it."""
    cursor = expressions.cursor
    edge_variable: Variable | None = None
    if cursor.is_at_kind(TokenKind.VARIABLE):
        edge_variable = parse_variable(cursor, "an edge variable")
        cursor.expect(":")
    is_undirected = cursor.accept("<") is not None
    edges_start = cursor.peek()
    edges = _parse_edges(cursor, allows_star=is_undirected or edge_variable is not None)
    edges_end = cursor.previous
    shown = abbreviate(cursor.source.slice(edges_start.span.to(edges_end)))
    if is_undirected and not cursor.accept(">"):
        cursor.report_missing("missing `>`", f"an undirected hop is written `<{shown}>`")
    if cursor.is_at("{") and _is_at_filter(cursor):
        cursor.refuse(
            cursor.peek().span, "unexpected `{` after an edge", _build_edge_filter_hint(abbreviate(source.name), shown)
        )
    bounds = _parse_bounds(cursor) if cursor.is_at("{", "*", "+") else None
    if cursor.peek().starts_line and cursor.is_followed_by(":", ".", "="):
        hint = f"a traversal is written `${abbreviate(source.name)} {shown} $other`"
        cursor.report_missing("missing the variable that the hop leads to", hint)
    if cursor.is_at("|"):
        cursor.refuse(cursor.peek().span, "unexpected `|` after an edge", _GROUP_HINT)
    if cursor.is_at("->", ">", "-", "--", "<-"):
        cursor.refuse(cursor.peek().span, f"unexpected `{cursor.peek().text}` after an edge", ARROW_HINT)
    _refuse_target(cursor, source, shown)
    target = parse_variable(cursor, "the variable that the hop leads to")
    if cursor.is_at("{") and _is_at_filter(cursor):
        hint = f"a node's filter stands after its type: `${abbreviate(target.name)}: Person {{ name: … }}`"
        cursor.refuse(cursor.peek().span, "unexpected `{` after a hop", hint)
    hop = TraversalClause(
        source=source,
        edges=edges,
        target=target,
        edge_variable=edge_variable,
        is_undirected=is_undirected,
        bounds=bounds,
        edge_span=edges_start.span.to(edges_end),
        span=source.span.to(cursor.previous),
    )
    return parse_way_conditions(expressions, hop)


def _refuse_target(cursor: Cursor, source: Variable, shown: str) -> None:
    """Refuse what other languages write between an edge and the variable after it, or instead of that variable."""
    name, token = abbreviate(source.name), cursor.peek()
    if token.kind is TokenKind.STRING and not token.starts_line:
        hint = f"a hop leads to a variable: `${name} {shown} $other  $other.@id = {abbreviate(token.text)}`"
        cursor.fail("the variable that the hop leads to", hint)
    if token.text == "}":
        cursor.fail("the variable that the hop leads to", f"a hop has one at both ends: `${name} {shown} $other`")
    if token.kind is TokenKind.TYPE and cursor.is_followed_by("(", "{") and not token.starts_line:
        type_name = abbreviate(token.text)
        other = f"${decapitalize_name(type_name)}"
        hint = f"a node has a clause of its own: `${name} {shown} {other}  {other}: {type_name} {{ name: … }}`"
        cursor.fail("the variable that the hop leads to", hint)
    if token.text in ("(", "as", "AS") and cursor.peek(1).kind is TokenKind.VARIABLE and not token.starts_line:
        hint = f"an edge variable stands before the edge: `${name} {abbreviate(cursor.peek(1).text)}:{shown} $other`"
        cursor.fail("the variable that the hop leads to", hint)
    if token.text == "(" and _is_at_filter(cursor):
        cursor.fail("the variable that the hop leads to", _build_edge_filter_hint(name, shown))
    if token.text == ":" and cursor.peek(1).kind in _NAME_KINDS and cursor.peek(2).kind is TokenKind.VARIABLE:
        hint = f"an edge variable starts with `$`: `${name} ${shown}:{abbreviate(cursor.peek(1).text)} $other`"
        cursor.fail("the variable that the hop leads to", hint)


def _is_at_filter(cursor: Cursor) -> bool:
    """Return whether `{ name: …` or `( name: …` starts at the cursor."""
    return (
        cursor.peek(1).kind is TokenKind.IDENT
        and cursor.peek(2).text in (":", "=", "==", "!=", "<", "<=", ">", ">=")
        and not cursor.peek().starts_line
    )


def _build_edge_filter_hint(source: str, edge: str) -> str:
    return f"conditions on an edge stand after the hop: `${source} {edge} $other along {{ since > 3 }}`"


def parse_way_conditions(expressions: ExpressionParser, hop: TraversalClause) -> TraversalClause:
    """Parse `along { … }` and `through { … }` in either order; each that the hop does not have yet."""
    along = hop.along or _parse_conditions(expressions, "along")
    through = hop.through or _parse_conditions(expressions, "through")
    along = along or _parse_conditions(expressions, "along")
    if (along, through) == (hop.along, hop.through):
        return hop
    return replace(hop, along=along, through=through, span=hop.source.span.to(expressions.cursor.previous))


def _parse_edges(cursor: Cursor, *, allows_star: bool) -> tuple[EdgeName, ...]:
    """Parse one edge name, `(a|b)`, `(*)` or `*`; no names stand for any edge."""
    if cursor.is_at("*") and allows_star:
        cursor.advance()
        return ()
    opening = cursor.accept("(")
    if not opening:
        return (_parse_edge(cursor),)
    if cursor.accept("*"):
        cursor.expect(")", _GROUP_HINT)
        return ()
    edges = [_parse_edge(cursor)]
    while sign := cursor.accept("|", "||", ",", "or"):
        if sign.text != "|":
            cursor.report(sign.span, f"expected `|`, found `{sign.text}`", _GROUP_HINT)
        edges.append(_parse_edge(cursor))
    cursor.expect(")", _GROUP_HINT)
    return tuple(edges)


def _parse_edge(cursor: Cursor) -> EdgeName:
    token = cursor.peek()
    if token.kind is TokenKind.STRING:
        cursor.advance()
        return EdgeName(name=Name(str(token.value), token.span), is_text=True, span=token.span)
    if token.kind not in (TokenKind.IDENT, TokenKind.TYPE):
        cursor.fail("an edge's name")
    cursor.advance()
    if token.text in RESERVED_WORDS:
        hint = f'write the edge as a string: `"{token.text}"`'
        cursor.report(token.span, f"`{token.text}` is a reserved word", hint)
    return EdgeName(name=Name(token.text, token.span), span=token.span)


# --- bounds --------------------------------------------------------------------------------------


def _parse_bounds(cursor: Cursor) -> HopBounds:
    opening = cursor.advance()
    if opening.text in ("*", "+"):
        cursor.refuse(
            opening.span, f"unexpected `{opening.text}` after an edge", f"{_BOUNDS_HINT}, without an end `{{1,*}}`"
        )
    try:
        return _parse_bounds_body(cursor, opening)
    except GaveUpError:
        # Leave the braces first: recovery counts them from here.
        cursor.skip_to(lambda: cursor.is_at("}") or cursor.peek().starts_line)
        cursor.accept("}")
        raise


def _parse_bounds_body(cursor: Cursor, opening: Token) -> HopBounds:
    low = parse_integer(cursor, "the least number of hops", _BOUNDS_HINT)
    if closing := cursor.accept("}"):
        span = opening.span.to(closing.span)
        hint = f"write both bounds: `{{{low.value},{low.value}}}` or `{{1,{low.value}}}`"
        cursor.report(span, "expected two bounds, found one", hint)
        return HopBounds(low=low.value, high=low.value, span=span)
    if dots := cursor.accept("..", "-"):
        cursor.report(dots.span, f"expected `,`, found `{dots.text}`", _BOUNDS_HINT)
    else:
        cursor.expect(",", _BOUNDS_HINT)
    if cursor.accept("*"):
        return HopBounds(low=low.value, high=None, span=opening.span.to(cursor.expect("}").span))
    if cursor.is_at("}"):
        cursor.fail("the largest number of hops", f"{_BOUNDS_HINT}, without an end `{{{low.value},*}}`")
    high = parse_integer(cursor, "the largest number of hops", f"{_BOUNDS_HINT}, with whole numbers")
    span = opening.span.to(cursor.expect("}").span)
    return HopBounds(low=low.value, high=high.value, span=span)


# --- conditions on the way -----------------------------------------------------------------------


def _parse_conditions(expressions: ExpressionParser, word: str) -> tuple[Expr, ...]:
    """Parse `along { … }` or `through { … }`, whose names are properties; nothing if it does not follow."""
    cursor = expressions.cursor
    if not cursor.is_at(word):
        return ()
    start = cursor.peek()
    if not cursor.is_followed_by("{"):
        if not start.starts_line and cursor.peek(1).kind is TokenKind.IDENT:
            cursor.fail("a clause", f"conditions on the way are written `{word} {{ since > 3 }}`")
        return ()
    cursor.advance()
    opening = cursor.advance()
    conditions: list[Expr] = []
    before = cursor.index

    def item() -> None:
        conditions.append(expressions.parse_condition())
        while separator := cursor.accept(";", ","):
            if separator.text == ",":
                cursor.report(separator.span, "unexpected `,` after a condition", "separate conditions with `;`")

    with cursor.nest(), expressions.read_names_as(properties=True):
        cursor.parse_block(
            opening,
            f"the `{word}` block",
            item,
            is_item_start=lambda: cursor.peek().starts_line and not cursor.is_at_kind(TokenKind.SIGN),
            is_block_end=lambda: is_at_block_end(cursor) and cursor.is_followed_by("{"),
        )
    if not conditions and cursor.index == before + 1:
        hint = f"delete it, or give a condition: `{word} {{ since > 3 }}`"
        cursor.report(Span(start.span.start, cursor.previous.end), f"the `{word}` block is empty", hint)
    return tuple(conditions)
