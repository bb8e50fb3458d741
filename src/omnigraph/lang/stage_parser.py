"""Reads: `match`, stages that `with` ends, `return`, what follows them, and `union` between them."""

from dataclasses import dataclass, field, replace

from omnigraph.lang.block_ends import is_at_declaration
from omnigraph.lang.cursor import Cursor, GaveUpError
from omnigraph.lang.foreign_words import MATCH_FORM, PART_HINTS
from omnigraph.lang.lexer import CLAUSE_SYNONYMS, Token, TokenKind, abbreviate
from omnigraph.lang.order_parser import is_at_per, parse_count, parse_order, parse_per
from omnigraph.lang.pattern_parser import PatternParser
from omnigraph.lang.projection_parser import parse_projections
from omnigraph.lang.query_ast import Clause, DriveMatch, Expr, OrderKey, Projection, Read, Stage, Union
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.value_parser import leave_braces

MUTATIONS = ("insert", "update", "delete")
# The parts of a stage or read in their order; `with` ends a stage where `return` ends the read.
_PART_KEYWORDS = ("match", "with", "return", "having", "order", "limit", "offset")
_AFTER_COLUMNS = ("having", "order", "limit", "offset")
_READ_FORM = "a read is written `match { … } return { … }`"
_PER_EXAMPLE = "order { $p.size desc } limit 3 per { $c }"


@dataclass(slots=True)
class _StageBuilder:
    """What has been read of one stage or of the read's last part, and the words seen."""

    start: Token
    clauses: tuple[Clause, ...] = ()
    projections: tuple[Projection, ...] = ()
    distinct: bool = False
    having: Expr | None = None
    order: tuple[OrderKey, ...] = ()
    limit: Expr | None = None
    per: tuple[Expr, ...] = ()
    offset: Expr | None = None
    seen: list[str] = field(default_factory=list)
    reported: set[str] = field(default_factory=set)
    """Parts whose absence, place or number has been reported already."""

    @property
    def has_columns(self) -> bool:
        """Whether `with` or `return` was read."""
        return "with" in self.seen or "return" in self.seen

    def build_stage(self, cursor: Cursor) -> Stage:
        """Build the stage that ends before the cursor."""
        return Stage(
            clauses=self.clauses,
            projections=self.projections,
            distinct=self.distinct,
            having=self.having,
            order=self.order,
            limit=self.limit,
            per=self.per,
            offset=self.offset,
            span=self.start.span.to(cursor.previous),
        )


def parse_reading(patterns: PatternParser, word: str) -> Read | Union | DriveMatch:
    """Parse the reads at the cursor, the first of which starts with `word`, or a match that drives statements."""
    cursor = patterns.cursor
    start = cursor.peek()
    first = _parse_read(patterns, word)
    if isinstance(first, DriveMatch) or not _is_at_union(cursor):
        return first
    reads = [first]
    keeps_equal: list[bool] = []
    while _is_at_union(cursor):
        union = cursor.advance()
        keeps_equal.append(cursor.accept("all", "ALL") is not None)
        if not cursor.is_at("match"):
            cursor.fail("`match`", "a union is written `match { … } return { … } union match { … } return { … }`")
        following = _parse_read(patterns, "match")
        if isinstance(following, DriveMatch):
            cursor.refuse(union.span, "a union joins reads", "each of them ends in `return { … }`")
        reads.append(following)
    last = reads[-1]
    if last.per:
        hint = "give each read its own, or put the union's rows into a query of their own"
        cursor.report(last.per[0].span, "`per` can't follow a union", hint)
    # What follows the last read belongs to the whole.
    reads[-1] = replace(last, order=(), limit=None, per=(), offset=None)
    return Union(
        reads=tuple(reads),
        keeps_equal=tuple(keeps_equal),
        order=last.order,
        limit=last.limit,
        offset=last.offset,
        span=start.span.to(cursor.previous),
    )


