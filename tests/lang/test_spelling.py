import pytest

from omnigraph.lang.spelling import Suggestions, find_closest

WORDS = ("name", "age", "birthday", "email", "created_at")


@pytest.mark.parametrize(
    "word, meant",
    [
        ("nmae", "name"),
        ("nam", "name"),
        ("names", "name"),
        ("emial", "email"),
        ("brithdya", "birthday"),
        ("createdAt", "created_at"),
        ("Name", "name"),
        ("AGE", "age"),
    ],
)
def test_a_slip_finds_its_word(word: str, meant: str) -> None:
    assert find_closest(word, WORDS) == meant


@pytest.mark.parametrize("word", ["", "x", "ag", "phone", "title", "eman"])
def test_a_word_that_is_not_near_finds_nothing(word: str) -> None:
    assert find_closest(word, WORDS) is None


def test_a_word_is_no_suggestion_for_itself() -> None:
    assert find_closest("name", ["name"]) is None


def test_a_tie_goes_to_the_same_first_letter_and_then_to_the_alphabet() -> None:
    assert find_closest("cart", ["bart", "card", "carb"]) == "carb"
    assert find_closest("cart", reversed(["bart", "card", "carb"])) == "carb"


def test_no_time_is_spent_on_endless_words() -> None:
    assert find_closest("a" * 1_000_000, ["a" * 999_999]) is None


def test_a_report_gets_fifty_suggestions_and_no_more() -> None:
    suggestions = Suggestions()

    found = [suggestions.find_closest("nmae", ["name"]) for _ in range(60)]

    assert found == ["name"] * 50 + [None] * 10
