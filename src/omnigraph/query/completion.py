"""Complete a query that is being typed: what may be written at a position. Pure; shared by all interfaces."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from omnigraph.json_struct import JsonStruct
from omnigraph.lang.cursor import decapitalize_name
from omnigraph.lang.lexer import Comment, Language, Token, TokenKind, TokenStream, tokenize
from omnigraph.lang.literals import BASE_TYPES
from omnigraph.lang.source import Source
from omnigraph.query.completion_frames import (
    MUTATION_WORDS,
    PATH_WORDS,
    VALUE_BLOCK_WORDS,
    Frame,
    OpenBrackets,
    Role,
    find_open_brackets,
)
from omnigraph.query.completion_scope import (
    NamesInScope,
    collect_names,
    list_properties,
    resolve_edges,
    resolve_type_names,
)
from omnigraph.query.functions import FUNCTIONS
from omnigraph.query.scalar_functions import DURATION_UNITS
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, Property
from omnigraph.schema.types import EnumOf


class ProposalKind(Enum):
    """What a proposal names."""

    KEYWORD = "keyword"
    TYPE = "type"
    PROPERTY = "property"
    VARIABLE = "variable"
    EDGE = "edge"
    FUNCTION = "function"
    VALUE = "value"
    COLUMN = "column"
    PATTERN = "pattern"
    QUERY = "query"
    BRANCH = "branch"
    COMMAND = "command"


class Proposal(JsonStruct, frozen=True, kw_only=False):
    """A text that may be written at the position, and a few words about it."""

    text: str
    kind: ProposalKind
    detail: str = ""


class Completion(JsonStruct, frozen=True, kw_only=False):
    """The proposals that begin like the word at the position, likeliest first; one replaces `text[start:end]`."""

    start: int
    end: int
    proposals: tuple[Proposal, ...]


class ArgumentKind(Enum):
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
    commands: Mapping[str, ArgumentKind] = field(default_factory=dict)
    """The commands that a line may begin with, as `.use`, and what follows each."""


NO_NAMES = KnownNames()

_WORD_BEFORE = re.compile(r"[$@]?\w*+\Z")
_WORD_AFTER = re.compile(r"\w*")
_STATEMENTS = ("match", *MUTATION_WORDS)
_JOINING_WORDS = ("and", "or", "in", "contains", "starts_with", "is")
_OPERATORS = (*_JOINING_WORDS, "not")
_OPERATOR_WORDS = frozenset((*_OPERATORS, "where", "case", "distinct", "else", "limit", "offset", "return", "on"))
_CLAUSE_WORDS = ("not", "optional", "either", "exists", "let", "each", *PATH_WORDS)
_VALUE_WORDS = ("not", "case", "null", "true", "false", "date", "datetime", *VALUE_BLOCK_WORDS)
_AFTER_READ = ("return", "with", "having", "order", "limit", "offset", "per", "union", "returning")
_META = {"@id": "the id of a node or edge", "@type": "its type", "@src": "an edge's source", "@dst": "its target"}
_EXPRESSION_ROLES = frozenset(
    (Role.COLUMNS, Role.KEYS, Role.VALUES, Role.BARE, Role.CASE, Role.CALL, Role.GROUP, Role.FIELDS, Role.RECORD)
)
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
    before = tokenize(Source(text[:position]), Language.QUERY)
    start = _find_word(text, position, before)
    end = position + len((_WORD_AFTER.match(text, position) or [""])[0])
    if _is_in_comment(text, position, before.comments):
        return Completion(position, position, ())
    prefix = text[start:position]
    all_tokens = [token for token in tokenize(Source(text), Language.QUERY).tokens if token.kind is not TokenKind.END]
    tokens = [token for token in before.tokens if token.span.end <= start and token.kind is not TokenKind.END]
    first, last = _find_query(all_tokens, start)
    earlier = [token for token in tokens if token.span.start >= first]
    others = [token for token in all_tokens if first <= token.span.start < last and token.span.start != start]
    names = collect_names(others, all_tokens, catalog)
    here = _Position(earlier, catalog, names, known, is_first=not tokens)
    return Completion(start, end, _select(here.propose(), prefix))


def _select(proposals: Iterable[Proposal], prefix: str) -> tuple[Proposal, ...]:
    """Return the proposals that begin with the prefix in any case, each text once."""
    folded = prefix.lower()
    found: dict[str, Proposal] = {}
    for proposal in proposals:
        if proposal.text.lower().startswith(folded):
            found.setdefault(proposal.text, proposal)
    return tuple(found.values())


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
        return Completion(0, position, _select(proposals, word))
    kind = known.commands.get(word, ArgumentKind.NOTHING)
    if kind is ArgumentKind.STATEMENT:
        inner = complete(rest, len(rest), catalog, KnownNames(queries=known.queries))
        shift = len(word) + 1
        return Completion(inner.start + shift, inner.end + shift, inner.proposals)
    start = position - len(rest.rpartition(" ")[2])
    arguments = {
        ArgumentKind.BRANCH: (ProposalKind.BRANCH, known.branches),
        ArgumentKind.QUERY: (ProposalKind.QUERY, known.queries),
        ArgumentKind.TYPE: (ProposalKind.TYPE, tuple(type_.name for type_ in catalog.types)),
    }
    if kind not in arguments:
        return Completion(position, position, ())
    proposal_kind, texts = arguments[kind]
    return Completion(start, position, _select((Proposal(text, proposal_kind) for text in texts), text[start:position]))


# --- positions in a query ------------------------------------------------------------------------------


def _keywords(*words: str) -> Iterator[Proposal]:
    return (Proposal(word, ProposalKind.KEYWORD) for word in words)


@dataclass
class _Position:
    """The tokens of a query before a position, and what may follow them."""

    tokens: Sequence[Token]
    catalog: Catalog
    names: NamesInScope
    known: KnownNames
    is_first: bool

    @cached_property
    def brackets(self) -> OpenBrackets:
        """The brackets that are open."""
        return find_open_brackets(self.tokens)

    def text(self, back: int) -> str:
        """Return the text of a token before the position: 1 is the last one; empty if there is none."""
        return self.tokens[-back].text if back <= len(self.tokens) else ""

    def kind(self, back: int) -> TokenKind:
        """Return the kind of a token before the position."""
        return self.tokens[-back].kind if back <= len(self.tokens) else TokenKind.END

    def propose(self) -> Iterator[Proposal]:
        """Propose what may follow, likeliest first."""
        last = self.text(1)
        role = self.brackets.innermost.role
        if last == "." and self.kind(1) is TokenKind.SIGN:
            yield from self._propose_members()
        elif role in (Role.PARAMS, Role.RECORD_TYPE):
            if last in (":", "["):
                yield from (Proposal(name, ProposalKind.TYPE) for name in (*BASE_TYPES, "Vector"))
        elif role is Role.PATTERN_PARAMS or role is Role.TYPES:
            if last in (":", "(", "|"):
                yield from self._propose_node_types()
        elif role is Role.EDGES:
            yield from self._propose_edges(None)
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
            yield from self._propose_fields(frame)
        elif frame.role in _EXPRESSION_ROLES:
            yield from self._propose_value(frame, _AFTER_VALUE.get(frame.role, ()))

    # --- statements ------------------------------------------------------------------------------------

    def _propose_statements(self, frame: Frame) -> Iterator[Proposal]:
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
                yield from self._propose_table_types()
                if last != "insert":
                    yield from self._propose_variables()
            case "union":
                yield from _keywords("all", "match")
            case "all":
                yield from _keywords("match")
            case "return" | "with":
                yield from _keywords("distinct")
            case "if":
                yield from _keywords("absent")
            case "limit" | "offset" | "as":
                yield from self._propose_variables()
            case _ if frame.part == "where":
                yield from self._propose_value(frame, (*_STATEMENTS, "returning"))
            case _ if frame.part in MUTATION_WORDS and self.kind(1) in (TokenKind.TYPE, TokenKind.VARIABLE):
                yield from _keywords({"update": "set", "delete": "where"}.get(frame.part, ""))
                yield from _keywords(*_STATEMENTS, "returning")
            case _:
                yield from self._propose_parts(frame, is_inside=is_inside)

    def _propose_parts(self, frame: Frame, *, is_inside: bool) -> Iterator[Proposal]:
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
            if self.kind(3) is TokenKind.VARIABLE:
                yield from self._propose_edges(self.tokens[-3])
            yield from self._propose_node_types()
            return
        if last == "<":
            yield from self._propose_edges(self.tokens[-2] if self.kind(2) is TokenKind.VARIABLE else None)
        if last in ("let", *PATH_WORDS, "each") and self.kind(1) is TokenKind.IDENT:
            yield from self._propose_variables()
            return
        if self.kind(1) is TokenKind.VARIABLE:
            if self.text(2) == "each":
                yield from _keywords("in")
            yield from self._propose_edges(self.tokens[-1])
        if self.is_after_value:
            yield from _keywords(*_OPERATORS, "along", "through", "by", "return")
        if self.text(1) in ("is", "not"):
            yield from _keywords("not", "null")
        yield from self._propose_variables()
        yield from _keywords(*_CLAUSE_WORDS)
        yield from (Proposal(name, ProposalKind.PATTERN) for name in self.names.patterns)
        yield from self._propose_operands()
        if self.brackets.innermost.role is Role.CLAUSES and self._may_return:
            yield from _keywords("return")

    @property
    def _may_return(self) -> bool:
        """Whether the innermost frame is a block with a value, which `return` names."""
        opening = self.brackets.innermost.opening
        return opening > 0 and self.tokens[opening - 1].text in VALUE_BLOCK_WORDS

    def _propose_edges(self, start: Token | None) -> Iterator[Proposal]:
        """Propose edges; those that fit the type of the variable that they start from, if it is written."""
        types = self.names.variables.get(start.text, set()) if start and start.text in self.names.explicit else set()
        for edge in self.catalog.edges.values():
            if not types or edge.source in types or edge.target in types:
                detail = f"{edge.source} -> {edge.target}"
                yield Proposal(decapitalize_name(edge.name), ProposalKind.EDGE, detail)

    # --- values ----------------------------------------------------------------------------------------

    @property
    def is_after_value(self) -> bool:
        """Whether a value may end at the position, so that an operator may follow."""
        kind = self.kind(1)
        if kind is TokenKind.SIGN:
            return self.text(1) in (")", "]", "}", "*")
        if kind is TokenKind.IDENT and self.text(1) in _OPERATOR_WORDS:
            # A word that joins two values and has none before it is the name of a property.
            is_name = self.text(1) in _JOINING_WORDS and self.text(2) in ("and", "or", "where", "{", "(", ",", "set")
            return is_name or self.text(2) == "."
        return kind is not TokenKind.END

    def _propose_value(self, frame: Frame, after: Iterable[str]) -> Iterator[Proposal]:
        """Propose a value, or what follows one."""
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
            yield from self._propose_fields(frame)
        if frame.role is Role.CASE:
            yield from _keywords("else")
        if frame.role is Role.CALL and self.tokens[-1:] and len(self.tokens) - 1 == frame.opening:
            yield from _keywords("distinct")
        if frame.role is Role.CALL:
            function = FUNCTIONS.get(self.tokens[frame.opening - 1].text)
            yield from _keywords(*(function.options if function else ()))
        if frame.role is Role.CLAUSES and frame.part == "return":
            yield from _keywords("distinct")
        yield from self._propose_enum_values(frame)
        bare = self.brackets.bare
        if bare is not None:
            yield from self._propose_properties(self._find_types_of(bare))
            yield from self._propose_meta()
        yield from self._propose_variables()
        yield from (Proposal(name, ProposalKind.COLUMN) for name in self.names.columns)
        yield from self._propose_operands()

    def _propose_operands(self) -> Iterator[Proposal]:
        for function in FUNCTIONS.values():
            yield Proposal(function.name, ProposalKind.FUNCTION, function.usage.replace("`", ""))
        if self.text(1) in ("+", "-"):
            yield from (Proposal(unit, ProposalKind.FUNCTION, f"{unit}(number)") for unit in DURATION_UNITS)
        yield from _keywords(*_VALUE_WORDS)

    def _propose_enum_values(self, frame: Frame) -> Iterator[Proposal]:
        """Propose the values of the enum that the position is compared with, or assigned to."""
        property_ = self._find_compared(frame)
        type_ = property_.type if property_ else None
        if isinstance(type_, EnumOf):
            yield from (Proposal(f'"{value}"', ProposalKind.VALUE, str(type_)) for value in type_.values)

    def _find_compared(self, frame: Frame) -> Property | None:
        """Return the property before the operator or the colon at the position, if there is one."""
        tokens = self.tokens
        at = len(tokens) - 1
        if frame.role is Role.VALUES and frame.opening >= 0 and tokens[frame.opening].text == "[":
            at = frame.opening - 1
        if at < 1 or tokens[at].text not in ("=", "!=", "in", ":", "contains"):
            return None
        name = tokens[at - 1].text
        if tokens[at].text == ":":
            types = self._find_types_of(frame) if frame.role is Role.FIELDS else []
        elif at >= 3 and tokens[at - 2].text == ".":
            types = self._list_types(self.names.variables.get(tokens[at - 3].text, set()))
        else:
            bare = self.brackets.bare
            types = self._find_types_of(bare) if bare else []
        return list_properties(types).get(name)

    # --- names -----------------------------------------------------------------------------------------

    def _is_at_field_name(self, frame: Frame) -> bool:
        return frame.role in (Role.FIELDS, Role.RECORD) and self.text(1) in ("{", ",")

    def _propose_fields(self, frame: Frame) -> Iterator[Proposal]:
        """Propose the properties that a binding or an assignment may name and has not named yet."""
        if frame.role is Role.RECORD:
            return
        types = self._find_types_of(frame)
        if any(isinstance(type_, EdgeType) for type_ in types):
            yield from (Proposal(name, ProposalKind.PROPERTY) for name in ("from", "to") if name not in frame.names)
        for proposal in self._propose_properties(types):
            if proposal.text not in frame.names:
                yield proposal

    def _propose_members(self) -> Iterator[Proposal]:
        """Propose what may follow the point after a variable or a record."""
        owner = self.tokens[-2] if len(self.tokens) > 1 else None
        types: list[AnyType] = []
        if owner is not None and owner.kind is TokenKind.VARIABLE:
            types = self._list_types(self.names.variables.get(owner.text, set()))
        yield from self._propose_properties(types or self.catalog.types)
        yield from self._propose_meta()

    def _propose_meta(self) -> Iterator[Proposal]:
        yield from (Proposal(name, ProposalKind.PROPERTY, detail) for name, detail in _META.items())

    def _propose_properties(self, types: Iterable[AnyType]) -> Iterator[Proposal]:
        types = list(types)
        for name, property_ in list_properties(types).items():
            detail = f"{property_.type}{'?' if property_.nullable else ''}"
            yield Proposal(name, ProposalKind.PROPERTY, detail)
        if self.brackets.bare is not None and any(isinstance(type_, EdgeType) for type_ in types):
            yield from (Proposal(name, ProposalKind.PROPERTY, "an end of the edge") for name in ("from", "to"))

    def _propose_variables(self) -> Iterator[Proposal]:
        for name, types in self.names.variables.items():
            yield Proposal(name, ProposalKind.VARIABLE, " | ".join(sorted(types)))

    def _propose_node_types(self) -> Iterator[Proposal]:
        yield from (Proposal(name, ProposalKind.TYPE, "node") for name in self.catalog.nodes)
        yield from (Proposal(name, ProposalKind.TYPE, "interface") for name in self.catalog.interfaces)

    def _propose_table_types(self) -> Iterator[Proposal]:
        yield from (Proposal(name, ProposalKind.TYPE, "node") for name in self.catalog.nodes)
        yield from (Proposal(name, ProposalKind.TYPE, "edge") for name in self.catalog.edges)

    def _list_types(self, names: Iterable[str]) -> list[AnyType]:
        return [type_ for name in sorted(names) if (type_ := self.catalog.find_type(name)) is not None]

    def _find_types_of(self, frame: Frame) -> list[AnyType]:
        """Return the types whose properties a frame names; all where they are unknown."""
        index = frame.subject if frame.role is Role.BODY else frame.owner
        if not 0 <= index < len(self.tokens):
            return list(self.catalog.types)
        token = self.tokens[index]
        if token.text in ("along", "through", "by"):
            return self._find_types_on_the_way(index)
        if token.kind is TokenKind.VARIABLE:
            names = self.names.variables.get(token.text, set())
        else:
            names = resolve_type_names(self.tokens, index, self.catalog)
        return self._list_types(names) or list(self.catalog.types)

    def _find_types_on_the_way(self, index: int) -> list[AnyType]:
        """Return the types that `along`, `through` or `by` at an index tells about: those of the hop before it."""
        word = self.tokens[index].text
        for at in range(index - 1, 0, -1):
            edges, _ = resolve_edges(self.tokens, at, self.catalog)
            if edges and self.tokens[at - 1].kind is TokenKind.VARIABLE:
                if word == "through":
                    return self._list_types({name for edge in edges for name in (edge.source, edge.target)})
                return list(edges)
        return list(self.catalog.types)