def _is_at_union(cursor: Cursor) -> bool:
    token = cursor.peek()
    if token.text == "union":
        return True
    if token.text != "UNION":
        return False
    if not cursor.is_explained:
        cursor.report(token.span, "unexpected `UNION`", "write `union`")
    return True


def _parse_read(patterns: PatternParser, word: str) -> Read | DriveMatch:
    """Parse the stages at the cursor, the first keyword of which is, or was meant as, `word`."""
    cursor = patterns.cursor
    start = cursor.peek()
    stages: list[Stage] = []
    parts = _StageBuilder(start)
    if word in ("return", "with"):
        if not cursor.is_explained:
            cursor.report(start.span, f"missing `match` before `{word}`", _READ_FORM)
        parts.reported.add("match")
    next_word: str | None = word
    while next_word:
        if "with" in parts.seen and next_word in ("match", "with", "return"):
            stages.append(parts.build_stage(cursor))
            parts = _StageBuilder(cursor.peek())
        keyword = cursor.advance()
        _check_order(cursor, parts, keyword, next_word, has_stages=bool(stages))
        _parse_part(parts, patterns, next_word)
        next_word = _find_next_part(cursor, parts, patterns)
    span = start.span.to(cursor.previous)
    if "return" not in parts.seen and cursor.is_at(*MUTATIONS):
        if "with" in parts.seen:
            stages.append(parts.build_stage(cursor))
            return DriveMatch(clauses=(), stages=tuple(stages), span=span)
        return DriveMatch(clauses=parts.clauses, stages=tuple(stages), span=span)
    if "return" not in parts.seen and "return" not in parts.reported:
        cursor.report_missing("missing `return`", "a read ends in `return { … }`")
    return Read(
        clauses=parts.clauses,
        projections=parts.projections,
        distinct=parts.distinct,
        having=parts.having,
        order=parts.order,
        limit=parts.limit,
        per=parts.per,
        offset=parts.offset,
        stages=tuple(stages),
        span=span,
    )


def _check_order(cursor: Cursor, parts: _StageBuilder, keyword: Token, word: str, *, has_stages: bool) -> None:
    if word in parts.reported:
        parts.reported.remove(word)
    elif word in parts.seen:
        if word == "match":
            parts.reported.update(_PART_KEYWORDS)
        hint = "keep one of them"
        if word == "match":
            hint = "put all clauses into one `match { … }`"
            hint += ", or end the first stage with `with { … }`" if has_stages else ""
        cursor.report(keyword.span, f"`{word}` is given twice", hint)
    elif later := [seen for seen in parts.seen if _PART_KEYWORDS.index(seen) > _PART_KEYWORDS.index(word)]:
        hint = "the order is `match`, `return`, `having`, `order`, `limit`, `offset`"
        cursor.report(keyword.span, f"`{word}` stands before `{later[0]}`", hint)
    elif word in _AFTER_COLUMNS and not parts.has_columns:
        parts.reported.add("return")
        cursor.report(keyword.span, f"missing `return` before `{word}`", _READ_FORM)
    parts.seen.append(word)


def _parse_part(parts: _StageBuilder, patterns: PatternParser, word: str) -> None:
    expressions = patterns.expressions
    cursor = expressions.cursor
    match word:
        case "match":
            if not cursor.is_at("{"):
                is_foreign = cursor.is_at("(")
                cursor.fail("`{`", MATCH_FORM if is_foreign else "a match block is written `match { $p: Person }`")
            parts.clauses += patterns.parse_block(cursor.advance(), "the match block")
        case "return" | "with":
            parts.distinct = cursor.accept("distinct") is not None
            if cursor.is_at("{") and cursor.is_followed_by("distinct"):
                hint = f"it stands before the braces: `{word} distinct {{ … }}`"
                cursor.report(cursor.peek(1).span, f"unexpected `distinct` in the {word} block", hint)
                parts.distinct = True
            parts.projections = parse_projections(expressions, word)
        case "having":
            parts.having = _parse_having(patterns)
        case "order":
            parts.order = parse_order(expressions)
        case "limit":
            parts.limit = parse_count(cursor, word)
            if is_at_per(cursor):
                parts.per = parse_per(expressions, _PER_EXAMPLE)
        case _:
            parts.offset = parse_count(cursor, word)


