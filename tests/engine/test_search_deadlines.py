"""A question may be as long as its caller likes: looking at it ends with the query's time, and within its memory."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omnigraph.clock import SystemClock
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.query_budget import Budget, QueryMemoryError, QueryTimeoutError
from omnigraph.engine.search import fuzzy_terms, text_match, tokenizer, vector_metric
from omnigraph.engine.search.fuzzy_terms import Spellings
from omnigraph.engine.search.ranking import rank_rows
from omnigraph.engine.search.text_match import find_text_positions, parse_text_query
from omnigraph.query.expr import TextMode
from searching import Shelf, bm25, nearest
from searching import text_match as matching

WORDS = [f"word{number:x}" for number in range(2_000)]
TIME = 60
"""So many looks at the clock are more than a short question needs."""


class Ticking(SystemClock):
    """A second goes by whenever somebody looks."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Documents whose words are in memory."""
    made = Shelf(tmp_path_factory.mktemp("shelf") / "g.omni")
    made.write({f"d{place}": (" ".join(WORDS[place : place + 20]), None) for place in range(1_000)})
    find_text_positions(made.reading(), matching(TextMode.ANY, "word1"), "Doc")
    return made


def within(shelf: Shelf, *, seconds: float | None = None, memory_bytes: int | None = None) -> ExecutionContext:
    return replace(shelf.reading(), budget=Budget(Ticking(), seconds=seconds, memory_bytes=memory_bytes))


def ask(mode: TextMode, edits: int | None = None) -> Callable[[ExecutionContext, str], object]:
    return lambda reading, text: find_text_positions(reading, matching(mode, text, edits), "Doc")


def rank(reading: ExecutionContext, text: str) -> object:
    return rank_rows(reading, bm25(text), "Doc", reading.get_reader("Doc").get_positions(), 3)


WAYS = {
    "search": ask(TextMode.ANY),
    "match_text": ask(TextMode.ALL),
    "fuzzy": ask(TextMode.FUZZY),
    "bm25": rank,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_long_question_ends_with_the_time_of_its_query(
    shelf: Shelf, way: Callable[[ExecutionContext, str], object]
) -> None:
    way(within(shelf, seconds=TIME), "word5")

    with pytest.raises(QueryTimeoutError):
        way(within(shelf, seconds=TIME), "word5 nothing " * TIME * tokenizer._RUNS_PER_CHECK)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_words_of_a_question_count_as_its_memory(
    shelf: Shelf, way: Callable[[ExecutionContext, str], object]
) -> None:
    allowed = 16 * 2**20
    way(within(shelf, memory_bytes=allowed), "word5")

    with pytest.raises(QueryMemoryError, match="looks for"):
        way(within(shelf, memory_bytes=allowed), "word5 " * (allowed // text_match.BYTES_PER_LETTER // 6 + 1))


def test_distances_of_many_rows_are_computed_within_the_time_of_their_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_metric, "CHUNK_ROWS", 2)
    made = Shelf(tmp_path / "g.omni")
    made.write({f"d{place}": (None, (1.0, place, 0.0)) for place in range(200)})
    at = made.reading().get_reader("Doc").get_positions()
    found = rank_rows(within(made, seconds=1_000), nearest([1.0, 0.0, 0.0]), "Doc", at, None)

    assert len(found.positions) == 200
    with pytest.raises(QueryTimeoutError):
        rank_rows(within(made, seconds=TIME), nearest([1.0, 0.0, 0.0]), "Doc", at, None)


def test_phrases_are_asked_one_by_one_within_the_time_of_their_query(shelf: Shelf) -> None:
    phrases = " ".join(f'"{WORDS[place]} {WORDS[place + 1]}"' for place in range(19))

    assert len(find_text_positions(within(shelf, seconds=1_000), matching(TextMode.ALL, phrases), "Doc"))
    with pytest.raises(QueryTimeoutError):
        find_text_positions(within(shelf, seconds=30), matching(TextMode.ALL, phrases), "Doc")


def test_a_phrase_that_is_asked_twice_is_looked_for_once() -> None:
    found = parse_text_query(TextMode.ALL, '"fast graphs" "fast  graphs!" "fast"')

    assert found == parse_text_query(TextMode.ALL, '"fast graphs"')


def test_words_of_any_length_are_compared_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    words = tuple(f"{number:06d}" for number in range(500))
    expected = Spellings(words).find_within("000499", 2)
    largest: list[int] = []
    compare = fuzzy_terms._compute_distances

    def noted(word: np.ndarray, others: np.ndarray, check: tokenizer.Check) -> np.ndarray:
        largest.append(others.size)
        return compare(word, others, check)

    monkeypatch.setattr(fuzzy_terms, "_MAX_CHUNK_LETTERS", 60)
    monkeypatch.setattr(fuzzy_terms, "_compute_distances", noted)
    found = Spellings(words).find_within("000499", 2)

    assert found.tolist() == expected.tolist()
    assert len(found) > 20
    assert max(largest) <= 60


def test_comparing_one_endless_word_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy_terms, "_LETTERS_BETWEEN_CHECKS", 16)
    clock = Ticking()

    Spellings(["a" * 400]).find_within("b" * 3, 399, Budget(clock, seconds=10**6).check)

    assert clock.looks > 3 * 400 // 16
