"""The clauses of a `match` block: bindings, hops, paths, predicates and blocks."""

from collections.abc import Callable

from omnigraph.lang.block_ends import is_at_block_end
from omnigraph.lang.cursor import Cursor, parse_type_name
from omnigraph.lang.expression_parser import ExpressionParser, parse_assignments
from omnigraph.lang.foreign_words import (
    PART_HINTS,
    TYPES_FORM,
    refuse_edge_with_colon,
    refuse_foreign_clause,
    refuse_foreign_hop,
    refuse_path_value,
)
from omnigraph.lang.hop_parser import OPERATOR_WORDS, is_traversal, parse_traversal, parse_way_conditions
from omnigraph.lang.lexer import RESERVED_WORDS, Token, TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.name_parser import parse_variable, recover_variable
from omnigraph.lang.query_ast import (
    Assignment,
    Binding,
    Block,
    BlockKind,
    Clause,
    Each,
    Either,
    Let,
    Not,
    NotBlock,
    OptionalBlock,
    PathClause,
    PathKind,
    TraversalClause,
    Variable,
    Where,
)
from omnigraph.lang.spelling import find_closest
from omnigraph.lang.value_parser import BLOCK_KINDS, is_at_case, is_at_value_block

_TOKENS_AFTER_NAME = (":", "(", ".", "=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in", "is")
_PATH_KINDS = {kind.value: kind for kind in PathKind}
_CLAUSE_BLOCKS = ("not", "optional", "either")
_CONNECTIVES = ("and", "or", "AND", "OR", "&&", "||")


# Planning is quadratic in the bindings, hops and blocks of a query. With this number it took 0.1 s for a chain, 1 s for
# the slowest shape: a star of hops, all of whose nodes are grouped by.
MAX_CLAUSES = 500


