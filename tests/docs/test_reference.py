"""The examples of the reference pages are what they say: accepted, or refused with that code.

A fence is marked `pg` or `gq`, alone (accepted), or followed by `error CODE` or `warning CODE` (exactly that finding).
Queries are about the first schema of their page.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from corpus_runner import Outcome, accepted_catalog, check_queries, check_schema
from omnigraph.lang.diagnostic_rendering import render_text

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/reference").glob("*.md"))
FENCE = re.compile(r"^```(?P<info>\S[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
INFO = re.compile(r"(?P<language>pg|gq)(?: (?P<severity>error|warning) (?P<code>\S+))?")


@dataclass(frozen=True)
class Example:
    """A fence of a page."""

    page: Path
    line: int
    info: str
    text: str
    schema: str | None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def examples() -> Iterator[Example]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        schema: str | None = None
        for match in FENCE.finditer(text):
            info = match["info"].strip()
            if info.split(maxsplit=1)[0] not in ("pg", "gq"):
                continue
            if info == "pg" and schema is None:
                schema = match["text"]
            yield Example(page, text.count("\n", 0, match.start()) + 1, info, match["text"], schema)


def outcome_of(example: Example, language: str, *, lint: bool) -> Outcome:
    if language == "pg":
        return check_schema(example.text, lint=lint)
    assert example.schema is not None, "a `gq` example needs a `pg` example before it on its page"
    return check_queries(example.text, accepted_catalog(example.schema, "the page's first schema"), lint=lint)


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_an_example_is_what_it_says(example: Example) -> None:
    info = INFO.fullmatch(example.info)
    assert info is not None, f"{example}: can't read the mark `{example.info}`"

    outcome = outcome_of(example, info["language"], lint=info["severity"] == "warning")

    found = [(finding.severity.value, finding.code) for finding in outcome.findings]
    expected = [(info["severity"], info["code"])] if info["code"] else []
    assert found == expected, f"{example}\n{render_text(outcome.source, outcome.findings)}"


def test_there_are_examples_of_both_languages() -> None:
    languages = {example.info[:2] for example in examples()}

    assert languages == {"pg", "gq"}
