"""Find nodes by a text that a person types: their ids first, then the words of their properties."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.session import Session
from omnigraph.ops.snapshot_reader import SnapshotReader, StateCall
from omnigraph.schema.catalog import NodeType
from omnigraph.schema.types import Scalar

MAX_MATCHES = 1_000
DEFAULT_MATCHES = 20
MAX_CHARACTERS = 1_000


class MatchedBy(Enum):
    """How a node was found."""

    KEY = "key"
    """Its id is the text, or begins with it."""
    WORDS = "words"
    """A property has words of the text."""


class EntityMatch(JsonStruct, frozen=True, kw_only=True):
    """A node that was found: the property with the words and their relevance, if it was found by words."""

    type: str
    id: str
    matched: MatchedBy
    property: str | None
    score: float | None
    node: dict[str, Any]


class EntityMatches(JsonStruct, frozen=True, kw_only=True):
    """The nodes of one state that were found, best first."""

    branch: str
    commit_id: str
    matches: tuple[EntityMatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCall:
    """The text that is searched for, and where."""

    text: str
    types: Sequence[str] | None = None
    limit: int = DEFAULT_MATCHES
    state: StateCall = field(default_factory=StateCall)


def find_entities(session: Session, call: FindCall) -> EntityMatches:
    """Return at most `limit` nodes whose id is the text, whose id begins with it, or that have words of it.

    Upper and lower case are the same, but for an id that is the text. Words are ranked by `bm25` of each property.

    Raises:
        TypeMissingError: There is no such node type.
        BadArgumentError: The text is empty or too long, or the limit too large.
        BranchMissingError, CommitMissingError: There is no such state.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
    """
    check_text("text", call.text)
    text = call.text.strip()
    if not 1 <= len(text) <= MAX_CHARACTERS:
        raise BadArgumentError("text", f"of {len(text):,} characters", f"it has 1 to {MAX_CHARACTERS:,}")
    if not 1 <= call.limit <= MAX_MATCHES:
        raise BadArgumentError("limit", f"{call.limit:,}", f"an answer has 1 to {MAX_MATCHES:,} matches")
    reader = SnapshotReader.open(session, call.state)
    names = reader.catalog.nodes if call.types is None else call.types
    types = [reader.get_node_type(name) for name in dict.fromkeys(names)]
    # By type and id: what was found first stays.
    matches: dict[tuple[str, str], EntityMatch] = {}
    for search in (_find_by_id, _find_by_prefix, _find_by_words):
        for match in search(reader, types, text, call.limit):
            matches.setdefault((match.type, match.id), match)
        if len(matches) >= call.limit:
            break
    return EntityMatches(
        branch=reader.snapshot.branch,
        commit_id=reader.snapshot.commit.id,
        matches=tuple(matches.values())[: call.limit],
    )


def _find_by_id(reader: SnapshotReader, types: Sequence[NodeType], text: str, _: int) -> Iterator[EntityMatch]:
    for type_ in types:
        for node in reader.read_nodes(type_.name, [text]):
            yield _build_match(type_, node, MatchedBy.KEY)


def _find_by_prefix(reader: SnapshotReader, types: Sequence[NodeType], text: str, limit: int) -> Iterator[EntityMatch]:
    for type_ in types:
        pattern = f"$n: {type_.name} starts_with(lower($n.@id), $text)"
        query = (
            f"query prefix($text: String, $limit: I64) {{ match {{ {pattern} }}"
            " return { $n } order { $n.@id } limit $limit }"
        )
        for row in reader.read(query, {"text": text.lower(), "limit": limit}):
            yield _build_match(type_, row["n"], MatchedBy.KEY)


def _find_by_words(reader: SnapshotReader, types: Sequence[NodeType], text: str, limit: int) -> Iterator[EntityMatch]:
    matches = []
    for type_ in types:
        for property_ in type_.properties:
            if property_.type is not Scalar.STRING:
                continue
            score = f"bm25($n.{property_.name}, $text)"
            query = (
                f"query words($text: String, $limit: I64) {{ match {{ $n: {type_.name} }}"
                f" return {{ $n, {score} as score }} order {{ {score} }} limit $limit }}"
            )
            matches += [
                _build_match(type_, row["n"], MatchedBy.WORDS, property_.name, row["score"])
                for row in reader.read(query, {"text": text, "limit": limit})
            ]
    # Stable, so that equal scores stay in the order of the schema and of their ids.
    yield from sorted(matches, key=lambda match: -(match.score or 0.0))


def _build_match(
    type_: NodeType,
    node: Mapping[str, Any],
    matched: MatchedBy,
    property_: str | None = None,
    score: float | None = None,
) -> EntityMatch:
    return EntityMatch(
        type=type_.name, id=node["id"], matched=matched, property=property_, score=score, node=dict(node)
    )
