"""Retrieve passages of text by a query, for the frameworks that hand them to a model."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from omnigraph.errors import BadArgumentError

# As many as retrievers usually return.
DEFAULT_PASSAGES = 5
_NAME = re.compile(r"[A-Za-z_]\w*")


class QueryResult(Protocol):
    """The part of a result that is used here, of a graph in this process or on a server."""

    commit_id: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    def json_rows(self) -> Iterable[Mapping[str, object]]:
        """Return the rows as JSON values."""


class QueryGraph(Protocol):
    """A graph that runs queries: `Graph` or `RemoteGraph`."""

    def query(
        self,
        source: str,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
    ) -> QueryResult:
        """Run a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A row of a result: its text, its id and score if the query has them, and its other columns."""

    text: str
    id: str | None
    score: float | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """A query whose parameter `question` takes the words that are asked, and whose rows are passages."""

    query: str
    """The text of the query, or of a file that has it."""
    name: str | None = None
    question: str = "question"
    params: Mapping[str, Any] = field(default_factory=dict)
    """Values of its other parameters."""
    text_column: str = "text"
    id_column: str = "id"
    score_column: str = "score"
    branch: str = "main"
    snapshot: str | None = None

    def run(self, graph: QueryGraph, words: str) -> list[Passage]:
        """Return the passages for some words, in the order of the query.

        Raises:
            BadArgumentError: The query has no column for the text, or `params` has the question too.
            What `Graph.query` raises.
        """
        if self.question in self.params:
            raise BadArgumentError("params", f"`{self.question}`", "that parameter takes the question")
        result = graph.query(
            self.query,
            name=self.name,
            params={**self.params, self.question: words},
            branch=self.branch,
            snapshot=self.snapshot,
        )
        if self.text_column not in result.columns:
            columns = ", ".join(f"`{column}`" for column in result.columns)
            raise BadArgumentError(
                "text_column", f"`{self.text_column}`", f"the query has {columns}; name one, or write `as text` in it"
            )
        return [self._build_passage(row, result.commit_id) for row in result.json_rows()]

    def _build_passage(self, row: Mapping[str, Any], commit_id: str) -> Passage:
        text, id_, score = (row.get(name) for name in (self.text_column, self.id_column, self.score_column))
        used = {self.text_column, self.id_column, self.score_column}
        metadata = {name: value for name, value in row.items() if name not in used}
        return Passage(
            text="" if text is None else str(text),
            id=None if id_ is None else str(id_),
            score=float(score) if isinstance(score, int | float) else None,
            # The commit makes an answer repeatable: the same query can be run on it again.
            metadata={**metadata, "commit_id": commit_id},
        )


def build_hybrid_query(type_name: str, *, text: str, vector: str | None = None, limit: int = DEFAULT_PASSAGES) -> str:
    """Return a query that ranks the nodes of a type by the words of a text, and by a vector if there is one.

    Raises:
        BadArgumentError: A name is no name, or the limit is not positive.
    """
    for argument, name in (("type_name", type_name), ("text", text), ("vector", vector)):
        if name is not None and not _NAME.fullmatch(name):
            raise BadArgumentError(argument, f"`{name}`", "it is the name of a type or property")
    if limit < 1:
        raise BadArgumentError("limit", str(limit), "it is at least 1")
    words = f"bm25($x.{text}, $question)"
    rank = words if vector is None else f"rrf(nearest($x.{vector}, $question), {words})"
    return (
        f"query passages($question: String) {{ match {{ $x: {type_name} }}"
        f" return {{ $x.@id as id, $x.{text} as text, {rank} as score }} order {{ {rank} }} limit {limit} }}"
    )
