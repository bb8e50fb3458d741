"""Find what is open at a position of a query's text: the brackets around it, what each holds, and its latest word.

A pushdown automaton over tokens, not the parser: a text that is being typed is broken nearly always, and this is right
wherever the tokens before the position are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from omnigraph.lang.lexer import Token, TokenKind
from omnigraph.lang.query_ast import BlockKind, PathKind

PATH_WORDS = tuple(kind.value for kind in PathKind)
VALUE_BLOCK_WORDS = tuple(kind.value for kind in BlockKind)
MUTATION_WORDS = ("insert", "update", "delete")


class Role(Enum):
    """What a pair of brackets holds."""

    BODY = auto()
    PARAMS = auto()
    PATTERN_PARAMS = auto()
    ANNOTATION = auto()
    CLAUSES = auto()
    COLUMNS = auto()
    KEYS = auto()
    VALUES = auto()
    BARE = auto()
    FIELDS = auto()
    RECORD = auto()
    RECORD_TYPE = auto()
    CASE = auto()
    WINDOW = auto()
    BOUNDS = auto()
    CALL = auto()
    GROUP = auto()
    TYPES = auto()
    EDGES = auto()


@dataclass(slots=True)
class BracketFrame:
    """A pair of brackets that is open, or was when it was closed."""

    role: Role
    opening: int
    """The index of the token that opened it; -1 for the text itself."""
    owner: int = -1
    """The index of the token whose properties it names: a type, a variable or an edge; -1 if there is none."""
    part: str = ""
    """The latest keyword of a body or a block, directly in it."""
    subject: int = -1
    """The index of the type or variable that the latest statement changes; -1 if there is none."""
    names: list[str] = field(default_factory=list)
    """The names before a `:` directly in it."""

    @property
    def is_bare(self) -> bool:
        """Whether properties are named without a variable here."""
        return self.role is Role.BARE or (self.role is Role.BODY and self.part == "where")


# Words that change what may follow directly in a body.
_BODY_WORDS = frozenset(
    ("match", "with", "return", "having", "order", "limit", "offset", "union", "returning", "set", "where", "as", "if")
) | frozenset(MUTATION_WORDS)
# What a brace holds, by the word before it.
_BRACE_ROLES = (
    dict.fromkeys(("match", "not", "optional", "either", "or", *VALUE_BLOCK_WORDS), Role.CLAUSES)
    | dict.fromkeys(("return", "with", "returning", "distinct"), Role.COLUMNS)
    | dict.fromkeys(("per", "having"), Role.VALUES)
    | {"order": Role.KEYS, "case": Role.CASE, "over": Role.WINDOW}
)
_CLOSING = {"}": "{", ")": "(", "]": "["}
# After one of these a variable is compared, and does not start a hop.
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "in", "contains", "starts_with")
_NAME_KINDS = (TokenKind.IDENT, TokenKind.TYPE)


@dataclass(frozen=True, slots=True)
class OpenBrackets:
    """The open frames at the end of some tokens, outermost first, and the one that the last token closed."""

    frames: tuple[BracketFrame, ...]
    closed: BracketFrame | None

    @property
    def innermost(self) -> BracketFrame:
        """The frame that the position is directly in."""
        return self.frames[-1]

    @property
    def bare(self) -> BracketFrame | None:
        """The frame whose properties may be named without a variable, if the position is in one."""
        for frame in reversed(self.frames):
            if frame.is_bare:
                return frame
            if frame.role in (Role.CLAUSES, Role.BODY):
                return None
            if frame.role is Role.FIELDS and frame.part == "set":
                return frame
        return None


def find_open_brackets(tokens: Sequence[Token]) -> OpenBrackets:
    """Return the frames that are open after these tokens of one query; the first is the text itself."""
    frames = [BracketFrame(Role.BODY, -1)]
    closed: BracketFrame | None = None
    for index, token in enumerate(tokens):
        if token.text in _CLOSING and token.kind is TokenKind.SIGN:
            closed = _close(frames, tokens, token.text)
            continue
        if token.text in ("{", "(", "[") and token.kind is TokenKind.SIGN:
            frames.append(_open(frames[-1], tokens, index, closed))
        else:
            _record(frames[-1], tokens, index)
        closed = None
    return OpenBrackets(tuple(frames), closed)


def _close(frames: list[BracketFrame], tokens: Sequence[Token], sign: str) -> BracketFrame | None:
    """Close the innermost bracket of this kind, and what was left open in it; a stray one closes nothing."""
    # A missing bracket inside of this pair must not keep the pair open.
    wanted = _CLOSING[sign]
    for depth in range(len(frames) - 1, 0, -1):
        if tokens[frames[depth].opening].text == wanted:
            frame = frames[depth]
            del frames[depth:]
            return frame
        if wanted != "{" and tokens[frames[depth].opening].text == "{":
            return None  # a `)` that closes nothing inside of braces
    return None


def _record(frame: BracketFrame, tokens: Sequence[Token], index: int) -> None:
    """Keep what later tokens of the frame depend on."""
    token = tokens[index]
    if token.text == ":" and index:
        frame.names.append(tokens[index - 1].text)
    if frame.role is Role.BODY and token.text in _BODY_WORDS:
        frame.part = token.text
        if token.text in MUTATION_WORDS:
            frame.subject = index + 1
    elif frame.role is Role.CLAUSES and token.text == "return":
        frame.part = "return"
    elif frame.part == "return" and frame.role is Role.CLAUSES and token.text in ("order", "limit"):
        frame.part = token.text


def _open(parent: BracketFrame, tokens: Sequence[Token], index: int, closed: BracketFrame | None) -> BracketFrame:
    sign = tokens[index].text
    before = tokens[index - 1] if index else None
    # In a header, brackets hold the type of a list.
    if sign == "[":
        role = parent.role if parent.role in (Role.PARAMS, Role.RECORD_TYPE) else Role.VALUES
        return BracketFrame(role, index)
    if before is None:
        return BracketFrame(Role.GROUP if sign == "(" else Role.RECORD, index)
    if sign == "(":
        return BracketFrame(_find_role_of_parentheses(parent, tokens, index), index)
    return _open_brace(parent, tokens, index, closed)


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if 0 <= index < len(tokens) else ""


def _find_role_of_parentheses(parent: BracketFrame, tokens: Sequence[Token], index: int) -> Role:
    before, earlier = tokens[index - 1], _text(tokens, index - 2)
    if earlier == "@" and _text(tokens, index - 3) != ".":
        return Role.ANNOTATION
    if before.kind in _NAME_KINDS:
        declared = {"query": Role.PARAMS, "pattern": Role.PATTERN_PARAMS}
        if earlier in declared and parent.role is Role.BODY:
            return declared[earlier]
        return Role.GROUP if before.text in ("and", "or", "not", "in") else Role.CALL
    if parent.role is Role.PATTERN_PARAMS and before.text == ":":
        return Role.TYPES
    if parent.role is Role.CLAUSES:
        if before.text == ":":
            # `$a $e:(knows|likes)` names edges, `$p:(Person|Pet)` types.
            is_edge = index >= 3 and tokens[index - 3].kind is TokenKind.VARIABLE and not tokens[index - 2].starts_line
            return Role.EDGES if is_edge else Role.TYPES
        is_compared = _text(tokens, index - 2) in _COMPARISONS
        if (before.kind is TokenKind.VARIABLE and not is_compared) or before.text == "<":
            return Role.EDGES
    return Role.GROUP


def _open_brace(parent: BracketFrame, tokens: Sequence[Token], index: int, closed: BracketFrame | None) -> BracketFrame:
    before, earlier = tokens[index - 1], _text(tokens, index - 2)
    if parent.role is Role.PARAMS:
        # Records stand in brackets; any other brace begins a body whose parenthesis is missing.
        return BracketFrame(Role.RECORD_TYPE if before.text == "[" else Role.BODY, index)
    # What the parentheses before it held decides what the braces hold.
    if closed is not None and before.text == ")":
        if closed.role in (Role.PARAMS, Role.ANNOTATION):
            return BracketFrame(Role.BODY, index)
        if closed.role is Role.PATTERN_PARAMS:
            return BracketFrame(Role.CLAUSES, index)
        if closed.role is Role.TYPES:
            return BracketFrame(Role.FIELDS, index, owner=closed.opening + 1)
        if closed.role is Role.EDGES:
            return BracketFrame(Role.BOUNDS, index)
    if before.text == "set":
        return BracketFrame(Role.FIELDS, index, owner=parent.subject, part="set")
    if before.kind is TokenKind.TYPE and (earlier == ":" or parent.part == "insert"):
        return BracketFrame(Role.FIELDS, index, owner=index - 1)
    if before.text in ("along", "through", "by"):
        return BracketFrame(Role.BARE, index, owner=index - 1)
    # `$a knows{1,3} $b`: bounds, not a record.
    is_hop = parent.role is Role.CLAUSES and parent.part != "return" and index >= 2
    if is_hop and (before.text in (">", "*") or _is_edge_of_hop(tokens, index - 1)):
        return BracketFrame(Role.BOUNDS, index)
    role = _BRACE_ROLES.get(before.text) if before.kind is TokenKind.IDENT else None
    return BracketFrame(role or Role.RECORD, index)


def _is_edge_of_hop(tokens: Sequence[Token], index: int) -> bool:
    """Return whether the token at `index` names the edge of a hop: it follows a variable, or a variable's colon."""
    token, before = tokens[index], tokens[index - 1]
    if token.kind not in (*_NAME_KINDS, TokenKind.STRING) or token.text in ("not", "or", "and"):
        return False
    follows_variable = before.kind is TokenKind.VARIABLE and not token.starts_line
    if follows_variable and token.text in ("optional", "either", *VALUE_BLOCK_WORDS):
        # `$a knows $b optional {` starts a block; `$a optional{1,2} $b` is rare enough to be misread.
        return False
    return follows_variable or (before.text == ":" and token.kind is not TokenKind.TYPE)
