"""Complete a schema that is being typed: what may be written at a position. Pure; shared by all interfaces."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from omnigraph.lang.lexer import DECLARATION_KEYWORDS, Language, Token, TokenKind, tokenize
from omnigraph.lang.literals import BASE_TYPES
from omnigraph.lang.proposals import Completion, Proposal, ProposalKind, select_proposals
from omnigraph.lang.source import Source
from omnigraph.schema.annotations import KNOWN_ANNOTATIONS

_WORD_BEFORE: Final = re.compile(r"@?\w*+\Z")
_WORD_AFTER: Final = re.compile(r"\w*")
_CONSTRAINTS: Final = ("key", "unique", "index", "range", "check")


def complete_schema(text: str, position: int) -> Completion:
    """Return what may be written at a position of a schema. Never fails, whatever the text is.

    Names that are declared there are not proposed, nor signs, numbers and texts other than the source of `@embed`.
    """
    position = max(0, min(position, len(text)))
    before = tokenize(Source(text[:position]), Language.SCHEMA)
    ends = [stream[-1].span.end for stream in (before.tokens[:-1], before.comments) if stream]
    in_line_comment = (
        before.comments and before.comments[-1].span.end == position and before.comments[-1].text.startswith("//")
    )
    if in_line_comment or text.find("/*", max(ends, default=0), position) >= 0:
        return Completion(position, position, ())
    match = _WORD_BEFORE.search(text, 0, position)
    start = match.start() if match else position
    end = position + len((_WORD_AFTER.match(text, position) or [""])[0])
    tokens = [token for token in before.tokens[:-1] if token.span.end <= start]
    every = tokenize(Source(text), Language.SCHEMA).tokens
    return Completion(start, end, select_proposals(_propose(tokens, every, text[start:position]), text[start:position]))


def _propose(tokens: Sequence[Token], every: Sequence[Token], prefix: str) -> Iterator[Proposal]:
    last = tokens[-1].text if tokens else ""
    header, is_inside, call = _find_place(tokens)
    if prefix.startswith("@"):
        yield from _propose_annotations(is_inside=is_inside)
    elif call is not None:
        if call in _CONSTRAINTS and last in ("(", ","):
            yield from _propose_columns(every, tokens[-1].span.start)
    elif is_inside:
        if last in (":", "["):
            yield from (Proposal(name, ProposalKind.TYPE) for name in (*BASE_TYPES, "Vector"))
            yield Proposal("enum", ProposalKind.KEYWORD, "enum(a, b, …)")
    elif header[:1] == ["edge"] and last in (":", ">", "->"):
        yield from _propose_types(every, "node")
    elif header[:1] == ["node"] and (last == "implements" or (last == "," and "implements" in header)):
        yield from _propose_types(every, "interface")
    elif header[:1] == ["node"] and len(header) == 2:
        yield Proposal("implements", ProposalKind.KEYWORD)
    elif not header or last == "}":
        yield from (Proposal(word, ProposalKind.KEYWORD) for word in DECLARATION_KEYWORDS)


def _find_place(tokens: Sequence[Token]) -> tuple[list[str], bool, str | None]:
    """Return the header that the tokens end in, whether a body is open, and the annotation whose `(` is open."""
    header: list[str] = []
    is_inside = False
    calls: list[str] = []
    for index, token in enumerate(tokens):
        is_header = token.text in DECLARATION_KEYWORDS and tokens[index + 1 : index + 2] != []
        if is_header and tokens[index + 1].kind is TokenKind.TYPE:
            # Also inside of a body whose brace is missing.
            header, is_inside, calls = [], False, []
        if token.text == "(":
            calls.append(tokens[index - 1].text if index else "")
        elif token.text == ")" and calls:
            calls.pop()
        elif token.text == "{":
            is_inside = True
        elif token.text == "}":
            header, is_inside, calls = [], False, []
            continue
        header.append(token.text)
    return header, is_inside, calls[-1] if calls else None


def _propose_annotations(*, is_inside: bool) -> Iterator[Proposal]:
    for name, rules in KNOWN_ANNOTATIONS.items():
        if is_inside or rules.home.startswith("on "):
            usage = rules.usage.replace("`", "")
            yield Proposal(f"@{name}", ProposalKind.KEYWORD, f"{usage}, {rules.home}")


def _propose_types(tokens: Sequence[Token], keyword: str) -> Iterator[Proposal]:
    for word, name in pairwise(tokens):
        if word.text == keyword and name.kind is TokenKind.TYPE:
            yield Proposal(name.text, ProposalKind.TYPE, keyword)


def _propose_columns(tokens: Sequence[Token], at: int) -> Iterator[Proposal]:
    """Yield the properties of the declaration around a place, and the ends of an edge."""
    declared: list[Proposal] = []
    for index, token in enumerate(tokens[:-1]):
        following = tokens[index + 1]
        if token.text in DECLARATION_KEYWORDS and following.kind is TokenKind.TYPE:
            if token.span.start > at:
                break
            declared = [Proposal(end, ProposalKind.PROPERTY, "an end of the edge") for end in ("src", "dst")]
            declared = declared if token.text == "edge" else []
        elif token.kind is TokenKind.IDENT and following.text == ":" and tokens[index + 2 : index + 3]:
            declared.append(Proposal(token.text, ProposalKind.PROPERTY, tokens[index + 2].text))
    yield from declared
