"""A read: `match { … } return { … } order { … } limit n offset n`."""

from dataclasses import dataclass, field

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.expression_parser import parse_expression
from omnigraph.lang.lexer import Token, TokenKind, abbreviate
from omnigraph.lang.literal_parser import parse_integer
from omnigraph.lang.literals import Name
from omnigraph.lang.names import decapitalize_name
from omnigraph.lang.pattern_parser import PatternParser, is_at_block_end, is_at_query
from omnigraph.lang.query_ast import Clause, Expr, LiteralExpr, OrderKey, Projection, Read, Variable
from omnigraph.lang.query_predicates import PredicateParser
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.words import CLAUSE_SYNONYMS, RESERVED_WORDS

_PART_KEYWORDS = ("match", "return", "order", "limit", "offset")
_DIRECTIONS = {"asc": False, "desc": True}
_DIRECTION_SYNONYMS = {"ascending": "asc", "descending": "desc", "up": "asc", "down": "desc"}


@dataclass(slots=True)
class _ReadBuilder:
    """What has been read so far, and the place of each part's keyword."""

    clauses: tuple[Clause, ...] = ()
    projections: tuple[Projection, ...] = ()
    distinct: bool = False
    order: tuple[OrderKey, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    seen: list[str] = field(default_factory=list)
    reported: set[str] = field(default_factory=set)
    """Parts whose absence, place or number has been reported already."""


def parse_read(cursor: Cursor, word: str) -> Read:
    """The read at the cursor, whose first keyword is, or was meant as, `word`."""
    start = cursor.peek()
    parts = _ReadBuilder()
    clauses = PatternParser(cursor)
    if word == "return":
        if not cursor.is_explained:
            cursor.report(start.span, "missing `match` before `return`", "a read is written `match { … } return { … }`")
        parts.reported.add("match")
    next_word: str | None = word
    while next_word:
        keyword = cursor.advance()
        _check_order(cursor, parts, keyword, next_word)
        _parse_part(cursor, parts, clauses, next_word)
        next_word = _find_next_part(cursor, parts)
    if "return" not in parts.seen and "return" not in parts.reported:
        cursor.report_missing("missing `return`", "a read ends in `return { … }`")
    return Read(
        clauses=parts.clauses,
        projections=parts.projections,
        distinct=parts.distinct,
        order=parts.order,
        limit=parts.limit,
        offset=parts.offset,
        span=start.span.to(cursor.previous),
    )


def _check_order(cursor: Cursor, parts: _ReadBuilder, keyword: Token, word: str) -> None:
    if word in parts.reported:
        parts.reported.remove(word)
    elif word in parts.seen:
        if word == "match":
            parts.reported.update(_PART_KEYWORDS)
        hint = "put all clauses into one `match { … }`" if word == "match" else "keep one of them"
        cursor.report(keyword.span, f"`{word}` is given twice", hint)
    elif later := [seen for seen in parts.seen if _PART_KEYWORDS.index(seen) > _PART_KEYWORDS.index(word)]:
        hint = "the order is `match`, `return`, `order`, `limit`, `offset`"
        cursor.report(keyword.span, f"`{word}` stands before `{later[0]}`", hint)
    elif word in ("order", "limit", "offset") and "return" not in parts.seen:
        parts.reported.add("return")
        cursor.report(keyword.span, f"missing `return` before `{word}`", "a read is written `match { … } return { … }`")
    parts.seen.append(word)


def _parse_part(cursor: Cursor, parts: _ReadBuilder, clauses: PatternParser, word: str) -> None:
    match word:
        case "match":
            if not cursor.is_at("{"):
                cursor.fail("`{`", "a match block is written `match { $p: Person }`")
            parts.clauses += clauses.parse_block(cursor.advance(), "the match block")
        case "return":
            parts.distinct = cursor.accept("distinct") is not None
            if cursor.is_at("{") and cursor.is_followed_by("distinct"):
                hint = "it stands before the braces: `return distinct { … }`"
                cursor.report(cursor.peek(1).span, "unexpected `distinct` in the return block", hint)
                parts.distinct = True
            parts.projections = _parse_projections(cursor)
        case "order":
            parts.order = _parse_order(cursor)
        case "limit":
            parts.limit = _parse_count(cursor, word)
        case _:
            parts.offset = _parse_count(cursor, word)


def _find_next_part(cursor: Cursor, parts: _ReadBuilder) -> str | None:
    """The keyword of the next part, or the one that was meant; None where the read ends."""
    while True:
        token = cursor.peek()
        if token.text in _PART_KEYWORDS:
            return token.text
        if token.text == "}" and cursor.is_followed_by(*_PART_KEYWORDS[1:]):
            hint = "delete it, or look for one too many before it"
            cursor.report(token.span, f"unexpected `}}` before `{cursor.peek(1).text}`", hint)
            cursor.advance()
        elif token.text in (";", ","):
            cursor.report(token.span, f"unexpected `{token.text}`", "the parts of a read need nothing between them")
            cursor.advance()
        elif token.text in ("where", "WHERE", "filter"):
            hint = "put the predicate into the match block, where it stands alone"
            cursor.report(token.span, f"unexpected `{token.text}` behind a block", hint)
            cursor.advance()
            PredicateParser(cursor, names_properties=False).parse()
        elif token.text in ("group", "GROUP"):
            hint = "the projections that are no aggregates are the group keys: delete it"
            cursor.refuse(token.span, f"unexpected `{token.text}`", hint)
        elif token.kind not in (TokenKind.IDENT, TokenKind.TYPE) or is_at_query(cursor):
            return None
        elif meant := _guess_part(token.text, parts):
            message = f"expected {_format_expected(parts)}, found `{abbreviate(token.text)}`"
            cursor.report(token.span, message, f"did you mean `{meant}`?")
            return meant
        else:
            return None


def _format_expected(parts: _ReadBuilder) -> str:
    return "`order`, `limit` or `offset`" if "return" in parts.seen else "`return`"


def _guess_part(word: str, parts: _ReadBuilder) -> str | None:
    folded = word.lower()
    if "return" not in parts.seen:
        return "return" if folded in ("select", "yield") else find_closest(word, ("return",))
    return CLAUSE_SYNONYMS.get(folded) or find_closest(word, ("order", "limit", "offset"))


# --- return --------------------------------------------------------------------------------------


def _parse_projections(cursor: Cursor) -> tuple[Projection, ...]:
    found: list[Projection] = []

    def item() -> None:
        found.append(_parse_projection(cursor))
        if separator := cursor.accept(",", ";"):
            if separator.text == ";":
                cursor.report(separator.span, "expected `,`, found `;`", "projections are separated by `,`")
            elif extra := cursor.accept(","):
                cursor.report(extra.span, "unexpected second `,`", "delete it")

    if not cursor.is_at("{"):
        cursor.report_missing("missing `{` behind `return`", "a return is written `return { $p.name }`")
        while not (cursor.is_at("}") or cursor.is_at_end or is_at_block_end(cursor)):
            item()
        return tuple(found)
    opening = cursor.advance()
    cursor.accept("distinct")  # where it does not belong; the caller has reported it
    before = cursor.index
    cursor.parse_block(
        opening,
        "the return block",
        item,
        is_item_start=lambda: cursor.peek().starts_line and not cursor.is_at_kind(TokenKind.SIGN),
        is_block_end=lambda: is_at_block_end(cursor),
    )
    if not found and cursor.index == before + 1:
        span = opening.span.to(cursor.previous)
        cursor.report(span, "the return block is empty", "say what to return: `return { $p.name }`")
    return tuple(found)


def _parse_projection(cursor: Cursor) -> Projection:
    token = cursor.peek()
    if token.kind in (TokenKind.IDENT, TokenKind.STRING) and cursor.is_followed_by(":"):
        return _recover_reversed_alias(cursor)
    value = parse_expression(cursor)
    if cursor.is_at("=", "!=", "<", "<=", ">", ">=", "==", "<>"):
        hint = "a projection does not compare; conditions stand in the match block"
        cursor.fail("the next projection", hint)
    alias = None
    if cursor.accept("as"):
        alias = _parse_alias(cursor)
    elif cursor.is_at("AS"):
        cursor.report(cursor.advance().span, "unexpected `AS`", "write `as`")
        alias = _parse_alias(cursor)
    end = alias.span if alias else value.span
    return Projection(value=value, alias=alias, span=value.span.to(end))


def _recover_reversed_alias(cursor: Cursor) -> Projection:
    token = cursor.advance()
    cursor.advance()
    value = parse_expression(cursor)
    name = str(token.value) if token.kind is TokenKind.STRING else token.text
    text = abbreviate(cursor.source.slice(value.span))
    hint = f"a column is named with `as`: `{text} as {abbreviate(name)}`"
    cursor.report(token.span, f"unexpected `{abbreviate(token.text)}:` in a return block", hint)
    return Projection(value=value, alias=Name(name, token.span), span=token.span.to(value.span))


def _parse_alias(cursor: Cursor) -> Name:
    token = cursor.peek()
    if token.kind is TokenKind.IDENT:
        cursor.advance()
        if token.text in RESERVED_WORDS:
            cursor.report(
                token.span, f"`{token.text}` is a reserved word", f"choose another alias, such as `{token.text}_`"
            )
        return Name(token.text, token.span)
    fixed, reason = "", ""
    if token.kind is TokenKind.TYPE:
        fixed, reason = decapitalize_name(token.text), "an alias starts with a small letter"
    elif token.kind is TokenKind.VARIABLE:
        fixed, reason = str(token.value), "an alias is written without `$`"
    elif token.kind is TokenKind.STRING and str(token.value).isidentifier() and str(token.value).isascii():
        fixed, reason = decapitalize_name(str(token.value)), "an alias is written without quotes"
    if not fixed:
        cursor.fail("an alias", "an alias is a name: `$p.name as name`")
    cursor.report(
        token.span, f"expected an alias, found `{abbreviate(token.text)}`", f"{reason}: `{abbreviate(fixed)}`"
    )
    cursor.advance()
    return Name(fixed, token.span)


# --- order, limit, offset ------------------------------------------------------------------------


def _parse_order(cursor: Cursor) -> tuple[OrderKey, ...]:
    found: list[OrderKey] = []
    if by := cursor.accept("by", "BY"):
        cursor.report(by.span, f"unexpected `{by.text}` behind `order`", "an order is written `order { $p.name desc }`")

    def item() -> None:
        found.append(_parse_order_key(cursor))
        if comma := cursor.accept(","):
            if cursor.is_at("}"):
                cursor.report(comma.span, "unexpected `,` before `}`", "delete it, or add a key behind it")
        elif not (cursor.is_at("}") or cursor.is_at_end or is_at_block_end(cursor)):
            if cursor.is_at_kind(TokenKind.SIGN):
                cursor.fail("`,` or `}`")
            cursor.report_missing("missing `,`", "put a `,` between one key and the next")

    if not cursor.is_at("{"):
        cursor.report_missing("missing `{` behind `order`", "an order is written `order { $p.name desc }`")
        while not (cursor.is_at("}") or cursor.is_at_end or is_at_block_end(cursor)):
            item()
        return tuple(found)
    opening = cursor.advance()
    before = cursor.index
    cursor.parse_block(
        opening,
        "the order block",
        item,
        is_item_start=lambda: cursor.peek().starts_line and not cursor.is_at_kind(TokenKind.SIGN),
        is_block_end=lambda: is_at_block_end(cursor),
    )
    if not found and cursor.index == before + 1:
        span = opening.span.to(cursor.previous)
        cursor.report(span, "the order block is empty", "delete it, or give a key: `order { $p.name }`")
    return tuple(found)


def _parse_order_key(cursor: Cursor) -> OrderKey:
    value = parse_expression(cursor)
    token = cursor.peek()
    word = token.text if token.text in _DIRECTIONS else None
    if word is None and token.kind in (TokenKind.IDENT, TokenKind.TYPE) and not token.starts_line:
        folded = token.text.lower()
        word = folded if folded in _DIRECTIONS else _DIRECTION_SYNONYMS.get(folded)
        if word:
            cursor.report(token.span, f"expected `asc` or `desc`, found `{token.text}`", f"write `{word}`")
    if word is None:
        return OrderKey(value=value, span=value.span)
    cursor.advance()
    return OrderKey(value=value, descending=_DIRECTIONS[word], span=value.span.to(token.span))


def _parse_count(cursor: Cursor, word: str) -> Expr:
    token = cursor.peek()
    if token.kind is TokenKind.VARIABLE:
        cursor.advance()
        return Variable(name=str(token.value), span=token.span)
    if token.kind is TokenKind.IDENT and not token.starts_line and token.text not in RESERVED_WORDS:
        hint = f"a parameter starts with `$`: did you mean `${abbreviate(token.text)}`?"
        cursor.report(token.span, f"expected a number behind `{word}`, found `{abbreviate(token.text)}`", hint)
        cursor.advance()
        return Variable(name=token.text, span=token.span)
    if not cursor.is_at_kind(TokenKind.INT, TokenKind.FLOAT, TokenKind.SIGN) or cursor.is_at("}"):
        cursor.fail(f"a whole number or a parameter behind `{word}`", f"for example `{word} 10`")
    value = parse_integer(cursor, f"a whole number or a parameter behind `{word}`")
    return LiteralExpr(value=value, span=value.span)
