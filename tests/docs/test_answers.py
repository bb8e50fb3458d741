"""The answers on the pages are what the queries above them answer."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import answers
from omnigraph.graph import Graph
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import Scalar

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


def test_the_table_of_columns_names_the_types_that_arrow_has() -> None:
    page = (answers.ROOT / "docs/reference/query-language.md").read_text(encoding="utf-8")
    table = page.partition("\n## Results\n")[2]
    rows = re.findall(r"^\| ((?:`\w+` ?)+)(?:, enum )?\| ((?:`[\w\[\], =]+` ?)+)\|", table, re.MULTILINE)

    shown = {
        name: type_
        for names, types in rows
        for name, type_ in zip(re.findall(r"`(.+?)`", names), re.findall(r"`(.+?)`", types), strict=True)
    }

    assert shown == {scalar.value: str(to_arrow_type(scalar)) for scalar in Scalar}


def test_a_wrong_answer_is_found(graphs: dict[Path, Graph]) -> None:
    page = PAGES[0]
    text = page.read_text(encoding="utf-8")
    first = answers.answers(text)[0]
    wrong = text.replace(first.shown, "somebody\nelse\n", 1)

    assert answers.answers(wrong)[0].shown != answers.answered(graphs[page], first)