class PatternParser:
    """A parser of the clauses of one query, and of the expressions in them."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.expressions = ExpressionParser(cursor, parse_clauses=self.parse_block)
        self._clause_count = 0

    def parse_block(self, opening: Token, what: str, stops: Callable[[], bool] | None = None) -> tuple[Clause, ...]:
        """Parse clauses up to the closing brace, or to where it `stops`; the opening brace was read.

        At least one clause is required.
        """
        cursor = self.cursor
        clauses: list[Clause] = []
        before = cursor.index

        def item() -> None:
            clauses.append(self._parse_clause())
            self._count_clause(clauses[-1])
            while cursor.accept(";"):
                pass
            if comma := cursor.accept(","):
                cursor.report(comma.span, "unexpected `,` after a clause", "clauses need no commas between them")

        cursor.parse_block(
            opening,
            what,
            item,
            is_item_start=self._is_at_clause,
            is_block_end=lambda: is_at_block_end(cursor),
            stops=stops,
        )
        is_closed = cursor.index == before + 1
        if not clauses and (is_closed or (stops is not None and stops())):
            cursor.report(
                opening.span.to(cursor.previous), f"{what} is empty", "it needs at least one clause: `$p: Person`"
            )
        return tuple(clauses)

    def _count_clause(self, clause: Clause) -> None:
        # Predicates have a limit of their own.
        self._clause_count += not isinstance(clause, Where)
        # Reported once, at the first clause above the limit.
        if self._clause_count == MAX_CLAUSES + 1 and not isinstance(clause, Where):
            message = f"a query's patterns have at most {MAX_CLAUSES} clauses that are no predicates"
            hint = "split the query, or follow an edge several times in one clause: `$a knows{1,4} $b`"
            self.cursor.report_limit(clause.span, message, hint)

    def _is_at_clause(self) -> bool:
        token = self.cursor.peek()
        if token.text == ";":
            self.cursor.advance()
            return True
        if not token.starts_line:
            return False
        return token.kind is TokenKind.VARIABLE or token.text in ("not", "(") or self._is_at_clause_word()

    def _is_at_clause_word(self) -> bool:
        """Return whether a clause that starts with a word of its own is at the cursor; none of them is reserved."""
        cursor = self.cursor
        word = cursor.peek().text
        if word in ("let", *_PATH_KINDS):
            return cursor.peek(1).kind is TokenKind.VARIABLE and cursor.peek(2).text == "="
        if word == "each":
            return cursor.peek(1).kind is TokenKind.VARIABLE and cursor.peek(2).text == "in"
        return (word in _CLAUSE_BLOCKS or word in BLOCK_KINDS) and cursor.is_followed_by("{")

    def _parse_clause(self) -> Clause:
        cursor = self.cursor
        token = cursor.peek()
        if token.text in ("where", "WHERE", "filter") and not cursor.is_followed_by(*_TOKENS_AFTER_NAME):
            hint = "in a match block a predicate stands alone: delete the word"
            if cursor.is_followed_by("{"):
                hint = "a predicate stands alone, without braces; conditions on the way are `along { since > 3 }`"
                cursor.refuse(token.span, f"unexpected `{token.text}` in a match block", hint)
            cursor.report(token.span, f"unexpected `{token.text}` in a match block", hint)
            cursor.advance()
            token = cursor.peek()
        if token.kind is TokenKind.VARIABLE:
            refuse_path_value(cursor)
            return self._parse_from_variable(token)
        if token.kind in (TokenKind.IDENT, TokenKind.TYPE):
            return self._parse_from_word(token)
        refuse_foreign_clause(cursor)
        return self._parse_where()

    def _parse_from_word(self, token: Token) -> Clause:
        cursor = self.cursor
        is_value = is_at_case(cursor) or is_at_value_block(cursor)
        if cursor.is_followed_by("{") and not is_value:
            return self._parse_clause_block(token)
        if cursor.peek(1).kind is TokenKind.VARIABLE and self._is_at_clause_word():
            return self._parse_named_value(token)
        refuse_foreign_clause(cursor)
        is_name = token.kind is TokenKind.IDENT and token.text not in RESERVED_WORDS
        if is_name and self._is_missing_dollar():
            return self._parse_from_name()
        return self._parse_where()

    def _parse_where(self) -> Where:
        predicate = self.expressions.parse_clause()
        return Where(predicate=predicate, span=predicate.span)

    # --- blocks --------------------------------------------------------------------------------------

    def _parse_clause_block(self, start: Token) -> Clause:
        cursor = self.cursor
        word = start.text
        if word not in _CLAUSE_BLOCKS:
            meant = find_closest(word, (*_CLAUSE_BLOCKS, *BLOCK_KINDS))
            if meant is None or meant in BLOCK_KINDS:
                hint = "a match block holds bindings, traversals, predicates, and blocks such as `not { … }`"
                if start.kind is TokenKind.TYPE:
                    hint = f"a node has a variable: `$x: {abbreviate(word)} {{ … }}`"
                hint = PART_HINTS.get(word.lower(), hint) if meant is None else f"did you mean `{meant}`?"
                cursor.refuse(start.span, f"unexpected `{abbreviate(word)} {{`", hint)
            cursor.report(start.span, f"unexpected `{word} {{`", f"did you mean `{meant}`?")
            word = meant
        cursor.advance()
        if word == "either":
            return self._parse_either(start)
        with cursor.nest():
            clauses = self.parse_block(cursor.advance(), f"the `{word}` block")
        span = start.span.to(cursor.previous)
        if word == "optional":
            return OptionalBlock(clauses=clauses, span=span)
        if not cursor.is_at(*_CONNECTIVES):
            return NotBlock(clauses=clauses, span=span)
        # `not { … } or …` is a predicate that starts with the block.
        block = Block(kind=BlockKind.EXISTS, clauses=clauses, span=span)
        predicate = self.expressions.parse_clause(Not(term=block, span=span))
        return Where(predicate=predicate, span=predicate.span)

    def _parse_either(self, start: Token) -> Either:
        cursor = self.cursor
        alternatives: list[tuple[Clause, ...]] = []
        with cursor.nest():
            alternatives.append(self.parse_block(cursor.advance(), "the `either` block"))
            while word := cursor.accept("or", "OR", "||"):
                if word.text != "or":
                    cursor.report(word.span, f"unexpected `{word.text}`", "write `or`")
                hint = "an alternative stands in braces: `either { … } or { … }`"
                alternatives.append(self.parse_block(cursor.expect("{", hint), "the `or` block"))
        if len(alternatives) == 1:
            cursor.report_missing("missing `or { … }`", "write `either { … } or { … }`")
        return Either(alternatives=tuple(alternatives), span=start.span.to(cursor.previous))

    # --- let, each, paths ----------------------------------------------------------------------------

    def _parse_named_value(self, start: Token) -> Clause:
        """Parse `let $x = …`, `each $x in …` or `path $w = …`, whose shape was seen."""
        cursor = self.cursor
        cursor.advance()
        variable = parse_variable(cursor, "a variable")
        cursor.advance()
        if start.text in _PATH_KINDS:
            return self._parse_path(start, variable)
        value = self.expressions.parse_value()
        span = start.span.to(value.span)
        if start.text == "each":
            return Each(variable=variable, value=value, span=span)
        return Let(variable=variable, value=value, span=span)

    def _parse_path(self, start: Token, variable: Variable) -> PathClause:
        cursor = self.cursor
        if not (cursor.is_at_kind(TokenKind.VARIABLE) and is_traversal(cursor, 1)):
            example = f"{start.text} ${abbreviate(variable.name)} = $a knows{{1,4}} $b"
            cursor.fail("a hop", f"a path is written `{example}`")
        hop = parse_traversal(self.expressions, parse_variable(cursor, "a variable"))
        weight = None
        if cursor.is_at("by") and cursor.is_followed_by("{"):
            cursor.advance()
            opening = cursor.advance()
            with cursor.nest(), self.expressions.read_names_as(properties=True):
                weight = self.expressions.parse_value()
            cursor.expect("}", f"its `{{` is in {cursor.format_position(opening.span)}")
            hop = parse_way_conditions(self.expressions, hop)
        span = start.span.to(cursor.previous)
        return PathClause(kind=_PATH_KINDS[start.text], variable=variable, hop=hop, weight=weight, span=span)

    # --- what starts with a variable -----------------------------------------------------------------

    def _parse_from_variable(self, token: Token) -> Clause:
        cursor = self.cursor
        # Before traversals, which also start with a variable and a word.
        if self._is_binding_without_colon():
            return self._parse_binding(parse_variable(cursor, "a variable"))
        if is_traversal(cursor, 1):
            return self._parse_hop(parse_variable(cursor, "a variable"))
        refuse_edge_with_colon(cursor)
        refuse_foreign_hop(cursor)
        if cursor.is_followed_by(":"):
            return self._parse_binding(parse_variable(cursor, "a variable"))
        if cursor.is_followed_by("<") and cursor.peek(2).kind is TokenKind.VARIABLE and cursor.peek(3).text == ":":
            name, edge = abbreviate(cursor.peek(2).text), abbreviate(cursor.peek(4).text)
            hint = f"an edge variable stands before the `<`: `{abbreviate(token.text)} {name}:<{edge}> $other`"
            cursor.refuse(cursor.peek(2).span, "unexpected edge variable in `<…>`", hint)
        if self._is_arrow() and not cursor.peek(1).starts_line:
            hint = (
                f"a traversal is written `{abbreviate(token.text)} knows $other`,"
                " with the edge's name between the variables"
            )
            cursor.refuse(cursor.peek(1).span, f"unexpected `{cursor.peek(1).text}`", hint)
        return self._parse_where()

    def _is_arrow(self) -> bool:
        """Return whether an arrow of another language follows, as in `$a -[:KNOWS]-> $b` or `$a -> $b`."""
        if self.cursor.is_followed_by("->", "--"):
            return True
        return self.cursor.is_followed_by("-") and self.cursor.peek(2).text in ("[", "->", ">", "-")

    def _is_binding_without_colon(self) -> bool:
        """Return whether `$p Person` can't be a hop: no variable follows, or one that starts another clause."""
        cursor = self.cursor
        if cursor.peek(1).kind is not TokenKind.TYPE or cursor.peek(1).text.lower() in OPERATOR_WORDS:
            return False
        next_token = cursor.peek(2)
        if next_token.text == "{":
            return cursor.peek(3).kind is not TokenKind.INT and cursor.peek(3).text != "-"
        return next_token.kind is not TokenKind.VARIABLE or cursor.peek(3).text in (":", ".", "=")

    def _is_missing_dollar(self) -> bool:
        """Return whether the name at the cursor would start a clause if it had a `$`."""
        if self.cursor.is_followed_by("("):
            return False
        return self.cursor.is_followed_by(":") or (is_traversal(self.cursor, 1) and not self.cursor.peek(1).starts_line)

    def _parse_from_name(self) -> Clause:
        start = recover_variable(self.cursor, "a variable")
        return self._parse_binding(start) if self.cursor.is_at(":") else self._parse_hop(start)

    def _parse_hop(self, source: Variable) -> TraversalClause:
        hop = parse_traversal(self.expressions, source)
        if not self._is_at_clause_word():
            self._refuse_second_hop(hop.target)
        return hop

    def _refuse_second_hop(self, target: Variable) -> None:
        token = self.cursor.peek()
        is_name = (
            token.kind in (TokenKind.IDENT, TokenKind.TYPE)
            and token.text not in RESERVED_WORDS
            and not token.starts_line
        )
        # `madeOf $q`, or `madeOf{1,6} $q`
        ahead = 6 if self.cursor.peek(1).text == "{" and self.cursor.peek(2).kind is TokenKind.INT else 1
        if is_name and self.cursor.peek(ahead).kind is TokenKind.VARIABLE:
            edge, end = abbreviate(token.text), abbreviate(self.cursor.peek(ahead).text)
            hint = f"a clause has one hop; the next is one of its own: `${abbreviate(target.name)} {edge} {end}`"
            self.cursor.refuse(token.span, f"unexpected `{edge}` after a hop", hint)

    def _parse_binding(self, start: Variable) -> Binding:
        cursor = self.cursor
        if not cursor.accept(":"):
            name = abbreviate(start.name)
            cursor.report_missing(
                f"missing `:` after `${name}`", f"a binding is written `${name}: {abbreviate(cursor.peek().text)}`"
            )
        types = parse_types(cursor)
        filters: tuple[Assignment, ...] = ()
        if cursor.is_at("{"):
            filters = parse_assignments(
                self.expressions, cursor.advance(), f"the filter of `${abbreviate(start.name)}`", needs_commas=True
            )
        return Binding(variable=start, types=types, filters=filters, span=start.span.to(cursor.previous))


def parse_types(cursor: Cursor) -> tuple[Name, ...]:
    """Parse the type of a variable, or several in parentheses: `(Person|Company)`."""
    if not cursor.accept("("):
        name = parse_type_name(cursor, "a node type", unknown_code="T1")
        if cursor.is_at("|"):
            cursor.refuse(cursor.peek().span, "unexpected `|` after a type", TYPES_FORM)
        return (name,)
    types = [parse_type_name(cursor, "a node type", unknown_code="T1")]
    hint = TYPES_FORM
    while sign := cursor.accept("|", "||", ",", "or"):
        if sign.text != "|":
            cursor.report(sign.span, f"expected `|`, found `{sign.text}`", hint)
        types.append(parse_type_name(cursor, "a node type", unknown_code="T1"))
    cursor.expect(")", hint)
    return tuple(types)
