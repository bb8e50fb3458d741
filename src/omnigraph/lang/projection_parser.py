"""The columns of `return`, `with` and `returning`."""

from omnigraph.lang.block_ends import is_at_block_end
from omnigraph.lang.cursor import Cursor, decapitalize_name
from omnigraph.lang.expression_parser import ExpressionParser
from omnigraph.lang.lexer import RESERVED_WORDS, TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.query_ast import Projection


def parse_projections(expressions: ExpressionParser, word: str) -> tuple[Projection, ...]:
    """Parse the columns after `word` in braces, as `return { $p.name }`; commas may be left out."""
    cursor = expressions.cursor
    projections: list[Projection] = []
    example = f"`{word} {{ $p.name }}`"

    def item() -> None:
        projections.append(_parse_projection(expressions, word))
        if separator := cursor.accept(",", ";"):
            if separator.text == ";":
                cursor.report(separator.span, "expected `,`, found `;`", "projections are separated by `,`")
            elif extra := cursor.accept(","):
                cursor.report(extra.span, "unexpected second `,`", "delete it")

    if not cursor.is_at("{"):
        cursor.report_missing(f"missing `{{` after `{word}`", f"a {word} is written {example}")
        while not (cursor.is_at("}") or cursor.is_at_end or is_at_block_end(cursor)):
            item()
        return tuple(projections)
    opening = cursor.advance()
    # A misplaced `distinct`, which the caller reported.
    cursor.accept("distinct")
    before = cursor.index
    cursor.parse_block(
        opening,
        f"the {word} block",
        item,
        is_item_start=lambda: cursor.peek().starts_line and not cursor.is_at_kind(TokenKind.SIGN),
        is_block_end=lambda: is_at_block_end(cursor),
    )
    if not projections and cursor.index == before + 1:
        span = opening.span.to(cursor.previous)
        cursor.report(span, f"the {word} block is empty", f"say what to return: {example}")
    return tuple(projections)


def _parse_projection(expressions: ExpressionParser, word: str) -> Projection:
    cursor = expressions.cursor
    token = cursor.peek()
    if token.kind in (TokenKind.IDENT, TokenKind.STRING) and cursor.is_followed_by(":"):
        return _recover_reversed_alias(expressions, word)
    value = expressions.parse_value()
    alias = None
    if cursor.accept("as"):
        alias = _parse_alias(cursor)
    elif cursor.is_at("AS"):
        cursor.report(cursor.advance().span, "unexpected `AS`", "write `as`")
        alias = _parse_alias(cursor)
    end = alias.span if alias else value.span
    return Projection(value=value, alias=alias, span=value.span.to(end))


def _recover_reversed_alias(expressions: ExpressionParser, word: str) -> Projection:
    cursor = expressions.cursor
    token = cursor.advance()
    cursor.advance()
    value = expressions.parse_value()
    name = str(token.value) if token.kind is TokenKind.STRING else token.text
    text = abbreviate(cursor.source.slice(value.span))
    hint = f"a column is named with `as`: `{text} as {abbreviate(name)}`"
    cursor.report(token.span, f"unexpected `{abbreviate(token.text)}:` in a {word} block", hint)
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
