"""Complete a query that is being typed: what may be written at a position. Pure; shared by all interfaces."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.lang.lexer import Comment, Language, Token, TokenKind, TokenStream, tokenize
from omnigraph.lang.literals import BASE_TYPES
from omnigraph.lang.proposals import Completion, Proposal, ProposalKind, select_proposals
from omnigraph.lang.source import Source
from omnigraph.query.completion_frames import MUTATION_WORDS, PATH_WORDS, VALUE_BLOCK_WORDS, BracketFrame, Role
from omnigraph.query.completion_names import NameProposals
from omnigraph.query.completion_scope import collect_names, list_properties
from omnigraph.query.functions import FUNCTIONS
from omnigraph.query.scalar_functions import DURATION_UNITS
from omnigraph.schema.catalog import Catalog, Property
from omnigraph.schema.types import EnumOf


class CommandArgument(Enum):
    """What follows a command of the shell."""

    NOTHING = "nothing"
    BRANCH = "branch"
    QUERY = "query"
    TYPE = "type"
    STATEMENT = "statement"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """Names that are no part of a schema, which the caller knows."""

    branches: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    """The stored queries; they are proposed where a text begins."""
    patterns: tuple[str, ...] = ()
    """The named patterns of a file of which the text is a part."""
    commands: Mapping[str, CommandArgument] = field(default_factory=dict)
    """The commands that a line may begin with, as `.use`, and what follows each."""


NO_NAMES = KnownNames()

# A variable and a meta property are words with their sign, so that a proposal replaces both.
_WORD_BEFORE = re.compile(r"[$@]?\w*+\Z")
_WORD_AFTER = re.compile(r"\w*")
_STATEMENTS = ("match", *MUTATION_WORDS)
_JOINING_WORDS = ("and", "or", "in", "contains", "starts_with", "is")
_OPERATORS = (*_JOINING_WORDS, "not")
# After one of these, a value follows; after any other word, one ends.
_OPERATOR_WORDS = frozenset((*_OPERATORS, "where", "case", "distinct", "else", "limit", "offset", "return", "on"))
_CLAUSE_WORDS = ("not", "optional", "either", "exists", "let", "each", *PATH_WORDS)
_VALUE_WORDS = ("not", "case", "null", "true", "false", "date", "datetime", *VALUE_BLOCK_WORDS)
# The parts of a read follow each other in an order that the parser checks; all are proposed after any of them.
_AFTER_READ = ("return", "with", "having", "order", "limit", "offset", "per", "union", "returning")
_EXPRESSION_ROLES = frozenset(
    (Role.COLUMNS, Role.KEYS, Role.VALUES, Role.BARE, Role.CASE, Role.CALL, Role.GROUP, Role.FIELDS, Role.RECORD)
)
# What may follow a value, besides operators, in each kind of brackets.
_AFTER_VALUE = {
    Role.COLUMNS: ("as",),
    Role.KEYS: ("asc", "desc"),
    Role.CASE: ("else",),
    Role.CALL: ("where", "order", "limit"),
}


def complete(text: str, position: int, catalog: Catalog, known: KnownNames = NO_NAMES) -> Completion:
    """Return what may be written at a position of a text of queries. Never fails, whatever the text is.

    Signs, numbers, strings other than values of an enum, and names that are declared there are not proposed.
    """
    position = max(0, min(position, len(text)))
    command = _complete_command(text, position, catalog, known)
    if command is not None:
        return command
    # Tokens are taken from the text up to the position: what follows must not glue itself to the word.
    before = tokenize(Source(text[:position]), Language.QUERY)
    start = _find_word(text, position, before)
    end = position + len((_WORD_AFTER.match(text, position) or [""])[0])
    if _is_in_comment(text, position, before.comments):
        return Completion(position, position, ())
    prefix = text[start:position]
    all_tokens = [token for token in tokenize(Source(text), Language.QUERY).tokens if token.kind is not TokenKind.END]
    tokens = [token for token in before.tokens if token.span.end <= start and token.kind is not TokenKind.END]
    # Names of other queries in the text are not in scope.
    first, last = _find_query(all_tokens, start)
    earlier = [token for token in tokens if token.span.start >= first]
    others = [token for token in all_tokens if first <= token.span.start < last and token.span.start != start]
    names = collect_names(others, all_tokens, catalog)
    names.patterns |= dict.fromkeys(known.patterns)
    here = _Position(earlier, catalog, names, known, is_first=not tokens)
    return Completion(start, end, select_proposals(here.propose(), prefix))


def _find_word(text: str, position: int, stream: TokenStream) -> int:
    """Return the start of the word, variable or open string that ends at a position."""
    index = len(stream.tokens) - 2  # the last token before the end
    if index >= 0 and stream.tokens[index].kind is TokenKind.STRING and index + 1 in stream.damaged:
        return stream.tokens[index].span.start
    match = _WORD_BEFORE.search(text, 0, position)
    return match.start() if match else position


def _is_in_comment(text: str, position: int, comments: Sequence[Comment]) -> bool:
    """Return whether the position is in the last of these comments, or after a `/*` that is never closed."""
    after = 0
    if comments:
        span = comments[-1].span
        if span.end == position and text.startswith("//", span.start):
            return True
        after = span.end
    return text.find("/*", after, position) >= 0


def _find_query(tokens: Sequence[Token], position: int) -> tuple[int, int]:
    """Return where the query or pattern around a position starts, and where the next one does."""
    # Braces are no help here, for they may not be closed; a header is distinctive enough.
    first, last = 0, 1 << 62
    for token, name, paren in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_name = name.kind in (TokenKind.IDENT, TokenKind.TYPE)
        if token.text in ("query", "pattern") and is_name and paren.text == "(":
            if token.span.start < position:
                first = token.span.start
            else:
                last = token.span.start
                break
    return first, last


# --- commands of the shell ---------------------------------------------------------------------------


def _complete_command(text: str, position: int, catalog: Catalog, known: KnownNames) -> Completion | None:
    """Complete a line that begins with a command; None if the text is none."""
    if not known.commands or not text.startswith("."):
        return None
    word, space, rest = text[:position].partition(" ")
    if not space:
        proposals = (Proposal(name, ProposalKind.COMMAND) for name in known.commands)
        return Completion(0, position, select_proposals(proposals, word))
    kind = known.commands.get(word, CommandArgument.NOTHING)
    if kind is CommandArgument.STATEMENT:
        # The rest of the line is a text of its own; commands are none of it.
        inner = complete(rest, len(rest), catalog, KnownNames(queries=known.queries))
        shift = len(word) + 1
        return Completion(inner.start + shift, inner.end + shift, inner.proposals)
    start = position - len(rest.rpartition(" ")[2])
    arguments = {
        CommandArgument.BRANCH: (ProposalKind.BRANCH, known.branches),
        CommandArgument.QUERY: (ProposalKind.QUERY, known.queries),
        CommandArgument.TYPE: (ProposalKind.TYPE, tuple(type_.name for type_ in catalog.types)),
    }
    if kind not in arguments:
        return Completion(position, position, ())
    proposal_kind, texts = arguments[kind]
    return Completion(
        start, position, select_proposals((Proposal(text, proposal_kind) for text in texts), text[start:position])
    )


# --- positions in a query ------------------------------------------------------------------------------


def _keywords(*words: str) -> Iterator[Proposal]:
    return (Proposal(word, ProposalKind.KEYWORD) for word in words)


@dataclass
class _Position(NameProposals):
    """The tokens of a query before a position, and what may follow them."""

    known: KnownNames
    is_first: bool

    def propose(self) -> Iterator[Proposal]:
        """Yield what may follow, likeliest first."""
        last = self.text(1)
        role = self.brackets.innermost.role
        if last == "." and self.kind(1) is TokenKind.SIGN:
            yield from self.propose_members()
        elif role in (Role.PARAMS, Role.RECORD_TYPE):
            if last in (":", "["):
                yield from (Proposal(name, ProposalKind.TYPE) for name in (*BASE_TYPES, "Vector"))
        elif role is Role.PATTERN_PARAMS or role is Role.TYPES:
            if last in (":", "(", "|"):
                yield from self.propose_node_types()
        elif role is Role.EDGES:
            yield from self.propose_edges(None)
        elif role is Role.WINDOW:
            yield from _keywords("per", "order")
        elif role not in (Role.BOUNDS, Role.ANNOTATION):
            yield from self._propose_in_body()

    def _propose_in_body(self) -> Iterator[Proposal]:
        frame = self.brackets.innermost
        if frame.role is Role.BODY:
            yield from self._propose_statements(frame)
        elif frame.role is Role.CLAUSES and frame.part not in ("return", "order", "limit"):
            yield from self._propose_clauses()
        elif frame.role is Role.CLAUSES:
            yield from self._propose_value(frame, ("order", "limit", "distinct"))
        elif self._is_at_field_name(frame):
            yield from self.propose_fields(frame)
        elif frame.role in _EXPRESSION_ROLES:
            yield from self._propose_value(frame, _AFTER_VALUE.get(frame.role, ()))

    # --- statements ------------------------------------------------------------------------------------

    def _propose_statements(self, frame: BracketFrame) -> Iterator[Proposal]:
        last = self.text(1)
        is_inside = frame.opening >= 0
        closed = self.brackets.closed
        if closed is not None and closed.role in (Role.PARAMS, Role.ANNOTATION):
            yield from _keywords("@description", "@instruction")
            return
        match last:
            case "" | "{":
                yield from _keywords(*_STATEMENTS)
                if not is_inside:
                    yield from _keywords("query", "pattern")
                if self.is_first:
                    yield from (Proposal(name, ProposalKind.QUERY) for name in self.known.queries)
            case "query" | "pattern":
                return
            case "insert" | "update" | "delete":
                yield from self.propose_table_types()
                if last != "insert":
                    yield from self.propose_variables()
            case "union":
                yield from _keywords("all", "match")
            case "all":
                yield from _keywords("match")
            case "return" | "with":
                yield from _keywords("distinct")
            case "if":
                yield from _keywords("absent")
            case "limit" | "offset" | "as":
                yield from self.propose_variables()
            case _ if frame.part == "where":
                yield from self._propose_value(frame, (*_STATEMENTS, "returning"))
            case _ if frame.part in MUTATION_WORDS and self.kind(1) in (TokenKind.TYPE, TokenKind.VARIABLE):
                yield from _keywords({"update": "set", "delete": "where"}.get(frame.part, ""))
                yield from _keywords(*_STATEMENTS, "returning")
            case _:
                yield from self._propose_parts(frame, is_inside=is_inside)

    def _propose_parts(self, frame: BracketFrame, *, is_inside: bool) -> Iterator[Proposal]:
        if frame.part == "set":
            yield from _keywords("where")
        if frame.part == "insert":
            yield from _keywords("if", "as")
        if frame.part == "if":
            yield from _keywords("as")
        yield from _keywords(*_AFTER_READ, *_STATEMENTS)
        if not is_inside:
            yield from _keywords("query", "pattern")

    # --- clauses ---------------------------------------------------------------------------------------

    def _propose_clauses(self) -> Iterator[Proposal]:
        last = self.text(1)
        if last == ":" and self.kind(2) is TokenKind.VARIABLE:
            # `$a $b:` may name an edge, and may also be a binding after a hop without a line break.
            if self.kind(3) is TokenKind.VARIABLE:
                yield from self.propose_edges(self.tokens[-3])
            yield from self.propose_node_types()
            return
        # Either less than, or the start of an undirected hop.
        if last == "<":
            yield from self.propose_edges(self.tokens[-2] if self.kind(2) is TokenKind.VARIABLE else None)
        if last in ("let", *PATH_WORDS, "each") and self.kind(1) is TokenKind.IDENT:
            yield from self.propose_variables()
            return
        if self.kind(1) is TokenKind.VARIABLE:
            if self.text(2) == "each":
                yield from _keywords("in")
            yield from self.propose_edges(self.tokens[-1])
        if self.is_after_value:
            yield from _keywords(*_OPERATORS, "along", "through", "by", "return")
        if self.text(1) in ("is", "not"):
            yield from _keywords("not", "null")
        yield from self.propose_variables()
        yield from _keywords(*_CLAUSE_WORDS)
        yield from (Proposal(name, ProposalKind.PATTERN) for name in self.names.patterns)
        yield from self._propose_operands()
        # `count { $p knows $q return distinct $q.city }`
        if self.brackets.innermost.role is Role.CLAUSES and self._may_return:
            yield from _keywords("return")

    @property
    def _may_return(self) -> bool:
        """Whether the innermost frame is a block with a value, which `return` names."""
        opening = self.brackets.innermost.opening
        return opening > 0 and self.tokens[opening - 1].text in VALUE_BLOCK_WORDS

    # --- values ----------------------------------------------------------------------------------------

    @property
    def is_after_value(self) -> bool:
        """Whether a value may end at the position, so that an operator may follow."""
        kind = self.kind(1)
        # A star ends `count(*)` and `$p.*`; as an operator it is rare before the end of a text.
        if kind is TokenKind.SIGN:
            return self.text(1) in (")", "]", "}", "*")
        if kind is TokenKind.IDENT and self.text(1) in _OPERATOR_WORDS:
            # A word that joins two values and has none before it is the name of a property.
            is_name = self.text(1) in _JOINING_WORDS and self.text(2) in ("and", "or", "where", "{", "(", ",", "set")
            return is_name or self.text(2) == "."
        return kind is not TokenKind.END

    def _propose_value(self, frame: BracketFrame, after: Iterable[str]) -> Iterator[Proposal]:
        """Yield a value, or what follows one."""
        last = self.text(1)
        if last in ("is", "not") and self.text(2) != ".":
            yield from _keywords("not", "null")
        if self.is_after_value:
            yield from _keywords(*after, *_OPERATORS)
            if last == ")":
                yield from _keywords("over")
            # Columns, branches of a `case` and assignments need no comma between them.
            if frame.role not in (Role.COLUMNS, Role.CASE, Role.FIELDS, Role.BARE, Role.CLAUSES):
                return
        if frame.role is Role.FIELDS and self.is_after_value:
            yield from self.propose_fields(frame)
        if frame.role is Role.CASE:
            yield from _keywords("else")
        if frame.role is Role.CALL and self.tokens[-1:] and len(self.tokens) - 1 == frame.opening:
            yield from _keywords("distinct")
        # Named arguments, such as `k` of `rrf`.
        if frame.role is Role.CALL:
            function = FUNCTIONS.get(self.tokens[frame.opening - 1].text)
            yield from _keywords(*(function.options if function else ()))
        if frame.role is Role.CLAUSES and frame.part == "return":
            yield from _keywords("distinct")
        yield from self._propose_enum_values(frame)
        bare = self.brackets.bare
        if bare is not None:
            yield from self.propose_properties(self.find_types_of(bare))
            yield from self.propose_meta()
        yield from self.propose_variables()
        yield from (Proposal(name, ProposalKind.COLUMN) for name in self.names.columns)
        yield from self._propose_operands()

    def _propose_operands(self) -> Iterator[Proposal]:
        for function in FUNCTIONS.values():
            yield Proposal(function.name, ProposalKind.FUNCTION, function.usage.replace("`", ""))
        if self.text(1) in ("+", "-"):
            yield from (Proposal(unit, ProposalKind.FUNCTION, f"{unit}(number)") for unit in DURATION_UNITS)
        yield from _keywords(*_VALUE_WORDS)

    def _propose_enum_values(self, frame: BracketFrame) -> Iterator[Proposal]:
        """Yield the values of the enum that the position is compared with, or assigned to."""
        property_ = self._find_compared(frame)
        type_ = property_.type if property_ else None
        if isinstance(type_, EnumOf):
            yield from (Proposal(f'"{value}"', ProposalKind.VALUE, str(type_)) for value in type_.values)

    def _find_compared(self, frame: BracketFrame) -> Property | None:
        """Return the property before the operator or the colon at the position, if there is one."""
        tokens = self.tokens
        at = len(tokens) - 1
        # `mood in [` and `mood in ["glad", ` are about the property before the bracket.
        if frame.role is Role.VALUES and frame.opening >= 0 and tokens[frame.opening].text == "[":
            at = frame.opening - 1
        if at < 1 or tokens[at].text not in ("=", "!=", "in", ":", "contains"):
            return None
        name = tokens[at - 1].text
        if tokens[at].text == ":":
            types = self.find_types_of(frame) if frame.role is Role.FIELDS else []
        elif at >= 3 and tokens[at - 2].text == ".":
            types = self.list_types(self.names.variables.get(tokens[at - 3].text, set()))
        else:
            bare = self.brackets.bare
            types = self.find_types_of(bare) if bare else []
        return list_properties(types).get(name)

    def _is_at_field_name(self, frame: BracketFrame) -> bool:
        return frame.role in (Role.FIELDS, Role.RECORD) and self.text(1) in ("{", ",")
