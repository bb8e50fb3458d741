"""The registry of codes, the source, the corpus and the reference page agree on which codes there are."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from corpus_format import read_cases
from omnigraph.lang.diagnostic_codes import CODES

ROOT = Path(__file__).parents[2]
SOURCES = [path for room in ("lang", "schema", "query") for path in (ROOT / "src/omnigraph" / room).rglob("*.py")]
REGISTRY = ROOT / "src/omnigraph/lang/diagnostic_codes.py"
REFERENCE = (ROOT / "docs/reference/diagnostics.md").read_text(encoding="utf-8")

CODE = re.compile(r"[SQLC]\d{3}|T\d{1,2}|D\d|OG-[A-Z]{2}-\d{3}")
SECTION = re.compile(rf"^### (?P<code>{CODE.pattern})\n\n(?P<severity>Error|Warning): (?P<meaning>.+)\.$", re.MULTILINE)


@cache
def codes_in_source() -> tuple[tuple[str, str], ...]:
    """Every string of the source that looks like a code, with its place."""
    return tuple(_codes_in_source())


@cache
def codes_in_corpus() -> tuple[tuple[str, str], ...]:
    """Every code that a case expects, with its case."""
    return tuple(_codes_in_corpus())


def _codes_in_source() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        if path == REGISTRY:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                yield node.value, f"{path.relative_to(ROOT)}:{node.lineno}"


def _codes_in_corpus() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "tests/corpus").glob("*/*.case")):
        for case in read_cases(path):
            yield from ((code, f"{path.relative_to(ROOT)}:{case.line}") for code in case.codes)


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_used_by_the_source(code: str) -> None:
    places = [place for used, place in codes_in_source() if used == code]

    assert places, f"no string of the source is {code}"


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_a_case(code: str) -> None:
    places = [place for expected, place in codes_in_corpus() if expected == code]

    assert places, f"no case expects {code}"


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_explained_with_its_severity_and_meaning(code: str) -> None:
    explained = {match["code"]: (match["severity"].lower(), match["meaning"]) for match in SECTION.finditer(REFERENCE)}

    assert explained.get(code) == (CODES[code].severity.value, CODES[code].meaning)


def test_every_code_of_the_source_is_registered() -> None:
    unknown = [(code, place) for code, place in codes_in_source() if code not in CODES]

    assert not unknown


def test_every_code_of_the_corpus_is_registered() -> None:
    unknown = [(code, place) for code, place in codes_in_corpus() if code not in CODES]

    assert not unknown


def test_every_code_of_the_reference_is_registered_and_explained_once() -> None:
    headings = re.findall(r"^### (\S+)$", REFERENCE, re.MULTILINE)

    assert sorted(headings) == sorted(CODES)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_every_code_that_a_page_mentions_is_registered(page: Path) -> None:
    mentioned = set(re.findall(rf"`({CODE.pattern})`", page.read_text(encoding="utf-8")))

    assert mentioned <= CODES.keys()
