"""Texts and vectors to search in tests, and the naive answers that the engine's must equal.

Everything naive works on one row at a time, by the definitions in docs/how-to/search.md.
"""

import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import dropwhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import Stemmer

from omnigraph.clock import SystemClock
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.view import View
from omnigraph.lang.source import Source, Span
from omnigraph.ops.create import create
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Options
from omnigraph.query.expr import Bm25, Const, Nearest, ParamRef, Prop, Rrf, TextMatch, TextMode
from omnigraph.schema.types import Scalar, VectorOf
from worlds import runtime

NOWHERE = Span(0, 0)
SIZE = 3
SCHEMA = f"node Doc {{ text: String?  vec: Vector({SIZE})? }}"
Rows = Mapping[str, tuple[str | None, Sequence[float] | None]]
"""Text and vector by id."""


class Shelf:
    """A graph of documents, written in as many fragments as there are writes."""

    def __init__(self, root: Path, schema: str = SCHEMA) -> None:
        self.session = create(str(root), Source(schema, "docs.pg"), actor="test", runtime=runtime())
        self.cache = GraphCache(Options())
        self.docs: dict[str, tuple[str | None, Sequence[float] | None]] = {}

    def write(self, rows: Rows) -> None:
        """Put some rows, in one fragment."""
        self.docs.update(rows)
        table = pa.table(
            {
                "id": pa.array(rows, pa.string()),
                "text": pa.array([text for text, _ in rows.values()], pa.string()),
                "vec": pa.array([vec for _, vec in rows.values()], pa.list_(pa.float32(), SIZE)),
            }
        )
        write_tables(self.session, [TableWrite(table_key="node:Doc", upsert=table)], operation="w", actor="x")

    def delete(self, ids: Collection[str]) -> None:
        """Delete some rows: their positions become holes."""
        for row_id in ids:
            del self.docs[row_id]
        write_tables(self.session, [TableWrite(table_key="node:Doc", delete=sorted(ids))], operation="w", actor="x")

    def reading(self, params: Mapping[str, Any] | None = None, *, cache: GraphCache | None = None) -> ExecutionContext:
        """A read of the newest state."""
        snapshot = self.session.resolve_snapshot()
        return ExecutionContext(
            view=View(self.session.load_catalog(snapshot), self.session.open_tables(snapshot)),
            inputs=QueryInputs(params or {}, datetime(2026, 1, 2, tzinfo=UTC)),
            budget=Budget(SystemClock()),
            cache=cache or self.cache,
        )

    def at(self, ids: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The positions of these rows."""
        return self.reading().get_reader("Doc").find(pa.array(ids, pa.string()))

    def ids(self, positions: np.ndarray[Any, Any]) -> list[str]:
        """The ids at these positions."""
        found: list[str] = self.reading().get_reader("Doc").take_values("id", positions).to_pylist()
        return found


# --- questions ---------------------------------------------------------------------------------------

TEXT = Prop(variable="d", name="text", type=Scalar.STRING, nullable=True, origin=NOWHERE)
VEC = Prop(variable="d", name="vec", type=VectorOf(SIZE), nullable=True, origin=NOWHERE)


def whole(number: int) -> Const:
    return Const(value=number, type=Scalar.I64, origin=NOWHERE)


def text_match(mode: TextMode, query: str, edits: int | None = None) -> TextMatch:
    asked = Const(value=query, type=Scalar.STRING, origin=NOWHERE)
    return TextMatch(mode=mode, prop=TEXT, query=asked, edits=None if edits is None else whole(edits), origin=NOWHERE)


def bm25(query: str) -> Bm25:
    return Bm25(prop=TEXT, query=Const(value=query, type=Scalar.STRING, origin=NOWHERE), origin=NOWHERE)


def nearest(vector: Sequence[float]) -> Nearest:
    query = Const(value=tuple(map(float, vector)), type=VectorOf(SIZE), origin=NOWHERE)
    return Nearest(prop=VEC, query=query, origin=NOWHERE)


def nearest_text(text: str) -> Nearest:
    return Nearest(prop=VEC, query=Const(value=text, type=Scalar.STRING, origin=NOWHERE), origin=NOWHERE)


def rrf(first: Nearest | Bm25, second: Nearest | Bm25, k: int = 60) -> Rrf:
    return Rrf(first=first, second=second, k=whole(k), origin=NOWHERE)


def parameter(name: str, type_: Scalar) -> ParamRef:
    return ParamRef(name=name, type=type_, nullable=True, origin=NOWHERE)


# --- naive answers -------------------------------------------------------------------------------------

STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this"
    " to was will with"
)
SPELT = dict(zip("æœøđðþłħıŋŧ", "ae oe o d d th l h i n t".split(), strict=True))  # noqa: SIM905 - in a row, as above


def naive_words(text: str) -> list[str]:
    """The folded words of a text, character by character."""
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFKD", text).casefold())
    words, word = [], ""
    for char in plain + " ":
        if char.isalnum() or unicodedata.category(char)[0] == "M":
            word += char
            continue
        folded = naive_fold("".join(dropwhile(lambda char: not char.isalnum(), word)))
        if any(c.isalnum() for c in folded) and folded not in STOP_WORDS.split():
            words.append(folded)
        word = ""
    return words


def naive_fold(word: str) -> str:
    folded = ""
    for char in word:
        base = unicodedata.normalize("NFKD", char)[0]
        if char in SPELT:
            folded += SPELT[char]
        elif base.isascii():
            folded += base
        elif unicodedata.category(char) != "Mn" or not folded or not folded[-1].isascii():
            folded += char
    return folded


def naive_stems(text: str) -> list[str]:
    return [naive_stem(word) for word in naive_words(text)]


def naive_stem(word: str) -> str:
    return str(Stemmer.Stemmer("english").stemWord(word))


def naive_match(mode: TextMode, text: str | None, query: str, edits: int | None = None) -> bool:
    """Whether one text is found."""
    if text is None:
        return False
    stored, asked = naive_stems(text), naive_stems(query)
    if mode is TextMode.ANY:
        return any(stem in stored for stem in asked)
    if mode is TextMode.ALL:
        parts = query.split('"')
        # Every second part stands between two quotes, unless the last quote is alone.
        phrases = [naive_stems(part) for part in (parts[1::2] if len(parts) % 2 else parts[1:-1:2])]
        return bool(asked) and all(stem in stored for stem in asked) and all(has_run(stored, p) for p in phrases)
    forms = [(word, other) for word in naive_words(query) for other in naive_words(text)]
    forms += [(naive_stem(word), naive_stem(other)) for word, other in forms]
    return any(naive_distance(one, other) <= (naive_edits(one) if edits is None else edits) for one, other in forms)


def naive_edits(form: str) -> int:
    """How far another form may be, by default."""
    return 0 if len(form) <= 2 else 1 if len(form) <= 5 else 2


def has_run(stored: Sequence[str], run: Sequence[str]) -> bool:
    return any(list(stored[at : at + len(run)]) == list(run) for at in range(len(stored) - len(run) + 1))


def naive_distance(a: str, b: str) -> int:
    """Optimal string alignment, by the book."""
    table = [[i + j if not i or not j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


def naive_bm25(docs: Rows, query: str, among: Collection[str]) -> dict[str, float]:
    """The relevance of every row with a match; statistics are of all rows."""
    stored = {row_id: naive_stems(text) for row_id, (text, _) in docs.items() if text is not None}
    mean = sum(map(len, stored.values())) / len(stored) if stored else 0.0
    scores: dict[str, float] = {}
    for stem in dict.fromkeys(naive_stems(query)):
        matching = [row_id for row_id, stems in stored.items() if stem in stems]
        weight = math.log(1 + (len(stored) - len(matching) + 0.5) / (len(matching) + 0.5))
        for row_id in matching:
            times, length = stored[row_id].count(stem), len(stored[row_id])
            share = times * (1.2 + 1) / (times + 1.2 * (1 - 0.75 + 0.75 * length / mean))
            scores[row_id] = scores.get(row_id, 0.0) + share * weight
    return {row_id: score for row_id, score in scores.items() if row_id in among}


def naive_cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """1 less the cosine; 1 for a vector of zeros."""
    left, right = ([float(np.float32(x)) for x in a], [float(x) for x in b])
    lengths = math.hypot(*left) * math.hypot(*right)
    return 1 - math.fsum(x * y for x, y in zip(left, right, strict=True)) / lengths if lengths else 1.0


def naive_order(scores: Mapping[str, float], *, descending: bool) -> list[str]:
    """Best first, equals by id."""
    return sorted(scores, key=lambda row_id: (-scores[row_id] if descending else scores[row_id], row_id))


def naive_rrf(
    first: Sequence[str], second: Sequence[str], among: Collection[str], k: int, top: int
) -> dict[str, float]:
    length = max(4 * top, 100)
    scores = dict.fromkeys(among, 0.0)
    for ranked in (first[:length], second[:length]):
        for rank, row_id in enumerate(ranked, 1):
            scores[row_id] += 1 / (k + rank)
    return scores
