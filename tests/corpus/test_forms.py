"""Every form of the query language is accepted, rejected and answered by cases, and has an example that is run."""

import re
from pathlib import Path

import pytest

from corpus_format import Case, read_cases
from language_forms import FORMS, WRITES

CORPUS = Path(__file__).parent
DOCS = CORPUS.parents[1] / "docs"
PAGES = ("reference/query-language.md", "how-to/come-from-cypher-and-sql.md")
EXAMPLE = re.compile(r"^```gq[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CASES = [case for path in sorted(CORPUS.glob("*/*.case")) for case in read_cases(path)]
"""Accepted and rejected texts are also parsed by the oracle, printed, formatted and planned: see `corpus_runner`."""


def shows(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.DOTALL) is not None


def of_form(pattern: str) -> list[Case]:
    return [case for case in CASES if shows(pattern, read_text(case))]


def read_text(case: Case) -> str:
    return "\n".join([*case.blocks.values(), *(write.text for write in case.writes)])


@pytest.mark.parametrize("form", [*FORMS, *WRITES])
def test_a_form_is_accepted_and_rejected(form: str) -> None:
    cases = of_form((FORMS | WRITES)[form])

    assert any(not case.expects_errors for case in cases), "accepted"
    assert any(case.expects_errors for case in cases), "rejected"


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_a_read_is_answered(form: str) -> None:
    assert any(case.answers for case in of_form(FORMS[form]))


@pytest.mark.parametrize("form", WRITES)
def test_a_form_of_a_mutation_is_run(form: str) -> None:
    assert any(case.writes for case in of_form(WRITES[form]))


@pytest.mark.parametrize("form", [*FORMS, *WRITES])
def test_a_form_has_an_example(form: str) -> None:
    pages = [(DOCS / page).read_text(encoding="utf-8") for page in PAGES]
    examples = [text for page in pages for text in EXAMPLE.findall(page)]

    assert any(shows((FORMS | WRITES)[form], text) for text in examples)
