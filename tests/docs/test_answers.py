"""The answers on the reference pages are what the queries above them answer."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import answers
from omnigraph.graph import Graph

PAGES = answers.pages()
ASKED = [
    pytest.param(page, one, id=f"{page.name}:{one}")
    for page in PAGES
    for one in answers.answers(page.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def graphs() -> Iterator[dict[Path, Graph]]:
    """The graph of each page."""
    with ExitStack() as stack:
        yield {page: stack.enter_context(answers.graph_of(page.read_text(encoding="utf-8"))) for page in PAGES}


@pytest.mark.parametrize("page, asked", ASKED)
def test_an_answer_is_what_the_page_says(page: Path, asked: answers.Answer, graphs: dict[Path, Graph]) -> None:
    found = answers.answered(graphs[page], asked)

    assert found == asked.shown, "run `make docs`"


@pytest.mark.parametrize("page", sorted((answers.ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_every_answer_stands_below_its_query(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text.count("\n```result") == len(answers.answers(text))


def test_the_query_language_shows_what_its_rules_mean() -> None:
    assert len(ASKED) >= 30


def test_a_wrong_answer_is_found(graphs: dict[Path, Graph]) -> None:
    page = PAGES[0]
    text = page.read_text(encoding="utf-8")
    first = answers.answers(text)[0]
    wrong = text.replace(first.shown, "somebody\nelse\n", 1)

    assert answers.answers(wrong)[0].shown != answers.answered(graphs[page], first)
