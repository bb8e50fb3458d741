"""Passages of texts with their matching words marked, like those of the reference."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_values
from omnigraph.engine.query_budget import QueryCancelledError
from omnigraph.engine.search.snippet import MAX_PASSAGE, build_snippets
from omnigraph.engine.search.text_match import stem_query

WORDS = ("running", "graph", "graphs", "engine", "queries", "cats", "cafe", "the")


def snippet(text: str | None, query: str) -> str | None:
    (found,) = build_snippets(pa.array([text], pa.utf8()), stem_query(query), lambda: None).to_pylist()
    assert found is None or isinstance(found, str)
    return found


@given(
    st.lists(st.sampled_from((*WORDS, "\n", ", ", "table " * 9)), max_size=60),
    st.lists(st.sampled_from(WORDS), max_size=4),
)
def test_a_snippet_is_that_of_the_reference(parts: list[str], query: list[str]) -> None:
    text = " ".join(parts)

    assert snippet(text, " ".join(query)) == reference_values.snippet(text, " ".join(query))


@pytest.mark.parametrize(
    "text, query, expected",
    [
        (None, "fox", None),
        ("no match", "fox", None),
        ("Foxes run", "fox", "**Foxes** run"),
        ("a fox\n\tand\n a dog", "dog fox", "a **fox** and a **dog**"),
        ("fox " + "x " * 200 + "fox dog", "fox dog", "…" + "x " * 76 + "**fox** **dog**"),
        ("a" * 300 + " fox " + "b" * 300, "fox", "…**fox**…"),
    ],
)
def test_the_passage_with_the_most_different_words_is_shown(text: str | None, query: str, expected: str | None) -> None:
    assert snippet(text, query) == expected


def test_a_passage_is_short_and_cut_between_words() -> None:
    found = snippet("lorem ipsum " * 50 + "the fox jumped " + "dolor sit " * 50, "foxes")

    assert found is not None
    assert found.startswith("…")
    assert found.endswith("…")
    inside = found.strip("…").replace("**", "")
    assert len(inside) <= MAX_PASSAGE
    assert set(inside.split()) <= {"lorem", "ipsum", "the", "fox", "jumped", "dolor", "sit"}


def test_equal_texts_have_equal_passages_and_nulls_stay() -> None:
    found = build_snippets(pa.array(["a fox", None, "a fox"]), ("fox",), lambda: None)

    assert found.to_pylist() == ["a **fox**", None, "a **fox**"]


def test_many_texts_can_be_cancelled() -> None:
    def check() -> None:
        raise QueryCancelledError

    with pytest.raises(QueryCancelledError):
        build_snippets(pa.array(["a fox"]), ("fox",), check)
