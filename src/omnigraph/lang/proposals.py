"""What may be written at a position of a text, as completion answers it."""

from collections.abc import Iterable
from enum import Enum

from omnigraph.json_struct import JsonStruct


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


def select_proposals(proposals: Iterable[Proposal], prefix: str) -> tuple[Proposal, ...]:
    """Return the proposals that begin with the prefix in any case, each text once."""
    folded = prefix.lower()
    selected: dict[str, Proposal] = {}
    for proposal in proposals:
        if proposal.text.lower().startswith(folded):
            selected.setdefault(proposal.text, proposal)
    return tuple(selected.values())
