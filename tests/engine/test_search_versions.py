"""Search over the versions of a table: each is answered as it is, and only what is new is analysed."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search import column_index, inverted_index
from omnigraph.engine.search.column_index import ColumnIndex, iter_segments
from omnigraph.engine.search.ranking import rank_rows
from omnigraph.engine.search.text_match import find_text_positions
from omnigraph.query.expr import TextMode
from searching import (
    Shelf,
    bm25,
    naive_bm25,
    naive_cosine,
    naive_match,
    naive_order,
    nearest,
    text_match,
)

WORDS = ("graph", "graphs", "engine", "running", "the", "café", "x")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "g")


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts were analysed, call by call."""
    counts: list[int] = []

    def counted(
        texts: pa.Array, budget: Budget | None = None, language: str | None = None
    ) -> inverted_index.InvertedIndex:
        counts.append(len(texts))
        return inverted_index.build_index(texts, budget, language)

    monkeypatch.setattr(column_index, "build_index", counted)
    return counts


def check(shelf: Shelf) -> None:
    """Everything that can be asked is answered as one row after the other would."""
    reading, docs = shelf.reading(), shelf.docs
    at = reading.get_reader("Doc").get_positions()
    found = shelf.ids(find_text_positions(reading, text_match(TextMode.ALL, '"graph engine"'), "Doc"))
    relevant = rank_rows(reading, bm25("graphs café"), "Doc", at, None)
    near = rank_rows(reading, nearest((1, 2, 0)), "Doc", at, None)

    assert sorted(found) == sorted(
        i for i, (text, _) in docs.items() if naive_match(TextMode.ALL, text, '"graph engine"')
    )
    scores = naive_bm25(docs, "graphs café", docs)
    assert shelf.ids(relevant.positions) == naive_order(scores, descending=True)
    assert relevant.values.tolist() == [scores[i] for i in shelf.ids(relevant.positions)]
    distances = {i: naive_cosine(vector, (1, 2, 0)) for i, (_, vector) in docs.items() if vector is not None}
    assert near.values.tolist() == pytest.approx(sorted(distances.values()), abs=1e-12)


def some_rows(random: Random, numbers: list[int]) -> dict[str, tuple[str | None, list[float] | None]]:
    return {
        f"d{number:02}": (
            None if random.random() < 0.2 else " ".join(random.choices(WORDS, k=random.randint(0, 6))),
            None if random.random() < 0.2 else [random.random(), random.random(), random.random()],
        )
        for number in numbers
    }


@pytest.mark.parametrize("seed", range(4))
def test_every_version_is_searched_as_it_is(shelf: Shelf, seed: int) -> None:
    random = Random(seed)
    shelf.write(some_rows(random, list(range(30))))
    check(shelf)

    for _ in range(12):
        if random.random() < 0.3 and shelf.docs:
            shelf.delete(random.sample(sorted(shelf.docs), min(4, len(shelf.docs))))
        else:
            shelf.write(some_rows(random, random.sample(range(60), random.choice((1, 1, 5, 20)))))
        check(shelf)


def test_the_nearest_of_many_are_found_after_a_fragment_is_gone(shelf: Shelf) -> None:
    random = Random(2)

    def some(letter: str, count: int) -> dict[str, tuple[None, list[float]]]:
        """Vectors of very different lengths: those of one row are wrong for another."""
        lengths = [10 ** random.uniform(-3, 3) for _ in range(count)]
        return {
            f"{letter}{number:03}": (None, [length * random.gauss(0, 1) for _ in range(3)])
            for number, length in enumerate(lengths)
        }

    def nearest_five() -> list[float]:
        reading = shelf.reading()
        found = rank_rows(reading, nearest((1.0, 2.0, 0.0)), "Doc", reading.get_reader("Doc").get_positions(), 5)
        return [float(value) for value in found.values]

    shelf.write(some("a", 40))
    shelf.write(some("b", 600))
    nearest_five()
    size = shelf.reading().get_reader("Doc").size

    shelf.delete([name for name in shelf.docs if name.startswith("a")])

    assert shelf.reading().get_reader("Doc").size < size  # positions are others now
    expected = sorted(naive_cosine(vector, (1, 2, 0)) for _, vector in shelf.docs.values() if vector is not None)[:5]
    assert nearest_five() == pytest.approx(expected, abs=1e-12)


def test_only_new_rows_are_analysed(shelf: Shelf, analysed: list[int]) -> None:
    random = Random(1)
    shelf.write(some_rows(random, list(range(60))))
    check(shelf)

    for number in (60, 61, 62):
        shelf.write(some_rows(random, [number]))
        check(shelf)
    shelf.delete(["d07"])
    check(shelf)

    assert analysed == [60, 1, 2, 3]


def test_parts_of_like_size_become_one(shelf: Shelf, analysed: list[int]) -> None:
    random = Random(1)
    for start in range(0, 64, 4):
        shelf.write(some_rows(random, list(range(start, start + 4))))
        check(shelf)

    reading = shelf.reading()
    parts = list(iter_segments(reading, reading.get_reader("Doc"), "text"))
    assert len(parts) <= 4
    assert sum(analysed) <= 64 * 5


def test_an_older_snapshot_keeps_its_answers(shelf: Shelf) -> None:
    shelf.write({"a": ("graph", None), "b": ("engine", None)})
    older = shelf.reading()
    before = rank_rows(older, bm25("graph"), "Doc", older.get_reader("Doc").get_positions(), None)

    shelf.write({"c": ("graph graph", None), "a": ("engine", None)})
    check(shelf)

    again = rank_rows(older, bm25("graph"), "Doc", older.get_reader("Doc").get_positions(), None)
    assert (again.positions.tolist(), again.values.tolist()) == (before.positions.tolist(), before.values.tolist())


def test_a_version_shares_the_parts_of_the_one_before(shelf: Shelf) -> None:
    shelf.write({f"d{number}": ("graph", None) for number in range(9)})
    first = kept(shelf.reading())

    shelf.write({"e": ("engine", None)})
    second = kept(shelf.reading())

    assert second[0].index is first[0].index
    assert len(second) == 2


def kept(reading: ExecutionContext) -> tuple[column_index.TextIndexSegment, ...]:
    rows = reading.get_reader("Doc")
    list(iter_segments(reading, rows, "text"))
    found: ColumnIndex = rows.columns.get_or_derive(
        "text", column_index.WORDS, lambda: pytest.fail("gone"), lambda _: 0
    )
    return found.segments
