"""Capital and small letters follow Unicode's full mappings."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.engine.letter_case import lower_texts, upper_texts


@pytest.mark.parametrize(
    "text, capitals",
    [
        ("straße", "STRASSE"),
        ("ﬁn \u0390", "FIN \u0399\u0308\u0301"),
        ("ᾳ", "ΑΙ"),
        ("éa", "ÉA"),
        ("abc 1", "ABC 1"),
        ("ẞ", "ẞ"),
        ("", ""),
    ],
)
def test_a_letter_may_become_several_capitals(text: str, capitals: str) -> None:
    assert upper_texts(pa.array([text])).to_pylist() == [capitals]


@pytest.mark.parametrize(
    "text, small", [("ÄB", "äb"), ("İ", "i̇"), ("ΑΣ", "ασ"), ("ẞ", "ß"), ("ABC 1", "abc 1"), ("", "")]
)
def test_small_letters_do_not_depend_on_their_neighbours(text: str, small: str) -> None:
    assert lower_texts(pa.array([text])).to_pylist() == [small]


def test_every_letter_that_expands_is_known() -> None:
    code_points = [chr(number) for number in range(1, 0x110000) if not 0xD800 <= number <= 0xDFFF]
    expanding = pa.array([letter for letter in code_points if len(letter.upper()) > 1 or len(letter.lower()) > 1])

    assert upper_texts(expanding).to_pylist() == [letter.upper() for letter in expanding.to_pylist()]
    assert lower_texts(expanding).to_pylist() == [letter.lower() for letter in expanding.to_pylist()]


def test_null_stays_null_and_slices_keep_their_place() -> None:
    texts = pa.array(["x", "aß", None, "ß"])[1:]

    assert upper_texts(texts).to_pylist() == ["ASS", None, "SS"]
    assert pc.all(pc.is_null(lower_texts(pa.nulls(3, pa.string())))).as_py()