def _parse_having(patterns: PatternParser) -> Expr:
    cursor = patterns.expressions.cursor
    opening = cursor.accept("{")
    if opening is None:
        cursor.report_missing("missing `{` after `having`", "a having is written `having { n > 3 }`")
        return patterns.expressions.parse_condition()
    try:
        condition = patterns.expressions.parse_condition()
        hint = f"its `{{` is in {cursor.format_position(opening.span)}"
        if cursor.is_at(",", ";") or cursor.is_at_kind(TokenKind.IDENT, TokenKind.VARIABLE):
            hint = "a having is one predicate: join two with `and`"
        cursor.expect("}", hint)
    except GaveUpError:
        leave_braces(cursor)
        raise
    return condition


# --- what follows a part -------------------------------------------------------------------------


def _find_next_part(cursor: Cursor, parts: _StageBuilder, patterns: PatternParser) -> str | None:
    """Find the keyword of the next part, or the one that was meant; None where the read ends."""
    while True:
        token = cursor.peek()
        if token.text in _PART_KEYWORDS:
            return token.text
        if token.text == "}" and cursor.is_followed_by(*_PART_KEYWORDS[1:]):
            hint = "delete it, or look for one too many before it"
            cursor.report(token.span, f"unexpected `}}` before `{cursor.peek(1).text}`", hint)
            cursor.advance()
        elif token.text in (";", ","):
            if token.text == "," and parts.seen[-1] == "limit":
                cursor.refuse(token.span, "unexpected `,`", "rows are skipped with `offset`: `limit 10 offset 20`")
            cursor.report(token.span, f"unexpected `{token.text}`", "the parts of a read need nothing between them")
            cursor.advance()
        elif token.text in ("where", "WHERE", "filter"):
            _recover_where(cursor, parts, patterns)
        elif advice := PART_HINTS.get(token.text.lower()):
            cursor.refuse(token.span, f"unexpected `{token.text}`", advice)
        elif token.kind not in (TokenKind.IDENT, TokenKind.TYPE) or _is_at_end_of_read(cursor):
            return None
        elif meant := _guess_part(token.text, parts):
            message = f"expected {_format_expected(parts)}, found `{abbreviate(token.text)}`"
            cursor.report(token.span, message, f"did you mean `{meant}`?")
            return meant
        else:
            return None


def _is_at_end_of_read(cursor: Cursor) -> bool:
    return cursor.is_at(*MUTATIONS) or _is_at_union(cursor) or is_at_declaration(cursor)


def _recover_where(cursor: Cursor, parts: _StageBuilder, patterns: PatternParser) -> None:
    token = cursor.advance()
    hint = "put the predicate into the match block, where it stands alone"
    if parts.has_columns:
        hint = "a condition on columns and groups is written `having { n > 3 }`; one on rows stands in the match block"
    cursor.report(token.span, f"unexpected `{token.text}` after a block", hint)
    opening = cursor.accept("{")
    patterns.expressions.parse_condition()
    if opening is not None:
        cursor.accept("}")


def _format_expected(parts: _StageBuilder) -> str:
    if "return" in parts.seen:
        return "`order`, `limit` or `offset`"
    return "`match`, `with` or `return`" if "with" in parts.seen else "`return`"


def _guess_part(word: str, parts: _StageBuilder) -> str | None:
    folded = word.lower()
    if not parts.has_columns:
        return "return" if folded in ("select", "yield") else find_closest(word, ("return", "with"))
    if meant := CLAUSE_SYNONYMS.get(folded):
        return meant
    tail = ("having", "order", "limit", "offset")
    return find_closest(word, tail if "return" in parts.seen else ("match", "with", "return", *tail))
