"""What elements of lists, fields of values, distances, scores and snippets mean, in the plainest Python."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from omnigraph.query.expr import (
    Bm25,
    Distance,
    EdgeRef,
    Expr,
    FieldRef,
    FuzzyScore,
    Nearest,
    NodeRef,
    RecordsParam,
    Snippet,
)
from omnigraph.query.logical_plan import EachBlock
from omnigraph.query.record_params import RecordRows
from reference_scalars import CalculationError
from reference_search import cosine_distance, fuzzy_score, relevances, words_of

Match: TypeAlias = Mapping[str, Any]
_LENGTH = 160
_LEAD = 40


class Graph(Protocol):
    """The records of a graph."""

    nodes: Mapping[str, Sequence[Mapping[str, Any]]]

    def records(self, type_: Any) -> Sequence[Mapping[str, Any]]: ...


class Reader(Protocol):
    """What values need of the reader of a query."""

    graph: Any
    params: Mapping[str, Any]

    def value(self, expr: Expr, match: Match) -> Any: ...

    def union_records(self, rank: Nearest | Bm25) -> Sequence[Mapping[str, Any]]: ...


def evaluate(
    reader: Reader, expr: FieldRef | RecordsParam | Distance | Snippet | FuzzyScore | Nearest | Bm25, match: Match
) -> Any:
    """The value of one of these expressions in one match."""
    match expr:
        case RecordsParam():
            return _records(reader.params[expr.name])
        case FieldRef():
            return _field(reader, expr, match)
        case Distance():
            left, right = reader.value(expr.left, match), reader.value(expr.right, match)
            return None if left is None or right is None else cosine_distance(left, right)
        case Snippet():
            text, query = reader.value(expr.prop, match), reader.value(expr.query, match)
            return None if text is None else snippet(text, query)
        case FuzzyScore():
            found = expr.match
            edits = None if found.edits is None else reader.value(found.edits, match)
            text, query = reader.value(found.prop, match), reader.value(found.query, match)
            return None if text is None else fuzzy_score(text, query, edits)
        case Nearest() | Bm25():
            return _score(reader, expr, match)


def elements(reader: Reader, block: EachBlock, row: Match) -> Iterator[dict[str, Any]]:
    """The bindings of an `each` in one row: every element and its place in the list."""
    try:
        found = reader.value(block.value, row) or ()
    except CalculationError as error:
        # A list that can't be calculated has one element, which is unknown.
        yield {block.variable: error, block.position: error}
        return
    for place, element in enumerate(found):
        bound = _find_record(reader, block.type, element) if block.is_entity else element
        yield {block.variable: bound, block.position: place}


def _records(given: RecordRows | None) -> list[dict[str, Any]] | None:
    if given is None:
        return None
    return [dict(zip(given.names, values, strict=True)) for values in zip(*given.columns, strict=True)]


def _field(reader: Reader, expr: FieldRef, match: Match) -> Any:
    owner = reader.value(expr.operand, match)
    if owner is None:
        return None
    if isinstance(expr.operand.type, NodeRef | EdgeRef):
        record = _find_record(reader, expr.operand.type, owner)
        return record["@" + expr.name] if expr.name in ("id", "src", "dst") else record.get(expr.name)
    return owner[expr.name]


def _find_record(reader: Reader, type_: Any, shown: Mapping[str, Any]) -> Any:
    """The record of a node or edge that is a value: the object that a result would show."""
    # Nodes of two types may have the same id; a value of a union says which type it is of.
    name = shown.get("@type")
    return next(
        record
        for record in reader.graph.records(type_)
        if record["@id"] == shown["id"] and (name is None or record.get("@type", name) == name)
    )


def _score(reader: Reader, expr: Nearest | Bm25, match: Match) -> float | None:
    record = match[expr.prop.variable]
    if record is None:
        return None
    asked = reader.value(expr.query, match)
    if isinstance(expr, Nearest):
        vector = record.get(expr.prop.name)
        return None if vector is None else cosine_distance(vector, asked)
    # The rarity of a word is counted over all records of the type, or of all types of a union.
    if "@type" in record:
        every = {f"{other['@type']} {other['@id']}": other.get(expr.prop.name) for other in reader.union_records(expr)}
        return relevances(every, asked).get(f"{record['@type']} {record['@id']}")
    for records in (*reader.graph.nodes.values(), *reader.graph.edges.values()):
        if any(other is record for other in records):
            texts = {other["@id"]: other.get(expr.prop.name) for other in records}
            return relevances(texts, asked).get(record["@id"])
    return None


# --- snippets ------------------------------------------------------------------------------------


def snippet(text: str, query: str) -> str | None:
    """The passage with the most different words of a query, then the most words, the first of several."""
    wanted = set(words_of(query))
    hits = [
        (*run.span(), set(words_of(run.group())) & wanted) for run in re.finditer(r"[0-9A-Za-z\x80-\U0010ffff]+", text)
    ]
    hits = [hit for hit in hits if hit[2]]
    if not hits:
        return None
    best: list[Any] = []
    best_score = (0, 0)
    for first in range(len(hits)):
        for last in range(first, len(hits)):
            window = hits[first : last + 1]
            if last > first and window[-1][1] - window[0][0] > _LENGTH:
                continue
            score = (len(set[str]().union(*(words for _, _, words in window))), len(window))
            if score > best_score:
                best, best_score = window, score
    start, end = _bounds(text, best[0][0], best[-1][1])
    marked = text[start:end]
    for begin, stop, _ in reversed(best):
        marked = f"{marked[: begin - start]}**{marked[begin - start : stop - start]}**{marked[stop - start :]}"
    shown = ("" if start == 0 else "…") + marked + ("" if end == len(text) else "…")
    return " ".join(shown.split())


def _bounds(text: str, start: int, end: int) -> tuple[int, int]:
    if len(text) <= _LENGTH:
        return 0, len(text)
    begin = max(0, min(start - min(_LEAD, max(0, _LENGTH - (end - start))), len(text) - _LENGTH))
    while 0 < begin < start and not text[begin].isspace():
        begin += 1
    while 0 < begin < start and text[begin].isspace():
        begin += 1
    stop = min(len(text), begin + max(_LENGTH, end - begin))
    if stop < len(text):
        while stop > end and not text[stop].isspace():
            stop -= 1
        while stop > end and text[stop - 1].isspace():
            stop -= 1
    return begin, stop
