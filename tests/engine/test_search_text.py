"""Text predicates: the same rows as one text after the other would be found."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.query_budget import QueryTimeoutError
from omnigraph.engine.search.fuzzy_terms import Spellings
from omnigraph.engine.search.inverted_index import build_index
from omnigraph.engine.search.text_match import find_rows, parse_text_query
from omnigraph.query.expr import TextMode
from searching import naive_distance, naive_match, naive_stems

WORDS = st.sampled_from(
    (
        *("run", "running", "runs", "runnig", "graph", "graphs", "grpah", "engine", "the", "a", "go", "goes", "jonh"),
        *("john", "café", "cafe", "ΣΑΣ", "日本", "x", "of", "state", "art", "résumé", "resume"),
    )
)
TEXTS = st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=12)
QUOTED = st.lists(st.one_of(WORDS, st.sampled_from(['"', '" "'])), max_size=8).map(" ".join)
LETTERS = st.text("abcé日", min_size=1, max_size=7)


def rows_found(texts: list[str | None], mode: TextMode, query: str, edits: int | None = None) -> list[int]:
    found: list[int] = find_rows(
        build_index(pa.array(texts, pa.string())), parse_text_query(mode, query, edits)
    ).tolist()
    return found


@given(st.lists(st.none() | TEXTS, max_size=8), st.sampled_from([TextMode.ANY, TextMode.ALL]), TEXTS | QUOTED)
def test_search_finds_what_each_text_by_itself_says(texts: list[str | None], mode: TextMode, query: str) -> None:
    found = rows_found(texts, mode, query)

    assert found == [row for row, text in enumerate(texts) if naive_match(mode, text, query)]


@given(st.lists(st.none() | TEXTS, max_size=8), TEXTS, st.none() | st.integers(0, 4))
def test_fuzzy_finds_what_each_text_by_itself_says(texts: list[str | None], query: str, edits: int | None) -> None:
    found = rows_found(texts, TextMode.FUZZY, query, edits)

    assert found == [row for row, text in enumerate(texts) if naive_match(TextMode.FUZZY, text, query, edits)]


@given(st.lists(TEXTS, max_size=8), TEXTS)
def test_whatever_search_finds_fuzzy_finds_too(texts: list[str | None], query: str) -> None:
    plain, fuzzy = rows_found(texts, TextMode.ANY, query), rows_found(texts, TextMode.FUZZY, query, 0)

    assert set(plain) <= set(fuzzy)


@given(st.lists(LETTERS, max_size=12, unique=True), LETTERS, st.integers(0, 5))
def test_near_words_are_those_within_the_distance(words: list[str], word: str, edits: int) -> None:
    found = Spellings(words).find_within(word, edits).tolist()

    assert found == [place for place, other in enumerate(words) if naive_distance(word, other) <= edits]


@pytest.mark.parametrize(
    "word, other, edits",
    [
        ("jonh", "john", 1),
        ("ca", "abc", 3),  # two, if the exchanged letters could be parted again
        ("ab", "bca", 3),
        ("abcd", "badc", 2),
        ("rgahp", "graph", 2),
        ("grpha", "graph", 2),
        ("tabel", "table", 1),
    ],
)
def test_an_edit_distance_edits_no_letter_twice(word: str, other: str, edits: int) -> None:
    assert Spellings([other]).find_within(word, edits).tolist() == [0]
    assert Spellings([other]).find_within(word, edits - 1).tolist() == []


@pytest.mark.parametrize(
    "query, text, edits, matches",
    [
        ("gp", "go", None, False),
        ("cta", "cat", None, True),
        ("grahp", "graph", None, True),
        ("rgahp", "graph", None, False),  # two edits in a word of five letters
        ("rgahp", "graph", 2, True),
        ("rgahps", "graphs", None, True),  # six letters
        ("elefant", "self denial", None, False),  # its stem has four letters
        ("hapiness", "a hip", None, False),
        ("hapiness", "happiness", None, True),
        ("ca", "abc", 2, False),
        ("ca", "abc", 3, True),
    ],
)
def test_the_length_of_a_word_says_how_many_edits_it_may_have(
    query: str, text: str, edits: int | None, matches: bool
) -> None:
    assert rows_found([text], TextMode.FUZZY, query, edits) == ([0] if matches else [])


@pytest.mark.parametrize(
    "query, text, matches",
    [
        ('"graph engine"', "A graph engine runs", True),
        ('"graph engine"', "engines of graphs", False),
        ('"graph engine"', "The graphs' engines", True),
        ('"state of the art"', "state-of-the-art", True),
        ('"state of the art"', "the art of the state", False),
        ('fast "graph engine"', "a graph engine that is fast", True),
        ('fast "graph engine"', "a graph engine", False),
        ('"graph engine" "fast query"', "fast queries of a graph engine", True),
        ('graph "engine', "an engine of graphs", True),
        ('"graph"', "graphs", True),
        ('""', "graph", False),
        ('"the"', "the", False),
        ('"run run"', "run", False),
        ('"run run"', "running, runs", True),
    ],
)
def test_quoted_parts_are_phrases_and_the_rest_is_words(query: str, text: str, matches: bool) -> None:
    assert rows_found([text], TextMode.ALL, query) == ([0] if matches else [])


def test_a_phrase_does_not_run_over_the_end_of_a_text() -> None:
    assert rows_found(["big graph", "engine big", "graph engine"], TextMode.ALL, '"graph engine"') == [2]


def test_long_candidates_are_searched_for_a_phrase_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.engine.search.text_match._MAX_CHUNK_WORDS", 3)
    texts: list[str | None] = [
        "x y z graph engine",
        "graph engine",
        "engine graph",
        "graph",
        "graph x engine graph engine",
    ]

    assert rows_found(texts, TextMode.ALL, '"graph engine"') == [0, 1, 4]


@pytest.mark.parametrize(
    "query, text, edits, matches",
    [
        ("jonh", "John", None, True),
        ("johnn", "John", None, True),
        ("jn", "Jo", None, False),
        ("runnig", "running", None, True),
        ("running", "runs", 0, True),
        ("grahp engin", "an engine", None, True),
        ("elephant", "elefant", None, True),
        ("elephant", "elefant", 1, False),
        ("the", "she", 1, False),
    ],
)
def test_fuzzy_counts_edits_of_words_and_of_their_stems(
    query: str, text: str, edits: int | None, matches: bool
) -> None:
    assert rows_found([text], TextMode.FUZZY, query, edits) == ([0] if matches else [])


@pytest.mark.parametrize("mode", list(TextMode))
@pytest.mark.parametrize("query", ["", "the of", "…", '"', "❤️"])
def test_a_query_without_words_finds_nothing(mode: TextMode, query: str) -> None:
    assert rows_found(["the of", "", "graph"], mode, query) == []


@given(st.lists(st.none() | TEXTS, max_size=8))
def test_an_index_knows_how_often_a_row_has_a_word(texts: list[str | None]) -> None:
    index = build_index(pa.array(texts, pa.string()))

    counted = {}
    for stem, token in index.tokens.items():
        rows, times = index.get_postings(token)
        counted.update({(stem, row): n for row, n in zip(rows.tolist(), times.tolist(), strict=True)})
    stems = [naive_stems(text or "") for text in texts]
    assert counted == {(stem, row): some.count(stem) for row, some in enumerate(stems) for stem in some}
    assert index.lengths.tolist() == list(map(len, stems))
    assert index.has_text.tolist() == [text is not None for text in texts]


def test_a_long_word_is_given_up_when_there_is_no_time_left() -> None:
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 10:
            raise QueryTimeoutError(1.0)

    with pytest.raises(QueryTimeoutError):
        find_rows(build_index(pa.array(["ab" * 100])), parse_text_query(TextMode.FUZZY, "abc" * 60, 150), check)


def test_a_distance_of_more_letters_than_there_are_finds_every_word_at_once() -> None:
    calls: list[None] = []

    found = find_rows(
        build_index(pa.array(["graph", "engine", None])),
        parse_text_query(TextMode.FUZZY, "ab" * 5_000, 10_000),
        lambda: calls.append(None),
    )

    assert found.tolist() == [0, 1]
    assert len(calls) < 10
