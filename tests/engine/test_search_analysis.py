"""How texts become words, one by one and a column at a time."""

import unicodedata
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.search.tokenizer import Vocabulary, analyse, tokenize
from searching import naive_stems, naive_words

TEXTS = st.text(
    st.one_of(
        st.sampled_from(
            "abcxyz ABZ019 _-.,'\"\n\t éÉßøıİﬁΣσς①½\u0301\u0941हिन्日本Ａa❤\ufe0f\u00a0—…𝔘\U0001f600=≠<\u0338"
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
)


def column_words(texts: list[str | None]) -> list[list[str]]:
    """The words of each text, as a column gets them."""
    vocabulary = Vocabulary()
    found = []
    for part in analyse(pa.array(texts, pa.string()), vocabulary):
        for start, stop in zip(part.starts[:-1].tolist(), part.starts[1:].tolist(), strict=True):
            found.append([vocabulary.words[number] for number in part.words[start:stop].tolist()])
    return found


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Running RUNS ran", ["run", "run", "ran"]),
        ("résumé Resume", ["resum", "resum"]),
        ("Ångström, angstrom", ["angstrom", "angstrom"]),
        ("straße STRASSE", ["strass", "strass"]),
        ("Łódź Þór Ærø", ["lodz", "thor", "aero"]),
        ("e\u0301te\u0301 été", ["ete", "ete"]),
        ("İstanbul istanbul", ["istanbul", "istanbul"]),
        ("ＡＢＣ ﬁne ①", ["abc", "fine", "1"]),
        ("ΟΔΟΣ οδος οδός", ["οδοσ", "οδοσ", "οδόσ"]),
        ("हिन्दी 日本語", ["हिन्दी", "日本語"]),
        ("foo_bar foo-bar don't C++", ["foo", "bar", "foo", "bar", "don", "t", "c"]),
        ("willing, the will to be", ["will"]),
        ("the and of", []),
        ("❤️ — …", []),
        ("x\u2260y x=\u0338y x \u0338y", ["x", "y", "x", "y", "x", "y"]),
        ("", []),
    ],
)
def test_a_text_is_folded_and_stemmed(text: str, expected: list[str]) -> None:
    found = [word.stem for word in tokenize(text)]

    assert found == expected


@given(st.lists(st.none() | TEXTS, max_size=6))
def test_a_column_is_analysed_like_its_texts(texts: list[str | None]) -> None:
    found = column_words(texts)

    assert found == [naive_words(text or "") for text in texts]
    assert [[word.folded for word in tokenize(text or "")] for text in texts] == found


@given(TEXTS)
def test_folding_twice_changes_nothing(text: str) -> None:
    once = [word.folded for word in tokenize(text)]

    twice = [word.folded for word in tokenize(" ".join(once))]

    assert twice == once


@given(TEXTS, st.sampled_from(["NFC", "NFD"]))
def test_two_spellings_of_a_text_have_the_same_words(text: str, form: Literal["NFC", "NFD"]) -> None:
    spelt = unicodedata.normalize(form, text)

    assert column_words([spelt]) == column_words([text])
    assert list(tokenize(spelt)) == list(tokenize(text))


@given(TEXTS)
def test_a_query_is_analysed_like_a_text(text: str) -> None:
    assert [word.stem for word in tokenize(text)] == naive_stems(text)


def test_a_long_column_is_cut_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.engine.search.tokenizer._CHUNK_BYTES", 7)
    texts = ["ab cd", "", None, "efgh ijkl mnop qrst", "u", "v w"]

    found = column_words(texts)

    assert found == [["ab", "cd"], [], [], ["efgh", "ijkl", "mnop", "qrst"], ["u"], ["v", "w"]]


def test_words_of_neighbouring_rows_are_not_joined() -> None:
    assert column_words(["ab", "cd", " ef", "gh "]) == [["ab"], ["cd"], ["ef"], ["gh"]]


def test_a_slice_of_a_column_is_analysed_by_itself() -> None:
    vocabulary = Vocabulary()
    sliced = pa.array(["one", "two three", None, "four"]).slice(1, 2)

    (part,) = analyse(sliced, vocabulary)

    assert (vocabulary.words, part.words.tolist(), part.starts.tolist()) == (["two", "three"], [0, 1], [0, 2, 2])
